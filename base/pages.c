/* Memory in large pages.  A program that reads scattered elements of gigabytes, as lookups in
 * tables do, waits for address translation; a large page takes one entry of the TLB. */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
enum { ALIGN = 64, LOG_1G = 30, LOG_2M = 21 };

/* The system's flags contain the binary logarithm of the page size, from this bit on. */
enum { PAGE_SHIFT = 26 };

struct ht_page_area {
	struct ht_page_area *next;
	char *p;
	size_t n, used;
};

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static void *map(size_t n, int flags)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void *map_reserved(size_t n, int log_page)
{
	return map(n, MAP_HUGETLB | log_page << PAGE_SHIFT);
}

void *(*ht_map_reserved)(size_t n, int log_page) = map_reserved;

/* The map is large enough to contain the begin of a huge page; the parts in front of it and behind
 * it are unmapped. */
void *ht_map_usual(size_t n)
{
	size_t spare = n >= HUGE_PAGE ? HUGE_PAGE : 0, front;
	char *p = map(n + spare, 0);

	if (!p || !spare)
		return p;
	front = round_up((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p;
	if (front)
		munmap(p, front);
	if (spare - front)
		munmap(p + front + n, spare - front);
	madvise(p + front, n, MADV_HUGEPAGE); /* only a hint, so its failure does not matter */
	return p + front;
}

/* ---- pools ---- */

static bool map_area(struct ht_page_area *a, enum ht_pages pages, size_t n, size_t *page)
{
	static const int logs[] = { LOG_1G, LOG_2M };

	for (size_t i = 0; i < (pages == HT_PAGES_1G ? 1 : 2); i++) {
		a->n = round_up(n, (size_t)1 << logs[i]);
		a->p = ht_map_reserved(a->n, logs[i]);
		if (a->p) {
			*page = (size_t)1 << logs[i];
			return true;
		}
	}
	if (pages == HT_PAGES_1G)
		return false;
	*page = 0;
	a->n = round_up(n, (size_t)sysconf(_SC_PAGESIZE));
	a->p = ht_map_usual(a->n);
	return a->p;
}

void *ht_page_pool_take(struct ht_page_pool *pool, size_t n)
{
	struct ht_page_area *a = pool->area;
	size_t page;

	n = n < SIZE_MAX / 4 ? round_up(n ? n : 1, ALIGN) : SIZE_MAX / 4;
	if (!a || a->n - a->used < n) {
		a = ht_sys_alloc(sizeof *a);
		if (!a || !map_area(a, pool->pages, n, &page)) {
			free(a);
			return NULL;
		}
		pool->least = !pool->area || page < pool->least ? page : pool->least;
		a->next = pool->area;
		pool->area = a;
	}
	a->used += n;
	return a->p + a->used - n;
}

void ht_page_pool_free(struct ht_page_pool *pool)
{
	while (pool->area) {
		struct ht_page_area *a = pool->area;

		pool->area = a->next;
		munmap(a->p, a->n);
		free(a);
	}
}

enum ht_status ht_page_pool_refused(
	const struct ht_page_pool *pool, const char *what, size_t n, struct ht_diags *d)
{
	if (pool->pages != HT_PAGES_1G)
		return ht_error(
			d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for %zu bytes of %s", n, what);
	return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
		"%zu bytes of %s need %zu pages of 1 GB, and the system has too few that are free "
		"(/sys/kernel/mm/hugepages/hugepages-1048576kB)",
		n, what, (n + ((size_t)1 << LOG_1G) - 1) >> LOG_1G);
}

void ht_page_pool_tell(const struct ht_page_pool *pool, const char *what, struct ht_diags *d)
{
	if (pool->area && pool->least >> LOG_1G == 0)
		ht_warn(d, HT_NOWHERE,
			"the system has too few free pages of 1 GB "
			"(/sys/kernel/mm/hugepages/hugepages-1048576kB): %s are in %s",
			what,
			pool->least ? "pages of 2 MB"
				    : "the pages that the system gives of itself");
}
