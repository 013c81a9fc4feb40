/* From a model to a program, through the cache. */
#include "api/tee.h"
#include "frontend/frontend.h"

#include <string.h>

struct compile {
	const struct ht_model *m;
	struct ht_compile_options opt;
	struct ht_teeing tee;
	struct ht_program *p;
	struct ht_program *found; /* the program that the cache has */
	struct ht_str content;    /* hashes of the model's files, if they are needed */
	struct ht_work *w;
	struct ht_diags *d;
};

static void fill_info(struct compile *c, const struct ht_lowering *l)
{
	struct ht_program_info *i = &c->p->info;
	const char **names;

	memcpy(c->p->phase, l->phases.phase, sizeof c->p->phase);
	i->phase = c->p->phase;
	i->phases = l->phases.n;
	i->low_nodes = l->decisions.low_nodes;
	i->float_nodes = l->decisions.float_nodes;
	i->casts = l->decisions.casts;
	i->policy = ht_str_copy(&c->p->arena, ht_str(ht_policy_label(&l->policy))).p;
	names = HT_NEW_ARRAY(&c->p->arena, const char *, l->policy.without_effects);
	i->without_effect = names;
	i->without_effects = l->policy.without_effects;
	for (size_t k = 0; k < i->without_effects; k++)
		names[k] = l->policy.without_effect[k];
}

/* Copies the default values of inputs, so that the program does not need the model. */
static void keep_defaults(struct compile *c)
{
	struct ht_map defaults;

	ht_map_init(&defaults, &c->w->scratch);
	for (size_t j = 0; j < c->m->inputs; j++)
		if (c->m->input[j].value)
			ht_map_at(&defaults, ht_str(c->m->input[j].name))->value = &c->m->input[j];
	for (size_t i = 0; i < ht_program_inputs(c->p); i++) {
		struct ht_value_info *v = &c->p->input[i];
		const struct ht_value_info *from = ht_map_get(&defaults, ht_str(v->name));

		if (!from || from->bytes != v->bytes)
			continue;
		v->value = ht_alloc(&c->p->arena, v->bytes);
		memcpy((void *)(uintptr_t)v->value, from->value, v->bytes);
	}
}

/* Defaults of strings are numbers, like those of the graph that was lowered. */
static void keep_string_defaults(struct compile *c, const struct ht_entry *e)
{
	const struct ht_port *port = e->inputs;

	for (size_t i = 0; i < ht_program_inputs(c->p) && port; i++, port = port->next) {
		const struct ht_tensor *t =
			port->strings ? ht_model_default(port->value.node) : NULL;

		if (t && t->blob->n == c->p->input[i].bytes) {
			c->p->input[i].value = ht_alloc(&c->p->arena, t->blob->n);
			memcpy((void *)(uintptr_t)c->p->input[i].value, t->blob->p, t->blob->n);
		}
	}
}

/* Likewise the second names of inputs or outputs. */
static const char **aliases_of(
	struct compile *c, struct ht_port *ports, const struct ht_value_info *v, size_t n)
{
	const char **alias = HT_NEW_ARRAY(&c->p->arena, const char *, n);
	struct ht_map named;

	ht_map_init(&named, &c->w->scratch);
	for (struct ht_port *p = ports; p; p = p->next) {
		struct ht_map_entry *first = ht_map_at(&named, p->name);

		if (!first->value)
			first->value = p;
	}
	for (size_t i = 0; i < n; i++) {
		const struct ht_port *p = ht_map_get(&named, ht_str(v[i].name));

		if (!p)
			p = ht_port_named(ports, ht_str(v[i].name));
		alias[i] = p ? ht_str_copy(&c->p->arena, p->alias).p : "";
	}
	return alias;
}

static enum ht_status build(struct compile *c, struct ht_lowering *l, const struct ht_wanted *w)
{
	const struct ht_watch watch = { c->opt.progress, c->opt.progress_arg, c->opt.cancel };
	struct ht_tee_names *names = NULL;
	struct ht_plan *plan;
	struct ht_make how;

