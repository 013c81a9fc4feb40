/* cse: merges nodes that compute the same (common subexpression elimination).
 *
 * Two nodes compute the same if they have the same op, operands, control inputs, and attributes,
 * except those that begin with "_" other than _ends and _unset, which say how much of a result there is.
 * Operands of commutative ops may be in either order.
 * Constants of at most SMALL bytes are compared by content; larger ones are left alone, so that
 * no weights are read.  Nodes that have an effect, draw random numbers or are inputs are left
 * alone.  So are those that fill a tensor for a loop: each loop changes its own where it was filled, and would copy a shared one. */
#include "passes/rewrite.h"

#include <stdlib.h>

#define SMALL 4096

static void put_value(struct ht_buf *b, const struct ht_attr_value *v);

static void put_bytes(struct ht_buf *b, struct ht_str s)
{
	ht_put(b, &s.n, sizeof s.n);
	ht_put_str(b, s);
}

static void put_shape(struct ht_buf *b, struct ht_shape s)
{
	ht_put(b, &s.rank, sizeof s.rank);
	if (s.rank > 0)
		ht_put(b, s.dim, (size_t)s.rank * sizeof *s.dim);
}

/* A large tensor only equals itself. */
static void put_tensor(struct ht_buf *b, const struct ht_tensor *t)
{
	uintptr_t itself = (uintptr_t)t;

	ht_put(b, &t->dtype, sizeof t->dtype);
	put_shape(b, t->shape);
	if (t->blob && t->blob->n <= SMALL) {
		put_bytes(b, (struct ht_str){ t->blob->p, t->blob->n });
		return;
	}
	ht_put(b, &itself, sizeof itself);
}

static void put_func(struct ht_buf *b, const struct ht_func_ref *f)
{
	put_bytes(b, f->name);
	for (const struct ht_attr *a = f->attrs; a; a = a->next) {
		put_bytes(b, a->name);
		put_value(b, &a->value);
	}
}

static void put_list(struct ht_buf *b, const struct ht_attr_value *v)
{
	ht_put(b, &v->list.n, sizeof v->list.n);
	for (size_t i = 0; i < v->list.n; i++)
		put_value(b, &v->list.item[i]);
}

static void put_value(struct ht_buf *b, const struct ht_attr_value *v)
{
	ht_put(b, &v->kind, sizeof v->kind);
	switch (v->kind) {
	case HT_ATTR_NONE:
		break;
	case HT_ATTR_STRING:
	case HT_ATTR_PLACEHOLDER:
		put_bytes(b, v->s);
		break;
	case HT_ATTR_INT:
		ht_put(b, &v->i, sizeof v->i);
		break;
	case HT_ATTR_FLOAT:
		ht_put(b, &v->f, sizeof v->f);
		break;
	case HT_ATTR_BOOL:
		ht_putc(b, v->b);
		break;
	case HT_ATTR_TYPE:
		ht_put(b, &v->type, sizeof v->type);
		break;
	case HT_ATTR_SHAPE:
		put_shape(b, v->shape.shape);
		break;
	case HT_ATTR_TENSOR:
		put_tensor(b, v->tensor);
		break;
	case HT_ATTR_FUNC:
		put_func(b, v->func);
		break;
	case HT_ATTR_LIST:
		put_list(b, v);
		break;
	}
}

static int by_name(const void *a, const void *b)
{
	return ht_str_cmp((*(struct ht_attr *const *)a)->name, (*(struct ht_attr *const *)b)->name);
}

/* Makes the key of one node after another, in the same memory. */
struct keys {
	struct ht_buf text;
	const struct ht_attr **attr;
	size_t cap;
};

static void put_attrs(struct keys *k, const struct ht_node *n)
{
	size_t count = 0;

	for (const struct ht_attr *a = n->attrs; a; a = a->next) {
		if (ht_str_starts(a->name, "_") && !ht_str_is(a->name, "_ends") &&
			!ht_str_is(a->name, "_unset"))
			continue;
		k->attr = ht_grow(k->text.arena, k->attr, count, &k->cap, sizeof *k->attr);
		k->attr[count++] = a;
	}
	if (count)
		qsort(k->attr, count, sizeof *k->attr, by_name);
	for (size_t i = 0; i < count; i++) {
		put_bytes(&k->text, k->attr[i]->name);
		put_value(&k->text, &k->attr[i]->value);
	}
}

