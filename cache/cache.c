/* The two tiers: the store, and the remote one behind it. */
#include "cache/remote.h"

#include <stdlib.h>
#include <string.h>

struct ht_cache {
	struct ht_store *store;
	const struct ht_remote_module *module;
	struct ht_remote *remote;
	bool must_hit, no_kernels;
	char graph_name[HT_GRAPH_NAME + 1];
};

static enum ht_status start(
	struct ht_cache *c, const struct ht_cache_options *opt, struct ht_diags *d)
{
	if (opt->store.mode != HT_CACHE_OFF)
		HT_TRY(ht_store_open(&opt->store, d, &c->store));
	c->module = opt->remote;
	c->must_hit = opt->must_hit;
	c->no_kernels = opt->no_kernels;
	if (opt->graph_name)
		snprintf(c->graph_name, sizeof c->graph_name, "%s", opt->graph_name);
	return c->module ? c->module->open(opt->remote_options, d, &c->remote) : HT_OK;
}

enum ht_status ht_cache_start(
	const struct ht_cache_options *opt, struct ht_diags *d, struct ht_cache **out)
{
	struct ht_cache *c = ht_sys_alloc(sizeof *c);
	enum ht_status st;

	*out = NULL;
	if (!c)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	st = start(c, opt, d);
	if (st == HT_OK)
		*out = c;
	else
		ht_cache_end(c, d);
	return st;
}

void ht_cache_end(struct ht_cache *c, struct ht_diags *d)
{
	if (!c)
		return;
	if (c->module)
		c->module->close(c->remote);
	ht_store_close(c->store, d);
	free(c);
}

struct ht_store *ht_cache_store(const struct ht_cache *c)
{
	return c->store;
}

bool ht_cache_must_hit(const struct ht_cache *c)
{
	return c->must_hit;
}

const char *ht_cache_graph_name(const struct ht_cache *c)
{
	return c->store && *c->graph_name ? c->graph_name : NULL;
}

void ht_cache_count(struct ht_cache *c, enum ht_cache_counter what, uint64_t n)
{
	if (c->store)
		ht_store_count(c->store, what, n);
}

/* Checks a server's answer and takes it if it is the entry.  The answer is copied, since its memory
 * may lack the alignment of the payload. */
static bool take_remote(struct ht_cache *c, const struct ht_cache_key *k, struct ht_str bytes,
	struct ht_diags *d, struct ht_cached *out)
{
	struct ht_opened opened;
	const char *wrong;
	void *p = aligned_alloc(4096, (bytes.n + 4095) / 4096 * 4096);

	if (!p)
		return false;
	memcpy(p, bytes.p, bytes.n);
	*out = (struct ht_cached){ .bytes = { p, bytes.n } };
	wrong = ht_entry_check(out->bytes, k, &opened);
	if (wrong)
		c->module->reject(c->remote, wrong, d);
	if (!wrong && ht_str_eq(opened.key, k->text)) {
		out->payload = opened.payload;
		return true;
	}
	ht_cached_release(out);
	return false;
}

static void keep(struct ht_cache *c, const struct ht_cache_key *k, const struct ht_cached *got,
	struct ht_diags *d)
{
	struct ht_str piece = got->bytes;
	struct ht_cache_entry e = { .piece = &piece, .pieces = 1, .bytes = piece.n };

	if (c->store)
		ht_store_put(c->store, k, &e, d);
}

static bool get_remote(
	struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d, struct ht_cached *out)
{
	struct ht_str bytes = { 0 };
	bool hit;

	if (!c->module || ht_cache_kind_is_local(k->kind) ||
		!c->module->get(c->remote, k, d, &bytes))
		return false;
	hit = take_remote(c, k, bytes, d, out);
	free((void *)(uintptr_t)bytes.p);
	if (!hit)
		return false;
	keep(c, k, out, d);
	ht_cache_count(c, HT_COUNTER_remote_hits, 1);
	return true;
}

static bool is_off(const struct ht_cache *c, const struct ht_cache_key *k)
{
	return c->no_kernels && k->kind == HT_CACHE_KERNEL;
}

bool ht_cache_get(
	struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d, struct ht_cached *out)
{
	bool hit;

	*out = (struct ht_cached){ 0 };
	if (is_off(c, k))
		return false;
	hit = (c->store && ht_store_get(c->store, k, d, out)) || get_remote(c, k, d, out);
	/* A compilation may look for its graph under several keys, so the caller counts those hits
	 * and misses. */
	if (k->kind == HT_CACHE_KERNEL)
		ht_cache_count(c, hit ? HT_COUNTER_kernel_hits : HT_COUNTER_kernel_misses, 1);
	if (hit)
		ht_cache_count(c, HT_COUNTER_hit_bytes, out->bytes.n);
	return hit;
}

static void put(struct ht_cache *c, struct ht_arena *a, const struct ht_cache_key *k,
	const struct ht_payload *payload, struct ht_diags *d)
{
	struct ht_cache_entry e = ht_entry_make(a, k, payload);

	if (c->store)
		ht_store_put(c->store, k, &e, d);
	if (c->module && !ht_cache_kind_is_local(k->kind))
		c->module->put(c->remote, k, &e, d);
}

void ht_cache_put(struct ht_cache *c, const struct ht_cache_key *k,
	const struct ht_payload *payload, struct ht_diags *d)
{
	struct ht_unwind unwind;
	struct ht_arena a;

	if (is_off(c, k))
		return;
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		put(c, &a, k, payload, d);
	ht_arena_release(&a);
}
