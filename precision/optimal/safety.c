/* Safety: which nodes must stay in float32 whatever the cost.
 *
 * A node is denied if its type is black; if the low type makes a constant operand infinite, or
 * all of it zero (sentinels such as the lowest finite number, and epsilons); and in float16, if
 * it is an exponential, whose results soon leave the range, a square that goes into a sum, or
 * reads or returns a gradient that would be lost (gradients.c).
 * Denial spreads forwards as in Grappler: a gray node that reads a denied value, directly or
 * through nodes that only pass values on, is denied too, and so are the nodes between.  White
 * nodes accept any operand and stop the spread. */
#include "lower/price.h"
#include "precision/optimal/optimal.h"

#include <math.h>

/* Constants with at least this many elements are read only for nodes that would become float16. */
enum { LARGE = 1 << 18 };

static const uint8_t low_labels = 1u << HT_LABEL_F16 | 1u << HT_LABEL_BF16;

/* ---- ranges of constants ---- */

/* The largest finite magnitude of the tensor. */
static float largest_of(const struct ht_tensor *t)
{
	int64_t n = ht_shape_count(t->shape);
	float largest = 0;

	for (int64_t i = 0; i < n; i++) {
		float x = fabsf(ht_load_f32(t->blob->p, i));
		if (isfinite(x) && x > largest)
			largest = x;
	}
	return largest;
}

static bool leaves_range(float x, float rounded, bool vanishing_counts)
{
	return isinf(rounded) || (vanishing_counts && x > 0 && rounded == 0);
}

static uint8_t denied_by(const struct ht_tensor *t, bool vanishing_counts)
{
	float x = largest_of(t);
	uint8_t denied = 0;

	if (leaves_range(x, ht_f16_to_f32(ht_f32_to_f16(x)), vanishing_counts))
		denied |= ht_label_bit(HT_LABEL_F16);
	if (leaves_range(x, ht_bf16_to_f32(ht_f32_to_bf16(x)), vanishing_counts))
		denied |= ht_label_bit(HT_LABEL_BF16);
	return denied;
}

static const struct ht_tensor *float_constant(struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	return t && t->dtype == HT_F32 && t->blob && ht_shape_count(t->shape) > 0 ? t : NULL;
}

/* Whether to read the constant later only: weights of a contraction have many elements, and no
 * sentinels. */
static bool is_large(const struct ht_node *n, int32_t arg, const struct ht_tensor *t)
{
	return ht_shape_count(t->shape) >= LARGE || (arg == 1 && ht_multiply_adds(n) > 0);
}

static void deny(struct ht_safety *s, const struct ht_node *n, uint8_t labels,
	const struct ht_dtype_reason *why)
{
	if (labels & (uint8_t)~s->denied[n->id] && !s->why[n->id])
		s->why[n->id] = why;
	s->denied[n->id] |= labels;
}

static void judge_constants(struct ht_safety *s, const struct ht_node *n, bool large)
{
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_tensor *t = float_constant(n->in[i]);
		if (t && is_large(n, i, t) == large)
			deny(s, n, denied_by(t, !large), HT_BY(CONSTANT_LEAVES_RANGE));
	}
}

bool ht_safety_check(struct ht_safety *s, const struct ht_node *n)
{
	uint8_t before = s->denied[n->id];

	if (!s->looked[n->id])
		judge_constants(s, n, true);
	s->looked[n->id] = true;
	return s->denied[n->id] != before;
}

/* ---- nodes that are denied themselves ---- */

static bool goes_into_sum(const struct ht_uses *uses, const struct ht_node *n)
{
	for (const struct ht_use *u = uses->of[n->id]; u; u = u->next)
		if (u->arg == 0 && ht_is(u->node, HT_SUMS))
			return true;
	return false;
}

static void judge(struct ht_precision *p, const struct ht_gradients *gradients, struct ht_safety *s,
	const struct ht_node *n)
{
	const struct ht_dtype_reason *lost = ht_gradient_reason(gradients, n, p->decisions->arena);
	const struct ht_rule *by;

	if (ht_keeps_dtype(p, n, ht_rule_of(p, HT_RULES_CUSTOM, n), &by))
		deny(s, n, low_labels, HT_BY(KEEP_DTYPE));
	if (p->choice[n->id].class == HT_CLASS_BLACK)
		deny(s, n, low_labels, HT_BY(BLACK));
	judge_constants(s, n, false);
	if (ht_is(n, HT_EXPONENTIAL))
		deny(s, n, ht_label_bit(HT_LABEL_F16), HT_BY(EXPONENTIAL_LEAVES_RANGE));
	if (ht_is(n, HT_SQUARES) && goes_into_sum(&s->uses, n))
		deny(s, n, ht_label_bit(HT_LABEL_F16), HT_BY(SQUARES_LEAVE_RANGE));
	if (lost)
		deny(s, n, ht_label_bit(HT_LABEL_F16), lost);
}

/* ---- spreading ---- */

/* Whether the node passes values on, element by element, unchanged. */
static bool hands_on(const struct ht_node *n)
{
	return ht_is_view(n) || ht_is(n, HT_HANDS_ON | HT_ONLY_MOVES);
}

static bool is_gray(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_choice *c = &p->choice[n->id];

	return c->columns && (c->class == HT_CLASS_GRAY || ht_profile_is_still(p->profile, n));
}

/* Marks nodes from which a denied or a computing gray node is reached through nodes that pass
 * values on. */
static bool *find_sensitive(struct ht_precision *p, const struct ht_safety *s)
{
	bool *sensitive = HT_NEW_ARRAY(p->arena, bool, p->graph->ids);

	for (const struct ht_node *n = p->graph->last; n; n = n->prev) {
		bool carries = is_gray(p, n) && hands_on(n);
		sensitive[n->id] |= s->denied[n->id] || (is_gray(p, n) && !carries);
		for (int32_t i = 0; i < n->ins && sensitive[n->id]; i++)
			if (n->in[i].node && is_gray(p, n->in[i].node) && hands_on(n->in[i].node))
				sensitive[n->in[i].node->id] = true;
	}
	return sensitive;
}

void ht_safety_spread(struct ht_precision *p, struct ht_safety *s)
{
	bool *sensitive = find_sensitive(p, s);

	for (const struct ht_node *n = p->graph->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins && sensitive[n->id] && is_gray(p, n); i++) {
			const struct ht_unit *u = ht_unit_of_arg(p, n, i);
			if (!u || u->from != HT_F32 || !s->denied[n->in[i].node->id])
				continue;
			if (!s->why[n->id])
				s->after[n->id] = n->in[i].node;
			deny(s, n, s->denied[n->in[i].node->id], HT_BY(READS_FLOAT32));
		}
}

void ht_safety_build(
	struct ht_precision *p, const struct ht_gradients *gradients, struct ht_safety *s)
{
	s->uses = ht_graph_uses(p->graph, p->arena);
	s->denied = HT_NEW_ARRAY(p->arena, uint8_t, p->graph->ids);
	s->why = HT_NEW_ARRAY(p->arena, const struct ht_dtype_reason *, p->graph->ids);
	s->after = HT_NEW_ARRAY(p->arena, const struct ht_node *, p->graph->ids);
	s->looked = HT_NEW_ARRAY(p->arena, bool, p->graph->ids);
	for (const struct ht_node *n = p->graph->first; n; n = n->next)
		if (p->choice[n->id].columns)
			judge(p, gradients, s, n);
	ht_safety_spread(p, s);
}
