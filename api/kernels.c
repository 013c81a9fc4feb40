/* Code of a plan's kernels: from the cache, and the rest from the code generator, which is
 * loaded only if it is needed. */
#include "api/api.h"

#include <halftone-ids.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char code_id[] = HT_CODE_ID " LLVM " HT_LLVM_VERSION;

struct making {
	struct ht_program *p;
	const struct ht_plan *plan;
	size_t kernels; /* of the plan */
	const struct ht_make *how;
	struct ht_arena arena; /* keys */
	struct ht_diags *d;
	struct ht_cache_key *key;      /* by kernel */
	struct ht_cached *cached;      /* by kernel; without bytes: not in the cache */
	const struct ht_kernel **want; /* the kernels to compile, and their numbers */
	int32_t *number, wants;
	struct ht_code_how *code; /* by wanted kernel */
};

const char *ht_code_id(void)
{
	return code_id;
}

/* Writes the facts of a target that only emission uses. */
static void put_emission(struct ht_key_text *key, const struct ht_target *t, struct ht_arena *a)
{
	struct ht_target_fact fact;

	for (size_t i = 0; ht_target_capability(t, i, &fact); i++)
		ht_key_field(key, fact.name, ht_str_printf(a, "%d", (int)fact.value));
	ht_key_field(key, "streams", ht_str_printf(a, "%lld", (long long)t->streams));
}

struct ht_cache_key ht_kernel_key(const struct ht_kernel *k, const struct ht_target *t,
	struct ht_code_how how, struct ht_arena *a)
{
	struct ht_key_text key;
	struct ht_buf text;

	ht_buf_init(&text, a);
	ht_kernel_print(k, &text);
	ht_key_begin(&key, HT_CACHE_KERNEL, a);
	ht_key_field(&key, "code-generator", ht_str(code_id));
	ht_key_field(&key, "cpu", ht_str(t->cpu));
	ht_key_field(&key, "features", ht_str(t->features));
	put_emission(&key, t, a);
	if (how.lines)
		ht_key_field(&key, "lines", HT_STR("1"));
	if (how.plain)
		ht_key_field(&key, "optimized", HT_STR("0"));
	ht_key_field(&key, "kernel", ht_buf_str(&text));
	return ht_key_end(&key);
}

/* ---- an entry's payload: offset where the code begins to run (8 bytes), offset of its lines (8
 * bytes; 0: it has none), zeros up to 64, the code, the lines ---- */

enum { CODE_AT = 64 };

static bool open_image(struct ht_str payload, struct ht_kernel_code *out)
{
	uint64_t head[2], lines;

	if (payload.n <= CODE_AT)
		return false;
	memcpy(head, payload.p, sizeof head);
	lines = head[1] ? head[1] : payload.n;
	if (lines < CODE_AT || lines > payload.n)
		return false;
	*out = (struct ht_kernel_code){ { payload.p + CODE_AT, lines - CODE_AT }, (size_t)head[0],
		{ payload.p + lines, payload.n - lines } };
	return head[0] < out->code.n;
}

static void keep_image(struct making *m, int32_t i)
{
	const struct ht_kernel_code *image = &m->p->kernel_code[i];
	char head[CODE_AT] = { 0 };
	const size_t end = CODE_AT + image->code.n, pad = (8 - end % 8) % 8;
	const uint64_t about[2] = { image->entry, image->lines.n ? end + pad : 0 };
	struct ht_str piece[4] = { { head, sizeof head }, image->code, { (char[8]){ 0 }, pad },
		image->lines };

	memcpy(head, about, sizeof about);
	ht_cache_put(m->how->cache, &m->key[i],
		&(struct ht_payload){ piece, image->lines.n ? 4 : 2, 0, 0 }, m->d);
}

/* ---- which kernels the cache has ---- */

static struct ht_code_how code_how(const struct making *m, int32_t kernel)
{
	return m->how->code ? m->how->code[kernel] : (struct ht_code_how){ 0 };
}

static void want(struct making *m, int32_t kernel)
{
	m->want[m->wants] = m->plan->kernel[kernel];
	m->code[m->wants] = code_how(m, kernel);
	m->number[m->wants++] = kernel;
}

static void look_up(struct making *m)
{
	for (int32_t i = 0; i < m->plan->kernels; i++) {
		const struct ht_kernel *k = m->plan->kernel[i];

		if (k->library)
			continue;
		if (m->how->cache) {
			m->key[i] = ht_kernel_key(k, m->how->target, code_how(m, i), &m->arena);
			if (ht_cache_get(m->how->cache, &m->key[i], m->d, &m->cached[i]) &&
				open_image(m->cached[i].payload, &m->p->kernel_code[i]))
				continue;
		}
		want(m, i);
	}
}

