/* The loss scale, with the rules of the vendor's FixedLossScaleManager and ExponentialUpdateLossScaleManager. */
#include "api/loss_scale.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GREATEST 3.4e38 /* the vendor's bound: a scale does not grow above it */
enum {
	MOST_SKIPPED = 100 /* after so many failed steps in a row at a scale that cannot shrink, the
		     * training diverges */
};

/* ---- as text ---- */

static enum ht_status refuse(const char *text, const char *what, struct ht_diags *d)
{
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"loss scale '%s': %s; there are none, fixed:SCALE[,unchecked] and "
		"dynamic[:SCALE][,incr-every=N][,decr-every=N][,incr-ratio=X][,decr-ratio=X]",
		text, what);
}

/* Reads a number in [least, most] that a comma or the end of the text follows, and moves *p behind it. */
static bool number(const char **p, double least, double most, double *out)
{
	char *end;
	double x = strtod(*p, &end);

	if (end == *p || (*end && *end != ',') || !(x >= least && x <= most))
		return false;
	*p = end;
	*out = x;
	return true;
}

static const char *parse_member(struct ht_scaling *s, const char **p)
{
	static const struct {
		const char *name;
		double least, most;
		/* The offset of the int64_t or of the float that the row sets; the other one is 0. */
		size_t steps, ratio;
		const char *said;
	} members[] = {
		{ "incr-every=", 1, 1e15, offsetof(struct ht_scaling, incr_every), 0,
			"incr-every is a whole number from 1" },
		{ "decr-every=", 1, 1e15, offsetof(struct ht_scaling, decr_every), 0,
			"decr-every is a whole number from 1" },
		{ "incr-ratio=", 1, 1e6, 0, offsetof(struct ht_scaling, incr_ratio),
			"incr-ratio is a number from 1 to 1e6" },
		{ "decr-ratio=", 1e-6, 1, 0, offsetof(struct ht_scaling, decr_ratio),
			"decr-ratio is a number from 1e-6 to 1" },
	};
	double x;

	for (size_t i = 0; i < HT_COUNT(members); i++) {
		size_t n = strlen(members[i].name);

		if (strncmp(*p, members[i].name, n) != 0)
			continue;
		*p += n;
		if (!number(p, members[i].least, members[i].most, &x) ||
			(members[i].steps && x != floor(x)))
			return members[i].said;
		if (members[i].steps)
			*(int64_t *)(void *)((char *)s + members[i].steps) = (int64_t)x;
		else
			*(float *)(void *)((char *)s + members[i].ratio) = (float)x;
		return NULL;
	}
	return "a part is unknown";
}

static const char *parse_dynamic(struct ht_scaling *s, const char *p)
{
	double x = (double)s->scale;
	const char *said = NULL;

	s->dynamic = true;
	if (*p == ':') {
		p++;
		if (!number(&p, 1, GREATEST, &x))
			return "a scale is a number from 1 to 3.4e38";
		s->scale = (float)x;
	}
	while (*p == ',' && !said) {
		p++;
		said = parse_member(s, &p);
	}
	return said ? said : *p ? "it goes on where it should end" : NULL;
}

static const char *parse_fixed(struct ht_scaling *s, const char *p)
{
	double x;

	if (!number(&p, 1, GREATEST, &x))
		return "a scale is a number from 1 to 3.4e38";
	s->scale = (float)x;
	s->unchecked = !strcmp(p, ",unchecked");
	return *p && !s->unchecked ? "only ',unchecked' may stand behind a fixed scale" : NULL;
}

enum ht_status ht_scaling_parse(const char *text, struct ht_scaling *s, struct ht_diags *d)
{
	const char *said = "it is of no kind that there is";

	*s = (struct ht_scaling){ .loss = NULL,
		.incr_every = 1000,
		.decr_every = 2,
		.incr_ratio = 2,
		.decr_ratio = 0.8F,
		.scale = 32768,
		.finite = 1 };
	if (!strcmp(text, "none"))
		return HT_OK;
	if (!strncmp(text, "fixed:", 6))
		said = parse_fixed(s, text + 6);
	else if (!strncmp(text, "dynamic", 7) && (!text[7] || strchr(":,", text[7])))
		said = parse_dynamic(s, text + 7);
	if (said)
		return refuse(text, said, d);
	s->loss = "";
	return HT_OK;
}

/* ---- steps ---- */

static void reset(struct ht_scaling *s)
{
	s->good = s->bad = 0;
}

static void grow(struct ht_scaling *s)
{
	if (++s->good < s->incr_every)
		return;
	if ((double)s->scale < GREATEST / (double)s->incr_ratio)
		s->scale *= s->incr_ratio;
	reset(s);
}

static void shrink(struct ht_scaling *s)
{
	s->good = 0;
	if (++s->bad < s->decr_every)
		return;
	s->scale = fmaxf(1, s->scale * s->decr_ratio);
	reset(s);
}

void ht_scaling_update(struct ht_scaling *s)
{
	s->steps++;
	if (s->unchecked)
		return;
	s->in_a_row = s->finite ? 0 : s->in_a_row + 1;
	s->skipped += !s->finite;
	s->diverges = s->in_a_row >= MOST_SKIPPED && (!s->dynamic || s->scale <= 1);
	if (s->dynamic)
		(s->finite ? grow : shrink)(s);
}

/* ---- checkpoints ---- */

void ht_scaling_numbers(const struct ht_scaling *s, int64_t out[HT_LOSS_SCALE_NUMBERS])
{
	uint32_t bits;

	memcpy(&bits, &s->scale, sizeof bits);
	out[0] = bits;
	out[1] = s->good;
	out[2] = s->bad;
	out[3] = s->steps;
	out[4] = s->skipped;
	out[5] = s->in_a_row;
}

void ht_scaling_take(struct ht_scaling *s, const int64_t in[HT_LOSS_SCALE_NUMBERS])
{
	uint32_t bits = (uint32_t)in[0];
	float scale;

	memcpy(&scale, &bits, sizeof scale);
	if (s->dynamic && scale >= 1 && isfinite(scale))
		s->scale = scale;
	s->good = in[1];
	s->bad = in[2];
	s->steps = in[3];
	s->skipped = in[4];
	s->in_a_row = in[5];
}
