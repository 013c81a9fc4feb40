/* places: how much memory the entry's temporary buffers need at the sizes of a run (struct ht_image_place_of). */
#ifndef HT_LOWER_PLACES_H
#define HT_LOWER_PLACES_H

#include "image/build.h"
#include "lower/plan.h"

struct ht_plan_place {
	uint64_t offset, bytes;
	struct ht_reach reach;
	uint32_t ends;
};

struct ht_plan_places {
	struct ht_reach **reach; /* by kernel of the plan, and argument */
	uint32_t *of;            /* by buffer of the plan: its place */
	struct ht_plan_place *place;
	uint32_t n; /* 0: no buffer of the entry needs less at smaller sizes */
};

/* In the arena. */
struct ht_plan_places ht_plan_places_of(const struct ht_plan *p, struct ht_arena *a);

#endif
