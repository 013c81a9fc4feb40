/* Lowering of one entry point: forms regions, finds memory for the tensors between them, and
 * makes their kernels in the graph's order. */
#include "image/image.h"
#include "lower/order.h"
#include "lower/strides.h"

#include <string.h>

static bool is_const(const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT);
}

/* ---- memory of values ---- */

bool lower_in_memory(struct lower *l, struct ht_value v)
{
	enum place p = l->place[v.node->id];

	return p == PLACE_MEMORY || p == PLACE_VIEW;
}

const struct view *lower_view(struct lower *l, struct ht_value v)
{
	struct view *view = l->view[v.node->id];

	if (!view) {
		const struct ht_tensor *t = ht_const_tensor(v);
		HT_CHECK(is_const(v.node) && t);
		view = l->view[v.node->id] = HT_NEW(l->scratch, struct view);
		view_dense(view, plan_const(l, t), t->shape);
	}
	return &view[v.index];
}

bool lower_is_inside(const struct lower *l, const struct ht_node *sink, const struct ht_node *n)
{
	return l->shadow ? n == l->shadow : l->owner[n->id] == sink;
}

/* The plan buffer of an entry output, when `v` is one; -1 otherwise. */
static int32_t output_buffer(struct lower *l, struct ht_value v)
{
	const int32_t *of = l->output_of[v.node->id];

	return of ? of[v.index] : -1;
}

bool lower_takes_memory(struct lower *l, const struct ht_node *n, int arg)
{
	const struct ht_node *from = n->in[0].node;
	const int32_t *of = l->output_of[n->id];
	const struct ht_open_axis *open = of && of[0] >= 0 ? l->plan->buffer[of[0]].open : NULL;
	struct view view;

	if (arg || !open || lower_op_of(n)->owns != lower_takes_memory || !lower_is_concat(from) ||
		l->uses.is_output[from->id] || ht_use_count(&l->uses, n->in[0]) != 1 ||
		l->planning->observed || l->asked->tee || l->owner[n->id] != n ||
		l->owner[from->id] != from || !lower_joins_open(from, open))
		return false;
	view_dense(&view, of[0], n->out[0].shape);
	lower_open_view(l, &view, open);
	return view.ends;
}

/* If a result is several outputs, it is computed in the buffer of the first. */
static void note_output(struct lower *l, struct ht_value v, int32_t buffer)
{
	int32_t **of = &l->output_of[v.node->id];

	if (!*of) {
		*of = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)v.node->outs);
		for (int32_t i = 0; i < v.node->outs; i++)
			(*of)[i] = -1;
	}
	if ((*of)[v.index] < 0)
		(*of)[v.index] = buffer;
}

bool lower_is_concat(const struct ht_node *n)
{
	return lower_op_of(n)->part && !lower_op_of(n)->owns;
}

/* Whether an operand that no other node reads may be made in the memory of its user's result. */
static bool is_owned(struct lower *l, const struct ht_use *u)
{
	const struct lower_op *op = lower_op_of(u->node);

	return op->part && (!op->owns || op->owns(l, u->node, u->arg));
}

/* If `v` is a concatenation, its other users do not count, as they can read it there; otherwise a
 * concatenation that grows step by step would be copied in each step. */
struct ht_node *lower_gathering_user(struct lower *l, struct ht_value v, int32_t *arg)
{
	const bool joins = lower_is_concat(v.node);
	struct ht_use *only = NULL;

	if (v.node->outs != 1 || l->uses.is_output[v.node->id])
		return NULL;
	for (struct ht_use *u = l->uses.of[v.node->id]; u; u = u->next) {
		if (u->arg < 0 ||
			(joins && ht_use_count(&l->uses, v) > 1 && !lower_is_concat(u->node)))
			continue;
		if (only)
			return NULL;
		only = u;
		if (joins)
			break;
	}
	if (!only || !is_owned(l, only))
		return NULL;
	*arg = only->arg;
	return only->node;
}

bool lower_wants_dense(const struct lower *l, const struct ht_node *n)
{
	return l->root[n->id] && lower_op_of(l->root[n->id])->dense;
}

/* Whether concatenation `n` is made in the memory of an output of open sizes. */
static bool joins_output(struct lower *l, const struct ht_node *n)
{
	const struct ht_use *u = l->uses.of[n->id];

	return lower_is_concat(n) && u && !u->next && u->arg >= 0 &&
	       lower_takes_memory(l, u->node, u->arg);
}

