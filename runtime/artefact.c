/* The file around a plan: a header, a table of sections, the sections.  docs/artefact.md says it in
 * words.  Numbers are stored with the low byte first, as on every machine that the code runs on. */
#include "runtime/artefact.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VERSION = 1, PAGE = 4096, DIGEST = 32, CODE_PADDING = 4096 };
enum section_kind { MANIFEST, PLAN, CODE, CHECKS, WEIGHTS, SECTIONS };

static const char *const section_name[SECTIONS] = { "manifest", "plan", "code", "checks",
	"weights" };

struct section {
	uint32_t kind, zero;
	uint64_t offset, bytes, zero2;
	uint8_t digest[DIGEST]; /* SHA-256; zeros: of the weights */
};

struct header {
	char magic[8];
	uint32_t version, sections;
	uint64_t bytes;         /* of the file */
	uint8_t digest[DIGEST]; /* SHA-256 of this and the table, with zeros here */
	uint64_t zero;
	struct section section[SECTIONS];
};
static const char magic[] = "halftone";
_Static_assert(sizeof(struct header) == 64 * (1 + SECTIONS), "no padding");

/* Of one weight; what lies between weights is zero. */
struct check {
	uint64_t offset, bytes;
	struct ht_hash hash;
};

static void digest_of_header(const struct header *h, uint8_t digest[DIGEST])
{
	struct header copy = *h;

	memset(copy.digest, 0, DIGEST);
	ht_sha256(&copy, sizeof copy, digest);
}

/* ---- writing ---- */

static uint64_t align_to(uint64_t n, uint64_t a)
{
	return (n + a - 1) / a * a;
}

static enum ht_status pad(struct ht_output *o, uint64_t *at, uint64_t to)
{
	static const uint8_t zeros[PAGE];
	enum ht_status st = ht_output_write(o, zeros, (size_t)(to - *at));

	*at = to;
	return st;
}

static enum ht_status put(struct ht_output *o, uint64_t *at, struct ht_str s)
{
	*at += s.n;
	return ht_output_write(o, s.p, s.n);
}

/* Offsets of the weights, and their hashes; returns the bytes of all. */
static uint64_t check_weights(const struct ht_artefact_parts *parts, struct check *c)
{
	uint64_t end = 0;

	for (size_t i = 0; i < parts->weights; i++) {
		c[i] = (struct check){ ht_artefact_next(end), parts->weight[i].n,
			ht_hash_bytes(parts->weight[i].p, parts->weight[i].n) };
		end = c[i].offset + c[i].bytes;
	}
	return end;
}

static enum ht_status write_all(struct ht_output *o, const struct header *h,
	const struct ht_str *small, const struct ht_artefact_parts *parts, const struct check *c)
{
	uint64_t at = 0;

	HT_TRY(put(o, &at, (struct ht_str){ (const char *)h, sizeof *h }));
	for (int i = 0; i < WEIGHTS; i++) {
		HT_TRY(pad(o, &at, h->section[i].offset));
		HT_TRY(put(o, &at, small[i]));
	}
	for (size_t i = 0; i < parts->weights; i++) {
		HT_TRY(pad(o, &at, h->section[WEIGHTS].offset + c[i].offset));
		HT_TRY(put(o, &at, parts->weight[i]));
	}
	return pad(o, &at, h->bytes);
}

enum ht_status ht_artefact_write(
	const char *path, const struct ht_artefact_parts *parts, struct ht_diags *d)
{
	struct header h = { .version = VERSION, .sections = SECTIONS };
	struct check *c = calloc(parts->weights + 1, sizeof *c);
	struct ht_str small[WEIGHTS] = { parts->manifest, parts->plan, parts->code,
		{ (const char *)c, parts->weights * sizeof *c } };
	uint64_t end = sizeof h, weights;
	struct ht_output *o;
	enum ht_status st;

	if (!c)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	weights = check_weights(parts, c);
	memcpy(h.magic, magic, sizeof h.magic);
	for (uint32_t i = 0; i < SECTIONS; i++) {
		h.section[i] = (struct section){ .kind = i,
			.offset = align_to(end, i == WEIGHTS ? PAGE : 64),
			.bytes = i == WEIGHTS ? weights : small[i].n };
		if (i != WEIGHTS)
			ht_sha256(small[i].p, small[i].n, h.section[i].digest);
		end = h.section[i].offset + h.section[i].bytes;
	}
	h.bytes = end;
	digest_of_header(&h, h.digest);
	st = ht_output_open(path, d, &o);
	if (st == HT_OK) {
		st = write_all(o, &h, small, parts, c);
		if (st == HT_OK)
			st = ht_output_commit(o);
		else
			ht_output_abort(o);
	}
	free(c);
	return st;
}

/* ---- reading ---- */

