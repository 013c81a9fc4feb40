/* The public interface as a program sees it; compiled as C and as C++.
 *
 * usage: api SMALL.hir */
#include <halftone/compare.h>
#include <halftone/halftone.h>
#include <halftone/records.h>
#include <halftone/tool.h>
#include <halftone/train.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

#define CHECK(claim)                                                                               \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static const float x_data[] = { 1, 2, 3, 4 };
static const float y_want[] = { 6.5F, 5.375F, 4.75F };
static const int64_t x_dim[] = { 1, 4 }, y_dim[] = { 1, 3 }, top_dim[] = { 1 };

static struct ht_array array(
	void *data, size_t bytes, enum ht_dtype t, int32_t rank, const int64_t *dim)
{
	struct ht_array a;

	a.data = data;
	a.bytes = bytes;
	a.dtype = t;
	a.rank = rank;
	a.dim = dim;
	return a;
}

static enum ht_status run_once(struct ht_context *c, float *y, int64_t *top, struct ht_diags *d)
{
	struct ht_array in[1], out[2];

	in[0] = array((void *)x_data, sizeof x_data, HT_F32, 2, x_dim);
	out[0] = array(y, sizeof y_want, HT_F32, 2, y_dim);
	out[1] = array(top, sizeof *top, HT_I64, 1, top_dim);
	return ht_context_run(c, in, 1, out, 2, d);
}

static void small_things(void)
{
	static const float f[] = { 1, -2.5F, 1e-40F };
	uint16_t h[3];
	float g[3];

	CHECK(ht_abi() >= 1);
	CHECK(strchr(ht_version(), '.') != NULL);
	CHECK(strlen(ht_status_text(HT_E_LIMIT)) > 0);
	CHECK(!strcmp(ht_dtype_name(HT_BF16), "bfloat16"));
	CHECK(ht_dtype_bytes(HT_I64) == 8);
	CHECK(ht_dtype_bytes(HT_STRING) == 0);
	CHECK(ht_narrow(f, HT_BF16, h, 3) == HT_OK);
	CHECK(h[0] == 0x3f80 && h[1] == 0xc020 && h[2] == 0);
	CHECK(ht_widen(h, HT_BF16, g, 3) == HT_OK);
	CHECK(g[1] == -2.5F);
	CHECK(ht_widen(h, HT_F64, g, 3) == HT_E_USAGE);
	ht_model_free(NULL);
	ht_policy_free(NULL);
	ht_program_free(NULL);
	ht_context_free(NULL);
	ht_diags_free(NULL);
	ht_bytes_free(NULL);
}

static void failures_are_told(const char *path)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_model *m = (struct ht_model *)d;
	struct ht_policy *p = (struct ht_policy *)d;
	struct ht_load_options load = HT_LOAD_OPTIONS_INIT;
	int32_t cancel = 1;
	struct ht_message text;
	struct ht_bytes line;
	const char *names[1];

	CHECK(ht_model_load("/nowhere/model.pb", NULL, d, &m) == HT_E_ENVIRONMENT);
	CHECK(m == NULL);
	CHECK(ht_diags_count(d) == 1);
	CHECK(ht_diags_get(d, 0, &text) == HT_OK);
	CHECK(text.severity == HT_ERROR && text.status == HT_E_ENVIRONMENT);
	CHECK(text.path && !strcmp(text.path, "/nowhere/model.pb"));
	CHECK(text.text && strlen(text.text) > 0);
	CHECK(ht_diags_get(d, 1, &text) == HT_E_USAGE);
	CHECK(ht_diags_line(d, 0, &line) == HT_OK && strstr(line.p, "/nowhere/model.pb: error: "));
	ht_bytes_free(&line);
	CHECK(line.p == NULL);
	CHECK(ht_model_load("/nowhere/model.pb", NULL, NULL, &m) == HT_E_ENVIRONMENT);
	load.cancel = &cancel;
	CHECK(ht_model_load(path, &load, d, &m) == HT_E_LIMIT && !m);
	CHECK(ht_diags_get(d, ht_diags_count(d) - 1, &text) == HT_OK);
	CHECK(text.status == HT_E_LIMIT && strstr(text.text, "cancelled"));
	load.struct_size = 0;
	CHECK(ht_model_load(path, &load, d, &m) == HT_E_USAGE);
	CHECK(ht_policy_new("no_such_policy", d, &p) == HT_E_USAGE);
	CHECK(p == NULL);
	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	names[0] = "no such node";
	CHECK(ht_model_set_outputs(m, names, 1, d) == HT_E_USAGE);
	CHECK(ht_model_set_shape(m, "x", 1, x_dim, d) == HT_E_USAGE);
	CHECK(ht_model_set_batch(m, 0, d) == HT_E_USAGE);
	ht_model_free(m);
	ht_diags_free(d);
}

/* A stated batch also applies to a shape that was stated with an open first dimension. */
static void batch_of_stated_shape(const char *path, struct ht_diags *d)
{
	static const int64_t dim[] = { -1, 4 };
	struct ht_value_info v;
	struct ht_model *m;

	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	CHECK(ht_model_set_shape(m, "x", 2, dim, d) == HT_OK);
	CHECK(ht_model_input(m, 0, &v) && v.rank == 2 && v.dim[0] == -1);
	CHECK(ht_model_set_batch(m, 3, d) == HT_OK);
	CHECK(ht_model_input(m, 0, &v) && v.dim[0] == 3 && v.dim[1] == 4);
	ht_model_free(m);
}

/* If the only product is fed instead of computed, the model's input is no longer needed. */
static void fed_inside(struct ht_model *m, struct ht_diags *d)
{
	static const int64_t dim[] = { 3, 3 };
	static const char *const names[] = { "y:0" }, *const unknown[] = { "yy" },
				 *const outputs[] = { "top" };
	struct ht_value_info v;
	struct ht_program *p;
	size_t i;

	CHECK(ht_model_set_outputs(m, outputs, 1, d) == HT_OK);
	CHECK(ht_model_set_inputs(m, unknown, 1, d) == HT_E_USAGE);
	CHECK(ht_model_set_inputs(m, names, 0, d) == HT_E_USAGE);
	CHECK(ht_model_set_inputs(m, names, 1, d) == HT_OK);
	CHECK(ht_model_inputs(m) == 1 && ht_model_input(m, 0, &v));
	CHECK(!strcmp(v.name, "y") && v.dtype == HT_F32 && v.rank == 2 && v.dim[1] == 3);
	CHECK(ht_model_input_named(m, "y", &i) && !i && !ht_model_input_named(m, "x", &i));
	CHECK(ht_model_set_shape(m, "y:0", 2, dim, d) == HT_OK);
	/* No default is computed, so all inputs stay. */
	CHECK(ht_model_compute_defaults(m, NULL, 0, d) == HT_OK && ht_model_inputs(m) == 1);
	CHECK(ht_compile(m, NULL, d, &p) == HT_OK);
	CHECK(ht_program_inputs(p) == 1 && ht_program_input_named(p, "y:0", &i) && !i);
	i = ht_diags_count(d);
	ht_program_tell_memory(p, d);
	CHECK(ht_diags_count(d) <= i + 1);
	CHECK(ht_program_output_named(p, "top", &i) && !ht_program_output_named(p, "y", &i));
	ht_program_free(p);
	CHECK(ht_model_set_outputs(m, outputs, 1, d) == HT_OK);
	CHECK(ht_model_input_named(m, "x", &i));
}

/* A default that the graph computes is an input until the caller lets the program compute it, and again after the inputs are set. */
static void computed_default(void)
{
	struct ht_diags *d = ht_diags_new();
	char path[] = "/tmp/halftone_api.XXXXXX.hir";
	static const char *const names[] = { "x", "rate" };
	FILE *f = fdopen(mkstemps(path, 4), "w");
	struct ht_model *m;

	CHECK(f &&
		fputs("hir 1\nentry \"\" {\n  input \"x\" = %x\n  input \"rate\" = %rate\n  output \"y\" = %y\n}\n"
		      "%x = Placeholder() {dtype=f32, shape=shape[3]}\n%twice = AddV2(%x, %x) {T=f32}\n"
		      "%rate = PlaceholderWithDefault(%twice) {dtype=f32, shape=shape[3]}\n%y = AddV2(%rate, %x) {T=f32}\n",
			f) >= 0 &&
		!fclose(f));
	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK && ht_model_inputs(m) == 2);
	CHECK(ht_model_compute_defaults(m, names + 1, 1, d) == HT_OK && ht_model_inputs(m) == 2);
	CHECK(ht_model_compute_defaults(m, NULL, 0, d) == HT_OK && ht_model_inputs(m) == 1);
	CHECK(ht_model_set_inputs(m, names, 1, d) == HT_OK && ht_model_inputs(m) == 2);
	ht_model_free(m);
	CHECK(!remove(path));
	ht_diags_free(d);
}

