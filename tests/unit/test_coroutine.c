/* Coroutines: turns, unwinding, the modes of arithmetic, and a stack that overflows. */
#include "api/coroutine.h"
#include "base/base.h"
#include "tests/unit/sanitized.h"

#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TURNS = 5, SIDES = 3 };

struct counter {
	struct ht_coroutine *c;
	int turns;
	uintptr_t at; /* on its stack */
};

static void count(void *arg)
{
	struct counter *k = arg;
	volatile int local[64] = { 0 };

	for (int i = 0; i < TURNS; i++) {
		local[i] = i + 1;
		ht_coroutine_pause(k->c);
		for (int j = 0; j <= i; j++)
			assert_int_equal(local[j], j + 1);
		k->turns++;
	}
}

static void test_turns(void **state)
{
	struct counter k[SIDES] = { 0 };

	(void)state;
	for (int i = 0; i < SIDES; i++)
		assert_non_null(k[i].c = ht_coroutine_new());
	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < SIDES; i++)
			ht_coroutine_start(k[i].c, count, &k[i]);
		for (int turn = 0; turn < TURNS; turn++)
			for (int i = 0; i < SIDES; i++) {
				assert_false(ht_coroutine_ended(k[i].c));
				ht_coroutine_resume(k[i].c);
			}
		for (int i = 0; i < SIDES; i++) {
			assert_true(ht_coroutine_ended(k[i].c));
			assert_int_equal(k[i].turns, (again + 1) * TURNS);
		}
	}
	for (int i = 0; i < SIDES; i++)
		ht_coroutine_free(k[i].c);
	ht_coroutine_free(NULL);
}

/* ---- unwinding, as functions do that run out of memory ---- */

static __attribute__((noinline)) void give_up(struct ht_unwind *u, struct counter *k)
{
	volatile char room[20000];

	room[0] = 1;
	ht_coroutine_pause(k->c);
	if (room[0])
		longjmp(u->env, 1);
}

static void unwinds(void *arg)
{
	struct counter *k = arg;
	struct ht_unwind u;

	if (!setjmp(u.env))
		give_up(&u, k);
	ht_coroutine_pause(k->c);
	k->turns++;
}

static void test_unwinding(void **state)
{
	struct counter k[2] = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		k[i].c = ht_coroutine_new();
		ht_coroutine_start(k[i].c, unwinds, &k[i]);
	}
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < 2; i++)
			ht_coroutine_resume(k[i].c);
	for (int i = 0; i < 2; i++) {
		assert_true(ht_coroutine_ended(k[i].c));
		assert_int_equal(k[i].turns, 1);
		ht_coroutine_free(k[i].c);
	}
}

/* ---- modes of floating-point arithmetic ---- */

static void rounds_up(void *arg)
{
	struct counter *k = arg;

	fesetround(FE_UPWARD);
	ht_coroutine_pause(k->c);
	k->turns = fegetround() == FE_UPWARD;
	fesetround(FE_TONEAREST);
}

static void test_modes(void **state)
{
	struct counter k = { .c = ht_coroutine_new() };

	(void)state;
	ht_coroutine_start(k.c, rounds_up, &k);
	assert_int_equal(fegetround(), FE_TONEAREST);
	fesetround(FE_DOWNWARD);
	ht_coroutine_resume(k.c);
	assert_int_equal(fegetround(), FE_DOWNWARD);
	fesetround(FE_TONEAREST);
	assert_int_equal(k.turns, 1);
	ht_coroutine_free(k.c);
}

/* ---- a stack that overflows ---- */

/* As in kernels, only the lowest part of a frame is touched.  FIRST has the frames reach over a guard of half their size. */
enum { FRAME = 1 << 17, FIRST = 70000, FRAMES = 10, MANY = 64 };

static __attribute__((noinline)) int overflow(int depth)
{
	volatile char room[FRAME];

	room[0] = (char)depth;
	return depth ? overflow(depth - 1) + room[0] : 0;
}

static void overflows(void *arg)
{
	struct counter *k = arg;
	volatile char room[FIRST];

	room[0] = 0;
	k->at = (uintptr_t)room;
	ht_coroutine_pause(k->c);
	k->turns = overflow(FRAMES);
}

/* Overflows the stack of a coroutine that has another one's directly below, as the system maps downwards. */
static void overflow_one(void)
{
	struct counter k[MANY] = { 0 };

	for (int i = 0; i < MANY; i++) {
		k[i].c = ht_coroutine_new();
		ht_coroutine_start(k[i].c, overflows, &k[i]);
	}
	for (int i = 0; i + 1 < MANY; i++)
		if (k[i].at - k[i + 1].at < 2 << 20)
			ht_coroutine_resume(k[i].c);
}

static void test_overflow(void **state)
{
	pid_t child;
	int status;

	(void)state;
	if (SANITIZED) /* which maps memory between the stacks */
		skip();
	child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		overflow_one();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_unwinding),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
