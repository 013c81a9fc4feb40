/* strings.c: inputs and outputs of strings of the runs of one context. */
#ifndef HT_API_TEXTS_H
#define HT_API_TEXTS_H

#include "api/api.h"

struct ht_texts;
struct ht_strings;

/* NULL: out of memory. */
struct ht_texts *ht_texts_new(const struct ht_program *p, struct ht_strings *strings);
void ht_texts_free(struct ht_texts *t);
/* Before each run: the strings of the last one are forgotten. */
void ht_texts_begin(struct ht_texts *t);
/* The numbers of the strings of input `i`, whose type and shape are as they should be: *numbers is valid up to the next run. */
enum ht_status ht_texts_take(struct ht_texts *t, size_t i, const struct ht_array *a,
	struct ht_diags *d, const void **numbers);
/* Memory for the numbers of output `i`, likewise, and behind the run its `count` strings. */
enum ht_status ht_texts_expect(
	struct ht_texts *t, size_t i, size_t count, struct ht_diags *d, void **numbers);
enum ht_status ht_texts_give(struct ht_texts *t, size_t i, size_t count, struct ht_diags *d);
/* Output `i` as struct ht_array has it. */
const void *ht_texts_block(const struct ht_texts *t, size_t i, size_t *bytes);

#endif
