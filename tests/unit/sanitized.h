/* Whether tests are compiled with AddressSanitizer, and the smaller number of cases that they then
 * try. */
#ifndef HT_TEST_SANITIZED_H
#define HT_TEST_SANITIZED_H

#include <stdint.h>

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

#endif
