/* Reads an artefact.  Every part is verified before or at its first use. */
#include "runtime/format.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

bool ht_artefact_is(const char *path)
{
	char begin[sizeof HT_ARTEFACT_MAGIC - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is;

	if (fd < 0)
		return false;
	is = read(fd, begin, sizeof begin) == (ssize_t)sizeof begin &&
	     !memcmp(begin, HT_ARTEFACT_MAGIC, sizeof begin);
	close(fd);
	return is;
}

static struct ht_where in(const struct ht_artefact *a)
{
	return (struct ht_where){ .path = a->path, .offset = -1 };
}

enum ht_status ht_artefact_refuse(const struct ht_artefact *a, struct ht_diags *d, const char *what)
{
	return ht_error(d, HT_E_INPUT, in(a),
		"this artefact cannot be used: %s; compile the model again", what);
}

static bool all_zero(const char *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static bool has_digest(const void *p, size_t n, const uint8_t want[HT_DIGEST])
{
	uint8_t digest[HT_DIGEST];

	ht_sha256(p, n, digest);
	return !memcmp(digest, want, HT_DIGEST);
}

/* ---- the header ---- */

static bool good_signature_field(const struct ht_artefact_header *h)
{
	if (all_zero((const char *)h->key, sizeof h->key))
		return !h->check && all_zero((const char *)h->signature, sizeof h->signature);
	return h->check == ht_hash_bytes(h->signature, sizeof h->signature).lo;
}

/* NULL, or the error in the header.  Nothing but its size, magic and version is used before it
 * is verified. */
static const char *read_header(const struct ht_artefact *a, struct ht_artefact_header *h)
{
	uint8_t digest[HT_DIGEST];

	if (a->bytes.n < sizeof *h || memcmp(a->bytes.p, HT_ARTEFACT_MAGIC, sizeof h->magic) != 0)
		return "it does not begin as one";
	memcpy(h, a->bytes.p, sizeof *h);
	if (h->version != HT_ARTEFACT_VERSION)
		return h->version < HT_ARTEFACT_VERSION ? "an older version of Halftone made it"
							: "a newer version of Halftone made it";
	ht_header_digest(h, digest);
	if (memcmp(digest, h->digest, HT_DIGEST) != 0 || !good_signature_field(h))
		return "its header is damaged";
	return NULL;
}

static const char *check_places(const struct ht_artefact *a, const struct ht_artefact_header *h)
{
	uint64_t end = sizeof *h;

	if (h->sections != HT_SECTIONS || h->bytes != a->bytes.n)
		return "its size is not what its header says";
	for (uint32_t i = 0; i < HT_SECTIONS; i++) {
		const struct ht_artefact_section *s = &h->section[i];

		if (s->kind != i || s->offset < end || s->offset > a->bytes.n ||
			s->bytes > a->bytes.n - s->offset ||
			s->offset % ht_section_align((enum ht_section)i))
			return "its sections are outside of it";
		if (!all_zero(a->bytes.p + end, s->offset - end))
			return "it is damaged between its sections";
		end = s->offset + s->bytes;
	}
	return end == a->bytes.n ? NULL : "something follows its sections";
}

static struct ht_str section_of(
	const struct ht_artefact *a, const struct ht_artefact_header *h, enum ht_section s)
{
	return (struct ht_str){ a->bytes.p + h->section[s].offset, (size_t)h->section[s].bytes };
}

static enum ht_status check_sections(const struct ht_artefact *a,
	const struct ht_artefact_header *h, enum ht_section from, enum ht_section to,
	struct ht_diags *d)
{
	static const char *const name[HT_SECTIONS] = { "manifest is", "index is", "plans are",
		"code is", "weights are" };
	char text[64];

	for (unsigned i = from; i <= to; i++) {
		struct ht_str s = section_of(a, h, (enum ht_section)i);

		if (has_digest(s.p, s.n, h->section[i].digest))
			continue;
		snprintf(text, sizeof text, "its %s damaged", name[i]);
		return ht_artefact_refuse(a, d, text);
	}
	return HT_OK;
}

/* ---- weights ---- */

static const char *at_weight(const struct ht_artefact *a, const struct ht_index_weight *w)
{
	const char *base = a->weights.p;

	if (w->file)
		base = (const char *)a->beside[w->file - 1]->p;
	return base + w->offset;
}

/* Whether all bytes between the weights of a file that begins at `p` are zero. */
static bool zeros_between(const struct ht_artefact *a, uint64_t file, const char *p, uint64_t n)
{
	uint64_t end = 0;

	for (size_t i = 0; i < a->index.weights; i++) {
		const struct ht_index_weight *w = &a->index.weight[i];

		if (w->file != file)
			continue;
		if (!all_zero(p + end, w->offset - end))
			return false;
		end = w->offset + w->bytes;
	}
	return end == n;
}

enum ht_status ht_artefact_map_beside(
	struct ht_artefact *a, uint64_t file, bool full, struct ht_diags *d)
{
	const struct ht_index_file *x = &a->index.file[file];
	char name[HT_WEIGHT_NAME], *path;
	struct ht_file *f;
	enum ht_status st;

	if (a->beside[file])
		return HT_OK;
	ht_weight_file_name(x->digest, name);
	path = ht_path_beside(a->path, name);
	if (!path)
		return ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
	st = ht_file_map(path, SIZE_MAX, d, &a->beside[file]);
	free(path);
	if (st != HT_OK) {
		ht_note(d, in(a), "its weights are in that file, which has to lie beside it");
		return st;
	}
	f = a->beside[file];
	if (f->n == x->bytes && zeros_between(a, file + 1, (const char *)f->p, f->n) &&
		(!full || has_digest(f->p, f->n, x->digest)))
		return HT_OK;
	return ht_error(d, HT_E_INPUT, (struct ht_where){ .path = f->path, .offset = -1 },
		"these are not the weights that %s was made with; compile the model again",
		a->path);
}

const char *ht_artefact_weight(const struct ht_artefact *a, uint64_t number)
{
	return at_weight(a, &a->index.weight[number]);
}

static bool check_chunk(const struct ht_artefact *a, uint64_t number, size_t i)
{
	const struct ht_index_weight *w = &a->index.weight[number];
	uint8_t *seen = &a->seen[number][i];
	uint64_t at = i * (uint64_t)HT_WEIGHT_CHUNK, left = w->bytes - at;
	size_t n = left < HT_WEIGHT_CHUNK ? (size_t)left : HT_WEIGHT_CHUNK;

	if (__atomic_load_n(seen, __ATOMIC_RELAXED))
		return true;
	if (!ht_hash_eq(ht_hash_bytes(at_weight(a, w) + at, n), w->chunk[i]))
		return false;
	__atomic_store_n(seen, 1, __ATOMIC_RELAXED);
	return true;
}

bool ht_artefact_check_weight(const struct ht_artefact *a, uint64_t number, int worker, int workers)
{
	size_t chunks = a->index.weight[number].chunks;

	for (size_t i = (size_t)worker; i < chunks; i += (size_t)workers)
		if (!check_chunk(a, number, i))
			return false;
	return true;
}

/* ---- opening ---- */

static enum ht_status read_index(
	struct ht_artefact *a, struct ht_str section, struct ht_arena *arena, struct ht_diags *d)
{
	const char *wrong = ht_index_read(section, a->plans.n, a->weights.n, arena, &a->index);

	if (wrong)
		return ht_artefact_refuse(a, d, wrong);
	if (!zeros_between(a, 0, a->weights.p, a->weights.n))
		return ht_artefact_refuse(a, d, "it is damaged between its weights");
	a->beside = HT_NEW_ARRAY(arena, struct ht_file *, a->index.files);
	a->seen = HT_NEW_ARRAY(arena, uint8_t *, a->index.weights);
	for (size_t i = 0; i < a->index.weights; i++)
		a->seen[i] = HT_NEW_ARRAY(arena, uint8_t, a->index.weight[i].chunks);
	return HT_OK;
}

static enum ht_status open_sections(struct ht_artefact *a, const struct ht_artefact_trust *t,
	struct ht_arena *arena, struct ht_diags *d)
{
	struct ht_artefact_header h;
	const char *wrong = read_header(a, &h);
	bool full;

	if (wrong)
		return ht_artefact_refuse(a, d, wrong);
	if (t && t->key)
		HT_TRY(ht_header_verify(&h, a->path, t->key, d));
	wrong = check_places(a, &h);
	if (wrong)
		return ht_artefact_refuse(a, d, wrong);
	a->is_signed = !all_zero((const char *)h.key, sizeof h.key);
	memcpy(a->key, h.key, sizeof a->key);
	full = t && t->known ? false : (t && t->full) || a->is_signed;
	HT_TRY(check_sections(a, &h, HT_MANIFEST, full ? HT_WEIGHTS : HT_INDEX, d));
	a->manifest = section_of(a, &h, HT_MANIFEST);
	a->plans = section_of(a, &h, HT_PLANS);
	a->code = section_of(a, &h, HT_CODE);
	a->weights = section_of(a, &h, HT_WEIGHTS);
	HT_TRY(read_index(a, section_of(a, &h, HT_INDEX), arena, d));
	for (uint64_t i = 0; full && i < a->index.files; i++)
		HT_TRY(ht_artefact_map_beside(a, i, true, d));
	return HT_OK;
}

enum ht_status ht_artefact_open_bytes(struct ht_str bytes, const char *path,
	const struct ht_artefact_trust *t, struct ht_arena *arena, struct ht_diags *d,
	struct ht_artefact *out)
{
	enum ht_status st;

	memset(out, 0, sizeof *out);
	out->path = ht_str_copy(arena, ht_str(path)).p;
	out->bytes = bytes;
	st = open_sections(out, t, arena, d);
	if (st != HT_OK)
		ht_artefact_close(out);
	return st;
}

enum ht_status ht_artefact_open(const char *path, const struct ht_artefact_trust *t,
	struct ht_arena *arena, struct ht_diags *d, struct ht_artefact *out)
{
	struct ht_file *f;
	enum ht_status st;

	memset(out, 0, sizeof *out);
	HT_TRY(ht_file_map(path, SIZE_MAX, d, &f));
	st = ht_artefact_open_bytes(
		(struct ht_str){ (const char *)f->p, f->n }, path, t, arena, d, out);
	if (st == HT_OK)
		out->file = f;
	else
		ht_file_unref(f);
	return st;
}

enum ht_status ht_artefact_open_again(const struct ht_artefact *from, struct ht_arena *arena,
	struct ht_diags *d, struct ht_artefact *out)
{
	const struct ht_artefact_trust known = { .known = true };

	HT_TRY(ht_artefact_open_bytes(from->bytes, from->path, &known, arena, d, out));
	out->file = from->file ? ht_file_ref(from->file) : NULL;
	for (size_t i = 0; i < from->index.files; i++)
		out->beside[i] = from->beside[i] ? ht_file_ref(from->beside[i]) : NULL;
	return HT_OK;
}

void ht_artefact_close(struct ht_artefact *a)
{
	if (a->code_copy)
		munmap(a->code_copy, a->code_mapped);
	for (size_t i = 0; a->beside && i < a->index.files; i++)
		ht_file_unref(a->beside[i]);
	ht_file_unref(a->file);
	memset(a, 0, sizeof *a);
}
