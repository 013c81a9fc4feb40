/* artefact: a compiled program as a file, .htx (docs/artefact.md has the format).
 *
 * Sections: a manifest for people, the plan, machine code, checksums of the weights, the weights.
 * Everything but the weights is held against SHA-256 before it is used; weights against XXH3, a
 * mebibyte at a time.  Code is copied to memory of its own, checked there, and only then made
 * executable.  Whoever can write an artefact can run code as its reader: like a shared library. */
#ifndef HT_ARTEFACT_H
#define HT_ARTEFACT_H

#include "base/base.h"
#include "runtime/runtime.h"

/* ---- plan.c: what a program is, apart from its bytes ---- */

struct ht_plan_value {
	const char *name;
	uint64_t dtype, bytes;
	size_t rank;
	int64_t *dim;
	size_t value_bytes; /* 0: no default */
	const void *value;
};

struct ht_plan_memory {
	uint64_t where;  /* enum ht_rt_where */
	uint64_t offset; /* in the arena or the weights; INPUT, OUTPUT: its number */
	uint64_t bytes;
};

struct ht_plan_code {
	const char *library;           /* by this name; "": generated */
	uint64_t offset, bytes, entry; /* in the code; entry: from offset */
};

struct ht_plan_call {
	uint64_t kernel, tiles;
	size_t args, params;
	uint64_t *arg; /* numbers of memories */
	int64_t *param;
	const char *node, *method; /* method "": none */
};

struct ht_program_plan {
	const char *target, *policy;
	uint64_t arena_bytes, live_bytes, scratch_bytes, weight_bytes, code_bytes;
	uint64_t low_nodes, float_nodes, casts;
	size_t inputs, outputs, memories, kernels, calls;
	struct ht_plan_value *input, *output;
	struct ht_plan_memory *memory;
	struct ht_plan_code *kernel;
	struct ht_plan_call *call;
};

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out);
/* Everything that is read lives in `a`.  NULL, or what is wrong; numbers that do not fit together
 * are wrong, so that a plan that is read can be run. */
const char *ht_plan_read(struct ht_str bytes, struct ht_arena *a, struct ht_program_plan *p);

/* ---- artefact.c: the file ---- */

struct ht_artefact_parts {
	struct ht_str manifest, plan, code;
	const struct ht_str *weight; /* one after the other, each at the next multiple of 64 */
	size_t weights;
};
/* Offset of the weight behind one that ends at `end`. */
static inline uint64_t ht_artefact_next(uint64_t end)
{
	return (end + 63) / 64 * 64;
}
enum ht_status ht_artefact_write(
	const char *path, const struct ht_artefact_parts *parts, struct ht_diags *d);

struct ht_artefact {
	struct ht_file *file;
	struct ht_str manifest, plan;
	struct ht_str weights; /* in the map */
	void *code;            /* read-execute */
	size_t code_bytes, code_mapped;
};
/* Whether the file begins as an artefact does. */
bool ht_artefact_is(const char *path);
/* HT_E_INPUT when it is damaged or of another version.  Nothing of it is used before it was checked. */
enum ht_status ht_artefact_open(const char *path, struct ht_diags *d, struct ht_artefact *out);
void ht_artefact_close(struct ht_artefact *a);

#endif
