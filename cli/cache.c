/* The compile cache: the options that every compiling verb has, and halftone cache. */
#include "cli/cli.h"

#include <halftone/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ht_status mode_of(const struct cli *c, enum ht_cache_mode *out)
{
	const char *s = option(c, OPTION_CACHE_MODE, "rw");

	*out = HT_CACHE_RW;
	if (option_on(c, OPTION_NO_CACHE) || !strcmp(s, "off"))
		*out = HT_CACHE_OFF;
	else if (!strcmp(s, "ro"))
		*out = HT_CACHE_RO;
	else if (strcmp(s, "rw") != 0)
		return fail(HT_E_USAGE, "--cache-mode: '%s' is not off, ro or rw", s);
	return HT_OK;
}

static enum ht_status size_of(const struct cli *c, uint64_t *out)
{
	const char *s = option(c, OPTION_MAX_SIZE, NULL);

	*out = s ? parse_size(s) : 0;
	return !s || *out || !strcmp(s, "0")
		       ? HT_OK
		       : fail(HT_E_USAGE, "--max-size: '%s' is no size such as 500M or 5G", s);
}

static enum ht_status remote_of(const struct cli *c, struct ht_cache_settings *s)
{
	const char *mode = option(c, OPTION_REMOTE_MODE, "ro");

	s->remote = option(c, OPTION_REMOTE, NULL);
	s->remote_write = !strcmp(mode, "rw");
	s->remote_token_file = option(c, OPTION_REMOTE_TOKEN, NULL);
	s->remote_netrc = option(c, OPTION_REMOTE_NETRC, NULL);
	s->remote_ca_file = option(c, OPTION_REMOTE_CA, NULL);
	if (!s->remote_write && strcmp(mode, "ro") != 0)
		return fail(HT_E_USAGE, "--remote-mode: '%s' is neither ro nor rw", mode);
	if (!s->remote && option_on(c, OPTION_REMOTE_MODE))
		return refuse(c, "--remote-mode has no effect without --remote-cache");
	return HT_OK;
}

enum ht_status open_cache(struct cli *c)
{
	struct ht_cache_settings s = HT_CACHE_SETTINGS_INIT;
	enum ht_status st = mode_of(c, &s.mode);

	if (c->cache)
		return HT_OK;
	if (st == HT_OK)
		st = size_of(c, &s.max_bytes);
	if (st == HT_OK)
		st = remote_of(c, &s);
	s.dir = option_on(c, OPTION_CACHE_DIR) ? option(c, OPTION_CACHE_DIR, NULL) : NULL;
	s.sync = option_on(c, OPTION_CACHE_SYNC);
	s.shared = option_on(c, OPTION_CACHE_SHARED);
	s.must_hit = option_on(c, OPTION_MUST_HIT);
	if (st == HT_OK)
		st = vendor_cache_settings(c, &s);
	if (st == HT_OK && s.must_hit && s.mode == HT_CACHE_OFF && !s.remote)
		return fail(HT_E_USAGE, "--error-on-cache-miss: the cache is off");
	if (st != HT_OK || (s.mode == HT_CACHE_OFF && !s.remote && c->verb->bit != CACHE))
		return st;
	st = ht_cache_open(&s, c->diags, &c->cache);
	if (st == HT_OK)
		vendor_cache_begin(c);
	return st;
}

enum ht_status use_cache(struct cli *c, struct ht_model *m)
{
	enum ht_status st = open_cache(c);

	if (st == HT_OK)
		ht_model_set_cache(m, c->cache);
	return st;
}

/* ---- halftone cache ---- */

static enum ht_status put_cleaned(
	const struct cli *c, const char *what, const struct ht_cache_cleaned *n, bool removed)
{
	struct text t = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st != HT_OK)
		return st;
	if (format == HT_FORMAT_JSON)
		text_printf(&t,
			"{\"schema\": \"halftone.cache-%s/1\", \"entries\": %zu, \"bytes\": %llu, "
			"\"removed\": %zu, \"removed_bytes\": %llu, \"temporary\": %zu, "
			"\"foreign\": %zu}\n",
			what, n->entries, (unsigned long long)n->bytes, n->removed,
			(unsigned long long)n->removed_bytes, n->temporary, n->foreign);
	else if (removed)
		text_printf(&t,
			"%zu entries of %llu bytes are left; %zu of %llu bytes and %zu temporary "
			"files were removed\n",
			n->entries, (unsigned long long)n->bytes, n->removed,
			(unsigned long long)n->removed_bytes, n->temporary);
	else
		text_printf(&t, "%zu entries of %llu bytes\n", n->entries,
			(unsigned long long)n->bytes);
	if (n->foreign && format != HT_FORMAT_JSON)
		text_printf(&t, "%zu of those that are left are foreign: of other versions\n",
			n->foreign);
	return text_print(&t);
}

