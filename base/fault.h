/* fault: why a run stops, as numbers and as texts.  base/fault.def has the table. */
#ifndef HT_FAULT_H
#define HT_FAULT_H

#include "base/line.h"

#define HT_OF_KERNEL(name, number, net, text) HT_FAULT_##name = (number),
#define HT_OF_RUN(name, number, net, text)
#define HT_OF_CALLER(name, number, net, text)
#define HT_OF_SENTENCE(name, number, text)
/* The non-zero return values of kernels. */
enum ht_fault {
	HT_FAULT_NONE = 0,
#include "base/fault.def"
};
#undef HT_OF_KERNEL
#undef HT_OF_RUN

#define HT_OF_KERNEL(name, number, net, text)
#define HT_OF_RUN(name, number, net, text) HT_EXEC_##name = (number),
/* Why the executor itself stops a run. */
enum ht_exec_fault {
#include "base/fault.def"
};
#undef HT_OF_RUN
#undef HT_OF_CALLER

#define HT_OF_RUN(name, number, net, text)
#define HT_OF_CALLER(name, number, net, text) HT_AOT_E_##name = (number),
/* Why a net does not begin a run. */
enum ht_aot_status {
	HT_AOT_OK = 0,
#include "base/fault.def"
};
#undef HT_OF_CALLER
#undef HT_OF_SENTENCE

#define HT_OF_CALLER(name, number, net, text)
#define HT_OF_SENTENCE(name, number, text) HT_SENTENCE_##name = (number),
enum ht_sentence {
#include "base/fault.def"
};
#undef HT_OF_KERNEL
#undef HT_OF_RUN
#undef HT_OF_CALLER
#undef HT_OF_SENTENCE

/* Whether the message of the step (struct ht_words) follows the text of the fault. */
static inline bool ht_fault_has_words(int32_t fault)
{
	return fault >= HT_FAULT_NAN && fault <= HT_FAULT_ASSERTION;
}

/* fault.c: all texts of the table: the number in decimal, a space, the text and a zero; behind the last one another zero.  A net has a copy
 * in its data, as its code has no texts. */
extern const char ht_fault_texts[];

/* The text of a number in such a list; of a number that is not there that of UNKNOWN. */
HT_LINE_CALLED const char *ht_fault_text_in(const char *texts, int32_t number)
{
	const char *unknown = texts;

	while (*texts) {
		int32_t n = 0;

		for (; *texts != ' '; texts++)
			n = 10 * n + (*texts - '0');
		texts++;
		if (n == number)
			return texts;
		if (n == HT_SENTENCE_UNKNOWN)
			unknown = texts;
		while (*texts++)
			;
	}
	return unknown;
}

/* Appends the text of a number, with `value` for '#' and `name` for '@'. */
HT_LINE_CALLED void ht_fault_put(
	struct ht_line *m, const char *texts, int32_t number, uint64_t value, const char *name)
{
	for (const char *c = ht_fault_text_in(texts, number); *c; c++) {
		if (*c == '#')
			ht_line_uint(m, value);
		else if (*c == '@')
			ht_line_text(m, name);
		else
			ht_line_char(m, *c);
	}
}

#endif
