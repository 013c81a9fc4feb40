/* Reads attributes of the .hir form. */
#include "ir/text_parse.h"

#include <string.h>

#define MAX_DEPTH 64

static enum ht_status read_value(struct ht_parse *p, struct ht_attr_value *v);

static bool has_point(struct ht_str s)
{
	return memchr(s.p, '.', s.n) || memchr(s.p, 'e', s.n) || memchr(s.p, 'f', s.n);
}

static enum ht_status read_number(struct ht_parse *p, struct ht_attr_value *v)
{
	struct ht_lex *l = &p->lex;
	struct ht_str s;
	bool hex;
	uint32_t bits;
	int64_t wide;
	double d;

	HT_TRY(ht_lex_token(l, &s));
	hex = s.n == 10 && s.p[0] == '0' && s.p[1] == 'x';
	if (hex) { /* the bits of a float */
		wide = 0;
		for (size_t i = 2; i < s.n; i++) {
			const char *at = memchr("0123456789abcdef", s.p[i], 16);

			if (!at)
				return ht_lex_fail(l, s.p, "'%.*s' is no number", HT_STR_ARG(s));
			wide = wide << 4 | (at - "0123456789abcdef");
		}
		bits = (uint32_t)wide;
		v->kind = HT_ATTR_FLOAT;
		memcpy(&v->f, &bits, sizeof v->f);
		return HT_OK;
	}
	if (ht_parse_int(s, &v->i)) {
		v->kind = HT_ATTR_INT;
		return HT_OK;
	}
	/* An integer that is too large must not be read as a float. */
	if (!ht_is_decimal(s) || !has_point(s) || !ht_parse_double(s, &d))
		return ht_lex_fail(l, s.p, "'%.*s' is no number", HT_STR_ARG(s));
	v->kind = HT_ATTR_FLOAT;
	v->f = (float)d;
	return HT_OK;
}

static enum ht_status read_shape(struct ht_parse *p, struct ht_attr_value *v)
{
	struct ht_shape_rest rest = { 0 };
	struct ht_lex *l = &p->lex;
	const char *at;
	size_t names;

	v->kind = HT_ATTR_SHAPE;
	HT_TRY(ht_lex_shape(l, p->g->sym_count, &v->shape.shape));
	ht_lex_peek(l);
	at = l->p;
	if (ht_lex_word(l, "names")) {
		HT_TRY(ht_lex_strings(l, &rest.dim_names, &names));
		if (v->shape.shape.rank < 0 || (size_t)v->shape.shape.rank != names)
			return ht_lex_fail(l, at, "as many names as axes are needed");
	}
	if (ht_lex_word(l, "extra"))
		HT_TRY(ht_lex_string(l, &rest.extra));
	if (rest.dim_names || rest.extra.n) {
		v->shape.rest = HT_NEW(l->a, struct ht_shape_rest);
		*v->shape.rest = rest;
	}
	return HT_OK;
}

static enum ht_status read_func(struct ht_parse *p, struct ht_attr_value *v)
{
	v->kind = HT_ATTR_FUNC;
	v->func = HT_NEW(p->lex.a, struct ht_func_ref);
	HT_TRY(ht_lex_name(&p->lex, &v->func->name));
	v->func->name = ht_str_copy(p->lex.a, v->func->name);
	HT_TRY(ht_parse_attrs(p, &v->func->attrs));
	if (ht_lex_word(&p->lex, "extra"))
		HT_TRY(ht_lex_string(&p->lex, &v->func->extra));
	return HT_OK;
}

static enum ht_status read_list(struct ht_parse *p, struct ht_attr_value *v)
{
	struct ht_lex *l = &p->lex;
	size_t cap = 0;

	v->kind = HT_ATTR_LIST;
	if (ht_lex_accept(l, ']'))
		return HT_OK;
	do {
		const char *at = (ht_lex_peek(l), l->p);

		v->list.item = ht_grow(l->a, v->list.item, v->list.n, &cap, sizeof *v->list.item);
		HT_TRY(read_value(p, &v->list.item[v->list.n]));
		if (v->list.n && v->list.item[v->list.n].kind != v->list.kind)
			return ht_lex_fail(l, at, "the items of a list have one kind");
		v->list.kind = v->list.item[v->list.n++].kind;
	} while (ht_lex_accept(l, ','));
	return ht_lex_expect(l, ']');
}

static enum ht_status read_word(struct ht_parse *p, struct ht_attr_value *v)
{
	struct ht_lex *l = &p->lex;

	if (ht_lex_word(l, "none")) {
		v->kind = HT_ATTR_NONE;
	} else if (ht_lex_word(l, "true") || ht_lex_word(l, "false")) {
		v->kind = HT_ATTR_BOOL;
		v->b = l->p[-2] == 'u';
	} else if (ht_lex_word(l, "inf") || ht_lex_word(l, "nan")) {
		v->kind = HT_ATTR_FLOAT;
		v->f = l->p[-1] == 'f' ? __builtin_inff() : __builtin_nanf("");
	} else if (ht_lex_word(l, "shape")) {
		return read_shape(p, v);
	} else if (ht_lex_word(l, "tensor")) {
		v->kind = HT_ATTR_TENSOR;
		return ht_parse_tensor(p, &v->tensor);
	} else {
		v->kind = HT_ATTR_TYPE;
		return ht_lex_dtype(l, &v->type);
	}
	return HT_OK;
}

static enum ht_status read_nested(struct ht_parse *p, struct ht_attr_value *v)
{
	struct ht_lex *l = &p->lex;
	char c = ht_lex_peek(l);

	if (c == '"') {
		v->kind = HT_ATTR_STRING;
		return ht_lex_string(l, &v->s);
	}
	if (ht_lex_accept(l, '['))
		return read_list(p, v);
	if (ht_lex_accept(l, '@'))
		return read_func(p, v);
	if (ht_lex_accept(l, '$')) {
		v->kind = HT_ATTR_PLACEHOLDER;
		HT_TRY(ht_lex_name(l, &v->s));
		v->s = ht_str_copy(l->a, v->s);
		return HT_OK;
	}
	if (ht_is_digit(c) || c == '-' || c == '+' || c == '.')
		return read_number(p, v);
	return read_word(p, v);
}

static enum ht_status read_value(struct ht_parse *p, struct ht_attr_value *v)
{
	enum ht_status st;

	if (p->depth == MAX_DEPTH)
		return ht_lex_limit(
			&p->lex, p->lex.p, "attributes are nested more than %d deep", MAX_DEPTH);
	p->depth++;
	st = read_nested(p, v);
	p->depth--;
	return st;
}

enum ht_status ht_parse_attrs(struct ht_parse *p, struct ht_attr **out)
{
	struct ht_lex *l = &p->lex;

	*out = NULL;
	HT_TRY(ht_lex_expect(l, '{'));
	if (ht_lex_accept(l, '}'))
		return HT_OK;
	do {
		struct ht_attr *a = *out = HT_NEW(l->a, struct ht_attr);

		HT_TRY(ht_lex_name(l, &a->name));
		a->name = ht_str_copy(l->a, a->name);
		HT_TRY(ht_lex_expect(l, '='));
		HT_TRY(read_value(p, &a->value));
		out = &a->next;
	} while (ht_lex_accept(l, ','));
	return ht_lex_expect(l, '}');
}
