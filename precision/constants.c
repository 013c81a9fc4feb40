/* Constants that overflow the dtype decided for them: the warning, and the option sentinels.
 *
 * Attention masks are built with a large finite number such as -1e9, which float16 rounds to infinity;
 * Softmax then gives NaN for a row that is masked throughout.  This pass looks at the casts to 16 bits
 * that the decision inserted: casts of such a constant, and casts of float32 values that were computed
 * from one by nodes that scale, add or move elements.  With sentinels=clamp it replaces the constant
 * by the largest finite number of the dtype, and puts a Minimum and a Maximum in front of the cast of
 * a computed value. */
#include "precision/precision.h"

#include "lower/price.h"
#include "passes/rewrite.h"
#include "precision/report/report.h"

#include <math.h>
#include <string.h>

/* The most constants that get a warning each; one more warning counts the rest. */
enum { MOST_TOLD = 4 };

struct range {
	float overflow; /* the smallest number that becomes infinite */
	float largest;
};

static struct range range_of_type(enum ht_dtype low)
{
	return low == HT_F16 ? (struct range){ 65520, 65504 }
			     : (struct range){ 0x1.ffp127F, 0x1.fep127F };
}

/* In a format that saturates, no number becomes infinite. */
static struct range range_of_format(const struct ht_float_format *f)
{
	return (struct range){ f->saturates ? INFINITY : ht_format_overflow(f),
		(float)ht_format_largest(f) };
}

struct fitting {
	const struct ht_fit *how;
	struct ht_graph *graph;
	uint32_t ids; /* of the graph before the decision; the casts that it inserted have larger
		       * ids */
	struct ht_uses uses;
	struct ht_node *
		*source; /* by node id: the large constant it is computed from; NULL: none */
	float *worst;    /* by node id of a constant: its largest finite magnitude, signed */
	struct ht_node **queue;
	size_t queued;
	bool *told; /* by node id of a constant: it was reported */
	size_t tellings;
};

/* The range of tensors of the low type; if formats take its place, that of activations, to which
 * masks are added. */
static struct range range_of(const struct fitting *f, enum ht_dtype low)
{
	const struct ht_emulation *e = ht_policy_emulation(f->how->policy, low);

	if (e && e->native == HT_INVALID)
		return e->rounds[HT_ROLE_ACTIVATIONS]
			       ? range_of_format(&e->format[HT_ROLE_ACTIVATIONS])
			       : (struct range){ INFINITY, INFINITY };
	return range_of_type(low);
}

/* The smallest number that some low type makes infinite. */
static float least_overflow(const struct fitting *f)
{
	const struct ht_policy *p = f->how->policy;
	float least = range_of_type(HT_F16).overflow;

	for (size_t i = 0; i < p->emulations; i++)
		least = fminf(least, range_of(f, p->emulation[i].slot).overflow);
	return least;
}

/* ---- tracing large constants ---- */

static float worst_of(struct ht_value v)
{
	int64_t n = 0;
	const unsigned char *p = ht_const_f32(v, &n);
	float worst = 0;

	for (int64_t i = 0; i < n; i++) {
		float x = ht_load_f32(p, i);
		if (fabsf(x) > fabsf(worst) && isfinite(x))
			worst = x;
	}
	return worst;
}

/* Whether a large operand of this node makes its result large. */
static bool passes_on(const struct ht_node *n, int32_t arg)
{
	if (ht_is_view(n))
		return arg == 0;
	return ht_is(n, HT_LINEAR | HT_ONLY_MOVES);
}

static void reach(struct fitting *f, struct ht_node *n, struct ht_node *source)
{
	if (f->source[n->id])
		return;
	f->source[n->id] = source;
	f->queue[f->queued++] = n;
}

/* Policies that paint run on graphs without inferred types. */
static bool may_be_f32(const struct ht_node *n)
{
	return n->outs && (n->out[0].dtype == HT_F32 || n->out[0].dtype == HT_INVALID);
}

