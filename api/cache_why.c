/* Explains why the cache has no entry for a compilation. */
#include "api/api.h"

#include <halftone/cache.h>
#include <stdlib.h>
#include <string.h>

struct difference {
	struct ht_str part, here, there;
	struct ht_hash nearest;
	size_t count; /* fields that differ; SIZE_MAX: there is no entry */
};

static struct ht_reads reads_of(struct ht_str key)
{
	struct ht_str name, value;
	struct ht_reads reads = { 0 };
	size_t at = 0;

	while (ht_key_next(key, &at, &name, &value))
		if (ht_str_starts(name, "option-"))
			ht_note_read_named(&reads, (struct ht_str){ name.p + 7, name.n - 7 });
	return reads;
}

/* Counts the fields in which two keys differ.  A field that only one key has is not counted. */
static void compare(struct ht_str here, struct ht_str there, struct difference *out)
{
	size_t a = 0, b = 0;
	bool more_a, more_b;

	out->count = 0;
	while (1) {
		struct ht_str name = { 0 }, value = { 0 }, name_there = { 0 }, value_there = { 0 };

		more_a = ht_key_next(here, &a, &name, &value);
		more_b = ht_key_next(there, &b, &name_there, &value_there);
		if (!more_a && !more_b)
			return;
		if (ht_str_eq(name, name_there) && ht_str_eq(value, value_there))
			continue;
		if (!out->count++)
			*out = (struct difference){ more_a ? name : name_there, value, value_there,
				out->nearest, 1 };
	}
}

/* Compares with the values that the options of each entry have now. */
static enum ht_status nearest(
	const struct ht_wanted *w, struct ht_arena *a, struct ht_diags *d, struct difference *out)
{
	struct ht_store *s = ht_cache_store(w->model->cache);
	const char *name = ht_cache_graph_name(w->model->cache);
	struct ht_entry_list list = { 0 };
	struct ht_str content;

	*out = (struct difference){ .count = SIZE_MAX };
	HT_TRY(ht_content_of(w->model, d, &content));
	if (s)
		HT_TRY(ht_store_list(s, a, d, &list));
	for (size_t i = 0; i < list.n; i++) {
		struct difference one = { .nearest = list.entry[i].find };
		struct ht_cache_key here;
		struct ht_str there;

		if (list.entry[i].kind != HT_CACHE_GRAPH ||
			!ht_store_read_key(s, &list.entry[i], a, &there))
			continue;
		here = ht_graph_key(w, HT_CACHE_GRAPH, reads_of(there), a);
		compare(here.text, there, &one);
		/* The entry exists, but the index does not list it. */
		if (!one.count && name)
			one = (struct difference){ HT_STR("graph_key"), ht_str(name), { 0 },
				one.nearest, 1 };
		if (one.count < out->count)
			*out = one;
	}
	return HT_OK;
}

static void put_value(struct ht_buf *b, struct ht_str value)
{
	size_t n = value.n < 100 ? value.n : 100;

	while (n && value.p[n - 1] == '\n')
		n--;
	ht_printf(
		b, "'%.*s%s'", (int)n, value.p ? value.p : "", n < value.n && n == 100 ? "…" : "");
}

static struct ht_str text_of(const struct difference *diff, struct ht_arena *a)
{
	char name[HT_KEY_NAME];
	struct ht_buf b;

	if (diff->count == SIZE_MAX)
		return HT_STR("the cache has no graph");
	ht_buf_init(&b, a);
	ht_key_name(diff->nearest, name);
	ht_printf(&b, "%.*s is ", HT_STR_ARG(diff->part));
	put_value(&b, diff->here);
	ht_puts(&b, ", in the nearest entry ");
	put_value(&b, diff->there);
	ht_printf(&b, " (%s)", name);
	return ht_buf_str(&b);
}

struct ht_str ht_miss_text(const struct ht_wanted *w, struct ht_work *work, struct ht_diags *d)
{
	struct difference diff;

	if (nearest(w, &work->arena, d, &diff) != HT_OK)
		return HT_STR("the cache cannot be read");
	/* The entry is damaged, or another process added it in the meantime. */
	return diff.count ? text_of(&diff, &work->arena) : HT_STR("its entry cannot be used");
}

/* ---- for the public interface ---- */

struct asking {
	struct ht_cache *cache;
	const struct ht_model *m;
	struct ht_compile_options opt;
	enum ht_format format;
	int kernels;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_work *w;
};

static enum ht_status wanted(struct asking *q, struct ht_wanted *w)
{
	struct ht_str content;

	*w = (struct ht_wanted){ q->m, &q->opt, q->opt.policy, NULL };
	HT_TRY(ht_target_of(&q->opt, q->m->cache, &q->w->arena, q->d, &w->target));
	if (w->policy)
		HT_TRY(ht_policy_check(w->policy, q->d));
	if (!ht_graph_is_cached(w))
		return ht_error(q->d, HT_E_USAGE, HT_NOWHERE,
			"such a compilation is not cached: it leaves files behind, or there is no "
			"cache");
	return ht_content_of(q->m, q->d, &content);
}

