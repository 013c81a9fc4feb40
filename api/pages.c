/* Constants and variables of programs in large pages. */
#include "api/api.h"

#include <string.h>
#include <sys/mman.h>

/* Constants of an artefact are verified before their first use, which is here. */
static enum ht_status check(const struct ht_program *p, uint32_t constants, struct ht_diags *d)
{
	for (uint32_t i = 0; p->rt.is_whole && i < constants; i++)
		if (!p->rt.is_whole(p->rt.is_whole_arg, i, 0, 1))
			return ht_artefact_refuse(&p->artefact, d, "its weights are damaged");
	return HT_OK;
}

static size_t round_up(uint64_t n)
{
	return ((size_t)n + 63) / 64 * 64;
}

/* Copies all constants, one behind the other. */
static enum ht_status move_constants(struct ht_program *p, struct ht_diags *d)
{
	const uint64_t *bytes = ht_image_constants(p->rt.image);
	uint32_t n = ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS);
	int64_t *constant = (int64_t *)(uintptr_t)p->rt.constant;
	size_t all = 0;
	char *to;

	for (uint32_t i = 0; i < n; i++)
		all += round_up(bytes[i]);
	if (!all)
		return HT_OK;
	HT_TRY(check(p, n, d));
	to = ht_page_pool_take(&p->pages, all);
	if (!to)
		return ht_page_pool_refused(&p->pages, "constants", all, d);
	for (uint32_t i = 0; i < n; to += round_up(bytes[i++]))
		memcpy(to, (const void *)(uintptr_t)constant[i], bytes[i]);
	HT_TRY(ht_program_files_check(p, d));
	to -= all;
	for (uint32_t i = 0; i < n; to += round_up(bytes[i++]))
		constant[i] = (int64_t)(uintptr_t)to;
	p->rt.is_whole = NULL;
	if (p->packed.n) /* no other program reads these */
		madvise((void *)(uintptr_t)p->packed.p, p->packed.n, MADV_DONTNEED);
	ht_page_pool_tell(&p->pages, "constants", d);
	return HT_OK;
}

enum ht_status ht_program_use_pages(struct ht_program *p, enum ht_pages pages, struct ht_diags *d)
{
	enum ht_status st;

	if (pages != HT_PAGES_USUAL && pages != HT_PAGES_1G && pages != HT_PAGES_1G_OR_LESS)
		return ht_refuse(d, HT_E_USAGE, "pages %d", (int)pages);
	if (p->pages.pages != HT_PAGES_USUAL)
		return ht_refuse(d, HT_E_USAGE, "the program's pages are chosen already");
	if (pages == HT_PAGES_USUAL)
		return HT_OK;
	p->pages.pages = pages;
	st = move_constants(p, d);
	if (st != HT_OK) {
		ht_page_pool_free(&p->pages);
		p->pages = (struct ht_page_pool){ 0 };
	}
	return st;
}

/* ---- contexts ---- */

enum ht_status ht_paged_variables(
	const struct ht_program *p, struct ht_page_pool *pool, char **memory, struct ht_diags *d)
{
	const struct ht_image *x = p->rt.image;

	pool->pages = p->pages.pages;
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_VARIABLES); i++) {
		size_t n = (size_t)ht_image_variables(x)[i].bytes;

		memory[i] = ht_page_pool_take(pool, n);
		if (!memory[i])
			return ht_page_pool_refused(pool, "a variable", n, d);
	}
	ht_page_pool_tell(pool, "variables", d);
	return HT_OK;
}
