/* Inputs written on the command line: f32[2,3]:1,2,3,4,5,6 and random(SEED,LOW,HIGH). */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random ---- */

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- elements ---- */

static const struct type {
	const char *tag;
	enum ht_dtype dtype;
	int bits; /* of integers; 0: floats */
	bool sign;
} types[] = {
	{ "f32", HT_F32, 0, true },
	{ "f64", HT_F64, 0, true },
	{ "f16", HT_F16, 0, true },
	{ "bf16", HT_BF16, 0, true },
	{ "bool", HT_BOOL, 1, false },
	{ "i8", HT_I8, 8, true },
	{ "i16", HT_I16, 16, true },
	{ "i32", HT_I32, 32, true },
	{ "i64", HT_I64, 64, true },
	{ "u8", HT_U8, 8, false },
	{ "u16", HT_U16, 16, false },
	{ "u32", HT_U32, 32, false },
	{ "u64", HT_U64, 64, false },
};

static const struct type *type_of(enum ht_dtype t)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].dtype == t)
			return &types[i];
	return NULL;
}

/* The type with this short name or TensorFlow name. */
static const struct type *type_named(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		const char *names[] = { types[i].tag, ht_dtype_name(types[i].dtype) };
		for (size_t j = 0; j < 2; j++)
			if (strlen(names[j]) == n && !strncmp(names[j], s, n))
				return &types[i];
	}
	return NULL;
}

static void put_real(void *p, enum ht_dtype t, double x)
{
	float f = (float)x;

	if (t == HT_F64)
		memcpy(p, &x, sizeof x);
	else if (t == HT_F32)
		memcpy(p, &f, sizeof f);
	else
		ht_narrow(&f, t, p, 1);
}

/* Little-endian: the low bytes are the number in a narrower type. */
static bool put_integer(void *p, const struct type *t, const char *s, const char *end)
{
	char *stop;
	uint64_t u;

	errno = 0;
	if (t->sign) {
		long long v = strtoll(s, &stop, 0);
		int64_t high = INT64_MAX >> (64 - t->bits);
		if (v > high || v < -high - 1)
			return false;
		u = (uint64_t)v;
	} else {
		u = strtoull(s, &stop, 0);
		if (memchr(s, '-', (size_t)(end - s)) || (t->bits < 64 && u >> t->bits))
			return false;
	}
	if (errno || stop != end || stop == s)
		return false;
	memcpy(p, &u, ht_dtype_bytes(t->dtype));
	return true;
}

static bool put_element(void *p, const struct type *t, const char *s, const char *end)
{
	size_t n = (size_t)(end - s);
	char *stop;
	double x;

	if (t->dtype == HT_BOOL &&
		((n == 4 && !strncmp(s, "true", 4)) || (n == 5 && !strncmp(s, "false", 5)))) {
		*(uint8_t *)p = *s == 't';
		return true;
	}
	if (t->bits)
		return put_integer(p, t, s, end);
	x = strtod(s, &stop);
	if (stop != end || stop == s)
		return false;
	put_real(p, t->dtype, x);
	return true;
}

/* ---- random(SEED,LOW,HIGH) ---- */

/* Fills with floats in [low, high), or with integers in that range. */
static void fill(struct array *a, const struct type *t, uint64_t seed, double low, double high)
{
	size_t size = ht_dtype_bytes(a->a.dtype), n = size ? a->a.bytes / size : 0;
	uint64_t state = seed;
	char *p = a->a.data;

	for (size_t i = 0; i < n; i++, p += size) {
		double u = (double)(random_next(&state) >> 11) * 0x1p-53;
		if (t && !t->bits) {
			put_real(p, t->dtype, low + (high - low) * u);
		} else {
			int64_t v = (int64_t)(high - 1 - floor((high - low) * u));
			memcpy(p, &v, size < sizeof v ? size : sizeof v);
		}
	}
}

void fill_random(struct array *a, uint64_t seed)
{
	const struct type *t = type_of(a->a.dtype);

	/* Integers are 0 or 1, since they may be indices. */
	fill(a, t, seed, t && !t->bits ? -1 : 0, t && !t->bits ? 1 : 2);
}

bool is_random_spec(const char *s)
{
	return !strncmp(s, "random(", 7);
}

static bool bounds_fit(const struct type *t, double low, double high)
{
	double most = t->bits ? ldexp(1, t->bits - t->sign) : 0;

	if (!isfinite(low) || !isfinite(high) || low > high)
		return false;
	if (!t->bits)
		return true;
	/* A double represents integers exactly only up to so many bits. */
	return low == floor(low) && high == floor(high) && low < high && high <= most &&
	       high <= 0x1p53 && low >= (t->sign ? -most : 0) && low >= -0x1p53;
}

enum ht_status random_array(const char *spec, const struct ht_value_info *v, struct array *out)
{
	const struct type *t = type_of(v->dtype);
	double low = t && !t->bits ? -1 : 0, high = t && !t->bits ? 1 : 2;
	unsigned long long seed;
	char *p;
	enum ht_status st;

