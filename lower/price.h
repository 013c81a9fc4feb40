/* Predicts how lowering treats a graph, without lowering it: for prices, policies and reports. */
#ifndef HT_LOWER_PRICE_H
#define HT_LOWER_PRICE_H

#include "choice/fusion.h"
#include "choice/impl.h"
#include "ir/ir.h"
#include "kernel/target.h"

/* Which nodes of a graph share a kernel. An op without a lowering counts as a kernel by itself.
 * The arrays are indexed by node id, and are in `a`. */
struct ht_fusion {
	struct ht_node *
		*kernel; /* the sink of the node's kernel; NULL: the node computes nothing */
	struct ht_node *
		*root; /* of a sink: the node of its kernel that has a loop of its own, or NULL */
};
struct ht_fusion ht_fusion_of(struct ht_graph *g, struct ht_fusions *fusions, struct ht_arena *a);
/* Whether the shapes of all floating-point results are known, which ht_fusion_of() requires. */
bool ht_has_float_shapes(const struct ht_graph *g);
/* The work that a kernel does for one of its nodes. */
enum ht_work_of_node {
	HT_NODE_UNKNOWN,   /* no lowering: counts as a kernel by itself */
	HT_NODE_NOTHING,   /* none at run time: a constant, an input, a node without results */
	HT_NODE_ELEMENTS,  /* a function of its operands' elements, in the loop of another node */
	HT_NODE_VIEW,      /* its operand's elements at other coordinates */
	HT_NODE_LOOP,      /* a loop of its own */
	HT_NODE_REDUCTION, /* a loop along axes of the first operand */
	HT_NODE_POOL       /* a loop over windows */
};
enum ht_work_of_node ht_work_of_node(const struct ht_node *n);
static inline bool ht_is_view(const struct ht_node *n)
{
	return ht_work_of_node(n) == HT_NODE_VIEW;
}
/* The operand whose elements a view shows. */
int32_t ht_viewed_operand(const struct ht_node *view);
/* Whether a kernel stores the result of `n`: it ends with `n`, or with views of it. */
bool ht_ends_kernel(const struct ht_node *n, const struct ht_node *kernel);
/* Whether the epilogue of a root gets the root's results unrounded. root NULL: no. */
bool ht_rounds_once(const struct ht_node *root);
/* Whether a node's kernel can make operand `arg` from memory in another type as it reads it. */
bool ht_converts_operand(const struct ht_node *n, int32_t arg);
/* How an implementation mode changes the kernel of node `n`, in words; NULL: not at all. */
const char *ht_mode_effect(const struct ht_node *n, enum ht_impl mode);
/* Whether convolution `n` filters each channel by itself, by its op or because it has a group for each channel.  Its kernel is a loop
 * with channels along the lanes, which sums in float32 whatever the mode. */
bool ht_is_depthwise(const struct ht_node *n);
/* Whether contraction `n` with operands of this type sums short runs of products in float16, by its mode and the machine. */
bool ht_sums_short(const struct ht_target *target, const struct ht_node *n, enum ht_dtype operands);
/* Multiply-adds of a contraction with known shapes; 0 for other nodes. */
int64_t ht_multiply_adds(const struct ht_node *n);
/* The operand of contraction `n` that becomes the columns of its product, which its kernel packs: weights, or the gradient of the results
 * where `n` is the gradient of a convolution by its filter. */
int32_t ht_packed_operand(const struct ht_node *n);
/* The number of products that the kernel of a contraction computes, divided by ht_multiply_adds().  Above 1 for the gradient of a convolution by its
 * image at a stride: its kernel also multiplies taps that meet no pixel, fewer of them where it computes phases of the stride. */
double ht_products_share(const struct ht_node *n);
/* How many variables an update changes, a step of an optimiser or an assignment that computes; 0 for other nodes. */
int ht_updated_variables(const struct ht_node *n);
/* Estimated time of a convolution of type `t`, or of the gradient of one by its image, by the
 * faster form of Winograd's method, divided by the time of summing its taps in F32; 0 if AUTO
 * sums taps, and for other nodes.  Near weights stay in the second level between runs. */
double ht_winograd_share(const struct ht_target *target, const struct ht_node *n, enum ht_dtype t,
	bool near_weights);
/* Whether AUTO computes the convolution by F(2 x 2) with transformed factors that are rounded to
 * 16 bits. */
bool ht_winograd_rounds(const struct ht_target *target, const struct ht_node *n, enum ht_dtype t);

#endif
