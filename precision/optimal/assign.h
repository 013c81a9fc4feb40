/* assign: the cheapest element type for each unit, casts included.
 *
 * Every unit gets one of three labels, in the order float16, float32, bfloat16.  A unit pays for
 * its label; a tensor pays for each step between neighbouring labels once, however many of its
 * users want it: up when its producer is below a boundary and some user above, down the other way
 * round.  A float16 tensor wanted in bfloat16 goes through float32 and pays both steps.
 *
 * Solved exactly, as one minimum cut with two vertices a unit (Ishikawa's construction) and up to
 * four a tensor.  Units that can have one label only are terminals, so that the network falls into
 * free regions, each solved by itself.  Of equally cheap answers the one with the fewest units in
 * bfloat16, then the most in float16: whoever wants another preference says so in the costs. */
#ifndef HT_ASSIGN_H
#define HT_ASSIGN_H

#include "base/base.h"

enum ht_label { HT_LABEL_F16, HT_LABEL_F32, HT_LABEL_BF16, HT_LABELS };
enum { HT_BOUNDARIES = HT_LABELS - 1 }; /* b lies between labels b and b + 1 */

/* A label that a unit cannot have. */
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

/* What a solution is and how it came about. */
struct ht_assignment {
	int64_t cost; /* of the labels; HT_COST_NEVER: there are none */
	int64_t cut;  /* value of the minimum cut: a lower bound, equal to the cost */
	int shift;    /* costs were divided by 2^shift to fit; cost and cut are multiplied again */
	uint8_t *label;            /* by unit */
	uint32_t free_units;       /* that have a choice */
	uint32_t regions, largest; /* that were solved one by one; vertices of the largest */
};

void ht_assign_init(struct ht_assign *p, struct ht_arena *a);
uint32_t ht_assign_unit(struct ht_assign *p, const int64_t cost[HT_LABELS]);
/* Its users follow by ht_assign_user(). */
struct ht_assign_tensor *ht_assign_tensor(struct ht_assign *p, uint32_t producer);
void ht_assign_user(struct ht_assign *p, uint32_t unit);
/* `out->label` is allocated in `a`; works in `scratch`. */
void ht_assign_solve(const struct ht_assign *p, struct ht_arena *a, struct ht_arena *scratch,
	struct ht_assignment *out);
/* What labels cost; HT_COST_NEVER when a unit has one that it cannot have. */
int64_t ht_assign_cost(const struct ht_assign *p, const uint8_t *label);

#endif
