/* --steady: inputs that keep their elements from run to run, so that programs keep what they
 * derive from them. */
#include "cli/cli.h"

#include <stdlib.h>

enum ht_status steady_set(struct cli *c, struct ht_model *m)
{
	struct option_list list;
	enum ht_status st = option_list(c, OPTION_STEADY, &list);

	for (size_t i = 0; i < list.n && st == HT_OK; i++)
		st = ht_model_set_steady(m, list.item[i], c->diags);
	free(list.text);
	return st;
}

enum ht_status steady_find(struct cli *c, struct session *s)
{
	struct option_list list;
	size_t *at = NULL;
	enum ht_status st = option_list(c, OPTION_STEADY, &list);

	if (list.n)
		at = must_alloc(list.n * sizeof *at);
	for (size_t i = 0; i < list.n && st == HT_OK; i++)
		if (!ht_program_input_named(s->program, list.item[i], &at[i]))
			st = fail(HT_E_USAGE, "--steady: the program has no input '%s'",
				list.item[i]);
	s->steady = at;
	s->steadies = st == HT_OK ? list.n : 0;
	free(list.text);
	return st;
}

enum ht_status steady_tell(struct cli *c, struct session *s)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < s->steadies && st == HT_OK; i++)
		st = ht_context_input_unchanged(s->context, s->steady[i], c->diags);
	return st;
}
