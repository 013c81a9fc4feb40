/* CTCLoss and its gradient become a loop over steps, for pass rare, as the algorithm of Graves and others (2006) computes them.
 *
 * A sequence of labels has a state for each label and a blank in front of, between and behind them.  The loop sums the logarithms of the
 * probabilities of all ways to a state forwards (alpha), and of all ways from it to the end backwards (beta).  The loss is the negative logarithm
 * of both last states' alpha; the gradient is the softmax less the probability of each class at each step.
 *
 * There are as many states as steps allow, 2 steps + 1, since a run tells how many labels there are.  All is computed in float64 and rounded
 * once.  As in TensorFlow, a label that is the blank ends its sequence, the loss is infinite where equal labels have no step between them, and
 * the run stops where a sequence has no labels or fewer steps than labels, and at a label below 0.  Left alone: scores of unknown rank, and
 * other attributes than TensorFlow's defaults. */
#include "passes/ctc.h"

#include "ir/infer.h"
#include "passes/cells.h"
#include "passes/outline.h"

#include <math.h>

/* Carried values of the loop, behind the number of the step and how many there are. */
enum { STEP, STEPS, SCORES, SKIPS, LAST, LENGTHS, ALPHA, NEXT, ALPHAS, BETAS, VALUES };

/* The logarithm of a probability that is 0: finite, so that no difference of two is undefined. */
static const double IMPOSSIBLE = -1e30;

static struct ht_value impossible(struct maker *m)
{
	return number(m, IMPOSSIBLE);
}

static struct ht_value gather_along(
	struct maker *m, struct ht_value v, struct ht_value at, int32_t axis, int32_t rank)
{
	return of_rank(m, gathered(m, v, at, axis), rank);
}

static struct ht_value plus(struct maker *m, struct ht_value x, int64_t by)
{
	return binary(m, HT_OP_AddV2, x, whole(m, HT_I32, by));
}

static struct ht_value ordered(struct maker *m, struct ht_value v, const int64_t *order)
{
	return of_rank(m, permuted(m, of_rank(m, v, 3), order), 3);
}

/* ---- a step ---- */

/* log(e^x + e^y + e^z) */
static struct ht_value added(
	struct maker *m, struct ht_value x, struct ht_value y, struct ht_value z)
{
	struct ht_value most = binary(m, HT_OP_Maximum, binary(m, HT_OP_Maximum, x, y), z), sum;

	sum = unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, x, most));
	sum = binary(m, HT_OP_AddV2, sum, unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, y, most)));
	sum = binary(m, HT_OP_AddV2, sum, unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, z, most)));
	return binary(m, HT_OP_AddV2, most, unary(m, HT_OP_Log, sum));
}

/* The states of a step: their numbers, and how many there are. */
struct states {
	struct ht_value numbers, count;
};

/* For each state the value of the one that is `by` places behind it, or in front of it if `by` is below 0; `none` where there is none. */
static struct ht_value neighbour(struct maker *m, const struct states *s, struct ht_value v,
	int64_t by, struct ht_value none)
{
	struct ht_value at = plus(m, s->numbers, by), is;

	is = by < 0 ? binary(m, HT_OP_GreaterEqual, at, whole(m, HT_I32, 0))
		    : binary(m, HT_OP_Less, at, s->count);
	at = by < 0 ? binary(m, HT_OP_Maximum, at, whole(m, HT_I32, 0))
		    : binary(m, HT_OP_Minimum, at, plus(m, s->count, -1));
	return chosen(m, is, gather_along(m, v, at, 1, 2), none);
}

static struct ht_value score_of(struct maker *m, struct ht_value scores, struct ht_value step)
{
	return of_rank(m, step_of(m, scores, step), 2);
}

/* Whether a step, a scalar, is in front of the end of each sequence, as a column. */
static struct ht_value is_inside(struct maker *m, struct ht_value step, struct ht_value lengths)
{
	return with_axis(m, binary(m, HT_OP_Less, step, lengths), -1);
}

static void step_forwards(struct maker *m, const struct states *s, struct ht_value *arg)
{
	struct ht_value none = impossible(m), a = arg[ALPHA], v;

	v = chosen(m, arg[SKIPS], neighbour(m, s, a, -2, none), none);
	v = added(m, a, neighbour(m, s, a, -1, none), v);
	v = binary(m, HT_OP_AddV2, v, score_of(m, arg[SCORES], arg[STEP]));
	arg[ALPHA] = chosen(m, is_inside(m, arg[STEP], arg[LENGTHS]), v, a);
	arg[ALPHAS] = list_with(m, arg[ALPHAS], arg[STEP], arg[ALPHA]);
}