static void texts(const struct ht_model *m, struct ht_diags *d)
{
	static const char *const lists[] = { "ops", "targets", "policies", "passes" };
	struct ht_bytes b;

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		CHECK(ht_list(lists[i], HT_FORMAT_JSON, d, &b) == HT_OK && b.n > 0 &&
			b.p[b.n] == 0);
		ht_bytes_free(&b);
	}
	CHECK(ht_list("cats", HT_FORMAT_TEXT, d, &b) == HT_E_USAGE && !b.p);
	CHECK(ht_model_inspect(m, HT_FORMAT_TEXT, d, &b) == HT_OK && strstr(b.p, "MatMul"));
	ht_bytes_free(&b);
	CHECK(ht_rewrite(m, "infer", NULL, NULL, NULL, d, &b) == HT_OK &&
		strstr(b.p, "%y = MatMul"));
	ht_bytes_free(&b);
	CHECK(ht_emit_code(m, NULL, "kernels", NULL, NULL, d, &b) == HT_OK && b.n > 0);
	ht_bytes_free(&b);
}

static void inputs_and_settings(const char *path)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_model *m;
	struct ht_program *p;
	struct ht_value_info v;
	const char *outputs[1];
	const int64_t three[] = { 3, -1 };

	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	CHECK(ht_model_inputs(m) == 1);
	CHECK(ht_model_input(m, 0, &v) && !strcmp(v.name, "x") && v.dtype == HT_F32 && v.rank == 2);
	CHECK(v.dim[0] < 0 && v.dim[1] == 4 && v.bytes == 0 && !v.value);
	CHECK(!ht_model_input(m, 1, &v));
	CHECK(ht_model_set_shape(m, "x", 2, three, d) == HT_OK);
	CHECK(ht_model_input(m, 0, &v) && v.dim[0] == 3 && v.dim[1] == 4 && v.bytes == 48);
	outputs[0] = "y";
	CHECK(ht_model_set_outputs(m, outputs, 1, d) == HT_OK);
	CHECK(ht_compile(m, NULL, d, &p) == HT_OK);
	CHECK(ht_program_inputs(p) == 1 && ht_program_outputs(p) == 1);
	CHECK(ht_program_output(p, 0, &v) && !strcmp(v.name, "y") && v.dim[0] == 3 &&
		v.bytes == 36);
	ht_program_free(p);
	texts(m, d);
	fed_inside(m, d);
	ht_model_free(m);
	batch_of_stated_shape(path, d);
	ht_diags_free(d);
}

static void wrong_arrays(struct ht_context *c, struct ht_diags *d)
{
	float y[3];
	int64_t top;
	struct ht_array in = array((void *)x_data, sizeof x_data, HT_F32, 2, x_dim), bad;
	struct ht_array out[2];

	out[0] = array(y, sizeof y, HT_F32, 2, y_dim);
	out[1] = array(&top, sizeof top, HT_I64, 1, top_dim);
	CHECK(ht_context_run(c, &in, 0, out, 2, d) == HT_E_USAGE);
	CHECK(ht_context_run(c, &in, 1, out, 1, d) == HT_E_USAGE);
	bad = in;
	bad.dtype = HT_F64;
	CHECK(ht_context_run(c, &bad, 1, out, 2, d) == HT_E_INPUT);
	bad = in;
	bad.rank = 1;
	CHECK(ht_context_run(c, &bad, 1, out, 2, d) == HT_E_INPUT);
	bad = in;
	bad.dim = y_dim;
	CHECK(ht_context_run(c, &bad, 1, out, 2, d) == HT_E_INPUT);
	bad = in;
	bad.bytes--;
	CHECK(ht_context_run(c, &bad, 1, out, 2, d) == HT_E_INPUT);
	bad = in;
	bad.data = NULL;
	CHECK(ht_context_run(c, &bad, 1, out, 2, d) == HT_E_INPUT);
	out[1].dtype = HT_I32;
	CHECK(ht_context_run(c, &in, 1, out, 2, d) == HT_E_INPUT);
}

struct worker {
	pthread_t thread;
	const struct ht_program *program;
	int threads, wrong;
};

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c;
	float y[3];
	int64_t top;

	opt.threads = w->threads;
	if (ht_context_new(w->program, &opt, NULL, &c) != HT_OK) {
		w->wrong = 1;
		return NULL;
	}
	for (int i = 0; i < 200; i++) {
		memset(y, 0, sizeof y);
		w->wrong += run_once(c, y, &top, NULL) != HT_OK || memcmp(y, y_want, sizeof y) != 0;
	}
	ht_context_free(c);
	return NULL;
}

static void contexts_run_at_once(const struct ht_program *p)
{
	struct worker w[4];

	memset(w, 0, sizeof w);
	for (int i = 0; i < 4; i++) {
		w[i].program = p;
		w[i].threads = i % 2 + 1;
		CHECK(!pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (int i = 0; i < 4; i++) {
		CHECK(!pthread_join(w[i].thread, NULL));
		CHECK(w[i].wrong == 0);
	}
}

/* Every value that the table gives for an option with alternatives is accepted, or refused as
 * known; any other value is an error.  '-' may stand for '_'. */
static void options(void)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_option_info o;
	struct ht_policy *p;
	size_t n = 0;

	for (; ht_option(n, &o); n++) {
		const char *value = o.values;
		while (strchr(o.values, '|') && *value) {
			size_t length = strcspn(value, "|");
			char one[64];
			enum ht_status st;
			snprintf(one, sizeof one, "%.*s", (int)length, value);
			CHECK(ht_policy_new(NULL, d, &p) == HT_OK);
			st = ht_policy_set(p, o.name, one, d);
			CHECK(st == HT_OK ||
				(st == HT_E_UNSUPPORTED &&
					(strstr(one, "hif8") ||
						o.option_class == HT_OPTION_REFUSED)) ||
				(st == HT_E_USAGE && !strncmp(o.name, "atc.", 4)));
			CHECK(ht_policy_set(p, o.name, "x|y", d) == HT_E_USAGE);
			ht_policy_free(p);
			value += length + (value[length] == '|');
		}
		CHECK(*o.help && o.fallback && o.vendor);
	}
	CHECK(n >= 14);
	CHECK(ht_policy_new(NULL, d, &p) == HT_OK);
	CHECK(!strcmp(ht_policy_name(p), "must_keep_origin_dtype"));
	CHECK(ht_policy_set(p, "graph-run-mode", "0", d) == HT_OK);
	CHECK(!strcmp(ht_policy_name(p), "force_fp16"));
	CHECK(ht_policy_set(p, "graph_run_mode", "1", d) == HT_OK);
	CHECK(!strcmp(ht_policy_name(p), "must_keep_origin_dtype"));
	CHECK(ht_policy_set(p, "profile", "ascend910", d) == HT_OK);
	CHECK(!strcmp(ht_policy_name(p), "allow_fp32_to_fp16"));
	CHECK(ht_policy_set(p, "precision_mode_v2", "mixed_bfloat16", d) == HT_OK);
	CHECK(ht_policy_set(p, "precision_mode", "allow_mix_precision_bf16", d) == HT_E_USAGE);
	CHECK(ht_policy_set(p, "keep_dtype", "/no/such/file", d) == HT_E_ENVIRONMENT);
	CHECK(ht_policy_set(p, "keep_dtypes", "x", d) == HT_E_USAGE);
	CHECK(ht_policy_set(p, "ops_info", "/no/such/folder", d) == HT_E_ENVIRONMENT);
	ht_policy_free(p);
	CHECK(ht_policy_new(NULL, d, &p) == HT_OK);
	CHECK(ht_policy_set(p, "variable_placement", "Host", d) == HT_OK);
	CHECK(ht_policy_validate(p, d) == HT_E_USAGE);
	CHECK(ht_policy_set(p, "variable_placement", "Device", d) == HT_OK);
	CHECK(ht_policy_validate(p, d) == HT_OK);
	ht_policy_free(p);
	ht_diags_free(d);
}

static void configurations(void)
{
	struct ht_diags *d = ht_diags_new();
	char path[] = "/tmp/halftone_api.XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");
	static const struct ht_stated together[] = {
		{ "variable_placement", "Host", NULL, 0 },
		{ "mix_compile_mode", "true", "run.json", 3 },
		{ "mix_compile_mode", "maybe", "run.json", 4 },
	};
	struct ht_option_info o;
	struct ht_setting s;
	struct ht_config *c;
	const char *instead;

	CHECK(f && fputs("{\"dump_config\": {\n\"dump_mode\": \"all\"}}", f) >= 0 && !fclose(f));
	CHECK(ht_config_read(path, 0, d, &c) == HT_OK);
	CHECK(ht_config_get(c, 0, &s) && !strcmp(s.value, "all") && s.line == 2);
	CHECK(ht_option_named("dump-mode", &o) && !strcmp(o.name, s.name));
	CHECK(ht_config_get(c, 1, &s) && !strcmp(s.name, "graph_run_mode") && !s.line);
	CHECK(!ht_config_get(c, 2, &s));
	ht_config_free(c);
	CHECK(!remove(path));
	CHECK(ht_config_read(path, 0, d, &c) == HT_E_ENVIRONMENT && !c);
	CHECK(!ht_option_named("dump", &o));
	CHECK(ht_option_check("enable_dump", "false", d) == HT_OK);
	CHECK(ht_option_check("enable_dump", "true", d) == HT_OK);
	CHECK(ht_option_check("enable_dump", "maybe", d) == HT_E_USAGE);
	CHECK(ht_option_check("dump_step", "5-3", d) == HT_E_USAGE);
	CHECK(ht_option_standing("op-debug-level", &instead) == HT_OPTION_DEPRECATED &&
		!strcmp(instead, "op_debug_config"));
	CHECK(ht_option_standing("logical_device_id", &instead) == HT_OPTION_EXPERIMENTAL);
	CHECK(ht_option_standing("nothing", &instead) == HT_OPTION_CURRENT && !*instead);
	CHECK(ht_settings_check(together, 0, d) == HT_OK);
	CHECK(ht_settings_check(together, 1, d) == HT_E_USAGE);
	CHECK(ht_settings_check(together, 2, d) == HT_E_UNSUPPORTED);
	CHECK(ht_settings_check(together, 3, d) == HT_E_INPUT);
	ht_diags_free(d);
}

