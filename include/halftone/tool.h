/* Helpers for command line tools over Halftone: files that appear whole or not at all. */
#ifndef HALFTONE_TOOL_H
#define HALFTONE_TOOL_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a file through a temporary one beside it and a rename; "-" is standard output. */
HT_API enum ht_status ht_file_write(const char *path, const void *p, size_t n, struct ht_diags *d);
/* From now on a signal that ends the process removes its temporary files first. */
HT_API void ht_tool_signals(void);

#ifdef __cplusplus
}
#endif
#endif
