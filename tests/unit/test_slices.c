/* Slices of tensors in checkpoints: their keys, how their pieces are joined, and what is refused. */
#include "tests/unit/unit.h"

#include "frontend/bundle.h"
#include "frontend/frontend.h"
#include "frontend/slices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 3, FILE_ROOM = 4096 };

struct test {
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_diags d;
	char folder[32], prefix[40], index[64], data[64];
};

static void begin(struct test *t)
{
	*t = (struct test){ .folder = "/tmp/test_slices.XXXXXX" };
	ht_diags_init(&t->d);
	ht_arena_init(&t->a, &t->unwind);
	assert_non_null(mkdtemp(t->folder));
	snprintf(t->prefix, sizeof t->prefix, "%s/c", t->folder);
	snprintf(t->index, sizeof t->index, "%s.index", t->prefix);
	snprintf(t->data, sizeof t->data, "%s.data-00000-of-00001", t->prefix);
}

static void end(struct test *t)
{
	ht_arena_release(&t->a);
	ht_diags_release(&t->d);
	unlink(t->index);
	unlink(t->data);
	rmdir(t->folder);
}

/* Expects one error, which contains `text`. */
static void expect_error(struct test *t, enum ht_status st, const char *text)
{
	struct ht_buf b;

	assert_int_equal(st, HT_E_INPUT);
	assert_int_equal(t->d.errors, 1);
	ht_buf_init(&b, &t->a);
	ht_diag_print(t->d.first, &b);
	if (!strstr(ht_buf_str(&b).p, text))
		fail_msg("'%s' is not in '%s'", text, b.p);
}

/* A slice of a tensor of int32 whose elements are their places; with a key of another form, all of it. */
static struct ht_checkpoint_item item_of(struct test *t, const char *key, enum ht_dtype dtype)
{
	struct ht_slice s = { .rank = 2, .full = { ROWS, COLUMNS }, .length = { ROWS, COLUMNS } };
	struct ht_checkpoint_item i = { .key = ht_str_copy(&t->a, ht_str(key)), .dtype = dtype };
	int32_t *value;
	int64_t count;

	if (strchr(key, ' '))
		assert_true(ht_slice_of_key(i.key, &s));
	i.shape = ht_shape_make(&t->a, s.rank, s.length);
	count = ht_shape_count(i.shape);
	i.bytes = value = HT_NEW_ARRAY(&t->a, int32_t, (size_t)count);
	i.n = (size_t)count * sizeof *value;
	for (int64_t k = 0; k < count; k++)
		value[k] = (int32_t)((s.start[0] + k / s.length[1]) * COLUMNS + s.start[1] +
				     k % s.length[1]);
	return i;
}

/* Writes a checkpoint of int32 with these keys, of which the last is NULL. */
static enum ht_status write_keys(struct test *t, const char *const *key)
{
	struct ht_checkpoint_item item[8];
	size_t n = 0;

	for (; key[n]; n++)
		item[n] = item_of(t, key[n], HT_I32);
	return ht_checkpoint_write(&t->a, t->prefix, item, n, &t->d);
}

static enum ht_status read_key(struct test *t, const char *key, struct ht_tensor **out)
{
	struct ht_checkpoint *c;

	HT_TRY(ht_checkpoint_open_unchecked(&t->a, t->prefix, &t->d, &c));
	return ht_checkpoint_read(c, ht_str(key), &t->a, &t->d, out);
}

/* Replaces bytes of the index, all of the same number. */
static void patch(struct test *t, const char *from, const char *to, size_t n)
{
	char bytes[FILE_ROOM], *at = NULL;
	FILE *f = fopen(t->index, "r+b");
	size_t size;

	assert_non_null(f);
	size = fread(bytes, 1, sizeof bytes, f);
	for (size_t i = 0; i + n <= size && !at; i++)
		at = memcmp(bytes + i, from, n) ? NULL : bytes + i;
	assert_non_null(at);
	memcpy(at, to, n);
	rewind(f);
	assert_int_equal(fwrite(bytes, 1, size, f), size);
	fclose(f);
}

