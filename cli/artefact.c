/* Artefacts: which variant the options select, and which conditions they state; halftone sign
 * and diff. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

struct shapes {
	struct ht_value_info input[MOST];
	int64_t dim[MOST][32];
	size_t n;
};

/* A later statement about an input replaces an earlier one. */
static enum ht_status add_shape(
	struct shapes *s, const char *name, size_t length, const int64_t *dim, int32_t rank)
{
	struct ht_value_info *v = &s->input[s->n];

	if (s->n == MOST)
		return fail(HT_E_LIMIT, "shapes of more than %d inputs", MOST);
	if (length > 2 && !strncmp(name + length - 2, ":0", 2))
		length -= 2;
	v->name = strndup(name, length);
	if (!v->name)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	memcpy(s->dim[s->n], dim, (size_t)rank * sizeof *dim);
	v->dim = s->dim[s->n++];
	v->rank = rank;
	return HT_OK;
}

/* --input-shape */
static enum ht_status add_stated(const struct cli *c, struct shapes *s)
{
	for (size_t i = 0; i < c->option[OPTION_SHAPE].n; i++) {
		const char *at = c->option[OPTION_SHAPE].value[i];

		for (; *at; at += *at == ';') {
			size_t n = strcspn(at, ";");
			const char *colon = memrchr(at, ':', n);
			struct open_sizes open[MOST_OPEN];
			int64_t dim[32];
			int32_t rank;
			enum ht_status st;

			if (n && (!colon || colon == at ||
					 !parse_open_dims(colon + 1, at + n, dim, &rank, open)))
				return fail(HT_E_USAGE, "--input-shape: '%.*s' is not NAME:D,D,…",
					(int)n, at);
			st = n ? add_shape(s, at, (size_t)(colon - at), dim, rank) : HT_OK;
			if (st != HT_OK)
				return st;
			at += n;
		}
	}
	return HT_OK;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strlen(a), k = strlen(b);

	n -= n > 2 && !strcmp(a + n - 2, ":0") ? 2 : 0;
	k -= k > 2 && !strcmp(b + k - 2, ":0") ? 2 : 0;
	return n == k && !strncmp(a, b, n);
}

/* Refuses an array whose shape differs from the one that --input-shape states for its input. */
static enum ht_status agree(const struct shapes *s, const struct fed *f)
{
	struct ht_value_info array = {
		.dtype = f->array.a.dtype, .rank = f->array.a.rank, .dim = f->array.shape
	};
	char is[256], wants[256];

	for (size_t i = 0; i < s->n; i++) {
		struct ht_value_info stated = s->input[i];
		bool same = stated.rank == array.rank;

		if (!same_name(stated.name, f->name))
			continue;
		for (int32_t k = 0; same && k < stated.rank; k++)
			same = stated.dim[k] < 0 || stated.dim[k] == array.dim[k];
		stated.dtype = array.dtype;
		if (!same)
			return fail(HT_E_INPUT,
				"--input: '%.100s' is %s, but --input-shape says %s for input '%s'",
				f->spec, input_text(&array, is, sizeof is),
				input_text(&stated, wants, sizeof wants), f->name);
	}
	return HT_OK;
}

/* The shapes of the arrays that are fed, except random ones. */
static enum ht_status add_fed(const struct cli *c, struct shapes *s)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < c->feds && st == HT_OK; i++) {
		struct fed *f = &c->fed[i];

		st = fed_load(f);
		if (st == HT_OK && f->shaped)
			st = agree(s, f);
		if (st == HT_OK && f->shaped)
			st = add_shape(
				s, f->name, strlen(f->name), f->array.shape, f->array.a.rank);
	}
	return st;
}

/* Refuses options whose values were fixed when the artefact was compiled, if it has no variant
 * for them. */
static enum ht_status check_options(const struct cli *c)
{
	static const enum option compiled[] = { OPTION_BATCH_METHOD, OPTION_BLOCK_METHOD,
		OPTION_CONFIG, OPTION_CONV_METHOD, OPTION_INPUTS, OPTION_MAX_NODES, OPTION_OUTPUTS,
		OPTION_SIGNATURE };

