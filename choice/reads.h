/* The options that a compilation reads.  A cache key contains exactly these. */
#ifndef HT_CHOICE_READS_H
#define HT_CHOICE_READS_H

#include "base/base.h"

/* The inputs that a compilation can read: the options of policies, and the others in
 * choice/options.def. */
enum ht_read {
#define READ(name) HT_READ_##name,
#define ROW_VALUE(name) HT_READ_##name,
#define ROW_PLACE(name) HT_READ_##name,
#define ROW_MODE(name)
#define POLICY_OPTION(name, values, fallback, parser, read, ...) ROW_##read(name)
#include "choice/options.def"
#undef ROW_MODE
#undef ROW_PLACE
#undef ROW_VALUE
	HT_READ_END
};

/* A set of reads; all zero: the empty set. */
struct ht_reads {
	uint8_t bits[(HT_READ_END + 7) / 8];
};

static inline bool ht_was_read(struct ht_reads r, enum ht_read what)
{
	return r.bits[what / 8] >> what % 8 & 1;
}

/* `r` NULL: reads are not recorded. */
static inline void ht_note_read(struct ht_reads *r, enum ht_read what)
{
	if (r)
		r->bits[what / 8] |= (uint8_t)(1u << what % 8);
}

bool ht_same_reads(struct ht_reads a, struct ht_reads b);

/* The name in keys and reports. */
const char *ht_read_name(enum ht_read r);
/* Adds the read with this name.  An unknown name, such as one of another version, is ignored. */
void ht_note_read_named(struct ht_reads *r, struct ht_str name);
/* Whether the option only says where a file other than the program is written. */
bool ht_read_is_place(enum ht_read r);

#endif
