/* cells: LSTM and GRU cells that are one op become products and elementwise ops; BlockLSTM, a
 * layer of such cells, becomes a loop.
 *
 * The loop gathers a step of its sequence, and sets an element of a list for each used result.
 * Steps beyond seq_len_max stay zeros.  The product with the step is a node of its own, so that
 * pass `recurrent` can move it in front of the loop.
 *
 * The pass also changes nodes in the bodies of functions.  Left alone: BlockLSTM whose weights
 * have no known size. */
#include "passes/cells.h"
#include "passes/outline.h"

/* ---- cells ---- */

/* The results of an LSTM cell, in the order of the ops' results. */
enum { INPUT, STATE, FORGET, OUTPUT, CANDIDATE, SQUASHED, HIDDEN, LSTM_RESULTS };

/* Operands of LSTMBlockCell; those of BlockLSTM have one more in front. */
enum { X, STATE_BEFORE, HIDDEN_BEFORE, WEIGHTS, PEEP_INPUT, PEEP_FORGET, PEEP_OUTPUT, BIAS };

/* The attributes of ops that have LSTM cells. */
struct lstm {
	bool peepholes,
		forget_second; /* the order of gates: input, candidate, forget, output; or i, f, c, o */
	double forget_bias, clip; /* clip: 0 for none */
};

static struct lstm lstm_of(const struct ht_node *n)
{
	bool newer = n->op == HT_OP_BlockLSTMV2;
	struct lstm c = { .peepholes = ht_attr_bool(n, "use_peephole", false),
		.forget_second = newer };

	c.forget_bias = newer ? 0 : (double)ht_attr_float(n, "forget_bias", 1);
	c.clip = (double)ht_attr_float(n, "cell_clip", newer ? 0 : 3);
	return c;
}

static struct ht_value peeped(struct maker *m, const struct lstm *c, struct ht_value gate,
	struct ht_value state, struct ht_value weights)
{
	if (!c->peepholes)
		return gate;
	return binary(m, HT_OP_AddV2, gate, binary(m, HT_OP_Mul, state, weights));
}

static struct ht_value clipped(struct maker *m, const struct lstm *c, struct ht_value v)
{
	if (!(c->clip > 0))
		return v;
	v = binary(m, HT_OP_Minimum, v, number(m, c->clip));
	return binary(m, HT_OP_Maximum, v, number(m, -c->clip));
}

/* Makes one step, from the sums of all gates, the old state and the weights of peepholes. */
static void make_lstm(struct maker *m, const struct lstm *c, struct ht_value sums,
	struct ht_value before, const struct ht_value *peep, struct ht_value *out)
{
	struct ht_node *part = parts_of(m, sums, 4);
	struct ht_value forget = ht_out(part, c->forget_second ? 1 : 2), added, kept;

	if (c->forget_bias != 0)
		forget = binary(m, HT_OP_AddV2, forget, number(m, c->forget_bias));
	out[INPUT] = unary(m, HT_OP_Sigmoid, peeped(m, c, ht_out(part, 0), before, peep[0]));
	out[FORGET] = unary(m, HT_OP_Sigmoid, peeped(m, c, forget, before, peep[1]));
	out[CANDIDATE] = unary(m, HT_OP_Tanh, ht_out(part, c->forget_second ? 2 : 1));
	added = binary(m, HT_OP_Mul, out[CANDIDATE], out[INPUT]);
	kept = binary(m, HT_OP_Mul, before, out[FORGET]);
	out[STATE] = clipped(m, c, binary(m, HT_OP_AddV2, added, kept));
	out[OUTPUT] = unary(m, HT_OP_Sigmoid, peeped(m, c, ht_out(part, 3), out[STATE], peep[2]));
	out[SQUASHED] = unary(m, HT_OP_Tanh, out[STATE]);
	out[HIDDEN] = binary(m, HT_OP_Mul, out[SQUASHED], out[OUTPUT]);
}

