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
	case HT_OP_StatelessRandomGammaV2:
	case HT_OP_StatelessRandomGammaV3:
		return true;
	default:
		return false;
	}
}

/* The operand that has the parameters of each number, or one for all; 0: there is none. */
static int32_t parameters_of(const struct ht_node *n)
{
	return n->op == HT_OP_StatelessRandomGammaV2 || n->op == HT_OP_StatelessRandomGammaV3
		       ? n->ins - 1
		       : 0;
}

/* Whether the parameters are one for all, or a vector along an open size that is as long as the result.  If several numbers have one parameter,
 * and there are several parameters, the place of a number in the stream depends on the run's sizes; so does the place of a parameter in memory
 * if a reshape joined axes. */
static bool has_plain_parameters(const struct ht_graph *g, const struct ht_node *n)
{
	const int32_t of = parameters_of(n);
	struct ht_shape a = of ? ht_in_shape(n, of) : HT_SHAPE_SCALAR, s = n->out[0].shape;

	if (a.rank == 1 && s.rank == 1)
		return a.dim[0] == s.dim[0] && ht_dim_size(g, a.dim[0]);
	for (int32_t i = 0; i < a.rank; i++)
		if (a.dim[a.rank - 1 - i] != 1 || s.dim[s.rank - 1 - i] != 1)
			return false;
	return a.rank >= 0;
}

bool ht_draws_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->outs ? n->out[0].shape : HT_SHAPE_UNKNOWN;

	return draws(n) && ht_in_shape(n, 0).rank == 1 && is_bounded_shape(g, s) &&
	       !ht_shape_known(s) && has_plain_parameters(g, n);
}

/* The op draws a vector of `most` numbers, and stays as it is otherwise: others know its stream by its name. */
static void draw(struct maker *f, struct ht_node *n, int64_t most)
{
	static const char *const type[] = { "Tshape", "shape_dtype", "T" };
	const int32_t of = parameters_of(n);

	ht_rw_set_in(f->r, n, 0, wholes(f, HT_I32, &most, 1));
	for (size_t i = 0; i < HT_COUNT(type); i++)
		if (ht_attr_find(n, type[i]))
			ht_attr_set_type(n, type[i], HT_I32);
	if (of)
		ht_rw_set_in(f->r, n, of,
			ht_in_shape(n, of).rank != 1 || ht_in_shape(n, of).dim[0] == 1
				? reshaped(f, n->in[of], HT_SHAPE_SCALAR)
				: padded(f, n->in[of], 0));
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
