/* The nodes that OpenVINO's two rules keep in float32, before any type is decided. */
#include "precision/presets/preset.h"

#include "passes/rewrite.h"

struct keeping {
	struct ht_precision *p;
	const struct ht_preset *preset;
	struct ht_uses uses;
	const struct ht_dtype_reason **why; /* by node id */
};

static enum ht_preset_class class_of(const struct keeping *k, const struct ht_node *n)
{
	return ht_preset_class_of(k->preset, n);
}

/* ---- the tail: backwards from the outputs to the nodes that become low ---- */

static void keep_tail(struct keeping *k)
{
	for (struct ht_node *n = k->p->graph->last; n; n = n->prev) {
		bool reached = k->uses.is_output[n->id];
		for (const struct ht_use *u = k->uses.of[n->id]; u && !reached; u = u->next)
			reached = u->arg >= 0 && k->why[u->node->id];
		if (reached && class_of(k, n) == HT_PRESET_TAIL)
			k->why[n->id] = HT_BY(TAIL);
	}
}

/* ---- nodes that are sensitive in float16 ---- */

static bool is_float(struct keeping *k, const struct ht_node *n, int32_t i)
{
	const struct ht_unit *u = n->op == HT_OP_OPAQUE ? NULL : ht_unit_of_arg(k->p, n, i);

	return u && ht_is_policy_float(u->from);
}

/* Keeps exponentials whose values reach a sum or a mean through nodes that spread. */
static void keep_exponentials(struct keeping *k)
{
	bool *summed = HT_NEW_ARRAY(k->p->arena, bool, k->p->graph->ids);

	for (struct ht_node *n = k->p->graph->last; n; n = n->prev) {
		summed[n->id] = n->op == HT_OP_Sum || n->op == HT_OP_Mean;
		for (const struct ht_use *u = k->uses.of[n->id]; u; u = u->next)
			summed[n->id] |= class_of(k, n) == HT_PRESET_SPREAD && u->arg >= 0 &&
					 summed[u->node->id] && is_float(k, u->node, u->arg);
		if (n->op == HT_OP_Exp && summed[n->id])
			k->why[n->id] = HT_BY(EXPONENTIAL_SUM);
	}
}

/* Whether `v` is a constant whose elements are all at most the smallest normal number of
 * float16. */
static bool is_epsilon(struct ht_value v)
{
	const float smallest = (float)ht_least_normal(HT_F16);
	int64_t n = 0;
	const unsigned char *p = ht_const_f32(v, &n);

	for (int64_t i = 0; p && i < n; i++)
		if (ht_load_f32(p, i) > smallest)
			return false;
	return p;
}

static bool adds_epsilon(struct ht_value v)
{
	const struct ht_node *n = v.node;

	return (ht_is(n, HT_ADDS) || n->op == HT_OP_Maximum) && n->ins == 2 &&
	       (is_epsilon(n->in[0]) || is_epsilon(n->in[1]));
}

/* Whether it is a power with a negative exponent. */
static bool is_inverse(struct ht_value v)
{
	double power;

	if (v.node->op == HT_OP_Rsqrt || v.node->op == HT_OP_Reciprocal || v.node->op == HT_OP_Inv)
		return adds_epsilon(v.node->in[0]);
	return v.node->op == HT_OP_Pow && adds_epsilon(v.node->in[0]) &&
	       ht_const_splat(v.node->in[1], &power) && power < 0;
}

static bool divides_by_epsilon(const struct ht_node *n)
{
	struct ht_value by;

	if (n->op == HT_OP_RmsNorm)
		return ht_attr_float(n, "epsilon", 0) <= (float)ht_least_normal(HT_F16);
	if (n->op == HT_OP_Mul)
		return is_inverse(n->in[0]) || is_inverse(n->in[1]);
	if (n->op != HT_OP_RealDiv && n->op != HT_OP_Div)
		return false;
	by = n->in[1];
	return adds_epsilon(by.node->op == HT_OP_Sqrt ? by.node->in[0] : by);
}

/* Spreads downwards once, then upwards once: to side branches that lead to nodes that are kept. */
static void spread(struct keeping *k)
{
	for (struct ht_node *n = k->p->graph->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins && class_of(k, n) == HT_PRESET_SPREAD; i++)
			if (!k->why[n->id] && is_float(k, n, i) && k->why[n->in[i].node->id])
				k->why[n->id] = HT_BY(BEHIND_FLOAT32);
	for (struct ht_node *n = k->p->graph->last; n; n = n->prev)
		for (const struct ht_use *u = k->uses.of[n->id];
			u && class_of(k, n) == HT_PRESET_SPREAD; u = u->next)
			if (!k->why[n->id] && u->arg >= 0 && k->why[u->node->id] &&
				is_float(k, u->node, u->arg))
				k->why[n->id] = HT_BY(INTO_FLOAT32);
}

static void keep_sensitive(struct keeping *k)
{
	for (const struct ht_node *n = k->p->graph->first; n; n = n->next) {
		if (class_of(k, n) == HT_PRESET_FLOAT32)
			k->why[n->id] = HT_BY(STAYS);
		if (divides_by_epsilon(n))
			k->why[n->id] = HT_BY(GUARDED_DIVISION);
	}
	keep_exponentials(k);
	spread(k);
}

static bool has_class(const struct ht_preset *s, enum ht_preset_class class)
{
	for (size_t i = 0; i < s->rows; i++)
		if (s->row[i].class == class)
			return true;
	return s->otherwise == class;
}

const struct ht_dtype_reason **ht_preset_kept(struct ht_precision *p, const struct ht_preset *s)
{
	struct keeping k = { p, s, ht_graph_uses(p->graph, p->arena),
		HT_NEW_ARRAY(p->arena, const struct ht_dtype_reason *, p->graph->ids) };

	if (has_class(s, HT_PRESET_TAIL))
		keep_tail(&k);
	if (has_class(s, HT_PRESET_SPREAD))
		keep_sensitive(&k);
	return k.why;
}
