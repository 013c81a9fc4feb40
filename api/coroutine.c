/* Coroutines, by ucontext: a switch saves the registers, the modes of floating-point arithmetic and the signal mask. */
#include "api/coroutine.h"
#include "base/base.h"
#include "base/poison.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#if HT_POISONS
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(kept, stack, n) ((void)(kept), (void)(stack), (void)(n))
#define __sanitizer_finish_switch_fiber(kept, stack, n) ((void)(kept), (void)(stack), (void)(n))
#endif

/* STACK is enough for a run and its observer; only pages that are touched take memory.  GUARD, the bytes below, are inaccessible: more
 * than the frame of any kernel, which has buffers of at most 128 KiB (backend/widen.c), so that no frame reaches beyond. */
enum { STACK = 1 << 20, GUARD = 1 << 19 };

/* What AddressSanitizer is told of a stack when another one is left for it. */
struct stack {
	const void *at;
	size_t n;
	void *kept; /* AddressSanitizer's, while the stack waits */
};

struct ht_coroutine {
	ucontext_t own, caller;
	struct stack stack, callers;
	char *map; /* guard and stack */
	ht_coroutine_fn *fn;
	void *arg;
	bool ended;
};

struct ht_coroutine *ht_coroutine_new(void)
{
	struct ht_coroutine *c = ht_sys_alloc(sizeof *c);

	if (!c)
		return NULL;
	*c = (struct ht_coroutine){ .map = ht_map_usual(GUARD + STACK), .ended = true };
	if (c->map && mprotect(c->map, GUARD, PROT_NONE) == 0) {
		c->stack = (struct stack){ .at = c->map + GUARD, .n = STACK };
		return c;
	}
	ht_coroutine_free(c);
	return NULL;
}

void ht_coroutine_free(struct ht_coroutine *c)
{
	if (!c)
		return;
	if (c->map)
		munmap(c->map, GUARD + STACK);
	free(c);
}

/* makecontext() passes integers: the two halves of an address.  The stack is not used again for this function: nothing of it is kept. */
static void enter(unsigned high, unsigned low)
{
	struct ht_coroutine *c = (void *)((uintptr_t)high << 32 | low);

	__sanitizer_finish_switch_fiber(NULL, &c->callers.at, &c->callers.n);
	c->fn(c->arg);
	c->ended = true;
	__sanitizer_start_switch_fiber(NULL, c->callers.at, c->callers.n);
}

void ht_coroutine_start(struct ht_coroutine *c, ht_coroutine_fn *fn, void *arg)
{
	uint64_t address = (uintptr_t)c;

	HT_CHECK(c->ended && getcontext(&c->own) == 0);
	c->fn = fn;
	c->arg = arg;
	c->ended = false;
	c->own.uc_stack.ss_sp = c->map + GUARD;
	c->own.uc_stack.ss_size = STACK;
	c->own.uc_link = &c->caller;
	makecontext(
		&c->own, (void (*)(void))enter, 2, (unsigned)(address >> 32), (unsigned)address);
	ht_coroutine_resume(c);
}

void ht_coroutine_resume(struct ht_coroutine *c)
{
	HT_CHECK(!c->ended);
	__sanitizer_start_switch_fiber(&c->callers.kept, c->stack.at, c->stack.n);
	HT_CHECK(swapcontext(&c->caller, &c->own) == 0);
	__sanitizer_finish_switch_fiber(c->callers.kept, NULL, NULL);
}

void ht_coroutine_pause(struct ht_coroutine *c)
{
	__sanitizer_start_switch_fiber(&c->stack.kept, c->callers.at, c->callers.n);
	HT_CHECK(swapcontext(&c->own, &c->caller) == 0);
	__sanitizer_finish_switch_fiber(c->stack.kept, &c->callers.at, &c->callers.n);
}

bool ht_coroutine_ended(const struct ht_coroutine *c)
{
	return c->ended;
}