/* Compiles all kernels: code of two versions of the generator must not be combined. */
static void want_all(struct making *m)
{
	m->wants = 0;
	for (int32_t i = 0; i < m->plan->kernels; i++)
		if (!m->plan->kernel[i]->library)
			want(m, i);
}

static enum ht_status compile(struct making *m)
{
	struct ht_program *p = m->p;
	ht_kernel_fn **entry;
	bool ours;

	if (!m->wants)
		return HT_OK;
	HT_TRY(ht_backend_load(m->how->backend, m->d, &p->backend));
	p->llvm = p->backend->llvm_version();
	ours = !strcmp(p->backend->id(), code_id);
	if (!ours)
		want_all(m);
	HT_TRY(p->backend->compile(m->want, m->wants, m->how->target, m->code, m->how->threads,
		m->how->watch, m->d, &p->code, &entry));
	for (int32_t i = 0; i < m->wants; i++) {
		struct ht_kernel_code *image = &p->kernel_code[m->number[i]];

		image->code = p->backend->kernel_code(p->code, i, &image->entry);
		image->lines = p->backend->kernel_lines(p->code, i);
		if (m->how->cache && ours)
			keep_image(m, m->number[i]);
	}
	return HT_OK;
}

/* ---- all code in one mapping, read-execute ---- */

static enum ht_status join(struct making *m)
{
	struct ht_program *p = m->p;
	size_t n = 0;
	char *to;

	for (int32_t i = 0; i < m->plan->kernels; i++)
		n += (p->kernel_code[i].code.n + 63) / 64 * 64;
	p->code_mapped = n + 4096;
	to = mmap(NULL, p->code_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return ht_error(m->d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for code");
	p->code_map = to;
	for (int32_t i = 0; i < m->plan->kernels; i++) {
		struct ht_str *code = &p->kernel_code[i].code, *lines = &p->kernel_code[i].lines;

		if (!code->n)
			continue;
		*lines = ht_str_copy(&p->arena, *lines); /* a copy, since the cache's entry is
							  * released */
		memcpy(to, code->p, code->n);
		code->p = to;
		to += (code->n + 63) / 64 * 64;
	}
	if (mprotect(p->code_map, p->code_mapped, PROT_READ | PROT_EXEC) != 0)
		return ht_error(m->d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"the system does not let memory become executable");
	return HT_OK;
}

/* May be called twice; the plan may be freed by then. */
static void release(void *arg)
{
	struct making *m = arg;

	for (size_t i = 0; m->cached && i < m->kernels; i++)
		if (m->cached[i].bytes.p)
			ht_cached_release(&m->cached[i]);
	m->cached = NULL;
	ht_arena_release(&m->arena);
}

/* If no kernel came from the cache, the code generator has mapped the code already. */
static enum ht_status place(struct making *m)
{
	size_t cached = 0;

	for (int32_t i = 0; i < m->plan->kernels; i++) {
		cached += m->cached[i].bytes.p != NULL;
		m->p->info.code_bytes += m->p->kernel_code[i].code.n;
	}
	return cached ? join(m) : HT_OK;
}

enum ht_status ht_kernels_make(struct ht_program *p, const struct ht_plan *plan,
	const struct ht_make *how, struct ht_diags *d)
{
	size_t n = (size_t)plan->kernels;
	struct making *m = HT_NEW(&p->arena, struct making);
	enum ht_status st;

	*m = (struct making){ .p = p, .plan = plan, .kernels = n, .how = how, .d = d };
	p->kernel_code = HT_NEW_ARRAY(&p->arena, struct ht_kernel_code, n);
	m->cached = HT_NEW_ARRAY(&p->arena, struct ht_cached, n);
	ht_arena_init(&m->arena, p->arena.unwind);
	ht_arena_defer(&p->arena, release, m); /* in case an allocation unwinds */
	m->key = HT_NEW_ARRAY(&m->arena, struct ht_cache_key, n);
	m->want = HT_NEW_ARRAY(&m->arena, const struct ht_kernel *, n);
	m->number = HT_NEW_ARRAY(&m->arena, int32_t, n);
	m->code = HT_NEW_ARRAY(&m->arena, struct ht_code_how, n);
	p->llvm = HT_LLVM_VERSION;
	look_up(m);
	st = compile(m);
	if (st == HT_OK)
		st = place(m);
	release(m);
	return st;
}
