/* Coroutines, by ucontext: a switch saves the registers, the modes of floating-point arithmetic and the signal mask. */
#include "api/coroutine.h"
#include "base/base.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* Enough for a run and its observer; only pages that are touched take memory.  The lowest GUARD bytes are inaccessible. */
enum { STACK = 1 << 20, GUARD = 1 << 16 };

struct ht_coroutine {
	ucontext_t own, caller;
	char *stack;
	ht_coroutine_fn *fn;
	void *arg;
	bool ended;
};

struct ht_coroutine *ht_coroutine_new(void)
{
	struct ht_coroutine *c = ht_sys_alloc(sizeof *c);

	if (!c)
		return NULL;
	*c = (struct ht_coroutine){ .stack = ht_map_usual(STACK), .ended = true };
	if (c->stack && mprotect(c->stack, GUARD, PROT_NONE) == 0)
		return c;
	ht_coroutine_free(c);
	return NULL;
}

void ht_coroutine_free(struct ht_coroutine *c)
{
	if (!c)
		return;
	if (c->stack)
		munmap(c->stack, STACK);
	free(c);
}

/* makecontext() passes integers: the two halves of an address. */
static void enter(unsigned high, unsigned low)
{
	struct ht_coroutine *c = (void *)((uintptr_t)high << 32 | low);

	c->fn(c->arg);
	c->ended = true;
}

void ht_coroutine_start(struct ht_coroutine *c, ht_coroutine_fn *fn, void *arg)
{
	uint64_t address = (uintptr_t)c;

	HT_CHECK(c->ended && getcontext(&c->own) == 0);
	c->fn = fn;
	c->arg = arg;
	c->ended = false;
	c->own.uc_stack.ss_sp = c->stack;
	c->own.uc_stack.ss_size = STACK;
	c->own.uc_link = &c->caller;
	makecontext(
		&c->own, (void (*)(void))enter, 2, (unsigned)(address >> 32), (unsigned)address);
	ht_coroutine_resume(c);
}

void ht_coroutine_resume(struct ht_coroutine *c)
{
	HT_CHECK(!c->ended && swapcontext(&c->caller, &c->own) == 0);
}

void ht_coroutine_pause(struct ht_coroutine *c)
{
	HT_CHECK(swapcontext(&c->own, &c->caller) == 0);
}

bool ht_coroutine_ended(const struct ht_coroutine *c)
{
	return c->ended;
}
