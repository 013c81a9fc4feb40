/* Gradients of LSTM and GRU cells that are one op become products and elementwise ops; those of BlockLSTM become a loop from the last step to
 * the first, and products of all steps behind it.
 *
 * As in TensorFlow, states that were clipped have the gradient of states that were not. */
#include "passes/cells.h"

/* ---- nodes ---- */

static struct ht_value product_with(
	struct maker *m, struct ht_value a, bool turn_a, struct ht_value b, bool turn_b)
{
	struct ht_value v = product(m, a, b);

	ht_attr_set_bool(v.node, "transpose_a", turn_a);
	ht_attr_set_bool(v.node, "transpose_b", turn_b);
	return v;
}

static struct ht_value times(struct maker *m, struct ht_value a, struct ht_value b)
{
	return binary(m, HT_OP_Mul, a, b);
}

static struct ht_value plus(struct maker *m, struct ht_value a, struct ht_value b)
{
	return binary(m, HT_OP_AddV2, a, b);
}

/* The derivative of a sigmoid whose value is `y`, and of a tanh. */
static struct ht_value of_sigmoid(struct maker *m, struct ht_value y)
{
	return times(m, y, binary(m, HT_OP_Sub, number(m, 1), y));
}

static struct ht_value of_tanh(struct maker *m, struct ht_value y)
{
	return binary(m, HT_OP_Sub, number(m, 1), times(m, y, y));
}

/* The sum of the rows. */
static struct ht_value sum_of_rows(struct maker *m, struct ht_value x)
{
	return reduced(m, HT_OP_Sum, x, 0, false);
}

static struct ht_value with_columns(struct maker *m, struct ht_value x, int64_t count)
{
	const int64_t dim[] = { -1, count };
	struct ht_value v =
		ht_rw_reshape(m->r, m->at, m->name, x, ht_shape_make(m->r->g->arena, 2, dim));

	v.node->out[0].shape = HT_SHAPE_UNKNOWN;
	return v;
}

static struct ht_value shaped_like(struct maker *m, struct ht_value x, struct ht_value like)
{
	const struct ht_value in[] = { x, shape_of(m, like, HT_I32) };

	return made(m, HT_OP_Reshape, in, 2, HT_SHAPE_UNKNOWN);
}

/* ---- one step of an LSTM ---- */

/* What the gradient of a step is made of: gates, states, and the gradients by the new state and the result. */
struct step {
	struct ht_value input, forget, output, candidate, squashed, before, by_state, by_result;
	const struct ht_value *peep; /* NULL: there are no peepholes */
	bool forget_second;
};

/* The gradients by the sums of all gates, in their order, and by the old state. */
static struct ht_value gates_of(struct maker *m, const struct step *s, struct ht_value *by_before)
{
	struct ht_value output, state, candidate, forget, input;

	output = times(m, of_sigmoid(m, s->output), times(m, s->by_result, s->squashed));
	state = plus(m, times(m, times(m, of_tanh(m, s->squashed), s->by_result), s->output),
		s->by_state);
	if (s->peep)
		state = plus(m, state, times(m, output, s->peep[2]));
	candidate = times(m, times(m, of_tanh(m, s->candidate), state), s->input);
	forget = times(m, of_sigmoid(m, s->forget), times(m, state, s->before));
	input = times(m, of_sigmoid(m, s->input), times(m, state, s->candidate));
	*by_before = times(m, state, s->forget);
	if (s->peep)
		*by_before = plus(m, *by_before,
			plus(m, times(m, input, s->peep[0]), times(m, forget, s->peep[1])));
	return joined_pair(m, joined_pair(m, input, s->forget_second ? forget : candidate, 1),
		joined_pair(m, s->forget_second ? candidate : forget, output, 1), 1);
}

/* The gradients by the weights of peepholes, from those by gates and the states, which have a row for each row of all steps. */
static void peeps_of(struct maker *m, const struct step *s, struct ht_value gates,
	struct ht_value state, const struct ht_value *weights, struct ht_value *out)
{
	struct ht_node *part = s->peep ? parts_of(m, gates, 4) : NULL;

	for (int32_t i = 0; i < 3; i++)
		out[i] = unary(m, HT_OP_ZerosLike, weights[i]);
	if (!part)
		return;
	out[0] = sum_of_rows(m, times(m, ht_out(part, 0), s->before));
	out[1] = sum_of_rows(m, times(m, ht_out(part, s->forget_second ? 1 : 2), s->before));
	out[2] = sum_of_rows(m, times(m, ht_out(part, 3), state));
}

/* Operands of LSTMBlockCellGrad; those of BlockLSTMGrad have one more in front, and one of hidden states before the gradients. */
enum {
	X,
	STATE_BEFORE,
	HIDDEN_BEFORE,
	WEIGHTS,
	PEEPS,
	PEEP_SECOND,
	PEEP_THIRD,
	BIAS,
	INPUT,
	STATE,
	FORGET,
	OUTPUT,
	CANDIDATE,
	SQUASHED,
	BY_STATE,
	BY_RESULT
};

