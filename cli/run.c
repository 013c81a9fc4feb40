/* halftone run: prints the outputs, and the comparison with a reference. */
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static enum ht_status save(struct cli *c, const struct session *s)
{
	const char *path = option(c, OPTION_OUTPUT, NULL);
	const char **name = must_alloc(s->outs * sizeof *name);
	struct ht_array *all = must_alloc(s->outs * sizeof *all);
	struct ht_value_info v;
	struct ht_bytes npy;
	bool widen = option_on(c, OPTION_WIDEN);
	size_t len = path ? strlen(path) : 0;
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < s->outs; i++) {
		ht_program_output(s->program, i, &v);
		name[i] = v.name;
		all[i] = s->out[i].a;
	}
	if (len > 4 && !strcmp(path + len - 4, ".npy")) {
		if (s->outs != 1) {
			st = fail(HT_E_USAGE,
				"-o %s: the model has %zu outputs; .npz holds several", path,
				s->outs);
		} else {
			st = npy_print(&s->out[0].a, widen, &npy);
			if (st == HT_OK)
				st = ht_file_write(path, npy.p, npy.n, c->diags);
			ht_bytes_free(&npy);
		}
	} else if (path) {
		st = npz_save(c, path, name, all, s->outs, widen);
	}
	free(all);
	free(name);
	return st;
}

/* There are two formats of arrays; a name without a suffix means an archive. */
static enum ht_status check_output(const struct cli *c)
{
	const char *path = option(c, OPTION_OUTPUT, NULL), *file, *suffix;

	if (!path || !strncmp(path, "/dev/", 5))
		return HT_OK;
	file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	suffix = strrchr(file, '.');
	if (!suffix || suffix == file || !strcmp(suffix, ".npz") || !strcmp(suffix, ".npy"))
		return HT_OK;
	return fail(HT_E_USAGE,
		"-o %s: outputs are written as .npz, or one of them as .npy, not as %s", path,
		suffix);
}

/* ---- output ---- */

static void put_dims(struct text *t, const struct ht_array *a)
{
	text_printf(t, "[");
	for (int32_t i = 0; i < a->rank; i++)
		text_printf(t, "%s%lld", i ? "," : "", (long long)a->dim[i]);
	text_printf(t, "]");
}

/* The first few strings; bytes that are not printable ASCII are written as \xNN. */
enum { MOST_SHOWN = 3, MOST_LETTERS = 40 };

static void put_string(struct text *t, const struct ht_array *a, size_t i)
{
	size_t n;
	const char *p = array_string(a, i, &n);

	text_printf(t, "  '");
	for (size_t k = 0; k < n && k < MOST_LETTERS; k++)
		text_printf(t, p[k] >= ' ' && p[k] <= '~' ? "%c" : "\\x%02x", (unsigned char)p[k]);
	text_printf(t, n > MOST_LETTERS ? "'…" : "'");
}

static void put_strings(struct text *t, const struct ht_array *a, bool json)
{
	size_t count = array_count(a), shortest = SIZE_MAX, longest = 0;

	for (size_t i = 0; i < count; i++) {
		size_t n;

		array_string(a, i, &n);
		shortest = n < shortest ? n : shortest;
		longest = n > longest ? n : longest;
	}
	shortest = count ? shortest : 0;
	text_printf(t, json ? ", \"shortest\": %zu, \"longest\": %zu}" : "  %zu to %zu bytes",
		shortest, longest);
	for (size_t i = 0; !json && i < count && i < MOST_SHOWN; i++)
		put_string(t, a, i);
	text_printf(t, json ? "" : count > MOST_SHOWN ? " …\n" : "\n");
}

