/* functional_loops: a frame of TensorFlow 1 becomes a While.
 *
 * Each loop-carried value goes from an Enter, or from NextIteration, to a Merge; a Switch by
 * LoopCond sends it to an Exit or into the body.  An Enter without a Merge brings a
 * loop-invariant value.  Inner frames come first. */
#include "passes/functional.h"
#include "passes/rewrite.h"

static void add_control(struct ht_node *n, struct ht_node *before, struct ht_arena *scratch)
{
	for (int32_t i = 0; i < n->controls; i++)
		if (n->control[i] == before)
			return;
	ht_node_set_controls(n, ht_controls_and(scratch, n, &before, 1), n->controls + 1);
}

/* Nested frames; lowering does not accept more nested bodies. */
enum { MOST_NESTED = 64 };

struct carried {
	struct ht_node *enter, *merge, *next, *choice; /* choice: the Switch; NULL: there is none */
};

struct frame {
	struct frame *outer; /* NULL: none is known */
	int depth;           /* from 1 */
	struct ht_node *condition;
	struct carried *carried;
	struct ht_node **stays; /* Enters of loop-invariant values */
	struct ht_node **exit;
	int32_t carries, kept, exits;
	size_t carried_cap, kept_cap, exit_cap;
	bool odd;
	struct frame *next; /* in the list */
};

struct frames {
	struct functional *f;
	struct ht_map named;
	struct frame *first;
	struct frame **of;    /* by node id: the frame of its results; NULL: none */
	struct frame *looked; /* the one that is being outlined */
	bool changed;         /* an enclosing frame has been found */
	int32_t *number;      /* by node id of a Merge, Switch or Enter: its argument + 1 */
};

static struct frame *deepest(struct frame *a, struct frame *b)
{
	return !a || (b && b->depth > a->depth) ? b : a;
}

static void has_outer(struct frames *x, struct frame *f, struct frame *outer)
{
	if (outer && !f->outer) {
		f->outer = outer;
		x->changed = true;
	}
	f->odd = f->odd || (outer && f->outer != outer);
	f->depth = f->outer ? f->outer->depth + 1 : 1;
}

static struct frame *frame_entered(
	struct frames *x, const struct ht_node *enter, struct frame *outer)
{
	struct ht_map_entry *e = ht_map_at(&x->named, ht_attr_str(enter, "frame_name", ""));
	struct frame *f = e->value;

	if (!f) {
		f = e->value = HT_NEW(x->f->scratch, struct frame);
		f->next = x->first;
		x->first = f;
	}
	has_outer(x, f, outer);
	return f;
}

static struct frame *frame_of_needs(const struct frames *x, const struct ht_node *n)
{
	struct frame *found = NULL;

	for (int32_t i = 0; i < n->ins; i++)
		if (!ht_closes_loop(n->in[i].node, n))
			found = deepest(found, x->of[n->in[i].node->id]);
	for (int32_t i = 0; i < n->controls; i++)
		found = deepest(found, x->of[n->control[i]->id]);
	return found;
}

static struct ht_node *next_of(const struct ht_node *merge)
{
	return merge->ins == 2 && ht_is(merge->in[1].node, HT_ITERATES) ? merge->in[1].node : NULL;
}

static void add_carried(struct frames *x, struct frame *f, struct ht_node *merge)
{
	struct ht_node *next = next_of(merge), *enter = merge->in[0].node;

	if (!next || !ht_is(enter, HT_ENTERS) || x->number[merge->id]) {
		f->odd = true;
		return;
	}
	f->carried = ht_grow(
		x->f->scratch, f->carried, (size_t)f->carries, &f->carried_cap, sizeof *f->carried);
	f->carried[f->carries++] = (struct carried){ enter, merge, next, NULL };
	x->number[merge->id] = f->carries;
	x->number[enter->id] = -1;
}

static bool is_of_loop(const struct ht_node *n)
{
	return ht_is(n, HT_SWITCHES) && ht_is_loop_condition(n->in[1].node);
}

static void add_choice(struct frames *x, struct frame *f, struct ht_node *n)
{
	int32_t k = n->in[0].node->graph ? x->number[n->in[0].node->id] : 0;

	if (k <= 0 || !ht_is(n->in[0].node, HT_MERGES) || f->carried[k - 1].choice) {
		f->odd = true;
		return;
	}
	f->carried[k - 1].choice = n;
	x->number[n->id] = k;
}

/* Values computed from constants only have no recognisable frame, and do not show the frame of
 * another one.  A later node may show it, so all nodes are visited again until nothing changes. */
