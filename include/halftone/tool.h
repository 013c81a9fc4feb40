/* Helpers for command line tools that use Halftone: files that appear complete or not at all. */
#ifndef HALFTONE_TOOL_H
#define HALFTONE_TOOL_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `n` bytes to a temporary file beside `path` and renames it to `path`.  "-" is standard
 * output. */
HT_API enum ht_status ht_file_write(const char *path, const void *p, size_t n, struct ht_diags *d);
/* The text of member `key` of a legal value of the option profiling_options; 0: the value has none, or is not JSON, or there
 * is no memory.  The caller frees *out with ht_bytes_free(). */
HT_API int ht_profiling_value(const char *options, const char *key, struct ht_bytes *out);
/* The 95 % confidence interval of the mean of `n` values, by Student's t.  Returns 0 for fewer than two values. */
HT_API int ht_mean_interval_of(const double *x, size_t n, double *low, double *high);
/* Installs signal handlers: a signal that ends the process first removes its temporary files. */
HT_API void ht_tool_signals(void);

#ifdef __cplusplus
}
#endif
#endif
