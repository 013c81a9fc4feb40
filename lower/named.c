/* Names of loop fusions: which named fusion puts a node into a kernel. */
#include "lower/inside.h"

enum { REACH = 6 };

static bool is_matmul(const struct ht_node *n)
{
	return ht_is(n, HT_MATRIX_PRODUCT);
}

/* The fusion that the root's op determines. */
static enum ht_fusion_id loop_of(const struct ht_node *root)
{
	if (ht_is(root, HT_ROWS))
		return HT_FUSION_softmax_elementwise;
	if (ht_is(root, HT_DEPTHWISE))
		return HT_FUSION_depthwise_elementwise;
	if (ht_is(root, HT_CONVOLVES))
		return HT_FUSION_conv_elementwise;
	if (ht_is(root, HT_BATCH_MATMUL))
		return HT_FUSION_batch_matmul_elementwise;
	if (is_matmul(root))
		return HT_FUSION_matmul_elementwise;
	if (ht_is(root, HT_REDUCES))
		return HT_FUSION_reduce_elementwise;
	return HT_FUSION_window_elementwise;
}

/* ---- attention ---- */

static struct ht_node *only_user(struct lower *l, const struct ht_node *n)
{
	struct ht_node *user = NULL;

	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next) {
		if (u->arg < 0)
			continue;
		if (user && user != u->node)
			return NULL;
		user = u->node;
	}
	return user;
}

/* The node satisfying `is` that is the only user of `n`, seen through ops without a loop of
 * their own. */
static struct ht_node *next_of(
	struct lower *l, struct ht_node *n, bool (*is)(const struct ht_node *n))
{
	for (int i = 0; i < REACH && (n = only_user(l, n)); i++) {
		const struct lower_op *op = lower_op_of(n);

		if (is(n))
			return n;
		if (!op || op->family == FAMILY_ROOT)
			return NULL;
	}
	return NULL;
}

static bool is_softmax(const struct ht_node *n)
{
	return n->op == HT_OP_Softmax;
}

bool lower_is_scores(struct lower *l, struct ht_node *root)
{
	struct ht_node *softmax = is_matmul(root) ? next_of(l, root, is_softmax) : NULL;

	return softmax && next_of(l, softmax, is_matmul);
}

/* ---- nodes behind a root, and in front of it ---- */

static bool is_sum(const struct ht_node *n)
{
	return ht_is(n, HT_ADDS) || n->op == HT_OP_AddN;
}

/* Whether `u` adds a constant along the last axis. */
static bool is_bias(const struct ht_node *u, const struct ht_node *root)
{
	if (u->op == HT_OP_BiasAdd)
		return true;
	if (!is_sum(u) || !is_matmul(root))
		return false;
	for (int32_t i = 0; i < u->ins; i++)
		if (ht_is(u->in[i].node, HT_CONSTANT) && ht_type_of(u->in[i])->shape.rank == 1)
			return true;
	return false;
}

static bool adds_tensor(const struct ht_node *u)
{
	if (!is_sum(u))
		return false;
	for (int32_t i = 0; i < u->ins; i++)
		if (ht_is(u->in[i].node, HT_CONSTANT) ||
			ht_shape_count(ht_type_of(u->in[i])->shape) !=
				ht_shape_count(u->out[0].shape))
			return false;
	return true;
}

enum ht_fusion_id lower_name_behind(
	const struct ht_node *root, const struct ht_node *u, bool scores)
{
	const struct lower_op *op = lower_op_of(u);

	if (op->family == FAMILY_VIEW)
		return HT_FUSION_END;
	if (is_bias(u, root) && ht_is(root, HT_CONVOLVES))
		return HT_FUSION_bias_conv;
	if (is_bias(u, root) && is_matmul(root))
		return HT_FUSION_bias_matmul;
	if (scores)
		return HT_FUSION_attention;
	if (ht_is(u, HT_CASTS) && is_matmul(root))
		return HT_FUSION_matmul_cast;
	if (adds_tensor(u) && (ht_is(root, HT_CONVOLVES) || is_matmul(root)))
		return HT_FUSION_residual;
	return loop_of(root);
}

enum ht_fusion_id lower_name_before(struct lower *l, const struct ht_node *n, struct ht_node *user)
{
	const struct lower_op *op = lower_op_of(user);

	if (lower_op_of(n)->family == FAMILY_VIEW || ht_is(n, HT_CASTS))
		return HT_FUSION_END;
	if (is_softmax(user) && next_of(l, user, is_matmul))
		return HT_FUSION_attention;
	return op && op->family == FAMILY_ROOT ? loop_of(user) : HT_FUSION_elementwise;
}
