/* Remembers the sets that a search asked for. */
#include "precision/search/known.h"

#include <string.h>

size_t ht_set_size(const struct ht_minimal *m, const uint8_t *set)
{
	size_t n = 0;

	for (size_t u = 0; u < m->units; u++)
		n += set[u];
	return n;
}

static size_t words(const struct ht_known *k)
{
	return (k->m->units + 63) / 64;
}

static uint64_t *bits_of(struct ht_known *k, const uint8_t *set)
{
	uint64_t *bits = HT_NEW_ARRAY(k->a, uint64_t, words(k));

	for (size_t u = 0; u < k->m->units; u++)
		bits[u / 64] |= (uint64_t)(set[u] != 0) << u % 64;
	return bits;
}

static bool is_within(const struct ht_known *k, const uint64_t *set, const uint64_t *other)
{
	for (size_t i = 0; i < words(k); i++)
		if (set[i] & ~other[i])
			return false;
	return true;
}

static void add(struct ht_known *k, struct ht_sets *to, const uint8_t *set)
{
	uint8_t *copy = HT_NEW_ARRAY(k->a, uint8_t, k->m->units);

	if (k->m->units)
		memcpy(copy, set, k->m->units);
	to->of = ht_grow(k->a, to->of, to->n, &to->cap, sizeof *to->of);
	to->of[to->n++] = (struct ht_asked){ copy, bits_of(k, set), ht_set_size(k->m, set) };
}

enum ht_answer ht_known_ask(struct ht_known *k, const uint8_t *set)
{
	enum ht_answer answer = k->m->ask(k->m->self, set);

	if (answer != HT_ANSWER_UNKNOWN)
		add(k, answer == HT_ANSWER_PASS ? &k->passed : &k->failed, set);
	return answer;
}

enum ht_answer ht_known_infer(struct ht_known *k, const uint8_t *set)
{
	const uint64_t *bits = bits_of(k, set);

	for (size_t i = 0; i < k->failed.n; i++)
		if (is_within(k, bits, k->failed.of[i].bits))
			return HT_ANSWER_FAIL;
	for (size_t i = 0; i < k->passed.n; i++)
		if (is_within(k, k->passed.of[i].bits, bits))
			return HT_ANSWER_PASS;
	return ht_known_ask(k, set);
}
