/* Parses emulations: the text behind a policy's name. */
#include "precision/policy.h"

#include <string.h>

static const struct {
	const char *name;
	unsigned roles; /* bit set over enum ht_role */
} keys[] = { { "activations", 1 << HT_ROLE_ACTIVATIONS }, { "weights", 1 << HT_ROLE_WEIGHTS },
	{ "gradients", 1 << HT_ROLE_GRADIENTS },
	{ "forward", 1 << HT_ROLE_ACTIVATIONS | 1 << HT_ROLE_WEIGHTS } };

/* Takes the text up to `end` off *s, together with `end`. */
static struct ht_str cut(struct ht_str *s, char end)
{
	const char *at = s->n ? memchr(s->p, end, s->n) : NULL;
	struct ht_str head = { s->p, at ? (size_t)(at - s->p) : s->n };

	s->p += head.n + (at ? 1 : 0);
	s->n -= head.n + (at ? 1 : 0);
	return head;
}

/* 0: the text does not begin with roles. */
static unsigned roles_of(struct ht_str part, struct ht_str *format)
{
	struct ht_str rest = part, key = cut(&rest, '=');

	*format = rest;
	for (size_t i = 0; i < HT_COUNT(keys); i++)
		if (ht_str_is(key, keys[i].name))
			return keys[i].roles;
	return 0;
}

static enum ht_status read_part(
	struct ht_str part, const char *what, struct ht_diags *d, struct ht_emulation *out)
{
	struct ht_str text;
	unsigned roles = roles_of(part, &text);
	struct ht_float_format f;

	if (!roles)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s: at '%.*s': expected activations=, weights=, gradients= or forward=, and a format",
			what, HT_STR_ARG(part));
	HT_TRY(ht_format_parse(text, what, d, &f));
	for (int r = 0; r < HT_ROLES; r++) {
		if (!(roles >> r & 1))
			continue;
		if (out->rounds[r])
			return ht_error(d, HT_E_USAGE, HT_NOWHERE,
				"%s: the format of %s stands twice", what, keys[r].name);
		out->rounds[r] = true;
		out->format[r] = f;
	}
	return HT_OK;
}

/* Whether all roles have the format of the first one. */
static bool is_one(const struct ht_emulation *e)
{
	for (int r = 0; r < HT_ROLES; r++)
		if (!e->rounds[r] || !ht_format_same(&e->format[r], &e->format[0]))
			return false;
	return true;
}

enum ht_status ht_emulation_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_emulation *out)
{
	struct ht_str format;

	*out = (struct ht_emulation){ 0 };
	if (roles_of(text, &format)) {
		while (text.n)
			HT_TRY(read_part(cut(&text, '/'), what, d, out));
	} else {
		HT_TRY(ht_format_parse(text, what, d, &out->format[0]));
		for (int r = 0; r < HT_ROLES; r++) {
			out->rounds[r] = true;
			out->format[r] = out->format[0];
		}
	}
	out->native = is_one(out) ? ht_format_dtype(&out->format[0]) : HT_INVALID;
	return HT_OK;
}

void ht_emulation_put(struct ht_buf *b, const struct ht_emulation *e)
{
	bool more = false;

	for (int r = 0; r < HT_ROLES && !is_one(e); r++) {
		if (!e->rounds[r])
			continue;
		ht_printf(b, "%s%s=", more ? "/" : "", keys[r].name);
		ht_format_put(b, &e->format[r]);
		more = true;
	}
	if (!more)
		ht_format_put(b, &e->format[0]);
}
