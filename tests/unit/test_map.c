/* The string map against a plain list; hashes. */
#include "tests/unit/unit.h"

static void finds_what_was_put(void **state)
{
	enum { COUNT = 5000 };
	static int values[COUNT];
	struct ht_str key[COUNT];
	struct ht_map m;

	(void)state;
	UNIT_ARENA(a);
	ht_map_init(&m, &a);
	assert_null(ht_map_get(&m, HT_STR("x")));
	for (int i = 0; i < COUNT; i++) {
		key[i] = ht_str_printf(&a, "%d", i * 31);
		ht_map_at(&m, key[i])->value = &values[i];
		/* The second call returns the same entry. */
		assert_ptr_equal(ht_map_at(&m, key[i])->value, &values[i]);
		assert_int_equal(m.count, i + 1);
	}
	for (int i = 0; i < COUNT; i++) {
		assert_ptr_equal(ht_map_get(&m, key[i]), &values[i]);
		assert_true(ht_str_eq(m.entries[i].key, key[i])); /* in the order of insertion */
	}
	assert_null(ht_map_get(&m, HT_STR("1")));
	ht_arena_release(&a);
}

/* Reserving memory changes nothing but memory. */
static void room_for_keys(void **state)
{
	static const size_t rooms[] = { 0, 1, 8, 9, 21, 22, 1000 };
	static int value;

	(void)state;
	UNIT_ARENA(a);
	for (size_t i = 0; i < HT_COUNT(rooms); i++)
		for (size_t more = 0; more < 30; more++) {
			struct ht_map m;

			ht_map_init(&m, &a);
			ht_map_reserve(&m, rooms[i]);
			assert_null(ht_map_get(&m, HT_STR("0")));
			for (size_t k = 0; k < rooms[i] + more; k++)
				ht_map_at(&m, ht_str_printf(&a, "%zu", k))->value = &value;
			assert_int_equal(m.count, rooms[i] + more);
			for (size_t k = 0; k < m.count; k++)
				assert_non_null(ht_map_get(&m, ht_str_printf(&a, "%zu", k)));
			assert_null(ht_map_get(&m, HT_STR("x")));
		}
	ht_arena_release(&a);
}

static void keys_are_bytes(void **state)
{
	struct ht_map m;
	int one, two, three;

	(void)state;
	UNIT_ARENA(a);
	ht_map_init(&m, &a);
	ht_map_at(&m, HT_STR(""))->value = &one;
	ht_map_at(&m, HT_STR("\0"))->value = &two;
	ht_map_at(&m, HT_STR("\0\0"))->value = &three;
	assert_ptr_equal(ht_map_get(&m, (struct ht_str){ NULL, 0 }), &one);
	assert_ptr_equal(ht_map_get(&m, HT_STR("\0")), &two);
	assert_ptr_equal(ht_map_get(&m, HT_STR("\0\0")), &three);
	assert_int_equal(m.count, 3);
	assert_null(ht_map_at(&m, HT_STR("new"))->value);
	ht_arena_release(&a);
}

/* The published XXH3-128 of no input, and every byte matters. */
static void hashes(void **state)
{
	char text[300];
	struct ht_hash all, empty = ht_hash_bytes(NULL, 0);

	(void)state;
	assert_int_equal(empty.lo, 0x6001c324468d497f);
	assert_int_equal(empty.hi, 0x99aa06d3014798d8);
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)i;
	all = ht_hash_bytes(text, sizeof text);
	assert_true(ht_hash_eq(all, ht_hash_bytes(text, sizeof text)));
	for (size_t i = 0; i < sizeof text; i++) {
		text[i] ^= 1;
		assert_false(ht_hash_eq(all, ht_hash_bytes(text, sizeof text)));
		text[i] ^= 1;
	}
	assert_false(ht_hash_eq(all, ht_hash_bytes(text, sizeof text - 1)));
	assert_true(ht_hash_eq(empty, ht_hash_pieces(NULL, 0)));
	for (size_t i = 0; i <= sizeof text; i++) {
		struct ht_str piece[3] = { { text, i }, { NULL, 0 },
			{ text + i, sizeof text - i } };

		assert_true(ht_hash_eq(all, ht_hash_pieces(piece, 3)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_put),
		cmocka_unit_test(room_for_keys),
		cmocka_unit_test(keys_are_bytes),
		cmocka_unit_test(hashes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
