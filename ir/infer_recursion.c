/* Types of recursive functions: of the copies that one call from outside enters
 * (passes/recursion.c).
 *
 * An argument has the shape that holds in every call.  A result has the shape that the body gives
 * it when every recursive call has that shape: inference assumes a shape, walks over the bodies,
 * and repeats this until nothing changes.  First it makes guesses, so that a branch which ends the
 * recursion gives its shape to the branch that recurs; then the guessed shapes must hold
 * everywhere.  From there on shapes only become less known, so this ends. */
#include "ir/infer.h"

/* The number of rounds of guesses, which may change back and forth. */
enum { MOST_HOPES = 16 };

struct ht_recursion {
	struct ht_str name;   /* ht_function.recursion */
	struct ht_map met;    /* the functions that were called, by name */
	struct ht_map walked; /* the functions that this round has walked over, by name */
	bool changed;         /* a type changed in this round */
};

static char yes;

static bool is_in(const struct ht_function *f, const struct ht_infer *in)
{
	return in->recursion && ht_str_eq(in->recursion->name, f->recursion);
}

/* ---- types ---- */

static bool hope(struct ht_infer *in, struct ht_shape *a, struct ht_shape b)
{
	struct ht_shape all = ht_either_shape(in, *a, b);

	if (ht_shape_eq(*a, all))
		return false;
	*a = all;
	return true;
}

static void meet(struct ht_infer *in, struct ht_shape *a, struct ht_shape b)
{
	bool changed = in->hopeful ? hope(in, a, b) : ht_widen_shape(in, a, b, false);

	in->recursion->changed = changed || in->recursion->changed;
}

static enum ht_status pass_arguments(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f)
{
	struct ht_map_entry *met = ht_map_at(&in->recursion->met, f->name);
	struct ht_type *type = ht_passed_types(in, n);
	int32_t i = 0;

	for (const struct ht_port *p = f->args; met->value && p; p = p->next, i++) {
		struct ht_shape s = p->value.node->out[0].shape;

		meet(in, &s, type[i].shape);
		type[i].shape = s;
	}
	met->value = &yes;
	return ht_set_arguments(in, n, f, type);
}

static void take_results(struct ht_infer *in, struct ht_function *f)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->rets; p; p = p->next, i++) {
		f->result[i].dtype = ht_ret_type(p)->dtype;
		meet(in, &f->result[i].shape, ht_ret_type(p)->shape);
	}
}

/* ---- calls ---- */

/* A recursive call, or the call from outside.  A body is walked over once in each round. */
static enum ht_status call(struct ht_infer *in, const struct ht_node *n, struct ht_function *f)
{
	struct ht_map_entry *walked;

	HT_TRY(pass_arguments(in, n, f));
	walked = ht_map_at(&in->recursion->walked, f->name);
	if (walked->value)
		return HT_OK;
	walked->value = &yes;
	HT_TRY(ht_infer_function(in, f));
	HT_TRY(ht_check_results(in, n, f));
	take_results(in, f);
	return HT_OK;
}

static enum ht_status walk(struct ht_infer *in, const struct ht_node *n, struct ht_function *f)
{
	int rounds = 0;

	do {
		in->recursion->changed = false;
		ht_map_init(&in->recursion->walked, in->scratch);
		HT_TRY(call(in, n, f));
	} while (in->recursion->changed && (!in->hopeful || ++rounds < MOST_HOPES));
	return HT_OK;
}

static void forget_results(const struct ht_graph *library, struct ht_str recursion)
{
	for (const struct ht_function *f = library->functions; f; f = f->next) {
		int32_t i = 0;

		if (!f->result || !ht_str_eq(f->recursion, recursion))
			continue;
		for (const struct ht_port *p = f->rets; p; p = p->next, i++)
			f->result[i] = (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
	}
}

/* Infers the call from outside. */
static enum ht_status enter(
	const struct ht_infer *of, const struct ht_node *n, struct ht_function *f)
{
	struct ht_recursion recursion = { .name = f->recursion };
	struct ht_infer in = *of;

	in.recursion = &recursion;
	ht_map_init(&recursion.met, in.scratch);
	forget_results(in.g->library, f->recursion);
	in.hopeful = true;
	HT_TRY(walk(&in, n, f));
	in.hopeful = of->hopeful;
	return in.hopeful ? HT_OK : walk(&in, n, f);
}

/* If a graph of the recursion is inferred by itself, results have the types that were found
 * last. */
enum ht_status ht_infer_recursion(struct ht_infer *in, struct ht_node *n, struct ht_function *f)
{
	const struct ht_function *caller = in->g->function;

	HT_TRY(ht_check_ports(in, n, f, n->outs));
	if (!caller || !ht_str_eq(caller->recursion, f->recursion))
		HT_TRY(enter(in, n, f));
	else if (is_in(f, in))
		HT_TRY(call(in, n, f));
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = f->result[i].shape;
	return HT_OK;
}