static void expand_lstm_cell(struct maker *m, struct ht_node *n)
{
	struct lstm c = lstm_of(n);
	struct ht_value out[LSTM_RESULTS], sums;

	sums = first_product(
		m, n, joined_pair(m, n->in[X], n->in[HIDDEN_BEFORE], 1), n->in[WEIGHTS]);
	make_lstm(
		m, &c, biased(m, sums, n->in[BIAS]), n->in[STATE_BEFORE], n->in + PEEP_INPUT, out);
	take_results(m, n, out, LSTM_RESULTS);
}

/* Operands: x, the old state, the weights of reset and update, those of the candidate, and a
 * bias for each. */
static void expand_gru_cell(struct maker *m, struct ht_node *n)
{
	struct ht_value x = n->in[0], before = n->in[1], out[4], gates, kept, added;
	struct ht_node *part;

	gates = biased(m, first_product(m, n, joined_pair(m, x, before, 1), n->in[2]), n->in[4]);
	part = parts_of(m, unary(m, HT_OP_Sigmoid, gates), 2);
	out[0] = ht_out(part, 0);
	out[1] = ht_out(part, 1);
	kept = binary(m, HT_OP_Mul, before, out[0]);
	out[2] = unary(m, HT_OP_Tanh,
		biased(m, product(m, joined_pair(m, x, kept, 1), n->in[3]), n->in[5]));
	added = binary(m, HT_OP_Mul, binary(m, HT_OP_Sub, number(m, 1), out[1]), out[2]);
	kept = binary(m, HT_OP_Mul, out[1], before);
	out[3] = binary(m, HT_OP_AddV2, added, kept);
	take_results(m, n, out, 4);
}

/* ---- loops ---- */

enum { STEP, STEPS };

enum { MOST_VALUES = 32 };

static struct ht_function *new_function(
	struct maker *m, const struct ht_cell_loop *x, const char *what, struct ht_value *arg)
{
	struct ht_graph *library = x->n->graph->library;
	struct ht_str name = ht_str_printf(m->r->arena, "%.*s_%s", HT_STR_ARG(x->n->name), what);
	struct ht_function *f =
		ht_function_new(library, ht_graph_free_function_name(library, name));
	struct ht_port **end = &f->args;

	for (int32_t i = 0; i < x->values; i++)
		arg[i] = ht_function_add_arg(f, &end, x->type[i], i);
	return f;
}

/* Appends the last node of a function's body; the others are made in front of it. */
static struct ht_value last_node(struct ht_function *f, const char *type, const char *name,
	struct ht_value a, struct ht_value b, enum ht_dtype t)
{
	struct ht_node *n = ht_node_new(f->body, ht_str(type), ht_str(name));
	struct ht_value in[] = { a, b };

	ht_node_set_ins(n, in, 2);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ t, HT_SHAPE_SCALAR };
	ht_attr_set_type(n, "T", HT_I32);
	return ht_out(n, 0);
}

static struct ht_function *condition_of(struct maker *m, const struct ht_cell_loop *x)
{
	struct ht_value arg[MOST_VALUES], v;
	struct ht_function *f = new_function(m, x, "cond", arg);
	struct ht_port **end = &f->rets;

	v = last_node(f, "Less", "more", arg[STEP], arg[STEPS], HT_BOOL);
	ht_node_add_origin(v.node, x->n);
	ht_function_add_ret(f, &end, v);
	return f;
}

static struct ht_function *body_of(struct maker *of, const struct ht_cell_loop *x)
{
	struct ht_value arg[MOST_VALUES], next;
	struct ht_function *f = new_function(of, x, "body", arg);
	struct ht_port **end = &f->rets;
	struct ht_rw_within within;
	struct ht_rw r;
	struct maker m = { .r = &r, .name = HT_STR("step"), .t = of->t };

