/* The names of the inputs that a compilation can read. */
#include "choice/reads.h"

#include <string.h>

static const struct {
	const char *name;
	bool place;
} rows[HT_READ_END] = {
#define READ(name) [HT_READ_##name] = { #name, false },
#define ROW_VALUE(name) [HT_READ_##name] = { #name, false },
#define ROW_PLACE(name) [HT_READ_##name] = { #name, true },
#define ROW_MODE(name)
#define POLICY_OPTION(name, values, fallback, parser, read, ...) ROW_##read(name)
#include "choice/options.def"
};

bool ht_same_reads(struct ht_reads a, struct ht_reads b)
{
	return !memcmp(a.bits, b.bits, sizeof a.bits);
}

const char *ht_read_name(enum ht_read r)
{
	return rows[r].name;
}

void ht_note_read_named(struct ht_reads *r, struct ht_str name)
{
	for (int i = 0; i < HT_READ_END; i++)
		if (ht_str_is(name, rows[i].name))
			ht_note_read(r, (enum ht_read)i);
}

bool ht_read_is_place(enum ht_read r)
{
	return rows[r].place;
}
