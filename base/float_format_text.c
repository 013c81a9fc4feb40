/* Number formats as text. */
#include "base/float_format.h"

#include <string.h>

struct parsing {
	const char *what;
	struct ht_str text; /* the text of the format */
	struct ht_str at;   /* the property that is being read */
	struct ht_diags *d;
	struct ht_float_format *f;
	bool has_bias, has_nan, has_inf, inf;
};

static enum ht_status wrong(const struct parsing *p, const char *expected)
{
	return ht_error(p->d, HT_E_USAGE, HT_NOWHERE, "%s: format '%.*s', at '%.*s': %s", p->what,
		HT_STR_ARG(p->text), HT_STR_ARG(p->at), expected);
}

/* ---- values ---- */

static enum ht_status read_bits(
	struct parsing *p, struct ht_str v, int64_t least, int64_t most, int *out)
{
	char expected[64];
	int64_t n;

	if (ht_parse_int(v, &n) && n >= least && n <= most) {
		*out = (int)n;
		return HT_OK;
	}
	snprintf(expected, sizeof expected, "expected a number from %lld to %lld", (long long)least,
		(long long)most);
	return wrong(p, expected);
}

static enum ht_status read_bool(struct parsing *p, struct ht_str v, bool *out)
{
	*out = ht_str_is(v, "yes");
	return *out || ht_str_is(v, "no") ? HT_OK : wrong(p, "expected yes or no");
}

static enum ht_status read_exponent(struct parsing *p, struct ht_str v)
{
	return read_bits(p, v, 1, HT_FORMAT_MAX_EXPONENT, &p->f->exponent);
}

static enum ht_status read_mantissa(struct parsing *p, struct ht_str v)
{
	return read_bits(p, v, 1, HT_FORMAT_MAX_MANTISSA, &p->f->mantissa);
}

static enum ht_status read_bias(struct parsing *p, struct ht_str v)
{
	p->has_bias = true;
	return read_bits(p, v, -127, 255, &p->f->bias);
}

static enum ht_status read_inf(struct parsing *p, struct ht_str v)
{
	p->has_inf = true;
	return read_bool(p, v, &p->inf);
}

static enum ht_status read_nan(struct parsing *p, struct ht_str v)
{
	static const char *const names[] = { "ieee", "last", "zero", "none" };

	p->has_nan = true;
	for (size_t i = 0; i < HT_COUNT(names); i++)
		if (ht_str_is(v, names[i])) {
			p->f->nan = (enum ht_format_nan)i;
			return HT_OK;
		}
	return wrong(p, "expected ieee, last, zero or none");
}

static enum ht_status read_subnormals(struct parsing *p, struct ht_str v)
{
	return read_bool(p, v, &p->f->subnormals);
}

static enum ht_status read_saturate(struct parsing *p, struct ht_str v)
{
	return read_bool(p, v, &p->f->saturates);
}

static enum ht_status read_round(struct parsing *p, struct ht_str v)
{
	p->f->stochastic = ht_str_is(v, "stochastic");
	return p->f->stochastic || ht_str_is(v, "nearest")
		       ? HT_OK
		       : wrong(p, "expected nearest or stochastic");
}

static enum ht_status read_seed(struct parsing *p, struct ht_str v)
{
	int64_t n;

	if (!ht_parse_int(v, &n) || n < 0 || n > UINT32_MAX)
		return wrong(p, "expected a number from 0 to 4294967295");
	p->f->seed = (uint32_t)n;
	return HT_OK;
}

static enum ht_status read_block(struct parsing *p, struct ht_str v)
{
	return read_bits(p, v, 2, HT_FORMAT_MAX_BLOCK, &p->f->block);
}

static enum ht_status read_axis(struct parsing *p, struct ht_str v)
{
	p->f->has_axis = true;
	return read_bits(p, v, -HT_MAX_RANK, HT_MAX_RANK - 1, &p->f->axis);
}

static const struct property {
	const char *name;
	enum ht_status (*read)(struct parsing *p, struct ht_str v);
} properties[] = {
	{ "e", read_exponent },
	{ "m", read_mantissa },
	{ "bias", read_bias },
	{ "inf", read_inf },
	{ "nan", read_nan },
	{ "subnormals", read_subnormals },
	{ "saturate", read_saturate },
	{ "round", read_round },
	{ "seed", read_seed },
	{ "block", read_block },
	{ "axis", read_axis },
};

/* ---- formats ---- */

/* Removes the text up to `end` from *s, with `end` itself, and returns it; if there is no `end`,
 * all of *s. */
static struct ht_str cut(struct ht_str *s, char end)
{
	const char *at = s->n ? memchr(s->p, end, s->n) : NULL;
	struct ht_str head = { s->p, at ? (size_t)(at - s->p) : s->n };

	s->p += head.n + (at ? 1 : 0);
	s->n -= head.n + (at ? 1 : 0);
	return head;
}

static enum ht_status read_property(struct parsing *p)
{
	struct ht_str value = p->at, name = cut(&value, '=');

