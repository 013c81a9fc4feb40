/* Loads a program from a file: an artefact's plan, with its code and weights in place. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct ht_program *p;
	const char *path;
	const struct ht_artefact_options *opt;
	struct ht_diags *d;
	struct ht_str bytes;            /* of an artefact in memory, instead of a file */
	const struct ht_artefact *from; /* or an open artefact, */
	size_t variant;                 /* and the number of the variant */
};

static const char **aliases_of(struct ht_arena *a, const struct ht_image *x, size_t first, size_t n)
{
	const char **alias = HT_NEW_ARRAY(a, const char *, n);

	for (size_t i = 0; i < n; i++)
		alias[i] = ht_image_text(x, ht_image_ports(x)[first + i].alias);
	return alias;
}

static struct ht_value_info *infos_of(
	struct ht_arena *a, const struct ht_image *x, size_t first, size_t n)
{
	struct ht_value_info *v = HT_NEW_ARRAY(a, struct ht_value_info, n);

	for (size_t i = 0; i < n; i++)
		v[i] = ht_sizes_describe(a, x, &ht_image_ports(x)[first + i]);
	return v;
}

static const int64_t *constants_of(struct load *l)
{
	const struct ht_program_plan *plan = &l->p->plan;
	int64_t *at = HT_NEW_ARRAY(&l->p->arena, int64_t, plan->constants);

	for (size_t i = 0; i < plan->constants; i++)
		at[i] = (int64_t)(uintptr_t)ht_artefact_weight(
			&l->p->artefact, plan->weight[plan->constant[i]].number);
	return at;
}

static enum ht_status function_of(struct load *l, size_t kernel, int64_t *at)
{
	const struct ht_plan_code *k = &l->p->plan.kernel[kernel];
	const struct ht_image *x = l->p->rt.image;
	const char *library = ht_image_text(x, ht_image_kernels(x)[kernel].name);
	const char *code = l->p->artefact.kernel[kernel];
	ht_kernel_fn *fn;

	if (!library[0]) {
		*at = (int64_t)(uintptr_t)(code + k->entry);
		return HT_OK;
	}
	fn = ht_library_kernel(library);
	*at = (int64_t)(uintptr_t)fn;
	if (fn)
		return HT_OK;
	return ht_error(l->d, HT_E_INPUT, (struct ht_where){ .path = l->path, .offset = -1 },
		"this artefact cannot be used: there is no kernel '%s' here; compile the model again",
		library);
}

static enum ht_status load_kernels(struct load *l)
{
	int64_t *at = HT_NEW_ARRAY(&l->p->arena, int64_t, l->p->plan.kernels);

	for (size_t i = 0; i < l->p->plan.kernels; i++)
		HT_TRY(function_of(l, i, &at[i]));
	l->p->rt.kernel = at;
	return HT_OK;
}

static enum ht_status load_objects(struct load *l)
{
	const struct ht_image *x = l->p->rt.image;

	l->p->rt.object = ht_program_objects(&l->p->arena, x);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_OBJECTS); i++)
		if (!l->p->rt.object[i])
			return ht_error(l->d, HT_E_INPUT,
				(struct ht_where){ .path = l->path, .offset = -1 },
				"this artefact cannot be used: there are no objects of kind '%s' here; "
				"compile the model again",
				ht_image_text(x, ht_image_objects(x)[i].kind));
	return HT_OK;
}

/* Levels are ordered so that each runs the code of those before it.  Among equals, a target for
 * this machine's microarchitecture is better. */
static int rank_of(const char *target)
{
	const struct ht_target *t = ht_target_named(target);

	if (!ht_target_runs(target))
		return -1;
	return 3 * ht_target_level(t) + (t->name == t->level                          ? 1
						: t->rates == ht_target_host()->rates ? 2
										      : 0);
}

struct ht_artefact_trust ht_artefact_trust_of(const struct ht_artefact_options *o)
{
	return (struct ht_artefact_trust){ .full = o->verify_full != 0,
		.key = o->require_signature };
}

