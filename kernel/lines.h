/* lines: which line of a kernel's text (ht_kernel_print()) each piece of its machine code is of, and how to unwind it. */
#ifndef HT_KERNEL_LINES_H
#define HT_KERNEL_LINES_H

#include "base/base.h"

/* Code from byte `at` on, up to the next entry, is of line `line`, from 1; 0: of none. */
struct ht_line_at {
	uint32_t at, line;
};

struct ht_code_lines {
	const struct ht_line_at *line; /* by `at` */
	size_t lines;
	struct ht_str
		frame; /* a CIE and an FDE of DWARF's section .debug_frame, whose relocations are not applied; or empty */
};

/* As bytes, for caches. */
void ht_code_lines_pack(const struct ht_code_lines *l, struct ht_buf *out);
/* The result refers to `packed`, which lies at a multiple of 4.  False: this is no such thing. */
bool ht_code_lines_unpack(struct ht_str packed, struct ht_code_lines *out);

#endif
