/* The parser's state, shared by its files. */
#ifndef HT_TEXT_PARSE_H
#define HT_TEXT_PARSE_H

#include "ir/text_lex.h"

/* A use of a node that may be defined further down.  Resolved at the end of its graph. */
struct ht_pending {
	const char *at;
	struct ht_str name;
	struct ht_value *value; /* where the result goes: one of these two */
	struct ht_node **control;
};

struct ht_parse {
	struct ht_lex lex;
	struct ht_graph *g; /* the graph to which nodes are added */
	struct ht_weights weights;
	size_t constant_bytes, implied_results;
	int depth; /* nesting of attributes */
	struct ht_pending *pending;
	size_t pendings, pending_cap;
};

enum ht_status ht_parse_tensor(struct ht_parse *p, struct ht_tensor **out);
/* { name=value, … } */
enum ht_status ht_parse_attrs(struct ht_parse *p, struct ht_attr **out);

#endif
