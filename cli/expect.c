/* Compares outputs with a reference: max|a-b| / max|b| for each output; integers must be equal. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Default tolerances: for float32, as much as another order of sums changes; for low precision,
 * an upper limit of the loss of most networks. */
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

/* Equal numbers that are not finite have no error; different ones have an infinite error. */
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

bool have_same_shape(const struct ht_array *a, const struct ht_array *b)
{
	if (a->rank != b->rank)
		return false;
	for (int32_t i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* The output named in --tol OUTPUT:X; false: there is none. */
static bool tol_output(const struct session *s, const char *v, const char *colon, size_t *at)
{
	char *name = strndup(v, (size_t)(colon - v));
	bool found = name && ht_program_output_named(s->program, name, at);

	free(name);
	return found;
}

/* --tol X, --tol OUTPUT:X; the last one that fits counts. */
static enum ht_status tolerance(struct cli *c, const struct session *s, size_t output, double *tol)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	size_t at;

	ht_program_about(s->program, &info);
	*tol = info.low_nodes ? TOL_LOW : TOL_FLOAT32;
	for (size_t i = 0; i < c->option[OPTION_TOL].n; i++) {
		const char *v = c->option[OPTION_TOL].value[i], *colon = strrchr(v, ':');
		const char *number = colon ? colon + 1 : v;
		char *end;
		double x = strtod(number, &end);
		if (end == number || *end || !(x >= 0))
			return fail(HT_E_USAGE, "--tol: '%s' is not [OUTPUT:]NUMBER", v);
		if (!colon || (tol_output(s, v, colon, &at) && at == output))
			*tol = x;
	}
	return HT_OK;
}

static enum ht_status check_tols(struct cli *c, const struct session *s)
{
	for (size_t i = 0; i < c->option[OPTION_TOL].n; i++) {
		const char *v = c->option[OPTION_TOL].value[i], *colon = strrchr(v, ':');
		size_t at;

		if (colon && !tol_output(s, v, colon, &at))
			return fail(HT_E_USAGE, "--tol: there is no output '%.*s'",
				(int)(colon - v), v);
	}
	return HT_OK;
}

static enum ht_status differs(
	const char *output, const struct ht_array *a, const struct ht_array *b)
{
	struct ht_value_info is = { .dtype = a->dtype, .rank = a->rank, .dim = a->dim };
	struct ht_value_info wants = { .dtype = b->dtype, .rank = b->rank, .dim = b->dim };
	char text[2][256];

	return fail(HT_E_INPUT,
		"the reference of output '%s' has another shape: it is %s, the output %s", output,
		input_text(&wants, text[0], sizeof text[0]),
		input_text(&is, text[1], sizeof text[1]));
}

static enum ht_status compare(const struct ht_array *a, const struct array *ref, struct verdict *v)
{
	struct ht_array b = ref->a;

	b.dim = ref->shape;
	if (ref->raw16 && a->dtype == HT_BF16)
		b.dtype = HT_BF16;
	if (!have_same_shape(a, &b))
		return differs(v->output, a, &b);
	if (is_float(a->dtype) && is_float(b.dtype)) {
		v->error = relative_error(a, &b);
		v->ok = v->error <= v->tol;
		return HT_OK;
	}
	if (a->dtype != b.dtype)
		return fail(HT_E_INPUT, "the reference of output '%s' is %s, the output is %s",
			v->output, ht_dtype_name(b.dtype), ht_dtype_name(a->dtype));
	v->ok = a->bytes == b.bytes && (!a->bytes || !memcmp(a->data, b.data, a->bytes));
	v->error = v->ok ? 0 : INFINITY;
	v->tol = 0;
	return HT_OK;
}

/* The member with the output's name, or with another name of it. */
static const char *member_of(
	const struct session *s, const struct npz *z, size_t output, const char *name)
{
	size_t at;

	for (size_t i = 0; i < npz_members(z); i++)
		if (!strcmp(npz_name(z, i), name))
			return name;
	for (size_t i = 0; i < npz_members(z); i++)
		if (ht_program_output_named(s->program, npz_name(z, i), &at) && at == output)
			return npz_name(z, i);
	return name;
}

/* Opens the references: a .npz has a member for each output, a .npy is the reference of the only output. */
static enum ht_status open_reference(const char *path, const struct session *s, struct npz **z)
{
	size_t len = strlen(path);

	if (len < 4 || strcmp(path + len - 4, ".npy") != 0)
		return npz_open(path, z);
	if (s->outs != 1)
		return fail(HT_E_USAGE,
			"--expect %s: the model has %zu outputs; .npz holds several", path,
			s->outs);
	return HT_OK;
}

static enum ht_status check_one(
	struct cli *c, const struct session *s, struct npz *z, size_t i, struct verdict *v)
{
	struct ht_value_info info;
	struct array ref;
	enum ht_status st;

	ht_program_output(s->program, i, &info);
	v->output = info.name;
	st = tolerance(c, s, i, &v->tol);
	if (st == HT_OK)
		st = z ? npz_load(z, member_of(s, z, i, info.name), &ref)
		       : npy_load(option(c, OPTION_EXPECT, NULL), &ref);
	if (st != HT_OK)
		return st;
	st = compare(&s->out[i].a, &ref, v);
	array_free(&ref);
	return st;
}

enum ht_status expect(struct cli *c, const struct session *s, struct verdict **out)
{
	struct verdict *v = must_alloc(s->outs * sizeof *v);
	struct npz *z = NULL;
	enum ht_status st = check_tols(c, s);

	*out = v;
	if (st == HT_OK)
		st = open_reference(option(c, OPTION_EXPECT, NULL), s, &z);
	for (size_t i = 0; i < s->outs && st == HT_OK; i++)
		st = check_one(c, s, z, i, &v[i]);
	npz_close(z);
	return st;
}
