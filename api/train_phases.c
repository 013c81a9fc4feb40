/* Phases of a training: the precision of each step, as in the vendor's accelerate_train_mode
 * (docs/train.md). */
#include <halftone/train.h>

#include "api/api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct phase {
	enum ht_phase_kind kind;
	int64_t length; /* in steps; -1: to the end, or until the condition holds */
};

struct ht_train_phases {
	struct ht_arena arena;
	struct phase *phase;
	size_t n, cap, at;
	int64_t within; /* steps of the current phase so far */
	int64_t done;   /* steps of the training so far */
	int64_t steps, loop;
	bool by_loss, listed;
	/* Low precision ends at `ratio` of all steps, or at a loss of `ratio` times the target. */
	double ratio;
	struct ht_phase_counters counters; /* step_now counts steps from before this training */
};

static const char *const names[HT_PHASE_KINDS] = { "original", "fast", "fast1" };

const char *ht_phase_name(enum ht_phase_kind kind)
{
	return names[kind];
}

const char *ht_phase_policy(enum ht_phase_kind kind, int v2)
{
	static const char *const policy[2][HT_PHASE_KINDS] = {
		{ NULL, "allow_mix_precision_fp16", "allow_mix_precision_bf16" },
		{ NULL, "mixed_float16", "mixed_bfloat16" },
	};

	return policy[v2 != 0][kind];
}

/* ---- the vendor's counters ---- */

static enum ht_status read_counter(const char *name, bool whole, double *out, struct ht_diags *d)
{
	const char *s = getenv(name);
	char *end;
	double x;

	if (!s)
		return HT_OK;
	x = strtod(s, &end);
	if (end == s || *end || !isfinite(x) || (whole && (x < 0 || x > 1e15 || x != floor(x))))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"the environment's %s: '%s' is no %s; an example is %s=%s", name, s,
			whole ? "number of steps" : "number", name, whole ? "1000" : "0.5");
	*out = x;
	return HT_OK;
}

static enum ht_status read_environment(
	struct ht_train_phases *p, const struct ht_train_phases_options *opt, struct ht_diags *d)
{
	double step = 0, total = 0;

	if (!opt->environment || p->listed)
		return HT_OK;
	if (p->by_loss) {
		HT_TRY(read_counter("LOSS_NOW", false, &p->counters.loss_now, d));
		return opt->has_target_loss
			       ? HT_OK
			       : read_counter("TARGET_LOSS", false, &p->counters.target_loss, d);
	}
	HT_TRY(read_counter("STEP_NOW", true, &step, d));
	HT_TRY(read_counter("TOTAL_STEP", true, &total, d));
	p->counters.step_now = (int64_t)step;
	p->counters.total_step = (int64_t)total;
	return HT_OK;
}

static enum ht_status read_target(
	struct ht_train_phases *p, const struct ht_train_phases_options *opt, struct ht_diags *d)
{
	if (opt->has_target_loss && !p->by_loss)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"a target loss has no effect without an accelerate_train_mode '…|loss'");
	if (opt->has_target_loss && !isfinite(opt->target_loss))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "the target loss is no finite number");
	if (p->by_loss && !opt->has_target_loss && !(opt->environment && getenv("TARGET_LOSS")))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"accelerate_train_mode: phases by loss need a target loss (--target-loss X), or TARGET_LOSS in the "
			"environment");
	p->counters.target_loss = opt->has_target_loss ? opt->target_loss : 0;
	return HT_OK;
}

/* ---- the mode ---- */

static void add_phase(struct ht_train_phases *p, enum ht_phase_kind kind, int64_t length)
{
	p->phase = ht_grow(&p->arena, p->phase, p->n, &p->cap, sizeof *p->phase);
	p->phase[p->n++] = (struct phase){ kind, length };
}

/* Parses one phase, "fast1:100", and moves *s behind it and its comma; false: it is malformed. */
static bool read_phase(struct ht_train_phases *p, const char **s)
{
	size_t n = strcspn(*s, ":,");
	int64_t length = -1;
	int kind = 0;
	char *end;

	while (kind < HT_PHASE_KINDS &&
		(strlen(names[kind]) != n || strncmp(*s, names[kind], n) != 0))
		kind++;
	if (kind == HT_PHASE_KINDS)
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
	add_phase(p, (enum ht_phase_kind)kind, length);
	*s += **s == ',';
	return true;
}

static enum ht_status read_list(struct ht_train_phases *p, const char *mode, struct ht_diags *d)
{
	const char *s = strchr(mode, '=') + 1;
	bool good = *s;

	p->listed = true;
	while (*s && good)
		good = read_phase(p, &s);
	if (good && mode[strlen(mode) - 1] != ',')
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"accelerate_train_mode '%s': the list is KIND:STEPS,… of original, fast and fast1, of which the "
		"last may be without a number",
		mode);
}

/* Checks that the value is legal for the option, which policies do not accept. */
static enum ht_status check_condition(const char *mode, struct ht_diags *d)
{
	static const char name[] = "experimental_config.accelerate_train_mode";

	return ht_option_check(name, mode, NULL) == HT_E_USAGE ? ht_option_check(name, mode, d)
							       : HT_OK;
}

static enum ht_status read_condition(
	struct ht_train_phases *p, const char *mode, struct ht_diags *d)
{
	const char *bar, *ratio;

	HT_TRY(check_condition(mode, d));
	bar = strchr(mode, '|');
	p->by_loss = !strncmp(bar + 1, "loss", 4);
	ratio = strchr(bar + 1, '|');
	p->ratio = ratio && ratio[1] ? strtod(ratio + 1, NULL) : p->by_loss ? 1.05 : 0.9;
	add_phase(p, strncmp(mode, "fast1|", 6) ? HT_PHASE_FAST : HT_PHASE_FAST1, -1);
	add_phase(p, HT_PHASE_ORIGINAL, -1);
	return HT_OK;
}

