/* Gradients in float16: which of them it would lose.
 *
 * Gradients are often smaller than activations by orders of magnitude, and float16 has no positive number below 2^-24.  A loss scale
 * lifts what is proportional to it, until an op that is not linear reads it (passes/linear.h).
 *
 * Evidence are the magnitudes of all gradients in steps in float32 on the user's samples.  Without samples no gradient may be float16,
 * except those that a loss scale lifts. */
#include "passes/linear.h"
#include "precision/optimal/optimal.h"
#include "precision/roles.h"

#include <math.h>

/* The share of a gradient's elements, without zeros, that may be below 2^-24. */
#define MOST_LOST 0.01
/* Bytes of gradients that one run keeps. */
#define BYTES_OF_RUN ((int64_t)256 << 20)
/* The magnitude that exponent 0 of struct ht_magnitudes stands for is 2^-127. */
enum { BIAS = 127, LEAST_F16 = -24, END_F16 = 16 };

static size_t number_of(const struct ht_gradients *g, struct ht_value v)
{
	return g->first[v.node->id] + (size_t)v.index;
}

static bool is_gradient(const struct ht_gradients *g, struct ht_value v)
{
	return g->role[v.node->id] == HT_ROLE_GRADIENTS && v.index >= 0 && v.index < v.node->outs &&
	       ht_type_of(v)->dtype == HT_F32;
}

/* ---- the loss scale ---- */

static bool reads_scale(const struct ht_node *n)
{
	return ht_is(n, HT_READS_VARIABLE) && n->ins && ht_is(n->in[0].node, HT_VARIABLE) &&
	       ht_str_is(ht_variable_name(n->in[0].node), HT_LOSS_SCALE);
}

static void find_lifted(struct ht_precision *p, struct ht_gradients *g)
{
	uint64_t *lifted = HT_NEW_ARRAY(p->arena, uint64_t, p->graph->ids);
	size_t count;

	for (struct ht_node *n = p->graph->first; n; n = n->next)
		if (reads_scale(n) && p->loss_scale > 1) {
			ht_linear_in(p->graph, &n, 1, NULL, lifted, &count);
			break;
		}
	g->lifted = lifted;
	g->scale = p->loss_scale;
	ht_read(p->policy, HT_READ_loss_scale);
}

/* ---- measuring ---- */

/* The gradients that one run measures. */
struct batch {
	struct ht_value *value;
	size_t *number;
	size_t n;
	int64_t bytes;
};

/* The copy of a graph has the same nodes in the same order. */
static void move_to_copy(
	const struct ht_graph *g, struct ht_graph *copy, struct batch *b, struct ht_arena *a)
{
	struct ht_node **of = HT_NEW_ARRAY(a, struct ht_node *, g->ids);
	struct ht_node *c = copy->first;

	for (const struct ht_node *n = g->first; n; n = n->next, c = c->next)
		of[n->id] = c;
	for (size_t i = 0; i < b->n; i++)
		b->value[i].node = of[b->value[i].node->id];
}

static enum ht_status measure(
	struct ht_precision *p, struct ht_gradients *g, struct batch *b, bool *known)
{
	struct ht_arena *a = ht_arena_of(p);
	struct ht_graph *copy = ht_graph_clone(p->graph, a);
	struct ht_magnitudes *m = HT_NEW_ARRAY(a, struct ht_magnitudes, b->n);
	enum ht_status st;

	move_to_copy(p->graph, copy, b, a);
	st = p->calibration->magnitudes(p->calibration->self, copy, b->value, b->n, m, known);
	for (size_t i = 0; i < b->n && st == HT_OK && *known; i++) {
		g->at[b->number[i]] = m[i];
		g->seen[b->number[i]] = true;
	}
	b->n = 0;
	b->bytes = 0;
	ht_arena_release(a);
	return st;
}

static enum ht_status add(struct ht_precision *p, struct ht_gradients *g, struct batch *b,
	struct ht_value v, bool *known)
{
	struct ht_shape s = ht_type_of(v)->shape;

	if (!*known || !is_gradient(g, v) || !ht_shape_known(s) || ht_shape_count(s) <= 0)
		return HT_OK;
	b->value[b->n] = v;
	b->number[b->n++] = number_of(g, v);
	b->bytes += 4 * ht_shape_count(s);
	return b->bytes < BYTES_OF_RUN ? HT_OK : measure(p, g, b, known);
}

