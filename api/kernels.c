/* Code of a plan's kernels: from the cache, and what is not there from the code generator, which is
 * loaded only then. */
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
	struct ht_cached *cached;      /* by kernel; without bytes: not there */
	const struct ht_kernel **want; /* what is to be compiled, and its number */
	int32_t *number, wants;
};

const char *ht_code_id(void)
{
	return code_id;
}

/* What backend/ asks of a target besides: what emission may use. */
static void put_emission(struct ht_key_text *key, const struct ht_target *t, struct ht_arena *a)
{
	struct ht_target_fact fact;

	for (size_t i = 0; ht_target_capability(t, i, &fact); i++)
		ht_key_field(key, fact.name, ht_str_printf(a, "%d", (int)fact.value));
	ht_key_field(key, "streams", ht_str_printf(a, "%lld", (long long)t->streams));
}

struct ht_cache_key ht_kernel_key(
	const struct ht_kernel *k, const struct ht_target *t, struct ht_arena *a)
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
	ht_key_field(&key, "kernel", ht_buf_str(&text));
	return ht_key_end(&key);
}

/* ---- an entry's payload: where the code begins to run (8 bytes), zeros up to 64, the code ---- */

enum { CODE_AT = 64 };

static bool open_image(struct ht_str payload, struct ht_kernel_code *out)
{
	uint64_t entry;

	if (payload.n <= CODE_AT)
		return false;
	memcpy(&entry, payload.p, sizeof entry);
	*out = (struct ht_kernel_code){ { payload.p + CODE_AT, payload.n - CODE_AT },
		(size_t)entry };
	return entry < out->code.n;
}

static void keep_image(struct making *m, int32_t i)
{
	const struct ht_kernel_code *image = &m->p->kernel_code[i];
	char head[CODE_AT] = { 0 };
	struct ht_str piece[2] = { { head, sizeof head }, image->code };

	memcpy(head, &(uint64_t){ image->entry }, sizeof(uint64_t));
	ht_cache_put(m->how->cache, &m->key[i], &(struct ht_payload){ piece, 2, 0, 0 }, m->d);
}

/* ---- what is there, what is not ---- */

static void look_up(struct making *m)
{
	for (int32_t i = 0; i < m->plan->kernels; i++) {
		const struct ht_kernel *k = m->plan->kernel[i];

		if (k->library)
			continue;
		if (m->how->cache) {
			m->key[i] = ht_kernel_key(k, m->how->target, &m->arena);
			if (ht_cache_get(m->how->cache, &m->key[i], m->d, &m->cached[i]) &&
				open_image(m->cached[i].payload, &m->p->kernel_code[i]))
				continue;
		}
		m->want[m->wants] = k;
		m->number[m->wants++] = i;
	}
}

/* Everything, since code of two generators does not go together. */
static void want_all(struct making *m)
{
	m->wants = 0;
	for (int32_t i = 0; i < m->plan->kernels; i++)
		if (!m->plan->kernel[i]->library) {
			m->want[m->wants] = m->plan->kernel[i];
			m->number[m->wants++] = i;
		}
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
	HT_TRY(p->backend->compile(m->want, m->wants, m->how->target, m->how->threads,
		m->how->watch, m->d, &p->code, &entry));
	for (int32_t i = 0; i < m->wants; i++) {
		struct ht_kernel_code *image = &p->kernel_code[m->number[i]];

		image->code = p->backend->kernel_code(p->code, i, &image->entry);
		if (m->how->cache && ours)
			keep_image(m, m->number[i]);
	}
	return HT_OK;
}

/* ---- in one place, read-execute ---- */

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
		struct ht_str *code = &p->kernel_code[i].code;

		if (!code->n)
			continue;
		memcpy(to, code->p, code->n);
		code->p = to;
		to += (code->n + 63) / 64 * 64;
	}
	if (mprotect(p->code_map, p->code_mapped, PROT_READ | PROT_EXEC) != 0)
		return ht_error(m->d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"the system does not let memory become executable");
	return HT_OK;
}

/* Once, or again; the plan may be gone by then. */
static void release(void *arg)
{
	struct making *m = arg;

	for (size_t i = 0; m->cached && i < m->kernels; i++)
		if (m->cached[i].bytes.p)
			ht_cached_release(&m->cached[i]);
	m->cached = NULL;
	ht_arena_release(&m->arena);
}

/* Where nothing came from the cache, the code generator has done that already. */
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
	ht_arena_defer(&p->arena, release, m); /* should anything unwind */
	m->key = HT_NEW_ARRAY(&m->arena, struct ht_cache_key, n);
	m->want = HT_NEW_ARRAY(&m->arena, const struct ht_kernel *, n);
	m->number = HT_NEW_ARRAY(&m->arena, int32_t, n);
	p->llvm = HT_LLVM_VERSION;
	look_up(m);
	st = compile(m);
	if (st == HT_OK)
		st = place(m);
	release(m);
	return st;
}
