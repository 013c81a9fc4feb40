/* Reference-counted bytes of constants.  Counts are atomic, because several threads may free
 * programs that share constants. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory of this size and above comes from mmap(), so that freeing it returns it to the system. */
enum { MAPPED_FROM = 1 << 17, BLOB_ALIGN = 64 };

/* Up to this size ht_blob_copy() allocates a blob and its bytes at once, since graphs have many small constants. */
enum { SMALL = 256 };

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Each run reads every weight once; with small pages, address translation would take longer than
 * the reads themselves. */
static void *map_memory(size_t n)
{
	return ht_alloc_may_fail() ? NULL : ht_map_usual(n);
}

static void *heap_memory(size_t n)
{
	size_t size = round_up(n ? n : 1, BLOB_ALIGN);
	void *p = ht_alloc_may_fail() ? NULL : aligned_alloc(BLOB_ALIGN, size);

	if (p)
		memset(p, 0, size);
	return p;
}

struct ht_blob *ht_blob_new(size_t n)
{
	struct ht_blob *b;

	if (n > SIZE_MAX / 2)
		return NULL;
	b = ht_sys_alloc(sizeof *b);
	if (!b)
		return NULL;
	b->mapped = n >= MAPPED_FROM ? round_up(n, (size_t)sysconf(_SC_PAGESIZE)) : 0;
	b->p = b->mapped ? map_memory(b->mapped) : heap_memory(n);
	if (!b->p) {
		free(b);
		return NULL;
	}
	b->n = n;
	b->refs = 1;
	return b;
}

struct ht_blob *ht_blob_copy(const void *p, size_t n)
{
	struct ht_blob *b = n > SMALL ? ht_blob_new(n) : ht_sys_alloc(sizeof *b + n);

	if (!b)
		return NULL;
	if (n <= SMALL)
		*b = (struct ht_blob){ .p = b + 1, .n = n, .refs = 1 };
	if (n)
		memcpy((void *)(uintptr_t)b->p, p, n);
	return b;
}

struct ht_blob *ht_blob_part(struct ht_blob *whole, size_t offset, size_t n)
{
	struct ht_blob *b;

	HT_CHECK(offset <= whole->n && n <= whole->n - offset);
	b = ht_sys_alloc(sizeof *b);
	if (!b)
		return NULL;
	b->p = (const char *)whole->p + offset;
	b->n = n;
	b->refs = 1;
	b->whole = ht_blob_ref(whole);
	return b;
}

struct ht_blob *ht_blob_of_file(struct ht_file *f, size_t offset, size_t n)
{
	struct ht_blob *b;

	HT_CHECK(offset <= f->n && n <= f->n - offset);
	b = ht_sys_alloc(sizeof *b);
	if (!b)
		return NULL;
	b->p = f->p + offset;
	b->n = n;
	b->refs = 1;
	b->file = ht_file_ref(f);
	return b;
}

bool ht_blob_in_file(const struct ht_blob *b)
{
	while (b->whole)
		b = b->whole;
	return b->file != NULL;
}

struct ht_blob *ht_blob_ref(struct ht_blob *b)
{
	__atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
	return b;
}

/* Drops the pages of a file's map that lie wholly inside the span; other spans may still use them.
 * A later read loads them from the file again. */
static void drop_pages(const struct ht_blob *b)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = round_up((uintptr_t)b->p, page);
	uintptr_t end = ((uintptr_t)b->p + b->n) / page * page;

	if (start < end)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

/* Bytes that a thread copies at a time. */
#define PIECE ((size_t)1 << 20)

struct copy {
	char *to;
	const char *from;
};

static void copy_range(void *arg, size_t begin, size_t end)
{
	const struct copy *c = arg;

	memcpy(c->to + begin, c->from + begin, end - begin);
}

struct ht_blob *ht_blob_aligned(struct ht_blob *b, size_t align, int threads)
{
	struct ht_blob *copy;

	HT_CHECK(align <= BLOB_ALIGN);
	if ((uintptr_t)b->p % align == 0)
		return ht_blob_ref(b);
	copy = ht_blob_new(b->n);
	if (!copy)
		return NULL;
	ht_on_ranges(threads, b->n, PIECE, copy_range,
		&(struct copy){ (char *)(uintptr_t)copy->p, b->p });
	if (b->file)
		drop_pages(b);
	return copy;
}

void ht_blob_unref(struct ht_blob *b)
{
	if (!b)
		return;
	/* The pages are dropped even if others hold references to the span: this owner has read it,
	 * and a model that keeps its constants should not keep their pages in memory. */
	if (b->file)
		drop_pages(b);
	if (__atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (b->file) {
		ht_file_unref(b->file);
	} else if (b->whole) {
		ht_blob_unref(b->whole);
	} else if (b->mapped) {
		munmap((void *)(uintptr_t)b->p, b->mapped);
	} else if (b->p != b + 1) {
		free((void *)(uintptr_t)b->p);
	}
	free(b);
}

static void unref_deferred(void *blob)
{
	ht_blob_unref(blob);
}

struct ht_blob *ht_blob_in(struct ht_arena *a, size_t n)
{
	struct ht_blob *b = ht_blob_new(n);

	if (!b)
		ht_arena_fail(a);
	ht_arena_defer(a, unref_deferred, b);
	return b;
}
