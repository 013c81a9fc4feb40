/* Arrays of --input: which input each one is for, and the shapes of the arrays. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ht_status fed_parse(struct cli *c)
{
	size_t n = c->option[OPTION_INPUT].n;

	c->fed = must_alloc(n * sizeof *c->fed);
	for (size_t i = 0; i < n; i++) {
		const char *v = c->option[OPTION_INPUT].value[i], *equals = strchr(v, '=');

		if (!equals || equals == v)
			return fail(HT_E_USAGE, "--input: '%s' is not NAME=@FILE", v);
		c->fed[i].name = strndup(v, (size_t)(equals - v));
		if (!c->fed[i].name)
			return fail(HT_E_ENVIRONMENT, "out of memory");
		c->fed[i].spec = equals + 1;
		c->feds = i + 1;
	}
	return HT_OK;
}

void fed_free(struct cli *c)
{
	for (size_t i = 0; i < c->feds; i++) {
		array_free(&c->fed[i].array);
		free(c->fed[i].name);
	}
	free(c->fed);
}

/* Reads files; of a literal, only type and shape. */
enum ht_status fed_load(struct fed *f)
{
	enum ht_status st = HT_OK;

	if (f->shaped || is_random_spec(f->spec))
		return HT_OK;
	st = *f->spec == '@' ? load_file(OPTION_INPUT, f->spec, &f->array)
			     : literal_shape(OPTION_INPUT, f->spec, &f->array);
	f->array.a.dim = f->array.shape;
	f->shaped = st == HT_OK;
	return st;
}

/* ---- which input is meant ---- */

struct names {
	const char **name;
	struct fed **fed; /* NULL: from --inputs */
	size_t n;
};

/* With --lenient, warns of names that the model lacks, and drops their values. */
static enum ht_status drop_unknown(struct cli *c, struct ht_model *m, struct names *all)
{
	enum ht_status st = HT_OK;
	size_t n = 0;

	for (size_t i = 0; i < all->n && st == HT_OK; i++) {
		struct ht_diags *d = ht_diags_new();
		struct ht_message message = { .text = "out of memory" };

		if (ht_model_set_inputs(m, &all->name[i], 1, d) != HT_E_USAGE) {
			all->name[n] = all->name[i];
			all->fed[n++] = all->fed[i];
		} else {
			ht_diags_get(d, 0, &message);
			st = refuse(c, "%s", message.text);
			if (all->fed[i])
				all->fed[i]->ignored = true;
		}
		ht_diags_free(d);
	}
	all->n = n;
	return st;
}

static enum ht_status add_all(struct cli *c, struct ht_model *m, struct names *all)
{
	enum ht_status st = option_on(c, OPTION_LENIENT) ? drop_unknown(c, m, all) : HT_OK;
	size_t at;

	if (st == HT_OK && all->n)
		st = ht_model_set_inputs(m, all->name, all->n, c->diags);
	/* The library has warned of those that no output needs. */
	for (size_t i = 0; i < all->n; i++)
		if (all->fed[i] && !ht_model_input_named(m, all->name[i], &at))
			all->fed[i]->ignored = true;
	return st;
}

/* Makes inputs of the tensors that --inputs names, and of other tensors that --input feeds. */
enum ht_status fed_set_inputs(struct cli *c, struct ht_model *m)
{
	struct option_list stated;
	struct names all = { 0 };
	size_t at;
	enum ht_status st = option_list(c, OPTION_INPUTS, &stated);

	all.name = must_alloc((stated.n + c->feds) * sizeof *all.name);
	all.fed = must_alloc((stated.n + c->feds) * sizeof *all.fed);
	for (size_t i = 0; i < stated.n; i++)
		all.name[all.n++] = stated.item[i];
	for (size_t i = 0; i < c->feds; i++) {
		bool named = ht_model_input_named(m, c->fed[i].name, &at);

		for (size_t k = 0; k < stated.n; k++)
			named |= !strcmp(stated.item[k], c->fed[i].name);
		if (named)
			continue;
		all.fed[all.n] = &c->fed[i];
		all.name[all.n++] = c->fed[i].name;
	}
	if (st == HT_OK)
		st = add_all(c, m, &all);
	free(all.name);
	free(all.fed);
	free(stated.text);
	return st;
}

