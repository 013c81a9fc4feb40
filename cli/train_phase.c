/* Phases of a training: the first steps in low precision, as in the vendor's
 * accelerate_train_mode. */
#include "cli/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool phases_are_v2(const struct cli *c)
{
	for (size_t i = 0; i < c->settings; i++)
		if (strstr(c->setting[i].name, "precision_mode_v2"))
			return true;
	return false;
}

/* A mode among the settings belongs to the second phase. */
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

/* ---- the option ---- */

static enum ht_status read_target(struct cli *c, struct ht_train_phases_options *opt)
{
	const char *s = option(c, OPTION_TARGET_LOSS, NULL);
	char *end;

	if (!s)
		return HT_OK;
	if (!opt->mode || !strstr(opt->mode, "|loss"))
		return refuse(
			c, "--target-loss has no effect without --accelerate-train-mode '…|loss'");
	opt->has_target_loss = 1;
	opt->target_loss = strtod(s, &end);
	if (*end || end == s || !isfinite(opt->target_loss))
		return fail(HT_E_USAGE, "--target-loss: '%s' is no number", s);
	return HT_OK;
}

static enum ht_status open_policies(struct cli *c, struct phases *p)
{
	bool v2 = phases_are_v2(c);
	enum ht_status st = HT_OK;

	for (int i = HT_PHASE_FAST; i < HT_PHASE_KINDS && st == HT_OK; i++)
		if (p->used[i])
			st = open_low(c, ht_phase_policy((enum ht_phase_kind)i, v2), &p->low[i]);
	return st;
}

/* Makes the results of each phase, which are empty. */
static void list_phases(struct phases *p)
{
	p->n = ht_train_phases_count(p->plan);
	p->phase = must_alloc(p->n * sizeof *p->phase);
	for (size_t i = 0; i < p->n; i++) {
		p->phase[i] =
			(struct phase){ .kind = ht_train_phases_kind(p->plan, i), .loss = NAN };
		p->used[p->phase[i].kind] = true;
	}
}

enum ht_status phases_read(struct cli *c, const struct ht_policy *own, long long steps,
	long long loop, struct phases *p)
{
	struct ht_train_phases_options opt = HT_TRAIN_PHASES_OPTIONS_INIT;
	enum ht_status st;

	opt.mode = option(c, OPTION_PHASES, NULL);
	opt.policy = own;
	opt.steps = steps;
	opt.loop = loop;
	opt.environment = 1;
	*p = (struct phases){ .on = opt.mode != NULL };
	st = read_target(c, &opt);
	if (st == HT_OK)
		st = ht_train_phases_new(&opt, c->diags, &p->plan);
	if (st != HT_OK)
		return st;
	list_phases(p);
	return open_policies(c, p);
}

struct phase *phases_next(struct phases *p)
{
	return &p->phase[ht_train_phases_next(p->plan)];
}

struct phase *phases_current(const struct phases *p)
{
	int64_t state[2];

	ht_train_phases_state(p->plan, state);
	return &p->phase[state[0]];
}

void phases_free(struct phases *p)
{
	for (int i = 0; i < HT_PHASE_KINDS; i++)
		ht_policy_free(p->low[i]);
	ht_train_phases_free(p->plan);
	free(p->phase);
	*p = (struct phases){ 0 };
}
