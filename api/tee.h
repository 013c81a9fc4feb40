/* The tensors of a program that was compiled with `tee`, and their way to who wants to see them. */
#ifndef HT_TEE_H
#define HT_TEE_H

#include "api/api.h"

/* A tensor under one name. */
struct ht_tee {
	struct ht_tensor_info info;
	struct ht_blob *constant; /* its bytes; NULL: it is computed */
};

/* Where a run finds tensors: of each step that tees. */
struct ht_tee_place {
	size_t first, n;    /* in the program's list: all names of this tensor */
	enum ht_dtype held; /* in memory */
	int64_t offset;     /* elements */
	int64_t count;
	int32_t rank;
	const int64_t *dim, *stride;
	bool in_parts; /* this is a part of it, along its first dimension */
};

/* tee.c: the names of the imported graph, in memory of `w`; before the graph is lowered, whose memory the passes take. */
struct ht_tee_names;
enum ht_status ht_tee_names(
	const struct ht_model *m, struct ht_work *w, struct ht_diags *d, struct ht_tee_names **out);
/* Fills in p->tee and p->tee_place, before constants are packed.  With `constants` operands that are constants are on the
 * list too. */
void ht_program_tees(struct ht_program *p, struct ht_tee_names *names, const struct ht_plan *plan,
	bool constants);

/* tee_run.c: what a context needs to show tensors to `fn`. */
struct ht_seeing;
typedef void ht_tensor_fn(void *arg, const struct ht_seen *t);
enum ht_status ht_seeing_new(const struct ht_program *p, ht_tensor_fn *fn, void *arg,
	struct ht_diags *d, struct ht_seeing **out);
void ht_seeing_free(struct ht_seeing *s);
/* Its runs show tensors to s; NULL: no longer. */
void ht_seeing_join(struct ht_seeing *s, struct ht_rt_context *c);
/* Before each run. */
void ht_seeing_begin(struct ht_seeing *s);

#endif
