/* object: writes the parts of a net as an object file, an archive of it, and a shared library.
 *
 * Code and data refer to each other only by distances, so a linker has little to do and a loader
 * nothing: the shared library has no relocations.  x86-64 ELF only. */
#ifndef HT_AOT_OBJECT_H
#define HT_AOT_OBJECT_H

#include "base/base.h"

enum ht_obj_place {
	HT_OBJ_TEXT,
	HT_OBJ_PLAN,    /* read-only */
	HT_OBJ_WEIGHTS, /* read-only; may be large */
	HT_OBJ_STATE,   /* initially zero, writable */
	HT_OBJ_PLACES
};

struct ht_obj_symbol {
	const char *name;
	enum ht_obj_place place;
	uint64_t offset, bytes;
	bool function, global;
};

/* The 8 or 4 bytes at `offset` of `in` become the distance from there to `addend` of `to`. */
struct ht_obj_reference {
	enum ht_obj_place in;
	uint64_t offset;
	bool wide;
	enum ht_obj_place to;
	int64_t addend;
};

/* The concatenation of pieces of memory. */
struct ht_obj_bytes {
	struct ht_arena *arena;
	struct ht_str *piece;
	size_t n, cap;
	uint64_t bytes;
};
void ht_obj_bytes_init(struct ht_obj_bytes *p, struct ht_arena *a);
void ht_obj_bytes_add(struct ht_obj_bytes *p, const void *bytes, size_t n); /* does not copy them */
void ht_obj_bytes_pad(struct ht_obj_bytes *p, uint64_t align);              /* adds zeros */
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

enum { HT_OBJ_ALIGN = 64 /* alignment of each place */ };

void ht_obj_init(struct ht_obj *o, struct ht_arena *a);
void ht_obj_symbol(struct ht_obj *o, struct ht_obj_symbol s);
void ht_obj_refer(struct ht_obj *o, struct ht_obj_reference r);

/* Adds a name to a table of names; returns its offset. */
uint32_t ht_obj_name(struct ht_buf *b, const char *name);

/* object.c: an object file with all places.  Local symbols may have equal names.  The pieces live
 * in `a` and refer to the net's memory. */
struct ht_obj_bytes ht_obj_file(const struct ht_obj *o, struct ht_arena *a);
/* An archive with that one file and the symbol index for linkers. */
struct ht_obj_bytes ht_obj_archive(const struct ht_obj *o, struct ht_arena *a);
/* shared.c: a shared library that exports the global symbols. */
struct ht_obj_bytes ht_obj_shared(const struct ht_obj *o, const char *soname, struct ht_arena *a);

#endif
