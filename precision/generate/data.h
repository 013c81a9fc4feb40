/* Shared by the generators of tables: reads data files by lines, and locates errors. */
#ifndef HT_GENERATE_DATA_H
#define HT_GENERATE_DATA_H

#include <stdio.h>

extern const char *directory; /* of the data files */
extern char file[512];        /* the current file */
extern long line;             /* the line that was read last, from 1 */

/* Prints an error with file and line, and exits with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Opens DIRECTORY/NAMESUFFIX. */
FILE *open_data(const char *name, const char *suffix);
/* The next line that is not empty, without comments; NULL at the end.  Valid until the next
 * call. */
char *next_line(FILE *f);

#endif
