/* Files that appear whole or not at all, and statistics, for tools. */
#include <halftone/tool.h>

#include "base/base.h"
#include "stats/interval.h"

#include <math.h>

enum ht_status ht_file_write(const char *path, const void *p, size_t n, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

	HT_TRY(ht_output_open(path, d, &o));
	st = ht_output_write(o, p, n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

int ht_mean_interval_of(const double *x, size_t n, double *low, double *high)
{
	struct ht_interval i;
	double sum = 0, squares = 0, mean;

	for (size_t k = 0; k < n; k++)
		sum += x[k];
	mean = n ? sum / (double)n : 0;
	for (size_t k = 0; k < n; k++)
		squares += (x[k] - mean) *
			   (x[k] - mean); /* a second pass: with the sum of x^2 digits would
					   * cancel */
	i = ht_mean_interval(n, 0, squares);
	*low = mean + i.low;
	*high = mean + i.high;
	return isfinite(i.low) && isfinite(i.high);
}

void ht_tool_signals(void)
{
	ht_output_install_signals();
}
