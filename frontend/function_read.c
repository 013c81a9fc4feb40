/* FunctionDef → function: the arguments become nodes of type _Arg in front of the body's nodes,
 * so that a body is a graph like any other.  The signature itself is kept unchanged. */
#include "frontend/graphdef.h"

#include <inttypes.h>

/* One ArgDef of the signature. */
struct formal {
	struct ht_str name, type_attr, number_attr, type_list_attr;
	enum ht_dtype type;
	bool is_ref;
	struct formal *next;
	struct ht_str ret; /* of a result: its value in `ret` */
	const uint8_t *at;
};

struct signature {
	struct ht_str name;
	struct formal *args, *rets;
};

static enum ht_status read_formal(struct ht_importer *im, struct ht_pb_reader r, struct formal *f)
{
	struct ht_pb_value v;
	struct ht_str s;
	uint64_t bits;

	while (ht_pb_next(&r, &v)) {
		if (v.field && v.field->kind == HT_PB_STRING)
			HT_TRY(ht_pb_string(&r, &v, &s));
		if (v.number == 1)
			f->name = ht_import_word(im, s);
		else if (v.number == 3 && ht_pb_item(&r, &v, &bits))
			f->type = (enum ht_dtype)(int32_t)bits;
		else if (v.number == 4)
			f->type_attr = ht_import_word(im, s);
		else if (v.number == 5)
			f->number_attr = ht_import_word(im, s);
		else if (v.number == 6)
			f->type_list_attr = ht_import_word(im, s);
		else if (v.number == 16)
			f->is_ref = v.u != 0;
	}
	return r.status;
}

static enum ht_status read_signature(
	struct ht_importer *im, struct ht_pb_reader r, struct signature *s)
{
	struct formal **args = &s->args, **rets = &s->rets, *f;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 1)
			HT_TRY(ht_pb_string(&r, &v, &s->name));
		if (v.number != 2 && v.number != 3)
			continue;
		f = HT_NEW(im->scratch, struct formal);
		f->at = v.at;
		HT_TRY(read_formal(im, ht_pb_enter(&r, &v), f));
		if (!f->name.n)
			return ht_pb_error(
				r.src, v.at, HT_E_INPUT, "a formal argument or result has no name");
		if (v.number == 2) {
			*args = f;
			args = &f->next;
		} else {
			*rets = f;
			rets = &f->next;
		}
	}
	return r.status;
}

static struct ht_port *add_port(
	struct ht_importer *im, struct ht_port ***end, struct ht_str name, struct ht_value value)
{
	struct ht_port *p = HT_NEW(im->a, struct ht_port);

	p->name = name;
	p->value = value;
	**end = p;
	*end = &p->next;
	return p;
}

static enum ht_status add_args(struct ht_importer *im, struct ht_function *f,
	const struct signature *s, const struct ht_pb_source *src)
{
	struct ht_port **end = &f->args;
	struct ht_attr_value *t;
	struct ht_node *n;
	int64_t index = 0;

	for (const struct formal *a = s->args; a; a = a->next) {
		if (ht_graph_node(f->body, a->name))
			return ht_pb_error(src, a->at, HT_E_INPUT,
				"function '%.*s' has two arguments '%.*s'", HT_STR_ARG(f->name),
				HT_STR_ARG(a->name));
		n = ht_node_new(f->body, HT_STR("_Arg"), a->name);
		t = ht_attr_set(n, "T");
		if (a->type_attr.n || a->type_list_attr.n) {
			t->kind = HT_ATTR_PLACEHOLDER;
			t->s = a->type_attr.n ? a->type_attr : a->type_list_attr;
		} else {
			t->kind = HT_ATTR_TYPE;
			t->type = (enum ht_dtype)(a->type + (a->is_ref ? HT_REF : 0));
		}
		ht_attr_set_int(n, "index", index++);
		ht_node_set_outs(n, 1);
		n->out[0].dtype = t->kind == HT_ATTR_TYPE ? t->type : HT_INVALID;
		n->out[0].shape = HT_SHAPE_UNKNOWN;
		add_port(im, &end, a->name, ht_out(n, 0));
	}
	return HT_OK;
}

/* An entry of a map<string, string>. */
static enum ht_status read_pair(struct ht_pb_reader r, struct ht_str *key, struct ht_str *value)
{
	struct ht_pb_value v;

	*key = *value = HT_STR("");
	while (ht_pb_next(&r, &v)) {
		if (!v.field)
			return ht_import_unknown(&r, &v);
		HT_TRY(ht_pb_string(&r, &v, v.number == 1 ? key : value));
	}
	return r.status;
}

/* Reads everything but the edges. */
static enum ht_status read_body(
	struct ht_importer *im, struct ht_function *f, struct ht_pb_reader r)
{
	struct ht_attr **attrs = &f->attrs;
	const uint8_t *start = r.p;
	struct ht_buf extra, checked;
	struct ht_pb_value v;

