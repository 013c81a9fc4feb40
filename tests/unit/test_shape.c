/* Element types and shapes. */
#include "tests/unit/unit.h"

static void every_type_has_its_row(void **state)
{
	(void)state;
	for (int t = 1; t < HT_DTYPE_END; t++) {
		const struct ht_dtype_info *row = ht_dtype_info((enum ht_dtype)t);

		assert_non_null(row->name);
		assert_memory_equal(row->proto, "DT_", 3);
		assert_int_equal(ht_dtype_named(ht_str(row->name)), t);
		assert_int_equal(ht_dtype_named(ht_str(row->tag)), t);
		assert_int_equal(ht_dtype_named(ht_str(row->proto)), t);
		/* The reference type has the same row. */
		assert_ptr_equal(ht_dtype_info((enum ht_dtype)(t + HT_REF)), row);
		if (row->kind == HT_KIND_FLOAT && row->bytes >= 2)
			assert_int_equal(1 + row->exponent + row->mantissa, row->bytes * 8);
	}
	assert_string_equal(ht_dtype_info(HT_BF16)->name, "bfloat16");
	assert_string_equal(ht_dtype_info(HT_F16)->proto, "DT_HALF");
	assert_int_equal(ht_dtype_info(HT_C128)->bytes, 16);
	assert_int_equal(ht_dtype_info(HT_STRING)->bytes, 0);
	assert_int_equal(ht_dtype_named(HT_STR("float33")), HT_INVALID);
	assert_int_equal(ht_dtype_named(HT_STR("invalid")), HT_INVALID);
	assert_int_equal(ht_dtype_info((enum ht_dtype)99)->kind, HT_KIND_NONE);
	assert_int_equal(ht_dtype_info((enum ht_dtype) - 1)->kind, HT_KIND_NONE);
	assert_true(ht_is_float(HT_F16));
	assert_false(ht_is_float(HT_I64));
}

static struct ht_str print(struct ht_arena *a, struct ht_shape s)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_shape_print(s, &b);
	return ht_buf_str(&b);
}

static void shapes_print_and_compare(void **state)
{
	int64_t dims[] = { 1, 224, HT_DIM_UNKNOWN, -2, -7 };

	(void)state;
	UNIT_ARENA(a);
	struct ht_shape s = ht_shape_make(&a, 5, dims), t = ht_shape_make(&a, 5, dims);
	assert_str(print(&a, s), "[1,224,?,$0,$5]");
	assert_str(print(&a, HT_SHAPE_SCALAR), "[]");
	assert_str(print(&a, HT_SHAPE_UNKNOWN), "[*]");
	assert_true(ht_shape_eq(s, t));
	dims[1] = 225; /* the shape copied its dims */
	assert_true(ht_shape_eq(s, t));
	assert_false(ht_shape_eq(s, ht_shape_make(&a, 5, dims)));
	assert_false(ht_shape_eq(s, ht_shape_make(&a, 4, dims)));
	assert_false(ht_shape_eq(HT_SHAPE_SCALAR, HT_SHAPE_UNKNOWN));
	assert_int_equal(ht_shape_make(&a, -1, NULL).rank, -1);
	ht_arena_release(&a);
}

static void counts_do_not_overflow(void **state)
{
	const int64_t big = (int64_t)1 << 40;

	(void)state;
	assert_int_equal(ht_shape_count(HT_SHAPE_SCALAR), 1);
	assert_int_equal(ht_shape_count(HT_SHAPE_UNKNOWN), -1);
	assert_int_equal(ht_shape_count((struct ht_shape){ 3, (int64_t[]){ 2, 3, 4 } }), 24);
	assert_int_equal(ht_shape_count((struct ht_shape){ 2, (int64_t[]){ 2, -1 } }), -1);
	assert_int_equal(ht_shape_count((struct ht_shape){ 2, (int64_t[]){ big, big } }), -1);
	assert_int_equal(ht_shape_count((struct ht_shape){ 3, (int64_t[]){ big, big, 0 } }), 0);
	assert_false(ht_shape_known((struct ht_shape){ 2, (int64_t[]){ 2, -3 } }));
	assert_true(ht_shape_known(HT_SHAPE_SCALAR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_has_its_row),
		cmocka_unit_test(shapes_print_and_compare),
		cmocka_unit_test(counts_do_not_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
