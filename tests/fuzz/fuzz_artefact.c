/* An artefact with arbitrary plans, index and header is refused with a reason, or loaded.  It is
 * not run: kernels believe the plan, whose author is trusted like a library's.
 *
 * Each input is tried twice: as it is, and with every hash corrected, so that code behind the
 * checks of hashes is reached.  libFuzzer's mutations change one part (a section, the header, a
 * number of the index or of a plan) and assemble the file again around it. */
#include "api/api.h"
#include "runtime/format.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A function of libFuzzer, which is absent when inputs are replayed. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* ---- files in parts ---- */

struct parts {
	struct ht_artefact_header header;
	struct ht_buf section[HT_SECTIONS];
};

static bool take_apart(const uint8_t *data, size_t size, struct ht_arena *a, struct parts *p)
{
	if (size < sizeof p->header)
		return false;
	memcpy(&p->header, data, sizeof p->header);
	for (int i = 0; i < HT_SECTIONS; i++) {
		const struct ht_artefact_section *s = &p->header.section[i];
		size_t at = s->offset < size ? (size_t)s->offset : size;
		size_t n = s->bytes < size - at ? (size_t)s->bytes : size - at;

		ht_buf_init(&p->section[i], a);
		ht_put(&p->section[i], data + at, n);
	}
	return true;
}

static void put_zeros(struct ht_buf *b, size_t n)
{
	while (n--)
		ht_putc(b, 0);
}

/* Writes the file with its sections in place and correct hashes of header and sections. */
static void put_together(struct parts *p, struct ht_buf *out)
{
	struct ht_artefact_header *h = &p->header;

	memcpy(h->magic, HT_ARTEFACT_MAGIC, sizeof h->magic);
	h->version = HT_ARTEFACT_VERSION;
	h->sections = HT_SECTIONS;
	put_zeros(out, sizeof *h);
	for (uint32_t i = 0; i < HT_SECTIONS; i++) {
		struct ht_artefact_section *s = &h->section[i];
		uint64_t align = ht_section_align((enum ht_section)i);

		put_zeros(out, (size_t)(ht_align_to(out->n, align) - out->n));
		s->kind = i;
		s->offset = out->n;
		s->bytes = p->section[i].n;
		ht_sha256(p->section[i].p, p->section[i].n, s->digest);
		ht_put(out, p->section[i].p, p->section[i].n);
	}
	h->bytes = out->n;
	h->check = 0;
	memset(h->signature, 0, sizeof h->signature);
	memset(h->key, 0, sizeof h->key);
	ht_header_digest(h, h->digest);
	memcpy(out->p, h, sizeof *h);
}

/* ---- the hashes inside ---- */

static void repair_plan(struct parts *p, const struct ht_index_variant *v, struct ht_arena *a)
{
	struct ht_buf *plans = &p->section[HT_PLANS], *code = &p->section[HT_CODE], out;
	struct ht_str bytes =
		ht_str_copy(a, (struct ht_str){ plans->p + v->plan_offset, (size_t)v->plan_bytes });
	struct ht_program_plan plan;

	if (ht_plan_read(bytes, a, &plan))
		return;
	for (size_t i = 0; i < plan.kernels; i++) {
		struct ht_plan_code *k = &plan.kernel[i];

		if (k->bytes && k->offset <= code->n && k->bytes <= code->n - k->offset)
			ht_sha256(code->p + k->offset, (size_t)k->bytes, k->digest);
	}
	ht_buf_init(&out, a);
	ht_plan_write(&plan, &out);
	memcpy(plans->p + v->plan_offset, out.p, out.n);
}

static void repair_weight(const struct parts *p, struct ht_index_weight *w)
{
	for (size_t i = 0; i < w->chunks && !w->file; i++) {
		uint64_t at = i * (uint64_t)HT_WEIGHT_CHUNK, left = w->bytes - at;

		w->chunk[i] = ht_hash_bytes(p->section[HT_WEIGHTS].p + w->offset + at,
			left < HT_WEIGHT_CHUNK ? (size_t)left : HT_WEIGHT_CHUNK);
	}
}

/* Repairs as much as can be read of index and plans. */
static void repair(struct parts *p, struct ht_arena *a)
{
	struct ht_buf *plans = &p->section[HT_PLANS];
	struct ht_index x;

	if (ht_index_read(
		    ht_buf_str(&p->section[HT_INDEX]), plans->n, p->section[HT_WEIGHTS].n, a, &x))
		return;
	for (size_t i = 0; i < x.variants; i++)
		repair_plan(p, &x.variant[i], a);
	for (size_t i = 0; i < x.variants; i++)
		ht_sha256(plans->p + x.variant[i].plan_offset, (size_t)x.variant[i].plan_bytes,
			x.variant[i].digest);
	for (size_t i = 0; i < x.weights; i++)
		repair_weight(p, &x.weight[i]);
	ht_buf_init(&p->section[HT_INDEX], a);
	ht_index_write(&x, &p->section[HT_INDEX]);
}