static bool find_frames(struct frames *x)
{
	int rounds = 0;

	do {
		x->changed = false;
		for (struct ht_node *n = x->f->g->first; n; n = n->next) {
			struct frame *f = frame_of_needs(x, n);

			if (ht_is(n, HT_ENTERS))
				f = frame_entered(x, n, f);
			x->of[n->id] = ht_is_exit(n) && f ? f->outer : f;
		}
	} while (x->changed && ++rounds < MOST_NESTED);
	return !x->changed;
}

static void look_at(struct frames *x, struct ht_node *n)
{
	struct frame *f = ht_is_exit(n) ? frame_of_needs(x, n) : x->of[n->id];

	if (!f)
		return;
	if (ht_is_exit(n)) {
		f->exit = ht_grow(
			x->f->scratch, f->exit, (size_t)f->exits, &f->exit_cap, sizeof *f->exit);
		f->exit[f->exits++] = n;
	}
	if (ht_is(n, HT_MERGES) && n->ins == 2 &&
		(ht_is(n->in[0].node, HT_ENTERS) || ht_is(n->in[1].node, HT_ITERATES)))
		add_carried(x, f, n);
	else if (is_of_loop(n))
		add_choice(x, f, n);
	else if (ht_is_loop_condition(n)) {
		f->odd = f->odd || f->condition;
		f->condition = n;
	}
}

/* Finds the Enters without a Merge. */
static void find_kept(struct frames *x)
{
	for (struct ht_node *n = x->f->g->first; n; n = n->next) {
		struct frame *f = x->of[n->id];

		if (!ht_is(n, HT_ENTERS) || x->number[n->id])
			continue;
		f->stays = ht_grow(
			x->f->scratch, f->stays, (size_t)f->kept, &f->kept_cap, sizeof *f->stays);
		f->stays[f->kept++] = n;
		x->number[n->id] = f->carries + f->kept;
	}
}

/* ---- a frame's functions ---- */

/* Values computed from constants only are the same anywhere, and are in no frame: the control
 * edges that put them into one are removed. */
static bool is_in_no_frame(const struct frames *x, const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT) || (!x->of[n->id] && !ht_is(n, HT_FED));
}

/* The arguments of the condition are the Merges' results.  A value from outside of the frame
 * must enter it. */
static int32_t argument_of_condition(void *of, struct ht_value v)
{
	const struct frames *x = of;
	bool within = x->of[v.node->id] == x->looked;

	if (is_of_loop(v.node))
		return -2;
	if (within && ht_is(v.node, HT_MERGES | HT_ENTERS) && x->number[v.node->id] > 0)
		return v.index ? -2 : x->number[v.node->id] - 1;
	if (ht_routes(v.node) && !ht_is(v.node, HT_SWITCHES | HT_MERGES))
		return -2;
	return within || is_in_no_frame(x, v.node) ? -1 : -2;
}

static int32_t argument_of_body(void *of, struct ht_value v)
{
	const struct frames *x = of;
	bool within = x->of[v.node->id] == x->looked;

	if (within && is_of_loop(v.node))
		return v.index == 1 ? x->number[v.node->id] - 1 : -2;
	if (within && ht_is(v.node, HT_MERGES) && x->number[v.node->id] > 0)
		return -2;
	return argument_of_condition(of, v);
}

/* What follows the Merge of a branch in the frame, such as that around an Assert, waits for the branch. */
static bool waits_in_frame(void *of, struct ht_node *n)
{
	const struct frames *x = of;
	const bool of_branch = ht_is(n, HT_MERGES) && !x->number[n->id];

	return x->of[n->id] == x->looked && (of_branch || !ht_routes(n));
}

static const struct ht_node *enter_of(const struct frame *f, int32_t i)
{
	return i < f->carries ? f->carried[i].enter : f->stays[i - f->carries];
}

static enum ht_dtype type_in_frame(void *of, int32_t i)
{
	const struct frames *x = of;

	return ht_type_of(enter_of(x->looked, i)->in[0])->dtype;
}

static struct ht_function *outline_body(
	struct frames *x, const struct frame *f, struct ht_outline *o, struct ht_str name)
{
	int32_t all = f->carries + f->kept, waits = 0, at = 0;
	struct ht_value *ret = HT_NEW_ARRAY(x->f->scratch, struct ht_value, (size_t)all);
	struct ht_node **wait;

