/* Rates as text:
 *
 *   halftone.rates/1
 *   level x86-64-v4+bf16
 *   machine AMD EPYC
 *   microcode 0xa10113e
 *   RATE NUMBER
 *   end
 *
 * with the rates of kernel/target.def.  Lines that begin with # are comments.  Machine and
 * microcode are for people only. */
#include "precision/optimal/rates.h"
#include "precision/policy.h"

#include <string.h>

#define SCHEMA "halftone.rates/1"

static const char *const names[HT_RATE_NUMBERS] = {
#define HT_RATE(member, meaning) #member,
#include "kernel/target.def"
};

struct reader {
	const char *path;
	struct ht_diags *diags;
	struct ht_stated_rates *out;
	long lines;
	bool begun, ended;
};

static enum ht_status bad(
	const struct reader *r, long line, const char *expected, struct ht_str found)
{
	return ht_error(r->diags, HT_E_INPUT, ht_at_line(r->path, line),
		"%s was expected; found '%.*s'", expected, HT_STR_ARG(found));
}

static struct ht_str first_word(struct ht_str *line)
{
	const struct ht_str whole = *line;
	const char *blank = memchr(whole.p, ' ', whole.n);
	const struct ht_str word = { whole.p, blank ? (size_t)(blank - whole.p) : whole.n };

	*line = ht_trim((struct ht_str){ whole.p + word.n, whole.n - word.n });
	return word;
}

static enum ht_status no_such_rate(const struct reader *r, long line, struct ht_str found)
{
	struct ht_str all[HT_RATE_NUMBERS], near[3];

	for (int i = 0; i < HT_RATE_NUMBERS; i++)
		all[i] = ht_str(names[i]);
	if (!ht_near_names(found, all, HT_RATE_NUMBERS, near))
		return bad(r, line, "a rate of halftone targets --format json", found);
	return ht_error(r->diags, HT_E_INPUT, ht_at_line(r->path, line),
		"there is no rate '%.*s'; did you mean '%.*s'?", HT_STR_ARG(found),
		HT_STR_ARG(near[0]));
}

/* The rate of dot products may be 0, if the machine has none; all others are positive. */
static bool may_be_zero(int rate)
{
	return rate == HT_RATE_dots_bf16 || rate == HT_RATE_products_f16;
}

static enum ht_status read_rate(struct reader *r, long line, struct ht_str name, struct ht_str rest)
{
	int i = 0;
	double v;

	while (i < HT_RATE_NUMBERS && !ht_str_is(name, names[i]))
		i++;
	if (i == HT_RATE_NUMBERS)
		return no_such_rate(r, line, name);
	if (r->out->stated[i])
		return bad(r, line, "one line for each rate", name);
	if (!ht_parse_double(rest, &v) || !(v >= (may_be_zero(i) ? 0 : 1e-6)) || v > 1e9)
		return bad(r, line, "a number from 1e-6 to 1e9", rest);
	r->out->stated[i] = true;
	r->out->value[i] = v;
	return HT_OK;
}

static enum ht_status read_line(void *self, struct ht_str line, long number)
{
	struct reader *r = self;
	struct ht_str rest = line, word = first_word(&rest);

	r->lines = number;
	if (!r->begun && !ht_str_is(line, SCHEMA))
		return bad(r, number, "rates begin with " SCHEMA ", which", line);
	if (r->ended)
		return bad(r, number, "nothing behind the line 'end'", line);
	if (!r->begun || ht_str_is(word, "machine") || ht_str_is(word, "microcode"))
		r->begun = true;
	else if (ht_str_is(word, "level") && rest.n)
		r->out->level = rest;
	else if (ht_str_is(line, "end"))
		r->ended = true;
	else
		return read_rate(r, number, word, rest);
	return HT_OK;
}

static struct ht_hash digest_of(const struct ht_stated_rates *s, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_printf(&b, "%.*s\n", HT_STR_ARG(s->level));
	for (int i = 0; i < HT_RATE_NUMBERS; i++)
		if (s->stated[i])
			ht_printf(&b, "%s %.9g\n", names[i], s->value[i]);
	return ht_hash_bytes(ht_buf_str(&b).p, ht_buf_str(&b).n);
}

static enum ht_status check(const struct reader *r)
{
	const struct ht_where end = ht_at_line(r->path, r->lines + 1);

	if (!r->begun)
		return ht_error(r->diags, HT_E_INPUT, ht_at_line(r->path, 1),
			"rates begin with " SCHEMA "; the file is empty");
	if (!r->ended)
		return ht_error(r->diags, HT_E_INPUT, end,
			"the line 'end' was expected: the file is cut off");
	if (!r->out->level.n)
		return ht_error(r->diags, HT_E_INPUT, end,
			"a line 'level NAME' was expected: the level whose machines have these rates");
	return HT_OK;
}

enum ht_status ht_stated_rates_parse(struct ht_str text, const char *path, struct ht_arena *a,
	struct ht_diags *d, const struct ht_stated_rates **out)
{
	struct ht_stated_rates *s = HT_NEW(a, struct ht_stated_rates);
	struct reader r = { .path = path, .diags = d, .out = s };
	struct ht_parse p = { .arena = a, .diags = d, .path = path };

	s->path = path;
	HT_TRY(ht_each_line(&p, text, read_line, &r));
	HT_TRY(check(&r));
	s->digest = digest_of(s, a);
	*out = s;
	return HT_OK;
}

bool ht_stated_rates_fit(const struct ht_stated_rates *s, const struct ht_target *t)
{
	return ht_str_is(s->level, t->level);
}

const struct ht_target *ht_stated_rates_target(
	const struct ht_stated_rates *s, const struct ht_target *t, struct ht_arena *a)
{
	const unsigned long long digest = s->digest.lo;
	struct ht_rates *rates = HT_NEW(a, struct ht_rates);

	*rates = *t->rates;
	for (int i = 0; i < HT_RATE_NUMBERS; i++)
		if (s->stated[i])
			ht_rate_set(rates, ht_str(names[i]), s->value[i]);
	rates->measured = true;
	rates->name = ht_str_printf(a, "%s~%016llx", t->rates->name, digest).p;
	return ht_target_with_rates(t, rates, a);
}

void ht_stated_rates_print(struct ht_buf *b, const struct ht_target *t, const struct ht_rates *now,
	const char *machine, const char *microcode)
{
	static const bool always[HT_RATE_NUMBERS] = { [HT_RATE_dots_bf16] = true,
		[HT_RATE_products_f16] = true,
		[HT_RATE_convert] = true,
		[HT_RATE_l3] = true,
		[HT_RATE_weights] = true,
		[HT_RATE_tensors] = true,
		[HT_RATE_weight_ps] = true };
	struct ht_target with = *t;
	struct ht_target_fact before, after;

	with.rates = now;
	ht_printf(b, SCHEMA "\nlevel %s\nmachine %s\nmicrocode %s\n", t->level, machine, microcode);
	for (int i = 0; i < HT_RATE_NUMBERS; i++) {
		ht_target_rate(t, (size_t)i, &before);
		ht_target_rate(&with, (size_t)i, &after);
		if (always[i] || after.value < before.value || after.value > before.value)
			ht_printf(b, "%s %.9g\n", names[i], after.value);
	}
	ht_puts(b, "end\n");
}
