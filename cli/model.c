/* Opens the models and policies that a verb works on, as the options say. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ht_status set_outputs(struct cli *c, struct ht_model *m)
{
	const char *s = c->entry_outputs ? c->entry_outputs : option(c, OPTION_OUTPUTS, NULL);
	char *copy, **names, *save = NULL;
	size_t n = 0;
	enum ht_status st;

	if (!s)
		return HT_OK;
	copy = strdup(s);
	if (!copy)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	names = must_alloc((strlen(s) + 1) * sizeof *names);
	for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save))
		names[n++] = name;
	st = ht_model_set_outputs(m, (const char *const *)names, n, c->diags);
	free(names);
	free(copy);
	return st;
}

static bool any_open_batch(const struct ht_model *m)
{
	struct ht_value_info in;

	for (size_t i = 0; ht_model_input(m, i, &in); i++)
		if (in.rank > 0 && in.dim[0] < 0 && !ht_model_open_size_name(m, i, 0))
			return true;
	return false;
}

static struct ht_value_info *inputs_of(const struct ht_model *m)
{
	struct ht_value_info *v = must_alloc(ht_model_inputs(m) * sizeof *v);

	for (size_t i = 0; i < ht_model_inputs(m); i++)
		ht_model_input(m, i, &v[i]);
	return v;
}

/* One note names the first few inputs whose size is taken. */
enum { MOST_NAMED = 3 };

static void note_taken(const struct cli *c, const struct text *named, size_t n, long long taken)
{
	note(c, "the open first dimension of input%s %s is %lld here; --batch states another",
		n > 1 ? "s" : "", named->p, taken);
}

/* A program that is to be run needs sizes: those that neither options nor arrays state get
 * default values, or are an error. */
static enum ht_status take_sizes(struct cli *c, struct ht_model *m)
{
	long long taken = c->fed_batch ? c->fed_batch : 1;
	struct text named = { 0 };
	struct ht_value_info in;
	size_t n = 0;
	enum ht_status st = HT_OK;

	for (size_t i = 0; ht_model_input(m, i, &in) && st == HT_OK; i++) {
		for (int32_t k = 1; k < in.rank && k < MOST_OPEN && st == HT_OK; k++)
			if (in.dim[k] < 0 && !c->open[k].stay && !ht_model_open_size_name(m, i, k))
				st = fail(HT_E_UNSUPPORTED,
					"dimension %d of input '%s' is open; an array states it, or "
					"--input-shape, by a number or a range such as 1..128",
					(int)k, in.name);
		if (in.rank > 0 && in.dim[0] < 0 && !c->open[0].stay &&
			!ht_model_open_size_name(m, i, 0) && ++n <= MOST_NAMED)
			text_printf(&named, "%s'%s'", n > 1 ? ", " : "", in.name);
	}
	if (st == HT_OK && n) {
		text_unnamed(&named, n, MOST_NAMED);
		note_taken(c, &named, n, taken);
		st = ht_model_set_batch(m, taken, c->diags);
	}
	free(named.p);
	return st;
}

/* Whether inputs that the command line does not mention have values that the tool makes. */
static bool makes_up_inputs(const struct cli *c)
{
	return c->verb->bit & (RUN | BENCH) ||
	       (c->verb->bit & (COMPARE | SEARCH) && labelled_set_is_random(c));
}

static enum ht_status configure(struct cli *c, struct ht_model *m, size_t set, long long batch)
{
	struct ht_value_info *graph = NULL, *stated = NULL;
	enum ht_status st = set_outputs(c, m);

	if (st == HT_OK)
		st = fed_set_inputs(c, m);
	if (st == HT_OK)
		graph = inputs_of(m);
	if (st == HT_OK)
		st = set_shapes(c, m, set);
	if (st == HT_OK)
		stated = inputs_of(m);
	if (st == HT_OK && batch && c->open[0].stay && !(c->verb->bit & (RUN | BENCH)))
		st = refuse(
			c, "--batch has no effect: --input-shape leaves the first dimension open");
	if (st == HT_OK && batch && !any_open_batch(m))
		st = refuse(c,
			"--batch has no effect: no input leaves its first dimension open without a name");
	for (int i = 0; i < MOST_OPEN && st == HT_OK; i++)
		if (c->open[i].stay)
			st = ht_model_set_open_dimension(
				m, i, c->open[i].least, c->open[i].most, c->diags);
	if (st == HT_OK && batch && !c->open[0].stay)
		st = ht_model_set_batch(m, batch, c->diags);
	if (st == HT_OK)
		st = fed_set_shapes(c, m, graph, stated);
	if (st == HT_OK)
		st = steady_set(c, m);
	if (st == HT_OK && makes_up_inputs(c))
		st = fed_compute_defaults(c, m);
	if (st == HT_OK && c->verb->bit & (RUN | BENCH | COMPARE | SEARCH))
		st = take_sizes(c, m);
	free(graph);
	free(stated);
	return st;
}

