/* Tables of fusions, ops, targets, policies, profiles and passes. */
#include "api/api.h"
#include "api/combinations.h"
#include "api/grammar.h"

#include <string.h>

struct list {
	const char *what;
	enum ht_format format;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_buf buf;
	size_t rows;
};

/* Begins a row: a name and named columns of text (NULL: none).  In JSON its object stays open. */
static void open_row(
	struct list *l, const char *name, size_t columns, const char *const (*column)[2])
{
	struct ht_buf *b = &l->buf;

	if (l->format == HT_FORMAT_JSON) {
		ht_puts(b, l->rows++ ? ",\n  {\"name\": " : "\n  {\"name\": ");
		ht_put_json(b, ht_str(name));
		for (size_t i = 0; i < columns; i++) {
			ht_printf(b, ", \"%s\": ", column[i][0]);
			ht_put_json(b, ht_str(column[i][1]));
		}
		return;
	}
	ht_printf(b, "%-26s", name);
	for (size_t i = 0; i < columns; i++)
		if (*column[i][1])
			ht_printf(b, "  %s", column[i][1]);
}

static void close_row(struct list *l)
{
	ht_putc(&l->buf, l->format == HT_FORMAT_JSON ? '}' : '\n');
}

static void row(struct list *l, const char *name, size_t columns, const char *const (*column)[2])
{
	open_row(l, name, columns, column);
	close_row(l);
}

static void list_ops(struct list *l)
{
	for (int op = HT_OP_OPAQUE + 1; op < HT_OP_END; op++) {
		const struct ht_op_info *i = ht_op_info((enum ht_op)op);
		const char *const column[][2] = {
			{ "precision", ht_op_prec_name(i->prec) },
			{ "lowering", i->lower_name },
			{ "signature", i->signature },
			{ "meaning", i->meaning },
		};
		row(l, i->name.p, HT_COUNT(column), column);
	}
}

/* Writes a member of the row's object; `next` returns its members one by one. */
static void put_facts(struct ht_buf *b, const char *name, const struct ht_target *t,
	bool next(const struct ht_target *t, size_t i, struct ht_target_fact *out))
{
	struct ht_target_fact fact;

	ht_printf(b, ",\n   \"%s\": {", name);
	for (size_t i = 0; next(t, i, &fact); i++)
		ht_printf(b, "%s\"%s\": %g", i ? ", " : "", fact.name, fact.value);
	ht_putc(b, '}');
}

static void put_description(struct ht_buf *b, const struct ht_target *t)
{
	put_facts(b, "capabilities", t, ht_target_capability);
	put_facts(b, "rates", t, ht_target_rate);
	ht_printf(b, ",\n   \"caches\": {\"l1\": %lld, \"l2\": %lld, \"l3\": %lld}",
		(long long)t->l1, (long long)t->l2, (long long)t->l3);
}

/* The capabilities of a machine, as NAME or NAME=SIZE, and its features. */
static const char *capabilities_text(struct list *l, const struct ht_target *t)
{
	struct ht_target_fact fact;
	struct ht_buf b;

	ht_buf_init(&b, &l->w->arena);
	for (size_t i = 0; ht_target_capability(t, i, &fact); i++)
		if (fact.value > 1)
			ht_printf(&b, "%s=%g ", fact.name, fact.value);
		else if (fact.value > 0)
			ht_printf(&b, "%s ", fact.name);
	ht_printf(&b, " %s", t->features);
	return ht_buf_str(&b).p;
}

static void list_targets(struct list *l)
{
	const struct ht_target *host = ht_target_host();
	const bool json = l->format == HT_FORMAT_JSON;

	for (const struct ht_target *const *i = ht_targets(); *i; i++) {
		bool is_host = !strcmp((*i)->name, host->name);
		const struct ht_target *t = is_host ? host : *i;
		char vector[32];
		const char *const column[][2] = {
			{ "vector_bytes", vector },
			{ "host", is_host ? "this machine" : "" },
			{ "level", t->level },
			{ "tuning", t->rates->name },
			{ "tuned_by", t->rates->measured ? "measurement" : "estimate" },
			{ "features", json ? t->features : capabilities_text(l, t) },
		};
		snprintf(vector, sizeof vector, "%d", t->vector_bytes);
		open_row(l, t->name, HT_COUNT(column), column);
		if (json)
			put_description(&l->buf, t);
		close_row(l);
	}
}

static void list_policies(struct list *l)
{
	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++) {
		char same[96];
		const char *const column[][2] = {
			{ "summary", k->summary },
			{ "same_as", same },
		};
		snprintf(same, sizeof same, "%s%s",
			k->same_as && l->format == HT_FORMAT_TEXT ? "; same as " : "",
			k->same_as ? k->same_as : "");
		row(l, k->name, HT_COUNT(column), column);
	}
}

static void list_formats(struct list *l)
{
	for (const struct ht_float_format *f = ht_formats; f->name; f++) {
		struct ht_float_format own = *f;
		struct ht_buf b;
		char summary[96];
		const char *column[][2] = { { "summary", summary }, { "same_as", "" } };

		own.name = f->scale ? f->name : NULL;
		ht_buf_init(&b, &l->w->arena);
		ht_format_put(&b, &own);
		column[1][1] = ht_buf_str(&b).p;
		snprintf(summary, sizeof summary, "largest %g, least normal %g%s",
			ht_format_largest(f), ht_format_least_normal(f),
			ht_format_dtype(f) == HT_INVALID ? ", emulated" : "");
		row(l, f->name, HT_COUNT(column), (const char *const(*)[2])column);
	}
}

