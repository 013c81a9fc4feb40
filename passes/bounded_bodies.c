/* Open sizes within bounds in the bodies of branches and loops, which belong to them alone (bodies.c).
 *
 * Arguments have the open axes of the operands, and what is known of the elements of operands that every iteration has.  In a body
 * all is as in the program: the same sizes, rules and kernels.  A result of a loop has the axes that its argument has, and both
 * sides of a branch give the same ones. */
#include "passes/bounded_axes.h"

/* A branch or loop; arrays are by argument. */
struct control {
	struct ht_bounded *b;
	struct ht_node *n;
	struct ht_bodies body;
	int32_t first, args;
	struct ht_open (*axes)[HT_OPEN_RANK];
	struct ht_size_set awaited; /* sizes that kernels in the bodies take */
};

/* ---- what bodies get ---- */

/* The operand in the body: attribute _ends says for lowering which of its elements are outside. */
static void mark_ends(struct ht_bounded *in, struct ht_node *arg, const struct ht_open *axes)
{
	int64_t ends[2 * HT_OPEN_RANK] = { 0 };
	int32_t rank = arg->out[0].shape.rank;

	for (int32_t i = 0; i < rank; i++) {
		ends[2 * i] = axes[i].part[0].size;
		ends[2 * i + 1] = axes[i].part[0].inner;
	}
	ht_attr_set_ints(arg, "_ends", ends, 2 * (size_t)rank);
	in->axes[arg->id] = HT_NEW_ARRAY(in->r.arena, struct ht_open, HT_OPEN_RANK);
	memcpy(in->axes[arg->id], axes, HT_OPEN_RANK * sizeof *axes);
}

static bool any_open(const struct ht_open *axes)
{
	for (int32_t i = 0; i < HT_OPEN_RANK; i++)
		if (ht_open_some(axes[i]))
			return true;
	return false;
}

/* Whether some element of the argument is a size: passed as one, and handed on unchanged. */
static bool is_count(const struct ht_bounded *in, struct ht_value arg)
{
	for (int32_t i = 0; i < ht_open_elements(arg); i++)
		if (ht_open_element(in, arg, i).kind == HT_ELEM_DIM)
			return true;
	return false;
}

static void begin_arguments(const struct control *x, struct ht_bounded *in, int k)
{
	int32_t i = 0;

	for (const struct ht_port *p = x->body.of[k]->args; p; p = p->next, i++)
		if (any_open(x->axes[i]))
			mark_ends(in, p->value.node, x->axes[i]);
		else
			in->counts[p->value.node->id] =
				is_count(in, p->value) && ht_open_all_known(in, p->value.node);
}

/* ---- bodies ---- */

static void begin_body(const struct control *x, struct ht_bounded *in, struct ht_rw_within *w,
	int k, struct ht_size_set *awaited)
{
	struct ht_graph *g = x->body.of[k]->body;
	const struct ht_graph *program = g->library;

	*in = (struct ht_bounded){ .all = x->b->all, .awaited = awaited };
	ht_rw_init_within(&in->r, w, g, x->b->r.c);
	g->size = program->size;
	g->sizes = program->sizes;
	in->known = ht_known_of(in->all, g);
	in->ids = g->ids;
	in->axes = HT_NEW_ARRAY(in->r.arena, struct ht_open *, in->ids);
	in->counts = HT_NEW_ARRAY(in->r.arena, bool, in->ids);
	begin_arguments(x, in, k);
}

static enum ht_status refuse_results(const struct control *x, const struct ht_node *n)
{
	return ht_open_refuse(x->b, n,
		ht_is(n, HT_LOOPS) ? "an iteration of this loop changes where it is in a result"
				   : "the branches have it in different places of a result");
}

/* A size that a body computes is another one each time it runs, so none of its results may have it. */
static enum ht_status check_computed(
	const struct control *x, const struct ht_bounded *in, struct ht_open a)
{
	for (int i = 0; i < ht_open_parts(a); i++)
		if (ht_size_node(in->r.g, a.part[i].size))
			return ht_open_refuse(x->b, x->n,
				ht_is(x->n, HT_LOOPS)
					? "an iteration of this loop computes the size of a result"
					: "a branch computes the size of a result");
	return HT_OK;
}

/* Whether an iteration hands on argument i as result i.  The argument is the tensor that the loop was given, also where it is a size. */
static bool is_handed_on(const struct control *x, int k, const struct ht_port *ret, int32_t i)
{
	return ht_is(x->n, HT_LOOPS) &&
	       ht_value_eq(ret->value, ht_port_at(x->body.of[k]->args, i)->value);
}

/* Results of body `k`, whose axes have to be those in `axes`, by result. */
static enum ht_status end_body(const struct control *x, struct ht_bounded *in, int k, bool first,
	struct ht_open (*axes)[HT_OPEN_RANK])
{
	int32_t i = 0;

	for (struct ht_port *p = x->body.of[k]->rets; p; p = p->next, i++) {
		const struct ht_open none[HT_OPEN_RANK] = { 0 }, *own = ht_open_axes(in, p->value);

		if (ht_open_count(in, p->value) && !is_handed_on(x, k, p, i))
			p->value = ht_open_value(in, p->value);
		own = own ? own : none;
		for (int32_t a = 0; a < HT_OPEN_RANK; a++) {
			HT_TRY(check_computed(x, in, own[a]));
			if (!first && !is_same(own[a], axes[i][a]))
				return refuse_results(x, x->n);
			axes[i][a] = own[a];
		}
	}
	in->r.g->closed = true;
	return HT_OK;
}

