/* The target with its rates: those that --rates states.  For this machine, if the library has no
 * table of its costs, the rates are measured once and kept in the cache. */
#include "api/api.h"
#include "kernel/measure.h"
#include "precision/optimal/price.h"
#include "precision/optimal/rates.h"

#include <halftone-ids.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- this machine, as Linux describes it ---- */

struct processor {
	char model[128], microcode[32];
};

static void copy_value(const char *line, const char *name, char *out, size_t n)
{
	const char *colon = strchr(line, ':');

	if (*out || !colon || strncmp(line, name, strlen(name)) != 0)
		return;
	colon += 1 + strspn(colon + 1, " \t");
	snprintf(out, n, "%.*s", (int)strcspn(colon, "#\n"), colon);
}

static void ask_for_processor(struct processor *p)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	*p = (struct processor){ 0 };
	while (f && fgets(line, sizeof line, f) && !(*p->model && *p->microcode)) {
		copy_value(line, "model name", p->model, sizeof p->model);
		copy_value(line, "microcode", p->microcode, sizeof p->microcode);
	}
	if (f)
		fclose(f);
	if (!*p->model)
		snprintf(p->model, sizeof p->model, "unknown");
	if (!*p->microcode)
		snprintf(p->microcode, sizeof p->microcode, "unknown");
}

/* ---- measured once: in this process, and in the cache ---- */

struct measuring {
	struct processor processor;
	struct ht_arena *arena;
	struct ht_diags *diags;
};

static enum ht_status measure(struct measuring *m, struct ht_str *text)
{
	const struct ht_target *host = ht_target_host();
	const int64_t start = ht_now_ns();
	struct ht_measured found = { 0 };
	struct ht_rates rates;
	struct ht_buf b;

	if (!ht_measure(host, &found))
		return ht_error(m->diags, HT_E_ENVIRONMENT, HT_NOWHERE,
			"there is no memory to measure the rates of this machine");
	ht_measured_rates(host, &found, &rates);
	ht_buf_init(&b, m->arena);
	ht_stated_rates_print(&b, host, &rates, m->processor.model, m->processor.microcode);
	*text = ht_buf_str(&b);
	ht_note(m->diags, HT_NOWHERE,
		"no costs are known of this machine (%s, tuning %s): its rates were measured, in %d ms; halftone tune --costs refines them",
		m->processor.model, host->rates->name, (int)((ht_now_ns() - start) / 1000000));
	return HT_OK;
}

static struct ht_cache_key key_of(const struct measuring *m)
{
	const struct ht_target *host = ht_target_host();
	struct ht_key_text k;

	ht_key_begin(&k, HT_CACHE_RATES, m->arena);
	ht_key_field(&k, "tool", ht_str_printf(m->arena, "%s %s", ht_version(), HT_TOOL_ID));
	ht_key_field(&k, "processor", ht_str(m->processor.model));
	ht_key_field(&k, "microcode", ht_str(m->processor.microcode));
	ht_key_field(&k, "level", ht_str(host->level));
	ht_key_field(&k, "tuning", ht_str(host->rates->name));
	return ht_key_end(&k);
}

static bool recall(
	struct measuring *m, struct ht_cache *c, const struct ht_cache_key *k, struct ht_str *text)
{
	struct ht_cached found;

	if (!c || !ht_cache_get(c, k, m->diags, &found))
		return false;
	*text = ht_str_copy(m->arena, found.payload);
	ht_cached_release(&found);
	return true;
}

/* The rates that this process measured.  Nothing is allocated while the lock is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known {
	char text[4096];
	size_t n; /* 0: not measured yet */
} known;

/* If several threads measure at the same time, the first result counts. */
static struct known agree(struct ht_str text)
{
	struct known now;

	pthread_mutex_lock(&lock);
	if (!known.n && text.n && text.n <= sizeof known.text) {
		memcpy(known.text, text.p, text.n);
		known.n = text.n;
	}
	now = known;
	pthread_mutex_unlock(&lock);
	return now;
}

/* The cache's rates take precedence over those of this process, so that processes agree. */
static enum ht_status measured_once(
	struct ht_cache *c, struct ht_arena *a, struct ht_diags *d, struct ht_str *text)
{
	struct measuring m = { .arena = a, .diags = d };
	struct ht_cache_key key;
	struct known now;

	*text = HT_STR("");
	ask_for_processor(&m.processor);
	key = key_of(&m);
	if (recall(&m, c, &key, text))
		return HT_OK;
	now = agree(HT_STR(""));
	if (!now.n) {
		HT_TRY(measure(&m, text));
		now = agree(*text);
	}
	*text = ht_str_copy(a, (struct ht_str){ now.text, now.n });
	if (c)
		ht_cache_put(c, &key, &(struct ht_payload){ text, 1, 0, 0 }, d);
	return HT_OK;
}

/* ---- the target ---- */

static enum ht_status with_measured(const struct ht_target *host, struct ht_cache *c,
	struct ht_arena *a, struct ht_diags *d, const struct ht_target **out)
{
	const struct ht_stated_rates *rates;
	struct ht_str text = HT_STR("");

	HT_TRY(measured_once(c, a, d, &text));
	HT_TRY(ht_stated_rates_parse(text, "the rates of this machine", a, d, &rates));
	*out = ht_stated_rates_target(rates, host, a);
	return HT_OK;
}

/* Stated rates are those of the target of the code, or of the one whose costs decide. */
static enum ht_status with_stated(const struct ht_target *t, const struct ht_policy *p,
	struct ht_arena *a, struct ht_diags *d, const struct ht_target **out)
{
	const struct ht_target *other = p->cost_target;

	if (ht_stated_rates_fit(p->rates, t))
		*out = ht_stated_rates_target(p->rates, t, a);
	else if (!other || (t != other && !ht_stated_rates_fit(p->rates, other)))
		return ht_error(d, HT_E_USAGE, (struct ht_where){ p->rates->path, .offset = -1 },
			"these are rates of machines of level %.*s; the code is for %s, of level %s",
			HT_STR_ARG(p->rates->level), t->name, t->level);
	return HT_OK;
}

enum ht_status ht_target_rated(const struct ht_target *t, const struct ht_policy *p,
	struct ht_cache *c, struct ht_arena *a, struct ht_diags *d, const struct ht_target **out)
{
	/* A description names what a machine has; what is slow there is not used. */
	*out = t == ht_target_host() ? t : ht_target_with_rates(t, t->rates, a);
	if (p && p->rates)
		return with_stated(t, p, a, d, out);
	if (t != ht_target_host() || ht_costs_are_known(t) || (p && !p->measures))
		return HT_OK;
	return with_measured(t, c, a, d, out);
}

/* ---- measuring on request ---- */

struct asked {
	struct ht_bytes *out;
	struct ht_work w;
};

static enum ht_status measure_now(void *arg)
{
	struct asked *q = arg;
	struct measuring m = { .arena = &q->w.arena };
	struct ht_str text = HT_STR("");

	ask_for_processor(&m.processor);
	HT_TRY(measure(&m, &text));
	return ht_bytes_of(text, q->out);
}

enum ht_status ht_measure_rates(struct ht_diags *d, struct ht_bytes *out)
{
	struct asked q = { .out = out };

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&q.w, measure_now, &q, d);
}
