/* Run configurations: their contents, and each wrong one is refused with its line. */
#include "tests/unit/unit.h"

#include "api/api.h"

#include <stdlib.h>
#include <unistd.h>

static const struct bad {
	const char *text;
	size_t n;
	long line; /* 0: no line */
	enum ht_status status;
	const char *message;
} bad[] = {
#define BAD(text, line, status, message) { text, sizeof(text) - 1, line, HT_E_##status, message },
#include "tests/unit/run_config.def"
#undef BAD
};

struct reading {
	char path[32];
	struct ht_diags diags;
	struct ht_config *config;
};

static enum ht_status read_text(struct reading *r, const char *text, size_t n, bool lenient)
{
	int fd;

	strcpy(r->path, "/tmp/halftone.XXXXXX");
	fd = mkstemp(r->path);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || close(fd))
		abort();
	ht_diags_init(&r->diags);
	return ht_config_read(r->path, lenient, &r->diags, &r->config);
}

static void end(struct reading *r)
{
	unlink(r->path);
	ht_config_free(r->config);
	ht_diags_release(&r->diags);
}

static void wrong_ones_are_refused_with_their_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < HT_COUNT(bad); i++) {
		struct reading r;
		enum ht_status st = read_text(&r, bad[i].text, bad[i].n, false);
		if (st != bad[i].status || r.config || r.diags.errors != 1 ||
			r.diags.last->where.line != bad[i].line ||
			!strstr(r.diags.last->text.p, bad[i].message))
			fail_msg("case %zu (%s): status %d, line %ld: %s", i, bad[i].text, st,
				r.diags.last ? r.diags.last->where.line : -1,
				r.diags.last ? r.diags.last->text.p : "nothing said");
		assert_string_equal(r.diags.last->where.path, r.path);
		end(&r);
	}
}

static void has(const struct reading *r, size_t i, const char *name, const char *value, long line)
{
	struct ht_setting s;

	assert_true(ht_config_get(r->config, i, &s));
	assert_string_equal(s.name, name);
	assert_string_equal(s.value, value);
	assert_int_equal(s.line, line);
}

static void what_they_say(void **state)
{
	static const char text[] =
		"{\"precision_mode\": \"force_fp32\", \"model_dir\": null,\n"
		" \"dump_config\": {\"dump_step\": \"0|5\",\n  \"enable_dump\": false},\n"
		" \"experimental_config\": {\"graph_memory_optimize_config\": {\"recompute\": null},\n"
		"  \"logical_device_id\": \"a\\\"b\"}, \"memory_config\": null,\n"
		" \"hccl_timeout\": 1e3, \"use_off_line\": true}";
	struct reading r;
	struct ht_setting s;

	(void)state;
	assert_int_equal(read_text(&r, text, sizeof text - 1, false), HT_OK);
	has(&r, 0, "precision_mode", "force_fp32", 1);
	has(&r, 1, "dump_config.dump_step", "0|5", 2);
	has(&r, 2, "dump_config.enable_dump", "false", 3);
	has(&r, 3, "experimental_config.logical_device_id", "a\"b", 5);
	has(&r, 4, "hccl_timeout", "1000", 6);
	has(&r, 5, "use_off_line", "true", 6);
	has(&r, 6, "graph_run_mode", "1", 0);
	assert_false(ht_config_get(r.config, 7, &s));
	end(&r);
}

static void unknown_members_may_be_passed_over(void **state)
{
	static const char text[] = "{\"a\": {\"x\": [\"y\", {\"z\": \"}\"}]},\n\"dump_config\": "
				   "{\"b\": 1,\n\"dump_mode\": \"all\"}, \"graph_run_mode\": 0}";
	struct reading r;

	(void)state;
	assert_int_equal(read_text(&r, text, sizeof text - 1, true), HT_OK);
	assert_int_equal(r.diags.warnings, 2);
	assert_int_equal(r.diags.first->next->where.line, 2);
	has(&r, 0, "dump_config.dump_mode", "all", 3);
	has(&r, 1, "graph_run_mode", "0", 3);
	end(&r);
}

static void hostile_files_are_bounded(void **state)
{
	size_t n = ((size_t)1 << 20) + 1;
	char *text = malloc(n);
	struct reading r;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', n);
	assert_int_equal(read_text(&r, text, n, false), HT_E_LIMIT);
	end(&r);
	memset(text, '[', n);
	assert_int_equal(read_text(&r, text, n / 2, false), HT_E_INPUT);
	end(&r);
	free(text);
	assert_int_equal(read_text(&r, "{\"job\": \"a\0b\"}", 14, false), HT_E_INPUT);
	end(&r);
}

/* If any allocation fails, the result is a status, and nothing is returned. */
static void failed_allocations_are_a_status(void **state)
{
	static const char text[] = "{\"precision_mode\": \"force_fp32\", \"hccl_timeout\": 7}";
	enum ht_status st = HT_E_ENVIRONMENT;
	struct reading r;

	(void)state;
	assert_int_equal(read_text(&r, text, sizeof text - 1, false), HT_OK);
	for (long n = 0; st != HT_OK; n++) {
		struct ht_config *c;
		assert_true(n < 1000);
		ht_fail_alloc_after(n);
		st = ht_config_read(r.path, false, NULL, &c);
		ht_fail_alloc_after(-1);
		assert_true(st == HT_OK ? c != NULL : st == HT_E_ENVIRONMENT && !c);
		ht_config_free(c);
	}
	end(&r);
}

/* Every row of the table has a legal default, and every refused one takes it. */
static void defaults_ask_for_nothing(void **state)
{
	struct ht_option_info o;

	(void)state;
	for (size_t i = 0; ht_option(i, &o); i++) {
		struct ht_option_info found;
		struct ht_diags d;
		ht_diags_init(&d);
		assert_true(*o.name && *o.values && *o.help);
		assert_true(ht_option_named(o.name, &found));
		assert_string_equal(found.name, o.name);
		if (*o.fallback && ht_option_check(o.name, o.fallback, &d) != HT_OK)
			fail_msg("%s: %s", o.name, d.first->text.p);
		assert_int_equal(ht_option_check(o.name, "", &d), HT_E_USAGE);
		ht_diags_release(&d);
	}
}

static void said_once(void **state)
{
	struct ht_diags d;
	struct ht_policy *p;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_policy_new(NULL, &d, &p), HT_OK);
	assert_int_equal(ht_policy_set(p, "input_batch_cpy", "false", &d), HT_OK);
	assert_int_equal(d.count, 0);
	assert_int_equal(ht_policy_set(p, "input_batch_cpy", "true", &d), HT_OK);
	assert_int_equal(ht_policy_set(p, "input_batch_cpy", "true", &d), HT_OK);
	assert_int_equal(d.warnings, 1);
	assert_int_equal(p->without_effects, 1);
	assert_int_equal(ht_policy_set(p, "atc.model", "x", &d), HT_E_USAGE);
	ht_policy_free(p);
	ht_diags_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_ones_are_refused_with_their_line),
		cmocka_unit_test(what_they_say),
		cmocka_unit_test(unknown_members_may_be_passed_over),
		cmocka_unit_test(hostile_files_are_bounded),
		cmocka_unit_test(failed_allocations_are_a_status),
		cmocka_unit_test(defaults_ask_for_nothing),
		cmocka_unit_test(said_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