static void keys(void **state)
{
	static const char *const none[] = { "", "v", "v ", "v 4", "v 4 3", "v 4 3 0,2",
		"v 4 3 0,2:", "v 4 3 0,2:-:-", "v 4 3 3,2:-", "v 4 3 -1,2:-", "v x 3 0,2:-",
		"v 36028797018963968 0,1" };
	struct ht_slice s;
	struct test t;

	(void)state;
	begin(&t);
	for (size_t i = 0; i < HT_COUNT(none); i++)
		assert_false(ht_slice_of_key(ht_str(none[i]), &s));
	assert_true(ht_slice_of_key(HT_STR("v 4 3 1,2:-"), &s));
	assert_true(ht_str_is(ht_slice_key(&t.a, &s), "v 4 3 1,2:0,3"));
	assert_true(ht_slice_of_key(HT_STR("v 4 3 -:0,3"), &s));
	assert_true(ht_str_is(ht_slice_key(&t.a, &s), "v"));
	/* The numbers around those that need another byte, and the largest. */
	for (int bits = 0; bits <= 55; bits++)
		for (int64_t x = ((int64_t)1 << bits) - 2; x < (int64_t)1 << bits; x++) {
			struct ht_slice of = { .name = HT_STR("net/v"), .rank = 1 }, back;

			if (x < 0)
				continue;
			of.full[0] = x;
			of.length[0] = x - x / 2;
			of.start[0] = x / 2;
			assert_true(ht_slice_of_record(ht_slice_record(&t.a, &of), &t.a, &back));
			assert_true(ht_slice_within(&back, (struct ht_shape){ 1, of.full }));
			assert_true(ht_str_eq(back.name, of.name) && back.rank == 1);
			assert_true(back.start[0] == of.start[0] && back.length[0] == of.length[0]);
		}
	end(&t);
}

/* Slices are compared axis by axis, so it does not matter that the tensor has more elements than an int64_t can count. */
static void large_slices_share(void **state)
{
	const struct ht_str all = HT_STR("v 4294967296 4294967296 0,4294967295:-");

	(void)state;
	assert_true(ht_checkpoint_share(all, all));
	assert_false(ht_checkpoint_share(all, HT_STR("v 4294967296 4294967296 4294967295,1:-")));
}

static void check_values(const struct ht_tensor *x, int32_t row, int32_t column)
{
	const int32_t *value = x->blob->p;

	for (int32_t i = 0; i < (int32_t)x->shape.dim[0]; i++)
		for (int32_t k = 0; k < (int32_t)x->shape.dim[1]; k++)
			assert_int_equal(*value++, (row + i) * COLUMNS + column + k);
}

static void pieces_are_joined(void **state)
{
	static const char *const key[] = { "v 4 3 0,2:0,2", "v 4 3 2,2:0,2", "v 4 3 0,4:2,1", "va",
		NULL };
	struct ht_tensor *x;
	struct test t;

	(void)state;
	begin(&t);
	assert_int_equal(write_keys(&t, key), HT_OK);
	assert_int_equal(read_key(&t, "v", &x), HT_OK);
	assert_true(x->shape.dim[0] == ROWS && x->shape.dim[1] == COLUMNS);
	check_values(x, 0, 0);
	assert_int_equal(read_key(&t, "v 4 3 1,2:1,2", &x), HT_OK);
	assert_true(x->shape.dim[0] == 2 && x->shape.dim[1] == 2);
	check_values(x, 1, 1);
	assert_int_equal(read_key(&t, "va 4 3 3,1:1,2", &x), HT_OK);
	check_values(x, 3, 1);
	end(&t);
}

/* Slices that have elements in common and lack as many others, and slices with a gap. */
static void pieces_do_not_fit(void **state)
{
	static const char *const overlap[] = { "v 4 3 0,3:-", "v 4 3 2,1:-", NULL };
	static const char *const gap[] = { "v 4 3 0,2:-", "v 4 3 3,1:-", "w", NULL };
	struct ht_tensor *x;
	struct test t;

	(void)state;
	begin(&t);
	assert_int_equal(write_keys(&t, overlap), HT_OK);
	expect_error(&t, read_key(&t, "v", &x), "slices of 'v' have elements in common");
	end(&t);
	begin(&t);
	assert_int_equal(write_keys(&t, gap), HT_OK);
	assert_int_equal(read_key(&t, "v 4 3 0,2:1,2", &x), HT_OK);
	expect_error(&t, read_key(&t, "v", &x), "have 9 elements of 12 that are needed");
	end(&t);
}

