/* words: the message of a step that stops a run, as pieces of text and elements of the step's arguments. */
#ifndef HT_WORDS_H
#define HT_WORDS_H

#include "base/base.h"

/* One piece of a message: a text, followed by elements of one tensor. */
struct ht_words {
	const char *text;
	/* 0: no elements follow the text; i + 1: elements follow of the step's argument i, a dense
	 * row-major tensor of at least the shape `dim`. */
	uint64_t arg;
	uint64_t dtype; /* enum ht_dtype: plain numbers or BOOL */
	uint64_t most;  /* at most so many elements are printed; "..." stands for the rest */
	size_t rank;
	int64_t *dim;
};

/* Whether ht_words_print() (base/words_print.h) stays inside the arguments: there are `args` arguments, and argument i has
 * bytes_of(arg, i) bytes. */
bool ht_words_fit(const struct ht_words *w, size_t args,
	uint64_t (*bytes_of)(const void *arg, size_t i), const void *arg);

#endif
