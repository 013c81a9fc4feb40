/* What cannot be lowered. */
#include "passes/lower/lower.h"

#include <string.h>

const char *lower_refuse_type(struct ht_type t)
{
	const struct ht_dtype_info *d = ht_dtype_info(t.dtype);
	size_t bytes;

	if (t.dtype >= HT_REF || d->kind == HT_KIND_OTHER || d->kind == HT_KIND_NONE ||
		d->kind == HT_KIND_COMPLEX || !d->bytes)
		return "has no kernel for this dtype";
	if (t.shape.rank > HT_LOWER_RANK)
		return "has more than 8 dimensions";
	if (!ht_shape_known(t.shape))
		return "has a shape that is not known at compile time (--input-shape may fix it)";
	if (ht_shape_count(t.shape) < 0 ||
		!ht_mul_size((size_t)ht_shape_count(t.shape), d->bytes, &bytes))
		return "has more elements than fit";
	return NULL;
}

/* What FusedBatchNormV3 leaves for its gradient has no shape that is known, and is not made. */
static bool is_reserve(const struct ht_node *n, int32_t i)
{
	return n->op == HT_OP_FusedBatchNormV3 && i == 5;
}

const char *lower_refuse(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);
	const char *why;

	if (!op)
		return "is not an op we know";
	if (op->never)
		return op->never;
	if (op->family == FAMILY_NOTHING)
		return NULL;
	for (int32_t i = 0; i < n->outs; i++)
		if ((ht_shape_known(n->out[i].shape) || !is_reserve(n, i)) &&
			(why = lower_refuse_type(n->out[i])))
			return why;
	for (int32_t i = 0; i < n->ins; i++)
		if ((why = lower_refuse_type(*ht_type_of(n->in[i]))))
			return why;
	if (n->op == HT_OP_Const && !ht_const_tensor(ht_out((struct ht_node *)(uintptr_t)n, 0)))
		return "has a value that the file states shorter than it is, too large to expand";
	return op->refuse ? op->refuse(n) : NULL;
}

bool ht_can_lower(const struct ht_node *n)
{
	return lower_refuse(n) == NULL;
}

enum ht_status lower_check_support(struct lower *l)
{
	struct refusal {
		struct ht_str type, first;
		const char *why;
		size_t count;
	} *list = NULL;
	size_t n = 0, cap = 0;
	enum ht_status st = HT_OK;

	for (struct ht_node *node = l->g->first; node; node = node->next) {
		const char *why = lower_refuse(node);
		size_t i = 0;
		if (!why)
			continue;
		while (i < n && !(ht_str_eq(list[i].type, node->type) && !strcmp(list[i].why, why)))
			i++;
		if (i == n) {
			list = ht_grow(l->scratch, list, n, &cap, sizeof *list);
			list[n++] = (struct refusal){ node->type, node->name, why, 0 };
		}
		list[i].count++;
	}
	for (size_t i = 0; i < n; i++) {
		struct ht_where at = HT_NOWHERE;
		at.path = l->g->path;
		at.node = list[i].first;
		at.op = list[i].type;
		st = ht_error(l->c->diags, HT_E_UNSUPPORTED, at, "op %.*s %s (%zu node%s)",
			HT_STR_ARG(list[i].type), list[i].why, list[i].count,
			list[i].count == 1 ? "" : "s");
	}
	return st;
}