/* Slices that all have the same bytes. */
static void pieces_share_bytes(void **state)
{
	static const char *const key[] = { "v 4 3 0,2:-", "v 4 3 2,2:-", NULL };
	struct ht_tensor *x;
	struct test t;

	(void)state;
	begin(&t);
	assert_int_equal(write_keys(&t, key), HT_OK);
	patch(&t, "\x20\x18\x28\x18", "\x20\x00\x28\x18",
		4); /* offset and size of the second slice */
	assert_int_equal(truncate(t.data, 24), 0);
	expect_error(&t, read_key(&t, "v", &x), "'v' has more bytes than the shards of its slices");
	end(&t);
}

/* Opens an index in which bytes are others; these lie in its first block. */
static void damaged(
	const char *const *key, const char *from, const char *to, size_t n, const char *error)
{
	struct ht_tensor *x;
	struct test t;

	begin(&t);
	assert_int_equal(write_keys(&t, key), HT_OK);
	patch(&t, from, to, n);
	expect_error(&t, read_key(&t, "w", &x), error);
	assert_true(t.d.first->where.offset >= 0);
	end(&t);
}

static void indexes_are_refused(void **state)
{
	static const char *const plain[] = { "v_4_3_0,2:0,3", "w", NULL };
	static const char *const twice[] = { "v", "w", NULL };
	static const char *const slices[] = { "v 4 3 0,2:-", "v 4 3 2,2:-", "w", NULL };

	(void)state;
	damaged(plain, "v_4_3_0,2:0,3", "v 4 3 0,2:0,3", 13,
		"'v 4 3 0,2:0,3' is a slice, and is not stored as one");
	damaged(twice, "w", "v", 1, "'v' comes twice");
	/* The name of the slice, its rank, its number of rows; dtype and extents of the whole tensor. */
	damaged(slices, "\0v\0\1\1\2", "\0u\0\1\1\2", 6,
		"a slice of 'u' is of no tensor that is stored in slices");
	damaged(slices, "\0v\0\1\1\2", "\0v\0\1\1\3", 6, "the key of slice 0 is damaged");
	damaged(slices, "\x12\2\x08\4", "\x12\2\x08\3", 4,
		"a slice of 'v' does not lie in the tensor");
	damaged(slices, "\x08\3\x12\x08\x12\2\x08\2", "\x08\3\x12\x08\x12\2\x08\1", 8,
		"a slice of 'v' has another shape than its key");
	damaged(slices, "\x08\3\x12\x08\x12\2\x08\4", "\x08\1\x12\x08\x12\2\x08\4", 8,
		"a slice of 'v' has another type than the tensor");
}

static void refuse_items(
	struct test *t, struct ht_checkpoint_item *item, size_t n, const char *error)
{
	expect_error(t, ht_checkpoint_write(&t->a, t->prefix, item, n, &t->d), error);
	assert_int_equal(access(t->index, F_OK), -1);
	end(t);
}

static void items_are_refused(void **state)
{
	struct ht_checkpoint_item item[2];
	struct test t;

	(void)state;
	begin(&t);
	item[0] = item_of(&t, "v", HT_I32);
	item[0].key = HT_STR("v 4 3 0,2:-");
	refuse_items(&t, item, 1, "'v 4 3 0,2:-' has another shape than the slice");
	begin(&t);
	item[0] = item_of(&t, "v 4 3 0,2:-", HT_I32);
	item[1] = item_of(&t, "v 4 3 2,2:-", HT_F32);
	refuse_items(&t, item, 2, "'v 4 3 2,2:-' has another type");
	begin(&t);
	item[0] = item_of(&t, "v 4 3 0,2:-", HT_I32);
	item[1] = item_of(&t, "v 4 3 0,2:0,3", HT_I32);
	refuse_items(&t, item, 2, "two tensors of the checkpoint have the key 'v 4 3 0,2:");
	begin(&t);
	item[0] = item_of(&t, "v 4 3 0,2:-", HT_I32);
	item[1] = item_of(&t, "v", HT_I32);
	refuse_items(&t, item, 2, "two tensors of the checkpoint have the key 'v");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys),
		cmocka_unit_test(large_slices_share),
		cmocka_unit_test(pieces_are_joined),
		cmocka_unit_test(pieces_do_not_fit),
		cmocka_unit_test(pieces_share_bytes),
		cmocka_unit_test(indexes_are_refused),
		cmocka_unit_test(items_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
