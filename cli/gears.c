/* Chooses one of several sets of shapes (the vendor's gears) by the shapes of the arrays of --input. */
#include "cli/cli.h"

#include <string.h>

/* How many open sizes a shape has, if it fits the array; -1: it does not fit. */
static int fits(const char *s, size_t n, const struct fed *f)
{
	const char *colon = memrchr(s, ':', n);
	struct open_sizes open[MOST_OPEN];
	int64_t dim[32];
	int32_t rank;
	int opens = 0;

	if (!colon || !parse_open_dims(colon + 1, s + n, dim, &rank, open) ||
		rank != f->array.a.rank)
		return -1;
	for (int32_t i = 0; i < rank; i++) {
		int64_t is = f->array.shape[i];

		if (dim[i] >= 0 && dim[i] != is)
			return -1;
		if (dim[i] < 0 && i < MOST_OPEN &&
			(is < open[i].least || (open[i].most && is > open[i].most)))
			return -1;
		opens += dim[i] < 0;
	}
	return opens;
}

/* Likewise for the shape that the set states for the array's input; 0: it states none. */
static int set_fits(const struct cli *c, size_t set, const struct fed *f)
{
	size_t i, end, own = shape_name_length(f->name, strlen(f->name));

	for (set_bounds(c, set, &i, &end); i < end; i++)
		for (const char *s = c->option[OPTION_SHAPE].value[i]; *s; s += *s == ';') {
			size_t n = strcspn(s, ";"), name = shape_name_length(s, n);

			if (name == own && !strncmp(s, f->name, own))
				return fits(s, n, f);
			s += n;
		}
	return 0;
}

static int all_fit(const struct cli *c, size_t set)
{
	int opens = 0;

	for (size_t i = 0; i < c->feds; i++) {
		int n = c->fed[i].shaped ? set_fits(c, set, &c->fed[i]) : 0;

		if (n < 0)
			return -1;
		opens += n;
	}
	return opens;
}

/* Loads the arrays of --input; *any: some array states its shape. */
static enum ht_status load_fed(struct cli *c, bool *any)
{
	enum ht_status st = HT_OK;

	*any = false;
	for (size_t i = 0; i < c->feds && st == HT_OK; i++) {
		st = fed_load(&c->fed[i]);
		*any = *any || c->fed[i].shaped;
	}
	return st;
}

/* Of the sets that fit, chooses the first with the fewest open sizes. */
static enum ht_status choose_fed(const struct cli *c, size_t *set)
{
	size_t sets = shape_sets(c);
	int least = -1;

	for (size_t i = 0; i < sets; i++) {
		int n = all_fit(c, i);

		if (n < 0 || (least >= 0 && n >= least))
			continue;
		least = n;
		*set = i;
	}
	if (least >= 0)
		return HT_OK;
	return fail(HT_E_INPUT,
		"--input: of the %zu sets of shapes of --input-shape none is that of the arrays",
		sets);
}

enum ht_status choose_set(struct cli *c, size_t *set)
{
	bool fed = false;
	enum ht_status st;

	*set = ALL_SHAPES;
	if (shape_sets(c) < 2)
		return HT_OK;
	st = c->verb->bit & (RUN | BENCH) ? load_fed(c, &fed) : HT_OK;
	if (st != HT_OK || fed)
		return st == HT_OK ? choose_fed(c, set) : st;
	if (!c->mades)
		return HT_OK; /* a typed --input-shape names an input twice; set_shapes() reports the error */
	*set = 0;
	note(c, "the first of %zu profiles of shapes counts", shape_sets(c));
	return HT_OK;
}
