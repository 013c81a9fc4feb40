/* Reads the .hir form.  docs/hir.md has the grammar. */
#include "ir/text_parse.h"

#include <string.h>

/* ---- uses of nodes ---- */

static struct ht_pending *new_pending(struct ht_parse *p, const char *at, struct ht_str name)
{
	struct ht_pending *n;

	p->pending =
		ht_grow(p->lex.a, p->pending, p->pendings, &p->pending_cap, sizeof *p->pending);
	n = &p->pending[p->pendings++];
	*n = (struct ht_pending){ .at = at, .name = name };
	return n;
}

/* An opaque node has as many results as are used. */
#define MAX_OPAQUE_RESULTS 65536

static enum ht_status resolve_value(
	struct ht_parse *p, const struct ht_pending *use, struct ht_node *n)
{
	struct ht_value *v = use->value;

	v->node = n;
	if (n->op != HT_OP_OPAQUE || v->port.n || v->index < n->outs)
		return HT_OK;
	if (v->index >= MAX_OPAQUE_RESULTS)
		return ht_lex_limit(&p->lex, use->at, "result %d is beyond the limit of %d",
			(int)v->index, MAX_OPAQUE_RESULTS);
	ht_node_set_outs(n, v->index + 1);
	return HT_OK;
}

static enum ht_status resolve(struct ht_parse *p)
{
	for (size_t i = 0; i < p->pendings; i++) {
		const struct ht_pending *use = &p->pending[i];
		struct ht_node *n = ht_graph_node(p->g, use->name);

		if (!n)
			return ht_lex_fail(
				&p->lex, use->at, "there is no node '%.*s'", HT_STR_ARG(use->name));
		if (use->control)
			*use->control = n;
		else
			HT_TRY(resolve_value(p, use, n));
	}
	p->pendings = 0;
	return HT_OK;
}

/* Reads %name, %name:1 or %name:port:0; resolve() finds the node. */
static enum ht_status read_value(struct ht_parse *p, struct ht_str *name, struct ht_value *v)
{
	struct ht_lex *l = &p->lex;
	int64_t index = 0;

	*v = (struct ht_value){ 0 };
	HT_TRY(ht_lex_expect(l, '%'));
	HT_TRY(ht_lex_name(l, name));
	if (l->p < l->end && *l->p == ':' && l->p + 1 < l->end && l->p[1] != ' ') {
		l->p++;
		if (!ht_is_digit(*l->p)) {
			HT_TRY(ht_lex_name(l, &v->port));
			v->port = ht_str_copy(l->a, v->port);
			HT_TRY(ht_lex_expect(l, ':'));
		}
		HT_TRY(ht_lex_int(l, &index));
	}
	if (index < 0 || index > INT32_MAX)
		return ht_lex_fail(l, l->p, "result %lld cannot be", (long long)index);
	v->index = (int32_t)index;
	return HT_OK;
}

/* ---- nodes ---- */

struct operands {
	struct ht_value *in;
	struct ht_node **control;
	size_t ins, in_cap, controls, control_cap;
	struct ht_pending *use; /* operands and control inputs, in the order of the text */
	bool *is_control;
	size_t uses, use_cap, is_cap;
};

static enum ht_status read_operand(struct ht_parse *p, struct operands *o)
{
	struct ht_lex *l = &p->lex;
	const char *at = (ht_lex_peek(l), l->p);
	struct ht_value v;
	struct ht_str name;
	bool control = ht_lex_accept(l, '^');

	if (control) {
		HT_TRY(ht_lex_name(l, &name));
		o->control = ht_grow(
			l->a, o->control, o->controls++, &o->control_cap, sizeof *o->control);
	} else {
		HT_TRY(read_value(p, &name, &v));
		o->in = ht_grow(l->a, o->in, o->ins, &o->in_cap, sizeof *o->in);
		o->in[o->ins++] = v;
	}
	o->use = ht_grow(l->a, o->use, o->uses, &o->use_cap, sizeof *o->use);
	o->is_control = ht_grow(l->a, o->is_control, o->uses, &o->is_cap, sizeof *o->is_control);
	o->use[o->uses] = (struct ht_pending){ .at = at, .name = name };
	o->is_control[o->uses++] = control;
	return o->uses < INT32_MAX ? HT_OK : ht_lex_limit(l, at, "too many operands");
}

static enum ht_status read_operands(struct ht_parse *p, struct operands *o)
{
	HT_TRY(ht_lex_expect(&p->lex, '('));
	if (ht_lex_accept(&p->lex, ')'))
		return HT_OK;
	do {
		HT_TRY(read_operand(p, o));
	} while (ht_lex_accept(&p->lex, ','));
	return ht_lex_expect(&p->lex, ')');
}

