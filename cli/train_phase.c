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
static enum ht_status check_own(const struct cli *c, const struct ht_policy *own)
{
	static const char *const allowed[] = { "must_keep_origin_dtype", "allow_fp32_to_fp16",
		"origin" };
	const char *name = own ? ht_policy_name(own) : allowed[0];

	for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
		if (!strcmp(name, allowed[i]))
			return HT_OK;
	(void)c;
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

static enum ht_status read_target(struct cli *c, struct phases *p)
{
	const char *s = option(c, OPTION_TARGET_LOSS, NULL);
	char *end;

	if (p->by_loss != (s != NULL))
		return s ? refuse(c,
				   "--target-loss has no effect without --accelerate-train-mode '…|loss'")
			 : fail(HT_E_USAGE,
				   "--accelerate-train-mode: phases by loss need --target-loss X");
	if (!s)
		return HT_OK;
	p->target = strtod(s, &end);
	if (*end || end == s || !isfinite(p->target))
		return fail(HT_E_USAGE, "--target-loss: '%s' is no number", s);
	return HT_OK;
}

enum ht_status phases_read(struct cli *c, const struct ht_policy *own, struct phases *p)
{
	const char *value = option(c, OPTION_PHASES, NULL), *bar, *ratio;
	enum ht_status st;

	*p = (struct phases){ 0 };
	if (!value)
		return read_target(c, p);
	st = check_value(c, value);
	if (st == HT_OK)
		st = check_own(c, own);
	if (st != HT_OK)
		return st;
	bar = strchr(value, '|');
	p->on = true;
	p->by_loss = !strncmp(bar + 1, "loss", 4);
	ratio = strchr(bar + 1, '|');
	p->ratio = ratio && ratio[1] ? strtod(ratio + 1, NULL) : p->by_loss ? 1.05 : 0.9;
	st = read_target(c, p);
	if (st != HT_OK)
		return st;
	return open_low(c,
		!strncmp(value, "fast1|", 6)
			? is_family_v2(c) ? "mixed_bfloat16" : "allow_mix_precision_bf16"
		: is_family_v2(c) ? "mixed_float16"
				  : "allow_mix_precision_fp16",
		&p->low);
}

bool phases_low(struct phases *p, long long done, long long steps, double loss)
{
	if (!p->on || p->over)
		return false;
	if (p->by_loss) /* 0, or no number yet: it is not known */
		p->over = done && loss != 0 && loss <= p->target * p->ratio;
	else
		p->over = done >= (long long)floor((double)steps * p->ratio) || done + 1 >= steps;
	return !p->over;
}

void phases_free(struct phases *p)
{
	ht_policy_free(p->low);
	p->low = NULL;
}
