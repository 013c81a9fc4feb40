/* Reads a value of profiling_options that is known to be legal (grammar_profiling.c). */
#ifndef HT_PROFILING_H
#define HT_PROFILING_H

#include <stdbool.h>

/* Whether the value is a list with colons that contains this trace. */
bool ht_profiling_traces(const char *value, const char *name);
/* Whether the value is a JSON object whose member `name` is this text. */
bool ht_profiling_says(const char *value, const char *name, const char *text);

#endif