	o->argument = argument_of_body;
	for (int32_t i = 0; i < f->carries; i++) {
		ret[i] = f->carried[i].next->in[0];
		waits += f->carried[i].next->controls;
	}
	for (int32_t i = 0; i < f->kept; i++)
		ret[f->carries + i] = ht_out(f->stays[i], 0);
	wait = HT_NEW_ARRAY(x->f->scratch, struct ht_node *, (size_t)waits);
	for (int32_t i = 0; i < f->carries; i++)
		for (int32_t k = 0; k < f->carried[i].next->controls; k++)
			wait[at++] = f->carried[i].next->control[k];
	return ht_outline(o, name, ret, all, wait, waits);
}

/* ---- a frame's node ---- */

static void take_operand(struct frames *x, struct ht_node *loop, const struct ht_node *enter,
	struct ht_value *in, int32_t i)
{
	in[i] = enter->in[0];
	loop->out[i] = *ht_type_of(in[i]);
	loop->out[i].shape = HT_SHAPE_UNKNOWN;
	for (int32_t k = 0; k < enter->controls; k++)
		add_control(loop, enter->control[k], x->f->scratch);
}

/* The replacements of Exits get their names, and the control edges from them. */
static void replace_exits(struct frames *x, const struct frame *f, struct ht_node *loop)
{
	for (int32_t i = 0; i < f->exits; i++) {
		struct ht_value result = ht_out(loop, x->number[f->exit[i]->in[0].node->id] - 1);

		ht_node_set_type(f->exit[i], HT_STR("Identity"));
		ht_node_set_ins(f->exit[i], &result, 1);
	}
}

static bool has_known_exits(const struct frames *x, const struct frame *f)
{
	for (int32_t i = 0; i < f->exits; i++) {
		struct ht_value from = f->exit[i]->in[0];

		if (!is_of_loop(from.node) || from.index || x->number[from.node->id] <= 0)
			return false;
	}
	return true;
}

static void make_loop(
	struct frames *x, const struct frame *f, struct ht_str condition, struct ht_str body)
{
	int32_t all = f->carries + f->kept;
	enum ht_dtype *t = HT_NEW_ARRAY(x->f->scratch, enum ht_dtype, (size_t)all);
	struct ht_node *loop = ht_functional_node(x->f, HT_STR("While"), f->condition);
	struct ht_value *in = HT_NEW_ARRAY(x->f->scratch, struct ht_value, (size_t)all);

	ht_node_set_outs(loop, all);
	for (int32_t i = 0; i < all; i++) {
		take_operand(x, loop, enter_of(f, i), in, i);
		t[i] = loop->out[i].dtype;
	}
	ht_node_set_ins(loop, in, all);
	ht_attr_set_types(loop, "T", t, all);
	ht_attr_set_function(loop, "cond", condition);
	ht_attr_set_function(loop, "body", body);
	x->of[loop->id] = f->outer;
	replace_exits(x, f, loop);
}

static void convert_frame(struct frames *x, struct frame *f)
{
	struct ht_outline o = { .shared = &x->f->outlines,
		.of = x,
		.argument = argument_of_condition,
		.type = type_in_frame,
		.waits = waits_in_frame,
		.args = f->carries + f->kept };
	struct ht_function *condition, *body;
	struct ht_str name;

	if (f->odd || !f->condition || !f->carries || !has_known_exits(x, f))
		return;
	x->looked = f;
	for (int32_t i = 0; i < o.args; i++)
		if (type_in_frame(x, i) == HT_INVALID || type_in_frame(x, i) >= HT_REF)
			return;
	name = ht_scope_of(f->condition->name);
	condition = ht_outline(&o, ht_str_printf(x->f->scratch, "%.*s_cond", HT_STR_ARG(name)),
		&f->condition->in[0], 1, NULL, 0);
	body = condition ? outline_body(x, f, &o,
				   ht_str_printf(x->f->scratch, "%.*s_body", HT_STR_ARG(name)))
			 : NULL;
	if (body)
		make_loop(x, f, condition->name, body->name);
}

/* Inner frames first. */
void ht_functional_loops(struct functional *f)
{
	struct frames x = { .f = f,
		.of = HT_NEW_ARRAY(f->scratch, struct frame *, f->ids),
		.number = HT_NEW_ARRAY(f->scratch, int32_t, f->ids) };

	ht_map_init(&x.named, f->scratch);
	if (!find_frames(&x))
		return;
	for (struct ht_node *n = f->g->first; n; n = n->next)
		look_at(&x, n);
	find_kept(&x);
	for (int depth = MOST_NESTED; depth > 0; depth--)
		for (struct frame *frame = x.first; frame; frame = frame->next)
			if (frame->depth == depth)
				convert_frame(&x, frame);
}
