/* assign: finds the cheapest element type for each unit, including casts.
 *
 * Every unit gets one of three labels, in the order float16, float32, bfloat16.  A unit pays for
 * its label.  A tensor pays once for each step between neighbouring labels, however many of its
 * users need it: upwards if its producer is below a boundary and some user above, downwards in
 * the opposite case.  A float16 tensor that is read in bfloat16 goes through float32 and pays
 * both steps.
 *
 * The solution is exact: one minimum cut with two vertices for each unit (Ishikawa's
 * construction) and up to four for each tensor.  Units with only one possible label are
 * terminals, so the network falls into regions that are solved separately.  Of equally cheap
 * assignments, the result has the fewest units in bfloat16, then the most in float16; callers
 * with another preference add it to the costs. */
#ifndef HT_ASSIGN_H
#define HT_ASSIGN_H

#include "base/base.h"

enum ht_label { HT_LABEL_F16, HT_LABEL_F32, HT_LABEL_BF16, HT_LABELS };
enum { HT_BOUNDARIES = HT_LABELS - 1 }; /* boundary b lies between labels b and b + 1 */

/* The cost of a label that a unit cannot have. */
#define HT_COST_NEVER INT64_MAX

struct ht_assign_tensor {
	uint32_t producer; /* unit */
	uint32_t first_user, users;
	int64_t up[HT_BOUNDARIES], down[HT_BOUNDARIES]; /* not negative */
};

struct ht_assign {
	struct ht_arena *arena;
	uint32_t units;
	int64_t (*cost)[HT_LABELS]; /* by unit; may be negative */
	size_t cost_cap;
	struct ht_assign_tensor *tensor;
	size_t tensors, tensor_cap;
	uint32_t *user; /* units */
	size_t users, user_cap;
};

/* A solution, and how it was found. */
struct ht_assignment {
	int64_t cost;        /* of the labels; HT_COST_NEVER: there is no assignment */
	int64_t cut;         /* value of the minimum cut: a lower bound, equal to the cost */
	int shift;           /* costs were divided by 2^shift to avoid overflow; cost and cut are
		       * multiplied again */
	uint8_t *label;      /* by unit */
	uint32_t free_units; /* units that have a choice */
	uint32_t regions, largest; /* number of regions that were solved; vertices of the largest */
};

void ht_assign_init(struct ht_assign *p, struct ht_arena *a);
uint32_t ht_assign_unit(struct ht_assign *p, const int64_t cost[HT_LABELS]);
/* Adds a tensor; add its users with ht_assign_user(). */
struct ht_assign_tensor *ht_assign_tensor(struct ht_assign *p, uint32_t producer);
void ht_assign_user(struct ht_assign *p, uint32_t unit);
/* `out->label` is allocated in `a`; works in `scratch`. */
void ht_assign_solve(const struct ht_assign *p, struct ht_arena *a, struct ht_arena *scratch,
	struct ht_assignment *out);
/* The cost of labels; HT_COST_NEVER if a unit has a label that it cannot have. */
int64_t ht_assign_cost(const struct ht_assign *p, const uint8_t *label);

#endif
