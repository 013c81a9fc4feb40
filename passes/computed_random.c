/* Random numbers in a tensor of open extents, for pass sizes.  In TensorFlow a number depends on its place among all numbers of the tensor:
 * so as many numbers are drawn as there can be, and the first ones are those of the run, in its order. */
#include "passes/computed_nodes.h"

static bool draws(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_RandomUniform:
	case HT_OP_RandomUniformInt:
	case HT_OP_RandomStandardNormal:
	case HT_OP_TruncatedNormal:
	case HT_OP_StatelessRandomUniform:
	case HT_OP_StatelessRandomNormal:
	case HT_OP_StatelessTruncatedNormal:
	case HT_OP_StatelessRandomUniformInt:
	case HT_OP_StatelessRandomUniformFullInt:
	case HT_OP_StatelessRandomUniformV2:
	case HT_OP_StatelessRandomNormalV2:
	case HT_OP_StatelessTruncatedNormalV2:
	case HT_OP_StatelessRandomUniformIntV2:
	case HT_OP_StatelessRandomUniformFullIntV2:
		return true;
	default:
		return false;
	}
}

bool ht_draws_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->outs ? n->out[0].shape : HT_SHAPE_UNKNOWN;

	return draws(n) && ht_in_shape(n, 0).rank == 1 && is_bounded_shape(g, s) &&
	       !ht_shape_known(s);
}

/* The op draws a vector of `most` numbers, and stays as it is otherwise: others know its stream by its name. */
static void draw(struct maker *f, struct ht_node *n, int64_t most)
{
	ht_rw_set_in(f->r, n, 0, wholes(f, HT_I32, &most, 1));
	ht_attr_set_type(n, ht_attr_find(n, "Tshape") ? "Tshape" : "T", HT_I32);
	n->out[0].shape = open_shape(f, 1);
}

bool ht_expand_random(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = n->outs ? n->out[0].shape : HT_SHAPE_UNKNOWN;
	struct ht_value size[HT_MAX_RANK], in[2], all, some;
	int64_t most = 1;

	if (!ht_draws_open(f->r->g, n))
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		if (__builtin_mul_overflow(most, ht_dim_most(f->r->g, s.dim[i]), &most) ||
			most > MOST_COUNT || most < 1)
			return false;
		size[i] = entry_of(f, n->in[0], i);
	}
	some = counted_up(f, ht_product_of(f, size, s.rank), whole(f, HT_I64, 0), most);
	in[0] = ht_out(n, 0);
	in[1] = n->in[0];
	all = node(f, HT_OP_Reshape, in, 2, n->out[0].dtype, s);
	draw(f, n, most); /* the reshape holds the shape now */
	ht_rw_replace_behind(f->r, in[0], all);
	some = gathered(f, in[0], some, 0);
	some.node->out[0].shape = open_shape(f, 1);
	ht_rw_set_in(f->r, all.node, 0, some);
	ht_node_move(some.node, n->next);
	ht_node_move(all.node, some.node->next);
	return true;
}
