/* Many blocks of random numbers at once, against block by block: any number of them, and counters that carry.  HALFTONE_SEED is the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include "kernel/philox.h"
#include "tests/unit/unit.h"
#include "tests/unit/random.h"

enum { MOST = 40, ROUNDS = 2000 };

static struct ht_philox any_state(void)
{
	struct ht_philox p;

	for (int i = 0; i < 4; i++)
		p.counter[i] = chance(40) ? UINT32_MAX - (uint32_t)below(MOST) : rnd();
	for (int i = 0; i < 2; i++)
		p.key[i] = rnd();
	return p;
}

static void blocks_are_as_one_by_one(void **unused)
{
	uint32_t got[4 * MOST], want[4 * MOST];

	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		struct ht_philox p = any_state(), q = p;
		const int blocks = below(MOST + 1);

		ht_philox_draw(&p, got, blocks);
		for (int i = 0; i < blocks; i++)
			ht_philox_next(&q, want + (ptrdiff_t)4 * i);
		assert_memory_equal(got, want, (size_t)blocks * 4 * sizeof *got);
		assert_memory_equal(&p, &q, sizeof p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(blocks_are_as_one_by_one) };
	const char *seed = getenv("HALFTONE_SEED");

	state = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