static void attach_operands(struct ht_parse *p, struct ht_node *n, const struct operands *o)
{
	size_t in = 0, control = 0;

	ht_node_set_ins(n, o->in, (int32_t)o->ins);
	ht_node_set_controls(n, o->control, (int32_t)o->controls);
	for (size_t i = 0; i < o->uses; i++) {
		struct ht_pending *use = new_pending(p, o->use[i].at, o->use[i].name);

		if (o->is_control[i])
			use->control = &n->control[control++];
		else
			use->value = &n->in[in++];
	}
}

static enum ht_status read_type(struct ht_parse *p, struct ht_type *t)
{
	struct ht_lex *l = &p->lex;

	*t = (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
	if (!ht_lex_accept(l, '?'))
		HT_TRY(ht_lex_dtype(l, &t->dtype));
	return ht_lex_peek(l) == '[' ? ht_lex_shape(l, p->g->sym_count, &t->shape) : HT_OK;
}

/* A few characters can require many results. */
#define MAX_IMPLIED_RESULTS 4000000

/* A node without types gets the results of the op table, without types. */
static enum ht_status imply_types(struct ht_parse *p, struct ht_node *n)
{
	int32_t results = ht_node_result_count(n);

	if (results <= 0)
		return HT_OK;
	p->implied_results += (size_t)results;
	if (p->implied_results > MAX_IMPLIED_RESULTS)
		return ht_lex_limit(&p->lex, p->lex.p, "attributes ask for more than %d results",
			MAX_IMPLIED_RESULTS);
	ht_node_set_outs(n, results);
	return HT_OK;
}

static enum ht_status read_types(struct ht_parse *p, struct ht_node *n)
{
	struct ht_type t;

	if (!ht_lex_accept(&p->lex, ':'))
		return imply_types(p, n);
	if (ht_lex_word(&p->lex, "none"))
		return HT_OK;
	do {
		HT_TRY(read_type(p, &t));
		if (n->outs == INT32_MAX - 1)
			return ht_lex_limit(&p->lex, p->lex.p, "too many results");
		/* The array grows by doubling, so that long lists take linear time. */
		if ((n->outs & (n->outs - 1)) == 0) {
			struct ht_type *more = HT_NEW_ARRAY(
				p->lex.a, struct ht_type, (size_t)(n->outs ? n->outs * 2 : 1));

			if (n->outs)
				memcpy(more, n->out, (size_t)n->outs * sizeof *more);
			n->out = more;
		}
		n->out[n->outs++] = t;
	} while (ht_lex_accept(&p->lex, ','));
	return HT_OK;
}

static enum ht_status read_clauses(struct ht_parse *p, struct ht_node *n)
{
	struct ht_lex *l = &p->lex;
	struct ht_str *origin, extra;
	size_t count;

	if (ht_lex_peek(l) == '{')
		HT_TRY(ht_parse_attrs(p, &n->attrs));
	if (ht_lex_word(l, "device"))
		HT_TRY(ht_lex_string(l, &n->device));
	if (ht_lex_word(l, "extra")) {
		HT_TRY(ht_lex_string(l, &extra));
		n->extra = ht_str_kept(l->a, extra);
	}
	if (ht_lex_word(l, "from")) {
		HT_TRY(ht_lex_strings(l, &origin, &count));
		if (count > INT32_MAX)
			return ht_lex_limit(l, l->p, "too many origins");
		n->origin = origin;
		n->origins = (int32_t)count;
	}
	return HT_OK;
}

/* %name = Type(%a, %b:1, ^c) {…} device "…" extra "…" from {…} : f32[1,2], … */
static enum ht_status read_node(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	const char *at = l->p;
	struct operands o = { 0 };
	struct ht_str name, type;
	struct ht_node *n;

	HT_TRY(ht_lex_expect(l, '%'));
	HT_TRY(ht_lex_name(l, &name));
	if (ht_graph_node(p->g, name))
		return ht_lex_fail(l, at, "there is a node '%.*s' already", HT_STR_ARG(name));
	HT_TRY(ht_lex_expect(l, '='));
	HT_TRY(ht_lex_name(l, &type));
	HT_TRY(read_operands(p, &o));
	n = ht_node_new(p->g, type, name);
	attach_operands(p, n, &o);
	HT_TRY(read_clauses(p, n));
	return read_types(p, n);
}

/* ---- what surrounds nodes ---- */

static int32_t number_of(const void *graph, struct ht_str name)
{
	const struct ht_graph *g = graph;
	int64_t n;

	if (name.n < 2 || name.p[0] != 'd' || !ht_is_digit(name.p[1]) ||
		!ht_parse_int((struct ht_str){ name.p + 1, name.n - 1 }, &n) ||
		(uint64_t)n >= g->sym_count)
		return -1;
	return (int32_t)n;
}

/* Reads a number that depends on dimensions before it. */
static enum ht_status read_expr(struct ht_parse *p, struct ht_size_expr *e)
{
	struct ht_lex *l = &p->lex;
	const char *at = (ht_lex_peek(l), l->p);

