/* Other elementwise ops: conversion, selection, sums of many, bias, normalisation with given moments. */
#include "lower/index.h"
#include "lower/parts.h"

static int32_t pull_cast(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return ht_xcvt(&k->xb, compute_type(n->out[0].dtype), kb_operand(k, n, 0, s));
}

static const char *refuse_cast(const struct ht_node *n)
{
	return ht_attr_bool(n, "Truncate", false) ? "truncates, which has no kernel" : NULL;
}

const struct lower_op lower_cast = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_cast, .refuse = refuse_cast
};

static int32_t pull_prelu(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, n, 0, s), alpha = kb_operand(k, n, 1, s);

	(void)out;
	return ht_xselect(
		b, ht_xlt(b, x, ht_xk(b, operand_type(n, 0), 0)), ht_xmul(b, alpha, x), x);
}

const struct lower_op lower_prelu = { .family = FAMILY_MAP, .aligned = true, .pull = pull_prelu };

static int32_t pull_clip(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t low = ht_xmax(&k->xb, kb_operand(k, n, 0, s), kb_operand(k, n, 1, s));

	(void)out;
	return ht_xmin(&k->xb, low, kb_operand(k, n, 2, s));
}

const struct lower_op lower_clip = { .family = FAMILY_MAP, .aligned = true, .pull = pull_clip };

static int32_t pull_add_n(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t sum = kb_operand(k, n, 0, s);

	(void)out;
	for (int32_t i = 1; i < n->ins; i++)
		sum = ht_xadd(&k->xb, sum, kb_operand(k, n, i, s));
	return sum;
}

const struct lower_op lower_add_n = { .family = FAMILY_MAP, .aligned = true, .pull = pull_add_n };

/* Select's condition may be a vector over the first dimension. */
static bool condition_is_vector(const struct ht_node *n)
{
	return n->op == HT_OP_Select && ht_type_of(n->in[0])->shape.rank == 1 &&
	       n->out[0].shape.rank > 1;
}

static int32_t pull_select(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t cond;

	(void)out;
	if (condition_is_vector(n)) {
		int32_t x = space_coord(&k->xb, s, 0);
		struct space at = space_of_coords(s, 1, s->dim, &x);
		cond = kb_pull(k, n->in[0], &at);
	} else {
		cond = kb_operand(k, n, 0, s);
	}
	return ht_xselect(&k->xb, cond, kb_operand(k, n, 1, s), kb_operand(k, n, 2, s));
}

const struct lower_op lower_select = {
	.family = FAMILY_MAP, .aligned = true, .unaligned = condition_is_vector, .pull = pull_select
};

/* The dimension of the channels: 1 in NCHW, else the last. */
static bool channels_first(const struct ht_node *n)
{
	return n->op == HT_OP_BiasAdd && ht_channels_first(n) && n->out[0].shape.rank > 2;
}

static int32_t pull_bias_add(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x = kb_operand(k, n, 0, s), bias;

	(void)out;
	if (channels_first(n)) {
		int32_t c = space_coord(&k->xb, s, 1);
		struct space at = space_of_coords(s, 1, &s->dim[1], &c);
		bias = kb_pull(k, n->in[1], &at);
	} else {
		bias = kb_operand(k, n, 1, s);
	}
	return ht_xadd(&k->xb, x, bias);
}

const struct lower_op lower_bias_add = { .family = FAMILY_MAP,
	.aligned = true,
	.unaligned = channels_first,
	.pull = pull_bias_add,
	.rows = rows_of_first };

/* (x - mean) * rsqrt(variance + epsilon) * scale + offset, with given moments. */
static int32_t pull_batch_norm(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t channel_dim = ht_channels_first(n) ? 1 : s->rank - 1, c, v[5], r;
	struct space at;

	if (out != 0) /* running statistics pass through */
		return kb_operand(k, n, out == 1 || out == 3 ? 3 : 4, s);
	c = space_coord(b, s, channel_dim);
	at = space_of_coords(s, 1, &s->dim[channel_dim], &c);
	v[0] = kb_operand(k, n, 0, s);
	for (int i = 1; i < 5; i++)
		v[i] = kb_pull(k, n->in[i], &at);
	r = ht_xrsqrt(b,
		ht_xadd(b, v[4], ht_xk(b, ht_xtype(b, v[4]), ht_attr_float(n, "epsilon", 1e-4f))));
	r = ht_xmul(b, ht_xsub(b, v[0], v[3]), ht_xmul(b, r, v[1]));
	return ht_xadd(b, r, v[2]);
}

static const char *refuse_batch_norm(const struct ht_node *n)
{
	if (ht_attr_bool(n, "is_training", true))
		return "in training mode has no kernel";
	if (!ht_is(n, HT_BATCH_NORM))
		return "has no kernel";
	return NULL;
}

static bool always(const struct ht_node *n)
{
	(void)n;
	return true;
}

/* Of a batch normalisation, only the normalised result has rows; statistics have none. */
static bool normalised_rows(const struct parts *p, const struct ht_node *n)
{
	for (int32_t i = 1; i < n->outs; i++)
		if (ht_use_count(&p->l->uses, ht_out((struct ht_node *)(uintptr_t)n, i)))
			return false;
	return rows_of_first(p, n);
}

const struct lower_op lower_batch_norm = { .family = FAMILY_MAP,
	.aligned = true,
	.unaligned = always,
	.pull = pull_batch_norm,
	.refuse = refuse_batch_norm,
	.rows = normalised_rows };

static int32_t pull_fill(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	enum ht_dtype t = compute_type(n->out[0].dtype);

	(void)out;
	if (n->op == HT_OP_Fill) {
		struct space at = space_of_coords(s, 0, NULL, NULL);
		return kb_pull(k, n->in[1], &at);
	}
	return ht_xk(&k->xb, t, n->op == HT_OP_OnesLike);
}

const struct lower_op lower_fill = { .family = FAMILY_MAP, .pull = pull_fill };

static int32_t pull_bitcast(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return ht_xbitcast(&k->xb, n->out[0].dtype, kb_operand(k, n, 0, s));
}

static const char *refuse_bitcast(const struct ht_node *n)
{
	enum ht_dtype from = ht_type_of(n->in[0])->dtype, to = n->out[0].dtype;

	if (ht_dtype_info(from)->bytes != ht_dtype_info(to)->bytes || compute_type(from) != from ||
		compute_type(to) != to)
		return "has no kernel between these dtypes";
	return NULL;
}

const struct lower_op lower_bitcast = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_bitcast, .refuse = refuse_bitcast
};
