/* rms_norm: x * rsqrt(mean(x^2) + epsilon) * scale becomes RmsNorm, over the last axis.
 *
 * The form may also be x / sqrt(…), and it may lack the scale, which is a constant along the
 * last axis. float32 only. */
#include "passes/rewrite.h"

static bool is_square_of(struct ht_value v, struct ht_value *x)
{
	struct ht_node *n = v.node;

	*x = n->in ? n->in[0] : v;
	return !n->controls &&
	       (n->op == HT_OP_Square || (n->op == HT_OP_Mul && ht_value_eq(n->in[0], n->in[1])));
}

static bool is_last_axis(const struct ht_node *n, struct ht_value x)
{
	int64_t axis;
	int count;

	return !n->controls && ht_attr_bool(n, "keep_dims", false) &&
	       ht_const_small_ints(n->in[1], &axis, 1, &count) && count == 1 &&
	       (axis == -1 || axis == ht_type_of(x)->shape.rank - 1);
}

/* mean(x^2) + epsilon */
static bool is_mean_square(
	const struct ht_rw *r, struct ht_value v, struct ht_value *x, double *epsilon)
{
	struct ht_value mean;

	if (!ht_is(v.node, HT_ADDS) || !ht_match_with_const(v, v.node->op, epsilon, &mean) ||
		mean.node->op != HT_OP_Mean || !is_square_of(mean.node->in[0], x))
		return false;
	if (is_last_axis(mean.node, *x))
		return true;
	ht_rw_miss(r, HT_FUSION_rms_norm, 1, mean.node,
		"is not a mean over the last axis that keeps it");
	return false;
}

/* Whether `n` is x times the inverse of its root mean square, or divided by the root. */
static bool is_normal(const struct ht_rw *r, struct ht_node *n, struct ht_value *x, double *epsilon)
{
	if (n->op == HT_OP_RealDiv)
		return n->in[1].node->op == HT_OP_Sqrt && !n->in[1].node->controls &&
		       is_mean_square(r, n->in[1].node->in[0], x, epsilon) &&
		       ht_value_eq(*x, n->in[0]);
	for (int i = 0; n->op == HT_OP_Mul && i < 2; i++) {
		struct ht_node *inverse = n->in[1 - i].node;

		if (inverse->op == HT_OP_Rsqrt && !inverse->controls &&
			is_mean_square(r, inverse->in[0], x, epsilon) && ht_value_eq(*x, n->in[i]))
			return true;
	}
	return false;
}

/* The following Mul by a constant along the last axis, which *scale becomes as a vector; NULL:
 * there is none. */
static struct ht_node *scaling(
	const struct ht_rw *r, struct ht_node *n, int64_t channels, struct ht_value *scale)
{
	struct ht_node *user = ht_rw_only_user(r, ht_out(n, 0));
	int64_t count;

	if (!user || user->op != HT_OP_Mul || user->controls || !ht_rw_plain(r, n))
		return NULL;
	*scale = user->in[user->in[0].node == n];
	if (!ht_const_f32(*scale, &count) || count != channels ||
		ht_type_of(*scale)->shape.rank != 1)
		return NULL;
	return user;
}

static struct ht_value ones(struct ht_rw *r, struct ht_node *before, int64_t channels)
{
	struct ht_blob *b = ht_rw_blob(r, (size_t)channels * sizeof(float));

	for (int64_t i = 0; i < channels; i++)
		((float *)(void *)(uintptr_t)b->p)[i] = 1;
	return ht_rw_const(r, before,
		ht_str_printf(r->arena, "%.*s/scale", HT_STR_ARG(before->name)), HT_F32,
		(struct ht_shape){ 1, &channels }, b);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_rms_norm;
	struct ht_value x, scale = { 0 };
	struct ht_node *end;
	struct ht_shape s;
	double epsilon;

	if (!is_normal(r, n, &x, &epsilon) || !ht_rw_on(r, id))
		return;
	s = ht_type_of(x)->shape;
	if (s.rank < 1 || s.dim[s.rank - 1] < 1) {
		ht_rw_miss(r, id, 2, x.node, "has a last axis of unknown size");
		return;
	}
	if (n->out[0].dtype != HT_F32 || n->controls) {
		ht_rw_miss(r, id, 3, n, n->controls ? "has control inputs" : "is not float32");
		return;
	}
	end = scaling(r, n, s.dim[s.rank - 1], &scale);
	if (!end) {
		end = n;
		scale = ones(r, n, s.dim[s.rank - 1]);
	}
	ht_rw_hit(r, id);
	ht_rw_absorb_between(end, x);
	ht_rw_become(r, end, HT_OP_RmsNorm, (struct ht_value[]){ x, scale }, 2);
	ht_attr_set_float(end, "epsilon", (float)epsilon);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_rms_norm = {
	.name = "rms_norm",
	.summary = "recognises RmsNorm",
	.run = run,
};
