/* Diagnostics: kept in order, copied, counted, printed in one form. */
#include "tests/unit/unit.h"

static struct ht_str printed(struct ht_arena *a, const struct ht_diag *d)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_diag_print(d, &b);
	return ht_buf_str(&b);
}

static void places_print(void **state)
{
	struct ht_diags d;
	char path[] = "dir/model.pb", node[] = "a/b";
	struct ht_where at = { .path = path,
		.line = 3,
		.column = 7,
		.offset = 99,
		.node = ht_str(node),
		.op = HT_STR("MatMul") };
	struct ht_where byte = { .path = "m.pb", .offset = 17 };
	struct ht_where op = { .offset = -1, .op = HT_STR("Foo") };
	struct ht_where line = { .path = "f.hir", .line = 2, .offset = -1 };

	(void)state;
	UNIT_ARENA(a);
	ht_diags_init(&d);
	assert_int_equal(ht_error(&d, HT_E_INPUT, at, "expected %s", "float32"), HT_E_INPUT);
	/* The caller's strings may be freed or changed. */
	memset(path, 'x', sizeof path - 1);
	memset(node, 'x', sizeof node - 1);
	ht_warn(&d, byte, "w");
	ht_note(&d, HT_NOWHERE, "n");
	ht_error(&d, HT_E_UNSUPPORTED, op, "no kernel");
	ht_error(&d, HT_E_INPUT, line, "odd");
	const struct ht_diag *i = d.first;
	assert_str(
		printed(&a, i), "dir/model.pb:3:7: error: node 'a/b' (MatMul): expected float32");
	assert_int_equal(i->status, HT_E_INPUT);
	assert_str(printed(&a, i = i->next), "m.pb: byte 17: warning: w");
	assert_str(printed(&a, i = i->next), "note: n");
	assert_str(printed(&a, i = i->next), "error: op Foo: no kernel");
	assert_str(printed(&a, i = i->next), "f.hir:2: error: odd");
	assert_null(i->next);
	assert_ptr_equal(i, d.last);
	assert_int_equal(d.errors, 3);
	assert_int_equal(d.warnings, 1);
	assert_int_equal(d.count, 5);
	ht_diags_release(&d);
	assert_null(d.first);
	ht_arena_release(&a);
}

static void bytes_that_are_no_text_are_shown(void **state)
{
	struct ht_diags d;
	struct ht_where at = HT_NOWHERE;

	(void)state;
	UNIT_ARENA(a);
	ht_diags_init(&d);
	at.node = HT_STR("a\x1b[2J\xff\xc3\xa9\n");
	ht_error(&d, HT_E_INPUT, at, "bad name");
	assert_str(printed(&a, d.first), "error: node 'a\\x1b[2J\\xff\xc3\xa9\\x0a': bad name");
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void no_more_than_the_limit_are_kept(void **state)
{
	struct ht_diags d;
	size_t n = 0;

	(void)state;
	ht_diags_init(&d);
	for (int i = 0; i < HT_MAX_DIAGS + 50; i++)
		ht_error(&d, HT_E_INPUT, HT_NOWHERE, "%d", i);
	for (const struct ht_diag *i = d.first; i; i = i->next)
		n++;
	assert_int_equal(n, HT_MAX_DIAGS);
	assert_int_equal(d.errors, HT_MAX_DIAGS + 50);
	assert_int_equal(d.dropped, 50);
	ht_diags_release(&d);
}

static void without_memory_the_status_still_stands(void **state)
{
	struct ht_diags d;

	(void)state;
	assert_int_equal(ht_error(NULL, HT_E_LIMIT, HT_NOWHERE, "x"), HT_E_LIMIT);
	ht_warn(NULL, HT_NOWHERE, "x");
	ht_note(NULL, HT_NOWHERE, "x");
	ht_diags_init(&d);
	ht_fail_alloc_after(0);
	assert_int_equal(ht_error(&d, HT_E_INPUT, HT_NOWHERE, "x"), HT_E_INPUT);
	ht_fail_alloc_after(-1);
	assert_int_equal(d.errors, 1);
	assert_int_equal(d.dropped, 1);
	assert_null(d.first);
	ht_error(&d, HT_E_INPUT, HT_NOWHERE, "y");
	assert_str(d.first->text, "y");
	ht_diags_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_print),
		cmocka_unit_test(bytes_that_are_no_text_are_shown),
		cmocka_unit_test(no_more_than_the_limit_are_kept),
		cmocka_unit_test(without_memory_the_status_still_stands),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