	if (c->opt.policy)
		HT_TRY(ht_policy_debug_check(c->opt.policy, c->d));
	HT_TRY(ht_watch_phase(&watch, "passes", c->d));
	HT_TRY(ht_lowering_run(c->m, &c->opt, HT_OPEN_STAY, HT_UPTO_LAYOUT, NULL, c->w, c->d, l));
	if (c->tee.what) /* without messages, as ht_lowering_run() has given them */
		HT_TRY(ht_tee_names(c->m, c->w, NULL, &names));
	if (c->m->wide)
		HT_TRY(ht_widen_check(l->graph, c->d));
	if (c->tee.widened)
		ht_widen_graph(l->graph);
	l->lower.tee = c->tee.what;
	l->lower.members = c->opt.nodes != 0;
	l->lower.fault = c->tee.fault;
	l->lower.fault_by = c->tee.fault_by;
	HT_TRY(ht_watch_phase(&watch, "lower", c->d));
	HT_TRY(ht_lower(l->graph, &l->lower, &c->w->arena, &plan));
	HT_TRY(ht_fusion_result_write(&l->policy, &l->fusions, &c->w->arena, c->d));
	ht_phase_end(&l->phases, "lower");
	if (c->tee.what)
		ht_program_tees(c->p, names, plan, c->opt.tee == HT_TEE_CONSTANTS);
	how = (struct ht_make){ c->m->cache, l->passes.target, c->opt.backend, c->opt.threads,
		&watch, ht_kernel_meta_how(&l->policy, plan, c->opt.lines != 0, &c->w->arena),
		c->tee.constants };
	HT_TRY(ht_program_build(c->p, l->graph, plan, &how, &l->phases, c->d));
	keep_defaults(c);
	keep_string_defaults(c, l->passes.entry);
	c->p->input_alias =
		aliases_of(c, c->m->entry->inputs, c->p->input, ht_program_inputs(c->p));
	c->p->output_alias =
		aliases_of(c, c->m->entry->outputs, c->p->output, ht_program_outputs(c->p));
	ht_program_link(c->p, plan);
	if (c->opt.lines)
		ht_program_keep_source(c->p, plan);
	if (c->opt.nodes)
		ht_program_keep_nodes(c->p, c->m->graph, plan);
	HT_TRY(ht_kernel_meta_write(&l->policy, c->p, plan, &how, c->d));
	fill_info(c, l);
	c->p->provenance = ht_provenance(w, l->reads, c->p->llvm, c->content, &c->p->arena).p;
	return HT_OK;
}

static enum ht_status miss(struct compile *c, const struct ht_wanted *w)
{
	struct ht_str why;

	if (!ht_cache_must_hit(c->m->cache))
		return HT_OK;
	why = ht_miss_text(w, c->w, c->d);
	return ht_error(c->d, HT_E_VERDICT,
		(struct ht_where){ .path = c->m->graph->path, .offset = -1 },
		"this is not in the cache: %.*s", HT_STR_ARG(why));
}

/* Makes phase `at` of a program the time spent on the cache since `begun`. */
static void add_cache_phase(struct ht_program *p, size_t at, const char *name, int64_t begun)
{
	size_t n = p->info.phases;

	if (n == HT_MAX_PHASES)
		return;
	memmove(&p->phase[at + 1], &p->phase[at], (n - at) * sizeof *p->phase);
	p->phase[at] = (struct ht_phase){ name, ht_now_ns() - begun };
	p->info.phases++;
}

static enum ht_status compile(void *arg)
{
	struct compile *c = arg;
	int64_t begun, looked_ns = 0;
	struct ht_lowering *l = HT_NEW(&c->w->arena, struct ht_lowering);
	struct ht_wanted w = { c->m, &c->opt, c->opt.policy, NULL };
	const struct ht_diag *said;
	enum ht_status st;
	bool cached;