	l->p += ht_size_parse((struct ht_str){ at, (size_t)(l->end - at) }, number_of, p->g, e);
	if (ht_size_is_none(e))
		return ht_lex_fail(l, l->p,
			"a dimension is a name, or a product or quotient of dimensions before this line");
	return ht_size_count(e) ? HT_OK : ht_lex_fail(l, at, "this is a number");
}

static enum ht_status read_sym(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	struct ht_graph *g = p->g;
	struct ht_sym s = { .of = HT_SIZE_NONE };
	const char *at = (ht_lex_peek(l), l->p);
	struct ht_str name;

	HT_TRY(ht_lex_name(l, &name));
	if (!ht_str_eq(name, ht_str_printf(l->a, "d%zu", g->sym_count)))
		return ht_lex_fail(l, at, "the next dimension is d%zu", g->sym_count);
	HT_TRY(ht_lex_expect(l, '='));
	if (ht_lex_word(l, "name"))
		HT_TRY(ht_lex_string(l, &s.name));
	else
		HT_TRY(read_expr(p, &s.of));
	g->syms = ht_grow(l->a, g->syms, g->sym_count, &g->sym_cap, sizeof *g->syms);
	g->syms[g->sym_count++] = s;
	return HT_OK;
}

/* Reads KIND "name" as "alias" = %value, or none, or ^node for a control result. */
static enum ht_status read_port(struct ht_parse *p, struct ht_port **end)
{
	struct ht_lex *l = &p->lex;
	struct ht_port *port = HT_NEW(l->a, struct ht_port);
	struct ht_str name;
	const char *at;

	while (*end)
		end = &(*end)->next;
	HT_TRY(ht_lex_string(l, &port->name));
	if (ht_lex_word(l, "as"))
		HT_TRY(ht_lex_string(l, &port->alias));
	HT_TRY(ht_lex_expect(l, '='));
	*end = port;
	ht_lex_peek(l);
	at = l->p;
	if (ht_lex_word(l, "none"))
		return HT_OK;
	if (ht_lex_accept(l, '^')) {
		HT_TRY(ht_lex_name(l, &name));
		port->value.index = -1;
		new_pending(p, at, name)->control = &port->value.node;
		return HT_OK;
	}
	HT_TRY(read_value(p, &name, &port->value));
	new_pending(p, at, name)->value = &port->value;
	port->strings = ht_lex_word(l, "strings");
	return HT_OK;
}

static enum ht_status read_entry(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	struct ht_entry *e = HT_NEW(l->a, struct ht_entry), **end = &p->g->entries;

	HT_TRY(ht_lex_string(l, &e->name));
	if (ht_lex_word(l, "method"))
		HT_TRY(ht_lex_string(l, &e->method));
	HT_TRY(ht_lex_expect(l, '{'));
	while (*end)
		end = &(*end)->next;
	*end = e;
	while (!ht_lex_accept(l, '}')) {
		if (ht_lex_word(l, "input"))
			HT_TRY(read_port(p, &e->inputs));
		else if (ht_lex_word(l, "output"))
			HT_TRY(read_port(p, &e->outputs));
		else
			return ht_lex_fail(l, l->p, "expected input, output or '}'");
	}
	return HT_OK;
}

static enum ht_status read_function_line(struct ht_parse *p, struct ht_function *f)
{
	struct ht_lex *l = &p->lex;

	if (ht_lex_peek(l) == '%')
		return read_node(p);
	if (ht_lex_word(l, "signature"))
		return ht_lex_string(l, &f->signature);
	if (ht_lex_word(l, "attrs"))
		return ht_parse_attrs(p, &f->attrs);
	if (ht_lex_word(l, "extra"))
		return ht_lex_string(l, &f->extra);
	if (ht_lex_word(l, "arg"))
		return read_port(p, &f->args);
	if (ht_lex_word(l, "ret"))
		return read_port(p, &f->rets);
	if (ht_lex_word(l, "control_ret"))
		return read_port(p, &f->control_rets);
	if (ht_lex_word(l, "dim"))
		return read_sym(p);
	return ht_lex_fail(l, l->p,
		"expected a node, signature, attrs, extra, arg, ret, control_ret, dim or '}'");
}

/* Uses in the body are resolved among its own nodes; pending uses of the graph are kept for
 * later. */
static enum ht_status read_function(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	const char *at = (ht_lex_peek(l), l->p);
	struct ht_parse inner = *p;
	struct ht_function *f;
	struct ht_str name;

	HT_TRY(ht_lex_string(l, &name));
	if (ht_graph_function(p->g, name))
		return ht_lex_fail(l, at, "there is a function '%.*s' already", HT_STR_ARG(name));
	HT_TRY(ht_lex_expect(l, '{'));
	f = ht_function_new(p->g, name);
	inner.lex = *l;
	inner.g = f->body;
	inner.pending = NULL;
	inner.pendings = inner.pending_cap = 0;
	while (!ht_lex_accept(&inner.lex, '}'))
		HT_TRY(read_function_line(&inner, f));
	HT_TRY(resolve(&inner));
	*l = inner.lex;
	p->constant_bytes = inner.constant_bytes;
	p->implied_results = inner.implied_results;
	return HT_OK;
}

static enum ht_status read_source(struct ht_parse *p)
{
	static const char *const sources[] = { "none", "graphdef", "metagraph", "savedmodel",
		"tfjs" };