static bool fits_in(struct lower *l, const struct ht_node *n, const struct ht_node *whole)
{
	if (!whole || (joins_output(l, whole) && !lower_stores_by_coordinates(l, n)))
		return false;
	return !lower_wants_dense(l, n) || lower_op_of(whole)->dense;
}

/* The node in whose memory the result of `n` is made, as operand *arg; NULL: there is none. */
static struct ht_node *whole_of(struct lower *l, struct ht_node *n, int32_t *arg)
{
	struct ht_node *whole;

	if (n->outs != 1 || output_buffer(l, ht_out(n, 0)) >= 0)
		return NULL;
	whole = lower_gathering_user(l, ht_out(n, 0), arg);
	return fits_in(l, n, whole) ? whole : NULL;
}

/* The node in whose memory the result is made has its place already. */
static void place_own_results(struct lower *l, struct ht_node *n)
{
	struct view *view = l->view[n->id] = HT_NEW_ARRAY(l->scratch, struct view, (size_t)n->outs);
	int32_t arg;
	struct ht_node *whole = whole_of(l, n, &arg);

	for (int32_t i = 0; i < n->outs; i++) {
		struct ht_value v = ht_out(n, i);
		int32_t output = output_buffer(l, v);

		if (output >= 0) {
			view_dense(&view[i], output, n->out[i].shape);
			lower_open_view(l, &view[i], l->plan->buffer[output].open);
		} else if (whole) {
			lower_op_of(whole)->part(l, whole, arg, &view[i]);
		} else if (ht_use_count(&l->uses, v) == 0 && n->outs > 1) {
			view[i].buffer = -1;
		} else {
			enum ht_dtype held = i == 0 ? lower_held_type(l, n) : n->out[i].dtype;

			if (tee_in_place(l, n, held, &view[i]))
				continue;
			view_dense(&view[i],
				plan_buffer(l, HT_PLAN_TEMP, held, ht_shape_count(n->out[i].shape)),
				n->out[i].shape);
			if (lower_wants_dense(l, n))
				continue;
			lower_order_axes(l, v, &view[i]);
			if (view_is_dense(&view[i]))
				lower_follow_run(l, v, &view[i]);
		}
	}
}

/* Concatenations of concatenations may be as many as a graph has nodes, so this is a loop. */
static void place_results(struct lower *l, struct ht_node *n)
{
	struct ht_node **nested = NULL; /* n, the node in whose memory it is made, and so on */
	size_t depth = 0, cap = 0;
	int32_t arg;

	for (; n && !l->view[n->id]; n = whole_of(l, n, &arg)) {
		nested = ht_grow(l->scratch, nested, depth, &cap, sizeof *nested);
		nested[depth++] = n;
	}
	while (depth)
		place_own_results(l, nested[--depth]);
}

/* ---- inputs and outputs ---- */

static struct ht_str tensor_name(struct lower *l, struct ht_value v)
{
	if (v.index == 0)
		return v.node->name;
	return ht_str_printf(l->arena, "%.*s:%d", HT_STR_ARG(v.node->name), (int)v.index);
}

static const struct ht_open_axis *port_axes(struct lower *l, const struct ht_port *p)
{
	size_t rank = (size_t)ht_type_of(p->value)->shape.rank;
	struct ht_open_axis *a;

	if (!p->axis)
		return NULL;
	a = HT_NEW_ARRAY(l->arena, struct ht_open_axis, rank);
	memcpy(a, p->axis, rank * sizeof *a);
	return a;
}

/* The buffer is named as the model names the port: passes may have replaced the node that the
 * caller asked for. */
static void port_buffer(struct lower *l, enum ht_plan_kind kind, const struct ht_port *p)
{
	const struct ht_type *t = ht_type_of(p->value), *parts;
	int32_t b = plan_buffer(l, kind, t->dtype, ht_shape_count(t->shape));

	parts = l->whole ? l->whole[p->value.node->id] : NULL;
	l->plan->buffer[b].whole = !parts;
	if (parts)
		t = &parts[p->value.index];
	if (parts && l->plan->rows.parts)
		l->plan->buffer[b].rows = t->shape.dim[0] / HT_PART_ROWS;
	l->plan->buffer[b].steady = p->steady;
	l->plan->buffer[b].strings = p->strings;
	l->plan->buffer[b].open = port_axes(l, p);
	l->plan->buffer[b].shape = ht_shape_make(l->arena, t->shape.rank, t->shape.dim);
	l->plan->buffer[b].name =
		ht_str_copy(l->arena, p->name.n ? p->name : tensor_name(l, p->value));
}