static void find_large(struct fitting *f)
{
	const float least = least_overflow(f);

	for (struct ht_node *n = f->graph->first; n; n = n->next) {
		float x = ht_is(n, HT_CONSTANT) ? worst_of(ht_out(n, 0)) : 0;

		if (fabsf(x) < least)
			continue;
		f->worst[n->id] = x;
		reach(f, n, n);
	}
	for (size_t i = 0; i < f->queued; i++)
		for (const struct ht_use *u = f->uses.of[f->queue[i]->id]; u; u = u->next)
			if (u->arg >= 0 && may_be_f32(u->node) && passes_on(u->node, u->arg))
				reach(f, u->node, f->source[f->queue[i]->id]);
}

static enum ht_dtype low_type(const struct ht_node *cast)
{
	return ht_attr_type(cast, "DstT", HT_INVALID);
}

/* ---- messages ---- */

static int64_t count_beyond(struct ht_value v, float overflow, int64_t *all)
{
	const unsigned char *p = ht_const_f32(v, all);
	int64_t beyond = 0;

	for (int64_t i = 0; i < *all; i++) {
		float x = fabsf(ht_load_f32(p, i));
		beyond += x >= overflow && isfinite(x);
	}
	return beyond;
}

/* The tensors that have the low type, and what happens there to numbers that are too large. */
static struct ht_str type_name(const struct fitting *f, enum ht_dtype low)
{
	const struct ht_emulation *e = ht_policy_emulation(f->how->policy, low);
	struct ht_buf b;

	if (!e)
		return ht_str(ht_dtype_info(low)->name);
	ht_buf_init(&b, f->how->arena);
	ht_emulation_put(&b, e);
	return ht_buf_str(&b);
}

static const char *beyond_name(const struct fitting *f, enum ht_dtype low)
{
	const struct ht_emulation *e = ht_policy_emulation(f->how->policy, low);

	return e && e->native == HT_INVALID &&
			       isnan(ht_format_beyond(&e->format[HT_ROLE_ACTIVATIONS]))
		       ? "NaN"
		       : "infinite";
}

static void tell(struct fitting *f, struct ht_node *cast, struct ht_node *source)
{
	enum ht_dtype low = low_type(cast);
	const struct ht_node *of = cast->in[0].node;
	struct ht_str through = HT_STR(""), many = HT_STR("");
	int64_t all = 0, beyond = count_beyond(ht_out(source, 0), range_of(f, low).overflow, &all);
	struct ht_where at = { .path = f->graph->path,
		.node = ht_reported_name(f->how->arena, f->graph, source->name),
		.op = source->type,
		.offset = -1 };

	if (f->told[source->id])
		return;
	f->told[source->id] = true;
	if (f->tellings++ >= MOST_TOLD)
		return;
	if (all > 1)
		many = ht_str_printf(f->how->arena, " (%lld of %lld elements)", (long long)beyond,
			(long long)all);
	if (of != source)
		through = ht_str_printf(f->how->arena, " through '%.*s'", HT_STR_ARG(of->name));
	ht_warn(f->how->diags, at,
		"%g%.*s goes%.*s into %.*s, where it is %s; --sentinels clamp keeps it finite",
		(double)f->worst[source->id], HT_STR_ARG(many), HT_STR_ARG(through),
		HT_STR_ARG(type_name(f, low)), beyond_name(f, low));
}

/* ---- clamping ---- */

static struct ht_node *new_constant(
	struct fitting *f, struct ht_str name, struct ht_shape shape, struct ht_blob *b)
{
	return ht_const_sharing(f->graph, ht_graph_free_name(f->graph, name), HT_F32, shape, b);
}

static struct ht_value clamped_constant(struct fitting *f, struct ht_value v, struct range range)
{
	int64_t n = 0;
	const unsigned char *from = ht_const_f32(v, &n);
	struct ht_blob *b = ht_blob_in(f->how->arena, (size_t)n * sizeof(float));
	struct ht_node *to = new_constant(f,
		ht_str_printf(f->graph->arena, "%.*s/clamped", HT_STR_ARG(v.node->name)),
		ht_const_tensor(v)->shape, b);

