/* Caches as objects of the public interface. */
#include "api/api.h"
#include "cache/remote.h"

#include <halftone/cache.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

struct opening {
	struct ht_cache_settings s;
	struct ht_cache_options opt;
	struct ht_remote_options remote;
	char dir[PATH_MAX];
	bool stated; /* the caller named the directory */
};

static bool environment(const char *name, const char *behind, struct opening *o)
{
	const char *value = getenv(name);

	if (!value || !*value)
		return false;
	snprintf(o->dir, sizeof o->dir, "%s%s", value, behind);
	return true;
}

static bool find_dir(struct opening *o)
{
	o->stated = true;
	if (o->s.dir) {
		snprintf(o->dir, sizeof o->dir, "%s", o->s.dir);
		return true;
	}
	if (environment("HALFTONE_CACHE_DIR", "", o))
		return true;
	o->stated = false;
	return environment("XDG_CACHE_HOME", "/halftone", o) ||
	       environment("HOME", "/.cache/halftone", o);
}

static void set_store(struct opening *o, struct ht_diags *d)
{
	const struct ht_cache_settings *s = &o->s;

	o->opt.store = (struct ht_store_options){ .dir = o->dir,
		.mode = s->mode,
		.sync = s->sync != 0,
		.shared = s->shared != 0,
		.max_bytes = s->max_bytes };
	o->opt.must_hit = s->must_hit != 0;
	o->opt.no_kernels = s->no_kernels != 0;
	o->opt.graph_name = s->graph_key;
	if (s->mode == HT_CACHE_OFF || find_dir(o))
		return;
	ht_warn(d, HT_NOWHERE,
		"there is no cache: none of HALFTONE_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
	o->opt.store.mode = HT_CACHE_OFF;
}

static enum ht_status set_vendor(struct opening *o, struct ht_diags *d)
{
	struct ht_store_options *s = &o->opt.store;
	bool reads_only;

	if (!o->opt.graph_name || s->mode == HT_CACHE_OFF)
		return HT_OK;
	HT_TRY(ht_cache_vendor_files(o->dir, o->opt.graph_name, d, &reads_only));
	if (reads_only)
		s->mode = HT_CACHE_RO;
	return HT_OK;
}

static enum ht_status set_remote(struct opening *o, struct ht_diags *d)
{
	const struct ht_cache_settings *s = &o->s;

	if (!s->remote)
		return HT_OK;
	o->remote = (struct ht_remote_options){ .url = s->remote,
		.write = s->remote_write != 0,
		.token_file = s->remote_token_file,
		.netrc = s->remote_netrc,
		.ca_file = s->remote_ca_file };
	o->opt.remote_options = &o->remote;
	return ht_remote_load(d, &o->opt.remote);
}

/* If the caller did not name a directory and the default one cannot be used, compilations go on
 * without a cache. */
static enum ht_status start(struct opening *o, struct ht_diags *d, struct ht_cache **out)
{
	struct ht_diags quiet;
	enum ht_status st;

	if (o->stated || o->opt.store.mode == HT_CACHE_OFF)
		return ht_cache_start(&o->opt, d, out);
	ht_diags_init(&quiet);
	st = ht_cache_start(&o->opt, &quiet, out);
	for (const struct ht_diag *i = quiet.first; i; i = i->next)
		ht_warn(d, i->where, "%.*s", HT_STR_ARG(i->text));
	ht_diags_release(&quiet);
	if (st != HT_E_ENVIRONMENT)
		return st;
	o->opt.store.mode = HT_CACHE_OFF;
	return ht_cache_start(&o->opt, d, out);
}

enum ht_status ht_cache_open(
	const struct ht_cache_settings *s, struct ht_diags *d, struct ht_cache **out)
{
	struct opening o = { .s = HT_CACHE_SETTINGS_INIT };

	*out = NULL;
	HT_TRY(ht_caller_options(s, "ht_cache_settings", &o.s, sizeof o.s, d));
	if (o.s.graph_key && !ht_graph_name_is_legal(o.s.graph_key))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"graph_key: '%s' is not 1 to 128 of A-Z a-z 0-9 _ -", o.s.graph_key);
	set_store(&o, d);
	HT_TRY(set_vendor(&o, d));
	HT_TRY(set_remote(&o, d));
	return start(&o, d, out);
}

int ht_cache_graph_key_check(const char *graph_key)
{
	return ht_graph_name_is_legal(graph_key);
}

void ht_cache_close(struct ht_cache *c, struct ht_diags *d)
{
	ht_cache_end(c, d);
}

const char *ht_cache_dir(const struct ht_cache *c)
{
	const struct ht_store *s = ht_cache_store(c);

	return s ? ht_store_dir(s) : "";
}

