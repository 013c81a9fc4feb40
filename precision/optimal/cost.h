/* cost: the cost of work on a target, by element type.
 *
 * A table has measured points: picoseconds for one unit of a kind of work, in one element type,
 * at some size.  Between points it interpolates over the logarithms of the sizes, with the same
 * weights for all types, so that comparisons of types are fair.  Tables are text
 * (docs/optimal.md): those of data/ are part of the library; `halftone tune --costs` measures
 * one on the current machine.  Targets without a table have a roofline, computed from their
 * vectors and memory. */
#ifndef HT_COST_H
#define HT_COST_H

#include "base/base.h"
#include "kernel/kernel.h"

/* Kinds of work: name, unit, and the meaning of the sizes. */
enum ht_work_kind {
#define HT_WORK(id, name, unit, sizes) HT_WORK_##id,
#include "precision/optimal/cost.def"
#undef HT_WORK
	HT_WORK_KINDS
};

struct ht_costs {
	const char *name; /* the file's name, or "roofline of TARGET" */
	struct ht_str target, machine, date;
	struct ht_hash hash;              /* of the text */
	struct ht_cost_points *points;    /* by kind and label: see cost.c */
	const struct ht_target *roofline; /* NULL: the table has points */
};

/* Whether the library has a table of this target's level and microarchitecture. */
bool ht_costs_are_known(const struct ht_target *t);
/* The shipped table of a target's level and microarchitecture, or else its roofline.  A table
 * does not consider extensions.  Lives in `a`. */
const struct ht_costs *ht_costs_of_target(const struct ht_target *t, struct ht_arena *a);
/* Reads a table; HT_E_INPUT with file and line.  Keeps `text`. */
enum ht_status ht_costs_parse(struct ht_str text, const char *path, struct ht_arena *a,
	struct ht_diags *d, const struct ht_costs **out);

/* Sizes that a kind does not have are 1. */
struct ht_work_size {
	int64_t x, y, z;
};
/* Picoseconds for `units` units of work.  Types other than F16 and BF16 count as F32. */
double ht_cost(const struct ht_costs *c, enum ht_work_kind kind, enum ht_dtype t,
	struct ht_work_size size, double units);

#endif
