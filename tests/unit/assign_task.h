/* Random assignment problems, and the enumeration of all their labellings. */
#ifndef HT_TEST_ASSIGN_TASK_H
#define HT_TEST_ASSIGN_TASK_H

#include "precision/optimal/assign.h"
#include "tests/unit/random.h"

#include <string.h>

enum { MOST_UNITS = 16, MOST_TENSORS = 24, MOST_USERS = 5 };

struct task {
	uint32_t units, tensors;
	int64_t cost[MOST_UNITS][HT_LABELS];
	uint32_t producer[MOST_TENSORS], users[MOST_TENSORS], user[MOST_TENSORS][MOST_USERS];
	int64_t up[MOST_TENSORS][HT_BOUNDARIES], down[MOST_TENSORS][HT_BOUNDARIES];
};

static void random_task(struct task *t, uint32_t units, bool three)
{
	memset(t, 0, sizeof *t);
	t->units = units;
	t->tensors = below(MOST_TENSORS);
	for (uint32_t u = 0; u < units; u++)
		for (int l = 0; l < HT_LABELS; l++)
			t->cost[u][l] = (!three && l == HT_LABEL_F16) || !below(9)
						? HT_COST_NEVER
						: (int64_t)below(30) - 5;
	for (uint32_t i = 0; i < t->tensors; i++) {
		t->producer[i] = below(units);
		t->users[i] = below(MOST_USERS + 1);
		for (uint32_t j = 0; j < t->users[i]; j++)
			t->user[i][j] = below(units);
		for (int b = 0; b < HT_BOUNDARIES; b++) {
			t->up[i][b] = (int64_t)below(12);
			t->down[i][b] = (int64_t)below(12);
		}
	}
}

static void build(const struct task *t, const uint32_t *place, const uint32_t *order,
	struct ht_arena *a, struct ht_assign *p)
{
	uint32_t at[MOST_UNITS];

	ht_assign_init(p, a);
	for (uint32_t u = 0; u < t->units; u++)
		at[place[u]] = u;
	for (uint32_t u = 0; u < t->units; u++)
		ht_assign_unit(p, t->cost[at[u]]);
	for (uint32_t i = 0; i < t->tensors; i++) {
		uint32_t k = order[i];
		struct ht_assign_tensor *x = ht_assign_tensor(p, place[t->producer[k]]);
		memcpy(x->up, t->up[k], sizeof x->up);
		memcpy(x->down, t->down[k], sizeof x->down);
		for (uint32_t j = 0; j < t->users[k]; j++)
			ht_assign_user(p, place[t->user[k][j]]);
	}
}

/* The first labelling. */
static void first_labels(const struct task *t, uint8_t *label)
{
	for (uint32_t u = 0; u < t->units; u++)
		for (label[u] = 0;
			label[u] + 1 < HT_LABELS && t->cost[u][label[u]] == HT_COST_NEVER;)
			label[u]++;
}

/* The next labelling, as a number is incremented; units without a choice keep their label. */
static bool next_labels(const struct task *t, uint8_t *label)
{
	for (uint32_t u = 0; u < t->units; u++) {
		do
			label[u]++;
		while (label[u] < HT_LABELS && t->cost[u][label[u]] == HT_COST_NEVER);
		if (label[u] < HT_LABELS)
			return true;
		label[u] = 0;
		while (label[u] + 1 < HT_LABELS && t->cost[u][label[u]] == HT_COST_NEVER)
			label[u]++;
	}
	return false;
}

#endif
