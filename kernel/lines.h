/* lines: to which line of a kernel's text (ht_kernel_print()) each piece of its machine code
 * belongs, and how to unwind the code. */
#ifndef HT_KERNEL_LINES_H
#define HT_KERNEL_LINES_H

#include "base/base.h"

/* Code from byte `at` on, up to the next entry, belongs to line `line`, from 1; 0: to no line. */
struct ht_line_at {
	uint32_t at, line;
};

struct ht_code_lines {
	const struct ht_line_at *line; /* sorted by `at` */
	size_t lines;
	struct ht_str
		frame; /* a CIE and an FDE of DWARF's section .debug_frame, whose relocations are not applied; or empty */
};

/* Serialises the lines, for caches. */
void ht_code_lines_pack(const struct ht_code_lines *l, struct ht_buf *out);
/* The result refers to `packed`, which must be at a multiple of 4.  False: the bytes are
 * malformed. */
bool ht_code_lines_unpack(struct ht_str packed, struct ht_code_lines *out);

#endif