static enum ht_status check_port(struct lower *l, const struct ht_port *p, const char *what)
{
	const struct ht_node *n = p->value.node;
	const char *why = lower_refuse_type(*ht_type_of(p->value));

	if (!why)
		return HT_OK;
	return ht_error(l->asked->diags, HT_E_UNSUPPORTED,
		(struct ht_where){
			.path = l->g->path, .offset = -1, .node = n->name, .op = n->type },
		"the %s '%.*s' %s", what, HT_STR_ARG(p->name), why);
}

static void add_input(struct lower *l, struct ht_node *n, int32_t buffer)
{
	l->view[n->id] = HT_NEW(l->scratch, struct view);
	view_dense(l->view[n->id], buffer, n->out[0].shape);
	lower_open_view(l, l->view[n->id], l->plan->buffer[buffer].open);
	l->place[n->id] = PLACE_MEMORY;
	l->owner[n->id] = n;
}

static enum ht_status add_ports(struct lower *l)
{
	enum ht_plan_kind in = l->g->function ? HT_PLAN_PARAM : HT_PLAN_INPUT,
			  out = l->g->function ? HT_PLAN_RESULT : HT_PLAN_OUTPUT;

	for (const struct ht_port *p = l->asked->entry->inputs; p; p = p->next) {
		HT_TRY(check_port(l, p, "input"));
		port_buffer(l, in, p);
		add_input(l, p->value.node, l->plan->buffers - 1);
	}
	l->first_output = l->plan->buffers;
	for (const struct ht_port *p = l->asked->entry->outputs; p; p = p->next) {
		HT_TRY(check_port(l, p, "output"));
		note_output(l, p->value, l->plan->buffers);
		port_buffer(l, out, p);
	}
	for (const struct lower_updated *u = l->updated; u; u = u->next)
		add_input(l, u->arg.node, output_buffer(l, u->result));
	plan_strings(l);
	return HT_OK;
}

/* Copies outputs that no kernel stores: views, constants, inputs, and outputs asked for twice. */
static void copy_outputs(struct lower *l)
{
	int32_t b = l->first_output;

	for (const struct ht_port *p = l->asked->entry->outputs; p; p = p->next, b++) {
		const struct view *from = lower_view(l, p->value);
		struct view to;

		if (from->buffer == b)
			continue;
		view_dense(&to, b, ht_type_of(p->value)->shape);
		lower_open_view(l, &to, l->plan->buffer[b].open);
		emit_copy(l, p->value.node, from, &to);
	}
}

static bool is_input(struct lower *l, const struct ht_node *n)
{
	return ht_is(n, HT_FED) && l->view[n->id] && l->place[n->id] == PLACE_MEMORY;
}

/* ---- kernels ---- */

static bool try_given(struct lower *l, struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);
	struct view view;

	if (!op->given || l->view[n->id] || output_buffer(l, ht_out(n, 0)) >= 0 ||
		!op->given(l, n, &view))
		return false;
	l->view[n->id] = HT_NEW(l->scratch, struct view);
	*l->view[n->id] = view;
	return true;
}

/* The memory of operand `v` of a node in the kernel of `sink`: its own, or that of which it is a view, although it belongs to that
 * kernel.  False: there is none, or it is an input or output of open sizes. */
static bool find_view(
	struct lower *l, const struct ht_node *sink, struct ht_value v, struct view *view)
{
	const struct lower_op *op = lower_op_of(v.node);
	struct view in;

	if (l->owner[v.node->id] != sink) {
		if (!lower_in_memory(l, v))
			return false;
		*view = *lower_view(l, v);
		return !view->open;
	}
	return op->family == FAMILY_VIEW && v.node->outs == 1 &&
	       find_view(l, sink, v.node->in[op->view_arg], &in) && op->view(v.node, 0, &in, view);
}