	if (!c->m->entry->outputs && !c->m->entry->targets)
		return ht_error(c->d, HT_E_UNSUPPORTED,
			(struct ht_where){ .path = c->m->graph->path, .offset = -1 },
			"the graph has no outputs; ask for some with --outputs");
	HT_TRY(ht_model_check_open(c->m, c->d)); /* whatever the cache has */
	HT_TRY(ht_target_of(&c->opt, c->m->cache, &c->w->arena, c->d, &w.target));
	ht_model_note_bounds(c->m, HT_OPEN_STAY, &c->w->arena, c->d);
	begun = ht_now_ns();
	if (c->opt.sources || c->m->cache)
		HT_TRY(ht_content_of(c->m, c->d, &c->content));
	cached = ht_graph_is_cached(&w);
	if (cached) {
		HT_TRY(ht_graph_get(&w, c->w, c->d, &c->found));
		if (c->found) {
			add_cache_phase(c->found, 1, "cache hit", begun);
			return HT_OK;
		}
		HT_TRY(miss(c, &w));
		looked_ns = ht_now_ns() - begun;
	}
	said = c->d ? c->d->last : NULL; /* the messages of the look-up are not repeated */
	st = build(c, l, &w);
	if (st == HT_E_UNSUPPORTED && ht_model_leaves_open(c->m))
		ht_note(c->d, (struct ht_where){ .path = c->m->graph->path, .offset = -1 },
			"sizes that nobody states are open; --input-shape '%.*s' makes a program for one "
			"size, with a number for each ?",
			HT_STR_ARG(ht_model_shapes_to_state(c->m, true, &c->w->arena)));
	HT_TRY(st);
	if (cached) {
		add_cache_phase(c->p, 1, "cache miss", ht_now_ns() - looked_ns);
		begun = ht_now_ns();
		ht_graph_put(&w, c->p, l->reads, said, c->w, c->d);
		add_cache_phase(c->p, c->p->info.phases, "cache store", begun);
	}
	return HT_OK;
}

static enum ht_status compile_guarded(void *arg)
{
	struct compile *c = arg;

	return ht_work_run(c->w, compile, c, c->d);
}

static enum ht_status run_compile(struct compile *c, struct ht_program **out)
{
	struct ht_work w;
	enum ht_status st;

	c->w = &w;
	ht_arena_init(&c->p->arena, &w.unwind);
	st = ht_until_cancelled(c->opt.cancel, compile_guarded, c, c->d);
	c->p->arena.unwind = NULL;
	if (st == HT_OK && !c->found) {
		*out = c->p;
		return HT_OK;
	}
	*out = st == HT_OK ? c->found : NULL;
	ht_program_free(c->p);
	return st;
}

/* Allocations in the program's arena and in the call's unwind to the same place. */
enum ht_status ht_compile_teed(const struct ht_model *m, const struct ht_compile_options *opt,
	const struct ht_teeing *how, struct ht_diags *d, struct ht_program **out)
{
	struct compile c = { .m = m, .content = HT_STR(""), .d = d };
	struct ht_diags own; /* messages are stored with the compiled program */
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_compile_options_of(opt, d, &c.opt));
	if (how) {
		c.tee = *how;
		c.opt.tee = how->what != HT_LOWER_TEE_NOTHING;
	} else if (c.opt.tee) {
		c.tee.what = HT_LOWER_TEE_ALL;
	}
	c.p = ht_sys_alloc(sizeof(struct ht_program));
	if (!c.p)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	if (!d && m->cache) {
		ht_diags_init(&own);
		c.d = &own;
	}
	st = run_compile(&c, out);
	if (c.d != d)
		ht_diags_release(&own);
	return st;
}

enum ht_status ht_compile(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_program **out)
{
	return ht_compile_teed(m, opt, NULL, d, out);
}
