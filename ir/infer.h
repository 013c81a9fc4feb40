/* Helpers of the op table's inference functions (infer_*.c). */
#ifndef HT_INFER_H
#define HT_INFER_H

#include "ir/ir.h"

/* An element of a small tensor that shape arithmetic may depend on. */
enum ht_elem_kind {
	HT_ELEM_UNKNOWN,
	HT_ELEM_INT,   /* the integer i */
	HT_ELEM_FLOAT, /* the number f, in tensors of a float type */
	HT_ELEM_DIM /* i: a symbolic dimension in base.h's encoding; HT_DIM_UNKNOWN: some unknown size */
};

struct ht_elem {
	enum ht_elem_kind kind;
	int64_t i;
	double f;
};

/* A tensor whose number of elements is known; its elements may be known as well. */
struct ht_known {
	int32_t n;
	struct ht_elem *e;
};

/* Elements of longer tensors are not inferred. */
#define HT_MAX_KNOWN 512

struct ht_infer {
	struct ht_graph *g;
	struct ht_arena *scratch; /* released after inference; shapes are in the graph's arena */
	struct ht_diags *d;
	bool hopeful; /* the walk of ht_infer_types_hopefully() */
	/* Known elements of the arguments of the body that is inferred next, by argument; NULL:
	 * none. */
	const struct ht_known *passed;
	struct ht_map *all; /* results of ht_infer_all_known(), or NULL */
	struct ht_recursion
		*recursion; /* infer_recursion.c: the recursion that the walk is in, or NULL */
	/* by node id: an array with one item for each result, or NULL; item.e NULL: no element is
	 * known */
	struct ht_known **known;
	/* the number of elements inferred so far in long tensors, over all graphs */
	size_t *longer;
	struct ht_known *unknown; /* by number of elements: a tensor without a known element */
	/* Whether it may be that no run reaches the node that is inferred: it is in a body, or in a branch or loop of TensorFlow 1.  Then a
	 * shape that does not fit is no error of the graph, but of the runs that reach the node (struct ht_node, fault). */
	bool may_not_run;
	const char **fault; /* receives the text of such an error */
};

/* One function for each name in the `infer` column.  Before the call, dtypes are set by the
 * signature and all shapes are unknown; the number of operands agrees with the signature. */
#define OP(NAME, SIGNATURE, EFFECTS, TRAITS, INFER, PREC, LOWER, TEST, MEANING)                    \
	enum ht_status ht_infer_##INFER(struct ht_infer *in, struct ht_node *n);
#include "ir/ops.def"
#undef OP

/* For shapes and values that do not fit: reports the error at the node, or only notes it if it may be that the node never runs, and returns
 * HT_E_INPUT, which the rule returns. */
enum ht_status ht_infer_fail(
	const struct ht_infer *in, const struct ht_node *n, const char *fmt, ...) HT_PRINTF(3, 4);
/* For what is no graph of TensorFlow, such as a wrong number of operands, and for limits: reports the error in any case. */
enum ht_status ht_infer_refuse(
	const struct ht_infer *in, const struct ht_node *n, const char *fmt, ...) HT_PRINTF(3, 4);

/* The shape of operand `i`, which may be unknown. */
struct ht_shape ht_in_shape(const struct ht_node *n, int32_t i);

/* infer_state.c: the shape of the variable whose handle is operand 0, if the node that makes the
 * handle is visible; otherwise unknown. */
struct ht_shape ht_handle_shape(const struct ht_node *n);
/* Tells `arg`, an argument that gets `handle`, the shape of the variable. */
void ht_pass_handle_shape(struct ht_node *arg, struct ht_value handle);

/* HT_E_INPUT unless operand `i` has this rank, or may have it. */
enum ht_status ht_want_rank(struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t rank);
enum ht_status ht_want_rank_of(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t least, int32_t most);

/* The known elements of operand `i`; NULL: even their number is unknown. */
const struct ht_known *ht_in_known(struct ht_infer *in, const struct ht_node *n, int32_t i);
/* True: no element of operand `i` is known.  False: some may be known. */
bool ht_in_nothing_known(const struct ht_infer *in, const struct ht_node *n, int32_t i);
/* The only element of an integer operand; false: it is not known. */
bool ht_in_int(struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t *value);
/* An element as a dimension: a size, a symbol or HT_DIM_UNKNOWN. */
int64_t ht_elem_dim(const struct ht_elem *e);

/* A shape from the elements of operand `i`; *ok is false if an element is below -1. */
struct ht_shape ht_in_as_shape(struct ht_infer *in, const struct ht_node *n, int32_t i, bool *ok);