/* The user's policy is that of the phases in original precision, so it must be one of these. */
static enum ht_status check_own(const struct ht_policy *own, struct ht_diags *d)
{
	static const char *const allowed[] = { "must_keep_origin_dtype", "allow_fp32_to_fp16",
		"origin" };
	const char *name = own ? ht_policy_name(own) : allowed[0];

	for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
		if (!strcmp(name, allowed[i]))
			return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"accelerate_train_mode goes with no policy, must_keep_origin_dtype, allow_fp32_to_fp16 or "
		"origin, which the second phase has; '%s' was stated",
		name);
}

struct making {
	struct ht_train_phases *p;
	const struct ht_train_phases_options *opt;
	struct ht_diags *d;
};

static enum ht_status make(void *arg)
{
	struct making *x = arg;
	struct ht_train_phases *p = x->p;
	const char *mode = x->opt->mode;

	p->steps = x->opt->steps;
	p->loop = x->opt->loop ? x->opt->loop : 1;
	p->counters.struct_size = sizeof p->counters;
	if (p->steps < 0 || p->loop < 0)
		return ht_error(x->d, HT_E_USAGE, HT_NOWHERE,
			"ht_train_phases_options: steps and loop are not negative");
	if (!mode)
		add_phase(p, HT_PHASE_ORIGINAL, -1);
	else if (!strncmp(mode, "phases=", 7))
		HT_TRY(read_list(p, mode, x->d));
	else
		HT_TRY(read_condition(p, mode, x->d));
	if (mode)
		HT_TRY(check_own(x->opt->policy, x->d));
	HT_TRY(read_target(p, x->opt, x->d));
	return mode ? read_environment(p, x->opt, x->d) : HT_OK;
}

enum ht_status ht_train_phases_new(
	const struct ht_train_phases_options *opt, struct ht_diags *d, struct ht_train_phases **out)
{
	struct ht_train_phases_options all = HT_TRAIN_PHASES_OPTIONS_INIT;
	struct making x = { .opt = &all, .d = d };
	struct ht_unwind unwind;
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_train_phases_options", &all, sizeof all, d));
	x.p = ht_sys_alloc(sizeof *x.p);
	if (!x.p)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&x.p->arena, &unwind);
	st = ht_guarded(&unwind, make, &x, d);
	x.p->arena.unwind = NULL;
	if (st == HT_OK)
		*out = x.p;
	else
		ht_train_phases_free(x.p);
	return st;
}

void ht_train_phases_free(struct ht_train_phases *p)
{
	if (!p)
		return;
	ht_arena_release(&p->arena);
	free(p);
}

size_t ht_train_phases_count(const struct ht_train_phases *p)
{
	return p->n;
}

enum ht_phase_kind ht_train_phases_kind(const struct ht_train_phases *p, size_t i)
{
	return p->phase[i].kind;
}

/* ---- steps ---- */

/* Whether the current phase ends before the next step.  The vendor tests the condition before
 * each loop; this function tests it before each step.  The limit of at most one more loop is
 * tested where a loop begins. */
static bool is_over(const struct ht_train_phases *p)
{
	const struct ht_phase_counters *c = &p->counters;
	int64_t done = p->done + c->step_now, total = c->total_step ? c->total_step : p->steps;

	if (p->listed)
		return p->phase[p->at].length >= 0 && p->within >= p->phase[p->at].length;
	if (p->by_loss) /* 0: the loss is not known yet */
		return c->loss_now != 0 && c->loss_now <= c->target_loss * p->ratio;
	return done >= (int64_t)floor((double)total * p->ratio) ||
	       (p->done % p->loop == 0 && done + p->loop >= total);
}

size_t ht_train_phases_next(struct ht_train_phases *p)
{
	if (p->at + 1 < p->n && is_over(p)) {
		p->at++;
		p->within = 0;
	}
	return p->at;
}

static void note_loss(struct ht_train_phases *p, double loss)
{
	if (!isnan(loss))
		p->counters.loss_now = loss;
}

void ht_train_phases_count_step(struct ht_train_phases *p, double loss)
{
	p->done++;
	p->within++;
	note_loss(p, loss);
}

void ht_train_phases_counters(const struct ht_train_phases *p, struct ht_phase_counters *out)
{
	struct ht_phase_counters all = p->counters;

	all.step_now += p->done;
	if (!all.total_step)
		all.total_step = p->steps;
	ht_caller_result(out, "ht_phase_counters", &all, sizeof all, NULL);
}

enum ht_status ht_train_phases_set_counters(
	struct ht_train_phases *p, const struct ht_phase_counters *c, struct ht_diags *d)
{
	struct ht_phase_counters all = HT_PHASE_COUNTERS_INIT;

	HT_TRY(ht_caller_options(c, "ht_phase_counters", &all, sizeof all, d));
	if (all.step_now < 0 || all.total_step < 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"ht_phase_counters: numbers of steps are not negative");
	if (!isfinite(all.target_loss))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"ht_phase_counters: the target loss is no finite number");
	all.step_now -= p->done;
	p->counters = all;
	return HT_OK;
}

/* ---- checkpoints ---- */

void ht_train_phases_state(const struct ht_train_phases *p, int64_t *state)
{
	state[0] = (int64_t)p->at;
	state[1] = p->within;
}

void ht_train_phases_go_on(
	struct ht_train_phases *p, const int64_t *state, int64_t done, double loss)
{
	p->done = done;
	note_loss(p, loss);
	if (state[0] < 0 || state[0] >= (int64_t)p->n)
		return;
	p->at = (size_t)state[0];
	p->within = state[1];
}