/* NEXT is beta of the step behind this one, with that step's scores. */
static void step_backwards(struct maker *m, const struct states *s, struct ht_value *arg)
{
	struct ht_value none = impossible(m), at = binary(m, HT_OP_Sub, arg[STEPS], arg[STEP]), v,
			never, is_last;

	at = plus(m, at, -1);
	never = cast_to(m, whole(m, HT_I32, 0), HT_BOOL);
	v = neighbour(m, s, arg[SKIPS], 2, never);
	v = chosen(m, v, neighbour(m, s, arg[NEXT], 2, none), none);
	v = added(m, arg[NEXT], neighbour(m, s, arg[NEXT], 1, none), v);
	is_last = with_axis(m, binary(m, HT_OP_Equal, plus(m, at, 1), arg[LENGTHS]), -1);
	v = chosen(m, is_last, arg[LAST], v);
	arg[BETAS] = list_with(m, arg[BETAS], at, v);
	v = binary(m, HT_OP_AddV2, v, score_of(m, arg[SCORES], at));
	arg[NEXT] = chosen(m, is_inside(m, at, arg[LENGTHS]), v, none);
}

static void make_step(const void *of, struct maker *m, struct ht_value *arg)
{
	struct states s;

	(void)of;
	for (int32_t i = SCORES; i <= NEXT; i++)
		arg[i].node->out[arg[i].index].shape = open_shape(m, i == SCORES    ? 3
								     : i == LENGTHS ? 1
										    : 2);
	s.count = extent_of(m, arg[ALPHA], 1, HT_I32);
	s.numbers = range_of(m, s.count);
	step_forwards(m, &s, arg);
	step_backwards(m, &s, arg);
}

/* ---- in front of the loop ---- */

struct ctc {
	struct ht_value steps, sequences, classes; /* extents of the scores */
	struct ht_value lengths;                   /* [sequences] */
	/* [sequences, steps]; -1 where there is none, and for the blank and numbers that are no class. */
	struct ht_value labels;
	struct ht_value counts; /* labels of each sequence */
	struct states s;
	struct ht_value class_of; /* each state's: [sequences, states] */
	struct ht_value is_label, is_state;
	struct ht_value logs; /* of the shares of classes: [steps, sequences, classes] */
};

static void read_labels(struct maker *m, struct ctc *c)
{
	const struct ht_node *n = m->at;
	struct ht_value in[3] = { packed(m, (struct ht_value[]){ c->sequences, c->steps }, 2),
		whole(m, HT_I32, -1) };

	in[0] = made(m, HT_OP_Fill, in, 2, open_shape(m, 2));
	in[1] = n->in[1];
	in[2] = n->in[2];
	in[0] = made(m, HT_OP_TensorScatterUpdate, in, 3, open_shape(m, 2));
	in[1] = binary(m, HT_OP_Less, in[0], plus(m, c->classes, -1));
	c->labels = chosen(m, in[1], in[0], whole(m, HT_I32, -1));
	in[0] = binary(m, HT_OP_GreaterEqual, c->labels, whole(m, HT_I32, 0));
	c->counts = reduced(m, HT_OP_Sum, cast_to(m, in[0], HT_I32), 1, false);
}

static void make_states(struct maker *m, struct ctc *c)
{
	struct ht_value two = whole(m, HT_I32, 2), half, is_odd, blank = plus(m, c->classes, -1);

	c->s.count = plus(m, binary(m, HT_OP_Mul, c->steps, two), 1);
	c->s.numbers = range_of(m, c->s.count);
	half = binary(m, HT_OP_FloorDiv, c->s.numbers, two);
	half = binary(m, HT_OP_Minimum, half, plus(m, c->steps, -1));
	is_odd = binary(
		m, HT_OP_Equal, binary(m, HT_OP_FloorMod, c->s.numbers, two), whole(m, HT_I32, 1));
	half = gather_along(m, c->labels, half, 1, 2);
	c->is_label = both(m, is_odd, binary(m, HT_OP_GreaterEqual, half, whole(m, HT_I32, 0)));
	c->class_of = chosen(m, c->is_label, half, blank);
	c->is_state = binary(m, HT_OP_LessEqual, c->s.numbers,
		with_axis(m, binary(m, HT_OP_Mul, c->counts, two), -1));
}

/* States that may follow the one two places in front of them: labels behind another one. */
static struct ht_value skips_of(struct maker *m, const struct ctc *c)
{
	struct ht_value before = neighbour(m, &c->s, c->class_of, -2, whole(m, HT_I32, -1));
	struct ht_value is = binary(m, HT_OP_GreaterEqual, c->s.numbers, whole(m, HT_I32, 2));

