/* tables_file: the lines of a text file as keys and values of a table, for pass tables. */
#ifndef HT_PASSES_TABLES_FILE_H
#define HT_PASSES_TABLES_FILE_H

#include "ir/ir.h"

/* What `fills`, a node of ht_fills_table_from_file(), makes of the file `f`, which was read, for
 * the table `table`: as many keys as values, in the graph's arena `a`.  A wrong line is
 * HT_E_INPUT, with the place in the file. */
enum ht_status ht_table_of_file(const struct ht_node *fills, const struct ht_named_file *f,
	const struct ht_node *table, struct ht_arena *a, struct ht_diags *d,
	struct ht_tensor **keys, struct ht_tensor **values);

#endif
