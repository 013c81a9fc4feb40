/* words: what a step says when it stops a run: text, and elements of tensors that it was given. */
#ifndef HT_WORDS_H
#define HT_WORDS_H

#include "base/base.h"

/* A piece of it: a text, and behind it elements of one tensor. */
struct ht_words {
	const char *text;
	/* 0: there are no elements; i + 1: those of the step's argument i, which has at least as many as
	 * the dimensions say, one after the other. */
	uint64_t arg;
	uint64_t dtype; /* enum ht_dtype: plain numbers or BOOL */
	uint64_t most;  /* elements are written out; the others are "..." */
	size_t rank;
	int64_t *dim;
};

/* Whether ht_words_put() may be called with arguments of which argument i has bytes_of(arg, i) bytes. */
bool ht_words_fit(const struct ht_words *w, size_t args,
	uint64_t (*bytes_of)(const void *arg, size_t i), const void *arg);
/* Appends the text and elements of n pieces; `args`: the memory of the step's arguments. */
void ht_words_put(struct ht_buf *b, const struct ht_words *w, size_t n, void *const *args);

#endif
