/* Arenas: zeroed memory that is released all at once.
 *
 * A block is never handed out twice, so calloc() zeroes it, which costs nothing for large blocks.
 * Under AddressSanitizer the part of a block that is not handed out is poisoned, with a gap behind
 * each allocation. */
#include "base/base.h"
#include "base/poison.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = HT_POISONS ? 16 : 0, ALIGN = 8, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct ht_arena_block {
	struct ht_arena_block *next;
	size_t used, size; /* bytes of data */
	_Alignas(ALIGN) char data[];
};

struct ht_arena_defer {
	struct ht_arena_defer *next;
	void (*fn)(void *);
	void *arg;
};

static _Thread_local long allocations_left = -1;

void ht_fail_alloc_after(long n)
{
	allocations_left = n;
}

static _Thread_local const int32_t *cancel_flag;

const int32_t *ht_cancel_by(const int32_t *flag)
{
	const int32_t *before = cancel_flag;

	cancel_flag = flag;
	return before;
}

bool ht_is_cancelled(void)
{
	return cancel_flag && __atomic_load_n(cancel_flag, __ATOMIC_RELAXED);
}

bool ht_alloc_may_fail(void)
{
	if (allocations_left < 0)
		return false;
	if (allocations_left == 0)
		return true;
	allocations_left--;
	return false;
}

void *ht_sys_alloc(size_t n)
{
	return ht_alloc_may_fail() ? NULL : calloc(1, n ? n : 1);
}

void ht_arena_init(struct ht_arena *a, struct ht_unwind *u)
{
	*a = (struct ht_arena){ .unwind = u };
}

void ht_arena_release(struct ht_arena *a)
{
	struct ht_arena_block *b, *next;

	/* A deferred call may defer another one. */
	while (a->defers) {
		struct ht_arena_defer *d = a->defers;
		a->defers = d->next;
		d->fn(d->arg);
	}
	for (b = a->block; b; b = next) {
		next = b->next;
		ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
		free(b);
	}
	a->block = NULL;
	a->bytes = 0;
}

static void release_within(void *arena)
{
	ht_arena_release(arena);
}

struct ht_arena *ht_arena_within(struct ht_arena *a)
{
	struct ht_arena *inner = HT_NEW(a, struct ht_arena);

	ht_arena_init(inner, a->unwind);
	ht_arena_defer(a, release_within, inner);
	return inner;
}

void ht_arena_fail(struct ht_arena *a)
{
	HT_CHECK(a->unwind);
	longjmp(a->unwind->env, 1);
}

/* Adds a block with room for `n` bytes.  Blocks double in size up to a limit.  A block above the
 * limit serves one allocation and is inserted behind the current block, whose free part stays in
 * use. */
static struct ht_arena_block *add_block(struct ht_arena *a, size_t n)
{
	size_t size = a->block ? a->block->size * 2 : FIRST_BLOCK - sizeof(struct ht_arena_block);
	struct ht_arena_block *b;
	size_t total;

	if (a->unwind && ht_is_cancelled())
		ht_arena_fail(a);
	if (size > LARGEST_BLOCK)
		size = LARGEST_BLOCK;
	bool own = n > size / 2 && a->block;
	if (own || size < n)
		size = n;
	if (!ht_add_size(size, sizeof *b, &total))
		ht_arena_fail(a);
	b = ht_sys_alloc(total);
	if (!b)
		ht_arena_fail(a);
	b->size = size;
	a->bytes += total;
	ASAN_POISON_MEMORY_REGION(b->data, size);
	if (own) {
		b->next = a->block->next;
		a->block->next = b;
	} else {
		b->next = a->block;
		a->block = b;
	}
	return b;
}

void *ht_alloc(struct ht_arena *a, size_t n)
{
	struct ht_arena_block *b = a->block;
	size_t need;
	char *p;

	if (!ht_add_size(n, ALIGN - 1 + GAP, &need))
		ht_arena_fail(a);
	need &= ~(size_t)(ALIGN - 1);
	if (!need)
		need = ALIGN; /* distinct pointers for empty allocations */
	if (!b || b->size - b->used < need)
		b = add_block(a, need);
	p = b->data + b->used;
	b->used += need;
	ASAN_UNPOISON_MEMORY_REGION(p, n);
	return p;
}

void *ht_alloc_array(struct ht_arena *a, size_t count, size_t size)
{
	size_t n;

	if (!ht_mul_size(count, size, &n))
		ht_arena_fail(a);
	return ht_alloc(a, n);
}

void ht_arena_defer(struct ht_arena *a, void (*fn)(void *), void *arg)
{
	struct ht_unwind *outer = a->unwind;
	struct ht_unwind here;
	struct ht_arena_defer *d;

	a->unwind = &here;
	if (setjmp(here.env)) {
		a->unwind = outer;
		fn(arg);
		ht_arena_fail(a);
	}
	d = HT_NEW(a, struct ht_arena_defer);
	a->unwind = outer;
	d->fn = fn;
	d->arg = arg;
	d->next = a->defers;
	a->defers = d;
}

/* Extends the allocation at `p` in place, if it is the newest one of the arena. */
static bool extend(struct ht_arena *a, char *p, size_t old, size_t n)
{
	struct ht_arena_block *b = a->block;
	size_t start;

	if (!b || GAP > 0 || p < b->data || p >= b->data + b->used)
		return false;
	start = (size_t)(p - b->data);
	if (start + ((old + ALIGN - 1) & ~(size_t)(ALIGN - 1)) != b->used || b->size - start < n)
		return false;
	b->used = (start + n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (b->used > b->size)
		b->used = b->size;
	return true;
}

void *ht_grow(struct ht_arena *a, void *items, size_t count, size_t *cap, size_t size)
{
	size_t wanted, old, n;
	void *p;

	if (count < *cap)
		return items;
	if (!ht_mul_size(*cap, 2, &wanted) || !ht_mul_size(wanted ? wanted : 4, size, &n))
		ht_arena_fail(a);
	if (!wanted)
		wanted = 4;
	old = *cap * size;
	if (old && extend(a, items, old, n)) {
		*cap = wanted;
		return items;
	}
	p = ht_alloc(a, n);
	if (old)
		memcpy(p, items, old);
	*cap = wanted;
	return p;
}
