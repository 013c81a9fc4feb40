/* Reports in memory, which all forms of `explain` and of `compare` read. */
#ifndef HT_API_REPORT_H
#define HT_API_REPORT_H

#include "api/api.h"
#include "precision/report/report.h"

struct ht_report {
	struct ht_work w;
	struct ht_report_data data;
	bool priced;            /* casts are shown with their prices */
	struct ht_str evidence; /* JSON of the member `search`; empty: there is none */
	struct ht_graph *graph; /* as decided, with casts; NULL: the report was read from a file */
	/* Imported node → map: type attribute → struct ht_decided_type, sorted.  It has the
	 * units that changed or whose type was stated.  Empty if the report was read from a
	 * file. */
	struct ht_map types;
};

/* The decided dtype with respect to values: the type that they are rounded to. */
/* Whether a record is about the node `name`, or about one that was imported as `name`. */
bool ht_is_called(const struct ht_decided_node *n, const char *name);
/* HT_E_USAGE, with similar names, if there is no such record. */
enum ht_status ht_report_has(
	const struct ht_report *r, const char *name, struct ht_arena *a, struct ht_diags *d);
/* Bytes that a cast reads and writes in a run; -1: not known. */
int64_t ht_cast_bytes(const struct ht_decided_cast *c);
/* Parts that all texts share: "float32 -> bfloat16", "(black, list)", ", after X". */
void ht_put_reason(struct ht_buf *b, const struct ht_decided_type *t);
void ht_put_ms(struct ht_buf *b, int64_t ps);
void ht_put_number(struct ht_buf *b, const char *key, int64_t n); /* -1: null */
void ht_put_unit_json(struct ht_buf *b, const struct ht_decided_type *t);
/* Writes member `emulation`: the number formats in the place of types.  Writes nothing if there
 * are none. */
void ht_put_emulations(struct ht_buf *b, const struct ht_emulation *e, size_t n);
void ht_put_cast_json(struct ht_buf *b, const struct ht_decided_cast *c);
void ht_put_cast_text(struct ht_buf *b, const struct ht_decided_cast *c, bool priced);

const char *ht_dtype_colour(enum ht_dtype t); /* "#9ecae1" */

/* What the fusions did, and why fusions that are on did not match.  The text is for users who
 * switch fusions. */
bool ht_fusions_are_switched(const struct ht_fusions *f);
void ht_fusions_text(const struct ht_fusions *f, struct ht_buf *b);
void ht_fusions_json(const struct ht_fusions *f, struct ht_buf *b);

/* The forms of a report. */
void ht_report_json(struct ht_report *r, struct ht_buf *b);
/* Writes member `edges`, unless the report was read from a file. */
void ht_report_edges(struct ht_report *r, struct ht_buf *b);
void ht_report_text(struct ht_report *r, const char *node, struct ht_buf *b);
void ht_graph_dot(const struct ht_graph *g, struct ht_str label, struct ht_buf *b);
void ht_report_dot(struct ht_report *r, struct ht_buf *b);
void ht_report_node_data(struct ht_report *r, struct ht_buf *b);

#endif
