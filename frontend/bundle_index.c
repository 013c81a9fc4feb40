/* The index of a checkpoint: a table from names to BundleEntryProto.
 *
 * The parts of a partitioned variable are entries of their own, with keys of slices.h; the whole tensor has an entry without bytes. */
#include "frontend/checkpoint.h"

#include <inttypes.h>

#define SHARDS 100000 /* numbers of shards have five digits */

struct ht_where ht_bundle_place(const struct ht_checkpoint *c, int64_t offset)
{
	struct ht_where at = HT_NOWHERE;

	at.path = c->index->path;
	at.offset = offset;
	return at;
}

static enum ht_status read_header(
	struct ht_checkpoint *c, const struct ht_pb_source *src, int64_t offset)
{
	struct ht_pb_reader r = ht_pb_open(src, HT_PB_BundleHeaderProto);
	struct ht_pb_value v;
	uint64_t item;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 1 && ht_pb_item(&r, &v, &item))
			c->shards = (int64_t)item;
		else if (v.number == 2 && v.u)
			return ht_error(c->diags, HT_E_UNSUPPORTED, ht_bundle_place(c, offset),
				"the checkpoint is big-endian");
	}
	if (r.status == HT_OK && (c->shards < 1 || c->shards >= SHARDS))
		return ht_error(c->diags, HT_E_INPUT, ht_bundle_place(c, offset),
			"checkpoint index: %" PRId64 " shards", c->shards);
	return r.status;
}

static enum ht_status read_entry(
	struct ht_checkpoint *c, const struct ht_pb_source *src, struct ht_bundle_entry *e)
{
	struct ht_pb_reader r = ht_pb_open(src, HT_PB_BundleEntryProto);
	struct ht_import_shape shape;
	struct ht_pb_value v;
	uint64_t item = 0;

	e->shape = HT_SHAPE_SCALAR;
	while (ht_pb_next(&r, &v)) {
		if (v.field && v.field->kind != HT_PB_MESSAGE)
			ht_pb_item(&r, &v, &item);
		if (v.number == 1) {
			e->dtype = (enum ht_dtype)(int32_t)item;
		} else if (v.number == 2) {
			HT_TRY(ht_import_shape(&c->im, ht_pb_enter(&r, &v), &shape));
			e->shape = shape.shape;
		} else if (v.number == 3) {
			e->shard = (int64_t)item;
		} else if (v.number == 4) {
			e->offset = (int64_t)item;
		} else if (v.number == 5) {
			e->size = (int64_t)item;
		} else if (v.number == 6) {
			e->crc = (uint32_t)item;
		} else if (v.number == 7) {
			e->sliced = true;
		}
	}
	return r.status;
}

static enum ht_status comes_twice(const struct ht_checkpoint *c, const struct ht_bundle_entry *e)
{
	return ht_error(c->diags, HT_E_INPUT, ht_bundle_place(c, e->at),
		"checkpoint index: '%.*s' comes twice", HT_STR_ARG(e->key));
}

static enum ht_status add_entry(
	struct ht_checkpoint *c, struct ht_map *map, struct ht_bundle_entry *e)
{
	struct ht_map_entry *slot = ht_map_at(map, e->key);

	if (slot->value)
		return comes_twice(c, e);
	slot->value = e;
	return HT_OK;
}

/* Keys share prefixes, so a small file can contain very long ones. */
static enum ht_status charge(struct ht_checkpoint *c, const struct ht_bundle_entry *e, size_t bytes)
{
	if (!ht_importer_charge(&c->im, bytes, 1))
		return ht_error(c->diags, HT_E_LIMIT, ht_bundle_place(c, e->at),
			"checkpoint index: the names take too much memory");
	return HT_OK;
}

static enum ht_status visit(void *self, struct ht_str key, struct ht_str value, int64_t offset)
{
	struct ht_checkpoint *c = self;
	struct ht_pb_source src = {
		.path = c->index->path,
		.diags = c->diags,
		.p = (const uint8_t *)value.p,
		.n = value.n,
		.skipped = (size_t)offset,
		.depth = 16,
	};
	struct ht_slice s;
	struct ht_bundle_entry *e;

	if (!key.n)
		return read_header(c, &src, offset);
	e = HT_NEW(c->a, struct ht_bundle_entry);
	e->key = ht_str_copy(c->a, key);
	e->at = offset;
	HT_TRY(read_entry(c, &src, e));
	HT_TRY(charge(c, e, key.n + sizeof *e));
	if (ht_is_slice_record(key)) {
		c->slice = ht_grow(c->a, c->slice, c->slices, &c->slices_cap,
			sizeof(struct ht_bundle_entry *));
		c->slice[c->slices++] = e;
		return HT_OK;
	}
	if (ht_slice_of_key(key, &s))
		return ht_error(c->diags, HT_E_INPUT, ht_bundle_place(c, offset),
			"checkpoint index: '%.*s' is a slice, and is not stored as one",
			HT_STR_ARG(key));
	if (ht_map_get(e->sliced ? &c->entries : &c->wholes, key))
		return comes_twice(c, e);
	return add_entry(c, e->sliced ? &c->wholes : &c->entries, e);
}

