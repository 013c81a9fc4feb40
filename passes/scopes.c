/* scopes: fusions of the vendor that are recognised by TensorFlow's name scopes.
 *
 * scope_layer_norm: a scope `batchnorm` with one Sub, two Adds, one Rsqrt, three Muls and no
 * Identity, beside a scope `moments` of the same number with two Means, one SquaredDifference
 * and no Squeeze.  The names only say where to look: the nodes there must compute a layer norm
 * (layer_norm.c), else nothing is changed. */
#include "passes/rewrite.h"

#include <string.h>

enum counted { SUB, ADD, RSQRT, MUL, IDENTITY, MEAN, SQUARED_DIFFERENCE, SQUEEZE, COUNTED };

struct scope {
	struct ht_str path;
	int count[COUNTED];
	struct ht_node *rsqrt;
};

static int counted(const struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_Sub:
		return SUB;
	case HT_OP_Add:
	case HT_OP_AddV2:
		return ADD;
	case HT_OP_Rsqrt:
		return RSQRT;
	case HT_OP_Mul:
		return MUL;
	case HT_OP_Identity:
		return IDENTITY;
	case HT_OP_Mean:
		return MEAN;
	case HT_OP_SquaredDifference:
		return SQUARED_DIFFERENCE;
	case HT_OP_Squeeze:
		return SQUEEZE;
	default:
		return COUNTED;
	}
}

/* "a/b/c" → "a/b"; empty at the root. */
static struct ht_str parent(struct ht_str s)
{
	while (s.n && s.p[s.n - 1] != '/')
		s.n--;
	s.n -= s.n > 0;
	return s;
}

static struct ht_str last(struct ht_str s)
{
	size_t skip = s.n - parent(s).n;

	skip -= skip < s.n;
	return (struct ht_str){ s.p + s.n - skip, skip };
}

/* `name` or `name_2`. */
static bool is_scope(struct ht_str path, const char *name)
{
	struct ht_str s = last(path), n = ht_str(name);

	if (!ht_str_starts(s, name))
		return false;
	for (size_t i = n.n + 1; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n == n.n || (s.p[n.n] == '_' && s.n > n.n + 1);
}

static void count_node(struct ht_rw *r, struct ht_map *scopes, struct ht_node *n)
{
	struct ht_str path = parent(n->name);
	struct ht_map_entry *e;
	struct scope *s;
	int what = counted(n);

	if (what == COUNTED || (!is_scope(path, "batchnorm") && !is_scope(path, "moments")))
		return;
	e = ht_map_at(scopes, path);
	if (!e->value) {
		s = HT_NEW(r->arena, struct scope);
		s->path = path;
		e->value = s;
	}
	s = e->value;
	s->count[what]++;
	if (what == RSQRT)
		s->rsqrt = n;
}

/* The moments scope of the same number beside it. */
static const struct scope *moments_of(
	struct ht_rw *r, const struct ht_map *scopes, struct ht_str path)
{
	struct ht_str up = parent(path), name = last(path);
	size_t number = name.n - strlen("batchnorm");

	return ht_map_get(scopes, ht_str_printf(r->arena, "%.*s%smoments%.*s", HT_STR_ARG(up),
					  up.n ? "/" : "", (int)number, name.p + name.n - number));
}

static void look(struct ht_rw *r, const struct ht_map *scopes, const struct scope *s)
{
	const enum ht_fusion_id id = HT_FUSION_scope_layer_norm;
	const struct scope *m = moments_of(r, scopes, s->path);

	if (!s->rsqrt || !s->rsqrt->graph)
		return;
	if (s->count[SUB] != 1 || s->count[ADD] != 2 || s->count[RSQRT] != 1 ||
		s->count[MUL] != 3 || s->count[IDENTITY])
		ht_rw_miss(r, id, 1, s->rsqrt,
			"its scope has not one Sub, two Adds, one Rsqrt, three Muls and no Identity");
	else if (!m)
		ht_rw_miss(r, id, 1, s->rsqrt, "there is no scope moments beside its own");
	else if (m->count[MEAN] != 2 || m->count[SQUARED_DIFFERENCE] != 1 || m->count[SQUEEZE])
		ht_rw_miss(r, id, 1, s->rsqrt,
			"the scope moments has not two Means, one SquaredDifference and no Squeeze");
	else
		ht_rw_layer_norm(r, s->rsqrt, id);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct ht_map scopes;

	ht_rw_init(&r, g, c);
	ht_map_init(&scopes, r.arena);
	for (struct ht_node *n = g->first; n; n = n->next)
		count_node(&r, &scopes, n);
	for (size_t i = 0; i < scopes.count; i++) {
		const struct scope *s = scopes.entries[i].value;

		if (is_scope(s->path, "batchnorm"))
			look(&r, &scopes, s);
	}
	return HT_OK;
}

const struct ht_pass ht_pass_scopes = {
	.name = "scopes",
	.summary = "recognises LayerNorm by name scopes",
	.run = run,
};
