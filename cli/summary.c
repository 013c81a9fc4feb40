/* Statistics of arrays, which `run` prints for each output, and its warning of outputs with NaN or
 * infinities. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double array_number(const struct ht_array *a, size_t i)
{
	const void *p = a->data;
	float f;

	switch (a->dtype) {
	case HT_F32:
		return ((const float *)p)[i];
	case HT_F64:
		return ((const double *)p)[i];
	case HT_F16:
	case HT_BF16:
		ht_widen((const uint16_t *)p + i, a->dtype, &f, 1);
		return f;
	case HT_I64:
		return (double)((const int64_t *)p)[i];
	case HT_U64:
		return (double)((const uint64_t *)p)[i];
	case HT_I32:
		return ((const int32_t *)p)[i];
	case HT_U32:
		return ((const uint32_t *)p)[i];
	case HT_I16:
		return ((const int16_t *)p)[i];
	case HT_U16:
		return ((const uint16_t *)p)[i];
	case HT_I8:
		return ((const int8_t *)p)[i];
	default:
		return ((const uint8_t *)p)[i];
	}
}

static struct summary summarise(const struct ht_array *a)
{
	size_t size = ht_dtype_bytes(a->dtype);
	struct summary s = { .n = size ? a->bytes / size : 0 };

	for (size_t i = 0; i < s.n; i++) {
		double x = array_number(a, i);
		if (!i || x < s.min)
			s.min = x;
		if (!i || x > s.max) {
			s.max = x;
			s.at = i;
		}
		s.mean += x;
		s.nan += isnan(x) != 0;
		s.infinite += isinf(x) != 0;
	}
	if (s.n)
		s.mean /= (double)s.n;
	return s;
}

struct summary *summarise_outputs(const struct session *s)
{
	struct summary *all = must_alloc(s->outs * sizeof *all);

	for (size_t i = 0; i < s->outs; i++)
		all[i] = summarise(&s->out[i].a);
	return all;
}

/* ---- warnings ---- */

static bool is_finite(const struct summary *s)
{
	return !s->nan && !s->infinite;
}

/* Whether neither an input nor a constant has NaN or infinities.  The constants of an artefact
 * are not known, and count as finite. */
static bool comes_from_computing(const struct session *s)
{
	for (size_t i = 0; i < s->ins; i++) {
		struct summary in = summarise(&s->in[i].a);

		if (!is_finite(&in))
			return false;
	}
	return !s->model || ht_model_is_finite(s->model);
}

/* --numerics only counts values of float16 and bfloat16 tensors, so there is no hint for a
 * float32 program. */
static const char *hint(const struct cli *c, const struct session *s)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;

	ht_program_about(s->program, &info);
	if (!info.low_nodes || option_on(c, OPTION_NUMERICS))
		return "";
	return s->model ? "; --numerics tells where they come from"
			: "; run MODEL --numerics tells where they come from";
}

static void warn_output(
	const struct cli *c, const char *name, const struct summary *s, const char *hint)
{
	char infinite[48] = "", nan[48] = "";

	if (s->nan)
		snprintf(nan, sizeof nan, "%zu NaN", s->nan);
	if (s->infinite)
		snprintf(infinite, sizeof infinite, "%s%zu infinite", s->nan ? " and " : "",
			s->infinite);
	warn(c, "output '%s' has %s%s of %zu elements%s", name, nan, infinite, s->n, hint);
}

void warn_not_finite(const struct cli *c, const struct session *s, const struct summary *of)
{
	struct ht_value_info out;
	size_t odd = 0;

	for (size_t i = 0; i < s->outs; i++)
		odd += !is_finite(&of[i]);
	if (!odd || !comes_from_computing(s))
		return;
	for (size_t i = 0; i < s->outs; i++)
		if (!is_finite(&of[i]) && ht_program_output(s->program, i, &out))
			warn_output(c, out.name, &of[i], hint(c, s));
}
