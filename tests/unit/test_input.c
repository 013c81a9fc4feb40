/* Digests of input files are remembered as long as a file is the same, and never longer. */
#include "tests/unit/store.h"

#include "cache/remote.h"

#include <fcntl.h>
#include <halftone/cache.h>

enum { BYTES = 1200000, SECOND = 1000000000 };

static char name[] = "input-XXXXXX"; /* in the present folder, if its file system keeps times */
static struct ht_cache *cache;

/* Remembered digests belong to this machine: no server is asked for one or gets one. */
static enum ht_status remote_open(
	const struct ht_remote_options *opt, struct ht_diags *d, struct ht_remote **out)
{
	(void)opt;
	(void)d;
	*out = NULL;
	return HT_OK;
}

static bool remote_get(
	struct ht_remote *r, const struct ht_cache_key *k, struct ht_diags *d, struct ht_str *out)
{
	(void)r;
	(void)k;
	(void)d;
	(void)out;
	fail();
	return false;
}

static bool remote_put(struct ht_remote *r, const struct ht_cache_key *k,
	const struct ht_cache_entry *e, struct ht_diags *d)
{
	(void)r;
	(void)k;
	(void)e;
	(void)d;
	fail();
	return false;
}

static void remote_close(struct ht_remote *r)
{
	(void)r;
}

static const struct ht_remote_module remote = {
	.open = remote_open, .get = remote_get, .put = remote_put, .close = remote_close
};

static int set_up(void **state)
{
	struct ht_cache_options opt = { .store = { .dir = dir, .mode = HT_CACHE_RW },
		.remote = &remote };

	(void)state;
	return ht_cache_start(&opt, NULL, &cache) == HT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ht_cache_end(cache, NULL);
	unlink(name);
	memcpy(name, "input-XXXXXX", sizeof name);
	return clear_folder(state);
}

/* A file of its own; skips the test if the file system guarantees nothing. */
static struct ht_file *map_new(size_t n)
{
	static char bytes[BYTES];
	int fd = mkstemp(name);
	struct ht_file *f;

	assert_true(fd >= 0);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)(i * 7);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
	assert_int_equal(ht_file_map(name, SIZE_MAX, NULL, &f), HT_OK);
	if (!f->stamp.mount) {
		ht_file_unref(f);
		skip();
	}
	return f;
}

/* Whether the digest of `f`, `seconds` after its last change, is that of its present bytes.  They
 * differ from the bytes for which its digest was remembered, so a remembered digest is noticed. */
static bool is_found(const struct ht_file *f, int64_t seconds)
{
	char *other = calloc(1, f->n);
	struct ht_file changed = *f;
	uint8_t got[32], right[32];

	assert_non_null(other);
	changed.p = (const uint8_t *)other;
	ht_sha256(other, f->n, right);
	ht_cache_digest(cache, &changed, f->stamp.changed_ns + seconds * SECOND, NULL, got);
	free(other);
	return !memcmp(got, right, sizeof got);
}

static void remember(const struct ht_file *f, int64_t seconds)
{
	uint8_t got[32], right[32];

	ht_sha256(f->p, f->n, right);
	ht_cache_digest(cache, f, f->stamp.changed_ns + seconds * SECOND, NULL, got);
	assert_memory_equal(got, right, sizeof got);
}

static void what_is_settled_is_remembered(void **state)
{
	struct ht_file *f = map_new(BYTES);
	struct ht_cache_cleaned exported;

	(void)state;
	remember(f, 61);
	assert_false(is_found(f, 3));
	remember(f, 62);
	assert_int_equal(ht_cache_export(cache, "/dev/null", NULL, &exported), HT_OK);
	assert_int_equal(exported.entries, 0);
	ht_file_unref(f);
}

/* An archive does not contain one either. */
static void no_archive_has_it(void **state)
{
	char path[96];
	uint8_t bytes[32] = { 1 };
	struct ht_str piece = { (const char *)bytes, sizeof bytes };
	struct ht_cache_cleaned imported;
	struct ht_entry_list list;
	struct ht_cache_entry e;
	struct ht_key_text k;
	struct ht_cache_key key;
	struct ht_diags d;
	UNIT_ARENA(a);
	FILE *f;

	(void)state;
	ht_diags_init(&d);
	snprintf(path, sizeof path, "%s/archive", dir);
	ht_key_begin(&k, HT_CACHE_INPUT, &a);
	ht_key_field(&k, "inode", HT_STR("1"));
	key = ht_key_end(&k);
	e = ht_entry_make(&a, &key, &(struct ht_payload){ &piece, 1, 0, 0 });
	f = fopen(path, "wb");
	assert_non_null(f);
	for (size_t i = 0; i < e.pieces; i++)
		assert_int_equal(fwrite(e.piece[i].p, 1, e.piece[i].n, f), e.piece[i].n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(ht_cache_import(cache, path, &d, &imported), HT_E_INPUT);
	assert_int_equal(d.errors, 1);
	assert_non_null(strstr(d.first->text.p, "remembers of its files"));
	assert_int_equal(ht_store_list(ht_cache_store(cache), &a, NULL, &list), HT_OK);
	assert_int_equal(list.n, 0);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void what_changed_a_moment_ago_is_not(void **state)
{
	struct ht_file *f = map_new(BYTES);

	(void)state;
	remember(f, 59);
	assert_true(is_found(f, 59));
	remember(f, -100); /* the clock went back */
	assert_true(is_found(f, 59));
	ht_file_unref(f);
}

static void small_files_are_not(void **state)
{
	struct ht_file *f = map_new(1000);

	(void)state;
	remember(f, 61);
	assert_true(is_found(f, 3));
	ht_file_unref(f);
}

/* Each component of a file's identity. */
static void another_file_is_another(void **state)
{
	struct ht_file *f = map_new(BYTES), other;

	(void)state;
	remember(f, 61);
	for (int part = 0; part < 6; part++) {
		other = *f;
		other.stamp.mount = part == 0 ? 0 : other.stamp.mount + (part == 1);
		other.stamp.inode += part == 2;
		other.stamp.bytes += part == 3;
		other.stamp.modified_ns += part == 4;
		other.stamp.changed_ns += part == 5;
		assert_true(is_found(&other, 3));
	}
	ht_file_unref(f);
}

/* The same size, and a time of modification that is set back. */
static void a_changed_file_is_another(void **state)
{
	struct ht_file *f = map_new(BYTES), *again;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	int fd;

	(void)state;
	remember(f, 61);
	times[1] =
		(struct timespec){ f->stamp.modified_ns / SECOND, f->stamp.modified_ns % SECOND };
	usleep(20000); /* some ticks of the file system's clock */
	fd = open(name, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 5000), 1);
	close(fd);
	assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
	assert_int_equal(ht_file_map(name, SIZE_MAX, NULL, &again), HT_OK);
	assert_int_equal(again->stamp.modified_ns, f->stamp.modified_ns);
	assert_int_not_equal(again->stamp.changed_ns, f->stamp.changed_ns);
	remember(again, 3);
	assert_true(is_found(again, 3));
	ht_file_unref(again);
	ht_file_unref(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_settled_is_remembered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_changed_a_moment_ago_is_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_archive_has_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(small_files_are_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_file_is_another, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_changed_file_is_another, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
