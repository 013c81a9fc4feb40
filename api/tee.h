/* The tensors of a program that was compiled with `tee`, and how a run shows them to its
 * observer. */
#ifndef HT_TEE_H
#define HT_TEE_H

#include "api/api.h"

/* A tensor under one name. */
struct ht_tee {
	struct ht_tensor_info info;
	struct ht_blob *constant; /* its bytes; NULL: it is computed */
};

/* Where a run finds a tensor: one for each step that tees. */
struct ht_tee_place {
	size_t first, n;    /* the tensor's entries in the program's list, one for each name */
	enum ht_dtype held; /* type in memory: the tensor's, or float32 */
	bool rounded;       /* the values in memory are rounded to the tensor's type */
	bool own;           /* the memory belongs to the run: it is neither an input nor a
			     * constant */
	int64_t offset;     /* elements */
	int64_t count;
	int32_t rank;
	const int64_t *dim, *stride;
	const char *compiled; /* name of its node in the compiled graph */
	bool casts;           /* that node is a cast */
	bool in_parts;        /* each call shows one part of the batch, along the first dimension */
};

/* tee.c: the names of the imported graph, in memory of `w`. Made before lowering, whose passes
 * reuse the graph's memory. */
struct ht_tee_names;
enum ht_status ht_tee_names(
	const struct ht_model *m, struct ht_work *w, struct ht_diags *d, struct ht_tee_names **out);
/* Fills in p->tee and p->tee_place.  Called before constants are packed.  With `constants`,
 * constant operands are on the list too. */
void ht_program_tees(struct ht_program *p, struct ht_tee_names *names, const struct ht_plan *plan,
	bool constants);

/* How to compile a program whose tensors are observed. */
struct ht_teeing {
	enum ht_lower_tee what;
	bool widened; /* ht_widen_graph() is applied to the policy's graph */
	/* As in struct ht_lower_request. */
	struct ht_str fault;
	double fault_by;
	/* As in struct ht_make. */
	const struct ht_constants *constants;
};
/* compile.c: as ht_compile(), with `how` in place of opt->tee; NULL: opt->tee counts. */
enum ht_status ht_compile_teed(const struct ht_model *m, const struct ht_compile_options *opt,
	const struct ht_teeing *how, struct ht_diags *d, struct ht_program **out);
/* widen.c: makes float16 and bfloat16 float32 in a graph that the passes have finished.  Constants keep their rounded
 * values and casts stay; implementation modes that make a kernel less exact are removed. */
void ht_widen_graph(struct ht_graph *g);

/* tee_run.c: the elements of a place without gaps, of type p->held: the memory `at` itself, or a copy in `room`. */
const void *ht_tee_get(const struct ht_tee_place *p, const void *at, void *room);
/* The memory of a place whose elements have no gaps; NULL: they have. */
void *ht_tee_dense(const struct ht_tee_place *p, void *at);
/* Overwrites the elements of a place whose elements have gaps. */
void ht_tee_set(const struct ht_tee_place *p, void *at, const void *elements);
/* The index of the part of the batch that is being computed; 0 if the batch is not divided. */
size_t ht_tee_part(const struct ht_exec_frame *f);

/* context.c: makes runs call `fn` at each place; `fn` NULL: none is called any more. */
void ht_context_tee(struct ht_context *c, ht_rt_tee_fn *fn, void *arg);

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
