/* Reads equations of Einsum by TensorFlow's rules. */
#include "ir/einsum.h"

#include <string.h>

static bool has(const struct ht_einsum_term *t, char label)
{
	return memchr(t->before.p, label, t->before.n) || memchr(t->after.p, label, t->after.n);
}

static const char *read_term(struct ht_str s, struct ht_einsum_term *t)
{
	const char *dot = s.n ? memchr(s.p, '.', s.n) : NULL;

	*t = (struct ht_einsum_term){ s, { s.p + s.n, 0 }, dot != NULL };
	if (s.n > HT_MAX_RANK)
		return "has more labels than a tensor has axes";
	if (!dot)
		return NULL;
	t->before.n = (size_t)(dot - s.p);
	s = (struct ht_str){ dot, s.n - t->before.n };
	if (!ht_str_starts(s, "..."))
		return "has a '.' that is no part of '...'";
	t->after = (struct ht_str){ s.p + 3, s.n - 3 };
	if (has(t, '.'))
		return "has a '.' behind '...'";
	return NULL;
}

/* Removes the text up to `separator` from `*s`; false: there is no separator. */
static bool cut(struct ht_str *s, const char *separator, struct ht_str *front)
{
	size_t n = strlen(separator);

	*front = (struct ht_str){ s->p, 0 };
	for (; front->n + n <= s->n; front->n++) {
		if (memcmp(s->p + front->n, separator, n) != 0)
			continue;
		*s = (struct ht_str){ s->p + front->n + n, s->n - front->n - n };
		return true;
	}
	*front = *s;
	return false;
}

static const char *check_result(const struct ht_einsum *e)
{
	for (int32_t k = 0; k < 2; k++) {
		struct ht_str s = k ? e->out.after : e->out.before;

		for (size_t i = 0; i < s.n; i++)
			if (!has(&e->in[0], s.p[i]) &&
				(e->operands == 1 || !has(&e->in[1], s.p[i])))
				return "has a label in the result that no operand has";
	}
	return NULL;
}

const char *ht_einsum_read(struct ht_str equation, struct ht_einsum *e)
{
	struct ht_str operands, result = equation, rest, term;
	const char *why;
	bool more = true;

	*e = (struct ht_einsum){ 0 };
	if (!cut(&result, "->", &operands))
		return "has no '->'";
	rest = result;
	if (cut(&rest, "->", &term))
		return "has more than one '->'";
	for (; more; e->operands++) {
		more = cut(&operands, ",", &term);
		if (e->operands == 2)
			return "has more than two operands";
		if ((why = read_term(term, &e->in[e->operands])))
			return why;
	}
	why = read_term(result, &e->out);
	return why ? why : check_result(e);
}

int64_t ht_einsum_labels(const struct ht_einsum_term *t)
{
	return (int64_t)(t->before.n + t->after.n);
}

int32_t ht_einsum_name(const struct ht_einsum_term *t, int32_t rank, int32_t axis)
{
	int32_t before = (int32_t)t->before.n, after = rank - (int32_t)t->after.n;

	if (axis < before)
		return (unsigned char)t->before.p[axis];
	if (axis >= after)
		return (unsigned char)t->after.p[axis - after];
	return HT_EINSUM_ELLIPSIS + after - 1 - axis;
}
