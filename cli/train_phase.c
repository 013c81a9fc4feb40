/* Phases of a training: the first steps in low precision, as the vendor's accelerate_train_mode has it. */
#include "cli/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value is one of the option's, which is asked of the library; that other verbs refuse it does not matter here. */
static enum ht_status check_value(struct cli *c, const char *value)
{
	static const char name[] = "experimental_config.accelerate_train_mode";

	return ht_option_check(name, value, NULL) == HT_E_USAGE
		       ? ht_option_check(name, value, c->diags)
		       : HT_OK;
}

static bool is_family_v2(const struct cli *c)
{
	for (size_t i = 0; i < c->settings; i++)
		if (strstr(c->setting[i].name, "precision_mode_v2"))
			return true;
	return false;
}

/* The user's own precision is that of the model. */
static enum ht_status check_own(const struct ht_policy *own)
{
	static const char *const allowed[] = { "must_keep_origin_dtype", "allow_fp32_to_fp16",
		"origin" };
	const char *name = own ? ht_policy_name(own) : allowed[0];

	for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
		if (!strcmp(name, allowed[i]))
			return HT_OK;
	return fail(HT_E_USAGE,
		"--accelerate-train-mode goes with no policy, must_keep_origin_dtype, allow_fp32_to_fp16 or "
		"origin, which the second phase has; '%s' was stated",
		name);
}

/* A mode among the settings is that of the second phase. */
static enum ht_status open_low(struct cli *c, const char *name, struct ht_policy **out)
{
	size_t settings = c->settings, n = 0;
	struct setting *all = c->setting;
	enum ht_status st;

	c->setting = must_alloc((settings + 1) * sizeof *c->setting);
	for (size_t i = 0; i < settings; i++)
		if (!strstr(all[i].name, "precision_mode") || strstr(all[i].name, "op_precision"))
			c->setting[n++] = all[i];
	c->settings = n;
	st = open_named_policy(c, name, out);
	free(c->setting);
	c->setting = all;
	c->settings = settings;
	return st;
}

/* ---- the vendor's counters ---- */

static enum ht_status read_counter(const char *name, bool whole, double *out)
{
	const char *s = getenv(name);
	char *end;
	double x;

	if (!s)
		return HT_OK;
	x = strtod(s, &end);
	if (end == s || *end || !isfinite(x) || (whole && (x < 0 || x > 1e15 || x != floor(x))))
		return fail(HT_E_USAGE, "the environment's %s: '%s' is no %s; an example is %s=%s",
			name, s, whole ? "number of steps" : "number", name,
			whole ? "1000" : "0.5");
	*out = x;
	return HT_OK;
}

static enum ht_status read_counters(struct phases *p)
{
	double step = 0, total = 0;
	enum ht_status st;

	if (p->by_loss)
		return read_counter("LOSS_NOW", false, &p->loss_now);
	st = read_counter("STEP_NOW", true, &step);
	if (st == HT_OK)
		st = read_counter("TOTAL_STEP", true, &total);
	p->step_now = (long long)step;
	p->total_step = (long long)total;
	return st;
}

static enum ht_status read_target(struct cli *c, struct phases *p)
{
	const char *s = option(c, OPTION_TARGET_LOSS, NULL);
	char *end;

	if (!p->by_loss)
		return s ? refuse(c,
				   "--target-loss has no effect without --accelerate-train-mode '…|loss'")
			 : HT_OK;
	if (!s && !getenv("TARGET_LOSS"))
		return fail(HT_E_USAGE,
			"--accelerate-train-mode: phases by loss need --target-loss X, or TARGET_LOSS in the "
			"environment");
	if (!s)
		return read_counter("TARGET_LOSS", false, &p->target);
	p->target = strtod(s, &end);
	if (*end || end == s || !isfinite(p->target))
		return fail(HT_E_USAGE, "--target-loss: '%s' is no number", s);
	return HT_OK;
}

/* ---- the option ---- */

const char *const phase_names[PHASE_KINDS] = { "original", "fast", "fast1" };