	for (size_t i = 0; i < HT_COUNT(properties); i++)
		if (ht_str_is(name, properties[i].name))
			return properties[i].read(p, value);
	return wrong(p,
		"expected one of e, m, bias, inf, nan, subnormals, saturate, round, seed, block, "
		"axis, with =VALUE");
}

/* Derives the properties that the text does not state from those that it does. */
static void complete(struct parsing *p, bool own)
{
	struct ht_float_format *f = p->f;

	if (own && !p->has_bias && f->exponent)
		f->bias = (1 << (f->exponent - 1)) - 1;
	if (!p->has_nan && p->has_inf)
		f->nan = p->inf ? HT_FORMAT_NAN_IEEE : HT_FORMAT_NAN_LAST;
	if (!p->has_inf)
		p->inf = f->nan == HT_FORMAT_NAN_IEEE;
	if (f->nan == HT_FORMAT_NAN_NONE)
		f->saturates = true;
}

/* Rounding computes with normal numbers of float32, unless the format has the exponents of
 * float32. */
static const char *contradiction(const struct parsing *p)
{
	const struct ht_float_format *f = p->f;
	int least = ht_format_least_exponent(f);

	if (f->scale)
		return f->name ? NULL : "e8m0fnu has no properties that can be stated";
	if (!f->exponent || !f->mantissa)
		return "e and m, the numbers of exponent and mantissa bits, have to be stated";
	if (p->inf != (f->nan == HT_FORMAT_NAN_IEEE))
		return "inf=yes goes with nan=ieee, and inf=no with nan=last, zero or none";
	if (f->nan == HT_FORMAT_NAN_IEEE && f->exponent < 2)
		return "with infinities it needs 2 exponent bits";
	if (ht_format_largest(f) > 0x1.fffffep127)
		return "its largest number is beyond float32";
	if (least != -126 && least - f->mantissa < -125)
		return "its least number is below 2^-125, which needs the exponents of float32: e=8, bias=127";
	if (f->block && ht_format_greatest_exponent(f) < 1)
		return "a format with blocks has numbers of 2 and above";
	if (f->has_axis && !f->block)
		return "an axis goes with block=N";
	return NULL;
}

static const struct ht_float_format *format_named(struct ht_str name)
{
	static const char *const prefix[] = { "float8_", "float6_", "float4_" };

	if (ht_str_is(name, "bfloat16"))
		return &ht_formats[0];
	if (ht_str_is(name, "float16"))
		return &ht_formats[1];
	for (size_t i = 0; i < HT_COUNT(prefix); i++)
		if (ht_str_starts(name, prefix[i]))
			name = (struct ht_str){ name.p + 7, name.n - 7 };
	for (const struct ht_float_format *f = ht_formats; f->name; f++)
		if (ht_str_is(name, f->name))
			return f;
	return NULL;
}

static enum ht_status no_format(const struct parsing *p, struct ht_str name)
{
	struct ht_str words[32], near[3];
	size_t n = 0;

	for (const struct ht_float_format *f = ht_formats; f->name && n < HT_COUNT(words); f++)
		words[n++] = ht_str(f->name);
	if (ht_near_names(name, words, n, near))
		return ht_error(p->d, HT_E_USAGE, HT_NOWHERE,
			"%s: there is no format '%.*s'; did you mean '%.*s'?", p->what,
			HT_STR_ARG(name), HT_STR_ARG(near[0]));
	return ht_error(p->d, HT_E_USAGE, HT_NOWHERE,
		"%s: there is no format '%.*s'; halftone formats lists them, and "
		"float:e=E,m=M makes one",
		p->what, HT_STR_ARG(name));
}

enum ht_status ht_format_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_float_format *out)
{
	struct parsing p = { .what = what, .text = text, .d = d, .f = out };
	struct ht_str rest = text, name = cut(&rest, ':');
	const struct ht_float_format *named = format_named(name);
	bool own = ht_str_is(name, "float");
	const char *why;

	if (!named && !own)
		return no_format(&p, name);
	*out = own ? (struct ht_float_format){ .subnormals = true } : *named;
	if (rest.n)
		out->name = NULL;
	while (rest.n) {
		p.at = cut(&rest, ',');
		HT_TRY(read_property(&p));
	}
	p.at = text;
	complete(&p, own);
	why = contradiction(&p);
	return why ? wrong(&p, why) : HT_OK;
}

void ht_format_put(struct ht_buf *b, const struct ht_float_format *f)
{
	static const char *const nan[] = { "ieee", "last", "zero", "none" };

	if (f->name) {
		ht_puts(b, f->name);
		return;
	}
	ht_printf(b, "float:e=%d,m=%d,bias=%d", f->exponent, f->mantissa, f->bias);
	ht_printf(b, ",inf=%s,nan=%s", f->nan == HT_FORMAT_NAN_IEEE ? "yes" : "no", nan[f->nan]);
	ht_printf(b, ",subnormals=%s,saturate=%s", f->subnormals ? "yes" : "no",
		f->saturates ? "yes" : "no");
	if (f->stochastic)
		ht_printf(b, ",round=stochastic,seed=%u", f->seed);
	if (f->block)
		ht_printf(b, ",block=%d", f->block);
	if (f->has_axis)
		ht_printf(b, ",axis=%d", f->axis);
}