enum ht_status open_model(struct cli *c, struct ht_model **out)
{
	long long batch;
	size_t set;
	enum ht_status st = option_number(c, OPTION_BATCH, 0, 1, 1 << 20, &batch);

	if (st == HT_OK && takes_settings(c->verb))
		st = load_configs(c);
	if (st == HT_OK)
		st = choose_set(c, &set);
	return st == HT_OK ? open_shaped_model(c, set, batch, out) : st;
}

enum ht_status open_shaped_model(struct cli *c, size_t set, long long batch, struct ht_model **out)
{
	struct ht_load_options opt = HT_LOAD_OPTIONS_INIT;
	long long nodes;
	enum ht_status st = option_number(c, OPTION_MAX_NODES, 0, 1, INT64_MAX, &nodes);

	if (st != HT_OK)
		return st;
	if (option_on(c, OPTION_ENTRY) && !c->entry_outputs)
		return fail(HT_E_USAGE,
			"--entry names a program of an artefact, which %s is not; see compile --entry",
			c->model);
	opt.max_nodes = (size_t)nodes;
	opt.signature = option(c, OPTION_SIGNATURE, NULL);
	st = ht_model_load(c->model, &opt, c->diags, out);
	if (st != HT_OK)
		return st;
	if (option_on(c, OPTION_FLOAT64))
		st = ht_model_widen(*out, "f64", c->diags);
	if (st == HT_OK)
		st = configure(c, *out, set, batch);
	if (st == HT_OK && c->verb->bit & CACHED)
		st = use_cache(c, *out);
	if (st != HT_OK) {
		ht_model_free(*out);
		*out = NULL;
	}
	return st;
}

/* Sets all options.  The one that decides whether unknown names are errors comes first, since
 * reading files depends on it. */
static enum ht_status set_all(struct cli *c, struct ht_policy *p)
{
	enum ht_status st = HT_OK;

	if (option_on(c, OPTION_LENIENT))
		st = ht_policy_set(p, "lenient", "true", c->diags);
	for (size_t i = 0; st == HT_OK && i < c->settings; i++)
		if (!strcmp(c->setting[i].name, "lenient"))
			st = ht_policy_set(p, "lenient", c->setting[i].value, c->diags);
	for (size_t i = 0; st == HT_OK && i < c->settings; i++)
		st = !strcmp(c->setting[i].name, "samples")
			     ? set_samples(c, p, c->setting[i].value)
			     : ht_policy_set(p, c->setting[i].name, c->setting[i].value, c->diags);
	if (st == HT_OK && option_on(c, OPTION_NO_MEASURE))
		st = ht_policy_set(p, "measure", "false", c->diags);
	/* Other verbs pass the target to the compiler. */
	if (st == HT_OK && c->verb->bit & (EXPLAIN | CONVERT) && option(c, OPTION_TARGET, NULL))
		st = ht_policy_set(p, "cost_target", option(c, OPTION_TARGET, NULL), c->diags);
	if (st == HT_OK && (option_on(c, OPTION_PRICES) || option_on(c, OPTION_NODE) ||
				   option_on(c, OPTION_WHY_NOT)))
		st = ht_policy_set(p, "priced_node",
			option_on(c, OPTION_PRICES) ? "*" : option(c, OPTION_NODE, "*"), c->diags);
	return st;
}

enum ht_status open_named_policy(struct cli *c, const char *name, struct ht_policy **out)
{
	enum ht_status st = ht_policy_new(name, c->diags, out);

	if (st == HT_OK)
		st = set_all(c, *out);
	if (st != HT_OK) {
		ht_policy_free(*out);
		*out = NULL;
	}
	return st;
}

/* A mode on the command line takes precedence over the environment's policy. */
enum ht_status open_policy(struct cli *c, struct ht_policy **out)
{
	const char *name = option(c, OPTION_POLICY, NULL);
	enum ht_status st;

	*out = NULL;
	if (!option_on(c, OPTION_POLICY) && states_mode(c))
		name = NULL;
	st = load_configs(c);
	if (st != HT_OK)
		return st;
	/* Without a policy or settings, only explain's costs need the policy, for their target. */
	if (!name && !c->settings && !(c->verb->bit == EXPLAIN && option(c, OPTION_TARGET, NULL)))
		return HT_OK;
	return open_named_policy(c, name, out);
}