static void put_output(struct text *t, const char *name, const struct ht_array *a,
	const struct summary *s, bool json)
{
	if (!json) {
		text_printf(t, "%s  %s", name, ht_dtype_name(a->dtype));
		put_dims(t, a);
		if (a->dtype == HT_STRING) {
			put_strings(t, a, false);
			return;
		}
		text_printf(t, "  min %.6g  max %.6g  mean %.6g  argmax %zu\n", s->min, s->max,
			s->mean, s->at);
		return;
	}
	text_printf(t, "{\"name\": ");
	text_json(t, name);
	text_printf(t, ", \"dtype\": \"%s\", \"shape\": ", ht_dtype_name(a->dtype));
	put_dims(t, a);
	if (a->dtype == HT_STRING) {
		put_strings(t, a, true);
		return;
	}
	text_printf(t, ", \"min\": ");
	text_number(t, s->min);
	text_printf(t, ", \"max\": ");
	text_number(t, s->max);
	text_printf(t, ", \"mean\": ");
	text_number(t, s->mean);
	text_printf(t, ", \"argmax\": %zu}", s->at);
}

static void put_verdict(struct text *t, const struct verdict *v, bool json)
{
	if (!json) {
		text_printf(t, "%s  error %.3g  tolerance %.3g  %s\n", v->output, v->error, v->tol,
			v->ok ? "ok" : "FAILED");
		return;
	}
	text_printf(t, "{\"output\": ");
	text_json(t, v->output);
	text_printf(t, ", \"error\": ");
	text_number(t, v->error);
	text_printf(t, ", \"tolerance\": ");
	text_number(t, v->tol);
	text_printf(t, ", \"ok\": %s}", v->ok ? "true" : "false");
}

static bool is_odd(const struct ht_numerics *n)
{
	return n->overflow || n->underflow || n->subnormal || n->sentinel || n->infinite || n->nan;
}

static const char *rounded_to(const struct ht_numerics *n)
{
	return n->format ? n->format : ht_dtype_name(n->dtype);
}

/* The text form lists only tensors with a non-zero count. */
static void put_numerics(struct text *t, const struct session *s, bool json)
{
	size_t tensors = ht_context_numerics(s->context, NULL, 0), odd = 0;
	struct ht_numerics *all = must_alloc(tensors * sizeof *all);

	ht_context_numerics(s->context, all, tensors);
	text_printf(t, json ? ",\n \"numerics\": [" : "");
	for (size_t i = 0; i < tensors; i++) {
		const struct ht_numerics *n = &all[i];
		odd += is_odd(n);
		if (json) {
			text_printf(t, i ? ",\n  {\"tensor\": " : "\n  {\"tensor\": ");
			text_json(t, n->tensor);
			text_printf(t,
				", \"dtype\": \"%s\", \"emulated\": %s, \"elements\": %zu, \"overflow\": %zu, "
				"\"underflow\": %zu, \"subnormal\": %zu, \"sentinel\": %zu, "
				"\"infinite\": %zu, \"nan\": %zu}",
				rounded_to(n), n->format ? "true" : "false", n->elements,
				n->overflow, n->underflow, n->subnormal, n->sentinel, n->infinite,
				n->nan);
		} else if (is_odd(n)) {
			text_printf(t,
				"%s  %s of %zu  overflow %zu  underflow %zu  subnormal %zu  "
				"sentinel %zu  infinite %zu  nan %zu\n",
				n->tensor, rounded_to(n), n->elements, n->overflow, n->underflow,
				n->subnormal, n->sentinel, n->infinite, n->nan);
		}
	}
	if (json)
		text_printf(t, "]");
	else
		text_printf(t,
			"%zu of %zu tensors of 16 bits or emulated formats were rounded well throughout\n",
			tensors - odd, tensors);
	free(all);
}

/* The memory of a program that changes variables. */
static enum ht_status put_memory(
	const struct cli *c, const struct session *s, struct text *t, bool json)
{
	enum ht_status st;

	if (!json || !ht_program_variables(s->program))
		return HT_OK;
	text_printf(t, ",\n \"memory\": {");
	st = text_step_memory(t, c, s->program, true);
	text_printf(t, "}");
	return st;
}

