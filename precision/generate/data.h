/* What the generators of tables share: reading data files by lines, and where an error is. */
#ifndef HT_GENERATE_DATA_H
#define HT_GENERATE_DATA_H

#include <stdio.h>

extern const char *directory; /* of the data files */
extern char file[512];        /* that is being read */
extern long line;             /* that was read last, from 1 */

/* Names file and line, and ends with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* DIRECTORY/NAMESUFFIX, from its first line. */
FILE *open_data(const char *name, const char *suffix);
/* The next line with something on it, comments taken off; NULL at the end.  Valid until the next. */
char *next_line(FILE *f);

#endif