static void expand_lstm_cell(struct maker *m, struct ht_node *n)
{
	const struct ht_value *in = n->in;
	const struct step s = { in[INPUT], in[FORGET], in[OUTPUT], in[CANDIDATE], in[SQUASHED],
		in[STATE_BEFORE], in[BY_STATE], in[BY_RESULT],
		.peep = ht_attr_bool(n, "use_peephole", false) ? in + PEEPS : NULL };
	struct ht_value out[5];

	out[1] = gates_of(m, &s, &out[0]);
	peeps_of(m, &s, out[1], in[STATE], in + PEEPS, out + 2);
	ht_rw_set_controls(m->r, out[1].node, n->control, n->controls);
	take_results(m, n, out, 5);
}

/* ---- a layer ---- */

/* The loop-carried values behind the number of the step and of all steps. */
enum {
	OF_GATES = 2,
	L_FORGET,
	L_OUTPUT,
	L_CANDIDATE,
	L_SQUASHED,
	L_BEFORE,
	L_BY_STATE,
	L_BY_RESULT,
	L_WEIGHTS,
	L_PEEPS,
	L_PEEP_SECOND,
	L_PEEP_THIRD,
	L_STATE,
	L_HIDDEN,
	L_LIST,
	L_VALUES
};

struct layer {
	bool peepholes, forget_second;
};

/* Steps are in reverse order. */
static void make_step(const void *of, struct maker *m, struct ht_value *arg)
{
	const struct layer *x = of;
	struct ht_value last = binary(m, HT_OP_Sub, arg[1], whole(m, HT_I32, 1));
	struct ht_value at = ht_rw_binary(m->r, m->at, HT_OP_Sub, m->name, last, arg[0]),
			v[L_BY_RESULT + 1], gates;
	struct step s;

	for (int32_t i = OF_GATES; i <= L_BY_RESULT; i++)
		v[i] = step_of(m, arg[i], at);
	s = (struct step){ v[OF_GATES], v[L_FORGET], v[L_OUTPUT], v[L_CANDIDATE], v[L_SQUASHED],
		v[L_BEFORE], plus(m, v[L_BY_STATE], arg[L_STATE]),
		plus(m, v[L_BY_RESULT], arg[L_HIDDEN]), x->peepholes ? arg + L_PEEPS : NULL,
		x->forget_second };
	gates = gates_of(m, &s, &arg[L_STATE]);
	arg[L_HIDDEN] = product_with(m, gates, false, arg[L_WEIGHTS], true);
	arg[L_LIST] = list_with(m, arg[L_LIST], at, gates);
}

/* A sequence of states with the one in front of the first step before it. */
static struct ht_value with_first(struct maker *m, struct ht_value first, struct ht_value rest)
{
	return joined_pair(m, with_axis(m, first, 0), rest, 0);
}

/* All but the last step of such a sequence. */
static struct ht_value without_last(struct maker *m, struct ht_value x)
{
	static const int64_t at[] = { 0, -1, 1 };
	struct ht_value in[4] = { x };

	for (int32_t i = 0; i < 3; i++)
		in[i + 1] = wholes(m, HT_I32, &at[i], 1);
	return made(m, HT_OP_StridedSlice, in, 4, HT_SHAPE_UNKNOWN);
}

static struct ht_value list_of_gates(struct maker *m, struct ht_value x, int64_t units)
{
	struct ht_shape s = ht_type_of(x)->shape;
	const int64_t dim[] = { s.rank == 3 && s.dim[1] >= 0 ? s.dim[1] : -1, 4 * units };
	struct ht_value shape = wholes(m, HT_I32, dim, 2);

	return list_of(m, shape, length_of(m, x), m->t);
}

static struct ht_value stacked_gates(struct maker *m, struct ht_value list, int64_t units)
{
	const int64_t dim[] = { -1, 4 * units };

	return stacked(m, list, wholes(m, HT_I32, dim, 2), m->t);
}

static struct ht_node *make_loop(struct maker *m, struct ht_node *n, const struct layer *x,
	struct ht_value before, int64_t inputs, int64_t units)
{
	static const int32_t from[] = { INPUT, FORGET, OUTPUT, CANDIDATE, SQUASHED };
	const struct ht_value *of = n->in + 1;
	enum ht_dtype type[L_VALUES] = { HT_I32, HT_I32 };
	const struct ht_cell_loop loop = { n, type, L_VALUES, make_step, x };
	struct ht_value in[L_VALUES];

