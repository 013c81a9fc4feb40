/* Writes a decision into the graph: type attributes, result types, and one cast for each tensor
 * and type, which all readers share. */
#include "precision/precision.h"

#include "precision/calls.h"

struct rewrite {
	struct ht_precision *p;
	struct ht_graph *g;
	struct ht_decisions *out;
	enum ht_dtype **before; /* by node id: earlier dtypes of the results; NULL: unchanged */
	struct cast **casts;    /* by node id: of its results */
	uint32_t ids;           /* of the earlier graph: new nodes are not in these arrays */
};

struct cast {
	int32_t index;
	enum ht_dtype to;
	struct ht_node *node;
	bool named;        /* it has taken over its operand's name */
	struct cast *then; /* casts of this one */
	struct cast *next;
};

/* The type of the value: a reference to a variable is read as a value of its type. */
static enum ht_dtype without_ref(enum ht_dtype t)
{
	return t >= HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
}

/* ---- types ---- */

static void save_results(struct rewrite *r, const struct ht_node *n)
{
	enum ht_dtype *before = HT_NEW_ARRAY(r->p->arena, enum ht_dtype, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++)
		before[i] = n->out[i].dtype;
	r->before[n->id] = before;
}

/* The pass also accepts graphs without inferred types. */
static void fill_results(struct rewrite *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		const struct ht_unit *u =
			n->out[i].dtype == HT_INVALID ? ht_unit_of_result(r->p, n, i) : NULL;
		if (u)
			n->out[i].dtype = u->from;
	}
}

static void set_judged_types(struct rewrite *r, struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	bool low = false;

	for (int i = 0; i < info->type_attrs; i++) {
		const struct ht_unit *u = ht_unit_of(r->p, n, i);
		const struct ht_choice *c = &r->p->choice[n->id];
		bool rounds = ht_rounded_operands(c, u) != HT_INVALID;
		bool news = u->to != u->from || rounds || (c->by && ht_is_policy_float(u->from));
		low |= (ht_is_float(u->to) && ht_dtype_info(u->to)->bytes <= 2) || rounds;
		if (news && !r->out->complete)
			ht_note_type(r->p, n, u);
		if (u->to == u->from)
			continue;
		if (!r->before[n->id])
			save_results(r, n);
		ht_attr_set_type(n, ht_attr_name(info->type_attr[i].name).s, u->to);
	}
	r->out->float_nodes++;
	r->out->low_nodes += low;
	for (int32_t i = 0; r->before[n->id] && i < n->outs; i++) {
		const struct ht_unit *u = ht_unit_of_result(r->p, n, i);
		if (u)
			n->out[i].dtype = u->to;
	}
}

static void set_list(
	struct rewrite *r, struct ht_node *n, const char *attr, const uint8_t *dtype, size_t count)
{
	struct ht_attr_value *v = ht_attr_set(n, attr), *item;

	item = HT_NEW_ARRAY(r->g->arena, struct ht_attr_value, count);
	for (size_t i = 0; i < count; i++)
		item[i] = (struct ht_attr_value){ .kind = HT_ATTR_TYPE,
			.type = (enum ht_dtype)dtype[i] };
	v->kind = HT_ATTR_LIST;
	v->list.kind = count ? HT_ATTR_TYPE : HT_ATTR_NONE;
	v->list.item = item;
	v->list.n = count;
}

/* A call and the arguments of its bodies get the types that were passed across the boundary. */
static void set_carried_types(struct rewrite *r, struct ht_node *n)
{
	const struct ht_choice *c = &r->p->choice[n->id];
	const struct ht_call_lists *l = c->carried_in ? ht_call_lists_of(n) : NULL;
	struct ht_unit *u = ht_is(n, HT_ARGUMENT) ? ht_unit_of(r->p, n, 0) : NULL;

	if ((l || u) && !r->out->complete)
		ht_note_carried(r->p, n);
	if (l) {
		save_results(r, n);
		set_list(r, n, l->in, c->carried_in + l->first, (size_t)(n->ins - l->first));
		set_list(r, n, l->out, c->carried_out, (size_t)n->outs);
		for (int32_t i = 0; i < n->outs; i++)
			n->out[i].dtype = (enum ht_dtype)c->carried_out[i];
	} else if (u && u->to != u->from) {
		save_results(r, n);
		ht_attr_set_type(n, "T", u->to);
		n->out[0].dtype = u->to;
	}
}

static void set_types(struct rewrite *r, struct ht_node *n)
{
	struct ht_decided_node *told = r->out->complete ? ht_note_whole_node(r->p, n) : NULL;

	if (r->p->choice[n->id].columns)
		set_judged_types(r, n);
	else
		set_carried_types(r, n);
	if (told)
		ht_note_results(r->out, told, n);
}

/* ---- casts ---- */

static struct ht_str value_name(struct rewrite *r, struct ht_value v)
{
	if (!v.index)
		return v.node->name;
	return ht_str_printf(r->out->arena, "%.*s:%d", HT_STR_ARG(v.node->name), (int)v.index);
}

