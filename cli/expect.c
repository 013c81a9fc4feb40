/* Comparing outputs with a reference: max|a-b| / max|b| per output; integers have to be equal. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Without --tol: what float32 code of different order gives, and, where the policy went low, what
 * a network's outputs lose at most in practice. */
#define TOL_FLOAT32 1e-4
#define TOL_LOW 0.1

static bool is_float(enum ht_dtype t)
{
	return t == HT_F32 || t == HT_F64 || t == HT_F16 || t == HT_BF16;
}

static double element(const struct ht_array *a, size_t i)
{
	float f;

	switch (a->dtype) {
	case HT_F32:
		return ((const float *)a->data)[i];
	case HT_F64:
		return ((const double *)a->data)[i];
	case HT_F16:
	case HT_BF16:
		ht_widen((const uint16_t *)a->data + i, a->dtype, &f, 1);
		return f;
	default:
		return 0;
	}
}

/* Equal non-finite numbers are no error; others are an infinite one. */
static double relative_error(const struct ht_array *a, const struct ht_array *b)
{
	size_t n = a->bytes / ht_dtype_bytes(a->dtype);
	double most = 0, largest = 0;

	for (size_t i = 0; i < n; i++) {
		double x = element(a, i), y = element(b, i);
		if (isfinite(y) && fabs(y) > largest)
			largest = fabs(y);
		if (x == y || (isnan(x) && isnan(y)))
			continue;
		if (!isfinite(x) || !isfinite(y))
			return INFINITY;
		if (fabs(x - y) > most)
			most = fabs(x - y);
	}
	if (!(most > 0))
		return 0;
	return largest > 0 ? most / largest : INFINITY;
}

static bool same_shape(const struct ht_array *a, const struct ht_array *b)
{
	if (a->rank != b->rank)
		return false;
	for (int32_t i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* --tol X, --tol OUTPUT:X; the last one that fits counts. */
static enum ht_status tolerance(
	struct cli *c, const struct session *s, const char *output, double *tol)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;

	ht_program_about(s->program, &info);
	*tol = info.low_nodes ? TOL_LOW : TOL_FLOAT32;
	for (size_t i = 0; i < c->option[OPTION_TOL].n; i++) {
		const char *v = c->option[OPTION_TOL].value[i], *colon = strrchr(v, ':');
		const char *number = colon ? colon + 1 : v;
		char *end;
		double x = strtod(number, &end);
		if (end == number || *end || !(x >= 0))
			return fail(HT_E_USAGE, "--tol: '%s' is not [OUTPUT:]NUMBER", v);
		if (!colon || (strlen(output) == (size_t)(colon - v) &&
				      !strncmp(output, v, (size_t)(colon - v))))
			*tol = x;
	}
	return HT_OK;
}

static enum ht_status check_tols(struct cli *c, const struct session *s)
{
	for (size_t i = 0; i < c->option[OPTION_TOL].n; i++) {
		const char *v = c->option[OPTION_TOL].value[i], *colon = strrchr(v, ':');
		struct ht_value_info out;
		bool found = !colon;
		for (size_t j = 0; !found && ht_program_output(s->program, j, &out); j++)
			found = strlen(out.name) == (size_t)(colon - v) &&
				!strncmp(out.name, v, strlen(out.name));
		if (!found)
			return fail(HT_E_USAGE, "--tol: there is no output '%.*s'",
				(int)(colon - v), v);
	}
	return HT_OK;
}

static enum ht_status compare(const struct ht_array *a, const struct array *ref, struct verdict *v)
{
	struct ht_array b = ref->a;

	b.dim = ref->shape;
	if (ref->raw16 && a->dtype == HT_BF16)
		b.dtype = HT_BF16;
	if (!same_shape(a, &b))
		return fail(
			HT_E_INPUT, "the reference of output '%s' has another shape", v->output);
	if (is_float(a->dtype) && is_float(b.dtype)) {
		v->error = relative_error(a, &b);
		v->ok = v->error <= v->tol;
		return HT_OK;
	}
	if (a->dtype != b.dtype)
		return fail(HT_E_INPUT, "the reference of output '%s' is %s, the output is %s",
			v->output, ht_dtype_name(b.dtype), ht_dtype_name(a->dtype));
	v->ok = !a->bytes || !memcmp(a->data, b.data, a->bytes);
	v->error = v->ok ? 0 : INFINITY;
	v->tol = 0;
	return HT_OK;
}

enum ht_status expect(struct cli *c, const struct session *s, struct verdict **out)
{
	struct verdict *v = must_alloc(s->outs * sizeof *v);
	struct npz *z = NULL;
	enum ht_status st = check_tols(c, s);

	*out = v;
	if (st == HT_OK)
		st = npz_open(option(c, OPTION_EXPECT, NULL), &z);
	for (size_t i = 0; i < s->outs && st == HT_OK; i++) {
		struct ht_value_info info;
		struct array ref;
		ht_program_output(s->program, i, &info);
		v[i].output = info.name;
		st = tolerance(c, s, info.name, &v[i].tol);
		if (st == HT_OK)
			st = npz_load(z, info.name, &ref);
		if (st != HT_OK)
			break;
		st = compare(&s->out[i].a, &ref, &v[i]);
		array_free(&ref);
	}
	npz_close(z);
	return st;
}
