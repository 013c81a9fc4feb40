/* Which tensors a program with a tee shows, and their names in the imported graph. */
#include "api/tee.h"

#include <string.h>

/* The imported graph with its calls inlined, so that it has every name that a node can come
 * from. */
struct ht_tee_names {
	struct ht_graph *imported;
	struct ht_arena *arena;
	uint32_t *order;     /* by node id */
	uint32_t *met, walk; /* by node id: last walk that met the node */
	const struct ht_node **stack;
	struct ht_map compiled; /* by compiled name: struct named */
	struct ht_map claims;   /* by imported name: the compiled node whose tensor it is */
};

/* The imported nodes whose result is that of a compiled node. */
struct named {
	const struct ht_node **name;
	size_t n;
};

enum ht_status ht_tee_names(
	const struct ht_model *m, struct ht_work *w, struct ht_diags *d, struct ht_tee_names **out)
{
	struct ht_pass_context passes = { .scratch = &w->scratch, .diags = d };
	struct ht_tee_names *s = *out = HT_NEW(&w->arena, struct ht_tee_names);
	uint32_t position = 0;

	HT_TRY(ht_model_copy(m, w, HT_OPEN_STAY, d, &s->imported));
	passes.entry = s->imported->entries;
	HT_TRY(ht_run_passes(s->imported, "feeds,split_fused,prune,inline", NULL, &passes));
	s->arena = &w->arena;
	s->order = HT_NEW_ARRAY(s->arena, uint32_t, s->imported->ids);
	s->met = HT_NEW_ARRAY(s->arena, uint32_t, s->imported->ids);
	s->stack = HT_NEW_ARRAY(s->arena, const struct ht_node *, s->imported->ids);
	ht_map_init(&s->compiled, s->arena);
	ht_map_init(&s->claims, s->arena);
	for (const struct ht_node *n = s->imported->first; n; n = n->next)
		s->order[n->id] = ++position;
	return HT_OK;
}

/* Visits the nodes that `n` is computed from, back to `first`. */
static void walk_back(struct ht_tee_names *s, const struct ht_node *n, uint32_t first)
{
	size_t open = 1;

	s->stack[0] = n;
	while (open) {
		n = s->stack[--open];
		for (int32_t i = 0; i < n->ins; i++) {
			const struct ht_node *from = n->in[i].node;

			if (s->met[from->id] == s->walk || s->order[from->id] < first)
				continue;
			s->met[from->id] = s->walk;
			s->stack[open++] = from;
		}
	}
}

/* The imported nodes whose result `n` has: of the nodes that it comes from, those from which no
 * other of them is computed.  A convolution into which a normalisation was folded has the result
 * of the normalisation; a node that replaces two equal ones has the results of both. */
static size_t names_of(struct ht_tee_names *s, const struct ht_node *n, const struct ht_node ***out)
{
	size_t count = n->origin ? (size_t)n->origins : 1, found = 0, last = 0;
	const struct ht_str *origin = n->origin ? n->origin : &n->name;
	const struct ht_node **node = HT_NEW_ARRAY(s->arena, const struct ht_node *, count);
	uint32_t first = UINT32_MAX;

	*out = node;
	for (size_t i = 0; i < count; i++) {
		const struct ht_node *from = ht_graph_node(s->imported, origin[i]);

		if (!from)
			continue;
		node[found++] = from;
		first = s->order[from->id] < first ? s->order[from->id] : first;
	}
	s->walk++;
	for (size_t i = 0; found > 1 && i < found; i++)
		walk_back(s, node[i], first);
	for (size_t i = 0; i < found; i++)
		if (s->met[node[i]->id] != s->walk)
			node[last++] = node[i];
	return last;
}

static struct named *named(const struct ht_tee_names *s, const struct ht_node *n)
{
	return ht_map_get(&s->compiled, n->name);
}

/* The imported node whose result an operand of `n` already is, although that node is computed
 * from `of`, which `n` comes from.  This happens if a factor moved in front of `n`, such as into
 * the weights of a product that `n` reshapes. */
static const struct ht_node *overtaken_by(
	struct ht_tee_names *s, const struct ht_node *n, const struct ht_node *of)
{
	uint32_t order = s->order[of->id];