static struct ht_node *new_cast(struct rewrite *r, struct ht_value v, enum ht_dtype to)
{
	enum ht_dtype from = ht_type_of(v)->dtype;
	struct ht_str name =
		v.index ? ht_str_printf(r->g->arena, "%.*s/%d/%s", HT_STR_ARG(v.node->name),
				  (int)v.index, ht_dtype_info(to)->name)
			: ht_str_printf(r->g->arena, "%.*s/%s", HT_STR_ARG(v.node->name),
				  ht_dtype_info(to)->name);
	struct ht_node *n = ht_node_new(r->g, HT_STR("Cast"), ht_graph_free_name(r->g, name));

	n->device = v.node->device;
	ht_attr_set_type(n, "SrcT", from);
	ht_attr_set_type(n, "DstT", to);
	ht_attr_set_bool(n, "Truncate", false);
	ht_node_set_ins(n, &v, 1);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ to, ht_type_of(v)->shape };
	if (v.node->next)
		ht_node_move(n, v.node->next);
	return n;
}

static struct cast *cast_of(
	struct rewrite *r, struct cast **list, struct ht_value v, enum ht_dtype to)
{
	struct cast *c;

	for (c = *list; c; c = c->next)
		if (c->index == v.index && c->to == to)
			return c;
	c = HT_NEW(r->p->arena, struct cast);
	c->index = v.index;
	c->to = to;
	c->node = new_cast(r, v, to);
	c->next = *list;
	*list = c;
	return c;
}

static bool is_number(enum ht_dtype t)
{
	enum ht_kind kind = ht_dtype_info(t)->kind;

	return kind == HT_KIND_FLOAT || kind == HT_KIND_INT || kind == HT_KIND_UINT;
}

/* The value for a reader that takes it in `want` and holds it in `hold`; the value's own node
 * may round it first.  NULL: no cast is needed. */
static struct cast *chain(
	struct rewrite *r, struct ht_value v, enum ht_dtype want, enum ht_dtype hold)
{
	enum ht_dtype is = without_ref(ht_type_of(v)->dtype);
	const enum ht_dtype by[] = { v.node->id < r->ids ? ht_decided_dtype(r->p, v) : is, want,
		hold };
	struct cast **list = &r->casts[v.node->id], *last = NULL;

	for (size_t i = 0; i < HT_COUNT(by); i++) {
		if (by[i] == is || !is_number(is) || !is_number(by[i]))
			continue;
		last = cast_of(r, list, last ? ht_out(last->node, 0) : v, by[i]);
		list = &last->then;
		is = by[i];
	}
	return last;
}

static enum ht_dtype dtype_before(struct rewrite *r, struct ht_value v)
{
	const enum ht_dtype *before = r->before[v.node->id];

	return before ? before[v.index] : ht_type_of(v)->dtype;
}

/* Operand `i` in the type that the node needs, and the type in which it holds it: known for ops
 * of the table; other nodes keep the earlier type. */
static struct cast *operand(struct rewrite *r, const struct ht_node *n, int32_t i)
{
	const struct ht_column *taken = r->p->choice[n->id].taken;
	const struct ht_unit *u = n->op == HT_OP_OPAQUE ? NULL : ht_unit_of_arg(r->p, n, i);
	const uint8_t *carried = r->p->choice[n->id].carried_in;
	enum ht_dtype hold = u && u->to != HT_INVALID ? u->to : dtype_before(r, n->in[i]), want;

	if (carried)
		hold = (enum ht_dtype)carried[i];
	hold = without_ref(hold);
	want = taken ? (enum ht_dtype)taken->arg[ht_formal_of_arg(n, i)] : hold;
	return chain(r, n->in[i], ht_is_policy_float(want) ? want : hold, hold);
}

static void cast_operands(struct rewrite *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value v = n->in[i];
		struct cast *c;
		if (v.port.n || v.index < 0 || v.index >= v.node->outs)
			continue;
		c = operand(r, n, i);
		if (c)
			n->in[i] = ht_out(c->node, 0);
	}
}

/* An output keeps its dtype and its name, so that the exported graph can be asked for it: the
 * cast takes over the node's name. */
static void take_name(struct rewrite *r, struct ht_node *n, struct ht_node *cast)
{
	struct ht_str name = n->name, *origin;
	struct ht_str inner = ht_str_printf(
		r->g->arena, "%.*s/%s", HT_STR_ARG(name), ht_dtype_info(n->out[0].dtype)->name);

	if (!n->origins) {
		origin = HT_NEW(r->g->arena, struct ht_str);
		*origin = name;
		n->origin = origin;
		n->origins = 1;
	}
	ht_node_rename(n, ht_graph_free_name(r->g, inner));
	ht_node_rename(cast, name);
}

