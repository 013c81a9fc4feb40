/* Options of programs that were built against older and newer headers. */
#include <halftone/cache.h>
#include <halftone/halftone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A new member must not lie where an older struct has padding, which an older program leaves unset. */
#define ENDS_WITH(type, last)                                                                      \
	_Static_assert(sizeof(struct type) ==                                                      \
			       offsetof(struct type, last) + sizeof(((struct type *)0)->last),     \
		#type " has padding behind its last member, or that is another one")
ENDS_WITH(ht_load_options, cancel);
ENDS_WITH(ht_compile_options, lines);
ENDS_WITH(ht_save_options, sign_key);
ENDS_WITH(ht_aot_options, max_iterations);
ENDS_WITH(ht_artefact_options, entry);
ENDS_WITH(ht_program_info, entry);
ENDS_WITH(ht_context_options, allocate_arg);
ENDS_WITH(ht_cache_settings, graph_key);

static struct ht_diags *diags;
static struct ht_model *model;
static struct ht_program *program;

/* Each makes the call that reads the options and frees what came of it.  Paths do not exist: the call
 * ends with HT_E_ENVIRONMENT once it has accepted the options. */

static enum ht_status load(const void *opt)
{
	struct ht_model *m;

	return ht_model_load("/dev/null/model.pb", opt, diags, &m);
}

static enum ht_status compile(const void *opt)
{
	struct ht_program *p;
	enum ht_status st = ht_compile(model, opt, diags, &p);

	ht_program_free(p);
	return st;
}

static enum ht_status save(const void *opt)
{
	struct ht_artefact_writer *w;
	enum ht_status st = ht_artefact_writer_new(opt, diags, &w);

	ht_artefact_writer_free(w);
	return st;
}

static enum ht_status aot(const void *opt)
{
	const struct ht_program *const list[] = { program };
	struct ht_bytes about;
	enum ht_status st =
		ht_aot_write(list, 1, opt, "/dev/null/deeper", HT_FORMAT_TEXT, diags, &about);

	ht_bytes_free(&about);
	return st;
}

static enum ht_status artefact(const void *opt)
{
	struct ht_program *p;

	return ht_program_load("/dev/null/model.htx", opt, diags, &p);
}

static enum ht_status context(const void *opt)
{
	struct ht_context *c;
	enum ht_status st = ht_context_new(program, opt, diags, &c);

	ht_context_free(c);
	return st;
}

static enum ht_status cache(const void *opt)
{
	struct ht_cache *c;
	enum ht_status st = ht_cache_open(opt, diags, &c);

	ht_cache_close(c, diags);
	return st;
}

#define MOST_BYTES 256

static const struct ht_load_options load_init = HT_LOAD_OPTIONS_INIT;
static const struct ht_compile_options compile_init = HT_COMPILE_OPTIONS_INIT;
static const struct ht_save_options save_init = HT_SAVE_OPTIONS_INIT;
static const struct ht_aot_options aot_init = HT_AOT_OPTIONS_INIT;
static const struct ht_artefact_options artefact_init = HT_ARTEFACT_OPTIONS_INIT;
static const struct ht_context_options context_init = HT_CONTEXT_OPTIONS_INIT;
static const struct ht_cache_settings cache_init = HT_CACHE_SETTINGS_INIT;

static const struct options {
	const char *name;
	const void *init;
	size_t size;
	enum ht_status (*call)(const void *opt);
} all[] = {
	{ "ht_load_options", &load_init, sizeof load_init, load },
	{ "ht_compile_options", &compile_init, sizeof compile_init, compile },
	{ "ht_save_options", &save_init, sizeof save_init, save },
	{ "ht_aot_options", &aot_init, sizeof aot_init, aot },
	{ "ht_artefact_options", &artefact_init, sizeof artefact_init, artefact },
	{ "ht_context_options", &context_init, sizeof context_init, context },
	{ "ht_cache_settings", &cache_init, sizeof cache_init, cache },
};

#define ALL (sizeof all / sizeof *all)

/* The call with a struct of `size` bytes, behind which memory is not zero unless `tail` is. */
static enum ht_status call(const struct options *o, size_t size, int tail)
{
	_Alignas(max_align_t) unsigned char bytes[MOST_BYTES];

	assert_true(o->size < sizeof bytes);
	memset(bytes, tail, sizeof bytes);
	memcpy(bytes, o->init, size < o->size ? size : o->size);
	memcpy(bytes, &size, sizeof size);
	return o->call(bytes);
}

static void check(enum ht_status is, enum ht_status want, const struct options *o, size_t size)
{
	if (is == HT_E_ENVIRONMENT)
		is = HT_OK;
	if (is != want)
		fail_msg("%s of %zu bytes: %s, not %s", o->name, size, ht_status_text(is),
			ht_status_text(want));
}

static void older_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++)
		for (size_t size = sizeof size; size <= all[i].size; size += sizeof(int))
			check(call(&all[i], size, 0xab), HT_OK, &all[i], size);
}

static void newer_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		check(call(&all[i], all[i].size + 8, 0), HT_OK, &all[i], all[i].size + 8);
		check(call(&all[i], all[i].size + 8, 1), HT_E_USAGE, &all[i], all[i].size + 8);
	}
}

static void sizes_that_are_not_set(void **state)
{
	static const size_t size[] = { 0, sizeof(size_t) - 1, SIZE_MAX };

	(void)state;
	for (size_t i = 0; i < ALL; i++)
		for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
			_Alignas(max_align_t) unsigned char bytes[MOST_BYTES] = { 0 };

			memcpy(bytes, &size[k], sizeof *size);
			check(all[i].call(bytes), HT_E_USAGE, &all[i], size[k]);
		}
}

/* What the library fills never reaches past the caller's struct. */
static void information(void **state)
{
	struct ht_program_info whole = HT_PROGRAM_INFO_INIT, part;

	(void)state;
	ht_program_about(program, &whole);
	for (size_t size = 0; size <= sizeof part + 8; size += sizeof(int)) {
		size_t filled = size < sizeof part ? size : sizeof part;

		memset(&part, 0xab, sizeof part);
		part.struct_size = size;
		ht_program_about(program, &part);
		assert_int_equal(part.struct_size, size);
		for (size_t i = sizeof size; i < sizeof part; i++)
			assert_int_equal(((unsigned char *)&part)[i],
				i < filled ? ((unsigned char *)&whole)[i] : 0xab);
	}
}

static int set_up(void **state)
{
	(void)state;
	diags = ht_diags_new();
	if (!diags || setenv("HALFTONE_CACHE_DIR", "/dev/null/cache", 1) ||
		ht_model_load(HT_TESTS "/cli/small.hir", NULL, diags, &model) != HT_OK)
		return -1;
	return ht_compile(model, NULL, diags, &program) == HT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ht_program_free(program);
	ht_model_free(model);
	ht_diags_free(diags);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(older_programs),
		cmocka_unit_test(newer_programs),
		cmocka_unit_test(sizes_that_are_not_set),
		cmocka_unit_test(information),
	};

	return cmocka_run_group_tests_name("options", tests, set_up, tear_down);
}
