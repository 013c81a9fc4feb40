/* batch_norm: nodes behind a contraction that are linear in each channel are folded into its
 * weights and bias.
 *
 * The contraction is Conv2D, DepthwiseConv2dNative, Conv2DBackpropInput or MatMul with constant
 * float32 weights.  A chain behind it of FusedBatchNorm (of inference), BiasAdd, and Add, Sub,
 * Mul, RealDiv by constants that vary at most by channel becomes scaled weights and one BiasAdd.
 * Reshapes that keep the channels last may be in the chain.  Every value of the chain must have
 * one use.
 *
 * Factors and offsets are computed in float64.  If weights have other users, they are copied,
 * and only up to SHARED bytes; unused weights are freed.  Left alone: other dtypes, factors that
 * are not finite, training.
 *
 * split_batch_norm: an inference FusedBatchNorm that is left over becomes a product and a sum
 * with constants, computed in float32 and rounded once. */
#include "passes/rewrite.h"

#include <math.h>
#include <string.h>

#define SHARED (1 << 20)

/* y = scale[c] * x + offset[c] */
struct affine {
	int64_t channels;
	double *scale, *offset;
	bool scales, offsets;
};

static struct affine affine_new(struct ht_arena *a, int64_t channels)
{
	struct affine f = { .channels = channels };

	f.scale = HT_NEW_ARRAY(a, double, (size_t)channels);
	f.offset = HT_NEW_ARRAY(a, double, (size_t)channels);
	for (int64_t i = 0; i < channels; i++)
		f.scale[i] = 1;
	return f;
}

/* The constant `v` by channel; `rank` and `axis` are those of the tensor that it is combined
 * with.  A scalar is repeated for every channel.  NULL if it varies along another axis. */
static double *by_channel(
	struct ht_value v, int32_t rank, int32_t axis, int64_t channels, struct ht_arena *a)
{
	int64_t n, count = 1;
	const void *p = ht_const_f32(v, &n);
	struct ht_shape s = ht_type_of(v)->shape;
	double *out;

	if (!p || s.rank > rank)
		return NULL;
	for (int32_t i = 0; i < s.rank; i++) {
		if (s.dim[i] == 1)
			continue;
		if (i + rank - s.rank != axis || s.dim[i] != channels)
			return NULL;
		count = s.dim[i];
	}
	if (n != count)
		return NULL;
	out = HT_NEW_ARRAY(a, double, (size_t)channels);
	for (int64_t i = 0; i < channels; i++)
		out[i] = (double)ht_load_f32(p, count == 1 ? 0 : i);
	return out;
}

static const void *vector_of(struct ht_value v, int64_t channels)
{
	int64_t n;
	const void *p = ht_const_f32(v, &n);

	return n == channels ? p : NULL;
}

static void compose(struct affine *f, const double *scale, const double *offset)
{
	for (int64_t i = 0; i < f->channels; i++) {
		if (scale) {
			f->scale[i] *= scale[i];
			f->offset[i] *= scale[i];
		}
		if (offset)
			f->offset[i] += offset[i];
	}
	f->scales = f->scales || scale;
	f->offsets = f->offsets || offset;
}

/* The factors and offsets of an inference batch norm with constant statistics. */
static bool batch_norm_affine(
	const struct ht_rw *r, struct ht_node *n, int64_t channels, double **scale, double **offset)
{
	const void *p[4];
	double epsilon = ht_attr_float(n, "epsilon", 1e-4F);

	if (ht_attr_bool(n, "is_training", true) || n->ins != 5)
		return false;
	for (int32_t i = 1; i < n->outs; i++)
		if (ht_rw_uses(r, ht_out(n, i)))
			return false;
	for (int i = 0; i < 4; i++)
		if (!ht_is_const(n->in[1 + i]) || !(p[i] = vector_of(n->in[1 + i], channels)))
			return false;
	*scale = HT_NEW_ARRAY(r->arena, double, (size_t)channels);
	*offset = HT_NEW_ARRAY(r->arena, double, (size_t)channels);
	for (int64_t i = 0; i < channels; i++) {
		(*scale)[i] =
			(double)ht_load_f32(p[0], i) / sqrt((double)ht_load_f32(p[3], i) + epsilon);
		(*offset)[i] =
			(double)ht_load_f32(p[1], i) - (double)ht_load_f32(p[2], i) * (*scale)[i];
	}
	return true;
}

