/* The inputs of a run: from files, defaults of the graph, or random. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void arrays_free(struct array *a, size_t n)
{
	for (size_t i = 0; a && i < n; i++)
		array_free(&a[i]);
	free(a);
}

/* ---- files ---- */

/* The --input option that names `name`; NULL when none does. */
static const char *given(const struct cli *c, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = c->option[OPTION_INPUT].n; i-- > 0;) {
		const char *v = c->option[OPTION_INPUT].value[i];
		if (!strncmp(v, name, n) && (v[n] == '=' || !strncmp(v + n, ":0=", 3)))
			return strchr(v + n, '=') + 1;
	}
	return NULL;
}

enum ht_status load_file(const char *spec, struct array *out)
{
	const char *path = spec + 1, *hash;
	struct npz *z;
	char *copy;
	enum ht_status st;

	if (!*path)
		return fail(HT_E_USAGE, "--input: '%s' names no file", spec);
	hash = strrchr(path, '#');
	if (!hash && strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".npz"))
		return fail(HT_E_USAGE, "--input: which array of %s? @%s#KEY says it", path, path);
	if (!hash || hash - path < 4 || strncmp(hash - 4, ".npz", 4))
		return npy_load(path, out);
	copy = strndup(path, (size_t)(hash - path));
	st = npz_open(copy, &z);
	if (st == HT_OK) {
		st = npz_load(z, hash + 1, out);
		npz_close(z);
	}
	free(copy);
	return st;
}

/* The length of the name in NAME=…, without ":0". */
static size_t name_length(const char *v)
{
	size_t n = strcspn(v, "=");

	return n > 2 && !strncmp(v + n - 2, ":0", 2) ? n - 2 : n;
}

static bool given_twice(const struct cli *c, size_t i)
{
	const char *v = c->option[OPTION_INPUT].value[i];
	size_t n = name_length(v);

	for (size_t j = 0; j < i; j++) {
		const char *w = c->option[OPTION_INPUT].value[j];
		if (name_length(w) == n && !strncmp(v, w, n))
			return true;
	}
	return false;
}

static enum ht_status no_input(
	const struct cli *c, const char *name, const char *const *names, size_t known)
{
	const char *near = near_name(name, names, known);

	return refuse(c, "the model has no input '%s'%s%s%s", name,
		near    ? "; did you mean '"
		: known ? "; its first is '"
			: "",
		near    ? near
		: known ? names[0]
			: "",
		near    ? "'?"
		: known ? "'"
			: "");
}

/* Each --input has to name an input of the model; one that the outputs do not need is told. */
static enum ht_status check_names(
	struct cli *c, const struct ht_model *m, const struct ht_program *p)
{
	for (size_t i = 0; i < c->option[OPTION_INPUT].n; i++) {
		const char *v = c->option[OPTION_INPUT].value[i];
		const char *names[256];
		struct ht_value_info in;
		size_t len = name_length(v), known = 0;
		bool of_model = false, of_program = false;
		char name[512];

		if (!strchr(v, '='))
			return fail(HT_E_USAGE, "--input: '%s' is not NAME=@FILE", v);
		snprintf(name, sizeof name, "%.*s", (int)(len < 500 ? len : 500), v);
		for (size_t j = 0; m && ht_model_input(m, j, &in); j++) {
			of_model |= !strcmp(in.name, name);
			if (known < 256)
				names[known++] = in.name;
		}
		for (size_t j = 0; ht_program_input(p, j, &in); j++) {
			of_program |= !strcmp(in.name, name);
			if (!m && known < 256)
				names[known++] = in.name;
		}
		if (given_twice(c, i))
			return fail(HT_E_USAGE, "--input: '%s' is given twice", name);
		if (!of_model && !of_program) {
			enum ht_status st = no_input(c, name, names, known);
			if (st != HT_OK)
				return st;
		} else if (!of_program)
			note(c, "input '%s' is not needed for the outputs", name);
	}
	return HT_OK;
}

static enum ht_status one(struct cli *c, const struct ht_value_info *v, long long seed,
	size_t number, struct array *out)
{
	const char *spec = given(c, v->name);
	char shape[256];
	enum ht_status st;

	if (spec && is_random_spec(spec))
		return random_array(spec, v, out);
	if (spec) {
		st = *spec == '@' ? load_file(spec, out) : literal_array(spec, v, out);
		if (st == HT_OK && out->raw16 && v->dtype == HT_BF16)
			out->a.dtype = HT_BF16;
		return st;
	}
	st = array_make(out, v->dtype, v->rank, v->dim);
	if (st != HT_OK)
		return st;
	if (v->value) {
		memcpy(out->a.data, v->value, v->bytes);
		return HT_OK;
	}
	fill_random(out, (uint64_t)seed * 1000003 + number);
	note(c, "input '%s' is random: %s, seed %lld", v->name, input_text(v, shape, sizeof shape),
		seed);
	return HT_OK;
}