static void list_profiles(struct list *l)
{
	for (const struct ht_profile *const *p = ht_profiles; *p; p++) {
		const char *const column[][2] = { { "same_as", "" }, { "summary", (*p)->summary } };
		row(l, (*p)->name, HT_COUNT(column), column);
	}
	for (const struct ht_machine *m = ht_machines; m->name; m++) {
		char same[32];
		const char *const column[][2] = { { "same_as", same }, { "summary", m->why } };

		if (!m->profile)
			continue;
		snprintf(same, sizeof same, "%s%s", l->format == HT_FORMAT_TEXT ? "as " : "",
			m->profile);
		row(l, m->name, HT_COUNT(column), column);
	}
}

/* Writes the names that a switch file may use for the fusion, the name of this project first. */
static void put_names(struct ht_buf *b, enum ht_fusion_id id)
{
	const char *name;

	ht_puts(b, ht_fusion_info[id].name);
	for (int i = 0; (name = ht_fusion_vendor_name(id, i)); i++)
		ht_printf(b, ", %s%s", name,
			ht_fusion_is_closable(name) ? "" : " (cannot be closed)");
}

static void list_fusions(struct list *l)
{
	for (int id = 0; id < HT_FUSION_END; id++) {
		const struct ht_fusion_info *f = &ht_fusion_info[id];
		struct ht_buf names;
		char level[4];
		const char *column[][2] = {
			{ "kind", ht_fusion_kind_name(f->kind) },
			{ "level", level },
			{ "pass", f->pass },
			{ "names", "" },
			{ "pattern", f->pattern },
			{ "exactness", f->exactness },
		};
		snprintf(level, sizeof level, "O%d", f->level);
		ht_buf_init(&names, &l->w->arena);
		put_names(&names, (enum ht_fusion_id)id);
		column[3][1] = ht_buf_str(&names).p;
		row(l, f->name, HT_COUNT(column), (const char *const(*)[2])column);
	}
}

/* "", "experimental", "deprecated" or "deprecated for NAME". */
static const char *standing_of(struct list *l, const char *name)
{
	const char *instead;

	switch (ht_option_standing(name, &instead)) {
	case HT_OPTION_EXPERIMENTAL:
		return "experimental";
	case HT_OPTION_DEPRECATED:
		return ht_str_printf(
			&l->w->arena, "deprecated%s%s", *instead ? " for " : "", instead)
			.p;
	default:
		return "";
	}
}

/* Begins another table behind that of the options. */
static void next_table(struct list *l, const char *name, const char *title)
{
	l->rows = 0;
	if (l->format == HT_FORMAT_JSON)
		ht_printf(&l->buf, "],\n \"%s\": [", name);
	else
		ht_printf(&l->buf, "\n%s\n", title);
}

static void list_grammars(struct list *l)
{
	const struct ht_grammar *g;

	next_table(l, "grammars", "values:");
	for (size_t i = 0; (g = ht_grammar(i)); i++) {
		const char *const column[][2] = { { "form", g->form }, { "example", g->example } };
		row(l, g->option, HT_COUNT(column), column);
	}
}

static void list_combinations(struct list *l)
{
	const struct ht_combination *c;

	next_table(l, "combinations", "what does not go together:");
	for (size_t i = 0; (c = ht_combination(i)); i++) {
		const char *const column[][2] = {
			{ "is", c->is },
			{ "other", c->other },
			{ "other_is", c->other_is },
			{ "severity", c->severity == HT_ERROR ? "error" : "warning" },
			{ "text", c->text },
			{ "place", c->place },
		};
		row(l, c->option, HT_COUNT(column), column);
	}
}

static void list_options(struct list *l)
{
	static const char *const classes[] = { "honoured", "accepted", "refused" };
	struct ht_option_info o;

	for (size_t i = 0; ht_option(i, &o); i++) {
		const char *const column[][2] = {
			{ "class", classes[o.option_class] },
			{ "standing", standing_of(l, o.name) },
			{ "values", o.values },
			{ "default", o.fallback },
			{ "help", o.help },
			{ "vendor", l->format == HT_FORMAT_JSON ? o.vendor : "" },
		};
		row(l, o.name, HT_COUNT(column), column);
	}
	list_grammars(l);
	list_combinations(l);
}

static void list_passes(struct list *l)
{
	for (const struct ht_pass *const *p = ht_passes; *p; p++) {
		const char *const column[][2] = { { "summary", (*p)->summary } };
		row(l, (*p)->name, HT_COUNT(column), column);
	}
}

static enum ht_status list(void *arg)
{
	static const struct {
		const char *name;
		void (*rows)(struct list *l);
	} tables[] = {
		{ "formats", list_formats },
		{ "fusions", list_fusions },
		{ "ops", list_ops },
		{ "options", list_options },
		{ "passes", list_passes },
		{ "policies", list_policies },
		{ "profiles", list_profiles },
		{ "targets", list_targets },
	};
	struct list *l = arg;

	ht_buf_init(&l->buf, &l->w->arena);
	for (size_t i = 0; i < HT_COUNT(tables); i++) {
		if (strcmp(tables[i].name, l->what))
			continue;
		if (l->format == HT_FORMAT_JSON)
			ht_printf(&l->buf, "{\"schema\": \"halftone.%s/1\", \"%s\": [", l->what,
				l->what);
		tables[i].rows(l);
		if (l->format == HT_FORMAT_JSON)
			ht_puts(&l->buf, "]}\n");
		return ht_bytes_of(ht_buf_str(&l->buf), l->out);
	}
	return ht_error(l->d, HT_E_USAGE, HT_NOWHERE, "there is no list of '%s'", l->what);
}

enum ht_status ht_list(
	const char *what, enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct list l = { .what = what, .format = format, .w = &w, .d = d, .out = out };

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&w, list, &l, d);
}
