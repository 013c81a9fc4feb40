/* The index of a graph's entries: when memory runs out, and at its size limit. */
#include "tests/unit/store.h"

#include "api/api.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <halftone/cache.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char text[] = "hir 1\n"
			   "entry \"\" {\n"
			   "  input \"x\" = %x\n"
			   "  output \"y\" = %y\n"
			   "}\n"
			   "%x = Placeholder() {dtype=f32, shape=shape[4]}\n"
			   "%v = VarHandleOp() {dtype=f32, shape=shape[4]}\n"
			   "%y = Relu(%x) {T=f32}\n";

static struct ht_cache *cache;
static struct ht_model *model;
static struct ht_compile_options options = HT_COMPILE_OPTIONS_INIT;
static struct ht_wanted wanted;

static void write_file(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_true(f && fwrite(bytes, 1, n, f) == n && !fclose(f));
}

static int set_up(void **state)
{
	struct ht_cache_options opt = { .store = { .dir = dir, .mode = HT_CACHE_RW },
		.graph_name = "net" };
	char path[80];
	struct ht_str content;

	(void)state;
	if (ht_cache_start(&opt, NULL, &cache) != HT_OK)
		return -1;
	snprintf(path, sizeof path, "%s/m.hir", dir);
	write_file(path, text, sizeof text - 1);
	if (ht_model_load(path, NULL, NULL, &model) != HT_OK)
		return -1;
	ht_model_set_cache(model, cache);
	options.target = "x86-64";
	wanted = (struct ht_wanted){ model, &options, NULL, ht_target_named(options.target) };
	return ht_content_of(model, NULL, &content) == HT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
	ht_model_free(model);
	ht_cache_end(cache, NULL);
	return clear_folder(state);
}

/* ---- contents ---- */

static struct ht_reads read_alone(enum ht_read what)
{
	struct ht_reads r = { 0 };

	ht_note_read(&r, what);
	return r;
}

static size_t known_sets(struct ht_reads set[HT_READ_SETS])
{
	struct ht_diags d;
	UNIT_ARENA(a);
	size_t n;

	ht_diags_init(&d);
	n = ht_index_sets(&wanted, &d, &a, set);
	assert_int_equal(d.count, 0);
	ht_diags_release(&d);
	ht_arena_release(&a);
	return n;
}

