/* artefact: compiled programs as a file, .htx (docs/artefact.md has the format).
 *
 * An artefact holds variants of one model: a plan each, for a target, a policy and shapes of the
 * inputs.  Kernels and weights of equal bytes are there once, whichever variants use them; weights may
 * lie in files beside it.  The header is held against SHA-256, and so is each part before it is used;
 * weights against XXH3, a mebibyte at a time, when they are used first.  Code is copied to memory of
 * its own, checked there, and only then made executable.  Whoever can write an artefact can run code
 * as its reader: like a shared library. */
#ifndef HT_ARTEFACT_H
#define HT_ARTEFACT_H

#include "base/base.h"
#include "base/crypto.h"
#include "image/image.h"

enum { HT_DIGEST = 32 /* bytes of a SHA-256 */ };

/* ---- plan.c: what a variant is, apart from its code and weights ---- */

struct ht_plan_weight {
	uint64_t number; /* in the index */
	uint64_t bytes;
};

/* Machine code of a kernel; of one that is a function of the library all is 0. */
struct ht_plan_code {
	uint64_t offset, bytes, entry; /* in the section of code; entry: from offset */
	uint8_t digest[HT_DIGEST];
};

struct ht_program_plan {
	const char *target, *policy;
	const char *provenance; /* members of the manifest's JSON, for whoever saves it again */
	uint64_t live_bytes, weight_bytes, code_bytes, parts;
	uint64_t low_nodes, float_nodes, casts;
	size_t weights, constants, kernels;
	struct ht_plan_weight *weight;
	int64_t *constant;           /* by constant of the image: a weight of the list */
	struct ht_plan_code *kernel; /* by kernel of the image */
	struct ht_str image;         /* at a multiple of HT_IMAGE_ALIGN */
};
static inline const struct ht_image *ht_plan_image(const struct ht_program_plan *p)
{
	return (const struct ht_image *)(const void *)p->image.p;
}

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out);
/* Everything that is read lives in `a`.  NULL, or what is wrong; numbers that do not fit together
 * are wrong, so that a plan that is read can be run, where weights and code are as long as it says. */
const char *ht_plan_read(struct ht_str bytes, struct ht_arena *a, struct ht_program_plan *p);

/* ---- index.c: what an artefact has ---- */

struct ht_index_input {
	const char *name, *alias; /* "": no other name */
	size_t rank;
	int64_t *dim;
};

struct ht_index_variant {
	const char *target, *policy;
	size_t inputs;
	struct ht_index_input *input;
	uint64_t plan_offset, plan_bytes; /* in the section of plans */
	uint8_t digest[HT_DIGEST];        /* of the plan */
};

/* A file of weights beside the artefact: weight_ and the digits of its SHA-256. */
struct ht_index_file {
	uint8_t digest[HT_DIGEST];
	uint64_t bytes;
};

enum { HT_WEIGHT_CHUNK = 1 << 20 };
struct ht_index_weight {
	uint64_t file; /* 0: the section of weights; i + 1: file i */
	uint64_t offset, bytes;
	size_t chunks;
	struct ht_hash *chunk; /* XXH3-128 of each mebibyte */
};

struct ht_index {
	size_t variants, files, weights;
	struct ht_index_variant *variant;
	struct ht_index_file *file;
	struct ht_index_weight *weight; /* in each file by offset */
};
void ht_index_write(const struct ht_index *x, struct ht_buf *out);
/* As ht_plan_read(); the sizes of the sections that it is about are the caller's to know. */
const char *ht_index_read(struct ht_str bytes, uint64_t plan_bytes, uint64_t weight_bytes,
	struct ht_arena *a, struct ht_index *x);
/* "weight_…" and a NUL. */
enum { HT_WEIGHT_NAME = 8 + 2 * HT_DIGEST };
void ht_weight_file_name(const uint8_t digest[HT_DIGEST], char name[HT_WEIGHT_NAME]);

/* ---- artefact_write.c: writing the file ---- */

enum ht_external {
	HT_WEIGHTS_INSIDE,
	HT_WEIGHTS_EACH, /* those of a page or more: each in a file of its own */
	HT_WEIGHTS_ONE   /* all in one file */
};

struct ht_artefact_parts {
	struct ht_str manifest, plans, code;
	struct ht_index index; /* its variants; the rest is filled in */
	struct ht_str *weight; /* that plans mean by their numbers here; no two are equal */
	size_t weights;
	enum ht_external external;
};

/* Bytes in pieces, whose concatenation they are. */
struct ht_pieces {
	struct ht_str *piece;
	size_t n;
	uint64_t bytes;
};
struct ht_artefact_header;
struct ht_artefact_bytes {
	struct ht_artefact_header *header;  /* the first piece */
	struct ht_pieces artefact, *beside; /* by file of `index` */
	size_t weights; /* which piece is the first of weights; all that follow are */
	struct ht_index index;
};
/* Lives in `a`, but for what `parts` points to. */
struct ht_artefact_bytes ht_artefact_make(
	const struct ht_artefact_parts *parts, struct ht_arena *a);
