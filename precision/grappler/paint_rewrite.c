/* Writes the painted types into the graph. */
#include "precision/grappler/paint.h"

#include "precision/precision.h"

#include <string.h>

/* Casts of one result: to the low type, and from it back to float32. */
struct pair {
	struct ht_node *low, *f32;
	int backs; /* of casts of `low` back to float32: the first number that may be free for a
		    * name */
};

struct rewrite {
	struct ht_paint_graph *p;
	const struct ht_painted *how;
	struct ht_str prefix; /* of names in the report */
	struct ht_decisions *out;
	struct pair *casts; /* by number in out_vertex */
	uint32_t ids;       /* of the graph before the rewriting */
	struct ht_buf name; /* of the cast being made */
};

static bool is_low(const struct rewrite *r, uint32_t v)
{
	return v != HT_NO_VERTEX && r->how->low_vertex[v];
}

static uint32_t operand_vertex(const struct rewrite *r, const struct ht_node *n, int32_t i)
{
	return r->p->op[n->id] ? r->p->in_vertex[r->p->first_in[n->id] + (uint32_t)i]
			       : HT_NO_VERTEX;
}

/* ---- the report ---- */

static struct ht_str reported(struct rewrite *r, struct ht_str name)
{
	return r->prefix.n ? ht_str_printf(r->out->arena, "%.*s%.*s", HT_STR_ARG(r->prefix),
				     HT_STR_ARG(name))
			   : name;
}

static struct ht_str attr_of(struct rewrite *r, uint32_t v)
{
	const struct ht_vertex *at = &r->p->vertex[v];
	const char *name = r->p->op[at->node->id]->attr[at->attr].name;

	return at->item < 0 ? ht_str(name)
			    : ht_str_printf(r->out->arena, "%s[%d]", name, (int)at->item);
}

static struct ht_decided_type *note_type(
	struct rewrite *r, uint32_t v, enum ht_dtype to, const struct ht_dtype_reason *rule)
{
	struct ht_decisions *d = r->out;
	const struct ht_node *n = r->p->vertex[v].node;
	const struct ht_node *followed = r->how->followed ? r->how->followed[v] : NULL;

	d->type = ht_grow(d->arena, d->type, d->types, &d->type_cap, sizeof *d->type);
	d->type[d->types] = (struct ht_decided_type){
		.origin = n->origin,
		.origins = r->prefix.n ? 0 : n->origins,
		.node = reported(r, n->name),
		.attr = attr_of(r, v),
		.from = (enum ht_dtype)r->p->vertex[v].dtype,
		.to = to,
		.rule = rule,
	};
	if (followed)
		d->type[d->types].followed = reported(r, followed->name);
	return &d->type[d->types++];
}

/* Attribute U is new in a batch norm that became one of the second version. */
static bool is_new_attr(const struct rewrite *r, uint32_t v)
{
	const struct ht_vertex *at = &r->p->vertex[v];

	return r->how->renamed[at->node->id] && at->attr >= 0 && !is_low(r, v) &&
	       !strcmp(r->p->op[at->node->id]->attr[at->attr].name, "U");
}

static void note_unit(struct rewrite *r, uint32_t v)
{
	enum ht_dtype from = (enum ht_dtype)r->p->vertex[v].dtype, low = r->how->low;
	bool changes = is_low(r, v) && !r->how->emulate;
	const struct ht_dtype_reason *rule = r->how->rule[v] ? r->how->rule[v] : HT_BY(NOT_PAINTED);
	struct ht_decided_type *t = note_type(r, v, changes ? low : from, rule);

	if (is_low(r, v) && r->how->emulate)
		t->emulated = low;
	if (is_new_attr(r, v)) {
		t->stated = true;
		t->rule = HT_BY(NEW_TYPE);
	}
	for (int a = 0; a < HT_ASKED_END; a++) {
		enum ht_dtype asked = ht_asked_dtype((enum ht_asked)a);
		if (asked != t->to)
			t->why_not[a] = asked == low || asked == HT_F32 ? rule : HT_BY(NOT_GIVEN);
	}
}

static bool is_float_unit(const struct rewrite *r, uint32_t v)
{
	return r->p->vertex[v].attr >= 0 && ht_is_float((enum ht_dtype)r->p->vertex[v].dtype);
}

/* Reports all types of a node; NULL: it has no floats. */
static struct ht_decided_node *note_node(struct rewrite *r, const struct ht_node *n)
{
	struct ht_decided_node *d;
	bool floats = ht_has_floats(n, r->out->arena);

