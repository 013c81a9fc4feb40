/* Reports in memory: what all forms of explaining and all comparisons read. */
#ifndef HT_API_REPORT_H
#define HT_API_REPORT_H

#include "api/api.h"
#include "precision/report/report.h"

struct ht_report {
	struct ht_work w;
	struct ht_report_data data;
	bool priced;            /* casts are told with what they cost */
	struct ht_str evidence; /* JSON of the member `search`; empty: there is none */
	struct ht_graph *graph; /* as decided, with casts; NULL: the report was read from a file */
	/* Imported node → map: type attribute → struct ht_decided_type, of what changed or was stated;
	 * sorted.  Empty where the report was read. */
	struct ht_map types;
};

/* The decided dtype as far as values are concerned: what they are rounded to. */
/* Whether a record is of the node called so, or of one imported as such. */
bool ht_is_called(const struct ht_decided_node *n, const char *name);
/* HT_E_USAGE with near names where no record is. */
enum ht_status ht_report_has(
	const struct ht_report *r, const char *name, struct ht_arena *a, struct ht_diags *d);
/* Bytes that a cast reads and writes while running; -1: not known. */
int64_t ht_cast_bytes(const struct ht_decided_cast *c);
/* "float32 -> bfloat16", "(black, list)", ", after X": parts that all texts share. */
void ht_put_reason(struct ht_buf *b, const struct ht_decided_type *t);
void ht_put_ms(struct ht_buf *b, int64_t ps);
void ht_put_number(struct ht_buf *b, const char *key, int64_t n); /* -1: null */
void ht_put_unit_json(struct ht_buf *b, const struct ht_decided_type *t);
/* Member emulation, of formats in the place of types; nothing where there are none. */
void ht_put_emulations(struct ht_buf *b, const struct ht_emulation *e, size_t n);
void ht_put_cast_json(struct ht_buf *b, const struct ht_decided_cast *c);
void ht_put_cast_text(struct ht_buf *b, const struct ht_decided_cast *c, bool priced);

const char *ht_dtype_colour(enum ht_dtype t); /* "#9ecae1" */

/* What fusions did, and why those that are on did not match.  The text is for who switches them. */
bool ht_fusions_are_switched(const struct ht_fusions *f);
void ht_fusions_text(const struct ht_fusions *f, struct ht_buf *b);
void ht_fusions_json(const struct ht_fusions *f, struct ht_buf *b);

/* The forms. */
void ht_report_json(struct ht_report *r, struct ht_buf *b);
/* Member edges; nothing where the report was read from a file. */
void ht_report_edges(struct ht_report *r, struct ht_buf *b);
void ht_report_text(struct ht_report *r, const char *node, struct ht_buf *b);
void ht_graph_dot(const struct ht_graph *g, struct ht_str label, struct ht_buf *b);
void ht_report_dot(struct ht_report *r, struct ht_buf *b);
void ht_report_node_data(struct ht_report *r, struct ht_buf *b);

#endif
