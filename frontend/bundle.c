/* TensorBundle: a checkpoint's index is a table from names to BundleEntryProto; the tensors lie
 * in data shards beside it.  Every tensor that is read is verified by its checksum. */
#include "frontend/checkpoint.h"

#include <inttypes.h>
#include <string.h>

static enum ht_status open_shard(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	struct ht_diags *d, struct ht_file **out)
{
	if (e->shard < 0 || e->shard >= c->shards)
		return ht_error(d, HT_E_INPUT, ht_bundle_place(c, -1),
			"checkpoint: '%.*s' lies in shard %" PRId64 " of %" PRId64,
			HT_STR_ARG(e->key), e->shard, c->shards);
	if (!c->shard[e->shard])
		HT_TRY(ht_bundle_file(c->files,
			ht_str_printf(c->a, "%s.data-%05" PRId64 "-of-%05" PRId64, c->prefix,
				e->shard, c->shards)
				.p,
			HT_BUNDLE_SHARD_LIMIT, d, &c->shard[e->shard]));
	*out = c->shard[e->shard];
	return HT_OK;
}

static enum ht_status entry_error(const struct ht_bundle_entry *e, const struct ht_file *f,
	struct ht_diags *d, const char *what)
{
	struct ht_where at = HT_NOWHERE;

	at.path = f->path;
	at.offset = e->offset;
	return ht_error(d, HT_E_INPUT, at, "checkpoint: '%.*s' %s", HT_STR_ARG(e->key), what);
}

enum ht_status ht_bundle_shard(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	struct ht_diags *d, struct ht_file **out)
{
	HT_TRY(open_shard(c, e, d, out));
	if (e->offset < 0 || e->size < 0 ||
		!ht_inside((uint64_t)e->offset, (uint64_t)e->size, (*out)->n))
		return entry_error(e, *out, d, "lies outside its shard");
	return HT_OK;
}

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 64 && *p < end; shift += 7) {
		*v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return true;
	}
	return false;
}

/* Reads all lengths, their checksum, all bytes.  Checksums cover lengths as 4 bytes each (8 if
 * they need it). */
static enum ht_status read_strings(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	const struct ht_file *f, size_t count, struct ht_arena *a, struct ht_diags *d,
	struct ht_tensor *t)
{
	const uint8_t *p = f->p + e->offset, *end = p + e->size;
	uint32_t crc = 0, stored;
	uint64_t length;

	if (count > (size_t)e->size)
		return entry_error(e, f, d, "has more strings than bytes");
	t->strings = HT_NEW_ARRAY(a, struct ht_str, count);
	t->values = count;
	t->form = HT_TENSOR_VALUES;
	for (size_t i = 0; i < count; i++) {
		if (!varint(&p, end, &length))
			return entry_error(e, f, d, "is cut off");
		crc = ht_crc32c(c->crc, crc, &length, length <= UINT32_MAX ? 4 : 8);
		t->strings[i].n = (size_t)length;
	}
	if (end - p < 4)
		return entry_error(e, f, d, "is cut off");
	memcpy(&stored, p, 4);
	if (stored != ht_crc32c_mask(crc) && !c->unchecked)
		return entry_error(e, f, d, "does not match the checksum of its lengths");
	crc = ht_crc32c(c->crc, crc, p, 4);
	p += 4;
	if (e->crc != ht_crc32c_mask(ht_crc32c(c->crc, crc, p, (size_t)(end - p))) && !c->unchecked)
		return entry_error(e, f, d, "does not match its checksum");
	for (size_t i = 0; i < count; i++) {
		if (t->strings[i].n > (size_t)(end - p))
			return entry_error(e, f, d, "is cut off");
		t->strings[i] = ht_str_copy(a, (struct ht_str){ (const char *)p, t->strings[i].n });
		p += t->strings[i].n;
	}
	return HT_OK;
}

enum ht_status ht_bundle_tensor(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	struct ht_arena *a, struct ht_diags *d, struct ht_tensor **out)
{
	int64_t count = ht_shape_count(e->shape);
	size_t size = ht_dtype_info(e->dtype)->bytes, bytes;
	struct ht_file *f = NULL;
	struct ht_tensor *t;

	HT_TRY(ht_bundle_shard(c, e, d, &f));
	if (count < 0)
		return entry_error(e, f, d, "has a wrong shape");
	t = ht_tensor_new(a, e->dtype, e->shape, NULL);
	*out = t;
	if (e->dtype == HT_STRING)
		return read_strings(c, e, f, (size_t)count, a, d, t);
	if (!size || !ht_mul_size((size_t)count, size, &bytes) || bytes != (size_t)e->size)
		return entry_error(e, f, d, "does not have the size of its type and shape");
	if (!c->unchecked &&
		e->crc != ht_crc32c_mask(ht_crc32c(c->crc, 0, f->p + e->offset, bytes)))
		return entry_error(e, f, d, "does not match its checksum");
	t->shape = ht_shape_make(a, e->shape.rank, e->shape.dim);
	t->blob = ht_import_blob(&c->im, f, f->p + e->offset, bytes);
	return HT_OK;
}

enum ht_status ht_checkpoint_item(
	struct ht_checkpoint *c, size_t i, struct ht_diags *d, struct ht_checkpoint_item *out)
{
	const struct ht_bundle_entry *e = c->entries.entries[i].value;
	struct ht_file *f = NULL;

	HT_TRY(ht_bundle_shard(c, e, d, &f));
	*out = (struct ht_checkpoint_item){ e->key, e->dtype, e->shape, f->p + e->offset,
		(size_t)e->size, true, e->crc };
	return HT_OK;
}

enum ht_status ht_checkpoint_read(struct ht_checkpoint *c, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out)
{
	const struct ht_bundle_entry *whole;
	struct ht_bundle_found found;
	struct ht_slice s;

	*out = NULL;
	HT_TRY(ht_bundle_find(c, name, d, &found));
	if (found.several)
		return ht_error(d, HT_E_INPUT, ht_bundle_place(c, -1),
			"checkpoint: two variables have the name '%.*s'", HT_STR_ARG(name));
	if (found.entry)
		return ht_bundle_tensor(c, found.entry, a, d, out);
	whole = ht_bundle_whole(c, found.key, &s);
	return whole ? ht_bundle_pieces(c, whole, &s, a, d, out)
		     : ht_error(d, HT_E_INPUT, ht_bundle_place(c, -1),
			       "checkpoint: there is no variable '%.*s'", HT_STR_ARG(name));
}