	for (int32_t i = 0; i < n->ins; i++) {
		const struct named *from = named(s, n->in[i].node);

		for (size_t k = 0; from && k < from->n; k++) {
			if (s->order[from->name[k]->id] <= order)
				continue;
			s->walk++;
			walk_back(s, from->name[k], order);
			if (s->met[of->id] == s->walk)
				return from->name[k];
		}
	}
	return NULL;
}

/* The name of `n`. Nodes that it is computed from are named first. */
static struct named *name_node(struct ht_tee_names *s, const struct ht_node *n)
{
	struct named *to = HT_NEW(s->arena, struct named);
	size_t names = names_of(s, n, &to->name);

	for (size_t i = 0; i < names; i++) {
		const struct ht_node *by = overtaken_by(s, n, to->name[i]);

		if (!by)
			to->name[to->n++] = to->name[i];
		else if (ht_is(n, HT_RESHAPES | HT_FORWARDS))
			to->name[to->n++] = by;
	}
	ht_map_at(&s->compiled, n->name)->value = to;
	return to;
}

/* The tensor of an imported name is that of the compiled node with this name, or else of the
 * last node that comes from it. */
static void claim(struct ht_tee_names *s, const struct ht_node *n)
{
	const struct named *own = named(s, n) ? NULL : name_node(s, n);

	for (size_t i = 0; own && i < own->n; i++) {
		struct ht_map_entry *e = ht_map_at(&s->claims, own->name[i]->name);
		const struct ht_node *old = e->value;

		if (!old || !ht_str_eq(old->name, e->key))
			e->value = (void *)(uintptr_t)n;
	}
}

/* ---- the list ---- */

struct listing {
	struct ht_program *p;
	struct ht_tee_names *names;
	struct ht_arena *arena; /* of the program */
	size_t cap;
	struct ht_map values; /* by value of the compiled graph: struct uses */
	bool constants;
};

/* Of one value: its place in the list, and its readers. */
struct uses {
	size_t first, n;
	struct ht_tensor_use *use;
	size_t count, cap;
};

static struct ht_str value_key(struct listing *l, struct ht_value v)
{
	const int64_t part[] = { (intptr_t)v.node, v.index };
	int64_t *key = HT_NEW_ARRAY(l->names->arena, int64_t, HT_COUNT(part));

	memcpy(key, part, sizeof part);
	return (struct ht_str){ (const char *)key, sizeof part };
}

static struct ht_tee *add(struct listing *l, const struct ht_type *t, const struct ht_node *n,
	const struct ht_node *imported, int32_t result)
{
	struct ht_program *p = l->p;
	const struct ht_function *f = n->graph->function;
	struct ht_tee *tee;

	p->tee = ht_grow(l->arena, p->tee, p->tees, &l->cap, sizeof *p->tee);
	tee = &p->tee[p->tees++];
	memset(tee, 0, sizeof *tee);
	tee->info = (struct ht_tensor_info){
		.node = ht_str_copy(l->arena, imported ? imported->name : n->name).p,
		.op = ht_str_copy(l->arena, imported ? imported->type : n->type).p,
		.body = f ? ht_str_copy(l->arena, f->name).p : "",
		.result = (size_t)result,
		.imported = imported || (f && !n->origin),
		.kind = ht_is(n, HT_CONSTANT) ? HT_TENSOR_CONSTANT
			: ht_is(n, HT_FED)    ? HT_TENSOR_INPUT
					      : HT_TENSOR_COMPUTED,
		.dtype = t->dtype,
		.rank = t->shape.rank,
		.dim = ht_shape_make(l->arena, t->shape.rank, t->shape.dim).dim,
		.bytes = (size_t)ht_shape_count(t->shape) * ht_dtype_info(t->dtype)->bytes
	};
	return tee;
}

static void add_names(
	struct listing *l, const struct ht_type *t, const struct ht_node *n, int32_t result)
{
	const struct named *own = n->graph->function ? NULL : named(l->names, n);
	size_t before = l->p->tees;

	for (size_t i = 0; own && i < own->n; i++)
		if (ht_map_get(&l->names->claims, own->name[i]->name) == n &&
			(result < own->name[i]->outs || ht_str_eq(own->name[i]->type, n->type)))
			add(l, t, n, own->name[i], result);
	if (l->p->tees == before)
		add(l, t, n, NULL, result);
}

