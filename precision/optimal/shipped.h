/* The cost tables of data/, part of the library; made by embed.c. */
#ifndef HT_SHIPPED_H
#define HT_SHIPPED_H

struct ht_shipped_costs {
	const char *level, *tuning; /* a target's, and of its rates */
	const char *file, *text;
};
extern const struct ht_shipped_costs ht_shipped_costs[]; /* ended by a row without a level */

#endif