struct ht_variant_wanted ht_variant_wanted_of(
	const struct ht_artefact_options *o, struct ht_arena *a)
{
	struct ht_index_input *input = HT_NEW_ARRAY(a, struct ht_index_input, o->inputs);

	for (size_t i = 0; i < o->inputs; i++)
		input[i] = (struct ht_index_input){ .name = o->input[i].name,
			.alias = "",
			.rank = (size_t)o->input[i].rank,
			.dim = (int64_t *)(uintptr_t)o->input[i].dim };
	return (struct ht_variant_wanted){ o->entry, o->policy, o->target, input, o->inputs,
		o->batch, rank_of };
}

int ht_rank_of_any(const char *target)
{
	return ht_target_named(target) ? 0 : -1;
}

static enum ht_status choose(struct load *l, size_t *variant)
{
	struct ht_arena *a = &l->p->arena;
	struct ht_variant_wanted w = ht_variant_wanted_of(l->opt, a);

	/* A cached compilation may be for another machine. */
	if (l->bytes.n)
		w.rank = ht_rank_of_any;
	return ht_artefact_choose(&l->p->artefact, &w, a, l->d, variant);
}

static bool is_value_of(const struct ht_image *x, const struct ht_image_variable *v,
	const struct ht_index_value *value, uint64_t bytes)
{
	return value->dtype == v->dtype && bytes == v->bytes && value->rank == v->rank &&
	       (!v->rank || !memcmp(value->dim, ht_image_dims(x) + v->dim,
				    v->rank * sizeof *value->dim));
}

/* First values of variables that are in the artefact and not in the image. */
static enum ht_status load_values(struct load *l)
{
	struct ht_program *p = l->p;
	const struct ht_image *x = p->rt.image;
	uint32_t n = ht_image_count(x, HT_IMAGE_VARIABLES);
	const void **initial = HT_NEW_ARRAY(&p->arena, const void *, n);

	for (uint32_t i = 0; i < n; i++) {
		const struct ht_image_variable *v = &ht_image_variables(x)[i];
		const struct ht_index_value *value;

		if (v->constant != HT_IMAGE_NO_VALUE)
			continue;
		HT_TRY(ht_artefact_value(&p->artefact, ht_image_text(x, v->name), l->d, &value));
		if (!value)
			continue;
		if (!is_value_of(x, v, value, p->artefact.index.weight[value->weight].bytes))
			return ht_artefact_refuse(&p->artefact, l->d,
				"a variable has another type or shape than its value");
		initial[i] = ht_artefact_weight(&p->artefact, value->weight);
	}
	p->rt.initial = initial;
	return HT_OK;
}

static bool is_whole(void *program, uint32_t constant, int worker, int workers)
{
	const struct ht_program *p = program;

	return ht_artefact_check_weight(
		&p->artefact, p->plan.weight[p->plan.constant[constant]].number, worker, workers);
}

static enum ht_status open_chosen(struct load *l, size_t *variant)
{
	struct ht_artefact_trust trust = ht_artefact_trust_of(l->opt);
	struct ht_artefact *a = &l->p->artefact;

	if (l->bytes.n)
		HT_TRY(ht_artefact_open_bytes(l->bytes, l->path, &trust, &l->p->arena, l->d, a));
	else
		HT_TRY(ht_artefact_open(l->path, &trust, &l->p->arena, l->d, a));
	return choose(l, variant);
}

static void load_ports(struct ht_program *p)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_entry *e = ht_image_entries(x);
	size_t in = e->port, out = in + e->inputs;

	p->inputs = e->inputs;
	p->outputs = e->outputs;
	p->input = infos_of(&p->arena, x, in, p->inputs);
	p->output = infos_of(&p->arena, x, out, p->outputs);
	p->input_alias = aliases_of(&p->arena, x, in, p->inputs);
	p->output_alias = aliases_of(&p->arena, x, out, p->outputs);
}

static enum ht_status load(void *arg)
{
	struct load *l = arg;
	struct ht_program *p = l->p;
	const struct ht_program_plan *plan = &p->plan;
	size_t variant = l->variant;