enum ht_status feed(struct cli *c, const struct ht_model *m, const struct ht_program *p,
	struct array **out, size_t *n)
{
	struct ht_value_info v;
	long long seed;
	enum ht_status st = option_number(c, OPTION_SEED, 1, 0, INT64_MAX, &seed);

	*n = ht_program_inputs(p);
	*out = must_alloc(*n * sizeof **out);
	if (st == HT_OK)
		st = check_names(c, m, p);
	for (size_t i = 0; i < *n && st == HT_OK; i++) {
		ht_program_input(p, i, &v);
		st = one(c, &v, seed, i, &(*out)[i]);
	}
	/* An array was moved with its struct: its dimensions are in it. */
	for (size_t i = 0; i < *n; i++)
		(*out)[i].a.dim = (*out)[i].shape;
	return st;
}

/* ---- sessions ---- */

static enum ht_status compile(struct cli *c, struct session *s, long long threads)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *policy;
	enum ht_status st = open_policy(c, &policy);

	if (st != HT_OK)
		return st;
	opt.policy = policy;
	opt.target = option(c, OPTION_TARGET, NULL);
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.numerics = option_on(c, OPTION_NUMERICS);
	opt.threads = (int)threads;
	st = ht_compile(s->model, &opt, c->diags, &s->program);
	ht_policy_free(policy);
	return st;
}

static enum ht_status make_outputs(struct session *s)
{
	struct ht_value_info v;
	enum ht_status st = HT_OK;

	s->outs = ht_program_outputs(s->program);
	s->out = must_alloc(s->outs * sizeof *s->out);
	s->in_view = must_alloc(s->ins * sizeof *s->in_view);
	s->out_view = must_alloc(s->outs * sizeof *s->out_view);
	for (size_t i = 0; i < s->outs && st == HT_OK; i++) {
		ht_program_output(s->program, i, &v);
		st = array_make(&s->out[i], v.dtype, v.rank, v.dim);
		s->out_view[i] = s->out[i].a;
	}
	for (size_t i = 0; i < s->ins; i++)
		s->in_view[i] = s->in[i].a;
	return st;
}

/* "2G"; 0 when it is no size. */
size_t parse_size(const char *s)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned long long n = strtoull(s, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == s || *s == '-' || (*end && (!unit || end[1])))
		return 0;
	for (const char *u = units; unit && u <= unit; u++)
		if (__builtin_mul_overflow(n, 1024ull, &n))
			return 0;
	return n;
}

static enum ht_status read_guard(const struct cli *c, enum ht_guard *guard)
{
	const char *side = option(c, OPTION_GUARD, NULL);

	if (!side || !*side)
		*guard = HT_GUARD_NONE;
	else if (!strcmp(side, "behind"))
		*guard = HT_GUARD_BEHIND;
	else if (!strcmp(side, "before"))
		*guard = HT_GUARD_BEFORE;
	else
		return fail(HT_E_USAGE, "--guard: '%s' is neither 'behind' nor 'before'", side);
	return HT_OK;
}

enum ht_status session_open(struct cli *c, struct session *s)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	memset(s, 0, sizeof *s);
	if (st == HT_OK)
		st = read_guard(c, &opt.guard);
	if (st == HT_OK && ht_is_artefact(c->model)) {
		st = open_artefact(c, &s->program);
	} else if (st == HT_OK) {
		st = open_model(c, &s->model);
		if (st == HT_OK)
			st = compile(c, s, threads);
	}
	if (st == HT_OK)
		st = check_memory(c, s, threads);
	if (st == HT_OK)
		st = feed(c, s->model, s->program, &s->in, &s->ins);
	if (st == HT_OK)
		st = make_outputs(s);
	opt.threads = (int)threads;
	opt.ftz = option_on(c, OPTION_FTZ);
	if (st == HT_OK)
		st = ht_context_new(s->program, &opt, c->diags, &s->context);
	return st;
}

enum ht_status session_run(struct cli *c, struct session *s)
{
	return ht_context_run(s->context, s->in_view, s->ins, s->out_view, s->outs, c->diags);
}

void session_close(struct session *s)
{
	ht_context_free(s->context);
	ht_program_free(s->program);
	ht_model_free(s->model);
	arrays_free(s->in, s->ins);
	arrays_free(s->out, s->outs);
	free(s->in_view);
	free(s->out_view);
}
