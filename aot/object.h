/* object: what a net consists of, as an object file, an archive of it, and a shared library.
 *
 * Code and data refer to each other only relative to where they are, so that a linker has little to
 * do and a loader nothing: the shared library has no relocations.  x86-64 ELF alone. */
#ifndef HT_AOT_OBJECT_H
#define HT_AOT_OBJECT_H

#include "base/base.h"

enum ht_obj_place {
	HT_OBJ_TEXT,
	HT_OBJ_PLAN,    /* read-only */
	HT_OBJ_WEIGHTS, /* likewise; may be large */
	HT_OBJ_STATE,   /* zeros, to be written to */
	HT_OBJ_PLACES
};

struct ht_obj_symbol {
	const char *name;
	enum ht_obj_place place;
	uint64_t offset, bytes;
	bool function, global;
};

/* At `offset` of `in`: the distance from there to `addend` of `to`, in 8 bytes or in 4. */
struct ht_obj_reference {
	enum ht_obj_place in;
	uint64_t offset;
	bool wide;
	enum ht_obj_place to;
	int64_t addend;
};

/* Bytes that lie apart, one after the other. */
struct ht_obj_bytes {
	struct ht_arena *arena;
	struct ht_str *piece;
	size_t n, cap;
	uint64_t bytes;
};
void ht_obj_bytes_init(struct ht_obj_bytes *p, struct ht_arena *a);
void ht_obj_bytes_add(struct ht_obj_bytes *p, const void *bytes, size_t n); /* not copied */
void ht_obj_bytes_pad(struct ht_obj_bytes *p, uint64_t align);              /* with zeros */
enum ht_status ht_obj_bytes_write(
	const struct ht_obj_bytes *p, const char *path, struct ht_diags *d);

struct ht_obj {
	struct ht_buf text, plan;
	struct ht_obj_bytes weights;
	uint64_t state_bytes;
	struct ht_obj_symbol *symbol;
	size_t symbols, symbol_cap;
	struct ht_obj_reference *reference;
	size_t references, reference_cap;
};

enum { HT_OBJ_ALIGN = 64 /* of each place */ };

void ht_obj_init(struct ht_obj *o, struct ht_arena *a);
void ht_obj_symbol(struct ht_obj *o, struct ht_obj_symbol s);
void ht_obj_refer(struct ht_obj *o, struct ht_obj_reference r);

/* Adds a name to a table of them; returns where. */
uint32_t ht_obj_name(struct ht_buf *b, const char *name);

/* Symbols that are not global may appear twice.  The pieces live in `a` and refer to the net's. */
struct ht_obj_bytes ht_obj_file(const struct ht_obj *o, struct ht_arena *a);
/* An archive of that one file, with the index that linkers want. */
struct ht_obj_bytes ht_obj_archive(const struct ht_obj *o, struct ht_arena *a);
/* shared.c: exports the global symbols. */
struct ht_obj_bytes ht_obj_shared(const struct ht_obj *o, const char *soname, struct ht_arena *a);

#endif