void ht_model_set_cache(struct ht_model *m, struct ht_cache *c)
{
	m->cache = c;
}

enum ht_status ht_store_of(const struct ht_cache *c, struct ht_diags *d, struct ht_store **out)
{
	*out = ht_cache_store(c);
	return *out ? HT_OK
		    : ht_error(d, HT_E_USAGE, HT_NOWHERE, "the cache is off: it has no directory");
}

/* ---- statistics ---- */

struct showing {
	struct ht_cache *c;
	enum ht_format format;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_work *w;
};

static const char *size_text(struct ht_arena *a, uint64_t n)
{
	static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;
	double x = (double)n;

	for (; x >= 1024 && i + 1 < HT_COUNT(unit); i++)
		x /= 1024;
	return ht_str_printf(a, i ? "%.1f %s" : "%.0f %s", x, unit[i]).p;
}

static void put_stats(struct showing *s, const struct ht_store *store,
	const struct ht_entry_list *l, const uint64_t *counter, struct ht_buf *b)
{
	size_t kinds[HT_CACHE_KINDS] = { 0 }, pinned = 0;
	struct ht_arena *a = &s->w->arena;

	for (size_t i = 0; i < l->n; i++) {
		kinds[l->entry[i].kind]++;
		pinned += l->entry[i].pinned;
	}
	if (s->format == HT_FORMAT_JSON) {
		ht_puts(b, "{\"schema\": \"halftone.cache/1\",\n \"dir\": ");
		ht_put_json(b, ht_str(ht_store_dir(store)));
		ht_printf(b,
			",\n \"bytes\": %llu, \"max_bytes\": %llu, \"graphs\": %zu, \"kernels\": %zu, "
			"\"pinned\": %zu",
			(unsigned long long)l->bytes, (unsigned long long)ht_store_limit(store),
			kinds[HT_CACHE_GRAPH], kinds[HT_CACHE_KERNEL], pinned);
		for (int c = 0; c < HT_COUNTERS; c++)
			ht_printf(b, ",\n \"%s\": %llu", ht_counter_name((enum ht_cache_counter)c),
				(unsigned long long)counter[c]);
		ht_puts(b, "}\n");
		return;
	}
	ht_printf(b, "%s: %s of %s: %zu graphs, %zu kernels, %zu pinned\n", ht_store_dir(store),
		size_text(a, l->bytes), size_text(a, ht_store_limit(store)), kinds[HT_CACHE_GRAPH],
		kinds[HT_CACHE_KERNEL], pinned);
	for (int c = 0; c < HT_COUNTERS; c++)
		if (counter[c])
			ht_printf(b, "  %-16s %llu\n", ht_counter_name((enum ht_cache_counter)c),
				(unsigned long long)counter[c]);
}

static enum ht_status show_stats(void *arg)
{
	struct showing *s = arg;
	uint64_t counter[HT_COUNTERS];
	struct ht_entry_list list;
	struct ht_store *store;
	struct ht_buf b;

	HT_TRY(ht_store_of(s->c, s->d, &store));
	HT_TRY(ht_store_list(store, &s->w->arena, s->d, &list));
	HT_TRY(ht_store_stats(store, s->d, counter));
	ht_buf_init(&b, &s->w->arena);
	put_stats(s, store, &list, counter, &b);
	return ht_bytes_of(ht_buf_str(&b), s->out);
}

enum ht_status ht_cache_stats(
	struct ht_cache *c, enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct showing s = { c, format, d, out, &w };

	return ht_work_run(&w, show_stats, &s, d);
}

enum ht_status ht_cache_stats_reset(struct ht_cache *c, struct ht_diags *d)
{
	struct ht_store *s;

	HT_TRY(ht_store_of(c, d, &s));
	return ht_store_stats_reset(s, d);
}

/* ---- cleaning up ---- */

static struct ht_cache_cleaned cleaned(const struct ht_gc *g)
{
	return (struct ht_cache_cleaned){ .entries = g->entries,
		.removed = g->evicted,
		.temporary = g->temporary,
		.bytes = g->bytes,
		.removed_bytes = g->evicted_bytes };
}

enum ht_status ht_cache_gc(
	struct ht_cache *c, uint64_t max_bytes, struct ht_diags *d, struct ht_cache_cleaned *out)
{
	return ht_cache_age(c, 0, max_bytes, 0, d, out);
}

enum ht_status ht_cache_age(struct ht_cache *c, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_cache_cleaned *out)
{
	struct ht_store *s;
	struct ht_gc done;

	HT_TRY(ht_store_of(c, d, &s));
	HT_TRY(ht_store_age(s, above_bytes, to_bytes, recent_seconds, d, &done));
	*out = cleaned(&done);
	return HT_OK;
}

struct verifying {
	struct ht_cache *c;
	struct ht_diags *d;
	struct ht_cache_cleaned *out;
	struct ht_work *w;
	bool wrong;
};