	ht_buf_init(&extra, im->a);
	while (ht_pb_next(&r, &v)) {
		switch (v.number) {
		case 1:
			if (f->signature.p)
				return ht_pb_error(
					r.src, v.at, HT_E_INPUT, "a function has two signatures");
			ht_buf_init(&checked, im->scratch);
			HT_TRY(ht_pb_keep(&r, &v, &checked));
			f->signature = ht_str_copy(im->a, v.s);
			break;
		case 3:
			HT_TRY(ht_import_node(im, f->body, ht_pb_enter(&r, &v), v.at));
			break;
		case 4:
		case 6:
			break;
		case 5:
			HT_TRY(ht_import_attr_entry(im, ht_pb_enter(&r, &v), &attrs));
			break;
		default:
			HT_TRY(ht_pb_keep(&r, &v, &extra));
		}
	}
	if (extra.n)
		f->extra = ht_buf_str(&extra);
	return r.status == HT_OK ? ht_import_check_attrs(im, f->attrs, r.src, start) : r.status;
}

static enum ht_status add_control_ret(struct ht_importer *im, struct ht_function *f,
	struct ht_port ***end, struct ht_str key, struct ht_str node, struct ht_where at)
{
	struct ht_node *n = ht_graph_node(f->body, node);

	if (!n)
		return ht_error(im->diags, HT_E_INPUT, at,
			"function '%.*s': control result '%.*s' names '%.*s', which is not in its body",
			HT_STR_ARG(f->name), HT_STR_ARG(key), HT_STR_ARG(node));
	add_port(im, end, ht_import_word(im, key), (struct ht_value){ n, -1, { 0 } });
	return HT_OK;
}

/* `ret` gives a value to each formal result; entries for no formal are kept behind them. */
static enum ht_status read_rets(
	struct ht_importer *im, struct ht_function *f, struct signature *s, struct ht_pb_reader r)
{
	struct ht_import_edges e = { .im = im, .g = f->body, .src = r.src };
	struct formal **end = &s->rets, *formal;
	struct ht_port **rets = &f->rets, **controls = &f->control_rets;
	struct ht_str key, value;
	struct ht_map by_name;
	struct ht_pb_value v;

	e.outs = HT_NEW_ARRAY(im->scratch, int32_t, f->body->ids);
	for (struct ht_node *n = f->body->first; n; n = n->next)
		e.outs[n->id] = n->outs;
	ht_map_init(&by_name, im->scratch);
	for (; *end; end = &(*end)->next) {
		struct ht_map_entry *entry = ht_map_at(&by_name, (*end)->name);

		if (entry->value)
			return ht_pb_error(r.src, (*end)->at, HT_E_INPUT,
				"function '%.*s' has two results '%.*s'", HT_STR_ARG(f->name),
				HT_STR_ARG((*end)->name));
		entry->value = *end;
	}
	while (ht_pb_next(&r, &v)) {
		if (v.number != 4 && v.number != 6)
			continue;
		HT_TRY(read_pair(ht_pb_enter(&r, &v), &key, &value));
		if (v.number == 6) {
			HT_TRY(add_control_ret(
				im, f, &controls, key, value, ht_pb_where(r.src, v.at)));
			continue;
		}
		formal = ht_map_get(&by_name, key);
		if (!formal) {
			formal = HT_NEW(im->scratch, struct formal);
			formal->name = ht_import_word(im, key);
			ht_map_at(&by_name, formal->name)->value = formal;
			*end = formal;
			end = &formal->next;
		}
		if (formal->ret.p)
			return ht_pb_error(r.src, v.at, HT_E_INPUT, "result '%.*s' is given twice",
				HT_STR_ARG(key));
		formal->ret = value;
		formal->at = v.at;
	}
	for (formal = s->rets; formal && r.status == HT_OK; formal = formal->next) {
		struct ht_value value_of;

		if (!formal->ret.p)
			return ht_pb_error(r.src, formal->at, HT_E_INPUT,
				"function '%.*s' does not say what its result '%.*s' is",
				HT_STR_ARG(f->name), HT_STR_ARG(formal->name));
		HT_TRY(ht_import_ref(&e, formal->ret, ht_pb_where(r.src, formal->at), &value_of));
		if (value_of.index >= value_of.node->outs)
			ht_node_set_outs(value_of.node, value_of.index + 1);
		add_port(im, &rets, formal->name, value_of);
	}
	return r.status;
}

enum ht_status ht_import_function(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r, const uint8_t *at)
{
	struct signature s = { 0 };
	struct ht_function *f;
	struct ht_pb_reader head = r;
	struct ht_node *last_arg;
	struct ht_pb_value v;
	size_t args = 0;

	if (r.status != HT_OK)
		return r.status;
	if (++im->functions > im->limit.functions)
		return ht_pb_error(
			r.src, at, HT_E_LIMIT, "more than %zu functions", im->limit.functions);
	while (ht_pb_next(&head, &v))
		if (v.number == 1)
			HT_TRY(read_signature(im, ht_pb_enter(&head, &v), &s));
	if (head.status != HT_OK)
		return head.status;
	if (!s.name.n)
		return ht_pb_error(r.src, at, HT_E_INPUT, "a function has no name");
	if (ht_graph_function(g, s.name))
		return ht_pb_error(
			r.src, at, HT_E_INPUT, "a second function '%.*s'", HT_STR_ARG(s.name));
	f = ht_function_new(g, s.name);
	for (const struct formal *a = s.args; a; a = a->next)
		args++;
	ht_import_expect_nodes(im, f->body, args + ht_pb_count(r, 3));
	HT_TRY(add_args(im, f, &s, r.src));
	last_arg = f->body->last;
	HT_TRY(read_body(im, f, r));
	HT_TRY(ht_import_inputs(im, f->body, r, 3, last_arg ? last_arg->next : f->body->first));
	return read_rets(im, f, &s, r);
}