enum ht_status fed_compute_defaults(struct cli *c, struct ht_model *m)
{
	struct option_list stated;
	enum ht_status st = option_list(c, OPTION_INPUTS, &stated);
	const char **name = must_alloc((stated.n + c->feds) * sizeof *name);

	for (size_t i = 0; i < stated.n; i++)
		name[i] = stated.item[i];
	for (size_t i = 0; i < c->feds; i++)
		name[stated.n + i] = c->fed[i].name;
	if (st == HT_OK)
		st = ht_model_compute_defaults(m, name, stated.n + c->feds, c->diags);
	free(name);
	free(stated.text);
	return st;
}

/* ---- shapes ---- */

/* The source of another size of dimension `i` than the array has. */
static const char *who_says(
	const struct ht_value_info *graph, const struct ht_value_info *stated, int32_t i)
{
	if (stated->rank <= i || stated->dim[i] < 0)
		return "--batch says";
	return graph->rank > i && graph->dim[i] == stated->dim[i] ? "the graph says"
								  : "--input-shape says";
}

static enum ht_status disagree(
	const struct fed *f, const struct ht_value_info *v, const char *who_says)
{
	struct ht_value_info array = {
		.dtype = f->array.a.dtype, .rank = f->array.a.rank, .dim = f->array.shape
	};
	char is[256], wants[256];

	return fail(HT_E_INPUT, "--input: '%.100s' is %s, but %s %s for input '%s'", f->spec,
		input_text(&array, is, sizeof is), who_says, input_text(v, wants, sizeof wants),
		v->name);
}

/* What is known about the inputs: from the graph, with --input-shape, and with --batch. */
struct known {
	const struct ht_value_info *graph, *stated;
	struct ht_value_info v;
};

static enum ht_status agree(const struct fed *f, const struct known *k)
{
	const struct ht_array *a = &f->array.a;
	const struct ht_value_info *v = &k->v;

	if (a->dtype != v->dtype && !(f->array.raw16 && v->dtype == HT_BF16))
		return disagree(f, v, "the graph says");
	/* An input with a default need not be fed. */
	if (v->rank < 0 || v->value)
		return HT_OK;
	if (v->rank != a->rank)
		return disagree(f, v, k->graph->rank < 0 ? "--input-shape says" : "the graph says");
	for (int32_t i = 0; i < a->rank; i++)
		if (v->dim[i] >= 0 && v->dim[i] != a->dim[i])
			return disagree(f, v, who_says(k->graph, k->stated, i));
	return HT_OK;
}

static bool stays_open(
	const struct cli *c, const struct ht_model *m, size_t input, const struct ht_value_info *v)
{
	for (int i = 0; i < MOST_OPEN && i < v->rank; i++)
		if (v->dim[i] < 0 && (c->open[i].stay || ht_model_open_size_name(m, input, i)))
			return true;
	return false;
}

static enum ht_status set_shape(struct cli *c, struct ht_model *m, struct fed *f,
	const struct ht_value_info *graph, const struct ht_value_info *stated, bool *seen)
{
	struct known k;
	enum ht_status st;
	size_t at;

	if (f->ignored || !ht_model_input_named(m, f->name, &at))
		return HT_OK;
	ht_model_input(m, at, &k.v);
	k.graph = &graph[at];
	k.stated = &stated[at];
	if (seen[at])
		return fail(HT_E_USAGE, "--input: '%s' is given twice", k.v.name);
	seen[at] = true;
	st = fed_load(f);
	if (st == HT_OK && f->shaped)
		st = agree(f, &k);
	if (st != HT_OK || !f->shaped)
		return st;
	if (stays_open(c, m, at, k.stated))
		return HT_OK;
	if (!c->fed_batch && k.graph->rank > 0 && k.graph->dim[0] < 0)
		c->fed_batch = f->array.shape[0];
	return ht_model_set_shape(m, k.v.name, f->array.a.rank, f->array.shape, c->diags);
}

enum ht_status fed_set_shapes(struct cli *c, struct ht_model *m, const struct ht_value_info *graph,
	const struct ht_value_info *stated)
{
	bool *seen = must_alloc(ht_model_inputs(m) * sizeof *seen);
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < c->feds && st == HT_OK; i++)
		st = set_shape(c, m, &c->fed[i], graph, stated, seen);
	free(seen);
	return st;
}
