/* What a value of profiling_options says (grammar_profiling.c); it is a legal one. */
#ifndef HT_PROFILING_H
#define HT_PROFILING_H

#include <stdbool.h>

/* Whether the value is a list with colons that has this trace. */
bool ht_profiling_traces(const char *value, const char *name);
/* Whether the value is a JSON object with this text for `name`. */
bool ht_profiling_says(const char *value, const char *name, const char *text);

#endif
