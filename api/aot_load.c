/* Loads the programs of a net from an artefact: its variants of one policy and one set of
 * shapes, each for other machines.  A message names the variants that are left out although the
 * user did not choose. */
#include "api/aot.h"

#include <string.h>

struct choosing {
	const char *path;
	const struct ht_artefact_options *opt;
	const char *const *target; /* NULL: all */
	size_t targets;
	struct ht_program **out;
	size_t room, *n;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_artefact artefact;
	struct ht_variant_wanted asked;
	const struct ht_index_variant *first; /* determines the policy and the shapes */
	bool *takes;                          /* by variant */
	size_t *order, ordered; /* the variants that it takes: in the order of the user's list,
				 * or else of the file */
};

static struct ht_where in(const struct choosing *c)
{
	return (struct ht_where){ .path = c->path, .offset = -1 };
}

static bool is_input(const struct ht_index_variant *v, const char *name)
{
	for (size_t i = 0; i < v->inputs; i++)
		if (!strcmp(v->input[i].name, name))
			return true;
	return false;
}

/* Checks names that `run` would check when it feeds inputs. */
static enum ht_status check_names(const struct choosing *c)
{
	for (size_t i = 0; i < c->asked.inputs; i++)
		if (!is_input(c->first, c->asked.input[i].name))
			return ht_error(
				c->d, HT_E_USAGE, in(c), "no input '%s'", c->asked.input[i].name);
	return HT_OK;
}

static void put_variant(struct choosing *c, size_t number)
{
	c->takes[number] = true;
	c->order[c->ordered++] = number;
}

static enum ht_status take(
	struct choosing *c, const struct ht_variant_wanted *wanted, const char *target)
{
	struct ht_variant_wanted w = *wanted;
	size_t number;

	w.target = target;
	w.rank = ht_rank_of_any;
	HT_TRY(ht_artefact_choose(&c->artefact, &w, &c->w->arena, c->d, &number));
	if (!ht_target_named(c->artefact.index.variant[number].target))
		return ht_error(c->d, HT_E_UNSUPPORTED, in(c),
			"its target %s is not known here; compile the model again", target);
	put_variant(c, number);
	if (!c->first)
		c->first = &c->artefact.index.variant[number];
	return HT_OK;
}

/* Takes the targets that the user named, with the shapes of the first of them. */
static enum ht_status take_targets(struct choosing *c)
{
	struct ht_variant_wanted same = { .entry = c->first->entry,
		.policy = c->first->policy,
		.input = c->first->input,
		.inputs = c->first->inputs };

	for (size_t i = 1; i < c->targets; i++)
		HT_TRY(take(c, &same, c->target[i]));
	return HT_OK;
}

/* ---- all targets ---- */

/* Why a variant is not in the net. */
enum { ENTRY, POLICY, SHAPES, MACHINES, REASONS };
struct left_out {
	bool *which[REASONS]; /* by reason and variant */
	size_t n[REASONS];
};

static void leave_out(struct left_out *l, int reason, size_t variant)
{
	l->which[reason][variant] = true;
	l->n[reason]++;
}

static bool is_taken_already(const struct choosing *c, size_t variant)
{
	const struct ht_index *x = &c->artefact.index;
	uint64_t needs = ht_aot_needs(x->variant[variant].target);

	for (size_t i = 0; i < variant; i++)
		if (c->takes[i] && ht_aot_needs(x->variant[i].target) == needs)
			return true;
	return false;
}

static bool is_asked_for(const struct choosing *c, const char *target)
{
	for (size_t i = 0; i < c->targets; i++)
		if (!strcmp(c->target[i], target))
			return true;
	return !c->targets;
}

