/* CTCGreedyDecoder and ComputeAccidentalHits for pass rare.
 *
 * The first: of the best class of each step, those that are neither blank nor, if repetitions are merged, the class of
 * the step before, as a sparse matrix of a row for each sequence. */
#include "passes/rare.h"

#include <float.h>

struct decoded {
	struct ht_value steps; /* 0, 1, … as a column */
	struct ht_value
		inside; /* whether a sequence has a step: [steps, sequences], as what follows */
	struct ht_value best, most;
	struct ht_value kept;
};

static struct ht_value over(
	struct maker *f, enum ht_op op, struct ht_value x, int64_t axis, int32_t rank)
{
	struct ht_value v = ht_rw_reduce(f->r, f->at, op, f->at->name, x, &axis, 1, false);

	v.node->out[0].shape = open_shape(f, rank);
	return v;
}

static struct ht_value best_of(struct maker *f)
{
	struct ht_value in[2] = { f->at->in[0], whole(f, HT_I32, 2) };
	struct ht_value v = node(f, HT_OP_ArgMax, in, 2, HT_I64, open_shape(f, 2));

	ht_attr_set_type(v.node, "output_type", HT_I64);
	return v;
}

/* The lengths of sequences as a row.  The run stops where one is longer than there are steps. */
static struct ht_value lengths(struct maker *f, struct ht_value steps)
{
	struct ht_value v = wide(f, f->at->in[1]), check = whole(f, HT_I64, 0);

	check = unless_below(f, check, steps, over(f, HT_OP_Max, v, 0, 0));
	return with_axis(f, binary(f, HT_OP_AddV2, v, check), 0);
}

static struct ht_value is_repeated(struct maker *f, const struct decoded *d)
{
	struct ht_value one = whole(f, HT_I64, 1), zero = whole(f, HT_I64, 0);
	struct ht_value before =
		binary(f, HT_OP_Maximum, binary(f, HT_OP_Sub, d->steps, one), zero);

	before = squeezed(f, before);
	before = gathered(f, d->best, before, 0);
	return binary(f, HT_OP_LogicalAnd, binary(f, HT_OP_Equal, d->best, before),
		binary(f, HT_OP_Greater, d->steps, zero));
}

static struct decoded decode(struct maker *f)
{
	struct ht_value steps = extent_of_operand(f, 0, 3, 0);
	int64_t blank = ht_attr_int(f->at, "blank_index", -1);
	struct decoded d;

	d.steps = with_axis(f, range_of(f, steps), 1);
	d.inside = binary(f, HT_OP_Less, d.steps, lengths(f, steps));
	d.best = best_of(f);
	d.most = over(f, HT_OP_Max, f->at->in[0], 2, 2);
	d.kept = binary(f, HT_OP_NotEqual, d.best,
		blank < 0 ? plus(f, extent_of_operand(f, 0, 3, 2), blank)
			  : whole(f, HT_I64, blank));
	d.kept = binary(f, HT_OP_LogicalAnd, d.inside, d.kept);
	if (ht_attr_bool(f->at, "merge_repeated", false))
		d.kept = binary(f, HT_OP_LogicalAnd, d.kept,
			unary(f, HT_OP_LogicalNot, is_repeated(f, &d)));
	d.kept.node->out[0].shape = open_shape(f, 2);
	return d;
}

static struct ht_value transposed(struct maker *f, struct ht_value x)
{
	const int64_t perm[2] = { 1, 0 };
	struct ht_value v = permuted(f, x, perm);

	v.node->out[0].shape = open_shape(f, 2);
	return v;
}

static struct ht_value in_columns(struct maker *f, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { a, b };
	struct ht_value v = node(f, HT_OP_Pack, in, 2, HT_I64, open_shape(f, 2));

	ht_attr_set_int(v.node, "axis", 1);
	return v;
}

/* How many classes are in front of each one in its row. */
static struct ht_value counted_before(struct maker *f, struct ht_value kept)
{
	const struct ht_value in[] = { kept, whole(f, HT_I32, 1) };
	struct ht_value v = node(f, HT_OP_Cumsum, in, 2, HT_I64, open_shape(f, 2));

	ht_attr_set_bool(v.node, "exclusive", true);
	return v;
}

/* The negative sum of the best scores of each sequence. */
static struct ht_value score_of(struct maker *f, const struct decoded *d)
{
	struct ht_value none = real(f, ht_type_of(d->most)->dtype, 0);
	struct ht_value v =
		over(f, HT_OP_Sum, of_rank(f, chosen(f, d->inside, d->most, none), 2), 0, 1);

	return with_axis(f, unary(f, HT_OP_Neg, v), 1);
}

void ht_rare_greedy(struct maker *f)
{
	struct ht_node *n = f->at;
	struct decoded d;
	struct ht_value rows, found, count, out[4];

	if (ht_in_shape(n, 0).rank != 3)
		return;
	d = decode(f);
	rows = transposed(f, d.kept);
	found = where(f, rows);
	count = cast_to(f, rows, HT_I64);
	out[0] = in_columns(f, gathered(f, found, whole(f, HT_I32, 0), 1),
		gathered_nd(f, counted_before(f, count), found));
	out[1] = gathered_nd(f, transposed(f, d.best), found);
	out[2] = binary(f, HT_OP_Maximum, over(f, HT_OP_Max, over(f, HT_OP_Sum, count, 1, 1), 0, 0),
		whole(f, HT_I64, 0));
	out[2] = packed(f, (struct ht_value[]){ extent_of_operand(f, 0, 3, 1), out[2] }, 2);
	out[3] = score_of(f, &d);
	for (int32_t i = 0; i < 4; i++)
		ht_rw_replace(f->r, ht_out(n, i), out[i]);
}

/* The samples that are true classes, row by row: where a class was sampled several times, its last place. */
void ht_rare_hits(struct maker *f)
{
	struct ht_node *n = f->at;
	struct ht_value count = size_of(f, n->in[1], HT_I64), place, found, out[3];

	if (ht_in_shape(n, 0).rank != 2 || ht_in_shape(n, 1).rank != 1)
		return;
	place = binary(f, HT_OP_Equal, with_axis(f, n->in[0], -1), n->in[1]);
	place = of_rank(f, chosen(f, place, range_of(f, count), whole(f, HT_I64, -1)), 3);
	place = over(f, HT_OP_Max, place, 2, 2);
	found = binary(f, HT_OP_GreaterEqual, place, whole(f, HT_I64, 0));
	found.node->out[0].shape = open_shape(f, 2);
	found = where(f, found);
	out[0] = cast_to(f, gathered(f, found, whole(f, HT_I32, 0), 1), HT_I32);
	out[1] = gathered_nd(f, place, found);
	out[2] = cast_to(f, node(f, HT_OP_ZerosLike, out, 1, HT_I32, HT_SHAPE_UNKNOWN), HT_F32);
	out[2] = binary(f, HT_OP_AddV2, out[2], real(f, HT_F32, -FLT_MAX));
	for (int32_t i = 0; i < 3; i++)
		ht_rw_replace(f->r, ht_out(n, i), out[i]);
}
