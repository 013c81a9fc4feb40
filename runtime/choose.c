/* Chooses a variant of an artefact with the wanted policy and shapes.  Of several such variants
 * it takes one with the fewest open sizes, and of these the one for the best target that the
 * machine supports. */
#include "runtime/format.h"

#include <stdio.h>

struct choice {
	const struct ht_artefact *a;
	const struct ht_variant_wanted *w;
	struct ht_diags *d;
};

/* The bounds of dimension `at`; NULL: it is not open. */
static const int64_t *bounds_of(const struct ht_index_input *in, size_t at)
{
	const int64_t *bound = in->bound;

	for (size_t i = 0; i < at; i++)
		bound += in->dim[i] < 0 ? 2 : 0;
	return in->dim[at] < 0 ? bound : NULL;
}

static bool fits(const struct ht_index_input *in, size_t at, int64_t size)
{
	const int64_t *bound = bounds_of(in, at);

	return bound ? size >= bound[0] && size <= bound[1] : size == in->dim[at];
}

static bool has_batch(const struct ht_index_variant *v, int64_t batch)
{
	for (size_t i = 0; i < v->inputs; i++)
		if (v->input[i].rank && fits(&v->input[i], 0, batch))
			return true;
	return !batch;
}

/* A wanted input that the variant does not have is ignored, and so is a wanted dimension of -1. */
static bool has_shape(const struct ht_index_variant *v, const struct ht_index_input *want)
{
	for (size_t i = 0; i < v->inputs; i++) {
		const struct ht_index_input *in = &v->input[i];

		if (strcmp(in->name, want->name) != 0 && strcmp(in->alias, want->name) != 0)
			continue;
		if (in->rank != want->rank)
			return false;
		for (size_t k = 0; k < in->rank; k++)
			if (want->dim[k] >= 0 && !fits(in, k, want->dim[k]))
				return false;
	}
	return true;
}

bool ht_variant_has_shapes(const struct ht_index_variant *v, const struct ht_variant_wanted *w)
{
	for (size_t i = 0; i < w->inputs; i++)
		if (!has_shape(v, &w->input[i]))
			return false;
	return has_batch(v, w->batch);
}

/* How many dimensions of its inputs the variant leaves open; 0 if no shapes are wanted. */
static int open_dims(const struct ht_index_variant *v, const struct ht_variant_wanted *w)
{
	int n = 0;

	for (size_t i = 0; w->inputs && i < v->inputs; i++)
		for (size_t k = 0; k < v->input[i].rank; k++)
			n += v->input[i].dim[k] < 0;
	return n;
}

static bool same_shape(const struct ht_index_input *a, const struct ht_index_input *b)
{
	return a->rank == b->rank && a->bounds == b->bounds &&
	       !memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) &&
	       (!a->bounds || !memcmp(a->bound, b->bound, a->bounds * sizeof *a->bound));
}

bool ht_variants_share_shapes(const struct ht_index_variant *a, const struct ht_index_variant *b)
{
	if (a->inputs != b->inputs)
		return false;
	for (size_t i = 0; i < a->inputs; i++)
		if (!same_shape(&a->input[i], &b->input[i]))
			return false;
	return true;
}

static bool has_entry(const struct choice *c, const struct ht_index_variant *v)
{
	return !strcmp(v->entry, c->w->entry ? c->w->entry : c->a->index.variant[0].entry);
}

/* The policy of the wanted entry's first variant. */
static const char *first_policy(const struct choice *c)
{
	const struct ht_index_variant *v = c->a->index.variant;

	while (!has_entry(c, v))
		v++;
	return v->policy;
}

static bool has_policy(const struct choice *c, const struct ht_index_variant *v)
{
	return !strcmp(v->policy, c->w->policy ? c->w->policy : first_policy(c));
}

static bool has_target(const struct choice *c, const struct ht_index_variant *v)
{
	return c->w->target ? !strcmp(v->target, c->w->target) : c->w->rank(v->target) >= 0;
}

/* ---- lists of the variants that there are ---- */

static void put_input(struct ht_buf *b, const struct ht_index_input *in)
{
	ht_printf(b, "%s:", in->name);
	for (size_t i = 0; i < in->rank; i++) {
		const int64_t *bound = bounds_of(in, i);

		ht_puts(b, i ? "," : "");
		if (bound && bound[1] == INT32_MAX)
			ht_putc(b, '?');
		else if (bound)
			ht_printf(b, "%lld..%lld", (long long)bound[0], (long long)bound[1]);
		else
			ht_printf(b, "%lld", (long long)in->dim[i]);
	}
}

void ht_variant_put(struct ht_buf *b, const struct ht_index_variant *v)
{
	ht_printf(b, "%s%s%s for %s", v->entry, *v->entry ? ": " : "", v->policy, v->target);
	for (size_t i = 0; i < v->inputs; i++) {
		ht_puts(b, i ? ";" : " with ");
		put_input(b, &v->input[i]);
	}
}

void ht_variants_put(struct ht_buf *b, const struct ht_index *x, const bool *these)
{
	enum { MOST = 8 };
	size_t n = 0;

	for (size_t i = 0; i < x->variants; i++) {
		if ((these && !these[i]) || n++ >= MOST)
			continue;
		ht_puts(b, n > 1 ? "; " : "");
		ht_variant_put(b, &x->variant[i]);
	}
	if (n > MOST)
		ht_printf(b, "; and %zu more", n - MOST);
}

static enum ht_status nothing(
	const struct choice *c, enum ht_status st, struct ht_arena *arena, const char *what)
{
	struct ht_buf b;

	ht_buf_init(&b, arena);
	ht_variants_put(&b, &c->a->index, NULL);
	return ht_error(c->d, st, (struct ht_where){ .path = c->a->path, .offset = -1 },
		"no variant of this artefact %s; it has %.*s", what, (int)b.n, b.p);
}

enum ht_status ht_artefact_choose(const struct ht_artefact *a, const struct ht_variant_wanted *w,
	struct ht_arena *arena, struct ht_diags *d, size_t *out)
{
	struct choice c = { a, w, d };
	bool entry = false, policy = false, target = false, found = false;
	int best = 0, least = 0;

	for (size_t i = 0; i < a->index.variants; i++) {
		const struct ht_index_variant *v = &a->index.variant[i];
		int rank = w->rank(v->target), open = open_dims(v, w);

		if (!has_entry(&c, v))
			continue;
		entry = true;
		if (!has_policy(&c, v))
			continue;
		policy = true;
		if (!has_target(&c, v))
			continue;
		target = true;
		if (!ht_variant_has_shapes(v, w) ||
			(found && (open > least || (open == least && rank <= best))))
			continue;
		found = true;
		best = rank;
		least = open;
		*out = i;
	}
	if (found)
		return HT_OK;
	if (!entry)
		return nothing(&c, HT_E_USAGE, arena, "is of that entry");
	if (!policy)
		return nothing(&c, HT_E_USAGE, arena, "has that policy");
	if (!target && w->target)
		return nothing(&c, HT_E_USAGE, arena, "is for that target");
	if (!target)
		return nothing(&c, HT_E_UNSUPPORTED, arena, "runs on this machine");
	return nothing(&c, HT_E_INPUT, arena, "has those shapes");
}