	for (uint32_t v = r->p->first_vertex[n->id]; v < r->p->vertex_end[n->id]; v++)
		floats |= is_float_unit(r, v);
	if (!floats)
		return NULL;
	d = ht_note_node(r->out, n, reported(r, n->name));
	if (r->how->renamed[n->id]) {
		d->becomes = n->type;
		d->op = ht_str_is(n->type, "FusedBatchNormV2") ? HT_STR("FusedBatchNorm")
							       : HT_STR("FusedBatchNormGrad");
	}
	for (uint32_t v = r->p->first_vertex[n->id]; v < r->p->vertex_end[n->id]; v++)
		if (is_float_unit(r, v))
			note_unit(r, v);
	d->types = r->out->types - d->first_type;
	return d;
}

/* The number of a result, for names; casts that are made here have one result. */
static int32_t port_of(const struct rewrite *r, struct ht_value v)
{
	return v.node->id < r->ids ? ht_paint_result(r->p, v) : 0;
}

static void note_cast(
	struct rewrite *r, const struct ht_node *cast, enum ht_dtype from, enum ht_dtype to)
{
	struct ht_decisions *d = r->out;
	struct ht_value v = cast->in[0];
	int32_t port = port_of(r, v);
	struct ht_str source = reported(r, v.node->name);

	if (port > 0)
		source = ht_str_printf(d->arena, "%.*s:%d", HT_STR_ARG(source), (int)port);
	d->cast = ht_grow(d->arena, d->cast, d->casts, &d->cast_cap, sizeof *d->cast);
	d->cast[d->casts++] = (struct ht_decided_cast){
		.name = reported(r, cast->name),
		.source = source,
		.from = from,
		.to = to,
		.constant = ht_is(v.node, HT_CONSTANT),
		.elements = v.index >= 0 && v.index < v.node->outs
				    ? ht_shape_count(ht_type_of(v)->shape)
				    : -1,
		.price = -1,
	};
}

/* ---- types ---- */

static void set_type(struct rewrite *r, uint32_t v)
{
	struct ht_vertex *at = &r->p->vertex[v];
	struct ht_node *n = at->node;
	const char *name = r->p->op[n->id]->attr[at->attr].name;
	enum ht_dtype low = r->how->low;
	struct ht_attr *a;

	if (!r->out->complete)
		note_type(r, v, low, r->how->rule[v]);
	if (at->item < 0) {
		ht_attr_set_type(n, name, low);
		return;
	}
	a = ht_attr_own(n, name);
	a->value.list.item[at->item].type = low;
}

/* The results' types as the op's definition states them, since types have not been inferred. */
static void note_results(struct rewrite *r, struct ht_decided_node *told, struct ht_node *n)
{
	uint8_t *dtype = ht_note_results(r->out, told, n);

	for (int32_t i = 0; i < n->outs; i++) {
		uint32_t v = ht_paint_source(r->p, ht_out(n, i));
		if (dtype[i] == HT_INVALID && v != HT_NO_VERTEX)
			dtype[i] = is_low(r, v) && !r->how->emulate
					   ? (uint8_t)r->how->low
					   : r->p->vertex[v].dtype % HT_REF;
	}
}

static void set_types(struct rewrite *r, struct ht_node *n)
{
	struct ht_paint_graph *p = r->p;
	struct ht_decided_node *told = r->out->complete ? note_node(r, n) : NULL;
	bool any_float = false, any_low = false;

	for (uint32_t v = p->first_vertex[n->id]; v < p->vertex_end[n->id]; v++) {
		any_float |=
			p->vertex[v].attr >= 0 && ht_is_float((enum ht_dtype)p->vertex[v].dtype);
		any_low |= is_low(r, v);
	}
	r->out->float_nodes += any_float;
	r->out->low_nodes += any_low;
	for (uint32_t v = p->first_vertex[n->id]; v < p->vertex_end[n->id]; v++) {
		if (is_new_attr(r, v) && !r->out->complete)
			note_type(r, v, HT_F32, HT_BY(NEW_TYPE));
		if (is_low(r, v) && !r->how->emulate)
			set_type(r, v);
	}
	for (int32_t i = 0; i < n->outs; i++)
		if (is_low(r, ht_paint_source(p, ht_out(n, i))) && !r->how->emulate &&
			n->out[i].dtype != HT_INVALID)
			n->out[i].dtype = r->how->low;
	if (told)
		note_results(r, told, n);
}

/* ---- casts ---- */

static void put_number(struct ht_buf *b, int n)
{
	char digit[12], *p = digit + sizeof digit;
	unsigned rest = n < 0 ? 0u - (unsigned)n : (unsigned)n;

	do
		*--p = (char)('0' + rest % 10);
	while (rest /= 10);
	if (n < 0)
		*--p = '-';
	ht_put(b, p, (size_t)(digit + sizeof digit - p));
}

/* A free name, valid until the next call: "SOURCE-PORT-CastToTYPE-NUMBER-SUFFIX". The search
 * begins at *number, which is then set behind the number that was taken.  It avoids printf,
 * since emulation makes several casts for each node. */
static struct ht_str cast_name(struct rewrite *r, struct ht_value v, enum ht_dtype to, int *number)
{
	struct ht_buf *b = &r->name;

