/* Common to unit tests: cmocka with its includes, and an arena that aborts if memory runs out. */
#ifndef HT_UNIT_H
#define HT_UNIT_H

#include "base/base.h"

#include <cmocka.h>
#include <string.h>

/* In a test: `UNIT_ARENA(a);` declares arena `a`; the test ends with ht_arena_release(&a). */
#define UNIT_ARENA(name)                                                                           \
	struct ht_arena name;                                                                      \
	ht_arena_init(&name, NULL)

#define assert_str(s, expected)                                                                    \
	do {                                                                                       \
		struct ht_str str_ = (s);                                                          \
		assert_int_equal(str_.n, strlen(expected));                                        \
		assert_memory_equal(str_.p, expected, str_.n);                                     \
	} while (0)

#endif
