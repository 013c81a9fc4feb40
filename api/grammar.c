/* The table of grammars. */
#include "api/grammar.h"

#include <string.h>

static const struct ht_grammar grammars[] = {
#define GRAMMAR(option, function, form, example) { option, ht_grammar_##function, form, example },
#include "api/grammars.def"
#undef GRAMMAR
};

const struct ht_grammar *ht_grammar(size_t i)
{
	return i < HT_COUNT(grammars) ? &grammars[i] : NULL;
}

const struct ht_grammar *ht_grammar_of(const char *option)
{
	for (size_t i = 0; i < HT_COUNT(grammars); i++)
		if (!strcmp(grammars[i].option, option))
			return &grammars[i];
	return NULL;
}