	do {
		b->n = 0;
		ht_put_str(b, v.node->name);
		ht_putc(b, '-');
		put_number(b, (int)port_of(r, v));
		ht_puts(b, to == HT_F32   ? "-CastToFp32-"
			   : to == HT_F16 ? "-CastToFp16-"
					  : "-CastToBf16-");
		put_number(b, (*number)++);
		ht_putc(b, '-');
		ht_puts(b, r->how->suffix);
	} while (ht_graph_node(r->p->graph, ht_buf_str(b)));
	return ht_buf_str(b);
}

static struct ht_node *new_cast(struct rewrite *r, struct ht_value v, enum ht_dtype to, int *number)
{
	struct ht_graph *g = r->p->graph;
	enum ht_dtype from = to == HT_F32 ? r->how->low : HT_F32;
	struct ht_node *source = v.node,
		       *n = ht_node_new(g, HT_STR("Cast"), cast_name(r, v, to, number));
	struct ht_type type = { to, HT_SHAPE_UNKNOWN };

	if (v.index < source->outs && !v.port.n)
		type.shape = source->out[v.index].shape;
	n->device = source->device;
	ht_attr_set_type(n, "SrcT", from);
	ht_attr_set_type(n, "DstT", to);
	ht_attr_set_bool(n, "Truncate", false);
	ht_node_set_ins(n, &v, 1);
	ht_node_set_outs(n, 1);
	n->out[0] = type;
	if (source->next)
		ht_node_move(n, source->next);
	note_cast(r, n, from, to);
	return n;
}

/* Results of an unknown op that a function refers to by name do not share their casts. */
static struct pair *casts_of(struct rewrite *r, struct ht_value v)
{
	int32_t i = ht_paint_result(r->p, v);
	uint32_t id = v.node->id;

	if (i < 0 || (uint32_t)i >= r->p->out_end[id] - r->p->first_out[id])
		return HT_NEW(r->p->arena, struct pair);
	return &r->casts[r->p->first_out[id] + (uint32_t)i];
}

static struct ht_value to_low(struct rewrite *r, struct ht_value v)
{
	struct pair *c = casts_of(r, v);
	int number = 0;

	if (!c->low)
		c->low = new_cast(r, v, r->how->low, &number);
	return ht_out(c->low, 0);
}

/* A separate cast of the rounded value back to float32. */
static struct ht_value back(struct rewrite *r, struct ht_value v)
{
	struct ht_value low = to_low(r, v);

	return ht_out(new_cast(r, low, HT_F32, &casts_of(r, v)->backs), 0);
}

/* Casts a low value back to float32: a painted result, or its rounding if the low type is
 * emulated. */
static struct ht_value to_f32(struct rewrite *r, struct ht_value v)
{
	struct pair *c = casts_of(r, v);
	int number = 0;

	if (!c->f32)
		c->f32 = r->how->emulate ? back(r, v).node : new_cast(r, v, HT_F32, &number);
	return ht_out(c->f32, 0);
}

/* The replacement of `v` as an operand of a node. */
static struct ht_value cast_for(struct rewrite *r, struct ht_value v, bool low)
{
	uint32_t from = ht_paint_source(r->p, v);

	if (r->how->emulate && low)
		return back(r, v);
	if (is_low(r, from) == low)
		return v;
	return low ? to_low(r, v) : to_f32(r, v);
}

static void cast_operands(struct rewrite *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		/* On a back edge there is no place for a cast, and none is needed, as both sides
		 * agree. */
		if (n->in[i].node->id < r->ids && !ht_closes_loop(n->in[i].node, n))
			n->in[i] = cast_for(r, n->in[i], is_low(r, operand_vertex(r, n, i)));
	}
}

static void cast_ports(struct rewrite *r, struct ht_port *port)
{
	for (; port; port = port->next)
		if (port->value.node->id < r->ids)
			port->value = cast_for(r, port->value, false);
}

void ht_paint_rewrite(struct ht_paint_graph *p, const struct ht_painted *how, struct ht_str prefix,
	struct ht_decisions *out)
{
	struct rewrite r = {
		.p = p, .how = how, .prefix = prefix, .out = out, .ids = p->graph->ids
	};
	struct ht_node *last = p->graph->last;

	out->painted = how->low;
	out->emulates = how->emulate;
	out->suffix = how->suffix;
	ht_buf_init(&r.name, p->arena);
	r.casts = HT_NEW_ARRAY(p->arena, struct pair, p->outs);
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		set_types(&r, n);
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		if (n->id < r.ids)
			cast_operands(&r, n);
		if (n == last)
			break;
	}
	for (struct ht_entry *e = p->graph->entries; e; e = e->next)
		cast_ports(&r, e->outputs);
	if (p->graph->function)
		cast_ports(&r, p->graph->function->rets);
}