/* The progress that a compilation reported; call `end` cancels it, unless that is 0. */
struct seen {
	int calls, end, phases;
	size_t done, kernels;
	int32_t cancel;
};

static void count_progress(void *arg, const char *phase, size_t done, size_t total)
{
	struct seen *s = (struct seen *)arg;

	s->phases += done == 0;
	if (!strcmp(phase, "code") && done) {
		s->done = done;
		s->kernels = total;
	}
	if (++s->calls == s->end)
		s->cancel = 1;
}

static void runs(const char *path)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct ht_step_time step[8];
	struct ht_model *m;
	struct ht_policy *policy;
	struct ht_program *p, *low;
	struct ht_context *c;
	struct seen seen;
	float y[3];
	int64_t top = 9;

	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	CHECK(ht_compile(m, NULL, d, &p) == HT_OK);
	CHECK(ht_policy_new("allow_mix_precision_bf16", d, &policy) == HT_OK);
	CHECK(ht_policy_set(policy, "profile", "cpu", d) == HT_OK);
	CHECK(ht_policy_set(policy, "profile", "moon", d) == HT_E_USAGE);
	CHECK(!strcmp(ht_policy_name(policy), "allow_mix_precision_bf16"));
	opt.policy = policy;
	opt.target = "x86-64-v3";
	memset(&seen, 0, sizeof seen);
	opt.progress = count_progress;
	opt.progress_arg = &seen;
	opt.cancel = &seen.cancel;
	CHECK(ht_compile(m, &opt, d, &low) == HT_OK);
	CHECK(seen.phases == 4 && seen.kernels > 0 && seen.done == seen.kernels);
	/* Cancelled in any phase, and after any kernel except the last. */
	for (seen.end = 1; seen.end < 6; seen.end++) {
		struct ht_program *none = low;

		seen.calls = 0;
		CHECK(ht_compile(m, &opt, d, &none) == HT_E_LIMIT && !none);
		seen.cancel = 0;
	}
	ht_policy_free(policy);
	/* Programs do not need their model. */
	ht_model_free(m);
	ht_program_about(low, &info);
	CHECK(!strcmp(info.policy, "allow_mix_precision_bf16") &&
		!strcmp(info.target, "x86-64-v3"));
	CHECK(info.low_nodes == 2 && info.float_nodes == 2 && info.casts == 3 && info.steps > 0);
	CHECK(info.phases > 3 && info.code_bytes > 0);
	CHECK(ht_context_new(p, NULL, d, &c) == HT_OK);
	CHECK(run_once(c, y, &top, d) == HT_OK);
	CHECK(!memcmp(y, y_want, sizeof y) && top == 0);
	CHECK(ht_context_steps(c, step, 8) == 0);
	ht_context_profile(c, 1);
	CHECK(run_once(c, y, &top, d) == HT_OK);
	CHECK(ht_context_steps(c, step, 8) > 0 && step[0].node && step[0].ns >= 0);
	wrong_arrays(c, d);
	ht_context_free(c);
	CHECK(ht_context_new(low, NULL, d, &c) == HT_OK);
	CHECK(run_once(c, y, &top, d) == HT_OK);
	CHECK(!memcmp(y, y_want, sizeof y)); /* these numbers are exact in bfloat16 */
	ht_context_free(c);
	contexts_run_at_once(p);
	ht_program_free(low);
	ht_program_free(p);
	ht_diags_free(d);
}

static enum ht_status explain(
	const struct ht_model *m, const struct ht_policy *p, struct ht_diags *d, struct ht_bytes *b)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_report *r;
	enum ht_status st;

	opt.policy = p;
	st = ht_report_new(m, &opt, d, &r);

	b->p = NULL;
	if (st == HT_OK)
		st = ht_report_print(r, HT_FORMAT_JSON, NULL, d, b);
	ht_report_free(r);
	return st;
}

static void reports(const char *path)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_report *keep, *low, *none;
	struct ht_bytes b = { NULL, 0 };
	struct ht_model *m;
	struct ht_policy *p;

	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	CHECK(ht_policy_new("force_fp16", d, &p) == HT_OK);
	CHECK(ht_report_new(m, NULL, d, &keep) == HT_OK);
	opt.policy = p;
	CHECK(ht_report_new(m, &opt, d, &low) == HT_OK);
	opt.block_method = "columns";
	CHECK(ht_report_new(m, &opt, d, &none) == HT_E_USAGE && !none);
	CHECK(ht_report_print(low, HT_FORMAT_TEXT, "y", d, &b) == HT_OK);
	CHECK(b.p && strstr(b.p, "float16"));
	ht_bytes_free(&b);
	CHECK(ht_report_print(low, HT_FORMAT_TEXT, "nobody", d, &b) == HT_E_USAGE);
	CHECK(ht_report_why_not(keep, HT_F16, NULL, HT_FORMAT_JSON, d, &b) == HT_OK);
	CHECK(b.p && strstr(b.p, "halftone.why_not/1"));
	ht_bytes_free(&b);
	CHECK(ht_report_why_not(keep, HT_I32, NULL, HT_FORMAT_TEXT, d, &b) == HT_E_USAGE);
	CHECK(ht_report_diff(keep, low, HT_FORMAT_TEXT, d, &b) == HT_OK);
	CHECK(b.p && strstr(b.p, "2 units differ"));
	ht_bytes_free(&b);
	CHECK(ht_report_diff(keep, low, HT_FORMAT_DOT, d, &b) == HT_E_USAGE);
	CHECK(ht_report_check(keep, low, "cost+100000%", d) == HT_OK);
	CHECK(ht_report_check(keep, low, "new-cast,lower-precision", d) == HT_E_VERDICT);
	CHECK(ht_report_check(low, keep, "new-cast,lower-precision", d) == HT_OK);
	CHECK(ht_report_check(low, keep, "more", d) == HT_E_USAGE);
	CHECK(ht_report_read(path, d, &none) == HT_E_INPUT && !none);
	CHECK(ht_report_read("absent.json", d, &none) == HT_E_ENVIRONMENT && !none);
	ht_report_free(NULL);
	ht_report_free(low);
	ht_report_free(keep);
	ht_policy_free(p);
	ht_model_free(m);
	ht_diags_free(d);
}

