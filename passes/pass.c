/* The list of passes, and the runner of pipelines. */
#include "passes/passes.h"

#include <string.h>

/* One pass a line, in alphabetical order. */
#define PASSES(PASS)                                                                               \
	PASS(activation)                                                                           \
	PASS(adam)                                                                                 \
	PASS(batch_norm)                                                                           \
	PASS(bodies)                                                                               \
	PASS(branches)                                                                             \
	PASS(carried)                                                                              \
	PASS(cases)                                                                                \
	PASS(casts)                                                                                \
	PASS(categorical)                                                                          \
	PASS(cells)                                                                                \
	PASS(concat_split)                                                                         \
	PASS(cse)                                                                                  \
	PASS(dilate)                                                                               \
	PASS(early_updates)                                                                        \
	PASS(einsum)                                                                               \
	PASS(expand_fused)                                                                         \
	PASS(feeds)                                                                                \
	PASS(float_status)                                                                         \
	PASS(fold)                                                                                 \
	PASS(fold_pad)                                                                             \
	PASS(fold_width)                                                                           \
	PASS(framed_constants)                                                                     \
	PASS(freeze)                                                                               \
	PASS(functional)                                                                           \
	PASS(gates)                                                                                \
	PASS(gelu)                                                                                 \
	PASS(hard_swish)                                                                           \
	PASS(identity)                                                                             \
	PASS(infer)                                                                                \
	PASS(inline)                                                                               \
	PASS(layer_norm)                                                                           \
	PASS(layout)                                                                               \
	PASS(loop_handles)                                                                         \
	PASS(loss_scale)                                                                           \
	PASS(loss_seed)                                                                            \
	PASS(matmul)                                                                               \
	PASS(momentum)                                                                             \
	PASS(pivots)                                                                               \
	PASS(precision)                                                                            \
	PASS(prune)                                                                                \
	PASS(rare)                                                                                 \
	PASS(recompute)                                                                            \
	PASS(recurrent)                                                                            \
	PASS(references)                                                                           \
	PASS(rms_norm)                                                                             \
	PASS(scopes)                                                                               \
	PASS(segments)                                                                             \
	PASS(selects)                                                                              \
	PASS(simplify)                                                                             \
	PASS(sizes)                                                                                \
	PASS(softmax)                                                                              \
	PASS(split_batch_norm)                                                                     \
	PASS(split_fused)                                                                          \
	PASS(stated)                                                                               \
	PASS(strings)                                                                              \
	PASS(swish)                                                                                \
	PASS(tables)                                                                               \
	PASS(tensor_arrays)                                                                        \
	PASS(training)                                                                             \
	PASS(transposes)                                                                           \
	PASS(versions)                                                                             \
	PASS(volumes)

#define DECLARE(name) extern const struct ht_pass ht_pass_##name;
PASSES(DECLARE)
#undef DECLARE

#define LIST(name) &ht_pass_##name,
const struct ht_pass *const ht_passes[] = { PASSES(LIST) NULL };
#undef LIST

#define PASS_COUNT (HT_COUNT(ht_passes) - 1)

const struct ht_pass *ht_pass_named(struct ht_str name)
{
	for (size_t i = 0; i < PASS_COUNT; i++)
		if (ht_str_is(name, ht_passes[i]->name))
			return ht_passes[i];
	return NULL;
}

static enum ht_status unknown(struct ht_str name, struct ht_diags *d)
{
	struct ht_str words[HT_COUNT(ht_passes)], near[3];
	int n;

	for (size_t i = 0; i < PASS_COUNT; i++)
		words[i] = ht_str(ht_passes[i]->name);
	n = ht_near_names(name, words, PASS_COUNT, near);
	if (n > 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no pass '%.*s'; did you mean '%.*s'?", HT_STR_ARG(name),
			HT_STR_ARG(near[0]));
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "there is no pass '%.*s'", HT_STR_ARG(name));
}

/* The next name of a pipeline; false at its end.  Spaces around names do not count. */
static bool next_name(const char **p, struct ht_str *name)
{
	const char *end;

	*p += strspn(*p, " \t\n,");
	end = *p + strcspn(*p, ",");
	*name = (struct ht_str){ *p, (size_t)(end - *p) };
	*p = end;
	while (name->n && strchr(" \t\n", name->p[name->n - 1]))
		name->n--;
	return name->n > 0;
}

/* All names are checked first, so that a misspelt name changes nothing. */
static enum ht_status check_names(const char *pipeline, const char *stop_after, struct ht_diags *d)
{
	struct ht_str name;
	bool stops = !stop_after;

	while (next_name(&pipeline, &name)) {
		if (!ht_pass_named(name))
			return unknown(name, d);
		stops = stops || ht_str_is(name, stop_after);
	}
	if (!stops && !ht_pass_named(ht_str(stop_after)))
		return unknown(ht_str(stop_after), d);
	return HT_OK;
}

/* Whether some dtype is still unknown.  Once it is known, it may turn out not to fit, which is
 * an error of the file. */
static bool is_untyped(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			if (n->out[i].dtype == HT_INVALID)
				return true;
	return false;
}

static enum ht_status run_one(
	const struct ht_pass *pass, struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_unwind *unwind = c->scratch->unwind;
	bool finds_out = is_untyped(g);
	enum ht_status st;

	if (!pass->spares_functions)
		ht_functions_own(g);
	st = pass->run(g, c);

	ht_arena_release(c->scratch);
	ht_arena_init(c->scratch, unwind);
	if (st != HT_OK || !c->verify || ht_verify(g, c->diags) == HT_OK)
		return st;
	if (finds_out)
		return HT_E_INPUT;
	return ht_error(
		c->diags, HT_E_INTERNAL, HT_NOWHERE, "pass '%s' left an invalid graph", pass->name);
}

enum ht_status ht_run_passes(
	struct ht_graph *g, const char *pipeline, const char *stop_after, struct ht_pass_context *c)
{
	struct ht_str name;

	HT_TRY(check_names(pipeline, stop_after, c->diags));
	if (c->verify)
		HT_TRY(ht_verify(g, c->diags)); /* an error at this point is one of the file */
	while (next_name(&pipeline, &name)) {
		const struct ht_pass *pass = ht_pass_named(name);
		if (!ht_fusion_pass_is_off(c->fusions, pass->name) || pass->does_more) {
			HT_TRY(run_one(pass, g, c));
			if (c->after)
				HT_TRY(c->after(c->after_self, g, pass->name));
		}
		if (stop_after && ht_str_is(name, stop_after))
			break;
	}
	return HT_OK;
}