static enum ht_status do_stats(struct cli *c)
{
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && option_on(c, OPTION_RESET))
		return ht_cache_stats_reset(c->cache, c->diags);
	if (st == HT_OK)
		st = ht_cache_stats(c->cache, format, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status do_verify(struct cli *c)
{
	struct ht_cache_cleaned n;
	enum ht_status st = ht_cache_verify(c->cache, c->diags, &n), said;

	if (st != HT_OK && st != HT_E_VERDICT)
		return st;
	said = put_cleaned(c, "verify", &n, true);
	return said == HT_OK ? st : said;
}

static enum ht_status do_gc(struct cli *c)
{
	struct ht_cache_cleaned n;
	uint64_t most = 0;
	enum ht_status st = size_of(c, &most);

	if (st == HT_OK && !option(c, OPTION_MAX_SIZE, NULL))
		return fail(HT_E_USAGE, "halftone cache gc needs --max-size SIZE");
	if (st == HT_OK)
		st = ht_cache_gc(c->cache, most, c->diags, &n);
	return st == HT_OK ? put_cleaned(c, "gc", &n, true) : st;
}

static enum ht_status do_clear(struct cli *c)
{
	struct ht_cache_cleaned n;
	enum ht_status st = ht_cache_gc(c->cache, 0, c->diags, &n);

	return st == HT_OK ? put_cleaned(c, "clear", &n, true) : st;
}

static enum ht_status do_export(struct cli *c)
{
	struct ht_cache_cleaned n;
	enum ht_status st = ht_cache_export(c->cache, c->model, c->diags, &n);

	return st != HT_OK || !strcmp(c->model, "-") ? st : put_cleaned(c, "export", &n, false);
}

static enum ht_status do_import(struct cli *c)
{
	struct ht_cache_cleaned n;
	enum ht_status st = ht_cache_import(c->cache, c->model, c->diags, &n);

	return st == HT_OK ? put_cleaned(c, "import", &n, false) : st;
}

static enum ht_status do_pin(struct cli *c)
{
	return ht_cache_pin(c->cache, c->model, !option_on(c, OPTION_UNPIN), c->diags);
}

static enum ht_status do_path(struct cli *c)
{
	struct ht_bytes b = { 0 };
	enum ht_status st = HT_OK;

	if (!c->model) {
		printf("%s\n", ht_cache_dir(c->cache));
		return HT_OK;
	}
	st = ht_cache_entry_path(c->cache, c->model, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

/* Prints the key that `compile` with the same arguments would look up; `why`: and why it would miss. */
static enum ht_status ask(struct cli *c, bool why)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	opt.target = option(c, OPTION_TARGET, NULL);
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	opt.policy = p;
	if (st == HT_OK)
		st = why ? ht_cache_why_miss(c->cache, m, &opt, format, c->diags, &b)
			 : ht_cache_key_of(
				   c->cache, m, &opt, option_on(c, OPTION_KERNELS), c->diags, &b);
	if (b.p && (st == HT_OK || st == HT_E_VERDICT)) {
		enum ht_status said = print_bytes(&b);

		st = said == HT_OK ? st : said;
	}
	ht_bytes_free(&b);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

static enum ht_status do_why(struct cli *c)
{
	return ask(c, true);
}

static enum ht_status do_key(struct cli *c)
{
	return ask(c, false);
}

enum wants { NOTHING, MAYBE, SOMETHING };
static const struct action {
	const char *name, *argument;
	enum wants wants;
	enum ht_status (*run)(struct cli *c);
} actions[] = {
	{ "clear", "", NOTHING, do_clear },
	{ "export", "FILE", SOMETHING, do_export },
	{ "gc", "", NOTHING, do_gc },
	{ "import", "FILE", SOMETHING, do_import },
	{ "key", "MODEL", SOMETHING, do_key },
	{ "path", "DIGITS", MAYBE, do_path },
	{ "pin", "DIGITS", SOMETHING, do_pin },
	{ "stats", "", NOTHING, do_stats },
	{ "verify", "", NOTHING, do_verify },
	{ "why-miss", "MODEL", SOMETHING, do_why },
};

static enum ht_status no_action(const struct cli *c)
{
	const char *names[sizeof actions / sizeof *actions], *near;

	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		names[i] = actions[i].name;
	near = c->action ? near_name(c->action, names, sizeof actions / sizeof *actions) : NULL;
	if (near)
		return fail(HT_E_USAGE, "there is no halftone cache %s; did you mean %s?",
			c->action, near);
	return fail(HT_E_USAGE, "halftone cache stats, why-miss MODEL, key MODEL, verify, gc, "
				"clear, pin DIGITS, path [DIGITS], export FILE or import FILE");
}

enum ht_status verb_cache(struct cli *c)
{
	const struct action *a = actions, *end = actions + sizeof actions / sizeof *actions;
	enum ht_status st;

	while (a < end && (!c->action || strcmp(a->name, c->action) != 0))
		a++;
	if (a == end)
		return no_action(c);
	if (!c->model && a->wants == SOMETHING)
		return fail(HT_E_USAGE, "halftone cache %s needs %s", a->name, a->argument);
	if (c->model && a->wants == NOTHING)
		return fail(HT_E_USAGE, "halftone cache %s takes no argument; '%s' was given",
			a->name, c->model);
	st = open_cache(c);
	return st == HT_OK ? a->run(c) : st;
}
