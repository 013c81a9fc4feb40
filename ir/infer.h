/* Helpers of the op table's inference functions (infer_*.c). */
#ifndef HT_INFER_H
#define HT_INFER_H

#include "ir/ir.h"

/* An element of a small tensor that shape arithmetic may depend on. */
enum ht_elem_kind {
	HT_ELEM_UNKNOWN,
	HT_ELEM_INT,   /* i */
	HT_ELEM_FLOAT, /* f, of tensors of a float type */
	HT_ELEM_DIM /* i: a symbolic dimension in base.h's encoding, or HT_DIM_UNKNOWN: some size */
};

struct ht_elem {
	enum ht_elem_kind kind;
	int64_t i;
	double f;
};

/* A tensor whose number of elements, at least, is known. */
struct ht_known {
	int32_t n;
	struct ht_elem *e;
};

/* Longer tensors do not take part in shape arithmetic. */
#define HT_MAX_KNOWN 512

struct ht_infer {
	struct ht_graph *g;
	struct ht_arena
		*scratch; /* lives while types are inferred; shapes are in the graph's arena */
	struct ht_diags *d;
	bool hopeful; /* ht_infer_types_hopefully() */
	/* What is known of the arguments of the body that is inferred next, by argument; NULL: nothing. */
	const struct ht_known *passed;
	struct ht_map *all; /* ht_infer_all_known(), or NULL */
	struct ht_recursion
		*recursion;      /* infer_recursion.c: in whose functions the walk is; or NULL */
	struct ht_known **known; /* by node id: one a result, or NULL; e is NULL: nothing known */
	size_t *longer; /* elements followed so far in tensors of more than a few, in all graphs */
	struct ht_known *unknown; /* by number of elements: a tensor without a known element */
};

/* One function for each name in the `infer` column.  Before the call the driver has set dtypes by the
 * signature and all shapes to unknown; the number of operands agrees with the signature. */
#define OP(NAME, SIGNATURE, EFFECTS, TRAITS, INFER, PREC, LOWER, TEST, MEANING)                    \
	enum ht_status ht_infer_##INFER(struct ht_infer *in, struct ht_node *n);
#include "ir/ops.def"
#undef OP

/* HT_E_INPUT at the node. */
enum ht_status ht_infer_fail(
	const struct ht_infer *in, const struct ht_node *n, const char *fmt, ...) HT_PRINTF(3, 4);

/* Shape of operand `i`, which may be unknown. */
struct ht_shape ht_in_shape(const struct ht_node *n, int32_t i);

/* infer_state.c: of the variable whose handle operand 0 is; the handle's own node says it, when that can be seen. */
struct ht_shape ht_handle_shape(const struct ht_node *n);

/* HT_E_INPUT unless operand `i` has this rank, or may have it. */
enum ht_status ht_want_rank(struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t rank);
enum ht_status ht_want_rank_of(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t least, int32_t most);

/* The elements of operand `i`, as far as they are known; NULL when their number is unknown. */
const struct ht_known *ht_in_known(struct ht_infer *in, const struct ht_node *n, int32_t i);
/* True: no element of operand `i` is known.  False: some may be. */
bool ht_in_nothing_known(const struct ht_infer *in, const struct ht_node *n, int32_t i);
/* The one element of a scalar (or one-element) integer operand; false: not known. */
bool ht_in_int(struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t *value);
/* The element as a dimension: a size or a symbol, else HT_DIM_UNKNOWN. */
int64_t ht_elem_dim(const struct ht_elem *e);

/* A shape from the elements of operand `i`; *ok is false when an element is below -1. */
struct ht_shape ht_in_as_shape(struct ht_infer *in, const struct ht_node *n, int32_t i, bool *ok);

int64_t *ht_new_dims(struct ht_infer *in, int32_t rank); /* HT_DIM_UNKNOWN all */
/* The extent that a node of trait HT_COMPUTES_SIZE computes. */
int64_t ht_computed_dim(const struct ht_infer *in, const struct ht_node *n);
void ht_set_shape(struct ht_node *n, int32_t result, int32_t rank, const int64_t *dim);

/* ---- infer_control.c: nodes that run functions ---- */