	for (int32_t i = OF_GATES; i < L_VALUES; i++)
		type[i] = i == L_LIST ? HT_VARIANT : m->t;
	in[0] = whole(m, HT_I32, 0);
	in[1] = ht_rw_cast(m->r, m->at, m->name, n->in[0], HT_I32);
	for (int32_t i = 0; i < 5; i++)
		in[OF_GATES + i] = of[from[i]];
	in[L_BEFORE] = before;
	in[L_BY_STATE] = of[BY_STATE + 1];
	in[L_BY_RESULT] = of[BY_RESULT + 1];
	in[L_WEIGHTS] = rows_of(m, of[WEIGHTS], inputs, units);
	for (int32_t i = 0; i < 3; i++)
		in[L_PEEPS + i] = of[PEEPS + i];
	in[L_STATE] = unary(m, HT_OP_ZerosLike, of[STATE_BEFORE]);
	in[L_HIDDEN] = unary(m, HT_OP_ZerosLike, of[HIDDEN_BEFORE]);
	in[L_LIST] = list_of_gates(m, of[X], units);
	return ht_make_cell_loop(m, &loop, in);
}

static void expand_layer(struct maker *m, struct ht_node *n)
{
	const struct ht_value *of = n->in + 1;
	const struct layer x = { ht_attr_bool(n, "use_peephole", false),
		n->op == HT_OP_BlockLSTMGradV2 };
	struct ht_shape w = ht_type_of(of[WEIGHTS])->shape;
	int64_t units = w.rank == 2 ? w.dim[1] / 4 : -1,
		inputs = w.rank == 2 ? w.dim[0] - units : -1;
	struct ht_value before, hidden, gates, out[8];
	struct step s = { .peep = x.peepholes ? of + PEEPS : NULL,
		.forget_second = x.forget_second };
	struct ht_node *loop;

	if (w.rank != 2 || w.dim[0] < 0 || w.dim[1] < 0 || inputs < 1)
		return;
	before = with_first(m, of[STATE_BEFORE], of[STATE]);
	hidden = with_first(m, of[HIDDEN_BEFORE], of[SQUASHED + 1]);
	loop = make_loop(m, n, &x, before, inputs, units);
	gates = with_columns(m, stacked_gates(m, ht_out(loop, L_LIST), units), 4 * units);
	hidden = with_columns(m, without_last(m, hidden), units);
	s.before = with_columns(m, without_last(m, before), units);
	out[0] = shaped_like(
		m, product_with(m, gates, false, rows_of(m, of[WEIGHTS], 0, inputs), true), of[X]);
	out[1] = ht_out(loop, L_STATE);
	out[2] = ht_out(loop, L_HIDDEN);
	out[3] = product_with(
		m, joined_pair(m, with_columns(m, of[X], inputs), hidden, 1), true, gates, false);
	peeps_of(m, &s, gates, with_columns(m, of[STATE], units), of + PEEPS, out + 4);
	out[7] = sum_of_rows(m, gates);
	take_results(m, n, out, 8);
}

/* ---- GRU ---- */

/* Operands: x, the old state, the weights of reset and update, those of the candidate, a bias for each, the gates, the candidate, and the
 * gradient by the new state. */
static void expand_gru_cell(struct maker *m, struct ht_node *n)
{
	struct ht_value before = n->in[1], reset = n->in[6], update = n->in[7],
			candidate = n->in[8], by = n->in[9], out[4], u, c, r, kept, by_x, by_reset;
	struct ht_shape w = ht_type_of(n->in[3])->shape;
	struct ht_value part[2], of_gates[2];
	int64_t units = w.rank == 2 ? w.dim[1] : -1;

	if (units < 1 || w.dim[0] < units)
		return;
	u = times(m, times(m, binary(m, HT_OP_Sub, before, candidate), by), of_sigmoid(m, update));
	c = times(
		m, times(m, by, binary(m, HT_OP_Sub, number(m, 1), update)), of_tanh(m, candidate));
	for (int32_t i = 0; i < 2; i++)
		part[i] = product_with(m, c, false,
			rows_of(m, n->in[3], i ? w.dim[0] - units : 0,
				i ? units : w.dim[0] - units),
			true);
	by_x = part[0];
	by_reset = part[1];
	r = times(m, times(m, by_reset, before), of_sigmoid(m, reset));
	out[3] = joined_pair(m, r, u, 1);
	for (int32_t i = 0; i < 2; i++)
		of_gates[i] = product_with(m, out[3], false,
			rows_of(m, n->in[2], i ? w.dim[0] - units : 0,
				i ? units : w.dim[0] - units),
			true);
	kept = plus(m, times(m, by_reset, reset), times(m, by, update));
	out[0] = plus(m, by_x, of_gates[0]);
	out[1] = plus(m, kept, of_gates[1]);
	out[2] = c;
	ht_rw_set_controls(m->r, u.node, n->control, n->controls);
	take_results(m, n, out, 4);
}

void (*ht_cell_gradient(enum ht_op op))(struct maker *, struct ht_node *)
{
	switch (op) {
	case HT_OP_LSTMBlockCellGrad:
		return expand_lstm_cell;
	case HT_OP_BlockLSTMGrad:
	case HT_OP_BlockLSTMGradV2:
		return expand_layer;
	case HT_OP_GRUBlockCellGrad:
		return expand_gru_cell;
	default:
		return NULL;
	}
}
