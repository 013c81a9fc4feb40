/* Rewrites a policy's graph to float32: its nodes and casts stay, but nothing is rounded to 16 bits. */
#include "api/tee.h"
#include "choice/impl.h"

#include <halftone/runtime.h>

static void widen_constant(struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(ht_out(n, 0));
	struct ht_tensor *to;
	size_t count;

	if (!t || !ht_is_low(t->dtype))
		return;
	count = t->blob->n / 2;
	to = ht_tensor_sharing(n->graph->arena, HT_F32, t->shape,
		ht_blob_in(n->graph->arena, count * sizeof(float)));
	ht_widen(t->blob->p, t->dtype, (void *)(uintptr_t)to->blob->p, count);
	ht_const_drop(n);
	ht_attr_set_tensor(n, "value", to);
}

static bool has_low(const struct ht_attr_value *v)
{
	if (v->kind == HT_ATTR_TYPE)
		return ht_is_low(v->type);
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		if (has_low(&v->list.item[i]))
			return true;
	return false;
}

static void widen_value(struct ht_attr_value *v)
{
	if (v->kind == HT_ATTR_TYPE && ht_is_low(v->type))
		v->type = HT_F32;
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		widen_value(&v->list.item[i]);
}

/* Copies the attributes before it changes them: they may belong to the model. */
static void widen_attributes(struct ht_node *n)
{
	bool low = false;

	for (const struct ht_attr *a = n->attrs; a && !low; a = a->next)
		low = has_low(&a->value);
	if (!low)
		return;
	ht_attrs_own(n);
	for (struct ht_attr *a = n->attrs; a; a = a->next)
		widen_value(&a->value);
}

/* Keeps hi_float_32, which only rounds operands; other modes make the kernel itself less exact. */
static void drop_mode(struct ht_node *n)
{
	struct ht_str mode = ht_attr_str(n, ht_mode_attribute, "");

	if (mode.n && ht_impl_named(mode) != HT_IMPL_HI_FLOAT_32)
		ht_attr_remove(n, ht_mode_attribute);
}

static void widen_nodes(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		widen_constant(n);
		widen_attributes(n);
		drop_mode(n);
		for (int32_t i = 0; i < n->outs; i++)
			if (ht_is_low(n->out[i].dtype))
				n->out[i].dtype = HT_F32;
	}
}

void ht_widen_graph(struct ht_graph *g)
{
	widen_nodes(g);
	for (struct ht_function *f = g->functions; f; f = f->next)
		if (f->special && !f->shared)
			widen_nodes(f->body);
}
