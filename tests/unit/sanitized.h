/* Whether tests are compiled with AddressSanitizer, and the smaller number of cases that they then
 * try. */
#ifndef HT_TEST_SANITIZED_H
#define HT_TEST_SANITIZED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* The number of `cases` random kernels that a test compiles and runs.  Sanitizers check the code
 * generator and not the code that it generates, so a third of the cases is enough under them. */
static inline uint64_t sanitized_cases(uint64_t cases)
{
	return SANITIZED ? (cases + 2) / 3 : cases;
}

/* The number of the day, counted from 1970, by which cases have their turn; $HALFTONE_TURN names another
 * (tests/tools/environment.py). */
static inline uint64_t day_of_turn(void)
{
	const char *turn = getenv("HALFTONE_TURN");

	return turn ? strtoull(turn, NULL, 10) : (uint64_t)time(NULL) / 86400;
}

/* Whether case i of a list is tried: under sanitizers each case is on one of three days. */
static inline bool sanitized_turn(uint64_t i)
{
	return !SANITIZED || (i + day_of_turn()) % 3 == 0;
}

#endif