/* A kernel that moves elements in several ways, one after the other, has nothing to do if they are in the right order already. */
static bool try_dense_view(struct lower *l, struct ht_node *n)
{
	struct view view;

	if (lower_op_of(n)->family != FAMILY_VIEW || n->outs != 1 || l->view[n->id] ||
		l->planning->observed || output_buffer(l, ht_out(n, 0)) >= 0 ||
		!find_view(l, n, ht_out(n, 0), &view) || !view_is_dense(&view))
		return false;
	l->view[n->id] = HT_NEW(l->scratch, struct view);
	*l->view[n->id] = view;
	l->place[n->id] = PLACE_VIEW;
	return true;
}

/* A view of the operand's memory instead of a copy. */
static bool try_view(struct lower *l, struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);
	struct view view[HT_MAX_VIEWS];

	if (op->family != FAMILY_VIEW || n->outs > HT_MAX_VIEWS || l->view[n->id] ||
		l->owner[n->in[op->view_arg].node->id] == n ||
		!lower_in_memory(l, n->in[op->view_arg]))
		return false;
	for (int32_t i = 0; i < n->outs; i++)
		if (output_buffer(l, ht_out(n, i)) >= 0 ||
			!op->view(n, i, lower_view(l, n->in[op->view_arg]), &view[i]))
			return false;
	l->view[n->id] = HT_NEW_ARRAY(l->scratch, struct view, (size_t)n->outs);
	memcpy(l->view[n->id], view, (size_t)n->outs * sizeof *view);
	l->place[n->id] = PLACE_VIEW;
	return true;
}

/* A view of the variable or input that the node rounds. */
static bool try_rounding_view(struct lower *l, struct ht_node *n)
{
	struct view view;

	if (l->view[n->id] || l->planning->observed || !lower_rounds_when_read(l, n, &view))
		return false;
	l->view[n->id] = HT_NEW(l->scratch, struct view);
	*l->view[n->id] = view;
	l->place[n->id] = PLACE_VIEW;
	return true;
}

enum ht_status lower_kernel(struct lower *l, struct ht_node *sink)
{
	if (l->root[sink->id])
		return lower_op_of(l->root[sink->id])->emit(l, l->root[sink->id]);
	return emit_loop(l, sink);
}

/* Whether the operand of which the node is a copy has been made in its memory. */
static bool is_made(struct lower *l, const struct ht_node *n)
{
	return lower_op_of(n)->owns == lower_takes_memory && lower_takes_memory(l, n, 0);
}

static enum ht_status make_kernel(struct lower *l, struct ht_node *n)
{
	if (is_made(l, n))
		return HT_OK;
	if (try_view(l, n) || try_dense_view(l, n) || try_given(l, n) || try_rounding_view(l, n))
		return HT_OK;
	place_results(l, n);
	if (tee_can_be_alone(l, n))
		return tee_alone(l, n);
	if (!l->joined[n->id])
		return lower_kernel(l, n);
	lower_emit_joined(l, l->joined[n->id]);
	return HT_OK;
}

static bool is_source(struct lower *l, const struct ht_node *n)
{
	return lower_op_of(n)->family == FAMILY_SOURCE || is_input(l, n);
}

static enum ht_status make_kernels(struct lower *l)
{
	for (struct ht_node *n = l->g->first; n; n = n->next) {
		bool is_sink = l->place[n->id] == PLACE_MEMORY && l->owner[n->id] == n;

		if (is_sink && !is_source(l, n)) {
			const int32_t first = l->plan->steps;

			HT_TRY(make_kernel(l, n));
			members_made(l, n, first);
		}
		if (!l->asked->tee)
			continue;
		if (is_sink)
			tee_stored(l, n);
		if (is_sink && l->view[n->id] && !is_const(n))
			tee_results(l, n);
		else if (l->place[n->id] == PLACE_INLINE)
			HT_TRY(tee_inside(l, n));
	}
	return HT_OK;
}

static void init(struct lower *l, struct ht_graph *g, const struct ht_lower_request *how,
	struct ht_arena *a, struct planning *planning)
{
	size_t ids = g->ids;
	uint32_t position = 0;

