/* bounded: open sizes within bounds (bounded.c), in bodies of branches and loops too (bounded_bodies.c), and the rules of ops that
 * meet them (bounded_rules.c). */
#ifndef HT_PASSES_BOUNDED_H
#define HT_PASSES_BOUNDED_H

#include "ir/infer.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { HT_OPEN_RANK = 8 /* largest rank of a tensor with an open axis */ };

/* The open sizes of an axis: none, one, or several nested ones, the outermost first. */
enum { HT_OPEN_PARTS = HT_DIM_SIZES };
struct ht_open {
	struct ht_open_axis part[HT_OPEN_PARTS]; /* a size of 0 ends them */
};
static inline bool ht_open_some(struct ht_open a)
{
	return a.part[0].size;
}
/* How many open sizes the axis has. */
static inline int ht_open_parts(struct ht_open a)
{
	int n = 0;

	while (n < HT_OPEN_PARTS && a.part[n].size)
		n++;
	return n;
}

/* A set of open sizes of the program. */
struct ht_size_set {
	uint64_t word[HT_MOST_RUN_SIZES / 64];
};
/* Adds size `size`, counted from 1. */
static inline void ht_size_set_add(struct ht_size_set *s, int64_t size)
{
	s->word[(size - 1) / 64] |= UINT64_C(1) << (size - 1) % 64;
}
static inline bool ht_size_set_has(const struct ht_size_set *s, int32_t size)
{
	return s->word[(size - 1) / 64] >> (size - 1) % 64 & 1;
}

struct ht_bounded {
	struct ht_rw r;
	struct ht_known **known;
	uint32_t ids; /* of the graph as it came: nodes that are made have none of what follows */
	struct ht_open **axes; /* by node id: HT_OPEN_RANK for each result; NULL: none is open */
	bool *counts; /* by node id: it is computed of sizes alone, and depends on an open one */
	const struct ht_map *all; /* ht_infer_all_known() of the program */
	/* Of a body: the sizes of others that its kernels take, for which the branch or loop waits; NULL: of the program. */
	struct ht_size_set *awaited;
};

/* computed.c: adds the sizes that nodes of program `g` and of the bodies that belong to its branches and loops (bodies.c) compute, if
 * they are bounded.  Not `all`: branches and loops have no functions of their own yet, so what follows from their results may still turn
 * out to be constant. */
enum ht_status ht_add_computed_sizes(struct ht_graph *g, struct ht_pass_context *c, bool all);
/* Whether a node of a function that the graph may call always computes a size, or a branch or loop may change extents; types must be known. */
bool ht_computes_within(const struct ht_graph *g, struct ht_arena *scratch);
/* Gives all tensors of `g` their extents at the largest sizes; c->entry must be set. */
enum ht_status ht_bound_sizes(struct ht_graph *g, struct ht_pass_context *c);

/* bounded.c: a node in the order of the graph. */
enum ht_status ht_open_visit(struct ht_bounded *b, struct ht_node *n);
/* Sets attribute _ends, from which lowering knows which elements of each result are outside, where operands do not show it. */
void ht_open_mark_results(struct ht_node *n, const struct ht_open *axes, struct ht_arena *a);
/* Each result that is used has open axes where its shape has, and no others; `axes` has HT_OPEN_RANK of each. */
enum ht_status ht_open_check_results(
	struct ht_bounded *b, const struct ht_node *n, const struct ht_open *axes);
/* bounded_bodies.c: a branch or loop, and its bodies. */
enum ht_status ht_open_control(struct ht_bounded *b, struct ht_node *n);

/* By axis; NULL: none is open. */
const struct ht_open *ht_open_axes(const struct ht_bounded *b, struct ht_value v);
/* Whether operand `arg`, if the node has it, has an open axis. */
bool ht_open_in(const struct ht_bounded *b, const struct ht_node *n, int32_t arg);
bool ht_open_count(const struct ht_bounded *b, struct ht_value v);
/* What is known about an element. */
struct ht_elem ht_open_element(const struct ht_bounded *b, struct ht_value v, int32_t i);
/* How many elements of a value something may be known about; 0: it is too large. */
static inline int32_t ht_open_elements(struct ht_value v)
{
	int64_t count = ht_shape_count(ht_type_of(v)->shape);

	return count > 0 && count <= HT_MAX_KNOWN ? (int32_t)count : 0;
}
/* A dimension at the largest sizes; negative: unknown. */
static inline int64_t ht_open_most(const struct ht_bounded *b, int64_t dim)
{
	return ht_dim_most(b->r.g, dim);
}
/* Whether a dimension is a multiple of size `size`, counted from 1. */
bool ht_open_has(const struct ht_bounded *b, int64_t dim, int32_t size);
/* `n`, whose kernel reads these sizes, waits for the nodes that compute them. */
void ht_open_wait(struct ht_bounded *b, struct ht_node *n, const struct ht_size_set *sizes);
/* Likewise of one size, counted from 1; 0: it reads none. */
void ht_open_wait_for(struct ht_bounded *b, struct ht_node *n, int32_t size);
/* bounded_values.c: whether the elements of all results are constants times sizes. */
bool ht_open_all_known(const struct ht_bounded *b, const struct ht_node *n);
/* Such a result as a tensor, for nodes that compute with it. */
struct ht_value ht_open_value(struct ht_bounded *b, struct ht_value v);
/* A constant times sizes (struct ht_size_expr) as the items of an attribute: the constant, and the numbers of as many sizes as a dimension
 * can have, 0 behind the last one. */
enum { HT_OPEN_PRODUCT = 1 + HT_DIM_SIZES };
/* A tensor of such products, in front of `before`. */
struct ht_value ht_open_products(struct ht_bounded *b, struct ht_node *before, struct ht_str name,
	struct ht_type type, const int64_t *product);
/* What its elements, which are all known, are where sizes are the largest: a constant in front of `n`. */
struct ht_value ht_open_largest(struct ht_bounded *b, struct ht_node *n, struct ht_value v);
/* Dimensions of a program whose sizes are open, numbers or products of open sizes, as a tensor in front of `before`: a vector, and a
 * scalar. */
struct ht_value ht_dims_value(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, struct ht_shape s);
struct ht_value ht_dim_value(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, int64_t dim);
/* HT_E_UNSUPPORTED at the node: `why`, behind "a dimension of an input is open, and". */
enum ht_status ht_open_refuse(const struct ht_bounded *b, const struct ht_node *n, const char *why);
/* Refuses a branch or loop whose results have no fixed number of dimensions (ht_varies_in_rank()). */
enum ht_status ht_open_check_rank(const struct ht_bounded *b, const struct ht_node *n);

/* A rule sets `out`, which has HT_OPEN_RANK axes for each result, initially 0, and puts _Within
 * in front of operands.  It is called if some operand has an open axis, or if a result has an
 * extent that is an open size. */
typedef enum ht_status ht_open_rule(struct ht_bounded *b, struct ht_node *n, struct ht_open *out);
/* NULL: the op has no rule. */
ht_open_rule *ht_open_rule_of(const struct ht_node *n);

#endif