	if (l->from)
		HT_TRY(ht_artefact_open_again(l->from, &p->arena, l->d, &p->artefact));
	else
		HT_TRY(open_chosen(l, &variant));
	HT_TRY(ht_artefact_load(&p->artefact, variant, &p->arena, l->d, &p->plan));
	p->provenance = plan->provenance;
	p->image = plan->image;
	p->rt.image = ht_plan_image(plan);
	p->work = plan->work;
	p->works = plan->works;
	p->rt.is_whole = is_whole;
	p->rt.is_whole_arg = p;
	p->rt.constant = constants_of(l);
	HT_TRY(load_kernels(l));
	HT_TRY(load_objects(l));
	HT_TRY(load_values(l));
	load_ports(p);
	p->info = (struct ht_program_info){ .struct_size = sizeof p->info,
		.weight_bytes = plan->weight_bytes,
		.arena_bytes = ht_program_arena(p->rt.image),
		.live_bytes = plan->live_bytes,
		.scratch_bytes = ht_program_scratch(p->rt.image),
		.code_bytes = plan->code_bytes,
		.steps = ht_program_steps(p->rt.image),
		.kernels = plan->kernels,
		.low_nodes = plan->low_nodes,
		.float_nodes = plan->float_nodes,
		.casts = plan->casts,
		.parts = plan->parts,
		.unseeded = ht_rt_unseeded(&p->rt),
		.loops = ht_rt_loops(&p->rt),
		.target = plan->target,
		.policy = plan->policy,
		.entry = p->artefact.index.variant[variant].entry };
	return HT_OK;
}

enum ht_status ht_artefact_options_of(
	const struct ht_artefact_options *opt, struct ht_diags *d, struct ht_artefact_options *out)
{
	struct ht_artefact_options all = HT_ARTEFACT_OPTIONS_INIT;

	HT_TRY(ht_caller_options(opt, "ht_artefact_options", &all, sizeof all, d));
	*out = all;
	return HT_OK;
}

static enum ht_status load_program(struct load *l, struct ht_program **out)
{
	struct ht_unwind unwind;
	enum ht_status st;

	l->p = ht_sys_alloc(sizeof(struct ht_program));
	if (!l->p)
		return ht_refuse(l->d, HT_E_ENVIRONMENT, "out of memory");
	ht_arena_init(&l->p->arena, &unwind);
	st = ht_guarded(&unwind, load, l, l->d);
	l->p->arena.unwind = NULL;
	if (st == HT_OK)
		*out = l->p;
	else
		ht_program_free(l->p);
	return st;
}

enum ht_status ht_program_load(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_program **out)
{
	struct ht_artefact_options options;
	struct load l = { .path = path, .opt = &options, .d = d };

	*out = NULL;
	HT_TRY(ht_artefact_options_of(opt, d, &options));
	return load_program(&l, out);
}

enum ht_status ht_program_load_bytes(
	struct ht_str bytes, const char *name, struct ht_diags *d, struct ht_program **out)
{
	static const struct ht_artefact_options options = HT_ARTEFACT_OPTIONS_INIT;
	struct load l = { .path = name, .opt = &options, .d = d, .bytes = bytes };

	*out = NULL;
	return load_program(&l, out);
}

enum ht_status ht_program_load_variant(
	const struct ht_artefact *from, size_t variant, struct ht_diags *d, struct ht_program **out)
{
	struct load l = { .path = from->path, .from = from, .variant = variant, .d = d };

	*out = NULL;
	return load_program(&l, out);
}

int ht_is_artefact(const char *path)
{
	return ht_artefact_is(path);
}

/* ---- about a file ---- */

struct showing {
	struct ht_work *w;
	const char *path;
	const struct ht_artefact_options *opt;
	struct ht_diags *d;
	struct ht_bytes *out;
};

static enum ht_status show(void *arg)
{
	struct showing *s = arg;
	struct ht_artefact_trust trust = ht_artefact_trust_of(s->opt);
	struct ht_artefact a;
	enum ht_status st;

	HT_TRY(ht_artefact_open(s->path, &trust, &s->w->arena, s->d, &a));
	st = ht_bytes_of(a.manifest, s->out);
	if (st != HT_OK)
		ht_refuse(s->d, st, "out of memory");
	ht_artefact_close(&a);
	return st;
}

enum ht_status ht_artefact_manifest(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_artefact_options options;
	struct ht_work w;
	struct showing s = { &w, path, &options, d, out };

	HT_TRY(ht_artefact_options_of(opt, d, &options));
	return ht_work_run(&w, show, &s, d);
}
