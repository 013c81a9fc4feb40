/* layer_norm: the arithmetic of a normalisation over the last axis becomes one LayerNorm.
 *
 * The search starts at 1 / sqrt(variance + epsilon), where the variance is the mean of squares
 * of x - mean, and both means are over the last axis with keep_dims.  The values behind it are
 * written as sums of products; the last one of the form
 *
 *   x * inverse * scale - mean * inverse * scale + offset
 *
 * is replaced.  That covers tf.nn.moments with tf.nn.batch_normalization (BERT), Keras, and the
 * form that ONNX writes. scale and offset are constants along the last axis; 1 and 0 if they are
 * absent. float32 only. */
#include "passes/rewrite.h"

enum { MAX_TERMS = 4, MAX_FACTORS = 4, MAX_DEPTH = 8, MAX_REACH = 24 };

struct norm {
	struct ht_rw *r;
	enum ht_fusion_id id; /* the fusion whose misses are recorded */
	bool by_mul;          /* the squares are products */
	struct ht_value x, mean, inverse;
	double epsilon;
	int64_t channels;
};

struct term {
	bool negative;
	int factors;
	struct ht_value of[MAX_FACTORS];
};

struct sum {
	int terms;
	struct term term[MAX_TERMS];
};

/* ---- the statistics ---- */

static bool is_last_axis_mean(struct ht_value v, struct ht_value *x)
{
	struct ht_node *n = v.node;
	int64_t axis;
	int count;

	if (n->op != HT_OP_Mean || n->controls || !ht_attr_bool(n, "keep_dims", false) ||
		!ht_const_small_ints(n->in[1], &axis, 1, &count) || count != 1)
		return false;
	*x = n->in[0];
	return axis == -1 || axis == ht_type_of(*x)->shape.rank - 1;
}

static bool is_difference(struct ht_value v, struct ht_value *x, struct ht_value *mean)
{
	struct ht_value of;

	if (v.node->op != HT_OP_Sub || v.node->controls)
		return false;
	*x = v.node->in[0];
	*mean = v.node->in[1];
	return is_last_axis_mean(*mean, &of) && ht_value_eq(of, *x);
}

static bool is_squared_difference(struct norm *m, struct ht_value v)
{
	struct ht_node *n = v.node;
	struct ht_value of;

	if (n->controls)
		return false;
	if (n->op == HT_OP_SquaredDifference) {
		for (int i = 0; i < 2; i++) {
			m->x = n->in[i];
			m->mean = n->in[1 - i];
			if (is_last_axis_mean(m->mean, &of) && ht_value_eq(of, m->x))
				return true;
		}
		return false;
	}
	return (n->op == HT_OP_Square || (n->op == HT_OP_Mul && ht_value_eq(n->in[0], n->in[1]))) &&
	       is_difference(n->in[0], &m->x, &m->mean);
}

/* `n` is Rsqrt, or Sqrt that something is divided by, of variance + epsilon. */
static bool is_deviation(struct norm *m, struct ht_node *n)
{
	struct ht_value variance, squares, sum;

	if (n->controls || n->out[0].dtype != HT_F32)
		return false;
	sum = n->in[0];
	if (!ht_is(sum.node, HT_ADDS) ||
		!ht_match_with_const(sum, sum.node->op, &m->epsilon, &variance))
		return false;
	if (!is_last_axis_mean(variance, &squares)) {
		ht_rw_miss(m->r, m->id, 1, variance.node,
			"is not a mean over the last axis that keeps it");
		return false;
	}
	if (!is_squared_difference(m, squares)) {
		ht_rw_miss(m->r, m->id, 2, squares.node,
			"is not the square of x - mean of the same x and axis");
		return false;
	}
	m->by_mul = squares.node->op == HT_OP_Mul;
	m->inverse = ht_out(n, 0);
	return true;
}

/* ---- sums of products ---- */

static bool is_atom(const struct norm *m, struct ht_value v)
{
	return ht_value_eq(v, m->x) || ht_value_eq(v, m->mean) || ht_value_eq(v, m->inverse) ||
	       ht_is_const(v);
}

static bool expand(const struct norm *m, struct ht_value v, int depth, struct sum *s);

static bool add_terms(struct sum *s, const struct sum *more, bool negative)
{
	if (s->terms + more->terms > MAX_TERMS)
		return false;
	for (int i = 0; i < more->terms; i++) {
		s->term[s->terms] = more->term[i];
		s->term[s->terms++].negative ^= negative;
	}
	return true;
}

