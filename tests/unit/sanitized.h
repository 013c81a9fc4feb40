/* Whether tests are compiled with AddressSanitizer, and how much fewer cases they try then. */
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

/* How many of `cases` random kernels a test compiles and runs.  Sanitizers watch the code generator and not the code
 * that it generates, so under them a third is enough. */
static inline uint64_t sanitized_cases(uint64_t cases)
{
	return SANITIZED ? (cases + 2) / 3 : cases;
}

#endif