	*l = (struct lower){ .g = g,
		.asked = how,
		.target = how->target,
		.numerics = how->numerics,
		.arena = a,
		.scratch = how->scratch,
		.fusions = how->fusions,
		.planning = planning,
		.plan = planning->plan,
		.larger = 1 };
	l->uses = ht_graph_uses(g, how->scratch);
	l->place = HT_NEW_ARRAY(how->scratch, enum place, ids);
	l->owner = HT_NEW_ARRAY(how->scratch, struct ht_node *, ids);
	l->root = HT_NEW_ARRAY(how->scratch, struct ht_node *, ids);
	l->joined = HT_NEW_ARRAY(how->scratch, const struct joined *, ids);
	l->view = HT_NEW_ARRAY(how->scratch, struct view *, ids);
	l->part_starts = HT_NEW_ARRAY(how->scratch, int64_t *, ids);
	l->operands = HT_NEW_ARRAY(how->scratch, struct view *, ids);
	l->order = HT_NEW_ARRAY(how->scratch, uint32_t, ids);
	l->output_of = HT_NEW_ARRAY(how->scratch, int32_t *, ids);
	l->kernel_operands = HT_NEW_ARRAY(how->scratch, int32_t, ids);
	l->chosen = HT_NEW_ARRAY(how->scratch, bool, ids);
	l->made = how->members ? HT_NEW_ARRAY(how->scratch, struct made_steps, ids) : NULL;
	l->body = HT_NEW_ARRAY(how->scratch, struct body *, ids);
	l->walked = HT_NEW_ARRAY(how->scratch, uint32_t, ids);
	l->flags = HT_NEW_ARRAY(how->scratch, struct tile_flags *, ids);
	for (struct ht_node *n = g->first; n; n = n->next)
		l->order[n->id] = position++;
}

/* A step counts its tiles in 31 bits. */
static enum ht_status refuse_tiles(const struct lower *l)
{
	for (int32_t i = l->procedure.step; i < l->plan->steps; i++) {
		const struct ht_plan_step *s = &l->plan->step[i];
		int64_t tiles = s->kernel >= 0 ? ht_kernel_tiles(l->plan->kernel[s->kernel]) : 0;

		if (tiles > INT32_MAX)
			return ht_error(l->asked->diags, HT_E_LIMIT,
				(struct ht_where){
					.path = l->g->path, .node = s->node, .offset = -1 },
				"it takes %lld tiles of work, and a kernel can have %d",
				(long long)tiles, INT32_MAX);
	}
	return HT_OK;
}

/* Makes the plan's next procedure from its steps. */
static enum ht_status make_procedure(struct lower *l, struct ht_str name, int32_t *number)
{
	HT_TRY(lower_bodies(l));
	l->procedure = (struct ht_plan_procedure){
		.name = name, .buffer = l->plan->buffers, .step = l->plan->steps
	};
	HT_TRY(add_ports(l));
	lower_find_outside(l);
	lower_find_skipped(l);
	lower_regions(l);
	lower_join_kernels(l);
	tee_begin(l);
	lower_want_flags(l);
	HT_TRY(make_kernels(l));
	members_list(l);
	copy_outputs(l);
	HT_TRY(refuse_tiles(l));
	*number = plan_procedure(l);
	if (l->procedure.arena_bytes <= HT_IMAGE_MOST_BYTES)
		return HT_OK;
	return ht_error(l->asked->diags, HT_E_LIMIT,
		(struct ht_where){ .path = l->g->path, .offset = -1 },
		"a run needs %zu bytes of memory at once, more than a process can address",
		l->procedure.arena_bytes);
}

enum ht_status lower_function(struct lower *l, const struct ht_function *f,
	const struct ht_entry *entry, const struct lower_updated *updated,
	struct lower_invariant *invariant, int32_t *out)
{
	struct ht_lower_request how = *l->asked;
	struct lower body;

	how.entry = entry;
	how.numerics = false; /* its memory is used again after it returns, so probes could not
			       * be read */
	HT_TRY(ht_graph_sort(f->body, how.diags));
	init(&body, f->body, &how, l->arena, l->planning);
	body.updated = updated;
	body.invariant = invariant;
	return make_procedure(&body, f->name, out);
}

/* Gives back the references to constants that the copy holds; the plan has those of the graph. */
static void drop_constants(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		ht_const_drop(n);
}

static enum ht_status lower_one_part(
	struct lower *l, struct lower_part *p, int64_t larger, int32_t *out)
{
	struct ht_lower_request how = *l->asked;
	struct lower part;
	enum ht_status st;

	how.entry = &p->entry;
	init(&part, p->graph, &how, l->arena, l->planning);
	part.whole = p->whole;
	part.larger = larger;
	st = make_procedure(&part, HT_STR("main"), out);
	drop_constants(p->graph);
	return st;
}

