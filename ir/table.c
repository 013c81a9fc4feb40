/* Which ops make tables and fill them. */
#include "ir/ir.h"

bool ht_is_table(const struct ht_node *n)
{
	return n->op == HT_OP_HashTableV2 || n->op == HT_OP_AnonymousHashTable;
}

bool ht_is_table_of_run(const struct ht_node *n)
{
	return n->op == HT_OP_AnonymousHashTable;
}

bool ht_fills_table(const struct ht_node *n)
{
	return n->op == HT_OP_LookupTableImportV2 || n->op == HT_OP_InitializeTableV2;
}
