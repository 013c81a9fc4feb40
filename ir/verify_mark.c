/* Recognises graphs that a pass left unchanged, so that they are not verified again. */
#include "ir/verify.h"

/* The whole graph is hashed after each pass, so this must be fast: one multiplication a word. */
static inline void mix(uint64_t *h, uint64_t x)
{
	*h = (*h + x) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Folds high bits into low bits, so that they influence all later words. */
static inline void stir(uint64_t *h)
{
	*h ^= *h >> 32;
}

/* An address and a number in one word: addresses do not use the upper 16 bits. */
static inline uint64_t with(const void *p, uint64_t small)
{
	return (uintptr_t)p ^ small << 48;
}

static inline uint64_t both(uint64_t upper, uint64_t lower)
{
	return upper << 32 ^ lower;
}

static inline void mix_str(uint64_t *h, struct ht_str s)
{
	mix(h, with(s.p, s.n));
}

static void mix_tensor(uint64_t *h, const struct ht_tensor *t)
{
	mix(h, both((uint64_t)t->dtype, (uint64_t)(uint32_t)t->shape.rank));
	for (int32_t i = 0; i < t->shape.rank; i++)
		mix(h, (uint64_t)t->shape.dim[i]);
	mix(h, t->blob ? t->blob->n + 1 : 0);
}

/* Kinds without a case are hashed by their kind alone. */
static inline void mix_attr_value(uint64_t *h, const struct ht_attr_value *v)
{
	mix(h, both((uint64_t)v->kind, v->kind == HT_ATTR_TYPE ? (uint64_t)v->type : 0));
	if (v->kind == HT_ATTR_INT)
		mix(h, (uint64_t)v->i);
	else if (v->kind == HT_ATTR_TENSOR)
		mix_tensor(h, v->tensor);
	else if (v->kind == HT_ATTR_LIST)
		mix(h, v->list.n);
}

static void mix_attr(uint64_t *h, const struct ht_attr *a)
{
	const struct ht_attr_value *v = &a->value;

	mix_str(h, a->name);
	mix_attr_value(h, v);
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		mix_attr_value(h, &v->list.item[i]);
}

static inline void mix_value(uint64_t *h, struct ht_value v)
{
	mix(h, with(v.node, v.port.n));
	mix(h, (uint64_t)v.index);
}

static void mix_node(uint64_t *h, const struct ht_node *n)
{
	mix(h, with(n, 0));
	mix(h, with(n->prev, 0));
	mix(h, with(n->graph, 0));
	mix(h, both(n->id, (uint64_t)n->op));
	mix_str(h, n->type);
	mix_str(h, n->name);
	mix(h, both((uint64_t)n->ins, (uint64_t)n->controls));
	for (int32_t i = 0; i < n->ins; i++)
		mix_value(h, n->in[i]);
	for (int32_t i = 0; i < n->controls; i++)
		mix(h, with(n->control[i], 0));
	mix(h, (uint64_t)n->outs);
	for (int32_t i = 0; i < n->outs; i++)
		mix(h, (uint64_t)n->out[i].dtype);
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		mix_attr(h, a);
	stir(h);
}

static void mix_ports(uint64_t *h, const struct ht_port *p)
{
	for (; p; p = p->next)
		mix_value(h, p->value);
	mix(h, 0);
}

uint64_t ht_verify_mark(const struct ht_graph *g)
{
	uint64_t h = g->nodes;

	mix(&h, with(g->last, 0));
	mix(&h, g->names.count);
	for (const struct ht_node *n = g->first; n; n = n->next)
		mix_node(&h, n);
	for (const struct ht_entry *e = g->entries; e; e = e->next) {
		mix_ports(&h, e->inputs);
		mix_ports(&h, e->outputs);
		mix_ports(&h, e->targets);
	}
	if (g->function) {
		mix_ports(&h, g->function->args);
		mix_ports(&h, g->function->rets);
		mix_ports(&h, g->function->control_rets);
	}
	return h ? h : 1;
}