	next = last_node(f, "AddV2", "next", arg[STEP], arg[STEP], HT_I32);
	ht_node_add_origin(next.node, x->n);
	ht_rw_init_within(&r, &within, f->body, of->r->c);
	m.at = next.node;
	ht_rw_set_in(&r, next.node, 1, whole(&m, HT_I32, 1));
	x->step(x->of, &m, arg);
	arg[STEP] = next;
	for (int32_t i = 0; i < x->values; i++)
		ht_function_add_ret(f, &end, arg[i]);
	return f;
}

struct ht_node *ht_make_cell_loop(
	struct maker *m, const struct ht_cell_loop *x, const struct ht_value *in)
{
	struct ht_node *loop = made(m, HT_OP_StatelessWhile, in, x->values, HT_SHAPE_SCALAR).node;

	ht_node_set_outs(loop, x->values);
	for (int32_t i = 0; i < x->values; i++)
		loop->out[i] = (struct ht_type){ x->type[i], HT_SHAPE_UNKNOWN };
	ht_rw_set_controls(m->r, loop, x->n->control, x->n->controls);
	ht_attr_set_types(loop, "T", x->type, x->values);
	ht_attr_set_function(loop, "cond", condition_of(m, x)->name);
	ht_attr_set_function(loop, "body", body_of(m, x)->name);
	return loop;
}

/* ---- a layer of cells ---- */

/* The loop-carried values, in order; then a list for each used result. */
enum {
	SEQUENCE = STEPS + 1,
	LOOP_STATE,
	LOOP_HIDDEN,
	OF_STEP,
	OF_HIDDEN,
	PEEPS,
	PEEP_SECOND,
	PEEP_THIRD,
	LOOP_BIAS,
	LISTS
};

struct layer {
	struct ht_node *n;
	struct lstm cell;
	enum ht_dtype t;
	int64_t inputs, units;
	bool used[LSTM_RESULTS];
	int32_t values; /* number of loop-carried values */
	enum ht_dtype type[LISTS + LSTM_RESULTS];
};

static void set_types(struct layer *x, struct ht_rw *r)
{
	for (int32_t i = 0; i < LISTS; i++)
		x->type[i] = i <= STEPS ? HT_I32 : x->t;
	x->values = LISTS;
	for (int32_t i = 0; i < LSTM_RESULTS; i++) {
		x->used[i] = ht_rw_uses(r, ht_out(x->n, i)) > 0;
		if (x->used[i])
			x->type[x->values++] = HT_VARIANT;
	}
}

/* Sets the arguments of the next step: all stay, except the number of the step, the states and
 * the lists. */
static void make_step(const void *of, struct maker *m, struct ht_value *arg)
{
	const struct layer *x = of;
	struct ht_value out[LSTM_RESULTS], sums;
	int32_t at = LISTS;

	sums = biased(
		m, product(m, step_of(m, arg[SEQUENCE], arg[STEP]), arg[OF_STEP]), arg[LOOP_BIAS]);
	sums = binary(m, HT_OP_AddV2, sums, product(m, arg[LOOP_HIDDEN], arg[OF_HIDDEN]));
	make_lstm(m, &x->cell, sums, arg[LOOP_STATE], arg + PEEPS, out);
	for (int32_t i = 0; i < LSTM_RESULTS; i++) {
		if (!x->used[i])
			continue;
		arg[at] = list_with(m, arg[at], arg[STEP], out[i]);
		at++;
	}
	arg[LOOP_STATE] = out[STATE];
	arg[LOOP_HIDDEN] = out[HIDDEN];
}

/* ---- nodes in front of the loop and behind it ---- */

static struct ht_value element_shape(struct layer *x, struct maker *m)
{
	struct ht_shape s = ht_type_of(x->n->in[1 + X])->shape;
	const int64_t dim[] = { s.rank == 3 && s.dim[1] >= 0 ? s.dim[1] : -1, x->units };

	return wholes(m, HT_I32, dim, 2);
}

static struct ht_value new_list(struct layer *x, struct maker *m)
{
	struct ht_value shape = element_shape(x, m);