static void put_operand(struct ht_buf *b, struct ht_value v)
{
	ht_put(b, &v.node->id, sizeof v.node->id);
	ht_put(b, &v.index, sizeof v.index);
}

/* Valid until the next call. */
static struct ht_str key_of(struct keys *k, const struct ht_node *n)
{
	struct ht_buf *b = &k->text;
	bool swap;

	b->n = 0;
	ht_put(b, &n->op, sizeof n->op);
	put_bytes(b, n->device);
	put_attrs(k, n);
	swap = ht_is(n, HT_COMMUTES) && n->ins == 2 && n->in[0].node->id > n->in[1].node->id;
	for (int32_t i = 0; i < n->ins; i++)
		put_operand(b, n->in[swap ? 1 - i : i]);
	ht_putc(b, '^');
	for (int32_t i = 0; i < n->controls; i++)
		ht_put(b, &n->control[i]->id, sizeof n->control[i]->id);
	return ht_buf_str(b);
}

static bool fills_for_loop(const struct ht_rw *r, struct ht_node *n)
{
	const struct ht_node *user =
		ht_axes(n) == HT_AXES_MADE ? ht_rw_only_user(r, ht_out(n, 0)) : NULL;

	return user && ht_is(user, HT_LOOPS);
}

static bool is_candidate(const struct ht_rw *r, struct ht_node *n)
{
	if (ht_computes_size(n) && n->graph->closed)
		return false; /* a node that computes a size is referred to by the number of its
			       * size */
	return !fills_for_loop(r, n) && n->op != HT_OP_OPAQUE && !ht_op_info(n->op)->effects &&
	       n->outs && !ht_is(n, HT_FED);
}

static bool is_output(const struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_rw_is_output(r, ht_out(n, i)))
			return true;
	return false;
}

static void merge(struct ht_rw *r, struct ht_node *kept, struct ht_node *n)
{
	int32_t outs = n->outs;

	/* Two outputs stay two tensors, with the user's names. */
	if (outs > kept->outs || is_output(r, n))
		return;
	ht_rw_hit(r, HT_FUSION_cse);
	for (int32_t i = 1; i < outs; i++)
		if (ht_rw_uses(r, ht_out(n, i)))
			ht_rw_replace(r, ht_out(n, i), ht_out(kept, i));
	if (!ht_is(n, HT_CONSTANT))
		ht_rw_absorb(kept, n);
	if (n->graph)
		ht_rw_replace_node(r, n, ht_out(kept, 0));
}

/* A hash table of the nodes seen so far.  Keys are not stored: if two hashes are equal, the stored node's key is made again and
 * compared. */
struct seen {
	struct slot {
		uint64_t hash;
		struct ht_node *node;
	} *slot;
	size_t mask;
	struct keys key, other;
};

static void init_seen(struct seen *s, struct ht_arena *a, size_t nodes)
{
	size_t slots = 16;

	while (slots / 3 * 2 < nodes)
		slots *= 2;
	s->slot = HT_NEW_ARRAY(a, struct slot, slots);
	s->mask = slots - 1;
	ht_buf_init(&s->key.text, a);
	ht_buf_init(&s->other.text, a);
}

/* The slot of a node that computes the same as `n`, or else the free slot for `n`. A stored node
 * may have been changed or removed since: its key is made from its current state, and a removed
 * node is skipped. */
static struct slot *find(struct seen *s, const struct ht_node *n)
{
	struct ht_str key = key_of(&s->key, n);
	uint64_t hash = ht_hash_bytes(key.p, key.n).lo;
	size_t i = hash & s->mask;

	for (; s->slot[i].node; i = (i + 1) & s->mask)
		if (s->slot[i].hash == hash && s->slot[i].node->graph &&
			ht_str_eq(key_of(&s->other, s->slot[i].node), key))
			break;
	s->slot[i].hash = hash;
	return &s->slot[i];
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct seen seen = { .mask = 0 };
	struct ht_node **all;
	struct ht_rw r;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	init_seen(&seen, c->scratch, count);
	for (size_t i = 0; i < count; i++) {
		struct slot *slot;

		if (!all[i]->graph || !is_candidate(&r, all[i]))
			continue;
		slot = find(&seen, all[i]);
		if (slot->node)
			merge(&r, slot->node, all[i]);
		else
			slot->node = all[i];
	}
	return HT_OK;
}

const struct ht_pass ht_pass_cse = {
	.name = "cse",
	.summary = "makes one of nodes that compute the same",
	.run = run,
};
