/* The phases of a compilation and their times. */
#include "api/api.h"

void ht_phase_start(struct ht_phases *p)
{
	p->last_ns = ht_now_ns();
}

void ht_phase_end(struct ht_phases *p, const char *name)
{
	int64_t now = ht_now_ns();

	HT_CHECK(p->n < HT_MAX_PHASES);
	p->phase[p->n++] = (struct ht_phase){ name, now - p->last_ns };
	p->last_ns = now;
}