bool ht_artefact_is(const char *path)
{
	char begin[sizeof magic - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is;

	if (fd < 0)
		return false;
	is = read(fd, begin, sizeof begin) == (ssize_t)sizeof begin &&
	     !memcmp(begin, magic, sizeof begin);
	close(fd);
	return is;
}

static enum ht_status refuse(const struct ht_artefact *a, struct ht_diags *d, const char *what)
{
	return ht_error(d, HT_E_INPUT, (struct ht_where){ .path = a->file->path, .offset = -1 },
		"this artefact cannot be used: %s; compile the model again", what);
}

static bool all_zero(const uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* The header, copied, and where the sections are; NULL or what is wrong. */
static const char *read_header(const struct ht_file *f, struct header *h)
{
	uint8_t digest[DIGEST];
	uint64_t end = sizeof *h;

	if (f->n < sizeof *h || memcmp(f->p, magic, sizeof h->magic) != 0)
		return "it does not begin as one";
	memcpy(h, f->p, sizeof *h);
	if (h->version != VERSION)
		return "it was made by another version";
	digest_of_header(h, digest);
	if (memcmp(digest, h->digest, DIGEST) != 0)
		return "its header is damaged";
	if (h->sections != SECTIONS || h->bytes != f->n)
		return "its size is not what its header says";
	for (uint32_t i = 0; i < SECTIONS; i++) {
		const struct section *s = &h->section[i];

		if (s->kind != i || s->offset < end || s->offset > f->n ||
			s->bytes > f->n - s->offset || s->offset % (i == WEIGHTS ? PAGE : 64))
			return "its sections are outside of it";
		if (!all_zero(f->p + end, s->offset - end))
			return "it is damaged between its sections";
		end = s->offset + s->bytes;
	}
	return end == f->n ? NULL : "something follows its sections";
}

static struct ht_str bytes_of(const struct ht_file *f, const struct section *s)
{
	return (struct ht_str){ (const char *)f->p + s->offset, (size_t)s->bytes };
}

static bool section_is_whole(struct ht_str bytes, const struct section *s)
{
	uint8_t digest[DIGEST];

	ht_sha256(bytes.p, bytes.n, digest);
	return !memcmp(digest, s->digest, DIGEST);
}

/* Weights against their hashes, and zeros between them. */
static bool weights_are_whole(struct ht_str weights, struct ht_str checks)
{
	const uint8_t *p = (const uint8_t *)weights.p;
	uint64_t end = 0;
	struct check c;

	if (checks.n % sizeof c)
		return false;
	for (size_t i = 0; i < checks.n; i += sizeof c) {
		memcpy(&c, checks.p + i, sizeof c);
		if (c.offset < end || c.offset > weights.n || c.bytes > weights.n - c.offset ||
			!all_zero(p + end, c.offset - end) ||
			!ht_hash_eq(ht_hash_bytes(p + c.offset, c.bytes), c.hash))
			return false;
		end = c.offset + c.bytes;
	}
	return end == weights.n;
}

/* Copied before it is checked: what is checked is what runs, whatever becomes of the file. */
static enum ht_status load_code(struct ht_artefact *a, const struct section *s, struct ht_diags *d)
{
	struct ht_str code = bytes_of(a->file, s);

	a->code_bytes = code.n;
	a->code_mapped = code.n + CODE_PADDING;
	a->code = mmap(
		NULL, a->code_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->code == MAP_FAILED) {
		a->code = NULL;
		return ht_error(
			d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for %zu bytes of code", code.n);
	}
	memcpy(a->code, code.p, code.n);
	if (!section_is_whole((struct ht_str){ a->code, code.n }, s))
		return refuse(a, d, "its code is damaged");
	if (mprotect(a->code, a->code_mapped, PROT_READ | PROT_EXEC) != 0)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"the system does not let memory be executed");
	return HT_OK;
}

static enum ht_status open_sections(struct ht_artefact *a, struct ht_diags *d)
{
	struct header h;
	const char *wrong = read_header(a->file, &h);
	char text[64];

	if (wrong)
		return refuse(a, d, wrong);
	for (int i = 0; i < WEIGHTS; i++)
		if (i != CODE &&
			!section_is_whole(bytes_of(a->file, &h.section[i]), &h.section[i])) {
			snprintf(text, sizeof text, "its %s are damaged", section_name[i]);
			return refuse(a, d, text);
		}
	a->manifest = bytes_of(a->file, &h.section[MANIFEST]);
	a->plan = bytes_of(a->file, &h.section[PLAN]);
	a->weights = bytes_of(a->file, &h.section[WEIGHTS]);
	if (!weights_are_whole(a->weights, bytes_of(a->file, &h.section[CHECKS])))
		return refuse(a, d, "its weights are damaged");
	return load_code(a, &h.section[CODE], d);
}

enum ht_status ht_artefact_open(const char *path, struct ht_diags *d, struct ht_artefact *out)
{
	enum ht_status st;

	memset(out, 0, sizeof *out);
	HT_TRY(ht_file_map(path, SIZE_MAX, d, &out->file));
	st = open_sections(out, d);
	if (st != HT_OK)
		ht_artefact_close(out);
	return st;
}

void ht_artefact_close(struct ht_artefact *a)
{
	if (a->code)
		munmap(a->code, a->code_mapped);
	if (a->file)
		ht_file_unref(a->file);
	memset(a, 0, sizeof *a);
}