	errno = 0;
	seed = strtoull(spec + 7, &p, 10);
	if (p == spec + 7 || errno)
		p = NULL;
	if (p && *p == ',') {
		low = strtod(p + 1, &p);
		if (*p == ',')
			high = strtod(p + 1, &p);
		else
			p = NULL;
	}
	if (!p || strcmp(p, ")") != 0 || !t || !bounds_fit(t, low, high))
		return fail(HT_E_USAGE,
			"--input: '%s' is not random(SEED) or random(SEED,LOW,HIGH) for %s", spec,
			ht_dtype_name(v->dtype));
	st = array_make(out, v->dtype, v->rank, v->dim);
	if (st == HT_OK)
		fill(out, t, seed, low, high);
	return st;
}

/* ---- f32[2,3]:1,2,… ---- */

const char *input_text(const struct ht_value_info *v, char *s, size_t size)
{
	int n = snprintf(s, size, "%s[", ht_dtype_name(v->dtype));

	for (int32_t i = 0; i < v->rank && (size_t)n + 24 < size; i++)
		n += v->dim[i] < 0 ? snprintf(s + n, size - (size_t)n, "%s?", i ? "," : "")
				   : snprintf(s + n, size - (size_t)n, "%s%lld", i ? "," : "",
					     (long long)v->dim[i]);
	snprintf(s + n, size - (size_t)n, "]");
	return s;
}

/* Parses "[2,3]", or nothing; NULL if it is neither. */
static const char *parse_shape(const char *s, int64_t *dim, int32_t *rank)
{
	*rank = 0;
	if (*s != '[')
		return s;
	if (s[1] == ']')
		return s + 2;
	do {
		char *stop;
		errno = 0;
		dim[*rank] = strtoll(s + 1, &stop, 10);
		if (errno || stop == s + 1 || dim[*rank] < 0 || *rank == 31)
			return NULL;
		++*rank;
		s = stop;
	} while (*s == ',');
	return *s == ']' ? s + 1 : NULL;
}

static enum ht_status fill_from(
	enum option o, const char *s, const struct type *t, struct array *out)
{
	size_t size = ht_dtype_bytes(t->dtype), count = out->a.bytes / size, n = 0;
	char *p = out->a.data;

	while (*s) {
		const char *end = s + strcspn(s, ",");
		if (n < count && !put_element(p + n * size, t, s, end))
			return fail(HT_E_USAGE, "--%s: '%.*s' is no %s", option_rows[o].name,
				(int)(end - s), s, ht_dtype_name(t->dtype));
		n++;
		s = end + (*end == ',' && end[1]);
		if (*end == ',' && !end[1])
			return fail(HT_E_USAGE, "--%s: a value is missing behind the last comma",
				option_rows[o].name);
		if (!*end)
			break;
	}
	if (n == 1 && count > 1) {
		for (size_t i = 1; i < count; i++)
			memcpy(p + i * size, p, size);
	} else if (n != count) {
		return fail(HT_E_USAGE, "--%s: %zu values for %zu elements", option_rows[o].name, n,
			count);
	}
	return HT_OK;
}

/* Parses the type and shape before the colon; *values is the text behind it. */
static enum ht_status parse_type(
	enum option o, const char *spec, struct array *out, const char **values)
{
	size_t n = strcspn(spec, "[:");
	const struct type *t = type_named(spec, n);
	const char *colon = t ? parse_shape(spec + n, out->shape, &out->a.rank) : NULL;

	if (!colon || *colon != ':')
		return fail(HT_E_USAGE,
			"--%s: '%.60s' is not @FILE.npy, @FILE.npz#KEY, TYPE[DIMS]:VALUES%s",
			option_rows[o].name, spec,
			o == OPTION_INPUT ? " or random(SEED,LOW,HIGH)" : "");
	out->a.dtype = t->dtype;
	*values = colon + 1;
	return HT_OK;
}

enum ht_status literal_shape(enum option o, const char *spec, struct array *out)
{
	const char *values;

	memset(out, 0, sizeof *out);
	return parse_type(o, spec, out, &values);
}

enum ht_status literal_array(
	enum option o, const char *spec, const struct ht_value_info *v, struct array *out)
{
	struct array said = { 0 };
	char text[256];
	const char *values;
	enum ht_status st = parse_type(o, spec, &said, &values);

	memset(out, 0, sizeof *out);
	if (st != HT_OK)
		return st;
	/* Checked before memory is allocated. */
	if (said.a.dtype != v->dtype || said.a.rank != v->rank ||
		(v->rank && memcmp(said.shape, v->dim, (size_t)v->rank * sizeof *v->dim) != 0))
		return fail(HT_E_INPUT,
			"input '%s' has another type or shape than '%.*s'; it is %s", v->name,
			(int)(values - spec - 1), spec, input_text(v, text, sizeof text));
	st = array_make(out, v->dtype, v->rank, v->dim);
	return st == HT_OK ? fill_from(o, values, type_of(v->dtype), out) : st;
}
