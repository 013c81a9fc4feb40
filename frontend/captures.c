/* Finds which object of a SavedModel's object graph each variable is.
 *
 * A function of TensorFlow 2 takes the variables that it captures as its last arguments, and the SavedModel lists the objects behind them
 * (SavedConcreteFunction.bound_inputs).  The object graph of the checkpoint has the same numbers.  Names are not sufficient: layers of a
 * class of the user have variables of one name, and the function of the saver may restore a copy of the variable by another name. */
#include "frontend/bundle.h"

#include "frontend/graphdef.h"

struct captures {
	struct ht_graph *g;
	struct ht_arena *a;
	struct ht_map *objects; /* variable → uint64_t */
	struct ht_map bound;    /* function → struct bound */
};

/* The call passes object `id` as operand `i`. */
static void note(struct captures *x, const struct ht_node *call, int64_t i, uint64_t id)
{
	const struct ht_node *n = call->in[i].node;
	struct ht_map_entry *e;
	uint64_t *copy;

	if (!ht_is(n, HT_VARIABLE))
		return;
	e = ht_map_at(x->objects, ht_str_copy(x->a, ht_variable_name(n)));
	if (e->value)
		return;
	e->value = copy = HT_NEW(x->a, uint64_t);
	*copy = id;
}

/* The objects that a function captures. */
struct bound {
	uint64_t *id;
	size_t n;
};

static void note_call(struct captures *x, const struct ht_node *call)
{
	const struct ht_attr *f = ht_attr_find(call, "f");
	const struct bound *b = f && f->value.kind == HT_ATTR_FUNC
					? ht_map_get(&x->bound, f->value.func->name)
					: NULL;

	for (size_t i = 0; b && i < b->n && b->n <= (size_t)call->ins; i++)
		note(x, call, call->ins - (int64_t)b->n + (int64_t)i, b->id[i]);
}

/* An entry of SavedObjectGraph.concrete_functions. */
static void read_entry(struct captures *x, struct ht_pb_reader r)
{
	struct bound *b = HT_NEW(x->a, struct bound);
	struct ht_str name = HT_STR("");
	struct ht_pb_reader f;
	struct ht_pb_value v, w;
	uint64_t item;
	size_t cap = 0;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 1)
			name = v.s;
		if (v.number != 2)
			continue;
		f = ht_pb_enter(&r, &v);
		while (ht_pb_next(&f, &w))
			while (w.number == 2 && ht_pb_item(&f, &w, &item)) {
				b->id = ht_grow(x->a, b->id, b->n, &cap, sizeof *b->id);
				b->id[b->n++] = item;
			}
	}
	ht_map_at(&x->bound, ht_str_copy(x->a, name))->value = b;
}

void ht_captured_objects(struct ht_graph *g, struct ht_arena *a, struct ht_map *objects)
{
	struct captures x = { .g = g, .a = a, .objects = objects };
	struct ht_pb_source src;
	struct ht_pb_reader meta, r;
	struct ht_pb_value v, w;

	ht_map_init(&x.bound, a);
	if (g->source != HT_SOURCE_SAVEDMODEL || !ht_container_metagraph(g, &src, &meta))
		return;
	while (ht_pb_next(&meta, &v)) {
		if (v.number != 7)
			continue;
		r = ht_pb_enter(&meta, &v);
		while (ht_pb_next(&r, &w))
			if (w.number == 2)
				read_entry(&x, ht_pb_enter(&r, &w));
	}
	for (const struct ht_node *n = g->first; n; n = n->next)
		note_call(&x, n);
}
