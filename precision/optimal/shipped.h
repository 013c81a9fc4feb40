/* The cost tables of data/, which are part of the library; made by embed.c. */
#ifndef HT_SHIPPED_H
#define HT_SHIPPED_H

struct ht_shipped_costs {
	const char *level, *tuning; /* the target's level, and the name of its rates */
	const char *file, *text;
};
extern const struct ht_shipped_costs ht_shipped_costs[]; /* ended by a row without a level */

#endif
