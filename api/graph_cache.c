/* Compiled graphs in the cache.  An entry is an artefact, followed by the messages of its
 * compilation, which a hit repeats.
 *
 * Payload: the artefact; messages, as fields; bytes of the artefact, 8. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* A compilation that also writes files must run each time. */
static bool writes_files(const struct ht_policy *p)
{
	return p && (p->dump_graphs || ht_policy_debugs(p) || p->fusion_result || p->export_stat);
}

bool ht_graph_is_cached(const struct ht_wanted *w)
{
	/* A graph in memory has no file whose hash identifies it.  Options that may not be
	 * combined are reported by the compilation. */
	return w->model->cache && w->model->graph->inputs && !w->opt->numerics && !w->opt->tee &&
	       !w->opt->lines && !w->opt->nodes && !writes_files(w->policy) &&
	       (!w->policy || ht_policy_check(w->policy, NULL) == HT_OK);
}

/* ---- messages ---- */

static void put_number(struct ht_key_text *k, const char *name, int64_t n, struct ht_arena *a)
{
	ht_key_field(k, name, ht_str_printf(a, "%lld", (long long)n));
}

static struct ht_str put_messages(
	const struct ht_model *m, const struct ht_diag *from, struct ht_arena *a)
{
	struct ht_key_text k;

	ht_buf_init(&k.text, a);
	for (const struct ht_diag *i = from; i; i = i->next) {
		bool model = i->where.path && !strcmp(i->where.path, m->graph->path);

		put_number(&k, "severity", i->severity, a);
		put_number(&k, "model", model, a);
		put_number(&k, "line", model ? i->where.line : 0, a);
		put_number(&k, "column", model ? i->where.column : 0, a);
		put_number(&k, "offset", model ? i->where.offset : -1, a);
		ht_key_field(&k, "node", i->where.node);
		ht_key_field(&k, "op", i->where.op);
		ht_key_field(&k, "text", i->text);
	}
	return ht_buf_str(&k.text);
}

static bool next_number(struct ht_str text, size_t *at, int64_t *out)
{
	struct ht_str name, value;

	return ht_key_next(text, at, &name, &value) && ht_parse_int(value, out);
}

static void say_again(const struct ht_model *m, struct ht_str text, struct ht_diags *d)
{
	int64_t severity, model, line, column, offset;
	struct ht_str name, node, op, what;

	for (size_t at = 0; next_number(text, &at, &severity);) {
		struct ht_where where = HT_NOWHERE;

		if (!next_number(text, &at, &model) || !next_number(text, &at, &line) ||
			!next_number(text, &at, &column) || !next_number(text, &at, &offset) ||
			!ht_key_next(text, &at, &name, &node) ||
			!ht_key_next(text, &at, &name, &op) ||
			!ht_key_next(text, &at, &name, &what))
			return;
		where = (struct ht_where){ model ? m->graph->path : NULL, (long)line, (long)column,
			offset, node, op };
		(severity == HT_WARNING ? ht_warn : ht_note)(d, where, "%.*s", HT_STR_ARG(what));
	}
}

/* ---- reading ---- */

static bool split(struct ht_str payload, struct ht_str *artefact, struct ht_str *messages)
{
	uint64_t n;

	if (payload.n < sizeof n)
		return false;
	memcpy(&n, payload.p + payload.n - sizeof n, sizeof n);
	if (n > payload.n - sizeof n)
		return false;
	*artefact = (struct ht_str){ payload.p, (size_t)n };
	*messages = (struct ht_str){ payload.p + n, payload.n - sizeof n - (size_t)n };
	return true;
}

static void release_entry(void *cached)
{
	ht_cached_release(cached);
	free(cached);
}

static void fill_info(const struct ht_wanted *w, struct ht_program *p)
{
	p->phase[0] = (struct ht_phase){ "import", w->model->import_ns };
	p->info.phase = p->phase;
	p->info.phases = 1;
	if (!w->policy)
		return;
	memcpy(p->without_effect, w->policy->without_effect,
		w->policy->without_effects * sizeof *p->without_effect);
	p->info.without_effect = p->without_effect;
	p->info.without_effects = w->policy->without_effects;
}

/* An artefact with correct hashes that cannot be used is a miss too. */
static enum ht_status load_artefact(const struct ht_wanted *w, struct ht_str artefact,
	struct ht_diags *d, struct ht_program **out)
{
	struct ht_where at = { .path = w->model->graph->path, .offset = -1 };
	struct ht_diags why;
	enum ht_status st;