static bool multiply(struct sum *s, const struct sum *a, const struct sum *b)
{
	for (int i = 0; i < a->terms; i++) {
		for (int k = 0; k < b->terms; k++) {
			struct term t = a->term[i];

			if (s->terms == MAX_TERMS || t.factors + b->term[k].factors > MAX_FACTORS)
				return false;
			t.negative ^= b->term[k].negative;
			for (int f = 0; f < b->term[k].factors; f++)
				t.of[t.factors++] = b->term[k].of[f];
			s->term[s->terms++] = t;
		}
	}
	return true;
}

static bool expand_two(const struct norm *m, struct ht_node *n, int depth, struct sum *s)
{
	struct sum a = { 0 }, b = { 0 };

	if (!expand(m, n->in[0], depth, &a) || !expand(m, n->in[1], depth, &b))
		return false;
	if (n->op == HT_OP_Mul)
		return multiply(s, &a, &b);
	return add_terms(s, &a, false) && add_terms(s, &b, n->op == HT_OP_Sub);
}

static bool expand(const struct norm *m, struct ht_value v, int depth, struct sum *s)
{
	struct ht_node *n = v.node;
	struct sum a = { 0 };

	if (is_atom(m, v)) {
		if (m->inverse.node->op == HT_OP_Sqrt && ht_value_eq(v, m->inverse))
			return false; /* it may only be a divisor */
		s->terms = 1;
		s->term[0] = (struct term){ .factors = 1, .of = { v } };
		return true;
	}
	if (depth == 0 || n->controls)
		return false;
	switch ((int)n->op) {
	case HT_OP_Neg:
		return expand(m, n->in[0], depth - 1, &a) && add_terms(s, &a, true);
	case HT_OP_RealDiv:
		if (m->inverse.node->op != HT_OP_Sqrt || !ht_value_eq(n->in[1], m->inverse) ||
			!expand(m, n->in[0], depth - 1, &a))
			return false;
		for (int i = 0; i < a.terms; i++) {
			if (a.term[i].factors == MAX_FACTORS)
				return false;
			a.term[i].of[a.term[i].factors++] = m->inverse;
		}
		*s = a;
		return true;
	case HT_OP_Add:
	case HT_OP_AddV2:
	case HT_OP_Sub:
	case HT_OP_Mul:
		return expand_two(m, n, depth - 1, s);
	default:
		return false;
	}
}

/* A constant with one element for each index of the last axis, or one for all. */
static bool is_channel_const(const struct norm *m, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t n;

	if (!ht_const_f32(v, &n) || s.rank > ht_type_of(m->x)->shape.rank)
		return false;
	return n == 1 || (n == m->channels && s.rank > 0 && s.dim[s.rank - 1] == n);
}

/* Whether the term is `what` * inverse * scale, where scale may be absent. */
static bool is_scaled(
	const struct norm *m, const struct term *t, struct ht_value what, struct ht_value *scale)
{
	int whats = 0, inverses = 0, scales = 0;
	struct ht_value by = { 0 };

	for (int i = 0; i < t->factors; i++) {
		if (ht_value_eq(t->of[i], what)) {
			whats++;
		} else if (ht_value_eq(t->of[i], m->inverse)) {
			inverses++;
		} else if (is_channel_const(m, t->of[i])) {
			by = t->of[i];
			scales++;
		}
	}
	if (whats != 1 || inverses != 1 || scales > 1 || whats + inverses + scales != t->factors)
		return false;
	*scale = by;
	return true;
}

struct match {
	struct ht_value scale, offset; /* node NULL: absent */
};

static bool is_norm(const struct norm *m, const struct sum *s, struct match *found)
{
	struct ht_value scale_of_mean = { 0 };
	bool x = false, mean = false;

	*found = (struct match){ 0 };
	for (int i = 0; i < s->terms; i++) {
		const struct term *t = &s->term[i];

		if (!t->negative && !x && is_scaled(m, t, m->x, &found->scale)) {
			x = true;
		} else if (t->negative && !mean && is_scaled(m, t, m->mean, &scale_of_mean)) {
			mean = true;
		} else if (!t->negative && !found->offset.node && t->factors == 1 &&
			   is_channel_const(m, t->of[0])) {
			found->offset = t->of[0];
		} else {
			return false;
		}
	}
	return x && mean && found->scale.node == scale_of_mean.node;
}

/* ---- the search for the end ---- */

struct reach {
	struct ht_node *node[MAX_REACH];
	int count;
};

static bool is_arithmetic(const struct ht_node *n)
{
	return ht_is(n, HT_ADDS) || n->op == HT_OP_Sub || n->op == HT_OP_Mul ||
	       n->op == HT_OP_Neg || n->op == HT_OP_RealDiv;
}