	for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
		if (option_on(c, compiled[i]))
			return fail(HT_E_USAGE, "--%s: %s is compiled already; state it to compile",
				option_rows[compiled[i]].name, c->model);
	if (option_on(c, OPTION_NUMERICS))
		return fail(HT_E_USAGE, "--numerics: %s counts nothing; run the model itself",
			c->model);
	if (option_on(c, OPTION_DUMP))
		return fail(HT_E_USAGE, "--dump: %s tells of no tensors; run the model itself",
			c->model);
	if (c->settings)
		return fail(HT_E_USAGE, "%s: %s is compiled already; state it to compile",
			c->setting[0].name, c->model);
	return HT_OK;
}

enum ht_status artefact_trust(const struct cli *c, struct ht_artefact_options *opt)
{
	const char *verify = option(c, OPTION_VERIFY, NULL);

	opt->require_signature = option(c, OPTION_REQUIRE, NULL);
	opt->verify_full = verify && !strcmp(verify, "full");
	if (verify && !opt->verify_full && strcmp(verify, "used") != 0)
		return fail(HT_E_USAGE, "--verify: '%s' is neither used nor full", verify);
	return HT_OK;
}

/* Sets what the options select, except the target. */
static enum ht_status wanted(struct cli *c, struct shapes *s, struct ht_artefact_options *opt)
{
	long long batch;
	enum ht_status st = check_options(c);

	if (st == HT_OK)
		st = artefact_trust(c, opt);
	if (st == HT_OK)
		st = option_number(c, OPTION_BATCH, 0, 1, 1 << 20, &batch);
	if (st == HT_OK)
		st = add_stated(c, s);
	if (st == HT_OK)
		st = add_fed(c, s);
	if (st != HT_OK)
		return st;
	opt->entry = option(c, OPTION_ENTRY, NULL);
	opt->policy = option_on(c, OPTION_POLICY) ? option(c, OPTION_POLICY, NULL) : NULL;
	opt->input = s->input;
	opt->inputs = s->n;
	opt->batch = batch;
	return HT_OK;
}

static void shapes_free(struct shapes *s)
{
	while (s->n)
		free((char *)(uintptr_t)s->input[--s->n].name);
	free(s);
}

enum ht_status open_artefact(struct cli *c, struct ht_program **out)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct shapes *shapes = must_alloc(sizeof *shapes);
	enum ht_status st = wanted(c, shapes, &opt);

	opt.target = option_on(c, OPTION_TARGET) ? option(c, OPTION_TARGET, NULL) : NULL;
	if (st == HT_OK)
		st = ht_program_load(c->model, &opt, c->diags, out);
	shapes_free(shapes);
	return st;
}

enum ht_status open_variants(struct cli *c, const struct option_list *targets,
	struct ht_program **out, size_t room, size_t *n)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct shapes *shapes = must_alloc(sizeof *shapes);
	enum ht_status st = wanted(c, shapes, &opt);

	if (st == HT_OK)
		st = ht_aot_load(c->model, &opt, (const char *const *)targets->item, targets->n,
			c->diags, out, room, n);
	shapes_free(shapes);
	return st;
}

enum ht_status verb_sign(struct cli *c)
{
	const char *key = option(c, OPTION_SIGN_KEY, NULL);

	if (!key)
		return fail(HT_E_USAGE, "halftone sign needs --sign-key KEY.pem");
	return ht_artefact_sign(c->model, key, option(c, OPTION_OUTPUT, c->model), c->diags);
}

enum ht_status verb_diff(struct cli *c)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format), printed;

	if (st == HT_OK)
		st = artefact_trust(c, &opt);
	if (st == HT_OK)
		st = ht_artefact_diff(c->model, c->other, &opt, format, c->diags, &b);
	printed = b.p ? print_bytes(&b) : HT_OK;
	ht_bytes_free(&b);
	return printed != HT_OK ? printed : st;
}
