/* A precision profile as it was read; shared by the file that reads it and the one that prints
 * its tables. */
#ifndef HT_GENERATE_PROFILES_H
#define HT_GENERATE_PROFILES_H

#include "precision/generate/data.h"

#include <stdbool.h>
#include <stddef.h>

enum { MAX_TYPES = 4096, MAX_NAME = 64, MAX_COLUMNS = 16384 };

struct type {
	char name[MAX_NAME], value[MAX_NAME]; /* value: class, or the vendor's name */
	bool from_base;
};

struct table {
	struct type item[MAX_TYPES];
	size_t n;
};

extern struct table lists, map, moves_nothing, keeps, cube, promote, otherwise, kernels;
extern bool computed, manual, no_bf16;
extern char training[MAX_NAME], summary[2 * MAX_NAME];
struct column {
	struct type *of; /* in `kernels` */
	char text[2 * MAX_NAME];
};
extern struct column column[MAX_COLUMNS];
extern size_t columns;

/* Prints the C source of all tables. */
void print_tables(FILE *f, const char *profile);

#endif
