/* The memory of a step, by what it is for (docs/train-memory.md). */
#include "cli/cli.h"

#include <halftone/train.h>

static void put_members(const struct ht_step_memory *m, struct text *t)
{
	text_printf(t,
		"\"variables\": %zu, \"slots\": %zu, \"gradients\": %zu, \"copies\": %zu, "
		"\"activations\": %zu, \"arena\": %zu, \"peak\": %zu, \"bound\": %zu",
		m->variables, m->slots, m->gradients, m->copies, m->activations, m->arena, m->peak,
		m->bound);
}

static void put_text(const struct ht_step_memory *m, struct text *t)
{
	text_printf(t,
		"%zu bytes: %zu of variables, %zu of slots, %zu of arena; alive at most %zu of gradients, "
		"%zu of copies, %zu of activations",
		m->peak, m->variables, m->slots, m->arena, m->gradients, m->copies, m->activations);
}

void put_step_memory(struct text *t, const struct ht_step_memory *m, bool json)
{
	(json ? put_members : put_text)(m, t);
}

enum ht_status text_step_memory(
	struct text *t, const struct cli *c, const struct ht_program *p, bool json)
{
	struct ht_step_memory m = HT_STEP_MEMORY_INIT;
	enum ht_status st = ht_program_step_memory(p, c->diags, &m);

	put_step_memory(t, &m, json);
	return st;
}