	return both(m, both(m, c->is_label, is), binary(m, HT_OP_NotEqual, c->class_of, before));
}

static struct ht_value logs_of(struct maker *m)
{
	struct ht_value x = cast_to(m, m->at->in[0], HT_F64), sum;

	x = binary(m, HT_OP_Sub, x, reduced(m, HT_OP_Max, x, 2, true));
	sum = reduced(m, HT_OP_Sum, unary(m, HT_OP_Exp, x), 2, true);
	return binary(m, HT_OP_Sub, x, unary(m, HT_OP_Log, sum));
}

/* The score of each state in each step. */
static struct ht_value scores_of(struct maker *m, const struct ctc *c)
{
	static const int64_t steps_last[] = { 1, 2, 0 }, steps_first[] = { 2, 0, 1 };
	struct ht_value v = ordered(m, c->logs, steps_last);

	v = gather_along(m, v, c->class_of, 1, 3);
	ht_attr_set_int(v.node, "batch_dims", 1);
	v = ordered(m, v, steps_first);
	return chosen(m, c->is_state, v, impossible(m));
}

/* 0 in the last blank and the last label, in one of which a way ends. */
static struct ht_value last_states(struct maker *m, const struct ctc *c)
{
	struct ht_value end = binary(m, HT_OP_Mul, c->counts, whole(m, HT_I32, 2)), is;

	end = with_axis(m, end, -1);
	is = binary(m, HT_OP_LogicalOr, binary(m, HT_OP_Equal, c->s.numbers, end),
		binary(m, HT_OP_Equal, plus(m, c->s.numbers, 1), end));
	return chosen(m, is, number(m, 0), impossible(m));
}

static struct ht_value all_of(struct maker *m, struct ht_value v)
{
	return reduced(m, HT_OP_All, v, 0, false);
}

/* Whether each sequence has labels and a step for each, and there is none behind a blank. */
static struct ht_node *check(struct maker *m, const struct ctc *c)
{
	struct ht_value zero = whole(m, HT_I32, 0), number = range_of(m, c->steps), before, gap,
			enough;

	before = gather_along(
		m, c->labels, binary(m, HT_OP_Maximum, plus(m, number, -1), zero), 1, 2);
	gap = both(m, binary(m, HT_OP_GreaterEqual, c->labels, zero),
		binary(m, HT_OP_Less, before, zero));
	enough = both(m, binary(m, HT_OP_Greater, c->counts, zero),
		unary(m, HT_OP_LogicalNot, reduced(m, HT_OP_Any, gap, 1, false)));
	enough = both(m, enough, binary(m, HT_OP_LessEqual, c->counts, c->lengths));
	enough = both(m, enough, binary(m, HT_OP_LessEqual, c->lengths, c->steps));
	enough = both(
		m, all_of(m, enough), all_of(m, binary(m, HT_OP_GreaterEqual, m->at->in[2], zero)));
	return ht_rw_assert(m->r, m->at, "enough_time", enough, &c->lengths, 1);
}

/* ---- the loop, and what is behind it ---- */

static struct ht_node *make_loop(struct maker *m, const struct ctc *c, struct ht_value last)
{
	static const enum ht_dtype type[VALUES] = { HT_I32, HT_I32, HT_F64, HT_BOOL, HT_F64, HT_I32,
		HT_F64, HT_F64, HT_VARIANT, HT_VARIANT };
	const struct ht_cell_loop loop = {
		.n = m->at, .type = type, .values = VALUES, .step = make_step
	};
	struct ht_value in[VALUES], zeros, shape;

	shape = packed(m, (struct ht_value[]){ c->sequences, c->s.count }, 2);
	zeros = made(m, HT_OP_ZerosLike, &last, 1, open_shape(m, 2));
	in[STEP] = whole(m, HT_I32, 0);
	in[STEPS] = c->steps;
	in[SCORES] = scores_of(m, c);
	in[SKIPS] = skips_of(m, c);
	in[LAST] = last;
	in[LENGTHS] = c->lengths;
	in[ALPHA] = chosen(
		m, binary(m, HT_OP_Equal, c->s.numbers, whole(m, HT_I32, 0)), zeros, impossible(m));
	in[NEXT] = binary(m, HT_OP_AddV2, zeros, impossible(m));
	in[ALPHAS] = list_of(m, shape, c->steps, HT_F64);
	in[BETAS] = list_of(m, shape, c->steps, HT_F64);
	return ht_make_cell_loop(m, &loop, in);
}