/* Budgets through the API: samples are copied; samples that do not fit an input are reported when
 * they run. */
static void budgets(const char *path)
{
	static const int64_t dim[] = { 1, 4 }, other[] = { 4, 2 };
	static const char *const x = "x", *const u = "u";
	float data[8] = { 1, -2, 3, 4, 5, 6, 7, 8 };
	struct ht_array a = { data, 4 * sizeof *data, HT_F32, 2, dim };
	struct ht_diags *d = ht_diags_new();
	struct ht_bytes b;
	struct ht_model *m;
	struct ht_policy *p;

	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	CHECK(ht_policy_new("optimal", d, &p) == HT_OK);
	CHECK(ht_policy_set(p, "budget", "y:rel<1", d) == HT_E_USAGE);
	CHECK(ht_policy_set(p, "budget", "y:rel<=1e-3,top:abs<=0", d) == HT_OK);
	CHECK(ht_policy_set(p, "samples", "a.npz", d) == HT_E_USAGE);
	CHECK(ht_policy_add_sample(p, NULL, &x, &a, 1, d) == HT_OK);
	data[0] = 100;
	CHECK(explain(m, p, d, &b) == HT_OK);
	CHECK(b.p && strstr(b.p, "\"samples\": \"1 given samples\""));
	CHECK(b.p && strstr(b.p, "\"measured\": 0"));
	ht_bytes_free(&b);
	a.bytes--;
	CHECK(ht_policy_add_sample(p, NULL, &x, &a, 1, d) == HT_E_INPUT);
	a.bytes = 8 * sizeof *data;
	a.dim = other;
	CHECK(ht_policy_add_sample(p, "odd", &x, &a, 1, d) == HT_OK);
	CHECK(explain(m, p, d, &b) == HT_E_INPUT);
	ht_policy_free(p);
	CHECK(ht_policy_new("optimal", d, &p) == HT_OK);
	CHECK(ht_policy_set(p, "budget", "rel<=1", d) == HT_OK);
	CHECK(ht_policy_add_sample(p, "odd", &u, &a, 1, d) == HT_OK);
	CHECK(explain(m, p, d, &b) == HT_E_INPUT);
	ht_policy_free(p);
	ht_model_free(m);
	ht_diags_free(d);
}

static const char counter[] =
	"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"y\" = %y\n}\n"
	"%x = Placeholder() {dtype=i32, shape=shape[2]}\n"
	"%v = VarHandleOp() {dtype=i32, shape=shape[2], shared_name=\"v\", _value=tensor i32[2] {3,5}}\n"
	"%u = AssignAddVariableOp(%v, %x) {dtype=i32}\n"
	"%y = ReadVariableOp(%v, ^u) {dtype=i32}\n";

static int32_t run_counter(struct ht_context *c, int32_t x0)
{
	static const int64_t dim[] = { 2 };
	int32_t x[2] = { 0, 1 }, y[2] = { 0, 0 };
	struct ht_array in = array(x, sizeof x, HT_I32, 1, dim),
			out = array(y, sizeof y, HT_I32, 1, dim);

	x[0] = x0;
	CHECK(ht_context_run(c, &in, 1, &out, 1, NULL) == HT_OK);
	return y[0];
}

/* ---- memory of the caller ---- */

struct given {
	void *memory; /* NULL: there is none */
	int64_t dim;
	size_t output, bytes;
};

static void give(void *arg, size_t output, const int64_t *dim, size_t bytes, void **memory)
{
	struct given *g = (struct given *)arg;

	g->output = output;
	g->dim = dim[0];
	g->bytes = bytes;
	*memory = g->memory;
}

/* Variables and the memory of runs belong to the caller; two contexts share the variables. */
static void memory_of_the_caller(const struct ht_program *p)
{
	static const int64_t dim[] = { 2 };
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	size_t bytes = ht_program_memory(p, 1);
	char *all = (char *)calloc(1, bytes + 256), *at = all + (64 - (uintptr_t)all % 64);
	void *variable = at;
	int32_t x[4] = { 1, 1, 0, 0 }, *v = (int32_t *)variable;
	struct ht_array in = array(x, 8, HT_I32, 1, dim), out = array(x + 1, 8, HT_I32, 1, dim);
	struct ht_context *c, *other;

	CHECK(bytes > 0 && ht_program_memory(p, 2) > bytes && all);
	opt.variable = &variable;
	CHECK(ht_context_new(p, &opt, NULL, &other) == HT_OK);
	opt.memory = at + 64;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_OK);
	CHECK(run_counter(c, 10) == 10 && v[0] == 10 && ht_context_variable(c, 0) == variable);
	v[0] = 20;
	CHECK(run_counter(other, 1) == 21 && run_counter(c, 1) == 22);
	ht_context_reset(c);
	CHECK(v[0] == 3 && v[1] == 5);
	CHECK(ht_context_run(c, &in, 1, &out, 1, NULL) == HT_E_USAGE &&
		v[0] == 3); /* the arrays overlap */
	out.data = NULL;
	/* there is no callback that allocates */
	CHECK(ht_context_run(c, &in, 1, &out, 1, NULL) == HT_E_INPUT);
	ht_context_free(c);
	ht_context_free(other);
	opt.memory = at + 1;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_E_USAGE && !c);
	opt.memory = NULL;
	variable = NULL;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_E_USAGE && !c);
	free(all);
}

/* ---- memory for some sizes ---- */

enum { LENGTH = 256, WIDTH = 16, BEHIND = 4096 };

/* The memory of a run with inputs of that length. */
static size_t bytes_for(const struct ht_program *p, int64_t length)
{
	int64_t dim[] = { 1, 0, WIDTH };
	struct ht_array in = array(NULL, 0, HT_F32, 3, dim);
	size_t bytes = 0;

	dim[1] = length;
	CHECK(ht_program_memory_for(p, 1, &in, 1, &bytes, NULL) == HT_OK);
	return bytes;
}

static enum ht_status run_length(struct ht_context *c, int64_t length)
{
	static float x[LENGTH * WIDTH], y[LENGTH * WIDTH];
	int64_t dim[] = { 1, 0, WIDTH };
	size_t bytes = (size_t)length * WIDTH * sizeof *x;
	struct ht_array in, out;

	dim[1] = length;
	in = array(x, bytes, HT_F32, 3, dim);
	out = array(y, bytes, HT_F32, 3, dim);
	return ht_context_run(c, &in, 1, &out, 1, NULL);
}

/* Runs in as much memory as a length takes; nothing behind it is touched, and a larger length is refused. */
static void run_within(const struct ht_program *p, int64_t length)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	size_t bytes = bytes_for(p, length);
	char *all = (char *)malloc(bytes + BEHIND + 64), *at = all + (64 - (uintptr_t)all % 64);
	struct ht_context *c;

	memset(at, 0x5a, bytes + BEHIND);
	opt.memory = at;
	opt.memory_bytes = bytes;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_OK);
	for (int64_t n = 1; n <= length; n += length / 3 + 1)
		CHECK(run_length(c, n) == HT_OK);
	CHECK(run_length(c, length) == HT_OK);
	CHECK(length == LENGTH || run_length(c, LENGTH) == HT_E_LIMIT);
	CHECK(run_length(c, 1) == HT_OK);
	for (size_t i = 0; i < BEHIND; i++)
		CHECK(at[bytes + i] == 0x5a);
	ht_context_free(c);
	opt.memory_bytes = bytes_for(p, 1) - 1;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_E_USAGE && !c);
	opt.memory = NULL;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_E_USAGE && !c);
	free(all);
}

