/* Short runs of float16 (docs/contraction-numerics.md): which contractions use them under policy optimal.
 *
 * If the machine adds products of float16 faster than those of float32, a contraction that
 * becomes float16 gets mode high_performance, unless an option states its mode.  Its right
 * operand must be a constant: products of two computed tensors are those of attention, and a
 * Softmax may amplify their errors without bound.  The policy uses bfloat16 without being asked,
 * so it uses the mode where the errors of sums are at most those of bfloat16.  Under a budget
 * the error is measured, so the current machine must have such sums.
 *
 * While the policy works, the modes are attributes of the graph, where pricing and the variants
 * that are run read them. */
#include "precision/optimal/optimal.h"

#include "kernel/winograd.h"

/* Measured errors of sums of products that are rounded to the type: root mean square, relative
 * to the sums (docs/contraction-numerics.md). */
#define ERROR_BF16 2.3e-3
#define ERROR_F16 2e-4
/* Half a unit in the last place of float16, relative to the number. */
#define HALF_UNIT 0x1p-11

static double square(double x)
{
	return x * x;
}

/* Pairs of products in the longest run of a contraction. */
static double pairs_of_run(const struct ht_node *n)
{
	const int64_t results = ht_shape_count(n->out[0].shape);
	const double products = results > 0 ? (double)ht_multiply_adds(n) / (double)results : 0;

	return products > 0 && products < 2 * HT_SHORT_RUN ? (products + 1) / 2 : HT_SHORT_RUN;
}

double ht_run_variance(double pairs)
{
	return pairs / 12 * square(HALF_UNIT);
}

double ht_sum_variance(const struct ht_target *t, const struct ht_node *n, enum ht_dtype type)
{
	if (!ht_is_low(type))
		return 0;
	if (ht_winograd_rounds(t, n, type))
		return square(ht_winograd_error(2, type));
	if (type == HT_BF16)
		return square(ERROR_BF16);
	return square(ERROR_F16) +
	       (ht_sums_short(t, n, type) ? ht_run_variance(pairs_of_run(n)) : 0);
}

static bool are_faster(const struct ht_precision *p, const struct ht_target *t)
{
	if (p->policy->judges_all || !t->sums_f16 ||
		ht_target_products(t, HT_F16) <= ht_target_products(t, HT_F32))
		return false;
	return !ht_budget_asked(&p->policy->budget) || ht_target_host()->sums_f16;
}

static bool has_mode(const struct ht_node *n)
{
	return ht_attr_find(n, ht_mode_attribute);
}

static void set_mode(struct ht_short_runs *s, struct ht_node *n, enum ht_impl mode)
{
	ht_attr_set_str(n, ht_mode_attribute, ht_str(ht_impl_name(mode)));
	s->marked[s->marks++] = n;
}

/* Sets the modes that options state. */
static void set_stated(struct ht_precision *p, struct ht_short_runs *s)
{
	struct ht_decisions stated = { .arena = p->arena };
	struct ht_precision q = *p;

	ht_precision_unseen(&q);
	ht_impl_decide(&q, &stated);
	for (size_t i = 0; i < stated.impls; i++)
		if (ht_is(stated.impl[i].at, HT_CONTRACTS) && !has_mode(stated.impl[i].at))
			set_mode(s, stated.impl[i].at, stated.impl[i].mode);
}

void ht_short_runs_begin(struct ht_precision *p, const struct ht_target *t, struct ht_short_runs *s)
{
	bool *runs;

	*s = (struct ht_short_runs){ 0 };
	p->short_runs = NULL;
	if (!are_faster(p, t))
		return;
	runs = HT_NEW_ARRAY(p->arena, bool, p->graph->ids);
	s->marked = HT_NEW_ARRAY(p->arena, struct ht_node *, p->graph->nodes);
	set_stated(p, s);
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		if (!ht_is(n, HT_CONTRACTS) || ht_is_depthwise(n) || has_mode(n) ||
			n->ins <= ht_packed_operand(n) ||
			!ht_is(n->in[ht_packed_operand(n)].node, HT_CONSTANT) ||
			!ht_label_column(p, n, HT_LABEL_F16))
			continue;
		set_mode(s, n, HT_IMPL_HIGH_PERFORMANCE);
		runs[n->id] = ht_sum_variance(t, n, HT_F16) <= ht_sum_variance(t, n, HT_BF16);
		if (!runs[n->id])
			ht_attr_remove(s->marked[--s->marks], ht_mode_attribute);
	}
	p->short_runs = runs;
}

void ht_short_runs_end(struct ht_short_runs *s)
{
	for (size_t i = 0; i < s->marks; i++)
		ht_attr_remove(s->marked[i], ht_mode_attribute);
}
