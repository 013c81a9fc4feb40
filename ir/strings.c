/* Numbers that represent strings in graphs after the pass "strings". */
#include "ir/ir.h"

#include <string.h>

void ht_strings_init(struct ht_map *strings, struct ht_arena *a)
{
	ht_map_init(strings, a);
	ht_map_at(strings, HT_STR(""));
}

/* The last string of the file is repeated; if the file has none, all strings are empty. */
static struct ht_str string_at(const struct ht_tensor *t, size_t i)
{
	if (!t->values)
		return HT_STR("");
	return t->strings[i < t->values ? i : t->values - 1];
}

struct ht_tensor *ht_string_numbers(
	const struct ht_tensor *t, struct ht_map *strings, struct ht_arena *a)
{
	size_t n = (size_t)ht_shape_count(t->shape);
	struct ht_blob *blob = ht_blob_in(a, n * sizeof(int64_t));

	for (size_t i = 0; i < n; i++) {
		int64_t number = ht_map_at(strings, string_at(t, i)) - strings->entries;

		memcpy((char *)blob->p + i * sizeof number, &number, sizeof number);
	}
	return ht_tensor_sharing(a, HT_I64, t->shape, blob);
}

#define CONTROLS                                                                                   \
	(HT_SWITCHES | HT_DISPATCHES | HT_MERGES | HT_ENTERS | HT_ITERATES | HT_CALLS_ONE |        \
		HT_BRANCHES | HT_LOOPS)

bool ht_takes_string_numbers(const struct ht_node *n)
{
	if (ht_is(n, HT_CONSTANT | HT_FED | HT_ONLY_MOVES | HT_TELLS_SHAPE | CONTROLS) ||
		ht_is_table(n) || ht_fills_table(n))
		return true;
	switch (n->op) {
	case HT_OP_Equal:
	case HT_OP_NotEqual:
	case HT_OP_LookupTableExportV2:
	case HT_OP_LookupTableFindV2:
	case HT_OP_LookupTableInsertV2:
	case HT_OP_LookupTableRemoveV2:
	case HT_OP_LookupTableSizeV2:
	case HT_OP_Unique:
	case HT_OP_UniqueWithCounts:
	case HT_OP__Relaid:
	case HT_OP__Padded:
	case HT_OP__Within:
		return true;
	default:
		return false;
	}
}