static void found_damaged(struct verifying *v, struct ht_store *s, const struct ht_listed_entry *e,
	const char *why, bool removed)
{
	struct ht_where at = HT_NOWHERE;

	at.path = ht_store_path(s, e->kind, e->find, &v->w->arena).p;
	v->out->removed += removed;
	v->out->removed_bytes += removed ? e->bytes : 0;
	v->wrong = true;
	ht_store_count(s, HT_COUNTER_damaged, 1);
	ht_warn(v->d, at, "this entry of the cache is damaged: %s%s", why,
		removed ? "" : "; it cannot be removed");
}

static void verify_one(struct verifying *v, struct ht_store *s, const struct ht_listed_entry *e)
{
	struct ht_where at = HT_NOWHERE;
	struct ht_cached cached;
	const char *why;
	bool removed = false;

	switch (ht_store_read(s, e, &cached, &why, &removed)) {
	case HT_ENTRY_GONE:
		return;
	case HT_ENTRY_DAMAGED:
		found_damaged(v, s, e, why, removed);
		return;
	case HT_ENTRY_UNREADABLE:
		at.path = ht_store_path(s, e->kind, e->find, &v->w->arena).p;
		v->wrong = true;
		ht_store_count(s, HT_COUNTER_unreadable, 1);
		ht_warn(v->d, at, "this entry of the cache cannot be read: %s", why);
		return;
	case HT_ENTRY_FOREIGN:
		v->out->foreign++;
		break;
	case HT_ENTRY_GOOD:
		ht_cached_release(&cached);
	}
	v->out->entries++;
	v->out->bytes += e->bytes;
}

static enum ht_status verify(void *arg)
{
	struct verifying *v = arg;
	struct ht_entry_list list;
	struct ht_store *s;

	*v->out = (struct ht_cache_cleaned){ 0 };
	HT_TRY(ht_store_of(v->c, v->d, &s));
	HT_TRY(ht_store_list(s, &v->w->arena, v->d, &list));
	for (size_t i = 0; i < list.n; i++)
		verify_one(v, s, &list.entry[i]);
	return v->wrong ? HT_E_VERDICT : HT_OK;
}

enum ht_status ht_cache_verify(struct ht_cache *c, struct ht_diags *d, struct ht_cache_cleaned *out)
{
	struct ht_work w;
	struct verifying v = { .c = c, .d = d, .out = out, .w = &w };

	return ht_work_run(&w, verify, &v, d);
}

/* ---- one entry ---- */

struct finding {
	struct ht_cache *c;
	const char *digits;
	int pinned; /* -1: only return the path */
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_work *w;
};

static enum ht_status find(
	struct finding *f, struct ht_store *s, const struct ht_listed_entry **out)
{
	struct ht_entry_list *list = HT_NEW(&f->w->arena, struct ht_entry_list);
	size_t n = strlen(f->digits), found = 0;

	HT_TRY(ht_store_list(s, &f->w->arena, f->d, list));
	for (size_t i = 0; i < list->n; i++) {
		char name[HT_KEY_NAME];

		ht_key_name(list->entry[i].find, name);
		if (n < HT_KEY_NAME && !strncmp(name, f->digits, n)) {
			*out = &list->entry[i];
			found++;
		}
	}
	if (found == 1)
		return HT_OK;
	return ht_error(f->d, HT_E_USAGE, HT_NOWHERE, "%zu entries of the cache begin with '%s'",
		found, f->digits);
}

static enum ht_status find_and_do(void *arg)
{
	struct finding *f = arg;
	const struct ht_listed_entry *e = NULL;
	struct ht_store *s;
	struct ht_str path;

	HT_TRY(ht_store_of(f->c, f->d, &s));
	HT_TRY(find(f, s, &e));
	if (f->pinned >= 0)
		return ht_store_pin(s, e, f->pinned != 0, f->d);
	path = ht_store_path(s, e->kind, e->find, &f->w->arena);
	return ht_bytes_of(ht_str_printf(&f->w->arena, "%.*s\n", HT_STR_ARG(path)), f->out);
}

static enum ht_status with_entry(struct finding *f)
{
	struct ht_work w;

	f->w = &w;
	return ht_work_run(&w, find_and_do, f, f->d);
}

enum ht_status ht_cache_pin(struct ht_cache *c, const char *digits, int pinned, struct ht_diags *d)
{
	return with_entry(&(struct finding){ c, digits, pinned != 0, d, NULL, NULL });
}

enum ht_status ht_cache_entry_path(
	struct ht_cache *c, const char *digits, struct ht_diags *d, struct ht_bytes *out)
{
	return with_entry(&(struct finding){ c, digits, -1, d, out, NULL });
}
