/* Grammars of values (api/grammars.def): functions that parse a value in full. */
#ifndef HT_GRAMMAR_H
#define HT_GRAMMAR_H

#include "base/base.h"

/* Why a value is malformed. */
struct ht_why {
	char text[320];
};

/* Writes the reason with printf's format; false, so that a check can return it. */
bool ht_why(struct ht_why *w, const char *fmt, ...) HT_PRINTF(2, 3);

typedef bool ht_grammar_fn(const char *value, struct ht_why *w);

#define GRAMMAR(option, function, form, example) ht_grammar_fn ht_grammar_##function;
#include "api/grammars.def"
#undef GRAMMAR

struct ht_grammar {
	const char *option;
	ht_grammar_fn *check;
	const char *form, *example;
};
/* NULL: there is no grammar `i`. */
const struct ht_grammar *ht_grammar(size_t i);
/* The grammar of the option with this name in the table; NULL: none. */
const struct ht_grammar *ht_grammar_of(const char *option);

/* ---- parts of values ---- */

/* Takes the text before `stop`, or all of it; false if nothing is left.  *rest becomes {NULL, 0}
 * behind the last part, so that "a," has two parts. */
bool ht_next_part(struct ht_str *rest, char stop, struct ht_str *part);
/* Parses a whole number that consists of decimal digits only. */
bool ht_digits(struct ht_str s, int64_t *out);
bool ht_one_of(struct ht_str s, const char *const *names, size_t n);

#endif
