/* Tensors that are stored in slices, whose keys are those of slices.h: whole ones and parts of them, joined from the slices that have
 * their elements. */
#include "frontend/checkpoint.h"

#include <inttypes.h>

const struct ht_bundle_entry *ht_bundle_whole(
	const struct ht_checkpoint *c, struct ht_str key, struct ht_slice *s)
{
	bool part = ht_slice_of_key(key, s);
	struct ht_str name = part ? s->name : key;
	const struct ht_bundle_entry *e = ht_map_get(&c->wholes, name);

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

	return ht_map_get(&c->entries, key) || ht_bundle_whole(c, key, &s);
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
	const struct ht_bundle_entry *whole;
	const struct ht_slice *want;
	struct ht_diags *d;
};

/* Entry `i` if it is a piece that has elements of the joint; its box is *s. */
static const struct ht_bundle_entry *piece(const struct joint *j, size_t i, struct ht_slice *s)
{
	const struct ht_bundle_entry *e = j->c->entries.entries[i].value;
	const struct ht_str name = j->want->name;

	if (e->key.n < name.n || !ht_str_eq((struct ht_str){ e->key.p, name.n }, name) ||
		ht_bundle_whole(j->c, e->key, s) != j->whole || !ht_slice_shared(j->want, s))
		return NULL;
	return e;
}

static enum ht_status joint_error(const struct joint *j, const char *what)
{
	return ht_error(j->d, HT_E_INPUT, ht_bundle_place(j->c, j->whole->at),
		"checkpoint: the slices of '%.*s' have %s", HT_STR_ARG(j->want->name), what);
}

/* Opens the shards of the pieces.  Many slices may have the same bytes, so that a small file would need much memory. */
static enum ht_status check_bytes(const struct joint *j, size_t bytes)
{
	struct ht_file *f;
	struct ht_slice s;
	size_t all = 0;

	for (size_t i = 0; i < j->c->entries.count; i++) {
		const struct ht_bundle_entry *e = piece(j, i, &s);

		if (e)
			HT_TRY(ht_bundle_shard(j->c, e, j->d, &f));
	}
	for (int64_t i = 0; i < j->c->shards; i++)
		all += j->c->shard[i] ? j->c->shard[i]->n : 0;
	if (bytes > all)
		return ht_error(j->d, HT_E_INPUT, ht_bundle_place(j->c, j->whole->at),
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
		const struct ht_bundle_entry *e = piece(j, i, &s);

		if (!e)
			continue;
		more = ht_slice_mark(j->want, seen, &s);
		if (more < 0)
			return joint_error(j, "elements in common");
		found += more;
		HT_TRY(ht_bundle_tensor(j->c, e, a, j->d, &t));
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

enum ht_status ht_bundle_pieces(struct ht_checkpoint *c, const struct ht_bundle_entry *whole,
	const struct ht_slice *want, struct ht_arena *a, struct ht_diags *d, struct ht_tensor **out)
{
	const struct joint j = { c, whole, want, d };
	int64_t count = ht_shape_count(ht_slice_shape(want));
	size_t size = ht_dtype_info(whole->dtype)->bytes, bytes;
	struct ht_arena *scratch;
	struct ht_blob *blob;
	enum ht_status st;

	if (!size)
		return ht_error(d, HT_E_UNSUPPORTED, ht_bundle_place(c, whole->at),
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