	ht_diags_init(&why);
	st = ht_program_load_bytes(artefact, at.path, &why, out);
	for (const struct ht_diag *i = why.first; i; i = i->next)
		if (st == HT_E_INPUT)
			ht_warn(d, at, "its entry of the cache counts as a miss: %.*s",
				HT_STR_ARG(i->text));
		else if (st != HT_OK && i->severity == HT_ERROR)
			ht_error(d, st, i->where, "%.*s", HT_STR_ARG(i->text));
		else
			(i->severity == HT_NOTE ? ht_note : ht_warn)(
				d, i->where, "%.*s", HT_STR_ARG(i->text));
	ht_diags_release(&why);
	return st;
}

/* The program keeps the entry open. */
static enum ht_status open_program(const struct ht_wanted *w, struct ht_cached *cached,
	struct ht_work *work, struct ht_diags *d, struct ht_program **out)
{
	struct ht_str artefact, messages;
	struct ht_cached *kept;
	enum ht_status st;

	if (!split(cached->payload, &artefact, &messages)) {
		ht_cached_release(cached);
		return HT_OK;
	}
	kept = ht_sys_alloc(sizeof *kept);
	st = kept ? load_artefact(w, artefact, d, out)
		  : ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	if (st != HT_OK) {
		ht_cached_release(cached);
		free(kept);
		return st == HT_E_INPUT ? HT_OK : st;
	}
	*kept = *cached;
	(*out)->whole = artefact;
	(*out)->whole_is_read = !kept->files;
	say_again(w->model, messages, d);
	(*out)->arena.unwind = &work->unwind;
	ht_arena_defer(&(*out)->arena, release_entry, kept);
	(*out)->arena.unwind = NULL;
	fill_info(w, *out);
	return HT_OK;
}

enum ht_status ht_graph_get(const struct ht_wanted *w, struct ht_work *work, struct ht_diags *d,
	struct ht_program **out)
{
	struct ht_reads set[HT_READ_SETS];
	size_t sets;

	*out = NULL;
	sets = ht_read_sets(w, d, &work->arena, set);
	for (size_t i = 0; i < sets && !*out; i++) {
		struct ht_cache_key k = ht_graph_key(w, HT_CACHE_GRAPH, set[i], &work->arena);
		struct ht_cached cached;

		if (ht_cache_get(w->model->cache, &k, d, &cached))
			HT_TRY(open_program(w, &cached, work, d, out));
	}
	ht_cache_count(w->model->cache, *out ? HT_COUNTER_graph_hits : HT_COUNTER_graph_misses, 1);
	return HT_OK;
}

/* ---- writing ---- */

void ht_graph_put(const struct ht_wanted *w, const struct ht_program *p, struct ht_reads reads,
	const struct ht_diag *said, struct ht_work *work, struct ht_diags *d)
{
	struct ht_arena *a = &work->arena;
	struct ht_cache_key k = ht_graph_key(w, HT_CACHE_GRAPH, reads, a);
	struct ht_artefact_writer *writer;
	struct ht_artefact_bytes bytes;
	struct ht_str *piece;
	uint64_t n = 0;
	size_t count;

	if (p->backend && strcmp(p->backend->id(), ht_code_id()) != 0)
		return;
	/* The hash may cover other bytes than the ones that were compiled, so the result must
	 * not be stored. */
	if (ht_content_changed(w->model)) {
		ht_warn(d, (struct ht_where){ .path = w->model->graph->path, .offset = -1 },
			"the model changed while it was compiled; the cache does not keep it");
		return;
	}
	if (ht_artefact_writer_new(NULL, d, &writer) != HT_OK)
		return;
	if (ht_artefact_writer_add(writer, p, d) == HT_OK &&
		ht_artefact_writer_bytes(writer, d, &bytes) == HT_OK) {
		count = bytes.artefact.n;
		piece = HT_NEW_ARRAY(a, struct ht_str, count + 2);
		for (size_t i = 0; i < count; i++)
			n += (piece[i] = bytes.artefact.piece[i]).n;
		piece[count] = put_messages(w->model, said ? said->next : d ? d->first : NULL, a);
		piece[count + 1] = (struct ht_str){ (const char *)&n, sizeof n };
		ht_cache_put(w->model->cache, &k,
			&(struct ht_payload){ piece, count + 2, bytes.weights, count }, d);
		ht_read_sets_add(w, reads, d, a);
	}
	ht_artefact_writer_free(writer);
}
