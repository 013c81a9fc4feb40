/* Random choices, which the seed of a test repeats. */
#ifndef HT_TEST_RANDOM_H
#define HT_TEST_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* Not 0. */
static uint64_t state;

static inline uint32_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20);
}

static inline int below(int n)
{
	return (int)(rnd() % (uint32_t)n);
}

static inline bool chance(int percent)
{
	return below(100) < percent;
}

#endif