/* Of a result of a function; unknown where it is not typed yet. */
const struct ht_type *ht_ret_type(const struct ht_port *ret);
/* HT_E_INPUT unless `n` passes as many operands as `f` has arguments, and f has `rets` results. */
enum ht_status ht_check_ports(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f, int32_t rets);
/* The types of the operands, by argument; from scratch. */
struct ht_type *ht_passed_types(const struct ht_infer *in, const struct ht_node *n);
/* Arguments of `f` get these types; HT_E_INPUT if one has another dtype. */
enum ht_status ht_set_arguments(struct ht_infer *in, const struct ht_node *n,
	const struct ht_function *f, const struct ht_type *type);
/* HT_E_INPUT unless results of `f` have the dtypes of the node's. */
enum ht_status ht_check_results(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f);
/* Each dimension as the one of both has it that knows it; unknown where they differ. */
struct ht_shape ht_either_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b);
/* *a becomes what holds of tensors of either shape; false: that is *a.  Hopefully: what is unknown of `b` may become equal. */
bool ht_widen_shape(struct ht_infer *in, struct ht_shape *a, struct ht_shape b);
/* infer_recursion.c: a call of `f`, which has ht_function.result. */
enum ht_status ht_infer_recursion(struct ht_infer *in, struct ht_node *n, struct ht_function *f);
/* infer_control.c: the shapes of the results, from list attribute `name`. */
void ht_listed_shapes(struct ht_node *n, const char *name);
/* infer.c: the body of a function, whose arguments have their types. */
enum ht_status ht_infer_function(const struct ht_infer *in, const struct ht_function *f);

/* The dimension that agrees with both; false: there is none. */
bool ht_merge_dim(int64_t a, int64_t b, int64_t *r);
bool ht_merge_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r);
/* Arithmetic on dimensions: a size or a multiple of a symbol, else unknown. */
int64_t ht_dim_add(int64_t a, int64_t b);
int64_t ht_dim_mul(struct ht_infer *in, int64_t a, int64_t b);
int64_t ht_dim_div(struct ht_infer *in, int64_t a, int64_t b); /* without a remainder */
/* "[2,?] and [3,4]"-style text of a shape for messages. */
struct ht_str ht_shape_text(const struct ht_infer *in, struct ht_shape s);

/* An axis operand or attribute brought into 0..rank-1; false: out of range. */
bool ht_fix_axis(int64_t *axis, int32_t rank);

bool ht_broadcast_shapes(
	struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r);

/* infer_elem.c: arithmetic on single elements of type t; the result is unknown if an operand is, or if
 * it does not fit. */
extern const struct ht_elem ht_elem_unknown;
struct ht_elem ht_elem_int(int64_t i);
struct ht_elem ht_elem_of_dim(int64_t dim);
struct ht_elem ht_elem_cast(enum ht_dtype to, const struct ht_elem *x);
struct ht_elem ht_elem_unary(enum ht_op op, enum ht_dtype t, const struct ht_elem *x);
struct ht_elem ht_elem_binary(struct ht_infer *in, enum ht_op op, enum ht_dtype t,
	const struct ht_elem *a, const struct ht_elem *b);

/* infer.c: types, and the values that follow from constants and shapes, by node id as struct ht_infer has
 * them, in `a`. */
enum ht_status ht_infer_known(
	struct ht_graph *g, struct ht_arena *a, struct ht_diags *d, struct ht_known ***known);

/* Likewise of `g` and of the bodies that its branches and loops have for themselves, in *all: ht_known_of(). */
enum ht_status ht_infer_all_known(struct ht_graph *g, struct ht_arena *a, struct ht_diags *d,
	bool hopeful, struct ht_map *all);
/* By node id of `g`; NULL: it is not among those graphs. */
struct ht_known **ht_known_of(const struct ht_map *all, const struct ht_graph *g);

/* infer_value.c: the axes over which the gradient of operand `i` of a broadcast is summed, of a BroadcastGradientArgs: at most
 * HT_MAX_RANK.  How many; -1: the shapes are not known well enough. */
int32_t ht_gradient_axes(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t axes[HT_MAX_RANK]);

/* infer_value.c: follows the values of `n`'s results, whose shapes are set. */
void ht_infer_values(struct ht_infer *in, struct ht_node *n);

#endif