static void add_phase(struct phases *p, enum phase_kind kind, long long length)
{
	struct phase *grown = realloc(p->phase, (p->n + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	p->phase = grown;
	p->phase[p->n++] = (struct phase){ .kind = kind, .length = length, .loss = NAN };
	p->used[kind] = true;
}

/* Reads one phase, "fast1:100", and moves *s behind it and its comma; false: it is malformed. */
static bool read_phase(struct phases *p, const char **s)
{
	size_t n = strcspn(*s, ":,");
	long long length = -1;
	int kind = 0;
	char *end;

	while (kind < PHASE_KINDS &&
		(strlen(phase_names[kind]) != n || strncmp(*s, phase_names[kind], n) != 0))
		kind++;
	if (kind == PHASE_KINDS)
		return false;
	*s += n;
	if (**s == ':') {
		length = strtoll(*s + 1, &end, 10);
		if (end == *s + 1 || length < 1 || length > 1LL << 40)
			return false;
		*s = end;
	}
	if (**s == ',' ? length < 0 : **s)
		return false; /* only the last phase may lack its length */
	add_phase(p, (enum phase_kind)kind, length);
	*s += **s == ',';
	return true;
}

static enum ht_status read_list(struct phases *p, const char *value)
{
	const char *s = strchr(value, '=') + 1;
	bool good = *s;

	p->listed = true;
	while (*s && good)
		good = read_phase(p, &s);
	if (!good || value[strlen(value) - 1] == ',')
		return fail(HT_E_USAGE,
			"--accelerate-train-mode '%s': the list is KIND:STEPS,… of original, fast and fast1, of "
			"which the last may be without a number",
			value);
	return HT_OK;
}

static enum ht_status read_condition(struct cli *c, struct phases *p, const char *value)
{
	const char *bar, *ratio;
	enum ht_status st = check_value(c, value);

	if (st != HT_OK)
		return st;
	bar = strchr(value, '|');
	p->by_loss = !strncmp(bar + 1, "loss", 4);
	ratio = strchr(bar + 1, '|');
	p->ratio = ratio && ratio[1] ? strtod(ratio + 1, NULL) : p->by_loss ? 1.05 : 0.9;
	add_phase(p, strncmp(value, "fast1|", 6) ? PHASE_FAST : PHASE_FAST1, -1);
	add_phase(p, PHASE_ORIGINAL, -1);
	return read_counters(p);
}

static enum ht_status open_policies(struct cli *c, struct phases *p)
{
	bool v2 = is_family_v2(c);
	enum ht_status st = HT_OK;

	if (p->used[PHASE_FAST])
		st = open_low(
			c, v2 ? "mixed_float16" : "allow_mix_precision_fp16", &p->low[PHASE_FAST]);
	if (st == HT_OK && p->used[PHASE_FAST1])
		st = open_low(c, v2 ? "mixed_bfloat16" : "allow_mix_precision_bf16",
			&p->low[PHASE_FAST1]);
	return st;
}

enum ht_status phases_read(struct cli *c, const struct ht_policy *own, struct phases *p)
{
	const char *value = option(c, OPTION_PHASES, NULL);
	enum ht_status st = HT_OK;

	*p = (struct phases){ .on = value != NULL };
	if (!value)
		add_phase(p, PHASE_ORIGINAL, -1);
	else if (!strncmp(value, "phases=", 7))
		st = read_list(p, value);
	else
		st = read_condition(c, p, value);
	if (st == HT_OK && value)
		st = check_own(own);
	if (st == HT_OK)
		st = read_target(c, p);
	return st == HT_OK ? open_policies(c, p) : st;
}

/* ---- steps ---- */

/* Whether the current phase ends before the next step.  The vendor tests the condition before each loop, this does before
 * each step. */
static bool is_over(const struct phases *p, const struct counters *now)
{
	long long done = now->done + p->step_now,
		  total = p->total_step ? p->total_step : now->steps;
	double loss = now->done ? now->loss : p->loss_now;

	if (p->listed)
		return p->phase[p->at].length >= 0 && p->within >= p->phase[p->at].length;
	if (p->by_loss) /* 0 or NaN: no loss is known yet */
		return loss != 0 && loss <= p->target * p->ratio;
	return done >= (long long)floor((double)total * p->ratio) ||
	       (now->loop && done + now->loop >= total);
}

struct phase *phases_next(struct phases *p, const struct counters *now)
{
	if (p->at + 1 < p->n && is_over(p, now)) {
		p->at++;
		p->within = 0;
	}
	p->within++;
	return &p->phase[p->at];
}

void phases_free(struct phases *p)
{
	for (int i = 0; i < PHASE_KINDS; i++)
		ht_policy_free(p->low[i]);
	free(p->phase);
	*p = (struct phases){ 0 };
}
