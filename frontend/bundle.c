/* TensorBundle: a checkpoint's index is a table from names to BundleEntryProto; the tensors lie
 * in data shards beside it.  Every tensor that is read is verified by its checksum.
 *
 * TensorFlow 2 names tensors by their place in the object graph, which is itself a tensor of the
 * checkpoint and maps these places to variables.
 *
 * The parts of a partitioned variable are entries of their own, with keys of slices.h; the whole tensor has an entry without bytes. */
#include "frontend/bundle.h"

#include "frontend/graphdef.h"
#include "frontend/slices.h"

#include <inttypes.h>
#include <string.h>

#define OBJECT_GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH"
#define SHARDS 100000 /* numbers of shards have five digits */

struct entry {
	struct ht_str key;
	enum ht_dtype dtype;
	struct ht_shape shape;
	int64_t shard, offset, size;
	int64_t at; /* of the record, in the index */
	uint32_t crc;
	bool sliced; /* a whole tensor without bytes: the slices have them */
};

struct ht_checkpoint {
	struct ht_arena *a;
	struct ht_importer im;
	const char *prefix;
	const struct ht_input_file *files; /* NULL: files are opened by name */
	struct ht_file *index;
	struct ht_crc32c *crc;
	/* key → struct entry; slices have the type of their whole tensor, and the shape that their key says */
	struct ht_map entries;
	struct ht_map wholes; /* name → struct entry, of tensors that are stored in slices */
	struct entry **slice; /* while opening: the entries of slices, with TensorFlow's keys */
	size_t slices, slices_cap;
	int64_t shards;
	struct ht_file **shard; /* opened when first asked for */
	struct ht_map restored; /* variable → key, from the model's saver */
	struct ht_map objects;  /* variable → uint64_t, the number of its object */
	bool have_names;
	struct ht_map names;    /* variable → key (struct ht_str), or `ambiguous` */
	struct ht_str **key_of; /* by number of the object; NULL: it has no tensor */
	size_t keys, keys_cap;
	struct ht_diags *diags; /* while opening */
	bool unchecked;         /* checksums are not verified */
};

static const struct ht_str ambiguous;

static struct ht_where in_index(const struct ht_checkpoint *c, int64_t offset)
{
	struct ht_where at = HT_NOWHERE;

	at.path = c->index->path;
	at.offset = offset;
	return at;
}

/* ---- the index ---- */

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
			return ht_error(c->diags, HT_E_UNSUPPORTED, in_index(c, offset),
				"the checkpoint is big-endian");
	}
	if (r.status == HT_OK && (c->shards < 1 || c->shards >= SHARDS))
		return ht_error(c->diags, HT_E_INPUT, in_index(c, offset),
			"checkpoint index: %" PRId64 " shards", c->shards);
	return r.status;
}

static enum ht_status read_entry(
	struct ht_checkpoint *c, const struct ht_pb_source *src, struct entry *e)
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

static enum ht_status comes_twice(const struct ht_checkpoint *c, const struct entry *e)
{
	return ht_error(c->diags, HT_E_INPUT, in_index(c, e->at),
		"checkpoint index: '%.*s' comes twice", HT_STR_ARG(e->key));
}

static enum ht_status add_entry(struct ht_checkpoint *c, struct ht_map *map, struct entry *e)
{
	struct ht_map_entry *slot = ht_map_at(map, e->key);

	if (slot->value)
		return comes_twice(c, e);
	slot->value = e;
	return HT_OK;
}

/* Keys share prefixes, so a small file can contain very long ones. */
static enum ht_status charge(struct ht_checkpoint *c, const struct entry *e, size_t bytes)
{
	if (!ht_importer_charge(&c->im, bytes, 1))
		return ht_error(c->diags, HT_E_LIMIT, in_index(c, e->at),
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
	struct entry *e;

	if (!key.n)
		return read_header(c, &src, offset);
	e = HT_NEW(c->a, struct entry);
	e->key = ht_str_copy(c->a, key);
	e->at = offset;
	HT_TRY(read_entry(c, &src, e));
	HT_TRY(charge(c, e, key.n + sizeof *e));
	if (ht_is_slice_record(key)) {
		c->slice =
			ht_grow(c->a, c->slice, c->slices, &c->slices_cap, sizeof(struct entry *));
		c->slice[c->slices++] = e;
		return HT_OK;
	}
	if (ht_slice_of_key(key, &s))
		return ht_error(c->diags, HT_E_INPUT, in_index(c, offset),
			"checkpoint index: '%.*s' is a slice, and is not stored as one",
			HT_STR_ARG(key));
	if (ht_map_get(e->sliced ? &c->entries : &c->wholes, key))
		return comes_twice(c, e);
	return add_entry(c, e->sliced ? &c->wholes : &c->entries, e);
}

/* Takes the extents of the whole tensor for the slice *s of an entry.  Returns what is wrong with it; NULL: nothing. */
static const char *fault_of(const struct entry *e, const struct entry *whole, struct ht_slice *s)
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
		struct entry *e = c->slice[i];
		const char *fault;
		struct ht_slice s;