	for (size_t i = 0; i < HT_COUNT(sources); i++)
		if (ht_lex_word(&p->lex, sources[i])) {
			p->g->source = (enum ht_source)i;
			return HT_OK;
		}
	return ht_lex_fail(
		&p->lex, p->lex.p, "a source is none, graphdef, metagraph, savedmodel or tfjs");
}

static enum ht_status read_checkpoint(struct ht_parse *p)
{
	struct ht_str s;

	HT_TRY(ht_lex_string(&p->lex, &s));
	if (memchr(s.p, 0, s.n))
		return ht_lex_fail(&p->lex, p->lex.p, "a path has no zero byte");
	p->g->checkpoint = s.p;
	return HT_OK;
}

/* Reads strings, of which the first must be empty and no two equal. */
static enum ht_status read_strings(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	const char *at = (ht_lex_peek(l), l->p);
	struct ht_map *strings = HT_NEW(l->a, struct ht_map);
	struct ht_str *s;
	size_t n;

	HT_TRY(ht_lex_strings(l, &s, &n));
	ht_strings_init(strings, l->a);
	for (size_t i = 0; i < n; i++)
		ht_map_at(strings, s[i]);
	if (!n || s[0].n || strings->count != n)
		return ht_lex_fail(
			l, at, "expected the empty string, then others, each of them once");
	p->g->strings = strings;
	return HT_OK;
}

/* Reads declarations before the first node, entry or function. */
static enum ht_status read_head(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;
	const char *at = (ht_lex_peek(l), l->p);
	int64_t version;

	if (!ht_lex_word(l, "hir"))
		return ht_lex_fail(l, at, "expected 'hir %d'", HT_HIR_VERSION);
	HT_TRY(ht_lex_int(l, &version));
	if (version != HT_HIR_VERSION)
		return ht_lex_fail(l, at, "version %lld; this program reads version %d",
			(long long)version, HT_HIR_VERSION);
	for (;;) {
		if (ht_lex_word(l, "source"))
			HT_TRY(read_source(p));
		else if (ht_lex_word(l, "versions"))
			HT_TRY(ht_lex_string(l, &p->g->versions));
		else if (ht_lex_word(l, "extra"))
			HT_TRY(ht_lex_string(l, &p->g->extra));
		else if (ht_lex_word(l, "container"))
			HT_TRY(ht_lex_string(l, &p->g->container));
		else if (ht_lex_word(l, "checkpoint"))
			HT_TRY(read_checkpoint(p));
		else if (ht_lex_word(l, "strings"))
			HT_TRY(read_strings(p));
		else
			return HT_OK;
	}
}

static enum ht_status read_line(struct ht_parse *p)
{
	struct ht_lex *l = &p->lex;

	if (ht_lex_peek(l) == '%')
		return read_node(p);
	if (ht_lex_word(l, "dim"))
		return read_sym(p);
	if (ht_lex_word(l, "entry"))
		return read_entry(p);
	if (ht_lex_word(l, "function"))
		return read_function(p);
	return ht_lex_fail(l, l->p, "expected a node, dim, entry or function");
}

enum ht_status ht_text_parse(struct ht_arena *a, struct ht_str text, const char *path,
	struct ht_file *weights, struct ht_diags *d, struct ht_graph **out)
{
	struct ht_parse p = { .lex = { .a = a,
				      .d = d,
				      .path = path,
				      .begin = text.p,
				      .p = text.p,
				      .end = text.p + text.n } };

	*out = NULL;
	HT_TRY(ht_weights_open(a, weights, d, &p.weights));
	p.g = ht_graph_new(a);
	p.g->path = path ? ht_str_copy(a, ht_str(path)).p : NULL;
	HT_TRY(read_head(&p));
	while (ht_lex_peek(&p.lex) || p.lex.p < p.lex.end)
		HT_TRY(read_line(&p));
	HT_TRY(resolve(&p));
	*out = p.g;
	return HT_OK;
}
