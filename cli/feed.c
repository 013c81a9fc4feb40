/* The inputs of a run: from files, defaults of the graph, or random. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void arrays_free(struct array *a, size_t n)
{
	for (size_t i = 0; a && i < n; i++)
		array_free(&a[i]);
	free(a);
}

/* ---- random ---- */

struct random {
	uint64_t state;
};

static uint64_t next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* In [-1, 1). */
static double next_real(struct random *r)
{
	return (double)(next(r) >> 11) * 0x1p-52 - 1;
}

/* Floats in [-1, 1); integers 0 or 1, since they may be indices. */
static void fill_random(struct array *a, struct random *r)
{
	size_t size = ht_dtype_bytes(a->a.dtype), n = size ? a->a.bytes / size : 0;
	char *p = a->a.data;

	for (size_t i = 0; i < n; i++, p += size) {
		double x = next_real(r);
		float f = (float)x;
		switch (a->a.dtype) {
		case HT_F32:
			memcpy(p, &f, size);
			break;
		case HT_F64:
			memcpy(p, &x, size);
			break;
		case HT_F16:
		case HT_BF16:
			ht_narrow(&f, a->a.dtype, p, 1);
			break;
		default:
			*p = x < 0; /* little endian */
		}
	}
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

static enum ht_status load_file(const char *spec, struct array *out)
{
	const char *path = spec + 1, *hash;
	struct npz *z;
	char *copy;
	enum ht_status st;

	if (*spec != '@')
		return fail(HT_E_USAGE, "--input: '%s' is not @FILE.npy or @FILE.npz#KEY", spec);
	hash = strrchr(path, '#');
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

/* Each --input has to name an input of the model; one that the outputs do not need is told. */
static enum ht_status check_names(
	struct cli *c, const struct ht_model *m, const struct ht_program *p)
{
	for (size_t i = 0; i < c->option[OPTION_INPUT].n; i++) {
		const char *v = c->option[OPTION_INPUT].value[i];
		const char *names[256];
		struct ht_value_info in;
		size_t len = strcspn(v, "="), known = 0;
		bool of_model = false, of_program = false;
		char name[512];

		if (!v[len])
			return fail(HT_E_USAGE, "--input: '%s' is not NAME=@FILE", v);
		if (len > 2 && !strncmp(v + len - 2, ":0", 2))
			len -= 2;
		snprintf(name, sizeof name, "%.*s", (int)(len < 500 ? len : 500), v);
		for (size_t j = 0; ht_model_input(m, j, &in); j++) {
			of_model |= !strcmp(in.name, name);
			if (known < 256)
				names[known++] = in.name;
		}
		for (size_t j = 0; ht_program_input(p, j, &in); j++)
			of_program |= !strcmp(in.name, name);
		if (!of_model && !of_program) {
			const char *near = near_name(name, names, known);
			return fail(HT_E_USAGE, "the model has no input '%s'%s%s%s", name,
				near    ? "; did you mean '"
				: known ? "; its first is '"
					: "",
				near    ? near
				: known ? names[0]
					: "",
				near || known ? "'?" : "");
		}
		if (!of_program)
			note(c, "input '%s' is not needed for the outputs", name);
	}
	return HT_OK;
}

static void print_shape(const struct ht_value_info *v, char *s, size_t size)
{
	int n = snprintf(s, size, "%s[", ht_dtype_name(v->dtype));

	for (int32_t i = 0; i < v->rank && (size_t)n + 24 < size; i++)
		n += snprintf(
			s + n, size - (size_t)n, "%s%lld", i ? "," : "", (long long)v->dim[i]);
	snprintf(s + n, size - (size_t)n, "]");
}

static enum ht_status one(struct cli *c, const struct ht_value_info *v, long long seed,
	size_t number, struct array *out)
{
	const char *spec = given(c, v->name);
	struct random r = { (uint64_t)seed * 1000003 + number };
	char shape[256];
	enum ht_status st;

	if (spec) {
		st = load_file(spec, out);
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
	fill_random(out, &r);
	print_shape(v, shape, sizeof shape);
	note(c, "input '%s' is random: %s, seed %lld", v->name, shape, seed);
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

enum ht_status session_open(struct cli *c, struct session *s)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	memset(s, 0, sizeof *s);
	if (st == HT_OK)
		st = open_model(c, &s->model);
	if (st == HT_OK)
		st = compile(c, s, threads);
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
