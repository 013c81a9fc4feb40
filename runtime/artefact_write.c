/* From a plan, code and weights to the bytes of a file: a header, a table of sections, the sections. */
#include "runtime/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char zeros[HT_ARTEFACT_PAGE];

static void put(struct ht_pieces *p, struct ht_str s)
{
	if (s.n)
		p->piece[p->n++] = s;
	p->bytes += s.n;
}

static void pad(struct ht_pieces *p, uint64_t to)
{
	put(p, (struct ht_str){ zeros, (size_t)(to - p->bytes) });
}

static void pieces_digest(const struct ht_pieces *p, uint8_t digest[HT_DIGEST])
{
	struct ht_sha256 s;

	ht_sha256_begin(&s);
	for (size_t i = 0; i < p->n; i++)
		ht_sha256_add(&s, p->piece[i].p, p->piece[i].n);
	ht_sha256_end(&s, digest);
}

/* ---- weights ---- */

struct placing {
	const struct ht_artefact_parts *parts;
	struct ht_artefact_bytes *out;
	struct ht_pieces inside;
	struct ht_arena *a;
};

static void hash_chunks(struct ht_index_weight *w, struct ht_str bytes, struct ht_arena *a)
{
	w->bytes = bytes.n;
	w->chunks = (bytes.n + HT_WEIGHT_CHUNK - 1) / HT_WEIGHT_CHUNK;
	w->chunk = HT_NEW_ARRAY(a, struct ht_hash, w->chunks);
	for (size_t i = 0; i < w->chunks; i++) {
		size_t at = i * HT_WEIGHT_CHUNK, left = bytes.n - at;

		w->chunk[i] = ht_hash_bytes(
			bytes.p + at, left < HT_WEIGHT_CHUNK ? left : HT_WEIGHT_CHUNK);
	}
}

static void place_in(struct ht_pieces *to, struct ht_index_weight *w, struct ht_str bytes)
{
	pad(to, ht_align_to(to->bytes, 64));
	w->offset = to->bytes;
	put(to, bytes);
}

static struct ht_pieces *new_file(struct placing *p, size_t weights)
{
	struct ht_pieces *f = &p->out->beside[p->out->index.files++];

	f->piece = HT_NEW_ARRAY(p->a, struct ht_str, 2 * weights);
	return f;
}

static bool stays_inside(const struct ht_artefact_parts *parts, struct ht_str weight)
{
	return parts->external == HT_WEIGHTS_INSIDE ||
	       (parts->external == HT_WEIGHTS_EACH && weight.n < HT_ARTEFACT_PAGE);
}

static void place_weights(struct placing *p)
{
	const struct ht_artefact_parts *parts = p->parts;
	struct ht_index *x = &p->out->index;
	struct ht_pieces *one = NULL;

	x->weights = parts->weights;
	x->weight = HT_NEW_ARRAY(p->a, struct ht_index_weight, x->weights);
	x->file = HT_NEW_ARRAY(p->a, struct ht_index_file, x->weights);
	p->out->beside = HT_NEW_ARRAY(p->a, struct ht_pieces, x->weights);
	p->inside.piece = HT_NEW_ARRAY(p->a, struct ht_str, 2 * x->weights);
	if (parts->external == HT_WEIGHTS_ONE && x->weights)
		one = new_file(p, x->weights);
	for (size_t i = 0; i < x->weights; i++) {
		struct ht_pieces *to = one;

		if (stays_inside(parts, parts->weight[i]))
			to = &p->inside;
		else if (!to)
			to = new_file(p, 1);
		x->weight[i].file = to == &p->inside ? 0 : x->files;
		hash_chunks(&x->weight[i], parts->weight[i], p->a);
		place_in(to, &x->weight[i], parts->weight[i]);
	}
	for (size_t i = 0; i < x->files; i++) {
		x->file[i].bytes = p->out->beside[i].bytes;
		pieces_digest(&p->out->beside[i], x->file[i].digest);
	}
}

/* ---- the whole ---- */

/* Puts the sections in their order; `section` has the pieces of each. */
static void put_sections(
	struct ht_artefact_header *h, const struct ht_pieces *section, struct ht_artefact_bytes *b)
{
	struct ht_pieces *out = &b->artefact;

	for (uint32_t i = 0; i < HT_SECTIONS; i++) {
		struct ht_artefact_section *s = &h->section[i];

		pad(out, ht_align_to(out->bytes, ht_section_align((enum ht_section)i)));
		*s = (struct ht_artefact_section){
			.kind = i, .offset = out->bytes, .bytes = section[i].bytes
		};
		pieces_digest(&section[i], s->digest);
		b->weights = out->n; /* the last section has the weights */
		for (size_t k = 0; k < section[i].n; k++)
			put(out, section[i].piece[k]);
	}
	h->bytes = out->bytes;
	ht_header_digest(h, h->digest);
}

