/* artefact: compiled programs as a file, .htx (docs/artefact.md has the format).
 *
 * An artefact holds variants of one model: a plan each, for a target, a policy and shapes of the
 * inputs.  Variants share kernels and weights with equal bytes; weights may lie in files beside
 * the artefact.  The header and each part are checked by SHA-256 before use; weights by XXH3, a mebibyte
 * at a time, at their first use.  Code is copied to memory of its own, checked there, and only then made
 * executable.  As with a shared library, whoever can write an artefact can run code as its reader. */
#ifndef HT_ARTEFACT_H
#define HT_ARTEFACT_H

#include "base/base.h"
#include "base/crypto.h"
#include "image/image.h"

enum { HT_DIGEST = 32 /* bytes of a SHA-256 */ };

/* ---- plan.c: a variant without its code and weights ---- */

struct ht_plan_weight {
	uint64_t number; /* in the index of the artefact */
	uint64_t bytes;
};

/* Machine code of a kernel; all members are 0 for a function of the library. */
struct ht_plan_code {
	uint64_t offset, bytes, entry; /* in the section of code; entry: from offset */
	uint8_t digest[HT_DIGEST];
};

/* Facts of a step's kernel besides its code, for profiles. */
struct ht_plan_work {
	const char *op;         /* type of the node that it was made for */
	const char *result;     /* dtype and shape of that node's first result: "f32[1,8]" */
	const char *dtypes;     /* of the kernel's operands and results: "bf16,f32" */
	uint64_t multiply_adds; /* of one execution */
	uint64_t bytes;         /* of operands and results, each counted once */
	uint64_t limit_ps;      /* the least time of one core by the target's rates */
};

struct ht_program_plan {
	const char *target, *policy;
	const char *provenance; /* members of the manifest's JSON, to be saved again */
	uint64_t live_bytes, weight_bytes, code_bytes, parts;
	uint64_t low_nodes, float_nodes, casts;
	size_t weights, constants, kernels, works;
	struct ht_plan_weight *weight;
	int64_t *constant;           /* by constant of the image: its weight in the list */
	struct ht_plan_code *kernel; /* by kernel of the image */
	struct ht_plan_work *work;   /* of each step that runs a kernel, in order; or none */
	struct ht_str image;         /* at a multiple of HT_IMAGE_ALIGN */
};
static inline const struct ht_image *ht_plan_image(const struct ht_program_plan *p)
{
	return (const struct ht_image *)(const void *)p->image.p;
}

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out);
/* Reads a plan into `a`.  NULL, or the error; numbers that do not fit together are errors, so a plan that
 * was read can run if weights and code have the stated lengths. */
const char *ht_plan_read(struct ht_str bytes, struct ht_arena *a, struct ht_program_plan *p);

/* ---- index.c: the content of an artefact ---- */

struct ht_index_input {
	const char *name, *alias; /* alias: a second name; "": none */
	size_t rank, bounds;
	int64_t *dim;   /* negative: open */
	int64_t *bound; /* the least and the most of each open dimension, in order */
};

struct ht_index_variant {
	const char *target, *policy;
	const char *entry; /* the name of one of several entries that share variables; "": there
			    * is only one */
	size_t inputs;
	struct ht_index_input *input;
	uint64_t plan_offset, plan_bytes; /* in the section of plans */
	uint8_t digest[HT_DIGEST];        /* of the plan */
};

/* A file of weights beside the artefact.  Its name is weight_ and the digits of its SHA-256. */
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

/* The first value of a variable in a session, if no entry's image has one. */
struct ht_index_value {
	const char *name;
	const char *key; /* in checkpoints */
	uint64_t dtype;  /* enum ht_dtype */
	size_t rank;
	int64_t *dim;
	uint64_t weight; /* its elements */
};

struct ht_index {
	size_t variants, files, weights, values;
	struct ht_index_value *value;
	const char *scaled_loss, *loss_scale; /* ht_session_scale_loss(); "": there is none */
	struct ht_index_variant *variant;
	struct ht_index_file *file;
	struct ht_index_weight *weight; /* in each file by offset */
};
void ht_index_write(const struct ht_index *x, struct ht_buf *out);
/* Like ht_plan_read().  The caller states the sizes of the sections. */
const char *ht_index_read(struct ht_str bytes, uint64_t plan_bytes, uint64_t weight_bytes,
	struct ht_arena *a, struct ht_index *x);
/* "weight_…" and a NUL. */
enum { HT_WEIGHT_NAME = 8 + 2 * HT_DIGEST };
void ht_weight_file_name(const uint8_t digest[HT_DIGEST], char name[HT_WEIGHT_NAME]);

/* ---- artefact_write.c: writing the file ---- */

enum ht_external {
	HT_WEIGHTS_INSIDE,
	HT_WEIGHTS_EACH, /* each weight of a page or more in a file of its own */
	HT_WEIGHTS_ONE   /* all weights in one file */
};

struct ht_artefact_parts {
	struct ht_str manifest, plans, code;
	struct ht_index index; /* files and weights are filled in */
	struct ht_str *weight; /* by the number that plans use; no two are equal */
	size_t weights;
	enum ht_external external;
};

/* Bytes in pieces, to be concatenated. */
struct ht_pieces {
	struct ht_str *piece;
	size_t n;
	uint64_t bytes;
};
struct ht_artefact_header;
struct ht_artefact_bytes {
	struct ht_artefact_header *header;  /* the first piece */
	struct ht_pieces artefact, *beside; /* by file of `index` */
	size_t weights; /* the first piece with weights; all later ones have weights */
	struct ht_index index;
};
/* The result lives in `a` and refers to the memory of `parts`. */
struct ht_artefact_bytes ht_artefact_make(
	const struct ht_artefact_parts *parts, struct ht_arena *a);