static bool all_finite(const double *x, int64_t n)
{
	for (int64_t i = 0; x && i < n; i++)
		if (!isfinite(x[i]) || fabs(x[i]) > 1e30)
			return false;
	return true;
}

/* ---- the chain behind a contraction ---- */

struct chain {
	struct ht_rw *r;
	struct ht_node *root;
	bool may_scale;
	int32_t axis; /* of the channels, in the current value */
	struct affine f;
	struct ht_node **step; /* the nodes to remove, in order */
	enum ht_fusion_id *by; /* and the fusion that removes each */
	size_t steps, cap, bys;
};

static bool binary_affine(
	struct chain *k, struct ht_node *n, struct ht_value v, double **scale, double **offset)
{
	int arg = ht_value_eq(n->in[0], v) ? 0 : 1;
	int64_t channels = k->f.channels;
	double *c = by_channel(
		n->in[1 - arg], ht_type_of(v)->shape.rank, k->axis, channels, k->r->arena);

	if (!c)
		return false;
	switch ((int)n->op) {
	case HT_OP_Add:
	case HT_OP_AddV2:
		*offset = c;
		return true;
	case HT_OP_Mul:
		*scale = c;
		return true;
	case HT_OP_RealDiv:
		if (arg)
			return false;
		for (int64_t i = 0; i < channels; i++)
			c[i] = 1 / c[i];
		*scale = c;
		return true;
	case HT_OP_Sub:
		*offset = c;
		if (arg == 0) {
			for (int64_t i = 0; i < channels; i++)
				c[i] = -c[i];
			return true;
		}
		*scale = HT_NEW_ARRAY(k->r->arena, double, (size_t)channels);
		for (int64_t i = 0; i < channels; i++)
			(*scale)[i] = -1;
		return true;
	default:
		return false;
	}
}

static bool step_affine(
	struct chain *k, struct ht_node *n, struct ht_value v, double **scale, double **offset)
{
	int32_t rank = ht_type_of(v)->shape.rank;

	*scale = *offset = NULL;
	if (ht_is(n, HT_BATCH_NORM))
		return ht_value_eq(n->in[0], v) &&
		       (ht_channels_first(n) ? 1 : rank - 1) == k->axis &&
		       batch_norm_affine(k->r, n, k->f.channels, scale, offset);
	if (n->op == HT_OP_BiasAdd) {
		if (!ht_value_eq(n->in[0], v) || (ht_channels_first(n) ? 1 : rank - 1) != k->axis)
			return false;
		*offset = by_channel(n->in[1], 1, 0, k->f.channels, k->r->arena);
		return *offset;
	}
	return n->ins == 2 && binary_affine(k, n, v, scale, offset);
}

/* Whether `n` changes the shape but keeps the channels as the last axis. */
static bool keeps_channels(const struct chain *k, const struct ht_node *n, struct ht_value v)
{
	struct ht_shape from = ht_type_of(v)->shape, to = n->out[0].shape;

	return ht_is(n, HT_RESHAPES) && ht_value_eq(n->in[0], v) && k->axis == from.rank - 1 &&
	       to.rank > 1 && to.dim[to.rank - 1] == k->f.channels;
}

/* The fusion of this pass that takes the step. */
static enum ht_fusion_id fusion_of(const struct ht_node *n, const double *scale)
{
	return ht_is(n, HT_BATCH_NORM) ? HT_FUSION_conv_batch_norm
	       : scale                 ? HT_FUSION_scale_weights
				       : HT_FUSION_add_bias;
}