/* Looks for the entry; false: there is none. */
static bool look(struct asking *q, const struct ht_wanted *w, struct ht_cache_key *k)
{
	struct ht_reads set[HT_READ_SETS];
	size_t n = ht_read_sets(w, q->d, &q->w->arena, set);

	for (size_t i = 0; i < n; i++) {
		struct ht_cached c;

		*k = ht_graph_key(w, HT_CACHE_GRAPH, set[i], &q->w->arena);
		if (ht_cache_get(q->cache, k, q->d, &c)) {
			ht_cached_release(&c);
			return true;
		}
	}
	return false;
}

static void put_field(struct ht_buf *b, const char *name, struct ht_str value)
{
	ht_printf(b, ",\n \"%s\": ", name);
	ht_put_json(b, value);
}

static void put_answer(struct asking *q, bool hit, const struct difference *diff, const char *name,
	struct ht_buf *b)
{
	if (q->format == HT_FORMAT_JSON) {
		ht_printf(b, "{\"schema\": \"halftone.cache-why/1\",\n \"hit\": %s",
			hit ? "true" : "false");
		if (hit || diff->count != SIZE_MAX)
			put_field(b, hit ? "entry" : "nearest", ht_str(name));
		if (!hit && diff->count != SIZE_MAX) {
			put_field(b, "part", diff->part);
			put_field(b, "here", diff->here);
			put_field(b, "there", diff->there);
			ht_printf(b, ",\n \"differences\": %zu", diff->count);
		}
		ht_puts(b, "}\n");
	} else if (hit) {
		ht_printf(b, "hit: %s\n", name);
	} else {
		ht_printf(b, "miss: %.*s\n", HT_STR_ARG(text_of(diff, &q->w->arena)));
	}
}

static enum ht_status why(void *arg)
{
	struct asking *q = arg;
	struct difference diff = { 0 };
	struct ht_wanted w;
	struct ht_cache_key k;
	char name[HT_KEY_NAME];
	struct ht_buf b;
	bool hit;

	HT_TRY(wanted(q, &w));
	hit = look(q, &w, &k);
	if (!hit)
		HT_TRY(nearest(&w, &q->w->arena, q->d, &diff));
	ht_key_name(hit ? k.find : diff.nearest, name);
	ht_buf_init(&b, &q->w->arena);
	put_answer(q, hit, &diff, name, &b);
	HT_TRY(ht_bytes_of(ht_buf_str(&b), q->out));
	return hit ? HT_OK : HT_E_VERDICT;
}

static enum ht_status kernel_keys(struct asking *q, struct ht_buf *b)
{
	struct ht_lowering *l = HT_NEW(&q->w->arena, struct ht_lowering);
	char name[HT_KEY_NAME];
	struct ht_plan *plan;

	HT_TRY(ht_lowering_run(q->m, &q->opt, HT_OPEN_STAY, HT_UPTO_LAYOUT, NULL, q->w, q->d, l));
	HT_TRY(ht_lower(l->graph, &l->lower, &q->w->arena, &plan));
	for (int32_t i = 0; i < plan->kernels; i++) {
		if (plan->kernel[i]->library)
			continue;
		ht_key_name(ht_kernel_key(plan->kernel[i], l->passes.target,
				    (struct ht_code_how){ 0 }, &q->w->arena)
				    .find,
			name);
		ht_printf(b, "%s\n", name);
	}
	return HT_OK;
}

static enum ht_status key(void *arg)
{
	struct asking *q = arg;
	struct ht_wanted w;
	struct ht_cache_key k;
	char name[HT_KEY_NAME];
	struct ht_buf b;

	ht_buf_init(&b, &q->w->arena);
	if (q->kernels) {
		HT_TRY(kernel_keys(q, &b));
	} else {
		HT_TRY(wanted(q, &w));
		if (!look(q, &w, &k))
			return ht_error(q->d, HT_E_VERDICT,
				(struct ht_where){ .path = q->m->graph->path, .offset = -1 },
				"this is not in the cache, and until it was compiled nobody knows "
				"which options matter: %.*s",
				HT_STR_ARG(ht_miss_text(&w, q->w, q->d)));
		ht_key_name(k.find, name);
		ht_printf(&b, "%s\n", name);
	}
	return ht_bytes_of(ht_buf_str(&b), q->out);
}

static enum ht_status ask(
	struct asking *q, const struct ht_compile_options *opt, enum ht_status (*body)(void *arg))
{
	struct ht_model *of = (struct ht_model *)q->m, m = *of;
	struct ht_content *content = m.content;
	struct ht_work w;
	enum ht_status st;

	HT_TRY(ht_compile_options_of(opt, q->d, &q->opt));
	/* The question is about this cache, whichever one the model has. */
	m.cache = q->cache;
	q->m = &m;
	q->w = &w;
	st = ht_work_run(&w, body, q, q->d);
	of->arena = m.arena; /* shapes were made in it */
	if (m.content != content)
		ht_content_free(m.content);
	return st;
}

enum ht_status ht_cache_key_of(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, int kernels, struct ht_diags *d, struct ht_bytes *out)
{
	return ask(&(struct asking){ .cache = c, .m = m, .kernels = kernels, .d = d, .out = out },
		opt, key);
}

enum ht_status ht_cache_why_miss(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, enum ht_format format, struct ht_diags *d,
	struct ht_bytes *out)
{
	return ask(&(struct asking){ .cache = c, .m = m, .format = format, .d = d, .out = out },
		opt, why);
}