	for (int64_t i = 0; i < n; i++) {
		float x = ht_load_f32(from, i);
		if (isfinite(x) && fabsf(x) > range.largest)
			x = copysignf(range.largest, x);
		memcpy((char *)(uintptr_t)b->p + i * (int64_t)sizeof x, &x, sizeof x);
	}
	ht_node_move(to, v.node->next);
	return ht_out(to, 0);
}

static struct ht_value bounded(
	struct fitting *f, const char *op, struct ht_value v, struct ht_node *before, float bound)
{
	struct ht_graph *g = f->graph;
	struct ht_blob *b = ht_blob_in(f->how->arena, sizeof bound);
	struct ht_node *n,
		*c = new_constant(f,
			ht_str_printf(g->arena, "%.*s/%s/bound", HT_STR_ARG(v.node->name), op),
			ht_shape_make(g->arena, 0, NULL), b);
	struct ht_value in[2] = { v, ht_out(c, 0) };

	memcpy((void *)(uintptr_t)b->p, &bound, sizeof bound);
	n = ht_node_new(g, ht_str(op),
		ht_graph_free_name(
			g, ht_str_printf(g->arena, "%.*s/%s", HT_STR_ARG(v.node->name), op)));
	n->device = v.node->device;
	ht_attr_set_type(n, "T", HT_F32);
	ht_node_set_ins(n, in, 2);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ HT_F32, ht_type_of(v)->shape };
	ht_node_move(c, before);
	ht_node_move(n, before);
	return ht_out(n, 0);
}

static void clamp(struct fitting *f, struct ht_node *cast)
{
	struct range range = range_of(f, low_type(cast));
	struct ht_value v = cast->in[0];

	if (ht_is_const(v)) {
		cast->in[0] = clamped_constant(f, v, range);
		return;
	}
	v = bounded(f, "Minimum", v, cast, range.largest);
	cast->in[0] = bounded(f, "Maximum", v, cast, -range.largest);
}

/* ---- casts ---- */

static bool goes_low(const struct fitting *f, const struct ht_node *n)
{
	return n->id >= f->ids && ht_is(n, HT_CASTS) && n->ins == 1 && n->outs == 1 &&
	       ht_is_low(low_type(n));
}

static bool any_goes_low(const struct fitting *f)
{
	for (const struct ht_node *n = f->graph->first; n; n = n->next)
		if (goes_low(f, n))
			return true;
	return false;
}

static void fit(struct fitting *f, struct ht_node *cast, bool clamps)
{
	struct ht_node *source = f->source[cast->in[0].node->id];

	if (!source || fabsf(f->worst[source->id]) < range_of(f, low_type(cast)).overflow)
		return;
	if (!clamps) {
		tell(f, cast, source);
		return;
	}
	clamp(f, cast);
	f->how->decisions->clamps_sentinels = true;
}

void ht_fit_constants(struct ht_graph *g, uint32_t ids, const struct ht_fit *how)
{
	struct fitting f = { .how = how, .graph = g, .ids = ids };
	struct ht_node *next;
	bool clamps;

	if (!any_goes_low(&f))
		return;
	f.uses = ht_graph_uses(g, how->arena);
	f.source = HT_NEW_ARRAY(how->arena, struct ht_node *, g->ids);
	f.worst = HT_NEW_ARRAY(how->arena, float, g->ids);
	f.queue = HT_NEW_ARRAY(how->arena, struct ht_node *, g->ids);
	f.told = HT_NEW_ARRAY(how->arena, bool, g->ids);
	find_large(&f);
	if (!f.queued)
		return;
	clamps = ht_read(how->policy, HT_READ_sentinels)->clamps_sentinels ||
		 (how->policy->report && how->policy->report->decisions.clamps_sentinels);
	for (struct ht_node *n = g->first; n; n = next) {
		next = n->next;
		if (goes_low(&f, n))
			fit(&f, n, clamps);
	}
	if (f.tellings > MOST_TOLD)
		ht_warn(how->diags, (struct ht_where){ .path = g->path, .offset = -1 },
			"%zu more constants become infinite in the types of the policy",
			f.tellings - MOST_TOLD);
}
