/* The vendor's options for dynamic shapes.  Shapes that they state become values of --input-shape.
 *
 *   dynamic_input_config.dynamic_dims   several sets of shapes
 *   dynamic_input                       sizes stay open: within dynamic_inputs_shape_range, else all that the graph leaves open
 *   dynamic_inputs_shape_range          ranges of sizes, used only with dynamic_input
 *   compile_dynamic_mode                all sizes that the graph leaves open stay open
 *   jit_compile                         with false, likewise
 *   dynamic_graph_execute_mode          lazy_recompile, with dynamic_input: a program is compiled for the sizes of each run */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const char dims[] = "dynamic_input_config.dynamic_dims",
		  ranges_option[] = "dynamic_inputs_shape_range",
		  mode[] = "dynamic_graph_execute_mode";

static bool is(const struct cli *c, const char *name, const char *value)
{
	const char *s = setting_value(c, name);

	return s && !strcmp(s, value);
}

static bool is_true(const struct cli *c, const char *name)
{
	return is(c, name, "true") || is(c, name, "1");
}

/* Adds t->p to the values of --input-shape, and takes its ownership. */
static void add_made(struct cli *c, struct text *t)
{
	char **grown = realloc(c->made, (c->mades + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	c->made = grown;
	c->made[c->mades++] = t->p;
	add_value(c, OPTION_SHAPE, t->p);
}

/* ---- NAME:[1~8,-1];NAME:[3] ---- */

/* Rewrites the text between the brackets: "1~8,-1" becomes "1..8,?". */
static void put_ranges(struct text *t, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '-' && i + 1 < n && s[i + 1] == '1') {
			text_printf(t, "?");
			i++;
		} else if (s[i] == '~') {
			text_printf(t, "..");
		} else if (s[i] != ' ' && s[i] != '\t') {
			text_printf(t, "%c", s[i]);
		}
}

/* Rewrites one input; api/grammar_shapes.c has checked its syntax. */
static enum ht_status put_input(struct text *t, const char *option, const char *s, size_t n)
{
	const char *open = memchr(s, '[', n), *close = memchr(s, ']', n);
	size_t name;

	if (!open || !close || close < open)
		return fail(HT_E_USAGE, "--%s: '%.*s' is not NAME:[R,R]", option, (int)n, s);
	if (memchr(close, '[', (size_t)(s + n - close)))
		return fail(HT_E_UNSUPPORTED,
			"--%s: '%.*s' has several shapes, as a data set has; inputs are named one by one",
			option, (int)n, s);
	name = (size_t)(open - s);
	while (name && strchr(" \t:", s[name - 1]))
		name--;
	while (name && strchr(" \t", *s))
		s++, name--;
	if (close == open + 1)
		return HT_OK; /* a scalar has no sizes to state */
	text_printf(t, "%s%.*s:", t->n ? ";" : "", (int)name, s);
	put_ranges(t, open + 1, (size_t)(close - open - 1));
	return HT_OK;
}

enum ht_status put_open_shapes(struct text *t, const char *option, const char *ranges)
{
	enum ht_status st = HT_OK;

	for (const char *s = ranges; *s && st == HT_OK; s += *s == ';') {
		size_t n = strcspn(s, ";");

		st = put_input(t, option, s, n);
		s += n;
	}
	return st;
}

static enum ht_status add_ranges(struct cli *c, const char *option, const char *ranges)
{
	struct text t = { 0 };
	enum ht_status st = put_open_shapes(&t, option, ranges);

	if (st == HT_OK && t.p)
		add_made(c, &t);
	else
		free(t.p);
	return st;
}

/* ---- profiles ---- */

static enum ht_status add_profiles(struct cli *c, const char *shape, const char *profiles)
{
	for (const char *p = profiles; *p; p += *p == ';') {
		size_t n = strcspn(p, ";");
		struct text t = { 0 };
		enum ht_status st = atc_fill_shape("dynamic_dims", shape, p, n, &t);

		if (st != HT_OK) {
			free(t.p);
			return st;
		}
		add_made(c, &t);
		p += n;
	}
	return HT_OK;
}

/* ---- combinations of the options ---- */

static enum ht_status take_lazy(const struct cli *c)
{
	if (c->verb->bit & (COMPILE | AOT) && !option_on(c, OPTION_BATCH))
		return fail(HT_E_USAGE,
			"dynamic_graph_execute_mode=lazy_recompile: a program is compiled for the sizes that a "
			"run is fed, by run and bench; to compile one ahead, state its sizes with --input-shape");
	return HT_OK;
}

static enum ht_status take_open(struct cli *c)
{
	const char *ranges = setting_value(c, ranges_option);

	if (ranges && *ranges)
		return add_ranges(c, ranges_option, ranges);
	c->opens_all = true;
	return HT_OK;
}

/* A typed --input-shape takes precedence over these options. */
enum ht_status take_dynamic(struct cli *c)
{
	const char *profiles = setting_value(c, dims);
	const char *ranges = setting_value(c, ranges_option);
	bool input = is_true(c, "dynamic_input");
	bool all = is_true(c, "compile_dynamic_mode") || is(c, "jit_compile", "false"),
	     given = profiles && *profiles;

	if (ranges && *ranges && !given && (!input || is(c, mode, "lazy_recompile")))
		warn(c, "dynamic_inputs_shape_range counts only with dynamic_input=true and "
			"dynamic_graph_execute_mode=dynamic_execute");
	if (!given && !input && !all)
		return HT_OK;
	if (option_on(c, OPTION_SHAPE)) {
		note(c, "--input-shape counts before the options of dynamic shapes");
		return HT_OK;
	}
	if (given)
		return add_profiles(
			c, setting_value(c, "dynamic_input_config.input_shape"), profiles);
	if (input && is(c, mode, "lazy_recompile") && !all)
		return take_lazy(c);
	if (input)
		return take_open(c);
	c->opens_all = true;
	return HT_OK;
}