/* Takes the extents of the whole tensor for the slice *s of an entry.  Returns what is wrong with it; NULL: nothing. */
static const char *fault_of(
	const struct ht_bundle_entry *e, const struct ht_bundle_entry *whole, struct ht_slice *s)
{
	if (!whole)
		return "is of no tensor that is stored in slices";
	if (e->sliced)
		return "is stored in slices, too";
	if (!ht_slice_within(s, whole->shape))
		return "does not lie in the tensor";
	if (!ht_shape_eq(e->shape, ht_slice_shape(s)))
		return "has another shape than its key";
	if (e->dtype != whole->dtype)
		return "has another type than the tensor";
	return NULL;
}

/* Gives the entries of slices their keys, which have the extents of whole tensors: those come later in the index. */
static enum ht_status name_slices(struct ht_checkpoint *c)
{
	for (size_t i = 0; i < c->slices; i++) {
		struct ht_bundle_entry *e = c->slice[i];
		const char *fault;
		struct ht_slice s;

		if (!ht_slice_of_record(e->key, c->a, &s))
			return ht_error(c->diags, HT_E_INPUT, ht_bundle_place(c, e->at),
				"checkpoint index: the key of slice %zu is damaged", i);
		fault = fault_of(e, ht_map_get(&c->wholes, s.name), &s);
		if (fault)
			return ht_error(c->diags, HT_E_INPUT, ht_bundle_place(c, e->at),
				"checkpoint index: a slice of '%.*s' %s", HT_STR_ARG(s.name),
				fault);
		e->key = ht_slice_key(c->a, &s);
		HT_TRY(charge(c, e, e->key.n));
		HT_TRY(add_entry(c, &c->entries, e));
	}
	return HT_OK;
}

static void close_checkpoint(void *checkpoint)
{
	ht_checkpoint_close(checkpoint);
}

static enum ht_status open_checkpoint(struct ht_arena *a, const char *prefix,
	const struct ht_input_file *files, bool unchecked, struct ht_diags *d,
	struct ht_checkpoint **out)
{
	struct ht_checkpoint *c = HT_NEW(a, struct ht_checkpoint);

	*out = NULL;
	c->unchecked = unchecked;
	c->files = files;
	c->a = a;
	c->diags = d;
	c->prefix = ht_str_copy(a, ht_str(prefix)).p;
	c->crc = HT_NEW(a, struct ht_crc32c);
	ht_crc32c_init(c->crc);
	ht_importer_init(&c->im, a, NULL, d);
	ht_map_init(&c->entries, a);
	ht_map_init(&c->wholes, a);
	ht_map_init(&c->names, a);
	ht_map_init(&c->restored, a);
	ht_map_init(&c->objects, a);
	HT_TRY(ht_bundle_file(files, ht_str_printf(a, "%s.index", prefix).p, HT_BUNDLE_INDEX_LIMIT,
		d, &c->index));
	ht_arena_defer(a, close_checkpoint, c);
	ht_importer_add_input(&c->im, c->index->n);
	HT_TRY(ht_sstable_walk(a, c->index, unchecked ? NULL : c->crc, d, visit, c));
	if (!c->shards)
		return ht_error(d, HT_E_INPUT, ht_bundle_place(c, -1),
			"checkpoint index: it has no header");
	HT_TRY(name_slices(c));
	c->shard = HT_NEW_ARRAY(a, struct ht_file *, (size_t)c->shards);
	c->diags = NULL;
	*out = c;
	return HT_OK;
}

enum ht_status ht_checkpoint_open(struct ht_arena *a, const char *prefix,
	const struct ht_input_file *files, struct ht_diags *d, struct ht_checkpoint **out)
{
	return open_checkpoint(a, prefix, files, false, d, out);
}

enum ht_status ht_checkpoint_open_unchecked(
	struct ht_arena *a, const char *prefix, struct ht_diags *d, struct ht_checkpoint **out)
{
	return open_checkpoint(a, prefix, NULL, true, d, out);
}

void ht_checkpoint_close(struct ht_checkpoint *c)
{
	if (!c)
		return;
	for (int64_t i = 0; c->shard && i < c->shards; i++) {
		if (c->shard[i])
			ht_file_unref(c->shard[i]);
		c->shard[i] = NULL;
	}
	if (c->index)
		ht_file_unref(c->index);
	c->index = NULL;
}

size_t ht_checkpoint_count(const struct ht_checkpoint *c)
{
	return c->entries.count;
}

struct ht_str ht_checkpoint_key(const struct ht_checkpoint *c, size_t i)
{
	return c->entries.entries[i].key;
}
