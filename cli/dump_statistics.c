/* The vendor's table of an op's tensors: a line for each, without their elements. */
#include "cli/dump.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

void dump_count(struct dump *d, const struct ht_seen *s)
{
	struct moments *m = &d->at->moments[s->tensor];
	size_t size = ht_dtype_bytes(s->array.dtype), n = size ? s->array.bytes / size : 0;

	if (!s->part)
		*m = (struct moments){ .min = INFINITY, .max = -INFINITY };
	for (size_t i = 0; i < n; i++) {
		double x = array_number(&s->array, i);

		m->count++;
		m->nan += isnan(x) != 0;
		m->below += x == -INFINITY;
		m->above += x == INFINITY;
		if (!isfinite(x))
			continue;
		m->min = x < m->min ? x : m->min;
		m->max = x > m->max ? x : m->max;
		m->sum += x;
		m->squares += x * x;
	}
}

static void put_shape(FILE *f, const struct ht_tensor_info *i)
{
	for (int32_t k = 0; k < i->rank; k++)
		fprintf(f, "%s%lld", k ? "x" : "", (long long)i->dim[k]);
}

static void put_line(FILE *f, const char *what, size_t index, const struct ht_tensor_info *i,
	const struct moments *m)
{
	size_t finite = m->count - m->nan - m->below - m->above;

	fprintf(f, "%s,%zu,%zu,%s,ND,", what, index, i->bytes, ht_dtype_name(i->dtype));
	put_shape(f, i);
	if (finite)
		fprintf(f, ",%zu,%.9g,%.9g,%.9g,%.9g", m->count, m->max, m->min,
			m->sum / (double)finite, sqrt(m->squares));
	else
		fprintf(f, ",%zu,,,,", m->count);
	fprintf(f, ",%zu,%zu,%zu\n", m->nan, m->below, m->above);
}

void dump_statistics(
	struct dump *d, const char *path, const char *what, size_t index, const struct ht_seen *s)
{
	FILE *f;

	if (s->part + 1 < s->parts)
		return;
	errno = 0;
	f = fopen(path, "ae");
	if (f && ftell(f) == 0)
		fputs("Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value,Min Value,"
		      "Avg Value,l2norm,Nan Count,Negative Inf Count,Positive Inf Count\n",
			f);
	if (f)
		put_line(f, what, index, &d->at->info[s->tensor], &d->at->moments[s->tensor]);
	if (!f || (ferror(f) | fclose(f)))
		dump_failed(d, path);
}