/* Sizes with names: what a program says of them, and what is refused. */
static void named_sizes(void)
{
	static const char text[] =
		"hir 1\nentry \"\" {\n  input \"a\" = %a\n  input \"b\" = %b\n  output \"y\" = %y\n}\n"
		"%a = Placeholder() {dtype=f32, shape=shape[?,4]}\n%b = Placeholder() {dtype=f32, shape=shape[?,4]}\n"
		"%y = MatMul(%a, %b) {T=f32, transpose_a=false, transpose_b=true}\n";
	const int64_t a[] = { 2, 4 }, b[] = { 9, 4 };
	struct ht_array in[] = { array(NULL, 0, HT_F32, 2, a), array(NULL, 0, HT_F32, 2, b) };
	struct ht_size_info size;
	struct ht_program *p;
	struct ht_model *m;
	int64_t dim[2];
	size_t bytes;
	char path[64], name[] = "n0";

	snprintf(path, sizeof path, "api_named%ld.hir", (long)getpid());
	CHECK(ht_file_write(path, text, strlen(text), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	CHECK(ht_model_set_open_size(m, "b", 0, "targets", 2, 20, NULL) == HT_OK);
	CHECK(ht_model_set_open_size(m, "b:0", 0, "targets", 0, 30, NULL) == HT_OK);
	CHECK(!ht_model_open_size_name(m, 0, 0) && !ht_model_open_size_name(m, 2, 0));
	CHECK(!strcmp(ht_model_open_size_name(m, 1, 0), "targets"));
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_OK);
	CHECK(ht_program_open_size(p, 0, 0, &size) && !strcmp(size.name, "rows"));
	CHECK(ht_program_open_size(p, 1, 0, &size) && !strcmp(size.name, "dim_targets"));
	CHECK(size.number == 1 && size.least == 2 && size.most == 20);
	CHECK(!ht_program_open_size(p, 1, 1, &size) && !ht_program_open_size(p, 2, 0, &size));
	CHECK(!ht_program_open_size(p, 1, 2, &size) && !ht_program_open_size(p, 1, -1, &size));
	CHECK(ht_program_output_for(p, in, 2, 0, dim, &bytes, NULL) == HT_OK);
	CHECK(dim[0] == 2 && dim[1] == 9 && bytes == 72);
	ht_program_free(p);
	CHECK(ht_model_set_open_size(m, "c", 0, "t", 1, 2, NULL) == HT_E_USAGE);
	CHECK(ht_model_set_open_size(m, "b", 0, NULL, 1, 2, NULL) == HT_E_USAGE);
	CHECK(ht_model_set_open_size(m, "b", 8, "t", 1, 2, NULL) == HT_E_USAGE);
	CHECK(ht_model_set_open_size(m, "b", 0, "t", 3, 2, NULL) == HT_E_USAGE);
	CHECK(ht_model_set_open_size(m, "a", 0, "targets", 21, 0, NULL) == HT_E_USAGE);
	for (; name[1] < '0' + 15; name[1]++) /* also ':' and so on, which are no names */
		CHECK(ht_model_set_open_size(m, "a", 0, name, 0, 0, NULL) ==
			(name[1] <= '9' ? HT_OK : HT_E_USAGE));
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_OK && ht_program_open_size(p, 0, 0, &size));
	CHECK(!strcmp(size.name, "dim_n9")); /* the last name counts */
	ht_program_free(p);
	CHECK(ht_model_set_open_size(m, "a", 1, "fixed", 0, 0, NULL) == HT_OK);
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_E_USAGE); /* that dimension is not open */
	ht_model_free(m);
	remove(path);
}