enum ht_status ht_artefact_bytes_sign(
	struct ht_artefact_bytes *b, const char *key, struct ht_diags *d);
/* The files beside it first: an artefact that is there can be loaded. */
enum ht_status ht_artefact_write(
	const char *path, const struct ht_artefact_bytes *b, struct ht_diags *d);

/* A signed copy of an artefact that is whole; `to` may be itself. */
enum ht_status ht_artefact_sign_file(const char *path, const char *key, const char *to,
	struct ht_arena *arena, struct ht_diags *d);

/* ---- artefact.c: reading it ---- */

/* What a load demands beyond its being whole. */
struct ht_artefact_trust {
	bool full;       /* every byte by SHA-256, before any is used; of signed artefacts always */
	const char *key; /* PEM file of the public key that has to have signed it; NULL: none */
	bool known;      /* these bytes were opened before, as others demanded: not `full` again */
};

struct ht_artefact {
	struct ht_file *file; /* NULL: bytes of the caller's */
	const char *path;     /* in the arena of ht_artefact_open(), as the index */
	struct ht_str bytes, manifest, plans, code, weights;
	bool is_signed;             /* which only a demanded key says to be right */
	uint8_t key[HT_PUBLIC_KEY]; /* of the signature */
	struct ht_index index;
	struct ht_file **beside; /* by file of the index; NULL: not needed yet */
	uint8_t **seen;          /* by weight: of each chunk, whether it was found whole */
	const void **kernel;     /* by kernel of the variant that was loaded: where it begins */
	void *code_copy;         /* read-execute, never writable again */
	size_t code_mapped;
};
/* Whether the file begins as an artefact does. */
bool ht_artefact_is(const char *path);
/* HT_E_INPUT when it is damaged or of another version; or without the signature
 * that is demanded, which is looked at before anything else of it.  `t` may be NULL. */
enum ht_status ht_artefact_open(const char *path, const struct ht_artefact_trust *t,
	struct ht_arena *a, struct ht_diags *d, struct ht_artefact *out);
/* Likewise of bytes in memory at a multiple of 64, which outlive it; `path` is for messages, and
 * weights' files lie beside it. */
enum ht_status ht_artefact_open_bytes(struct ht_str bytes, const char *path,
	const struct ht_artefact_trust *t, struct ht_arena *a, struct ht_diags *d,
	struct ht_artefact *out);
/* Once more what is open, which may be closed before it is: the same file, whatever has its name now. */
enum ht_status ht_artefact_open_again(const struct ht_artefact *from, struct ht_arena *a,
	struct ht_diags *d, struct ht_artefact *out);
void ht_artefact_close(struct ht_artefact *a);
/* HT_E_INPUT: `what` is wrong, and what to do. */
enum ht_status ht_artefact_refuse(
	const struct ht_artefact *a, struct ht_diags *d, const char *what);

/* ---- choose.c ---- */

struct ht_variant_wanted {
	const char *policy;                 /* NULL: that of the first variant */
	const char *target;                 /* NULL: the best one that runs here */
	const struct ht_index_input *input; /* shapes that are asked for; -1: any */
	size_t inputs;
	int64_t batch;                   /* first dimension of an input; 0: any */
	int (*rank)(const char *target); /* the higher the better; -1: it does not run here */
};
/* Of several that fit the first.  HT_E_USAGE: no such policy or target; HT_E_UNSUPPORTED: none runs
 * here; HT_E_INPUT: none has the shapes. */
enum ht_status ht_artefact_choose(const struct ht_artefact *a, const struct ht_variant_wanted *w,
	struct ht_arena *arena, struct ht_diags *d, size_t *out);

/* What is wanted of shapes; policy and target are not looked at. */
bool ht_variant_has_shapes(const struct ht_index_variant *v, const struct ht_variant_wanted *w);
bool ht_variants_share_shapes(const struct ht_index_variant *a, const struct ht_index_variant *b);

/* "POLICY for TARGET with x:1,4;y:1" */
void ht_variant_put(struct ht_buf *b, const struct ht_index_variant *v);
/* The first of `these` (by number; NULL: of all), and how many more there are. */
void ht_variants_put(struct ht_buf *b, const struct ht_index *x, const bool *these);

/* ---- artefact_load.c ---- */

/* The plan of a variant, checked, without anything that it takes to run it. */
enum ht_status ht_artefact_plan(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan);

/* The plan of a variant, with its kernels in memory (`kernel`) and the files of its weights mapped.
 * Once an artefact. */
enum ht_status ht_artefact_load(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan);
/* Where a weight of the variant that was loaded is. */
const char *ht_artefact_weight(const struct ht_artefact *a, uint64_t number);
/* Whether it is whole, as far as is not known yet; each of several threads looks at its share. */
bool ht_artefact_check_weight(
	const struct ht_artefact *a, uint64_t number, int worker, int workers);

#endif
