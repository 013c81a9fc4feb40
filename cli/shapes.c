/* Shapes of inputs: --input-shape.  A value that names an input again begins another set. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool parse_dims(const char *s, const char *end, int64_t *dim, int32_t *rank)
{
	*rank = 0;
	while (s < end) {
		char *stop;
		errno = 0;
		dim[*rank] = strtoll(s, &stop, 10);
		if (errno || stop == s || stop > end || *rank == 31 || (stop < end && *stop != ','))
			return false;
		++*rank;
		s = stop + (stop < end);
		if (s == end && stop < end)
			return false;
	}
	return true;
}

/* Parses a number that ends at `end`. */
static bool parse_bound(const char *s, const char *end, int64_t *n)
{
	char *stop;

	errno = 0;
	*n = strtoll(s, &stop, 10);
	return !errno && stop == end && s < end && *s >= '0' && *s <= '9';
}

/* Parses "?", "1..64" or "length=1..64". */
static bool parse_range(const char *s, const char *end, struct open_sizes *open)
{
	const char *equals = memchr(s, '=', (size_t)(end - s)), *dots;

	*open = (struct open_sizes){ .stay = true };
	if (equals) {
		open->name = s;
		open->letters = (size_t)(equals - s);
		s = equals + 1;
	}
	dots = memmem(s, (size_t)(end - s), "..", 2);
	if (end == s + 1 && *s == '?')
		return true;
	return dots && parse_bound(s, dots, &open->least) &&
	       parse_bound(dots + 2, end, &open->most) && open->most >= 1 &&
	       open->most >= open->least;
}

bool parse_open_dims(const char *s, const char *end, int64_t *dim, int32_t *rank,
	struct open_sizes open[MOST_OPEN])
{
	memset(open, 0, MOST_OPEN * sizeof *open);
	for (*rank = 0; s < end && *rank < 31; ++*rank) {
		const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end;
		int32_t one;

		if (stop == s || (comma && comma + 1 == end))
			return false;
		if (!parse_dims(s, stop, &dim[*rank], &one)) {
			if (*rank >= MOST_OPEN || !parse_range(s, stop, &open[*rank]))
				return false;
			dim[*rank] = HT_DIMENSION_OPEN;
		}
		s = comma ? comma + 1 : end;
	}
	return s == end;
}

/* In a run, open dimensions with the same number have the same size, so their bounds are
 * intersected.  Those with a name have a size of their own. */
static enum ht_status add_open(struct open_sizes *all, const struct open_sizes *o)
{
	if (!o->stay || o->name)
		return HT_OK;
	if (!all->stay)
		*all = *o;
	all->least = o->least > all->least ? o->least : all->least;
	if (o->most && (!all->most || o->most < all->most))
		all->most = o->most;
	if (all->most && all->most < all->least)
		return fail(HT_E_USAGE,
			"--input-shape: open inputs have one size, and their ranges have none in common");
	return HT_OK;
}

/* Each input's shape may be stated once.  With --lenient, the name of a missing input becomes
 * "". */
static enum ht_status claim_input(struct cli *c, const struct ht_model *m, char *name, bool *shaped)
{
	struct ht_value_info in;
	size_t i;

	if (!ht_model_input_named(m, name, &i)) {
		if (c->entry_outputs) { /* another entry has the input, or compile reports the
					 * error */
			*name = 0;
			return HT_OK;
		}
		if (!option_on(c, OPTION_LENIENT))
			return HT_OK; /* the library's error lists the names */
		refuse(c, "--input-shape: the model has no input '%s'", name);
		*name = 0;
		return HT_OK;
	}
	if (shaped[i]) {
		ht_model_input(m, i, &in);
		return fail(HT_E_USAGE, "--input-shape: '%s' is given twice", in.name);
	}
	shaped[i] = true;
	return HT_OK;
}

static enum ht_status name_sizes(struct cli *c, struct ht_model *m, const char *input,
	const struct open_sizes open[MOST_OPEN])
{
	enum ht_status st = HT_OK;

	for (int i = 0; i < MOST_OPEN && st == HT_OK; i++) {
		char *name = open[i].name ? strndup(open[i].name, open[i].letters) : NULL;

		if (name)
			st = ht_model_set_open_size(
				m, input, i, name, open[i].least, open[i].most, c->diags);
		else if (open[i].name)
			st = fail(HT_E_ENVIRONMENT, "out of memory");
		free(name);
	}
	return st;
}