static void memory_for_sizes(void)
{
	static const char text[] =
		"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"y\" = %c\n}\n"
		"%x = Placeholder() {dtype=f32, shape=shape[1,?,16]}\n"
		"%a = Softmax(%x) {T=f32}\n%b = Softmax(%a) {T=f32}\n%c = Softmax(%b) {T=f32}\n";
	int64_t dim[] = { 1, LENGTH + 1, WIDTH };
	struct ht_array in = array(NULL, 0, HT_F32, 3, dim);
	struct ht_program *p;
	struct ht_model *m;
	size_t bytes;
	char path[64];

	snprintf(path, sizeof path, "api_open%ld.hir", (long)getpid());
	CHECK(ht_file_write(path, text, strlen(text), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	CHECK(ht_model_set_open_dimension(m, 1, 1, LENGTH, NULL) == HT_OK);
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_OK);
	CHECK(bytes_for(p, LENGTH) == ht_program_memory(p, 1));
	CHECK(bytes_for(p, 1) + LENGTH * WIDTH < bytes_for(p, LENGTH));
	for (int64_t n = 1; n < LENGTH; n++)
		CHECK(bytes_for(p, n) <= bytes_for(p, n + 1));
	run_within(p, 1);
	run_within(p, 100);
	run_within(p, LENGTH);
	CHECK(ht_program_memory_for(p, 1, &in, 1, &bytes, NULL) == HT_E_INPUT);
	CHECK(ht_program_memory_for(p, 1, &in, 0, &bytes, NULL) == HT_E_USAGE);
	ht_program_free(p);
	ht_model_free(m);
	remove(path);
}

/* The size of "at" is known behind the run, that of "twice" before it. */
static void memory_on_demand(void)
{
	static const char text[] =
		"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"at\" = %at\n"
		"  output \"twice\" = %twice\n}\n"
		"%x = Placeholder() {dtype=f32, shape=shape[4]}\n"
		"%at = Where(%x) {T=f32}\n%twice = Add(%x, %x) {T=f32}\n";
	static const int64_t dim[] = { 4 };
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	float x[4] = { 0, 1, 0, 2 }, y[4];
	int64_t at[4] = { -1, -1, -1, -1 };
	struct given g = { at, 0, 9, 0 };
	struct ht_array in = array(x, 16, HT_F32, 1, dim), out[2];
	struct ht_context *c;
	struct ht_program *p;
	struct ht_model *m;
	char path[64];

	snprintf(path, sizeof path, "api_where%ld.hir", (long)getpid());
	CHECK(ht_file_write(path, text, strlen(text), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_OK);
	opt.allocate = give;
	opt.allocate_arg = &g;
	CHECK(ht_context_new(p, &opt, NULL, &c) == HT_OK);
	memset(out, 0, sizeof out);
	out[1] = array(y, 16, HT_F32, 1, dim);
	CHECK(ht_context_run(c, &in, 1, out, 2, NULL) == HT_OK);
	CHECK(g.output == 0 && g.dim == 2 && g.bytes == 16 && at[0] == 1 && at[1] == 3);
	CHECK(at[2] == -1 && y[3] == 4);
	x[1] = 0;
	CHECK(ht_context_run(c, &in, 1, out, 2, NULL) == HT_OK && g.dim == 1 && at[0] == 3);
	g.memory = NULL;
	CHECK(ht_context_run(c, &in, 1, out, 2, NULL) == HT_E_ENVIRONMENT);
	out[0] = array(at, 32, HT_I64, 2, NULL);
	out[1].data = NULL;
	g.memory = y;
	y[3] = 0;
	{
		static const int64_t most[] = { 4, 1 };

		out[0].dim = most;
		CHECK(ht_context_run(c, &in, 1, out, 2, NULL) == HT_OK);
	}
	CHECK(g.output == 1 && g.dim == 4 && y[3] == 4 && at[0] == 3);
	ht_context_free(c);
	ht_program_free(p);
	ht_model_free(m);
	remove(path);
}

/* Variables keep their values from run to run of one context, and each context has its own. */
static void sessions(void)
{
	char path[64];
	struct ht_context *c, *other;
	struct ht_value_info v;
	struct ht_program *p;
	struct ht_model *m;
	int32_t *value;

	snprintf(path, sizeof path, "api_counter%ld.hir", (long)getpid());
	CHECK(ht_file_write(path, counter, strlen(counter), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	CHECK(ht_compile(m, NULL, NULL, &p) == HT_OK);
	CHECK(ht_program_variables(p) == 1 && ht_program_variable(p, 0, &v));
	CHECK(!ht_program_variable(p, 1, &v));
	CHECK(!strcmp(v.name, "v") && v.dtype == HT_I32 && v.rank == 1 && v.dim[0] == 2);
	CHECK(v.bytes == 8 && ((const int32_t *)v.value)[1] == 5);
	CHECK(ht_context_new(p, NULL, NULL, &c) == HT_OK);
	CHECK(ht_context_new(p, NULL, NULL, &other) == HT_OK);
	CHECK(run_counter(c, 10) == 13 && run_counter(c, 10) == 23);
	CHECK(run_counter(other, 1) == 4);
	value = (int32_t *)ht_context_variable(c, 0);
	CHECK(value && value[0] == 23 && value[1] == 7 && !ht_context_variable(c, 1));
	value[0] = 100;
	CHECK(run_counter(c, 1) == 101);
	ht_context_reset(c);
	CHECK(value[0] == 3 && run_counter(c, 1) == 4);
	ht_context_free(c);
	ht_context_free(other);
	memory_of_the_caller(p);
	memory_on_demand();
	named_sizes();
	memory_for_sizes();
	ht_program_free(p);
	ht_model_free(m);
	remove(path);
}

static float run_session(struct ht_session *s, const char *entry, float *x, size_t outs)
{
	int64_t two = 2;
	float y[2] = { 0 };
	struct ht_array in = { x, 8, HT_F32, 1, &two }, out = { y, 8, HT_F32, 1, &two };

	CHECK(ht_session_run(s, entry, &in, 1, &out, outs, NULL) == HT_OK);
	return y[0];
}

/* Variable v begins with the value of its initialiser; "step" adds x to it, "read" multiplies it by
 * x. */
static const char accumulator[] =
	"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"y\" = %y\n}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[2]}\n"
	"%v = VarHandleOp() {dtype=f32, shape=shape[2], shared_name=\"v\"}\n"
	"%start = Const() {dtype=f32, value=tensor f32[2] {3.0, 4.0}}\n"
	"%v/Assign = AssignVariableOp(%v, %start) {dtype=f32}\n"
	"%read = ReadVariableOp(%v) {dtype=f32}\n"
	"%y = Mul(%read, %x) {T=f32}\n"
	"%add = AssignAddVariableOp(%v, %x) {dtype=f32}\n";

/* The entries "read" and "step" of a session as an artefact: the same variables begin with the
 * session's values. */
static void entries_of_artefact(const struct ht_session *from)
{
	static const char *const names[] = { "read", "step" };
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct ht_artefact_writer *w;
	struct ht_context *c = NULL;
	struct ht_program *p;
	struct ht_session *s;
	struct ht_bytes text;
	float x[2] = { 2, 5 };
	char path[64];
	size_t i, n;

	snprintf(path, sizeof path, "api_entries%ld.htx", (long)getpid());
	CHECK(ht_artefact_writer_new(NULL, NULL, &w) == HT_OK);
	for (i = 0; i < 2; i++)
		CHECK(ht_artefact_writer_add_entry(
			      w, names[i], ht_session_program(from, names[i]), NULL) == HT_OK);
	CHECK(ht_artefact_writer_add_entry(w, "step", ht_session_program(from, "step"), NULL) ==
		HT_E_USAGE);
	CHECK(ht_artefact_writer_add_entry(w, "", ht_session_program(from, "step"), NULL) ==
		HT_E_USAGE);
	CHECK(ht_artefact_writer_add_values(w, from, NULL) == HT_OK);
	CHECK(ht_artefact_writer_add_values(w, from, NULL) == HT_E_USAGE);
	CHECK(ht_artefact_writer_write(w, path, NULL) == HT_OK);
	ht_artefact_writer_free(w);

	CHECK(ht_session_new(NULL, NULL, &s) == HT_OK);
	for (i = 0; i < 2; i++) {
		opt.entry = names[i];
		CHECK(ht_program_load(path, &opt, NULL, &p) == HT_OK);
		ht_program_about(p, &info);
		CHECK(!strcmp(info.entry, names[i]));
		CHECK(ht_session_take(s, names[i], p, NULL) == HT_OK);
	}
	CHECK(ht_program_load(path, &opt, NULL, &p) == HT_OK);
	CHECK(ht_session_take(s, "step", p, NULL) == HT_E_USAGE);
	CHECK(run_session(s, "read", x, 1) == 6);
	run_session(s, "step", x, 0);
	CHECK(run_session(s, "read", x, 1) == 10 && ht_session_variables(s) == 1);
	ht_session_free(s);

	/* A single program has the values, too: those of the first variant if no entry is named;
	 * when it is saved again, it keeps them. */
	CHECK(ht_program_load(path, NULL, NULL, &p) == HT_OK);
	CHECK(ht_program_save(p, path, NULL) == HT_OK);
	ht_program_free(p);
	CHECK(ht_program_load(path, NULL, NULL, &p) == HT_OK);
	ht_program_about(p, &info);
	CHECK(!strcmp(info.entry, "read") && ht_context_new(p, NULL, NULL, &c) == HT_OK);
	CHECK(((const float *)ht_context_variable(c, 0))[1] == 4);
	((float *)ht_context_variable(c, 0))[1] = 9;
	ht_context_reset(c);
	CHECK(((const float *)ht_context_variable(c, 0))[1] == 4);
	ht_context_free(c);
	ht_program_free(p);
	CHECK(ht_program_load(path, &opt, NULL, &p) == HT_E_USAGE && !p);
	CHECK(ht_aot_load(path, NULL, NULL, 0, NULL, &p, 1, &n) == HT_OK && n == 1);
	CHECK(ht_aot_write((const struct ht_program *const *)&p, 1, NULL, path, HT_FORMAT_TEXT,
		      NULL, &text) == HT_E_UNSUPPORTED);
	ht_program_free(p);
	remove(path);
}

static void several_entries(void)
{
	struct ht_session_options opt = HT_SESSION_OPTIONS_INIT;
	const char *name = "add";
	char path[64], prefix[64], file[128];
	float x[2] = { 2, 5 };
	const struct ht_program *p;
	struct ht_value_info v;
	struct ht_session *s;
	struct ht_model *m;
	struct ht_array a = { x, 8, HT_F32, 1, NULL };
	int64_t note = 7;
	size_t n;

	snprintf(path, sizeof path, "api_session%ld.hir", (long)getpid());
	snprintf(prefix, sizeof prefix, "api_session%ld", (long)getpid());
	CHECK(ht_file_write(path, accumulator, strlen(accumulator), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	opt.threads = 2;
	CHECK(ht_session_new(&opt, NULL, &s) == HT_OK);
	CHECK(ht_session_add(s, "read", m, NULL, NULL, &p) == HT_OK && ht_program_inputs(p) == 1);
	CHECK(ht_session_add(s, "read", m, NULL, NULL, &p) == HT_E_USAGE && !p);
	CHECK(ht_model_set_outputs(m, &name, 1, NULL) == HT_OK);
	CHECK(ht_session_add(s, "step", m, NULL, NULL, NULL) == HT_OK);
	CHECK(ht_session_program(s, "step") && !ht_session_program(s, "none"));
	CHECK(ht_session_variables(s) == 1 && ht_session_variable(s, 0, &v) && !v.value);
	a.dim = v.dim;
	/* the variable has no value yet */
	CHECK(ht_session_run(s, "step", &a, 1, NULL, 0, NULL) == HT_E_INPUT);
	CHECK(ht_session_run(s, "none", &a, 1, NULL, 0, NULL) == HT_E_USAGE);
	CHECK(ht_session_initialise(s, m, NULL, NULL, NULL) == HT_OK);
	CHECK(ht_session_variable(s, 0, &v) && ((const float *)v.value)[1] == 4);
	entries_of_artefact(s);
	CHECK(run_session(s, "read", x, 1) == 6);
	run_session(s, "step", x, 0);
	CHECK(run_session(s, "read", x, 1) == 10);
	CHECK(ht_session_note(s, "steps", &note, 1, NULL) == HT_OK);
	CHECK(ht_session_save(s, prefix, NULL) == HT_OK);
	CHECK(ht_session_assign(s, 0, &a, NULL) == HT_OK && run_session(s, "read", x, 1) == 4);
	CHECK(ht_session_assign(s, 1, &a, NULL) == HT_E_USAGE);
	a.bytes = 4;
	CHECK(ht_session_assign(s, 0, &a, NULL) == HT_E_INPUT);
	note = 9;
	CHECK(ht_session_note(s, "steps", &note, 1, NULL) == HT_OK);
	CHECK(ht_session_restore(s, m, prefix, &n, NULL) == HT_OK && n == 0);
	CHECK(run_session(s, "read", x, 1) == 10);
	CHECK(*ht_session_noted(s, "steps", &n) == 7 && n == 1);
	CHECK(!ht_session_noted(s, "none", &n) && n == 0);
	ht_session_free(s);

	/* The session is restored before it has entries: they find their values. */
	CHECK(ht_session_new(NULL, NULL, &s) == HT_OK);
	CHECK(ht_session_restore(s, m, prefix, NULL, NULL) == HT_OK);
	CHECK(ht_session_restore(s, m, "/nonexistent", NULL, NULL) == HT_E_ENVIRONMENT);
	CHECK(ht_session_add(s, "step", m, NULL, NULL, NULL) == HT_OK);
	CHECK(ht_session_variable(s, 0, &v) && v.value && ((const float *)v.value)[0] == 5);
	ht_session_free(s);
	ht_session_free(NULL);
	ht_model_free(m);
	remove(path);
	snprintf(file, sizeof file, "%s.index", prefix);
	remove(file);
	snprintf(file, sizeof file, "%s.data-00000-of-00001", prefix);
	remove(file);
}

/* The loss is half of v and x, and becomes the new v; a loop's callbacks fill x and read the
 * loss. */
static const char running[] =
	"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"loss\" = %loss\n}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[]}\n"
	"%v = VarHandleOp() {dtype=f32, shape=shape[], shared_name=\"v\"}\n"
	"%start = Const() {dtype=f32, value=tensor f32[] {8.0}}\n"
	"%v/Assign = AssignVariableOp(%v, %start) {dtype=f32}\n"
	"%read = ReadVariableOp(%v) {dtype=f32}\n"
	"%half = Const() {dtype=f32, value=tensor f32[] {0.5}}\n"
	"%next = Mul(%read, %half) {T=f32}\n"
	"%loss = Add(%next, %x) {T=f32}\n"
	"%step = AssignVariableOp(%v, %loss) {dtype=f32}\n";

struct step_seen {
	float x, loss;
	int32_t stop;
	int before, after;
	size_t phase[16];
};

static void before_step(void *arg, int64_t step)
{
	struct step_seen *s = (struct step_seen *)arg;

	s->before++;
	s->x = step >= 8 ? 1 : 0;
}

static void after_step(void *arg, int64_t step, size_t phase)
{
	struct step_seen *s = (struct step_seen *)arg;

	s->after++;
	s->phase[step] = phase;
	if (s->loss < 0.01F)
		s->stop = 1;
}

static void counters_of_phases(struct ht_train_phases *p)
{
	struct ht_phase_counters c = HT_PHASE_COUNTERS_INIT, d = HT_PHASE_COUNTERS_INIT;

	ht_train_phases_counters(p, &c);
	ht_train_phases_counters(p, &d);
	CHECK(c.step_now == 5 && c.total_step == 10 && c.loss_now == 0.25 && c.target_loss == 1);
	c.step_now = -1;
	CHECK(ht_train_phases_set_counters(p, &c, NULL) == HT_E_USAGE);
	c.struct_size = 0;
	CHECK(ht_train_phases_set_counters(p, &c, NULL) == HT_E_USAGE);
	d.target_loss = 0.5;
	CHECK(ht_train_phases_set_counters(p, &d, NULL) == HT_OK);
}

static void phases(void)
{
	struct ht_train_phases_options opt = HT_TRAIN_PHASES_OPTIONS_INIT;
	struct ht_train_phases *p;
	int64_t state[2];

	opt.mode = "fast1|loss|1.1";
	opt.steps = 10;
	CHECK(ht_train_phases_new(&opt, NULL, &p) == HT_E_USAGE && !p); /* no target loss */
	opt.has_target_loss = 1;
	opt.target_loss = 1;
	CHECK(ht_train_phases_new(&opt, NULL, &p) == HT_OK);
	CHECK(ht_train_phases_count(p) == 2 && ht_train_phases_kind(p, 0) == HT_PHASE_FAST1);
	CHECK(!strcmp(ht_phase_name(HT_PHASE_FAST), "fast"));
	CHECK(!strcmp(ht_phase_policy(HT_PHASE_FAST1, 1), "mixed_bfloat16"));
	CHECK(!ht_phase_policy(HT_PHASE_ORIGINAL, 0));
	CHECK(ht_train_phases_next(p) == 0);
	ht_train_phases_count_step(p, 1.2);
	CHECK(ht_train_phases_next(p) == 0);
	ht_train_phases_count_step(p, 1.1); /* at most 1.1 times the target */
	CHECK(ht_train_phases_next(p) == 1);
	state[0] = 0;
	state[1] = 4;
	ht_train_phases_go_on(p, state, 5, 0.25);
	counters_of_phases(p);
	CHECK(ht_train_phases_next(p) == 1); /* 0.25 <= 0.5 x 1.1 */
	ht_train_phases_state(p, state);
	CHECK(state[0] == 1 && state[1] == 0);
	ht_train_phases_free(p);
	ht_train_phases_free(NULL);
}

static void loop_of_steps(struct ht_session *s, const char *const *entry)
{
	static const char *const none[HT_PHASE_KINDS] = { NULL, NULL, NULL };
	struct ht_train_phases_options opt = HT_TRAIN_PHASES_OPTIONS_INIT;
	struct ht_session_loop l = HT_SESSION_LOOP_INIT;
	struct step_seen seen = { 0, 0, 0, 0, 0, { 0 } };
	struct ht_array in = { &seen.x, 4, HT_F32, 0, NULL },
			out = { &seen.loss, 4, HT_F32, 0, NULL };
	struct ht_train_phases *p;

	opt.mode = "phases=original:3,fast1:2,original";
	opt.loop = 4;
	CHECK(ht_train_phases_new(&opt, NULL, &p) == HT_OK);
	l.entry = entry;
	l.phases = p;
	l.before = before_step;
	l.after = after_step;
	l.arg = &seen;
	l.stop = &seen.stop;
	l.steps = 4;
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_OK);
	CHECK(l.done == 4 && seen.before == 4 && seen.after == 4 && l.loss == 0.5); /* 8 / 2^4 */
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_OK);
	CHECK(l.done == 8 && l.loss == 0.03125 && ht_session_variables(s) == 1);
	CHECK(seen.phase[2] == 0 && seen.phase[3] == 1 && seen.phase[4] == 1 && seen.phase[5] == 2);
	l.before = NULL;
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_OK);
	CHECK(l.done == 10 && seen.stop); /* the callback ended the loop */
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_OK && l.done == 10);
	seen.stop = 0;
	CHECK(ht_session_steps(s, &l, &in, 1, NULL, 0, NULL) == HT_E_USAGE);
	l.entry = none;
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_E_USAGE && l.done == 10);
	l.struct_size = 0;
	CHECK(ht_session_steps(s, &l, &in, 1, &out, 1, NULL) == HT_E_USAGE);
	ht_train_phases_free(p);
}

static void steps_of_phases(void)
{
	static const char *const entry[HT_PHASE_KINDS] = { "original", NULL, "fast1" };
	const char *const outputs[] = { "loss", "step" };
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *low;
	struct ht_session *s;
	struct ht_model *m;
	char path[64];

	snprintf(path, sizeof path, "api_steps%ld.hir", (long)getpid());
	CHECK(ht_file_write(path, running, strlen(running), NULL) == HT_OK);
	CHECK(ht_model_load(path, NULL, NULL, &m) == HT_OK);
	CHECK(ht_session_new(NULL, NULL, &s) == HT_OK);
	CHECK(ht_model_set_outputs(m, outputs, 2, NULL) == HT_OK);
	CHECK(ht_session_add(s, entry[0], m, NULL, NULL, NULL) == HT_OK);
	CHECK(ht_policy_new(ht_phase_policy(HT_PHASE_FAST1, 0), NULL, &low) == HT_OK);
	opt.policy = low;
	CHECK(ht_session_add(s, entry[2], m, &opt, NULL, NULL) == HT_OK);
	CHECK(ht_session_initialise(s, m, NULL, NULL, NULL) == HT_OK);
	loop_of_steps(s, entry);
	ht_session_free(s);
	ht_policy_free(low);
	ht_model_free(m);
	remove(path);
}

/* An event file is a file of records, too, but its records are no examples. */
static void records(void)
{
	struct ht_event_scalar scalar = { "loss", 1.5, "described" };
	struct ht_feature feature = HT_FEATURE_INIT;
	struct ht_event_file *events;
	struct ht_records *r;
	char folder[64], path[512];
	const struct dirent *entry;
	float value;
	DIR *dir;

	snprintf(folder, sizeof folder, "api_events%ld", (long)getpid());
	CHECK(ht_event_file_open(folder, 7, NULL, &events) == HT_OK);
	ht_event_file_scalars(events, 8, &scalar, 1);
	CHECK(ht_event_file_close(events, NULL) == HT_OK);
	CHECK(ht_event_file_close(NULL, NULL) == HT_OK);
	dir = opendir(folder);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
	closedir(dir);
	CHECK(ht_records_open(path, NULL, &r) == HT_OK);
	CHECK(ht_records_count(r) == 3); /* version, start, step */
	CHECK(ht_records_feature(r, 3, "x", NULL, &feature) == HT_E_USAGE);
	CHECK(ht_records_feature(r, 2, "x", NULL, &feature) == HT_E_INPUT);
	CHECK(ht_records_read(r, 2, "x", HT_F32, 1, &value, NULL) == HT_E_INPUT);
	ht_records_free(r);
	ht_records_free(NULL);
	remove(path);
	CHECK(ht_records_open(path, NULL, &r) == HT_E_ENVIRONMENT && !r);
	CHECK(ht_event_file_open("/dev/null/in", 0, NULL, &events) == HT_E_ENVIRONMENT && !events);
	rmdir(folder);
}

/* ---- comparisons ---- */

static int prints(const struct ht_comparison *const *c, size_t n, enum ht_comparison_form form,
	const char *pattern, struct ht_diags *d)
{
	struct ht_bytes b;
	int found = ht_comparison_print(c, n, form, NULL, d, &b) == HT_OK &&
		    strstr((const char *)b.p, pattern) != NULL;

	ht_bytes_free(&b);
	return found;
}

static enum ht_status compare_x(struct ht_comparison *c, struct ht_diags *d)
{
	static const float inexact[] = { 1.1F, 2.3F, 3.7F, 4.9F }; /* in float16 */
	struct ht_array in[1];

	in[0] = array((void *)inexact, sizeof inexact, HT_F32, 2, x_dim);
	return ht_comparison_sample(c, "sample 1", in, 1, NULL, 0, NULL, d);
}

/* float32 beside float16: the first equals the reference, the second exceeds a bound that float16
 * cannot keep. */
static void compared_policies(const struct ht_model *m, struct ht_diags *d)
{
	static const char *const bounds[] = { "y:rel<=1e-9", "top:abs<=9" };
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	struct ht_comparison *c, *failed;
	const struct ht_comparison *both[2];
	struct ht_policy *low = NULL;

	opt.tolerance = bounds;
	opt.tolerances = 2;
	CHECK(ht_comparison_new(m, &opt, d, &c) == HT_OK);
	if (!c)
		return;
	CHECK(ht_program_inputs(ht_comparison_program(c)) == 1);
	CHECK(ht_comparison_rows(c) == 1);
	CHECK(ht_policy_new("force_fp16", d, &low) == HT_OK);
	CHECK(ht_comparison_verdict(c, d) == HT_E_USAGE); /* there are no samples */
	CHECK(ht_comparison_time(c, 1, d) == HT_E_USAGE);
	CHECK(ht_comparison_add(c, "as it is", NULL, d) == HT_OK);
	CHECK(compare_x(c, d) == HT_OK);
	CHECK(ht_comparison_verdict(c, d) == HT_OK);
	CHECK(ht_comparison_add(c, "low", low, d) == HT_E_USAGE); /* after a sample was added */
	ht_comparison_free(c);

	CHECK(ht_comparison_new(m, &opt, d, &c) == HT_OK);
	CHECK(ht_comparison_add(c, "as it is", NULL, d) == HT_OK);
	CHECK(ht_comparison_add(c, "low", low, d) == HT_OK);
	CHECK(ht_comparison_add(c, "low", low, d) == HT_E_USAGE);
	CHECK(ht_comparison_sample(c, NULL, NULL, 0, NULL, 0, NULL, d) == HT_E_USAGE);
	CHECK(compare_x(c, d) == HT_OK);
	CHECK(ht_comparison_time(c, 2, d) == HT_OK);
	CHECK(ht_comparison_nodes_sample(c, NULL, NULL, 0, d) == HT_E_USAGE);
	CHECK(ht_comparison_nodes(c, "none", low, 0, d) == HT_E_USAGE);
	CHECK(ht_comparison_nodes(c, "low", low, 0, d) == HT_OK);
	CHECK(ht_comparison_nodes(c, NULL, NULL, 0, d) == HT_OK);
	CHECK(ht_comparison_verdict(c, d) == HT_E_VERDICT);

	CHECK(ht_comparison_failed("b.pb", HT_OK, "why", d, &failed) == HT_E_USAGE && !failed);
	CHECK(ht_comparison_failed("b.pb", HT_E_INPUT, "it is <cut>", d, &failed) == HT_OK);
	CHECK(ht_comparison_verdict(failed, d) == HT_E_INPUT);
	CHECK(ht_comparison_program(failed) == NULL);
	CHECK(ht_comparison_add(failed, "low", low, d) == HT_E_USAGE);
	CHECK(compare_x(failed, d) == HT_E_USAGE);
	CHECK(ht_comparison_time(failed, 1, d) == HT_E_USAGE);
	CHECK(ht_comparison_nodes(failed, "low", low, 0, d) == HT_E_USAGE);
	both[0] = c;
	both[1] = failed;
	CHECK(prints(both, 1, HT_COMPARISON_JSON, "\"verdict\": \"fail\"}\n", d));
	CHECK(prints(both, 2, HT_COMPARISON_JSON, "\"verdict\": \"error\"}\n", d));
	CHECK(prints(both, 2, HT_COMPARISON_TEXT, "b.pb\n\ninvalid input: it is <cut>\n", d));
	CHECK(prints(both, 2, HT_COMPARISON_MARKDOWN, "- invalid input: it is \\<cut>\n", d));
	CHECK(prints(both, 2, HT_COMPARISON_CSV, "\"b.pb\",\"\",\"\",error,", d));
	CHECK(prints(both, 2, HT_COMPARISON_JUNIT, "message=\"it is &#60;cut&#62;\"/>", d));
	CHECK(prints(both, 2, HT_COMPARISON_GITHUB,
		"::error file=b.pb,title=invalid input::it is <cut>\n", d));
	CHECK(prints(both, 2, HT_COMPARISON_NODES_CSV, "model,policy,node", d));
	CHECK(prints(both + 1, 1, HT_COMPARISON_NODE_DATA, "{", d));
	ht_comparison_free(failed);
	ht_comparison_free(c);
	ht_comparison_free(NULL);
	ht_policy_free(low);
}

static void comparisons(const char *path)
{
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_comparison *c;
	struct ht_model *m;

	CHECK(ht_worse_status(HT_OK, HT_E_VERDICT) == HT_E_VERDICT);
	CHECK(ht_worse_status(HT_E_LIMIT, HT_E_ENVIRONMENT) == HT_E_ENVIRONMENT);
	CHECK(ht_worse_status(HT_OK, HT_OK) == HT_OK);
	CHECK(ht_model_load(path, NULL, d, &m) == HT_OK);
	/* the model's batch is open */
	CHECK(ht_comparison_new(m, NULL, d, &c) == HT_E_USAGE && !c);
	CHECK(ht_model_set_batch(m, 1, d) == HT_OK);
	opt.reference = "f31";
	CHECK(ht_comparison_new(m, &opt, d, &c) == HT_E_USAGE && !c);
	compared_policies(m, d);
	ht_model_free(m);
	ht_diags_free(d);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: api SMALL.hir\n");
		return 2;
	}
	small_things();
	failures_are_told(argv[1]);
	inputs_and_settings(argv[1]);
	options();
	configurations();
	computed_default();
	runs(argv[1]);
	sessions();
	several_entries();
	phases();
	steps_of_phases();
	records();
	reports(argv[1]);
	budgets(argv[1]);
	comparisons(argv[1]);
	if (failures)
		fprintf(stderr, "%d claims do not hold\n", failures);
	return failures != 0;
}
