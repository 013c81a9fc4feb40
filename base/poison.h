/* poison: memory that no code may touch, under AddressSanitizer. */
#ifndef HT_BASE_POISON_H
#define HT_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define HT_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HT_POISONS 1
#endif
#endif

#ifdef HT_POISONS
#include <sanitizer/asan_interface.h>
#else
#define HT_POISONS 0
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#endif