	return list_of(m, shape, length_of(m, x->n->in[1 + X]), m->t);
}

static void set_operands(struct layer *x, struct maker *m, struct ht_value *in)
{
	const struct ht_value *of = x->n->in + 1;

	in[STEP] = whole(m, HT_I32, 0);
	in[STEPS] = ht_rw_cast(m->r, m->at, m->name, x->n->in[0], HT_I32);
	in[SEQUENCE] = of[X];
	in[LOOP_STATE] = of[STATE_BEFORE];
	in[LOOP_HIDDEN] = of[HIDDEN_BEFORE];
	in[OF_STEP] = rows_of(m, of[WEIGHTS], 0, x->inputs);
	in[OF_HIDDEN] = rows_of(m, of[WEIGHTS], x->inputs, x->units);
	for (int32_t i = 0; i < 3; i++)
		in[PEEPS + i] = of[PEEP_INPUT + i];
	in[LOOP_BIAS] = of[BIAS];
	for (int32_t i = LISTS; i < x->values; i++)
		in[i] = new_list(x, m);
}

static struct ht_node *make_loop(struct layer *x, struct maker *m)
{
	const struct ht_cell_loop loop = {
		.n = x->n, .type = x->type, .values = x->values, .step = make_step, .of = x
	};
	struct ht_value in[LISTS + LSTM_RESULTS];

	set_operands(x, m, in);
	return ht_make_cell_loop(m, &loop, in);
}

/* Finds the sizes from those of the weights: [inputs + units, 4 units]. */
static bool find_sizes(struct layer *x)
{
	struct ht_shape w = ht_type_of(x->n->in[1 + WEIGHTS])->shape;

	if (w.rank != 2 || w.dim[0] < 0 || w.dim[1] < 0)
		return false;
	x->units = w.dim[1] / 4;
	x->inputs = w.dim[0] - x->units;
	return x->inputs >= 0;
}

static void expand_layer(struct maker *m, struct ht_node *n)
{
	struct layer x = { .n = n, .cell = lstm_of(n), .t = m->t };
	struct ht_value out[LSTM_RESULTS];
	struct ht_node *loop;
	int32_t at = LISTS;

	if (!find_sizes(&x))
		return;
	set_types(&x, m->r);
	loop = make_loop(&x, m);
	for (int32_t i = 0; i < LSTM_RESULTS; i++)
		if (x.used[i])
			out[i] = stacked(m, ht_out(loop, at++), element_shape(&x, m), m->t);
	for (int32_t i = LSTM_RESULTS - 1; i >= 0; i--)
		if (!x.used[i])
			out[i] = i + 1 < LSTM_RESULTS ? out[i + 1] : ht_out(loop, STEP);
	take_results(m, n, out, LSTM_RESULTS);
}

/* ---- the pass ---- */

static void (*expansion_of(enum ht_op op))(struct maker *, struct ht_node *)
{
	switch (op) {
	case HT_OP_LSTMBlockCell:
		return expand_lstm_cell;
	case HT_OP_GRUBlockCell:
		return expand_gru_cell;
	case HT_OP_BlockLSTM:
	case HT_OP_BlockLSTMV2:
		return expand_layer;
	default:
		return ht_cell_gradient(op);
	}
}

static void expand(struct ht_rw *r, struct ht_node *n)
{
	void (*make)(struct maker *, struct ht_node *) = expansion_of(n->op);
	struct maker m = { .r = r, .at = n, .name = n->name, .t = ht_type_attr(n, "T") };

	if (make && ht_is_kernel_float(m.t))
		make(&m, n);
}

static bool wants(const struct ht_node *n)
{
	return expansion_of(n->op) != NULL;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_everywhere(g, c, wants, expand);
}

const struct ht_pass ht_pass_cells = {
	.name = "cells",
	.summary =
		"makes products and elementwise ops of LSTM and GRU cells, and loops of BlockLSTM",
	.run = run,
};