/* The logarithm of the probability of all ways to the end, by alpha of the last step. */
static struct ht_value log_of_all(struct maker *m, struct ht_value alpha, struct ht_value last)
{
	struct ht_value v, most;

	v = binary(m, HT_OP_AddV2, of_rank(m, alpha, 2), last);
	most = reduced(m, HT_OP_Max, v, 1, true);
	v = reduced(m, HT_OP_Sum, unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, v, most)), 1, true);
	return of_rank(m, binary(m, HT_OP_AddV2, most, unary(m, HT_OP_Log, v)), 2);
}

/* Whether there is a way at all: none is where equal labels have no step between them. */
static struct ht_value has_way(struct maker *m, struct ht_value all)
{
	return binary(m, HT_OP_Greater, all, number(m, IMPOSSIBLE / 10));
}

static struct ht_value list_of_states(struct maker *m, const struct ctc *c, struct ht_value list)
{
	struct ht_value shape = packed(m, (struct ht_value[]){ c->sequences, c->s.count }, 2);

	return of_rank(m, stacked(m, list, shape, HT_F64), 3);
}

static struct ht_value gradient_of(
	struct maker *m, const struct ctc *c, struct ht_node *loop, struct ht_value all)
{
	static const int64_t exchanged[] = { 1, 0, 2 };
	struct ht_value v, in[4], inside;

	v = binary(m, HT_OP_AddV2, list_of_states(m, c, ht_out(loop, ALPHAS)),
		list_of_states(m, c, ht_out(loop, BETAS)));
	v = unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, v, all));
	v = chosen(m, has_way(m, all), v, number(m, 0));
	in[0] = c->class_of;
	in[1] = c->classes;
	in[2] = number(m, 1);
	in[3] = number(m, 0);
	in[1] = made(m, HT_OP_OneHot, in, 4, open_shape(m, 3));
	in[1].node->out[0].dtype = HT_F64;
	ht_attr_set_int(in[1].node, "axis", -1);
	in[0] = ordered(m, v, exchanged);
	v = ordered(m, made(m, HT_OP_BatchMatMulV2, in, 2, open_shape(m, 3)), exchanged);
	v = binary(m, HT_OP_Sub, unary(m, HT_OP_Exp, c->logs), v);
	inside = with_axis(m, range_of(m, c->steps), -1);
	inside = with_axis(m, binary(m, HT_OP_Less, inside, c->lengths), -1);
	return chosen(m, inside, v, number(m, 0));
}

static void write(struct maker *m)
{
	struct ht_node *n = m->at, *loop, *stop;
	struct ht_value last, all, out[2];
	struct ctc c = { .lengths = n->in[3] };

	c.steps = extent_of(m, n->in[0], 0, HT_I32);
	c.sequences = extent_of(m, n->in[0], 1, HT_I32);
	c.classes = extent_of(m, n->in[0], 2, HT_I32);
	read_labels(m, &c);
	make_states(m, &c);
	c.logs = logs_of(m);
	last = last_states(m, &c);
	loop = make_loop(m, &c, last);
	all = log_of_all(m, ht_out(loop, ALPHA), last);
	out[0] = chosen(m, has_way(m, all), unary(m, HT_OP_Neg, all), number(m, (double)INFINITY));
	out[0] = reduced(m, HT_OP_Sum, out[0], 1, false);
	out[0] = chosen(
		m, binary(m, HT_OP_Equal, c.lengths, whole(m, HT_I32, 0)), number(m, 0), out[0]);
	stop = check(m, &c);
	out[0] = unary(m, HT_OP_Identity, out[0]);
	ht_rw_set_controls(m->r, out[0].node, &stop, 1);
	out[0] = cast_to(m, out[0], n->out[0].dtype);
	out[1] = out[0];
	if (ht_rw_uses(m->r, ht_out(n, 1)))
		out[1] = cast_to(m, gradient_of(m, &c, loop, all), n->out[1].dtype);
	take_results(m, n, out, 2);
}

bool ht_is_ctc_loss(const struct ht_node *n)
{
	return n->op == HT_OP_CTCLoss;
}

void ht_write_ctc_loss(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = { .r = r, .at = n, .name = n->name, .t = HT_F64 };

	if (ht_in_shape(n, 0).rank != 3 || ht_attr_bool(n, "preprocess_collapse_repeated", false) ||
		!ht_attr_bool(n, "ctc_merge_repeated", true) ||
		ht_attr_bool(n, "ignore_longer_outputs_than_inputs", false))
		return;
	write(&m);
}