int64_t *ht_new_dims(struct ht_infer *in, int32_t rank); /* all are HT_DIM_UNKNOWN */
/* The extent that a node with trait HT_COMPUTES_SIZE computes. */
int64_t ht_computed_dim(const struct ht_infer *in, const struct ht_node *n);
void ht_set_shape(struct ht_node *n, int32_t result, int32_t rank, const int64_t *dim);

/* ---- infer_control.c: nodes that run functions ---- */

/* The type of a result of a function; unknown if the body has no types yet. */
const struct ht_type *ht_ret_type(const struct ht_port *ret);
/* HT_E_INPUT unless `n` passes as many operands as `f` has arguments, and f has `rets` results. */
enum ht_status ht_check_ports(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f, int32_t rets);
/* The types of the operands, in the order of arguments; in scratch memory. */
struct ht_type *ht_passed_types(const struct ht_infer *in, const struct ht_node *n);
/* Sets the types of the arguments of `f`; HT_E_INPUT: an argument has another dtype. */
enum ht_status ht_set_arguments(struct ht_infer *in, const struct ht_node *n,
	const struct ht_function *f, const struct ht_type *type);
/* HT_E_INPUT unless the results of `f` have the dtypes of the node's results. */
enum ht_status ht_check_results(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f);
/* The shape of a tensor that has both shapes: each dimension is known if one of them knows it;
 * unknown where they differ. */
struct ht_shape ht_either_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b);
/* Widens *a to a shape of which `a` and `b` are both instances; false: *a is one already.
 * Hopefully: an unknown dimension of `b` is assumed to become equal. */
bool ht_widen_shape(struct ht_infer *in, struct ht_shape *a, struct ht_shape b, bool hopeful);
/* infer_recursion.c: infers a call of `f`, a function with ht_function.result. */
enum ht_status ht_infer_recursion(struct ht_infer *in, struct ht_node *n, struct ht_function *f);
/* infer_control.c: sets the shapes of the results from list attribute `name`. */
void ht_listed_shapes(struct ht_node *n, const char *name);
/* infer.c: infers the body of a function, whose arguments have their types. */
enum ht_status ht_infer_function(const struct ht_infer *in, const struct ht_function *f);

/* The dimension that agrees with both `a` and `b`; false: they contradict each other. */
bool ht_merge_dim(int64_t a, int64_t b, int64_t *r);
bool ht_merge_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r);
/* Arithmetic on dimensions: the result is a size or a multiple of a symbol, or else unknown. */
int64_t ht_dim_add(int64_t a, int64_t b);
int64_t ht_dim_mul(struct ht_infer *in, int64_t a, int64_t b);
int64_t ht_dim_div(struct ht_infer *in, int64_t a, int64_t b); /* unknown if there is a remainder */
/* A shape as text for messages, such as "[2,?]". */
struct ht_str ht_shape_text(const struct ht_infer *in, struct ht_shape s);

/* Maps a negative axis to 0..rank-1; false: out of range. */
bool ht_fix_axis(int64_t *axis, int32_t rank);

bool ht_broadcast_shapes(
	struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r);

/* infer_elem.c: arithmetic on single elements of type t.  The result is unknown if an operand is
 * unknown, or if it does not fit. */
extern const struct ht_elem ht_elem_unknown;
struct ht_elem ht_elem_int(int64_t i);
struct ht_elem ht_elem_of_dim(int64_t dim);
struct ht_elem ht_elem_cast(enum ht_dtype to, const struct ht_elem *x);
struct ht_elem ht_elem_unary(enum ht_op op, enum ht_dtype t, const struct ht_elem *x);
struct ht_elem ht_elem_binary(struct ht_infer *in, enum ht_op op, enum ht_dtype t,
	const struct ht_elem *a, const struct ht_elem *b);

/* infer.c: infers types, and returns the known values of results, by node id as in struct ht_infer,
 * in `a`. */
enum ht_status ht_infer_known(
	struct ht_graph *g, struct ht_arena *a, struct ht_diags *d, struct ht_known ***known);

/* As ht_infer_known(), for `g` and for the bodies that only one of its branches or loops runs; read
 * *all with ht_known_of(). */
enum ht_status ht_infer_all_known(struct ht_graph *g, struct ht_arena *a, struct ht_diags *d,
	bool hopeful, struct ht_map *all);
/* The known values of `g`, by node id; NULL: `g` is not among the graphs of *all. */
struct ht_known **ht_known_of(const struct ht_map *all, const struct ht_graph *g);

/* infer_value.c: the axes over which the gradient of operand `i` of a broadcast is summed, given
 * the node BroadcastGradientArgs.  Returns their number, at most HT_MAX_RANK; -1: the shapes are
 * not known well enough. */
int32_t ht_gradient_axes(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t axes[HT_MAX_RANK]);

/* infer_value.c: infers the values of the results of `n`, whose shapes are set. */
void ht_infer_values(struct ht_infer *in, struct ht_node *n);

#endif