struct ht_artefact_bytes ht_artefact_make(const struct ht_artefact_parts *parts, struct ht_arena *a)
{
	struct ht_artefact_header *h = HT_NEW(a, struct ht_artefact_header);
	struct ht_artefact_bytes b = { .header = h, .index = parts->index };
	struct placing p = { .parts = parts, .out = &b, .a = a };
	struct ht_pieces section[HT_SECTIONS] = { { 0 } };
	struct ht_str whole[HT_SECTIONS] = {
		[HT_MANIFEST] = parts->manifest, [HT_PLANS] = parts->plans, [HT_CODE] = parts->code
	};
	struct ht_buf index;

	place_weights(&p);
	ht_buf_init(&index, a);
	ht_index_write(&b.index, &index);
	whole[HT_INDEX] = ht_buf_str(&index);
	for (int i = 0; i < HT_WEIGHTS; i++)
		section[i] = (struct ht_pieces){ &whole[i], whole[i].n != 0, whole[i].n };
	section[HT_WEIGHTS] = p.inside;
	memcpy(h->magic, HT_ARTEFACT_MAGIC, sizeof h->magic);
	h->version = HT_ARTEFACT_VERSION;
	h->sections = HT_SECTIONS;
	b.artefact.piece = HT_NEW_ARRAY(a, struct ht_str, 2 * HT_SECTIONS + 1 + p.inside.n);
	put(&b.artefact, (struct ht_str){ (const char *)h, sizeof *h });
	put_sections(h, section, &b);
	return b;
}

enum ht_status ht_artefact_bytes_sign(
	struct ht_artefact_bytes *b, const char *key, struct ht_diags *d)
{
	return ht_header_sign(b->header, key, d);
}

/* ---- files ---- */

static enum ht_status write_pieces(const char *path, const struct ht_pieces *p, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

	HT_TRY(ht_output_open(path, d, &o));
	st = HT_OK;
	for (size_t i = 0; st == HT_OK && i < p->n; i++)
		st = ht_output_write(o, p->piece[i].p, p->piece[i].n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

/* Whether the file exists with the content that its name states.  It is not replaced then, so
 * that running processes and later ones share its pages. */
static bool is_there(const char *path, const struct ht_index_file *x)
{
	uint8_t digest[HT_DIGEST];
	struct ht_file *f;

	if (access(path, R_OK) || ht_file_map(path, SIZE_MAX, NULL, &f) != HT_OK)
		return false;
	ht_sha256(f->p, f->n, digest);
	ht_file_unref(f);
	return !memcmp(digest, x->digest, HT_DIGEST);
}

static enum ht_status write_beside(
	const char *path, const struct ht_artefact_bytes *b, struct ht_diags *d)
{
	for (size_t i = 0; i < b->index.files; i++) {
		char name[HT_WEIGHT_NAME], *to;
		enum ht_status st;

		ht_weight_file_name(b->index.file[i].digest, name);
		to = ht_path_beside(path, name);
		if (!to)
			return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
		st = is_there(to, &b->index.file[i]) ? HT_OK : write_pieces(to, &b->beside[i], d);
		free(to);
		HT_TRY(st);
	}
	return HT_OK;
}

enum ht_status ht_artefact_write(
	const char *path, const struct ht_artefact_bytes *b, struct ht_diags *d)
{
	if (b->index.files && !strcmp(path, "-"))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"weights in files of their own need an artefact that is a file, not -");
	HT_TRY(write_beside(path, b, d));
	return write_pieces(path, &b->artefact, d);
}

static enum ht_status resign(
	const struct ht_artefact *a, const char *key, const char *path, struct ht_diags *d)
{
	struct ht_artefact_header h;
	struct ht_str piece[] = { { (const char *)&h, sizeof h },
		{ a->bytes.p + sizeof h, a->bytes.n - sizeof h } };

	memcpy(&h, a->bytes.p, sizeof h);
	HT_TRY(ht_header_sign(&h, key, d));
	return write_pieces(path, &(struct ht_pieces){ piece, 2, a->bytes.n }, d);
}

enum ht_status ht_artefact_sign_file(const char *path, const char *key, const char *to,
	struct ht_arena *arena, struct ht_diags *d)
{
	const struct ht_artefact_trust full = { .full = true };
	struct ht_artefact a;
	enum ht_status st;

	HT_TRY(ht_artefact_open(path, &full, arena, d, &a));
	st = resign(&a, key, to, d);
	ht_artefact_close(&a);
	return st;
}