/* Whether the step can go into weights and bias. */
static bool may_take(struct chain *k, struct ht_node *n, const double *scale, const double *offset)
{
	enum ht_fusion_id id = fusion_of(n, scale);

	if (!ht_rw_on(k->r, id))
		return false;
	if (n->out[0].dtype != HT_F32)
		ht_rw_miss(k->r, id, 1, n, "is not float32");
	else if (!all_finite(scale, k->f.channels) || !all_finite(offset, k->f.channels))
		ht_rw_miss(k->r, id, 2, n, "has a factor or an offset that is not finite, or huge");
	else if (scale && !k->may_scale)
		ht_rw_miss(k->r, id, 3, k->root,
			"shares its weights, which are too large for a second copy");
	else
		return true;
	return false;
}

static void tell_of_users(const struct chain *k)
{
	const struct ht_rw_use *u = ht_rw_first_use(k->r, k->root);

	if (!ht_rw_only_user(k->r, ht_out(k->root, 0)))
		for (; u; u = ht_rw_next_use(k->r, u))
			if (u->arg >= 0 && ht_is(u->node, HT_BATCH_NORM))
				ht_rw_miss(k->r, HT_FUSION_conv_batch_norm, 1, k->root,
					"has another user than the batch norm");
}

static void follow(struct chain *k)
{
	struct ht_value v = ht_out(k->root, 0);
	struct ht_node *n;
	double *scale, *offset;

	tell_of_users(k);
	while ((n = ht_rw_only_user(k->r, v)) && n->outs && !n->controls &&
		ht_rw_plain(k->r, v.node)) {
		if (keeps_channels(k, n, v)) {
			v = ht_out(n, 0);
			k->axis = n->out[0].shape.rank - 1;
			continue;
		}
		if (!step_affine(k, n, v, &scale, &offset) || !may_take(k, n, scale, offset))
			break;
		compose(&k->f, scale, offset);
		k->step = ht_grow(k->r->arena, k->step, k->steps, &k->cap, sizeof *k->step);
		k->by = ht_grow(k->r->arena, k->by, k->steps, &k->bys, sizeof *k->by);
		k->by[k->steps] = fusion_of(n, scale);
		k->step[k->steps++] = n;
		v = ht_out(n, 0);
	}
}

/* ---- contractions ---- */

/* Weights as [outer, channels, inner]. */
struct layout {
	int64_t outer, channels, inner;
};

static bool weight_layout(const struct ht_node *n, struct ht_shape w, struct layout *l)
{
	if (!ht_shape_known(w) || ht_shape_count(w) <= 0)
		return false;
	switch ((int)n->op) {
	case HT_OP_Conv2D:
		*l = (struct layout){ w.dim[0] * w.dim[1] * w.dim[2], w.dim[3], 1 };
		return w.rank == 4;
	case HT_OP_DepthwiseConv2dNative:
		*l = (struct layout){ w.dim[0] * w.dim[1], w.dim[2] * w.dim[3], 1 };
		return w.rank == 4;
	case HT_OP_Conv2DBackpropInput:
		*l = (struct layout){ w.dim[0] * w.dim[1], w.dim[2], w.dim[3] };
		return w.rank == 4;
	case HT_OP_MatMul:
		if (ht_attr_bool(n, "transpose_b", false))
			*l = (struct layout){ 1, w.dim[0], w.dim[1] };
		else
			*l = (struct layout){ w.dim[0], w.dim[1], 1 };
		return w.rank == 2;
	default:
		return false;
	}
}

/* Works row by row if the channels are last, so that memory bandwidth is the limit. */
static struct ht_blob *scaled(struct ht_rw *r, const void *w, struct layout l, const double *scale)
{
	size_t n = (size_t)(l.outer * l.channels * l.inner);
	struct ht_blob *b = ht_rw_blob(r, n * sizeof(float));
	float *to = (float *)(void *)(uintptr_t)b->p;
	float *factor = HT_NEW_ARRAY(r->arena, float, (size_t)l.channels);