static void cast_outputs(struct rewrite *r)
{
	for (struct ht_entry *e = r->g->entries; e; e = e->next) {
		for (struct ht_port *o = e->outputs; o; o = o->next) {
			struct ht_value v = o->value;
			struct cast *cast;
			if (v.node->id >= r->ids || v.index < 0 || v.index >= v.node->outs)
				continue;
			cast = chain(r, v, dtype_before(r, v), dtype_before(r, v));
			if (!cast)
				continue;
			o->value = ht_out(cast->node, 0);
			if (!v.index && !cast->named)
				take_name(r, v.node, cast->node);
			cast->named = true;
		}
	}
}

/* Callers rely on the types that the function's signature states, unless a caller was decided
 * together with the body. */
static void cast_results(struct rewrite *r)
{
	const uint8_t *ret = r->p->ret;

	for (struct ht_port *o = r->g->function ? r->g->function->rets : NULL; o;
		o = o->next, ret = ret ? ret + 1 : NULL) {
		struct ht_value v = o->value;
		struct cast *cast;
		enum ht_dtype t;
		if (v.port.n || v.index < 0 || v.index >= v.node->outs)
			continue;
		t = ret ? (enum ht_dtype) * ret : dtype_before(r, v);
		cast = chain(r, v, t, t);
		if (cast)
			o->value = ht_out(cast->node, 0);
	}
}

/* ---- the report ---- */

static void note_cast(struct rewrite *r, const struct cast *c, bool constant)
{
	struct ht_decisions *d = r->out;
	const struct ht_node *n = c->node;
	struct ht_value v = n->in[0];

	d->cast = ht_grow(d->arena, d->cast, d->casts, &d->cast_cap, sizeof *d->cast);
	d->cast[d->casts++] = (struct ht_decided_cast){
		.name = ht_reported_name(r->out->arena, r->g, n->name),
		.source = ht_reported_name(r->out->arena, r->g, value_name(r, v)),
		.from = ht_type_of(v)->dtype,
		.to = c->to,
		.constant = constant,
		.elements = ht_shape_count(ht_type_of(v)->shape),
		.price = -1,
	};
	for (const struct cast *i = c->then; i; i = i->next)
		note_cast(r, i, constant);
}

static bool has_float(struct rewrite *r, const struct ht_node *n)
{
	for (int i = 0; i < ht_op_info(n->op)->type_attrs; i++)
		if (ht_is_policy_float(ht_unit_of(r->p, n, i)->from))
			return true;
	return false;
}

/* Notes op types that the profile does not list, those whose kernels it assumes, and nodes for
 * which it has no kernel. */
static void note_gaps(struct rewrite *r, struct ht_map *seen, const struct ht_node *n)
{
	struct ht_decisions *d = r->out;
	const struct ht_choice *c = &r->p->choice[n->id];
	bool unknown = n->op == HT_OP_OPAQUE ||
		       (c->offer && c->class == HT_CLASS_UNKNOWN && has_float(r, n) &&
			       ht_op_info(n->op)->prec != HT_PREC_NONE);
	bool assumed = c->offer && c->offer->assumed && !ht_is(n, HT_CASTS);

	if (c->fallback) {
		d->fallback = ht_grow(
			d->arena, d->fallback, d->fallbacks, &d->fallback_cap, sizeof *d->fallback);
		d->fallback[d->fallbacks++] = ht_reported_name(r->out->arena, r->g, n->name);
	}
	if ((!unknown && !assumed) || ht_map_get(seen, n->type))
		return;
	ht_map_at(seen, n->type)->value = seen;
	if (unknown) {
		d->unknown = ht_grow(
			d->arena, d->unknown, d->unknowns, &d->unknown_cap, sizeof *d->unknown);
		d->unknown[d->unknowns++] = n->type;
	} else {
		d->assumed = ht_grow(
			d->arena, d->assumed, d->assumeds, &d->assumed_cap, sizeof *d->assumed);
		d->assumed[d->assumeds++] = n->type;
	}
}

static void note_all(struct rewrite *r)
{
	struct ht_map seen;

	ht_map_init(&seen, r->p->arena);
	for (const struct ht_node *n = r->g->first; n; n = n->next) {
		if (n->id >= r->ids)
			continue;
		note_gaps(r, &seen, n);
		for (const struct cast *c = r->casts[n->id]; c; c = c->next)
			note_cast(r, c, ht_is(n, HT_CONSTANT));
	}
}

void ht_precision_rewrite(struct ht_precision *p, struct ht_decisions *out)
{
	struct rewrite r = { .p = p, .g = p->graph, .out = out, .ids = p->graph->ids };

	r.before = HT_NEW_ARRAY(p->arena, enum ht_dtype *, r.ids);
	r.casts = HT_NEW_ARRAY(p->arena, struct cast *, r.ids);
	for (struct ht_node *n = r.g->first; n; n = n->next) {
		fill_results(&r, n);
		set_types(&r, n);
	}
	for (struct ht_node *n = r.g->first; n; n = n->next)
		if (n->id < r.ids)
			cast_operands(&r, n);
	cast_outputs(&r);
	cast_results(&r);
	note_all(&r);
}