static enum ht_status measure_all(struct ht_precision *p, struct ht_gradients *g, size_t results)
{
	struct batch b = { .value = HT_NEW_ARRAY(p->arena, struct ht_value, results),
		.number = HT_NEW_ARRAY(p->arena, size_t, results) };
	bool known = true;

	g->at = HT_NEW_ARRAY(p->arena, struct ht_magnitudes, results);
	g->seen = HT_NEW_ARRAY(p->arena, bool, results);
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			HT_TRY(add(p, g, &b, ht_out(n, i), &known));
	if (b.n && known)
		HT_TRY(measure(p, g, &b, &known));
	if (!known)
		ht_note(p->diags, HT_NOWHERE,
			"the model has no values for its variables, so samples do not say how large gradients are");
	return HT_OK;
}

enum ht_status ht_gradients_find(struct ht_precision *p, struct ht_gradients *g)
{
	size_t results = 0;
	bool any = false;

	*g = (struct ht_gradients){ .role = ht_roles_of(p->graph, p->arena) };
	g->first = HT_NEW_ARRAY(p->arena, size_t, p->graph->ids);
	for (const struct ht_node *n = p->graph->first; n; n = n->next) {
		g->first[n->id] = results;
		results += (size_t)n->outs;
		any |= g->role[n->id] == HT_ROLE_GRADIENTS;
	}
	if (!any)
		return HT_OK;
	find_lifted(p, g);
	if (!p->calibration || !ht_has_samples(&ht_read(p->policy, HT_READ_samples)->budget))
		return HT_OK;
	return measure_all(p, g, results);
}

/* ---- judging ---- */

static bool is_lifted(const struct ht_gradients *g, struct ht_value v)
{
	return g->lifted[v.node->id] != 0;
}

static double scale_of(const struct ht_gradients *g, struct ht_value v)
{
	return is_lifted(g, v) ? g->scale : 1;
}

/* Shares of the elements that are not zero: below 2^-24, and above the largest number of float16. */
static void count_lost(const struct ht_magnitudes *m, double scale, double *below, double *beyond)
{
	const int lift = (int)floor(log2(scale));
	double all = 0;

	*below = *beyond = 0;
	for (int e = 0; e < 255; e++) {
		all += (double)m->at[e];
		if (e - BIAS + lift < LEAST_F16)
			*below += (double)m->at[e];
		if (e - BIAS + lift >= END_F16)
			*beyond += (double)m->at[e];
	}
	if (all > 0) {
		*below /= all;
		*beyond /= all;
	}
}

static const struct ht_dtype_reason *leaves(struct ht_arena *a, struct ht_str text)
{
	return ht_reason_new(HT_BY_GRADIENT_LEAVES_RANGE, text, a);
}

static const struct ht_dtype_reason *measured_reason(
	const struct ht_gradients *g, struct ht_value v, struct ht_arena *a)
{
	double below, beyond, scale = scale_of(g, v);

	count_lost(&g->at[number_of(g, v)], scale, &below, &beyond);
	if (below > MOST_LOST)
		return leaves(a,
			ht_str_printf(a,
				"gradient underflow: %.3g %% of values below 2^-24 at loss scale %g",
				100 * below, scale));
	if (beyond > 0)
		return leaves(a,
			ht_str_printf(a,
				"gradient overflow: %.3g %% of values from 65536 at loss scale %g",
				100 * beyond, scale));
	return NULL;
}

static const struct ht_dtype_reason *reason_of_value(
	const struct ht_gradients *g, struct ht_value v, struct ht_arena *a)
{
	if (!is_gradient(g, v))
		return NULL;
	if (g->seen && g->seen[number_of(g, v)])
		return measured_reason(g, v, a);
	return is_lifted(g, v) ? NULL : HT_BY(GRADIENT_UNSEEN);
}

const struct ht_dtype_reason *ht_gradient_reason(
	const struct ht_gradients *g, const struct ht_node *n, struct ht_arena *a)
{
	const struct ht_dtype_reason *why = NULL;

	for (int32_t i = 0; i < n->outs && !why; i++)
		why = reason_of_value(g, ht_out((struct ht_node *)(uintptr_t)n, i), a);
	for (int32_t i = 0; i < n->ins && !why && g->role[n->id] == HT_ROLE_GRADIENTS; i++)
		why = reason_of_value(g, n->in[i], a);
	return why;
}
