/* Constant operands, and index arithmetic. */
#include "lower/index.h"

bool is_const_ints(const struct ht_node *n, int arg)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[arg]);

	return t && (ht_is_index(t->dtype) || t->dtype == HT_I16);
}

int64_t const_int(const struct ht_node *n, int arg, size_t i)
{
	return ht_tensor_int(ht_const_tensor(n->in[arg]), i);
}

const char *refuse_unless_const(const struct ht_node *n, int first)
{
	for (int i = first; i < n->ins; i++)
		if (!is_const_ints(n, i))
			return "needs constant sizes and positions";
	return NULL;
}

const char *refuse_after_first(const struct ht_node *n)
{
	return refuse_unless_const(n, 1);
}

int32_t pull_at(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *like,
	const int32_t *x)
{
	struct ht_shape s = shape_of(n, arg);
	struct space at = space_of_coords(like, s.rank, s.dim, x);

	return kb_pull(k, n->in[arg], &at);
}

int32_t index_inside(struct ht_xb *b, int32_t x, int64_t size)
{
	return ht_xand(b, ht_xle(b, ht_xi(b, 0), x), ht_xlt(b, x, ht_xi(b, size)));
}