	for (int64_t c = 0; c < l.channels; c++)
		factor[c] = (float)scale[c];
	for (int64_t o = 0; o < l.outer; o++) {
		for (int64_t c = 0; l.inner == 1 && c < l.channels; c++)
			to[c] = ht_load_f32(w, c) * factor[c];
		for (int64_t i = 0; l.inner != 1 && i < l.channels * l.inner; i++)
			to[i] = ht_load_f32(w, i) * factor[i / l.inner];
		to += l.channels * l.inner;
		w = (const float *)w + l.channels * l.inner;
	}
	return b;
}

static bool is_shared(const struct ht_rw *r, struct ht_value w)
{
	return ht_rw_node_uses(r, w.node) > 1;
}

static struct ht_value bias_add(struct chain *k, struct ht_node *last, struct ht_value v)
{
	struct ht_rw *r = k->r;
	struct ht_blob *b = ht_rw_blob(r, (size_t)k->f.channels * sizeof(float));
	struct ht_shape shape = { 1, &k->f.channels };
	struct ht_value bias;
	struct ht_node *n;

	for (int64_t i = 0; i < k->f.channels; i++)
		((float *)(void *)(uintptr_t)b->p)[i] = (float)k->f.offset[i];
	bias = ht_rw_const(r, last, ht_str_printf(r->arena, "%.*s/bias", HT_STR_ARG(last->name)),
		HT_F32, shape, b);
	n = ht_rw_node(r, last, HT_OP_BiasAdd, last->name, (struct ht_value[]){ v, bias }, 2,
		*ht_type_of(v));
	ht_attr_set_str(n, "data_format",
		k->axis == ht_type_of(v)->shape.rank - 1 ? HT_STR("NHWC") : HT_STR("NCHW"));
	return ht_out(n, 0);
}

/* The operand of a step that is the chain's value. */
static struct ht_value from_chain(const struct ht_node *n)
{
	return ht_is_const(n->in[0]) ? n->in[1] : n->in[0];
}

static void rewrite(struct chain *k)
{
	struct ht_rw *r = k->r;
	struct ht_node *last = k->step[k->steps - 1];
	struct ht_str name = last->name;
	struct ht_value v;

	for (size_t i = 0; k->f.scales && i < k->steps; i++)
		ht_rw_absorb(k->root, k->step[i]);
	for (size_t i = 0; i + 1 < k->steps; i++)
		ht_rw_replace(r, ht_out(k->step[i], 0), from_chain(k->step[i]));
	v = from_chain(last);
	if (k->f.offsets) {
		v = bias_add(k, last, v);
		for (size_t i = 0; i + 1 < k->steps; i++)
			ht_node_add_origin(v.node, k->step[i]);
	}
	ht_rw_replace_node(r, last, v);
	if (!last->graph && k->f.offsets)
		ht_node_rename(v.node, name);
}

static void scale_weights(struct chain *k, struct layout l)
{
	struct ht_node *n = k->root;
	struct ht_value w = n->in[1], made;
	struct ht_str name;
	int64_t count;

	made = ht_rw_const(k->r, n, w.node->name, HT_F32, ht_type_of(w)->shape,
		scaled(k->r, ht_const_f32(w, &count), l, k->f.scale));
	name = w.node->name;
	ht_node_add_origin(made.node, w.node);
	ht_rw_set_in(k->r, n, 1, made);
	if (!w.node->graph)
		ht_node_rename(made.node, name);
}

