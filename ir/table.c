/* Which ops make tables and fill them. */
#include "ir/ir.h"

bool ht_is_mutable_table(const struct ht_node *n)
{
	return n->op == HT_OP_MutableHashTableV2 || n->op == HT_OP_MutableHashTableOfTensorsV2 ||
	       n->op == HT_OP_AnonymousMutableHashTable ||
	       n->op == HT_OP_AnonymousMutableHashTableOfTensors;
}

bool ht_is_table(const struct ht_node *n)
{
	return n->op == HT_OP_HashTableV2 || n->op == HT_OP_AnonymousHashTable ||
	       ht_is_mutable_table(n);
}

bool ht_is_table_of_run(const struct ht_node *n)
{
	return n->op == HT_OP_AnonymousHashTable || n->op == HT_OP_AnonymousMutableHashTable ||
	       n->op == HT_OP_AnonymousMutableHashTableOfTensors;
}

const char *ht_general_table(const struct ht_node *n)
{
	return n->op == HT_OP_MutableDenseHashTableV2 ? "MutableHashTableOfTensorsV2"
	       : n->op == HT_OP_AnonymousMutableDenseHashTable
		       ? "AnonymousMutableHashTableOfTensors"
		       : NULL;
}

struct ht_shape ht_table_row(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "value_shape");

	return a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_SCALAR;
}

int64_t ht_table_most_exported(const struct ht_node *table)
{
	enum { KEYS = 1 << 16, ELEMENTS = 1 << 24 };
	int64_t row = ht_shape_known(ht_table_row(table)) ? ht_shape_count(ht_table_row(table)) : 0;

	if (row > ELEMENTS)
		return 1;
	return row > ELEMENTS / KEYS ? ELEMENTS / row : KEYS;
}

bool ht_fills_table(const struct ht_node *n)
{
	return n->op == HT_OP_LookupTableImportV2 || n->op == HT_OP_InitializeTableV2;
}

bool ht_fills_table_from_file(const struct ht_node *n)
{
	return n->op == HT_OP_InitializeTableFromTextFileV2;
}

bool ht_restores(const struct ht_node *n)
{
	return n->op == HT_OP_RestoreV2 && n->ins == 3;
}
