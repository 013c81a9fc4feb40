/* The compile cache through the public interface. */
#include <halftone/cache.h>
#include <halftone/halftone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char text[] = "hir 1\n"
			   "entry \"\" {\n"
			   "  input \"x\" = %x\n"
			   "  output \"y\" = %y\n"
			   "}\n"
			   "%x = Placeholder() {dtype=f32, shape=shape[4]}\n"
			   "%y = Relu(%x) {T=f32}\n";

static char folder[] = "/tmp/halftone-cache-XXXXXX";
static char model_path[64], dir[64];

static void write_model(const char *mode)
{
	FILE *f = fopen(model_path, mode);

	assert_true(f && fputs(*mode == 'a' ? "# more\n" : text, f) >= 0 && !fclose(f));
}

/* Runs a shell command on a file, "$F". */
static void run(const char *command, const char *file)
{
	assert_int_equal(setenv("F", file, 1), 0);
	assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(model_path, sizeof model_path, "%s/m.hir", folder);
	snprintf(dir, sizeof dir, "%s/cache", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	run("rm -rf \"$F\"", folder);
	return 0;
}

static long stat_of(struct ht_cache *c, const char *name)
{
	struct ht_bytes b = { 0 };
	const char *at;
	long n;

	assert_int_equal(ht_cache_stats(c, HT_FORMAT_JSON, NULL, &b), HT_OK);
	at = strstr((const char *)b.p, name);
	assert_non_null(at);
	n = strtol(at + strlen(name) + 3, NULL, 10); /* NAME": N */
	ht_bytes_free(&b);
	return n;
}

static struct ht_model *open_model(struct ht_cache *c)
{
	struct ht_model *m;

	assert_int_equal(ht_model_load(model_path, NULL, NULL, &m), HT_OK);
	ht_model_set_cache(m, c);
	return m;
}

static void compile_for(struct ht_model *m, const char *target, struct ht_diags *d)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_program *p;

	opt.target = target;
	assert_int_equal(ht_compile(m, &opt, d, &p), HT_OK);
	ht_program_free(p);
}

static void compile(struct ht_model *m, struct ht_diags *d)
{
	compile_for(m, "x86-64", d);
	ht_model_free(m);
}

static bool says_changed(struct ht_diags *d)
{
	struct ht_message said;
	bool found = false;

	for (size_t i = 0; i < ht_diags_count(d); i++) {
		assert_int_equal(ht_diags_get(d, i, &said), HT_OK);
		found |= strstr(said.text, "the model changed while it was compiled") != NULL;
	}
	return found;
}

static struct ht_cache *open_cache(void)
{
	struct ht_cache_settings s = HT_CACHE_SETTINGS_INIT;
	struct ht_cache *c;

	run("rm -rf \"$F\"", dir);
	s.dir = dir;
	assert_int_equal(ht_cache_open(&s, NULL, &c), HT_OK);
	return c;
}

/* The hashed bytes and the compiled bytes may differ. */
static void a_model_that_changes_is_not_kept(void **state)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_cache *c = open_cache();
	struct ht_model *m;

	(void)state;
	assert_non_null(d);
	write_model("w");
	m = open_model(c);
	write_model("a");
	compile(m, d);
	assert_true(says_changed(d));
	assert_int_equal(stat_of(c, "graphs"), 0);
	compile(open_model(c), d);
	assert_int_equal(stat_of(c, "graphs"), 1);
	compile(open_model(c), d);
	assert_int_equal(stat_of(c, "graphs"), 1);
	assert_int_equal(ht_diags_count(d), 1);
	ht_cache_close(c, NULL);
	ht_diags_free(d);
}

/* Changes of its name and permissions do not change its bytes. */
static void a_model_that_moves_is_kept(void **state)
{
	static const char *const moves[] = { "chmod 400 \"$F\"", "mv \"$F\" \"$F.old\"",
		"rm \"$F\"", "ln -f \"$F\" \"$F.link\"",
		"echo >\"$F.new\" && mv \"$F.new\" \"$F\"" };
	struct ht_diags *d = ht_diags_new();

	(void)state;
	assert_non_null(d);
	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
		struct ht_cache *c = open_cache();
		struct ht_model *m;

		run("rm -f \"$F\"", model_path);
		write_model("w");
		m = open_model(c);
		run(moves[i], model_path);
		compile(m, d);
		assert_int_equal(ht_diags_count(d), 0);
		assert_int_equal(stat_of(c, "graphs"), 1);
		/* Recreated with its old contents. */
		run("rm -f \"$F\"", model_path);
		write_model("w");
		compile(open_model(c), d);
		assert_int_equal(stat_of(c, "graphs"), 1);
		ht_cache_close(c, NULL);
	}
	ht_diags_free(d);
}

/* Likewise for the files of a SavedModel's checkpoint, which are hashed at the first
 * compilation. */
static void a_checkpoint_that_changes_is_not_kept(void **state)
{
	static const char *const change[] = { "variables.index", "variables.data-00000-of-00001" };

	const char *shared = getenv("HALFTONE_SHARED");
	char from[512];

	(void)state;
	snprintf(from, sizeof from, "%s/models/micro/half_plus_two/half_plus_two/00000123",
		shared ? shared : "../shared");
	if (access(from, R_OK))
		skip();
	assert_int_equal(setenv("FROM", from, 1), 0);
	for (size_t i = 0; i < 4; i++) {
		struct ht_diags *d = ht_diags_new();
		struct ht_cache *c = open_cache();
		struct ht_model *m;
		char file[128];

		assert_non_null(d);
		run("rm -rf \"$F\" && cp -r \"$FROM\" \"$F\" && chmod -R u+w \"$F\" && "
		    "touch -d @1000 \"$F\"/variables/*",
			model_path);
		snprintf(file, sizeof file, "%s/variables/%s", model_path, change[i % 2]);
		m = open_model(c);
		compile_for(m, "x86-64", NULL);
		assert_int_equal(stat_of(c, "graphs"), 1);
		/* Another file of that name does not belong to the model. */
		run(i < 2 ? "cp \"$F\" \"$F.new\" && cat \"$F.new\" >\"$F\""
			  : "printf x >\"$F.new\" && mv \"$F.new\" \"$F\"",
			file);
		compile_for(m, "x86-64-v3", d);
		assert_int_equal(stat_of(c, "graphs"), i < 2 ? 1 : 2);
		assert_int_equal(says_changed(d), i < 2);
		ht_model_free(m);
		ht_cache_close(c, NULL);
		ht_diags_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_model_that_changes_is_not_kept),
		cmocka_unit_test(a_model_that_moves_is_kept),
		cmocka_unit_test(a_checkpoint_that_changes_is_not_kept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