/* A single Add of a vector is as good as a BiasAdd, and a single sum with a scalar may stay. */
static bool is_worth_it(const struct chain *k)
{
	int64_t n;

	if (k->steps == 1 && !k->f.scales) {
		struct ht_node *only = k->step[0];
		struct ht_value c = ht_is_const(only->in[0]) ? only->in[0] : only->in[1];

		return only->op != HT_OP_BiasAdd && ht_const_f32(c, &n) && n == k->f.channels;
	}
	return k->steps > 0;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct chain k = { .r = r, .root = n, .may_scale = true };
	struct layout l;
	int64_t count;
	int32_t rank;

	if (!ht_is(n, HT_CONVOLVES | HT_MATMUL))
		return;
	rank = n->out[0].shape.rank;
	if (n->out[0].dtype != HT_F32 || rank < 2 || !ht_const_f32(n->in[1], &count) ||
		!weight_layout(n, ht_type_of(n->in[1])->shape, &l))
		return;
	if (count != l.outer * l.channels * l.inner)
		return;
	if (is_shared(r, n->in[1]) && (size_t)count * sizeof(float) > SHARED)
		k.may_scale = false;
	k.axis = !ht_is(n, HT_MATMUL) && ht_channels_first(n) ? 1 : rank - 1;
	k.f = affine_new(r->arena, l.channels);
	follow(&k);
	if (!is_worth_it(&k))
		return;
	for (size_t i = 0; i < k.steps; i++)
		ht_rw_hit(r, k.by[i]);
	/* follow() may have passed reshapes, so `axis` is that of the last step. */
	k.axis = k.axis == 1 && ht_channels_first(n) && !ht_is(n, HT_MATMUL)
			 ? 1
			 : ht_type_of(from_chain(k.step[k.steps - 1]))->shape.rank - 1;
	if (k.f.scales)
		scale_weights(&k, l);
	rewrite(&k);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_batch_norm = {
	.name = "batch_norm",
	.summary = "folds batch norm and other per-channel arithmetic into weights",
	.run = run,
};

/* ---- split_batch_norm ---- */

/* One number for each channel, so that it is broadcast to the image or volume. */
static struct ht_value channel_const(
	struct ht_rw *r, struct ht_node *n, const char *what, const double *x, int64_t channels)
{
	struct ht_blob *b = ht_rw_blob(r, (size_t)channels * sizeof(float));
	int64_t dim[HT_MAX_RANK] = { channels };
	struct ht_shape s = { ht_channels_first(n) ? n->out[0].shape.rank - 1 : 1, dim };

	for (int32_t i = 1; i < s.rank; i++)
		dim[i] = 1;
	for (int64_t i = 0; i < channels; i++)
		((float *)(void *)(uintptr_t)b->p)[i] = (float)x[i];
	return ht_rw_const(r, n, ht_rw_name_within(r, n, what), HT_F32, s, b);
}

static void split(struct ht_rw *r, struct ht_node *n)
{
	struct ht_shape s = n->out[0].shape;
	double *scale, *offset;
	struct ht_value v = n->in[0];
	struct ht_str name = n->name;
	enum ht_dtype t = n->out[0].dtype;
	int64_t channels;

	if (s.rank < 2 || (t != HT_F32 && t != HT_F16 && t != HT_BF16))
		return;
	channels = s.dim[ht_channels_first(n) ? 1 : s.rank - 1];
	if (channels < 0 || !batch_norm_affine(r, n, channels, &scale, &offset))
		return;
	if (t != HT_F32)
		v = ht_rw_cast(r, n, ht_rw_name_within(r, n, "wide"), v, HT_F32);
	v = ht_rw_binary(r, n, HT_OP_Mul, ht_rw_name_within(r, n, "mul"), v,
		channel_const(r, n, "scale", scale, channels));
	v = ht_rw_binary(r, n, HT_OP_AddV2, ht_rw_name_within(r, n, "add"), v,
		channel_const(r, n, "offset", offset, channels));
	if (t != HT_F32)
		v = ht_rw_cast(r, n, ht_rw_name_within(r, n, "rounded"), v, t);
	ht_rw_replace_node(r, n, v);
	if (!n->graph)
		ht_node_rename(v.node, name);
}

static void visit_split(struct ht_rw *r, struct ht_node *n)
{
	if (ht_is(n, HT_BATCH_NORM))
		split(r, n);
}

static enum ht_status run_split(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit_split);
}

const struct ht_pass ht_pass_split_batch_norm = {
	.name = "split_batch_norm",
	.summary = "writes batch norm of inference as a product and a sum",
	.run = run_split,
};