enum ht_status ht_artefact_bytes_sign(
	struct ht_artefact_bytes *b, const char *key, struct ht_diags *d);
/* Writes the files beside it first, so that an artefact that exists can be loaded. */
enum ht_status ht_artefact_write(
	const char *path, const struct ht_artefact_bytes *b, struct ht_diags *d);

/* Writes a signed copy of an undamaged artefact; `to` may be the artefact. */
enum ht_status ht_artefact_sign_file(const char *path, const char *key, const char *to,
	struct ht_arena *arena, struct ht_diags *d);

/* ---- artefact.c: reading it ---- */

/* What a load demands in addition to an undamaged artefact. */
struct ht_artefact_trust {
	bool full;       /* every byte by SHA-256, before any is used; of signed artefacts always */
	const char *key; /* PEM file of the public key of the required signature; NULL: none */
	bool known;      /* these bytes were opened before under the same demands: `full` is not
		     * repeated */
};

struct ht_artefact {
	struct ht_file *file; /* NULL: the bytes are the caller's */
	const char *path;     /* like `index`, in the arena of ht_artefact_open() */
	struct ht_str bytes, manifest, plans, code, weights;
	bool is_signed;             /* it has a signature, which is verified only if a key is
				     * demanded */
	uint8_t key[HT_PUBLIC_KEY]; /* of the signature */
	struct ht_index index;
	struct ht_file **beside; /* by file of the index; NULL: not needed yet */
	uint8_t **seen;          /* by weight: for each chunk, whether it was checked */
	const void **kernel;     /* by kernel of the loaded variant: its address */
	void *code_copy;         /* read-execute, never writable again */
	size_t code_mapped;
};
/* Whether the file begins as an artefact does. */
bool ht_artefact_is(const char *path);
/* HT_E_INPUT when it is damaged, of another version, or lacks the demanded signature, which is checked
 * first.  `t` may be NULL. */
enum ht_status ht_artefact_open(const char *path, const struct ht_artefact_trust *t,
	struct ht_arena *a, struct ht_diags *d, struct ht_artefact *out);
/* Likewise for bytes in memory at a multiple of 64, which must outlive it; `path` is for messages, and
 * files of weights lie beside it. */
enum ht_status ht_artefact_open_bytes(struct ht_str bytes, const char *path,
	const struct ht_artefact_trust *t, struct ht_arena *a, struct ht_diags *d,
	struct ht_artefact *out);
/* Opens the file of an open artefact a second time, even if its name now belongs to another
 * file.  The two may be closed in either order. */
enum ht_status ht_artefact_open_again(const struct ht_artefact *from, struct ht_arena *a,
	struct ht_diags *d, struct ht_artefact *out);
void ht_artefact_close(struct ht_artefact *a);
/* HT_E_INPUT with the message `what` and advice. */
enum ht_status ht_artefact_refuse(
	const struct ht_artefact *a, struct ht_diags *d, const char *what);

/* ---- choose.c ---- */

struct ht_variant_wanted {
	const char *entry;                  /* NULL: that of the first variant */
	const char *policy;                 /* NULL: that of the first variant */
	const char *target;                 /* NULL: the best one that runs here */
	const struct ht_index_input *input; /* wanted shapes; -1: any size; bounds are ignored */
	size_t inputs;
	int64_t batch;                   /* first dimension of an input; 0: any */
	int (*rank)(const char *target); /* higher is better; -1: the target does not run here */
};
/* Chooses the first variant that fits.  HT_E_USAGE: no such policy or target; HT_E_UNSUPPORTED: no
 * variant runs here; HT_E_INPUT: none has the shapes. */
enum ht_status ht_artefact_choose(const struct ht_artefact *a, const struct ht_variant_wanted *w,
	struct ht_arena *arena, struct ht_diags *d, size_t *out);

/* Whether the variant has the wanted shapes; policy and target are ignored. */
bool ht_variant_has_shapes(const struct ht_index_variant *v, const struct ht_variant_wanted *w);
bool ht_variants_share_shapes(const struct ht_index_variant *a, const struct ht_index_variant *b);

/* "POLICY for TARGET with x:1,4;y:1" */
void ht_variant_put(struct ht_buf *b, const struct ht_index_variant *v);
/* Prints the first of the variants `these` (by number; NULL: all) and how many more there are. */
void ht_variants_put(struct ht_buf *b, const struct ht_index *x, const bool *these);

/* ---- artefact_load.c ---- */

/* Reads and checks only the plan of a variant; the result cannot run. */
enum ht_status ht_artefact_plan(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan);

/* Reads the plan of a variant, loads its kernels (`kernel`) and maps the files of its weights.  Call it
 * once for an artefact. */
enum ht_status ht_artefact_load(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan);
/* The first value of a variable, whose bytes are verified; NULL: the artefact has none. */
enum ht_status ht_artefact_value(struct ht_artefact *a, const char *variable, struct ht_diags *d,
	const struct ht_index_value **out);
/* The address of a weight of the loaded variant, or of a value. */
const char *ht_artefact_weight(const struct ht_artefact *a, uint64_t number);
/* Verifies the chunks of a weight that were not verified yet; each of several threads verifies
 * its share. */
bool ht_artefact_check_weight(
	const struct ht_artefact *a, uint64_t number, int worker, int workers);

#endif