static bool repaired(const uint8_t *data, size_t size, struct ht_arena *a, struct ht_buf *out)
{
	struct parts *p = HT_NEW(a, struct parts);

	if (!take_apart(data, size, a, p))
		return false;
	repair(p, a);
	ht_buf_init(out, a);
	put_together(p, out);
	return true;
}

/* ---- loading ---- */

/* Calls every query of a program without running it. */
static void look_at(const struct ht_program *p)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	const struct ht_image *x = p->rt.image;
	struct ht_value_info v;
	size_t letters = 0;

	ht_program_about(p, &info);
	letters += strlen(info.target) + strlen(info.policy) + strlen(info.entry);
	for (size_t i = 0; ht_program_input(p, i, &v); i++)
		letters += strlen(v.name) + strlen(ht_dtype_name(v.dtype));
	for (size_t i = 0; ht_program_output(p, i, &v); i++)
		letters += strlen(v.name) + strlen(ht_dtype_name(v.dtype));
	for (size_t i = 0; ht_program_variable(p, i, &v); i++)
		letters += v.value ? ht_hash_bytes(v.value, v.bytes).lo & 1 : 0;
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_CONSTANTS); i++)
		p->rt.is_whole(p->rt.is_whole_arg, i, 0, 1);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		HT_CHECK(p->rt.kernel[i]);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_NOTES); i++)
		letters += strlen(ht_image_text(x, ht_image_notes(x)[i].node));
	HT_CHECK(letters < SIZE_MAX);
}

static void load(const char *path, bool full, int64_t batch)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_program *p;
	struct ht_bytes text;

	opt.verify_full = full;
	opt.batch = batch;
	if (ht_program_load(path, &opt, d, &p) == HT_OK)
		look_at(p);
	else
		HT_CHECK(!d || d->errors);
	ht_program_free(p);
	if (full && ht_artefact_manifest(path, &opt, NULL, &text) == HT_OK)
		ht_bytes_free(&text);
	ht_diags_free(d);
}

/* Loads the artefact like halftone aot: every variant that one net can have. */
static void load_for_net(const char *path)
{
	struct ht_program *p[64];
	size_t n;

	ht_aot_load(path, NULL, NULL, 0, NULL, p, HT_COUNT(p), &n);
	while (n) {
		look_at(p[--n]);
		ht_program_free(p[n]);
	}
}

static void load_bytes(const void *data, size_t size)
{
	int fd = memfd_create("artefact", MFD_CLOEXEC);
	char path[64];

	HT_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	load(path, false, 0);
	load(path, true, 2);
	load_for_net(path);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_buf out;

	load_bytes(data, size);
	ht_arena_init(&arena, &unwind);
	if (!setjmp(unwind.env) && repaired(data, size, &arena, &out))
		load_bytes(out.p, out.n);
	ht_arena_release(&arena);
	return 0;
}

/* ---- mutations ---- */

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Changes a number of the index or of a plan to an end of its range, or by a small amount. */
static void change_number(struct ht_buf *b, uint64_t *state)
{
	static const uint64_t ends[] = { 0, 1, 63, 64, 4096, INT32_MAX, UINT32_MAX,
		(uint64_t)1 << 46, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 63, UINT64_MAX };
	size_t at;
	uint64_t v;

	if (b->n < 8)
		return;
	at = (size_t)(next(state) % (b->n - 7));
	memcpy(&v, b->p + at, sizeof v);
	if (next(state) % 2)
		v = ends[next(state) % HT_COUNT(ends)];
	else
		v += next(state) % 129 - 64;
	memcpy(b->p + at, &v, sizeof v);
}

static void change_bytes(struct ht_buf *b, struct ht_arena *a)
{
	size_t room = b->n + 64;
	uint8_t *copy = ht_alloc(a, room);

	memcpy(copy, b->p, b->n);
	b->n = LLVMFuzzerMutate(copy, b->n, room);
	b->p = (char *)copy;
	b->cap = room;
}

static size_t mutate(
	uint8_t *data, size_t size, size_t max_size, uint64_t state, struct ht_arena *a)
{
	struct parts *p = HT_NEW(a, struct parts);
	struct ht_buf out;
	uint64_t what = next(&state) % 16;

	if (what == 0 || !take_apart(data, size, a, p))
		return LLVMFuzzerMutate(data, size, max_size);
	for (uint64_t i = 0; i <= next(&state) % 4; i++) {
		struct ht_buf *b = &p->section[next(&state) % 2 ? HT_PLANS : HT_INDEX];

		if (what < 10)
			change_number(b, &state);
		else if (what < 14)
			change_bytes(b, a);
		else
			change_bytes(&p->section[next(&state) % HT_SECTIONS], a);
	}
	ht_buf_init(&out, a);
	put_together(p, &out);
	if (out.n > max_size)
		return LLVMFuzzerMutate(data, size, max_size);
	memcpy(data, out.p, out.n);
	return out.n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	volatile size_t n = size; /* keeps its value across longjmp() */

	ht_arena_init(&arena, &unwind);
	if (!setjmp(unwind.env))
		n = mutate(data, size, max_size, seed, &arena);
	ht_arena_release(&arena);
	return n;
}