		if (!ht_slice_of_record(e->key, c->a, &s))
			return ht_error(c->diags, HT_E_INPUT, in_index(c, e->at),
				"checkpoint index: the key of slice %zu is damaged", i);
		fault = fault_of(e, ht_map_get(&c->wholes, s.name), &s);
		if (fault)
			return ht_error(c->diags, HT_E_INPUT, in_index(c, e->at),
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
		return ht_error(
			d, HT_E_INPUT, in_index(c, -1), "checkpoint index: it has no header");
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

/* ---- tensors ---- */

static enum ht_status open_shard(
	struct ht_checkpoint *c, const struct entry *e, struct ht_diags *d, struct ht_file **out)
{
	if (e->shard < 0 || e->shard >= c->shards)
		return ht_error(d, HT_E_INPUT, in_index(c, -1),
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

static enum ht_status entry_error(
	const struct entry *e, const struct ht_file *f, struct ht_diags *d, const char *what)
{
	struct ht_where at = HT_NOWHERE;

	at.path = f->path;
	at.offset = e->offset;
	return ht_error(d, HT_E_INPUT, at, "checkpoint: '%.*s' %s", HT_STR_ARG(e->key), what);
}

/* The shard that an entry lies in. */
static enum ht_status shard_of(
	struct ht_checkpoint *c, const struct entry *e, struct ht_diags *d, struct ht_file **out)
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
static enum ht_status read_strings(struct ht_checkpoint *c, const struct entry *e,
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

static enum ht_status read_tensor(struct ht_checkpoint *c, const struct entry *e,
	struct ht_arena *a, struct ht_diags *d, struct ht_tensor **out)
{
	int64_t count = ht_shape_count(e->shape);
	size_t size = ht_dtype_info(e->dtype)->bytes, bytes;
	struct ht_file *f = NULL;
	struct ht_tensor *t;

	HT_TRY(shard_of(c, e, d, &f));
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

/* ---- the object graph ---- */

static enum ht_status read_attribute(struct ht_checkpoint *c, struct ht_pb_reader r)
{
	struct ht_str name = HT_STR(""), key = HT_STR(""), *copy;
	struct ht_map_entry *slot;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 2)
			name = v.s;
		else if (v.number == 3)
			key = v.s;
	}
	if (r.status != HT_OK || !name.n || !key.n)
		return r.status;
	copy = HT_NEW(c->a, struct ht_str);
	*copy = ht_str_copy(c->a, key);
	c->key_of[c->keys - 1] = copy;
	slot = ht_map_at(&c->names, ht_str_copy(c->a, name));
	slot->value = slot->value ? (void *)(uintptr_t)&ambiguous : copy;
	return HT_OK;
}

static enum ht_status read_names(struct ht_checkpoint *c, struct ht_diags *d)
{
	const struct entry *e = ht_map_get(&c->entries, HT_STR(OBJECT_GRAPH));
	struct ht_pb_source src = {
		.path = c->index->path, .diags = d, .translated = true, .depth = 32
	};
	struct ht_pb_reader r, node;
	struct ht_pb_value v, w;
	struct ht_tensor *t;

	c->have_names = true;
	if (!e)
		return HT_OK;
	HT_TRY(read_tensor(c, e, c->a, d, &t));
	if (t->dtype != HT_STRING || t->values != 1)
		return ht_error(d, HT_E_INPUT, in_index(c, -1),
			"checkpoint: its object graph is no string");
	src.p = (const uint8_t *)t->strings[0].p;
	src.n = t->strings[0].n;
	r = ht_pb_open(&src, HT_PB_TrackableObjectGraph);
	while (ht_pb_next(&r, &v)) {
		if (v.number != 1)
			continue;
		c->key_of =
			ht_grow(c->a, c->key_of, c->keys, &c->keys_cap, sizeof(struct ht_str *));
		c->key_of[c->keys++] = NULL;
		node = ht_pb_enter(&r, &v);
		while (ht_pb_next(&node, &w))
			if (w.number == 2)
				HT_TRY(read_attribute(c, ht_pb_enter(&node, &w)));
		if (node.status != HT_OK)
			return node.status;
	}
	return r.status;
}

void ht_checkpoint_follow(struct ht_checkpoint *c, struct ht_graph *g)
{
	ht_restore_keys(g, c->a, &c->restored);
	ht_captured_objects(g, c->a, &c->objects);
}

/* The key of the object that the model says that the variable is; NULL: it says none. */
static const struct ht_str *key_of_object(const struct ht_checkpoint *c, struct ht_str name)
{
	const uint64_t *id = ht_map_get(&c->objects, name);

	return id && *id < c->keys ? c->key_of[*id] : NULL;
}

/* Sets *out to the entry of the variable, or to NULL if there is none.  *several is true if there is none because more than one variable has
 * the name. */
static enum ht_status find_entry(struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d,
	const struct entry **out, bool *several)
{
	const struct ht_str *key = ht_map_get(&c->restored, name);
	const struct entry *e = ht_map_get(&c->entries, key ? *key : name);

	*out = NULL;
	*several = false;
	if (!e && !key) {
		if (!c->have_names)
			HT_TRY(read_names(c, d));
		key = key_of_object(c, name);
		key = key ? key : ht_map_get(&c->names, name);
		*several = key == &ambiguous;
		e = key && !*several ? ht_map_get(&c->entries, *key) : NULL;
	}
	*out = e;
	return HT_OK;
}

enum ht_status ht_checkpoint_key_of(
	struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d, struct ht_str *key)
{
	const struct ht_str *restored = ht_map_get(&c->restored, name);
	const struct entry *e = NULL;
	bool several;

	HT_TRY(find_entry(c, name, d, &e, &several));
	*key = several ? HT_STR("") : e ? e->key : restored ? *restored : name;
	return HT_OK;
}

/* The whole tensor that a key is a slice of, or that it names: as one entry, or in slices; its box is *s.  NULL: there is none of these extents. */
static const struct entry *whole_of(
	const struct ht_checkpoint *c, struct ht_str key, struct ht_slice *s)
{
	bool part = ht_slice_of_key(key, s);
	struct ht_str name = part ? s->name : key;
	const struct entry *e = ht_map_get(&c->wholes, name);

	if (!e)
		e = ht_map_get(&c->entries, name);
	if (!e || e->shape.rank < 1 || e->shape.rank > HT_MAX_RANK)
		return NULL;
	if (part)
		return ht_shape_eq(e->shape, (struct ht_shape){ s->rank, s->full }) ? e : NULL;
	*s = (struct ht_slice){ .name = name, .rank = e->shape.rank };
	for (int32_t i = 0; i < s->rank; i++)
		s->length[i] = -1;
	return ht_slice_within(s, e->shape) ? e : NULL;
}

bool ht_checkpoint_has(struct ht_checkpoint *c, struct ht_str key)
{
	struct ht_slice s;

	return ht_map_get(&c->entries, key) || whole_of(c, key, &s);
}

bool ht_checkpoint_share(struct ht_str key, struct ht_str other)
{
	struct ht_slice a, b;
	bool one = ht_slice_of_key(key, &a), two = ht_slice_of_key(other, &b);

	if (one && two)
		return ht_str_eq(a.name, b.name) && a.rank == b.rank && ht_slice_shared(&a, &b);
	return ht_str_eq(one ? a.name : key, two ? b.name : other);
}

/* A tensor, or part of one, whose elements lie in other pieces of the checkpoint. */
struct joint {
	struct ht_checkpoint *c;
	const struct entry *whole;
	const struct ht_slice *want;
	struct ht_diags *d;
};

/* Entry `i` if it is a piece that has elements of the joint; its box is *s. */
static const struct entry *piece(const struct joint *j, size_t i, struct ht_slice *s)
{
	const struct entry *e = j->c->entries.entries[i].value;
	const struct ht_str name = j->want->name;

	if (e->key.n < name.n || !ht_str_eq((struct ht_str){ e->key.p, name.n }, name) ||
		whole_of(j->c, e->key, s) != j->whole || !ht_slice_shared(j->want, s))
		return NULL;
	return e;
}

static enum ht_status joint_error(const struct joint *j, const char *what)
{
	return ht_error(j->d, HT_E_INPUT, in_index(j->c, j->whole->at),
		"checkpoint: the slices of '%.*s' have %s", HT_STR_ARG(j->want->name), what);
}

/* Opens the shards of the pieces.  Many slices may have the same bytes, so that a small file would need much memory. */
static enum ht_status check_bytes(const struct joint *j, size_t bytes)
{
	struct ht_file *f;
	struct ht_slice s;
	size_t all = 0;

	for (size_t i = 0; i < j->c->entries.count; i++) {
		const struct entry *e = piece(j, i, &s);

		if (e)
			HT_TRY(shard_of(j->c, e, j->d, &f));
	}
	for (int64_t i = 0; i < j->c->shards; i++)
		all += j->c->shard[i] ? j->c->shard[i]->n : 0;
	if (bytes > all)
		return ht_error(j->d, HT_E_INPUT, in_index(j->c, j->whole->at),
			"checkpoint: '%.*s' has more bytes than the shards of its slices",
			HT_STR_ARG(j->want->name));
	return HT_OK;
}

/* Copies the elements of all pieces to `out`.  `seen` has a zero for each element. */
static enum ht_status join(
	const struct joint *j, struct ht_arena *a, size_t count, char *out, uint8_t *seen)
{
	size_t size = ht_dtype_info(j->whole->dtype)->bytes;
	int64_t found = 0, more;
	struct ht_tensor *t;
	struct ht_slice s;

	for (size_t i = 0; i < j->c->entries.count; i++) {
		const struct entry *e = piece(j, i, &s);

		if (!e)
			continue;
		more = ht_slice_mark(j->want, seen, &s);
		if (more < 0)
			return joint_error(j, "elements in common");
		found += more;
		HT_TRY(read_tensor(j->c, e, a, j->d, &t));
		ht_slice_copy(j->want, out, &s, t->blob->p, size);
		ht_bundle_forget(t);
	}
	if ((size_t)found != count)
		return joint_error(
			j, ht_str_printf(
				   a, "%" PRId64 " elements of %zu that are needed", found, count)
				   .p);
	return HT_OK;
}

static enum ht_status read_pieces(struct ht_checkpoint *c, const struct entry *whole,
	const struct ht_slice *want, struct ht_arena *a, struct ht_diags *d, struct ht_tensor **out)
{
	const struct joint j = { c, whole, want, d };
	int64_t count = ht_shape_count(ht_slice_shape(want));
	size_t size = ht_dtype_info(whole->dtype)->bytes, bytes;
	struct ht_arena *scratch;
	struct ht_blob *blob;
	enum ht_status st;

	if (!size)
		return ht_error(d, HT_E_UNSUPPORTED, in_index(c, whole->at),
			"checkpoint: '%.*s' has strings in slices", HT_STR_ARG(want->name));
	if (count < 0 || !ht_mul_size((size_t)count, size, &bytes))
		return joint_error(&j, "more elements than numbers have");
	HT_TRY(check_bytes(&j, bytes));
	blob = ht_blob_in(a, bytes);
	scratch = ht_arena_within(a);
	st = join(&j, scratch, (size_t)count, (char *)(uintptr_t)blob->p,
		HT_NEW_ARRAY(scratch, uint8_t, (size_t)count));
	ht_arena_release(scratch);
	HT_TRY(st);
	*out = ht_tensor_new(
		a, whole->dtype, ht_shape_make(a, want->rank, ht_slice_shape(want).dim), NULL);
	(*out)->blob = ht_blob_ref(blob);
	return HT_OK;
}

enum ht_status ht_checkpoint_item(
	struct ht_checkpoint *c, size_t i, struct ht_diags *d, struct ht_checkpoint_item *out)
{
	const struct entry *e = c->entries.entries[i].value;
	struct ht_file *f = NULL;

	HT_TRY(shard_of(c, e, d, &f));
	*out = (struct ht_checkpoint_item){ e->key, e->dtype, e->shape, f->p + e->offset,
		(size_t)e->size, true, e->crc };
	return HT_OK;
}

enum ht_status ht_checkpoint_read(struct ht_checkpoint *c, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out)
{
	const struct ht_str *key = ht_map_get(&c->restored, name);
	const struct entry *e = NULL, *whole;
	struct ht_slice s;
	bool several;

	*out = NULL;
	HT_TRY(find_entry(c, name, d, &e, &several));
	if (!e && !several && (whole = whole_of(c, key ? *key : name, &s)))
		return read_pieces(c, whole, &s, a, d, out);
	if (several)
		return ht_error(d, HT_E_INPUT, in_index(c, -1),
			"checkpoint: two variables have the name '%.*s'", HT_STR_ARG(name));
	if (!e)
		return ht_error(d, HT_E_INPUT, in_index(c, -1),
			"checkpoint: there is no variable '%.*s'", HT_STR_ARG(name));
	return read_tensor(c, e, a, d, out);
}