static void look_at(struct choosing *c, size_t i, struct left_out *l)
{
	const struct ht_index_variant *v = &c->artefact.index.variant[i];

	if (!is_asked_for(c, v->target))
		return;
	if (strcmp(v->entry, c->first->entry) != 0) {
		if (!c->asked.entry)
			leave_out(l, ENTRY, i);
	} else if (strcmp(v->policy, c->first->policy) != 0) {
		if (!c->asked.policy)
			leave_out(l, POLICY, i);
	} else if (!ht_variants_share_shapes(v, c->first)) {
		if (ht_variant_has_shapes(v, &c->asked))
			leave_out(l, SHAPES, i);
	} else if (c->targets || c->takes[i]) {
		return;
	} else if (!ht_target_named(v->target) || is_taken_already(c, i)) {
		leave_out(l, MACHINES, i);
	} else {
		put_variant(c, i);
	}
}

static void tell(struct choosing *c, const struct left_out *l)
{
	static const char *const why[REASONS] = {
		"a net has one entry, that of the first variant where none is asked for",
		"a net has one policy, that of the first variant where none is asked for",
		"a net has one set of shapes, that of the first variant where none is asked for",
		"a net has code once for the same machines, and none for targets not known here",
	};

	for (int r = 0; r < REASONS; r++) {
		struct ht_buf b;

		if (!l->n[r])
			continue;
		ht_buf_init(&b, &c->w->arena);
		ht_variants_put(&b, &c->artefact.index, l->which[r]);
		ht_warn(c->d, in(c), "%s; left out: %.*s", why[r], (int)b.n, b.p);
	}
}

static void take_all(struct choosing *c)
{
	struct left_out l = { .n = { 0 } };

	for (int r = 0; r < REASONS; r++)
		l.which[r] = HT_NEW_ARRAY(&c->w->arena, bool, c->artefact.index.variants);
	for (size_t i = 0; i < c->artefact.index.variants; i++)
		look_at(c, i, &l);
	tell(c, &l);
}

/* ---- loading ---- */

static enum ht_status load_one(struct choosing *c, size_t variant)
{
	if (*c->n == c->room)
		return ht_error(c->d, HT_E_LIMIT, in(c), "more than %zu targets", c->room);
	HT_TRY(ht_program_load_variant(&c->artefact, variant, c->d, &c->out[*c->n]));
	++*c->n;
	return HT_OK;
}

static enum ht_status choose(struct choosing *c)
{
	struct ht_arena *a = &c->w->arena;

	c->takes = HT_NEW_ARRAY(a, bool, c->artefact.index.variants);
	c->order = HT_NEW_ARRAY(a, size_t, c->targets + c->artefact.index.variants);
	c->asked = ht_variant_wanted_of(c->opt, a);
	HT_TRY(take(c, &c->asked, c->targets ? c->target[0] : NULL));
	HT_TRY(check_names(c));
	HT_TRY(take_targets(c));
	take_all(c);
	for (size_t i = 0; i < c->ordered; i++)
		HT_TRY(load_one(c, c->order[i]));
	return HT_OK;
}

static enum ht_status load(void *arg)
{
	struct choosing *c = arg;
	struct ht_artefact_trust trust = ht_artefact_trust_of(c->opt);

	HT_TRY(ht_artefact_open(c->path, &trust, &c->w->arena, c->d, &c->artefact));
	return choose(c);
}

enum ht_status ht_aot_load(const char *path, const struct ht_artefact_options *opt,
	const char *const *target, size_t targets, struct ht_diags *d, struct ht_program **out,
	size_t room, size_t *n)
{
	struct ht_artefact_options options;
	struct ht_work w;
	struct choosing c = { .path = path,
		.opt = &options,
		.target = target,
		.targets = targets,
		.out = out,
		.room = room,
		.n = n,
		.w = &w,
		.d = d };
	enum ht_status st;

	*n = 0;
	HT_TRY(ht_artefact_options_of(opt, d, &options));
	ht_work_init(&w);
	st = ht_guarded(&w.unwind, load, &c, d);
	ht_artefact_close(&c.artefact);
	ht_work_release(&w);
	while (st != HT_OK && *n)
		ht_program_free(out[--*n]);
	return st;
}