/* The largest part comes last, where the entry's procedure is. */
static enum ht_status lower_any_rows(struct lower *l, struct lower_part **part)
{
	struct ht_plan_rows *r = &l->plan->rows;

	l->plan->parts = 1;
	for (int32_t i = 0; i < r->parts; i++) {
		l->plan->choices =
			0; /* choices of the last part stand for all, which differ only in their
			    * rows */
		HT_TRY(lower_one_part(l, part[i], r->part[r->parts - 1].rows / r->part[i].rows,
			&r->part[i].procedure));
	}
	return HT_OK;
}

enum ht_status ht_lower(struct ht_graph *g, const struct ht_lower_request *how, struct ht_arena *a,
	struct ht_plan **out)
{
	struct planning planning = { .plan = HT_NEW(a, struct ht_plan),
		.observed = how->numerics || how->tee };
	struct lower_part *part, **parts;
	struct lower l;
	enum ht_status st;
	int32_t entry;

	ht_map_init(&planning.packed, how->scratch);
	ht_map_init(&planning.kernel_texts, how->scratch);
	ht_map_init(&planning.variables, how->scratch);
	ht_map_init(&planning.assigned, how->scratch);
	ht_map_init(&planning.named, how->scratch);
	ht_map_init(&planning.objects, how->scratch);
	ht_map_init(&planning.callees, how->scratch);
	HT_TRY(ht_graph_sort(g, how->diags));
	init(&l, g, how, a, &planning);
	HT_TRY(lower_check_support(&l));
	variable_find_assigned(&l);
	for (int32_t i = 0; i < g->sizes; i++)
		l.plan->size[l.plan->sizes++] = g->size[i];
	HT_TRY(lower_open_parts(&l, &parts));
	if (parts) {
		*out = l.plan;
		st = lower_any_rows(&l, parts);
		plan_prelude(&l);
		plan_variable_uses(&l);
		plan_drop_constants(&l);
		members_end(&planning, how->scratch);
		return st;
	}
	part = lower_parts(&l);
	st = part ? lower_one_part(&l, part, 1, &entry)
		  : make_procedure(&l, HT_STR("main"), &entry);
	lower_close_calls(&planning);
	if (part)
		plan_prelude(&l);
	plan_variable_uses(&l);
	plan_drop_constants(&l);
	members_end(&planning, how->scratch);
	*out = l.plan;
	return st;
}

/* A graph of one node, seen through an entry that asks for all its results. */
enum ht_status ht_lower_node(struct ht_node *n, const struct ht_lower_request *how,
	struct ht_arena *a, struct ht_plan **out)
{
	struct ht_graph *g = ht_graph_new(how->scratch);
	struct ht_entry entry = { 0 };
	struct ht_lower_request one = { .scratch = how->scratch,
		.diags = how->diags,
		.target = how->target,
		.entry = &entry,
		.asked = { HT_CONV_DIRECT, HT_BLOCK_KERNELS, HT_BATCH_WHOLE },
		.random_seed = -1 };
	struct ht_port **end = &entry.outputs;
	struct ht_value *in = HT_NEW_ARRAY(how->scratch, struct ht_value, (size_t)n->ins);
	struct ht_node *copy;

	if (lower_refuse(n))
		return HT_E_UNSUPPORTED;
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_node *from = n->in[i].node, *k = ht_graph_node(g, from->name);
		if (!is_const(from))
			return HT_E_UNSUPPORTED;
		if (!k) {
			k = ht_node_new(g, from->type, from->name);
			k->attrs = from->attrs;
			k->shares_attrs = true;
			ht_node_set_outs(k, 1);
			k->out[0] = from->out[0];
		}
		in[i] = ht_out(k, 0);
	}
	copy = ht_node_new(g, n->type, n->name);
	copy->attrs = n->attrs;
	copy->shares_attrs = true;
	ht_node_set_ins(copy, in, n->ins);
	ht_node_set_outs(copy, n->outs);
	for (int32_t i = 0; i < n->outs; i++) {
		copy->out[i] = n->out[i];
		*end = HT_NEW(how->scratch, struct ht_port);
		(*end)->value = ht_out(copy, i);
		end = &(*end)->next;
	}
	g->entries = &entry;
	return ht_lower(g, &one, a, out);
}