static enum ht_status bound_body(
	struct control *x, int k, bool first, struct ht_open (*results)[HT_OPEN_RANK])
{
	struct ht_bounded in;
	struct ht_rw_within w;
	struct ht_node **all;
	size_t count;

	begin_body(x, &in, &w, k, &x->awaited);
	all = ht_rw_nodes(&in.r, &count);
	for (size_t i = 0; i < count; i++)
		HT_TRY(ht_open_visit(&in, all[i]));
	return end_body(x, &in, k, first, results);
}

/* ---- branches and loops ---- */

static enum ht_status check_arguments(const struct control *x)
{
	for (int k = 0; k < 2; k++) {
		int32_t i = 0;

		for (const struct ht_port *p = x->body.of[k]->args; p; p = p->next, i++) {
			int32_t rank = ht_type_of(p->value)->shape.rank;

			if (any_open(x->axes[i]) && (rank < 0 || rank > HT_OPEN_RANK))
				return ht_open_refuse(x->b, x->n,
					"the rank of an argument of its function is not known, as where iterations may change it, or above 8");
		}
	}
	return HT_OK;
}

static enum ht_status begin_operands(struct control *x)
{
	struct ht_bounded *b = x->b;

	for (int32_t i = 0; i < x->args; i++) {
		struct ht_value v = x->n->in[x->first + i];
		struct axes a = axes_of(b, x->n, x->first + i);

		if (ht_type_of(v)->shape.rank > HT_OPEN_RANK && any_open(a.axis))
			return ht_open_refuse(b, x->n, "the rank of an operand is above 8");
		memcpy(x->axes[i], a.axis, sizeof x->axes[i]);
	}
	for (int32_t i = 0; i < x->n->ins; i++)
		if (ht_open_count(b, x->n->in[i]))
			ht_rw_set_in(&b->r, x->n, i, ht_open_value(b, x->n->in[i]));
	return check_arguments(x);
}

/* The condition of a loop, and results that are the arguments of the next iteration. */
static enum ht_status bound_loop(struct control *x, struct ht_open *out)
{
	struct ht_open condition[1][HT_OPEN_RANK];

	HT_TRY(bound_body(x, 0, true, condition));
	if (any_open(condition[0]))
		return ht_open_refuse(x->b, x->n, "the condition of this loop has one");
	HT_TRY(bound_body(x, 1, false, x->axes));
	memcpy(out, x->axes, (size_t)x->args * sizeof *x->axes);
	return HT_OK;
}

static enum ht_status bound_branches(struct control *x, struct ht_open *out)
{
	struct ht_open(*results)[HT_OPEN_RANK] = (void *)out;

	HT_TRY(bound_body(x, 0, true, results));
	return bound_body(x, 1, false, results);
}

void ht_open_mark_results(struct ht_node *n, const struct ht_open *axes, struct ht_arena *a)
{
	size_t count = (size_t)n->outs * HT_OPEN_RANK;
	int64_t *ends = HT_NEW_ARRAY(a, int64_t, 2 * count);

	for (size_t i = 0; i < count; i++) {
		ends[2 * i] = axes[i].part[0].size;
		ends[2 * i + 1] = axes[i].part[0].inner;
	}
	ht_attr_set_ints(n, "_ends", ends, 2 * count);
}

/* Whether a body, or one within it, computes a size. */
static bool computes_size(const struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);

	for (int k = 0; k < 2; k++)
		for (const struct ht_node *i = b.of[k]->body->first; i; i = i->next)
			if (ht_computed_size(b.of[k]->body, i) ||
				(ht_runs_own(i) && computes_size(i)))
				return true;
	return false;
}

static bool is_needed(const struct control *x)
{
	for (int32_t i = 0; i < x->n->ins; i++)
		if (ht_open_in(x->b, x->n, i) || ht_open_count(x->b, x->n->in[i]))
			return true;
	return computes_size(x->n);
}

enum ht_status ht_open_control(struct ht_bounded *b, struct ht_node *n)
{
	struct control x = {
		.b = b, .n = n, .body = ht_control_bodies(n), .first = ht_control_first(n)
	};
	struct ht_open *out =
		HT_NEW_ARRAY(b->r.arena, struct ht_open, (size_t)n->outs * HT_OPEN_RANK);

	x.args = n->ins - x.first;
	x.axes = (void *)HT_NEW_ARRAY(b->r.arena, struct ht_open, (size_t)x.args * HT_OPEN_RANK);
	if (!is_needed(&x))
		return HT_OK;
	HT_TRY(ht_open_check_rank(b, n));
	if (ht_open_in(b, n, 0) && x.first)
		return ht_open_refuse(b, n, "the condition of this branch has one");
	HT_TRY(begin_operands(&x));
	HT_TRY((ht_is(n, HT_LOOPS) ? bound_loop : bound_branches)(&x, out));
	b->axes[n->id] = out;
	ht_open_mark_results(n, out, b->r.arena);
	ht_open_wait(b, n, &x.awaited);
	return ht_open_check_results(b, n, out);
}