static enum ht_status report(struct cli *c, const struct session *s, const struct summary *summary,
	const struct verdict *v, bool json)
{
	enum ht_status st, profiled, printed;
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct ht_value_info out;
	struct text t = { 0 };
	bool ok = true;

	ht_program_about(s->program, &info);
	if (json) {
		text_printf(&t, "{\"schema\": \"halftone.run/1\",\n \"model\": ");
		text_json(&t, c->model);
		text_printf(&t,
			",\n \"policy\": \"%s\",\n \"target\": \"%s\",\n \"float_nodes\": %zu,\n"
			" \"low_nodes\": %zu,\n \"casts\": %zu,\n \"arena_bytes\": %zu,\n"
			" \"live_bytes\": %zu,\n ",
			info.policy, info.target, info.float_nodes, info.low_nodes, info.casts,
			info.arena_bytes, info.live_bytes);
		text_without_effect(&t, &info);
		text_seed(&t, s);
		text_printf(&t, ",\n \"outputs\": [");
	}
	for (size_t i = 0; i < s->outs; i++) {
		ht_program_output(s->program, i, &out);
		text_printf(&t, json ? i ? ",\n  " : "\n  " : "");
		put_output(&t, out.name, &s->out[i].a, &summary[i], json);
	}
	if (json)
		text_printf(&t, v ? "],\n \"expect\": [" : "]");
	for (size_t i = 0; v && i < s->outs; i++) {
		text_printf(&t, json ? i ? ",\n  " : "\n  " : "");
		put_verdict(&t, &v[i], json);
		ok &= v[i].ok;
	}
	if (json && v)
		text_printf(&t, "],\n \"ok\": %s", ok ? "true" : "false");
	if (option_on(c, OPTION_NUMERICS))
		put_numerics(&t, s, json);
	st = put_memory(c, s, &t, json);
	profiled = profile_end(c, &(struct profiled){ NULL, s->context }, 1, &t,
		json ? HT_FORMAT_JSON : HT_FORMAT_TEXT);
	st = st == HT_OK ? profiled : st;
	text_printf(&t, json ? "}\n" : "");
	if (!strcmp(option(c, OPTION_OUTPUT, ""), "-")) {
		free(t.p);
		return st;
	}
	printed = text_print(&t);
	return st == HT_OK ? printed : st;
}

static enum ht_status run_all(struct cli *c, struct session *s)
{
	long long runs;
	enum ht_status st = option_number(c, OPTION_RUNS, 1, 1, LLONG_MAX, &runs);

	if (st == HT_OK)
		st = profile_begin(c, s->context);
	for (long long i = 0; i < runs && st == HT_OK; i++)
		st = session_run(c, s);
	return st;
}

enum ht_status verb_run(struct cli *c)
{
	struct session s;
	struct summary *summary = NULL;
	struct verdict *v = NULL;
	enum ht_format format;
	enum ht_status st = option_json(c, &format), dumped;

	if (st != HT_OK)
		return st;
	if (option_on(c, OPTION_TOL) && !option_on(c, OPTION_EXPECT))
		st = refuse(c, "--tol has no effect without --expect");
	if (st == HT_OK && option_on(c, OPTION_WIDEN) && !option_on(c, OPTION_OUTPUT))
		st = refuse(c, "--widen has no effect without --output");
	if (st == HT_OK)
		st = check_output(c);
	if (st != HT_OK)
		return st;
	st = session_open(c, &s);
	if (st == HT_OK)
		st = run_all(c, &s);
	if (st == HT_OK && option_on(c, OPTION_EXPECT))
		st = expect(c, &s, &v);
	if (st == HT_OK)
		st = save(c, &s);
	if (st == HT_OK) {
		summary = summarise_outputs(&s);
		warn_not_finite(c, &s, summary);
		st = report(c, &s, summary, v, format == HT_FORMAT_JSON);
	}
	dumped = dump_end(s.dump); /* also after a run that failed: its dump shows why */
	if (st == HT_OK)
		st = dumped;
	for (size_t i = 0; v && st == HT_OK && i < s.outs; i++)
		if (!v[i].ok)
			st = HT_E_VERDICT;
	free(summary);
	free(v);
	session_close(&s);
	return st;
}