static void assert_unlocked(void)
{
	char path[80];
	int fd;

	snprintf(path, sizeof path, "%s/net.lock", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
}

/* Writes two items of other models, in `n` bytes. */
static void write_index(size_t n)
{
	static const char begin[] = "{\"cache_file_list\": [{\"graph_key\": \"net\", "
				    "\"var_desc\": [], \"content\": \"1\", \"options\": \"\", "
				    "\"cache_file_name\": \"first\"}, {\"graph_key\": \"net\", "
				    "\"var_desc\": [], \"options\": \"\", "
				    "\"cache_file_name\": \"last\", \"content\": \"",
			  end[] = "\"}]}";
	UNIT_ARENA(a);
	char *p = ht_alloc(&a, n);

	memset(p, 'x', n);
	memcpy(p, begin, sizeof begin - 1);
	memcpy(p + n - (sizeof end - 1), end, sizeof end - 1);
	write_file(ht_store_index_path(ht_cache_store(cache), "net", &a).p, p, n);
	ht_arena_release(&a);
}

/* Each option is recorded alone, and is recognised when its name is read. */
static void every_option_is_noted(void **state)
{
	UNIT_ARENA(a);

	(void)state;
	for (int r = 0; r < HT_READ_END; r++) {
		struct ht_reads one = read_alone((enum ht_read)r), both = one, again;
		struct ht_buf b;

		for (int other = 0; other < HT_READ_END; other++)
			assert_int_equal(ht_was_read(one, (enum ht_read)other), other == r);
		ht_note_read(&both, (enum ht_read)((r + 1) % HT_READ_END));
		assert_false(ht_same_reads(one, both));
		ht_buf_init(&b, &a);
		ht_reads_print(&b, both);
		ht_puts(&b, " no_such_option");
		again = ht_reads_parse(ht_buf_str(&b));
		assert_true(ht_same_reads(again, both));
	}
	ht_arena_release(&a);
}

/* ---- out of memory ---- */

static long allocations_left;

static void *allocate(size_t n)
{
	if (allocations_left-- != 0)
		return malloc(n);
	errno = ENOMEM;
	return NULL;
}

/* Adds an item while an allocation fails, in Halftone or in cJSON; false: none had to fail. */
static bool add_without_memory(long after, bool of_json, struct ht_reads reads)
{
	cJSON_Hooks hooks = { allocate, free };
	struct ht_diags d;
	UNIT_ARENA(a);
	bool told;

	ht_diags_init(&d);
	ht_note(&d, HT_NOWHERE, "there is room for another message");
	if (of_json) {
		allocations_left = after;
		cJSON_InitHooks(&hooks);
	} else {
		ht_alloc(&a, 2000); /* the caller's own arena continues from there */
		ht_fail_alloc_after(after);
	}
	ht_index_add(&wanted, reads, &d, &a);
	ht_fail_alloc_after(-1);
	cJSON_InitHooks(NULL);
	told = d.warnings > 0;
	if (told)
		assert_non_null(strstr(d.last->text.p, strerror(ENOMEM)));
	ht_diags_release(&d);
	ht_arena_release(&a);
	return told;
}

/* Each time the lock is free again, and the old items are there. */
static void an_index_without_memory(void **state)
{
	struct ht_reads set[HT_READ_SETS];
	UNIT_ARENA(a);

	(void)state;
	write_index(20000); /* more than an arena begins with */
	ht_index_add(&wanted, read_alone(HT_READ_policy), NULL, &a);
	for (int of_json = 0; of_json < 2; of_json++) {
		long after = 0;

		while (add_without_memory(after++, of_json, read_alone(HT_READ_tf_random_seed))) {
			assert_unlocked();
			assert_int_equal(known_sets(set), 1 + (size_t)of_json);
		}
		assert_true(after > (of_json ? 20 : 2));
		assert_int_equal(known_sets(set), 2);
		assert_true(ht_same_reads(set[0], read_alone(HT_READ_tf_random_seed)));
		assert_true(ht_same_reads(set[1], read_alone(HT_READ_policy)));
	}
	ht_arena_release(&a);
}

/* ---- the size limit of the reader ---- */

static void an_index_stays_readable(void **state)
{
	struct ht_reads set[HT_READ_SETS];
	struct ht_str index;
	UNIT_ARENA(a);

	(void)state;
	write_index(HT_INDEX_BYTES - 1);
	assert_int_equal(known_sets(set), 0);
	ht_index_add(&wanted, read_alone(HT_READ_policy), NULL, &a);
	assert_int_equal(known_sets(set), 1);
	assert_true(ht_store_index_load(ht_cache_store(cache), "net", &a, &index));
	assert_non_null(strstr(index.p, "\"first\""));
	assert_null(strstr(index.p, "\"last\""));
	ht_arena_release(&a);
}

/* An index above the limit is not read: a warning reports it, and it is written anew. */
static void an_index_that_is_too_large(void **state)
{
	struct ht_reads set[HT_READ_SETS];
	struct ht_diags d;
	UNIT_ARENA(a);
	struct ht_str path;

	(void)state;
	ht_diags_init(&d);
	path = ht_store_index_path(ht_cache_store(cache), "net", &a);
	write_file(path.p, "{}", 2);
	assert_int_equal(truncate(path.p, (off_t)HT_INDEX_BYTES + 1), 0);
	assert_int_equal(ht_index_sets(&wanted, &d, &a, set), 0);
	assert_int_equal(d.warnings, 1);
	assert_non_null(strstr(d.first->text.p, strerror(EFBIG)));
	ht_index_add(&wanted, read_alone(HT_READ_policy), NULL, &a);
	assert_int_equal(known_sets(set), 1);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_is_noted),
		cmocka_unit_test_setup_teardown(an_index_without_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_index_stays_readable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_index_that_is_too_large, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
