/* Pages: sources are read and checked, then each gets its sections. */
#include "api/page.h"

#include "precision/report/report.h"

#include <string.h>

struct kind {
	const char *name;
	int64_t version; /* the newest version that can be read */
	const struct ht_json_form *form;
	void (*put)(struct ht_page_work *w, const cJSON *root);
};

static const struct kind kinds[] = {
	{ "halftone.compare", 1, &ht_comparison_form, ht_page_comparisons },
	{ "halftone.decisions", 1, &ht_decisions_form, ht_page_decisions },
	{ "halftone.train", 1, &ht_train_form, ht_page_train },
};

/* The lines of `halftone train --log` have no schema name. */
static const struct kind train_log = { "a log of halftone train", 1, &ht_train_log_form,
	ht_page_train_log };

struct source {
	const cJSON *root;
	const struct kind *kind;
	struct ht_str name;
};

struct printing {
	const struct ht_page_source *source;
	size_t n;
	struct ht_work w;
	struct ht_diags *d;
	struct ht_bytes *out;
};

/* ---- reading ---- */

/* The version at the end of a schema's name; 0: none. */
static int64_t version_of(struct ht_str schema, const struct kind *k)
{
	size_t n = strlen(k->name);
	int64_t version;

	if (!ht_str_starts(schema, k->name) || schema.n <= n + 1 || schema.p[n] != '/' ||
		!ht_parse_int((struct ht_str){ schema.p + n + 1, schema.n - n - 1 }, &version))
		return 0;
	return version > 0 ? version : 0;
}

static enum ht_status kind_of(struct ht_json *j, struct ht_str schema, const struct kind **out)
{
	for (size_t i = 0; i < HT_COUNT(kinds); i++) {
		int64_t version = version_of(schema, &kinds[i]);

		if (version > kinds[i].version)
			return ht_json_error(j,
				"the schema is %.*s; this version of Halftone reads %s/%lld and none that is newer",
				HT_STR_ARG(schema), kinds[i].name, (long long)kinds[i].version);
		if (version) {
			*out = &kinds[i];
			return HT_OK;
		}
	}
	return ht_json_error(j,
		"the schema is '%.*s'; a page is made of halftone.compare/1 (halftone compare --format json), "
		"halftone.decisions/1 (halftone explain --format json), halftone.train/1 (halftone train --format json) "
		"and the lines of halftone train --log",
		HT_STR_ARG(schema));
}

/* Walks the JSON by itself, so that the error has its line. */
static enum ht_status find_kind(struct ht_json j, const struct kind **out)
{
	const cJSON *i;

	if (!cJSON_IsObject(j.root))
		return ht_json_error(
			&j, "%s; a result is an object with a schema", ht_json_kind(j.root));
	cJSON_ArrayForEach(i, j.root)
	{
		ht_json_step(&j);
		if (!strcmp(i->string, "schema") && cJSON_IsString(i)) {
			ht_json_step(&j);
			return kind_of(&j, ht_str(i->valuestring), out);
		}
		ht_json_skip(&j, i);
	}
	j.line = 1;
	return ht_json_error(
		&j, "there is no schema: this is no result of compare, explain or train");
}

static bool is_log(struct ht_str text)
{
	size_t at = 0;

	while (at < text.n && strchr(" \t\r\n", text.p[at]))
		at++;
	return ht_str_starts((struct ht_str){ text.p + at, text.n - at }, "{\"event\"");
}

/* Makes an array of the lines, and keeps the line breaks. */
static struct ht_str array_of_lines(struct ht_str text, struct ht_arena *a)
{
	struct ht_buf b;

	while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
		text.n--;
	ht_buf_init(&b, a);
	ht_putc(&b, '[');
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\n')
			ht_putc(&b, ',');
		ht_putc(&b, text.p[i]);
	}
	ht_putc(&b, ']');
	return ht_buf_str(&b);
}

static enum ht_status read_source(
	struct printing *p, const struct ht_page_source *s, struct source *out)
{
	struct ht_parse parse = { .arena = &p->w.arena, .diags = p->d, .path = s->path };
	struct ht_str text = { s->text, s->bytes };
	struct ht_json j;

	if (!s->text)
		HT_TRY(ht_policy_file(&parse, HT_REPORT_LIMIT, &text));
	out->name = ht_str(s->path ? s->path : "");
	if (is_log(text)) {
		HT_TRY(ht_json_parse(&parse, array_of_lines(text, &p->w.arena), false, &j));
		out->kind = &train_log;
	} else {
		HT_TRY(ht_json_parse(&parse, text, false, &j));
		HT_TRY(find_kind(j, &out->kind));
	}
	out->root = j.root;
	return ht_json_check(&j, out->kind->form);
}

/* ---- the page ---- */

/* The model's name, if all sections have the same model. */
static struct ht_str title_of(const struct ht_page_work *w)
{
	for (size_t i = 1; i < w->sections; i++)
		if (!ht_str_eq(w->model[i], w->model[0]))
			return HT_STR("Precision report");
	if (!w->sections)
		return HT_STR("Precision report");
	return ht_str_printf(w->a, "Precision report: %.*s", HT_STR_ARG(w->model[0]));
}

void ht_page_open(struct ht_page_work *w, const cJSON *of, const char *what, struct ht_str policy)
{
	struct ht_str model = ht_member_text(of, "model");

	ht_page_open_of(w, model.n ? model : HT_STR("a model without a file"), what, policy);
}

void ht_page_open_of(
	struct ht_page_work *w, struct ht_str model, const char *what, struct ht_str policy)
{
	struct ht_str title;
	size_t cap = w->cap;

	title = ht_str_printf(w->a, "%s of %.*s%s%.*s", what, HT_STR_ARG(model),
		policy.n ? ": " : "", HT_STR_ARG(policy));
	w->title = ht_grow(w->a, w->title, w->sections, &cap, sizeof *w->title);
	w->model = ht_grow(w->a, w->model, w->sections, &w->cap, sizeof *w->model);
	w->title[w->sections] = title;
	w->model[w->sections] = model;
	ht_page_section(w->b, title, w->sections++);
}

static void put_page(struct ht_page_work *w, struct ht_buf *out)
{
	ht_page_begin(out, title_of(w), w->title, w->sections);
	ht_put_str(out, ht_buf_str(w->b));
	ht_page_end(out);
}

static enum ht_status print(void *arg)
{
	struct printing *p = arg;
	struct ht_page_work w = { .a = &p->w.arena };
	struct source *read = HT_NEW_ARRAY(&p->w.arena, struct source, p->n);
	struct ht_buf body, page;

	for (size_t i = 0; i < p->n; i++)
		HT_TRY(read_source(p, &p->source[i], &read[i]));
	ht_buf_init(&body, &p->w.arena);
	ht_buf_init(&page, &p->w.arena);
	w.b = &body;
	for (size_t i = 0; i < p->n; i++) {
		w.source = read[i].name;
		read[i].kind->put(&w, read[i].root);
	}
	put_page(&w, &page);
	return ht_bytes_of(ht_buf_str(&page), p->out);
}

enum ht_status ht_page_print(
	const struct ht_page_source *source, size_t n, struct ht_diags *d, struct ht_bytes *out)
{
	struct printing p = { .source = source, .n = n, .d = d, .out = out };

	*out = (struct ht_bytes){ 0 };
	if (!n)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "a page needs results: none were given");
	return ht_work_run(&p.w, print, &p, d);
}