static void add_reach(struct reach *s, struct ht_node *n)
{
	for (int i = 0; i < s->count; i++)
		if (s->node[i] == n)
			return;
	if (s->count < MAX_REACH && is_arithmetic(n))
		s->node[s->count++] = n;
}

/* Arithmetic that follows `n`, nearest first. */
static void find_reach(const struct ht_rw *r, struct ht_node *n, struct reach *s)
{
	int done = -1;

	s->count = 0;
	while (done < s->count) {
		struct ht_node *from = done < 0 ? n : s->node[done];

		for (const struct ht_rw_use *u = ht_rw_first_use(r, from); u;
			u = ht_rw_next_use(r, u))
			if (u->arg >= 0)
				add_reach(s, u->node);
		done++;
	}
}

static struct ht_value vector(const struct norm *m, struct ht_node *before, struct ht_value v,
	const char *what, float absent)
{
	struct ht_rw *r = m->r;
	struct ht_str name = ht_rw_name_within(r, before, what);
	struct ht_shape shape = { 1, &m->channels };
	const void *p = NULL;
	struct ht_blob *b;
	int64_t n = 1;

	if (v.node)
		p = ht_const_f32(v, &n);
	if (v.node && ht_type_of(v)->shape.rank == 1 && n == m->channels)
		return v;
	b = ht_rw_blob(r, (size_t)m->channels * sizeof(float));
	for (int64_t i = 0; i < m->channels; i++)
		((float *)(void *)(uintptr_t)b->p)[i] = p ? ht_load_f32(p, n == 1 ? 0 : i) : absent;
	return ht_rw_const(r, before, name, HT_F32, shape, b);
}

static bool scales_x_itself(const struct norm *m, const struct reach *s)
{
	for (int i = 0; i < s->count; i++)
		if (s->node[i]->op == HT_OP_Mul && (ht_value_eq(s->node[i]->in[0], m->x) ||
							   ht_value_eq(s->node[i]->in[1], m->x)))
			return true;
	return false;
}

/* The fusion to which the norm's form belongs. */
static enum ht_fusion_id form_of(const struct norm *m, const struct reach *s)
{
	if (m->by_mul)
		return HT_FUSION_layer_norm_onnx_mul;
	if (m->inverse.node->op == HT_OP_Sqrt)
		return HT_FUSION_layer_norm_onnx;
	return scales_x_itself(m, s) ? HT_FUSION_layer_norm_inference : HT_FUSION_layer_norm_rsqrt;
}

void ht_rw_layer_norm(struct ht_rw *r, struct ht_node *n, enum ht_fusion_id id)
{
	struct norm m = { .r = r, .id = id };
	struct reach s;
	struct match found, best = { 0 };
	struct ht_node *end = NULL;
	struct ht_value scale, offset;
	struct ht_shape shape;

	if (n->op != HT_OP_Rsqrt && n->op != HT_OP_Sqrt)
		return;
	if (id == HT_FUSION_END)
		m.id = n->op == HT_OP_Sqrt ? HT_FUSION_layer_norm_onnx : HT_FUSION_layer_norm_rsqrt;
	if (!is_deviation(&m, n))
		return;
	shape = ht_type_of(m.x)->shape;
	if (shape.rank < 1 || shape.dim[shape.rank - 1] < 1)
		return;
	m.channels = shape.dim[shape.rank - 1];
	find_reach(r, n, &s);
	for (int i = 0; i < s.count; i++) {
		struct sum sum = { 0 };

		if (expand(&m, ht_out(s.node[i], 0), MAX_DEPTH, &sum) &&
			is_norm(&m, &sum, &found)) {
			end = s.node[i];
			best = found;
		}
	}
	if (id == HT_FUSION_END)
		m.id = form_of(&m, &s);
	if (!end)
		ht_rw_miss(r, m.id, 3, n,
			"no x * it * scale - mean * it * scale + offset follows, with constants along the last axis");
	if (!end || !ht_rw_on(r, m.id))
		return;
	ht_rw_hit(r, m.id);
	ht_rw_absorb_between(end, m.x);
	scale = vector(&m, end, best.scale, "scale", 1);
	offset = vector(&m, end, best.offset, "offset", 0);
	ht_rw_become(r, end, HT_OP_LayerNorm, (struct ht_value[]){ m.x, scale, offset }, 3);
	ht_attr_set_float(end, "epsilon", (float)m.epsilon);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	ht_rw_layer_norm(r, n, HT_FUSION_END);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_layer_norm = {
	.name = "layer_norm",
	.summary = "recognises LayerNorm",
	.run = run,
};