static void describe(struct listing *l, const struct ht_plan_tee *from, struct ht_tee_place *to)
{
	const struct ht_type *t = from->whole ? from->whole : &from->node->out[from->result];
	struct uses *u = HT_NEW(l->names->arena, struct uses);
	int64_t count = 1;

	u->first = l->p->tees;
	add_names(l, t, from->node, from->result);
	u->n = l->p->tees - u->first;
	ht_map_at(&l->values, value_key(l, ht_out((void *)(uintptr_t)from->node, from->result)))
		->value = u;
	for (int32_t i = 0; i < from->rank; i++)
		count *= from->dim[i];
	*to = (struct ht_tee_place){ .first = u->first,
		.n = u->n,
		.held = from->held,
		.rounded = from->rounded,
		.own = from->own,
		.compiled = ht_str_copy(l->arena, from->node->name).p,
		.casts = ht_is(from->node, HT_CASTS),
		.offset = from->offset,
		.count = count,
		.rank = from->rank,
		.dim = ht_shape_make(l->arena, from->rank, from->dim).dim,
		.stride = ht_shape_make(l->arena, from->rank, from->stride).dim,
		.in_parts = from->whole != NULL };
}

static void unref(void *blob)
{
	ht_blob_unref(blob);
}

/* Packing gives a constant's bytes back; this reference keeps them as long as the program lives. */
static struct uses *add_constant(struct listing *l, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct uses *u = HT_NEW(l->names->arena, struct uses);
	struct ht_tee *tee;

	u->first = l->p->tees;
	u->n = 1;
	tee = add(l, ht_type_of(v), v.node, ht_graph_node(l->names->imported, v.node->name), 0);
	tee->constant = ht_blob_ref(t->blob);
	ht_arena_defer(l->arena, unref, tee->constant);
	return u;
}

static struct uses *uses_of(struct listing *l, struct ht_value v)
{
	struct ht_map_entry *e = ht_map_at(&l->values, value_key(l, v));

	if (!e->value && l->constants && ht_const_tensor(v) && ht_const_tensor(v)->blob) {
		struct uses *u = add_constant(l, v);

		e = ht_map_at(&l->values, value_key(l, v));
		e->value = u;
	}
	return e->value;
}

/* Adds the operands of the node of which `from` is the first result. */
static void note_uses(struct listing *l, const struct ht_plan_tee *from)
{
	const struct uses *own = ht_map_get(
		&l->values, value_key(l, ht_out((void *)(uintptr_t)from->node, from->result)));

	for (int32_t i = 0; !from->result && i < from->node->ins; i++) {
		struct uses *u = uses_of(l, from->node->in[i]);

		if (!u)
			continue;
		u->use = ht_grow(l->arena, u->use, u->count, &u->cap, sizeof *u->use);
		u->use[u->count++] = (struct ht_tensor_use){ own->first, (size_t)i };
	}
}

static void set_uses(struct listing *l)
{
	for (size_t i = 0; i < l->values.count; i++) {
		const struct uses *u = l->values.entries[i].value;

		for (size_t k = 0; u && k < u->n; k++) {
			l->p->tee[u->first + k].info.use = u->use;
			/* Equal nodes share one tensor; its uses are counted once. */
			l->p->tee[u->first + k].info.uses = k ? 0 : u->count;
		}
	}
}

void ht_program_tees(struct ht_program *p, struct ht_tee_names *names, const struct ht_plan *plan,
	bool constants)
{
	struct listing l = { .p = p, .names = names, .arena = &p->arena, .constants = constants };

	ht_map_init(&l.values, names->arena);
	for (int32_t i = 0; i < plan->tees; i++)
		if (!plan->tee[i].node->graph->function)
			claim(names, plan->tee[i].node);
	p->tee_places = (size_t)plan->tees;
	p->tee_place = HT_NEW_ARRAY(&p->arena, struct ht_tee_place, p->tee_places);
	for (int32_t i = 0; i < plan->tees; i++)
		describe(&l, &plan->tee[i], &p->tee_place[i]);
	for (int32_t i = 0; i < plan->tees; i++)
		note_uses(&l, &plan->tee[i]);
	set_uses(&l);
}