/* Sets one "name:1,2,3"; only the name may contain colons. */
static enum ht_status set_shape(
	struct cli *c, struct ht_model *m, const char *s, size_t n, bool *shaped)
{
	const char *colon = memrchr(s, ':', n);
	struct open_sizes open[MOST_OPEN];
	int64_t dim[32];
	int32_t rank;
	char *name;
	enum ht_status st;

	if (!colon || colon == s || !parse_open_dims(colon + 1, s + n, dim, &rank, open))
		return fail(HT_E_USAGE,
			"--input-shape: '%.*s' is not NAME:D,D,…, where sizes may be ? or a range, "
			"1..64, with a name in front, length=1..64",
			(int)n, s);
	name = strndup(s, (size_t)(colon - s));
	if (!name)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	st = claim_input(c, m, name, shaped);
	if (st == HT_OK && *name)
		st = ht_model_set_shape(m, name, rank, dim, c->diags);
	if (st == HT_OK && *name)
		st = name_sizes(c, m, name, open);
	free(name);
	for (int i = 0; i < MOST_OPEN && st == HT_OK; i++)
		st = add_open(&c->open[i], &open[i]);
	return st;
}

size_t shape_name_length(const char *s, size_t n)
{
	const char *colon = memrchr(s, ':', n);
	size_t length = colon ? (size_t)(colon - s) : n;

	return length > 2 && !strncmp(s + length - 2, ":0", 2) ? length - 2 : length;
}

/* Whether two values of --input-shape name the same input. */
static bool same_input(const char *a, const char *b)
{
	for (; *a; a += strcspn(a, ";"), a += *a == ';') {
		size_t n = shape_name_length(a, strcspn(a, ";"));

		for (const char *w = b; *w; w += strcspn(w, ";"), w += *w == ';')
			if (shape_name_length(w, strcspn(w, ";")) == n && !strncmp(a, w, n))
				return true;
	}
	return false;
}

/* The end of the set of shapes that begins with value `i` of --input-shape. */
static size_t set_end(const struct cli *c, size_t i)
{
	const char **value = c->option[OPTION_SHAPE].value;
	size_t end = i + 1;

	for (; end < c->option[OPTION_SHAPE].n; end++)
		for (size_t k = i; k < end; k++)
			if (same_input(value[k], value[end]))
				return end;
	return end;
}

size_t shape_sets(const struct cli *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->option[OPTION_SHAPE].n; i = set_end(c, i))
		n++;
	return n ? n : 1;
}

void set_bounds(const struct cli *c, size_t set, size_t *first, size_t *end)
{
	*first = 0;
	*end = c->option[OPTION_SHAPE].n;
	for (; set != ALL_SHAPES && set; set--)
		*first = set_end(c, *first);
	if (set != ALL_SHAPES && *end)
		*end = set_end(c, *first);
}

/* Keeps the open dimensions of the graph open. */
static enum ht_status open_all(struct cli *c, const struct ht_model *m)
{
	const struct open_sizes stays = { .stay = true };
	struct ht_value_info in;
	enum ht_status st = HT_OK;

	for (size_t i = 0; ht_model_input(m, i, &in); i++)
		for (int32_t k = 0; k < in.rank && k < MOST_OPEN && st == HT_OK; k++)
			if (in.dim[k] < 0)
				st = add_open(&c->open[k], &stays);
	return st;
}

enum ht_status set_shapes(struct cli *c, struct ht_model *m, size_t set)
{
	size_t i, end;
	bool *shaped = must_alloc(ht_model_inputs(m) * sizeof *shaped);
	enum ht_status st = HT_OK;

	memset(c->open, 0, sizeof c->open);
	set_bounds(c, set, &i, &end);
	if (c->opens_all && !end)
		st = open_all(c, m);
	for (; i < end && st == HT_OK; i++) {
		const char *s = c->option[OPTION_SHAPE].value[i];
		while (*s && st == HT_OK) {
			size_t n = strcspn(s, ";");
			if (n)
				st = set_shape(c, m, s, n, shaped);
			s += n + (s[n] == ';');
		}
	}
	free(shaped);
	return st;
}
