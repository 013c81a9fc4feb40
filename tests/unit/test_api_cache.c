/* The compile cache through the public interface. */
#include <halftone/cache.h>
#include <halftone/halftone.h>

#include <setjmp.h>
#include <stdarg.h>
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

	assert_non_null(f);
	assert_true(fputs(*mode == 'a' ? "# more\n" : text, f) >= 0);
	assert_int_equal(fclose(f), 0);
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
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command);
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

static void compile(struct ht_model *m, struct ht_diags *d)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_program *p;

	opt.target = "x86-64";
	assert_int_equal(ht_compile(m, &opt, d, &p), HT_OK);
	ht_program_free(p);
	ht_model_free(m);
}

/* What was hashed and what was compiled may be different bytes. */
static void a_model_that_changes_is_not_kept(void **state)
{
	struct ht_cache_settings s = HT_CACHE_SETTINGS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_message said;
	struct ht_cache *c;
	struct ht_model *m;

	(void)state;
	assert_non_null(d);
	s.dir = dir;
	assert_int_equal(ht_cache_open(&s, NULL, &c), HT_OK);
	write_model("w");
	m = open_model(c);
	write_model("a");
	compile(m, d);
	assert_int_equal(ht_diags_count(d), 1);
	assert_int_equal(ht_diags_get(d, 0, &said), HT_OK);
	assert_non_null(strstr(said.text, "the model changed while it was compiled"));
	assert_int_equal(stat_of(c, "graphs"), 0);
	compile(open_model(c), d);
	assert_int_equal(stat_of(c, "graphs"), 1);
	compile(open_model(c), d);
	assert_int_equal(stat_of(c, "graphs"), 1);
	assert_int_equal(ht_diags_count(d), 1);
	ht_cache_close(c, NULL);
	ht_diags_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_model_that_changes_is_not_kept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
