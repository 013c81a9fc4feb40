/* customize_dtypes: dtypes for the operands and results of a node or an op type, one a line:
 *
 *   NAME:InputDtype:d,d,…OutputDtype:d,…    OpType::TYPE:InputDtype:…
 *
 * The name ends at the first colon; a second colon behind it is the manual's spelling.  An empty
 * dtype leaves its operand free.  Blank lines, and lines that begin with #, are ignored. */
#include "precision/policy.h"

#include <string.h>

#define LEGAL "NAME::InputDtype:float16,...OutputDtype:float16,... or OpType::TYPE:InputDtype:..."

struct custom {
	struct ht_parse *parse;
	struct ht_rules *rules;
	long line;
};

static enum ht_status refuse(struct custom *c, const char *what, struct ht_str found)
{
	return ht_error(c->parse->diags, HT_E_INPUT, ht_at_line(c->parse->path, c->line),
		"%s: '%.*s'; a line is %s", what, HT_STR_ARG(found), LEGAL);
}

/* The vendor's names of dtypes; the prefix "DT_" is permitted. */
enum ht_dtype ht_vendor_dtype(struct ht_str name)
{
	static const struct {
		const char *name;
		enum ht_dtype t;
	} names[] = { { "float", HT_F32 }, { "float32", HT_F32 }, { "float16", HT_F16 },
		{ "bfloat16", HT_BF16 }, { "double", HT_F64 }, { "int8", HT_I8 },
		{ "int16", HT_I16 }, { "int32", HT_I32 }, { "int64", HT_I64 }, { "uint8", HT_U8 },
		{ "uint16", HT_U16 }, { "uint32", HT_U32 }, { "uint64", HT_U64 },
		{ "bool", HT_BOOL }, { "complex64", HT_C64 }, { "complex128", HT_C128 },
		{ "qint8", HT_QI8 }, { "qint16", HT_QI16 }, { "qint32", HT_QI32 },
		{ "quint8", HT_QU8 }, { "quint16", HT_QU16 }, { "string", HT_STRING },
		{ "resource", HT_RESOURCE }, { "variant", HT_VARIANT }, { "int4", HT_I4 },
		{ "int2", HT_I2 }, { "float8_e5m2", HT_F8E5M2 }, { "float8_e4m3fn", HT_F8E4M3FN } };

	for (size_t i = 0; i < HT_COUNT(names); i++)
		if (strlen(names[i].name) == name.n && !strncasecmp(names[i].name, name.p, name.n))
			return names[i].t;
	return HT_INVALID;
}

static enum ht_status parse_dtypes(struct custom *c, struct ht_str s, const uint8_t **out, int *n)
{
	uint8_t *list = ht_alloc(c->parse->arena, HT_MAX_CUSTOM);

	*n = 0;
	*out = list;
	for (bool last = false; !last;) {
		const char *comma = memchr(s.p, ',', s.n);
		size_t length = comma ? (size_t)(comma - s.p) : s.n;
		struct ht_str item = ht_trim((struct ht_str){ s.p, length });
		last = !comma;
		if (*n == HT_MAX_CUSTOM)
			return refuse(c, "more dtypes than an op has operands", item);
		list[*n] = (uint8_t)ht_vendor_dtype(item);
		if (item.n && list[*n] == HT_INVALID)
			return ht_error(c->parse->diags, HT_E_INPUT,
				ht_at_line(c->parse->path, c->line),
				"'%.*s' is no dtype; there are float, float32, float16, bfloat16, double, "
				"int8 to int64, uint8 to uint64, bool, complex64, complex128",
				HT_STR_ARG(item));
		++*n;
		s.p += length + !last;
		s.n -= length + !last;
	}
	return HT_OK;
}

static const char *find(struct ht_str s, const char *word)
{
	return memmem(s.p, s.n, word, strlen(word));
}

/* Parses what follows one of the words: a colon and the dtypes. */
static enum ht_status parse_side(struct custom *c, const char *word, const char *from,
	const char *end, const uint8_t **out, int *n)
{
	struct ht_str s = { from + strlen(word), (size_t)(end - from) - strlen(word) };

	if (!s.n || *s.p != ':')
		return refuse(
			c, "a colon is missing behind", (struct ht_str){ word, strlen(word) });
	return parse_dtypes(c, ht_trim((struct ht_str){ s.p + 1, s.n - 1 }), out, n);
}

static enum ht_status parse_sides(struct custom *c, struct ht_str s, struct ht_rule *r)
{
	const char *in = find(s, "InputDtype"), *out = find(s, "OutputDtype"), *end = s.p + s.n;
	const char *first = in ? in : out;
	struct ht_str between;

	if (!first)
		return refuse(c, "neither InputDtype nor OutputDtype", s);
	if (in && out && out < in)
		return refuse(c, "OutputDtype stands before InputDtype", s);
	between = ht_trim((struct ht_str){ s.p, (size_t)(first - s.p) });
	if (between.n && !ht_str_is(between, ":"))
		return refuse(c, "text between the name and InputDtype or OutputDtype", between);
	if (in)
		HT_TRY(parse_side(c, "InputDtype", in, out ? out : end, &r->in, &r->ins));
	if (out)
		HT_TRY(parse_side(c, "OutputDtype", out, end, &r->out, &r->outs));
	return HT_OK;
}

static enum ht_status parse_line(void *self, struct ht_str s, long line)
{
	struct custom *c = self;
	struct ht_parse *p = c->parse;
	bool is_type = ht_str_starts(s, "OpType::"), old;
	struct ht_rule parsed = { 0 }, *r;
	struct ht_str name;
	const char *colon;

	c->line = line;
	if (is_type)
		s = (struct ht_str){ s.p + 8, s.n - 8 };
	colon = memchr(s.p, ':', s.n);
	if (!colon)
		return refuse(c, "no colon behind the name", s);
	name = ht_trim((struct ht_str){ s.p, (size_t)(colon - s.p) });
	if (!name.n)
		return refuse(c, "no name", s);
	HT_TRY(parse_sides(
		c, (struct ht_str){ colon + 1, s.n - (size_t)(colon + 1 - s.p) }, &parsed));
	r = ht_rules_add(c->rules, p->arena, name, is_type, line, &old);
	if (old) {
		ht_warn(p->diags, ht_at_line(p->path, line),
			"'%.*s' stands in line %ld already, which counts", HT_STR_ARG(name),
			r->line);
		return HT_OK;
	}
	r->in = parsed.in;
	r->ins = parsed.ins;
	r->out = parsed.out;
	r->outs = parsed.outs;
	return HT_OK;
}

enum ht_status ht_customize_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	return ht_each_line(p, text, parse_line, &(struct custom){ .parse = p, .rules = out });
}
