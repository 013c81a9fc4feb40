/* Numbers in equal distances, as many as the run tells, for pass sizes: LinSpace, and Range of numbers with a fraction. */
#include "passes/computed_rows.h"

bool ht_expand_lin_space(struct maker *f, struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value one = whole(f, HT_I64, 1), count, last, at, step, first, x;

	if (ht_is_const(n->in[2]) || ht_type_of(n->in[2])->shape.rank != 0)
		return false;
	count = wide(f, n->in[2]);
	count = unless_below(f, count, count, one);
	last = plus(f, count, -1);
	at = of_rank(f, range_of(f, count), 1);
	step = binary(f, HT_OP_Div, binary(f, HT_OP_Sub, n->in[1], n->in[0]),
		cast_to(f, binary(f, HT_OP_Maximum, last, one), t));
	x = of_rank(f, sum(f, n->in[0], product(f, cast_to(f, at, t), step)), 1);
	x = of_rank(f, chosen(f, of_rank(f, binary(f, HT_OP_Equal, at, last), 1), n->in[1], x), 1);
	first = of_rank(f, binary(f, HT_OP_Equal, at, whole(f, HT_I64, 0)), 1);
	ht_rw_take_place(f->r, n, of_rank(f, chosen(f, first, n->in[0], x), 1));
	return true;
}

/* How often the step is contained in the way, rounded as the op rounds it. */
static struct ht_value steps_of(struct maker *f, const struct ht_node *n)
{
	const bool single = n->out[0].dtype == HT_F32;
	struct ht_value in[3], way;

	for (int i = 0; i < 3; i++)
		in[i] = cast_to(f, n->in[i], HT_F64);
	way = difference(f, in[1], in[0]);
	way = binary(f, HT_OP_RealDiv, single ? rounded(f, way) : way, in[2]);
	return single ? rounded(f, way) : way;
}

/* The integer that a number is: a constant, or a cast of one that the type of `v` has exactly. */
static bool integer_of(struct maker *f, struct ht_value v, struct ht_value *x)
{
	enum { EXACT = 1 << 24 /* float32 has all integers up to it */ };
	double number;
	struct ht_span s;

	if (ht_const_splat(v, &number) && number >= -EXACT && number <= EXACT &&
		number == (double)(int64_t)number && ht_type_of(v)->shape.rank == 0) {
		*x = whole(f, HT_I64, (int64_t)number);
		return true;
	}
	if (v.node->op != HT_OP_Cast)
		return false;
	*x = v.node->in[0];
	if (!ht_is_index(ht_type_of(*x)->dtype) || !ht_span_of(f->r->g, *x, &s) ||
		s.least < -EXACT || s.most > EXACT)
		return false;
	*x = wide(f, *x);
	return true;
}

/* Numbers without a fraction are those of a range of integers, whose extent may be a size that there is already. */
static bool expand_whole_range(struct maker *f, struct ht_node *n)
{
	struct ht_value in[3];

	for (int i = 0; i < 3; i++)
		if (!integer_of(f, n->in[i], &in[i]))
			return false;
	ht_rw_take_place(f->r, n,
		cast_to(f, node(f, HT_OP_Range, in, 3, HT_I64, open_shape(f, 1)), n->out[0].dtype));
	return true;
}

bool ht_expand_real_range(struct maker *f, struct ht_node *n)
{
	const enum ht_dtype t = n->out[0].dtype;
	struct ht_value steps, count, at;

	if ((t != HT_F32 && t != HT_F64) || n->out[0].shape.rank != 1 ||
		n->out[0].shape.dim[0] != HT_DIM_UNKNOWN)
		return false;
	if (expand_whole_range(f, n))
		return true;
	steps = steps_of(f, n);
	count = cast_to(f, unary(f, HT_OP_Ceil, steps), HT_I64);
	count = unless_below(f, count, steps, real(f, HT_F64, 0));
	at = cast_to(f, of_rank(f, range_of(f, count), 1), t);
	ht_rw_take_place(f->r, n, of_rank(f, sum(f, n->in[0], product(f, at, n->in[2])), 1));
	return true;
}
