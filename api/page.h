/* Results as a page: checked JSON, and the sections that each kind of result gets. */
#ifndef HT_API_PAGE_H
#define HT_API_PAGE_H

#include <halftone/page.h>

#include "api/api.h"
#include "page/page.h"
#include "precision/json.h"

/* ---- page_forms.c: which members the JSON must have ---- */

struct ht_json_form;
extern const struct ht_json_form ht_comparison_form, ht_decisions_form, ht_train_form,
	ht_train_log_form; /* the last: an array of the lines of a log */
/* HT_E_INPUT, with the line, if a member is missing or has another type.  Members that the form
 * does not name may have any value. */
enum ht_status ht_json_check(struct ht_json *j, const struct ht_json_form *form);

/* ---- page_values.c: members of checked JSON ---- */

/* NULL where the object lacks it or has null. */
const cJSON *ht_member(const cJSON *object, const char *name);
/* Empty if there is none. */
struct ht_str ht_member_text(const cJSON *object, const char *name);
struct ht_str ht_item_text(const cJSON *array, int i);
/* NaN if there is none. */
double ht_member_number(const cJSON *object, const char *name);
double ht_json_number(const cJSON *value);
bool ht_json_is_nan(const cJSON *value); /* "nan" */
bool ht_member_is_true(const cJSON *object, const char *name);

/* `v` with three digits. */
struct ht_str ht_text_number(struct ht_arena *a, double v);
struct ht_str ht_text_member(struct ht_arena *a, const cJSON *object, const char *name);
/* The others return an empty text if `v` is NaN; ht_text_member() does if there is no such
 * member. */
struct ht_str ht_text_exact(struct ht_arena *a, double v);
struct ht_str ht_text_bytes(struct ht_arena *a, double v);
struct ht_str ht_text_price(struct ht_arena *a, double ps);
/* "1.2", and "1.1 to 1.4" on a line below, of an object with `name`, `low` and `high`. */
struct ht_str ht_text_interval(struct ht_arena *a, const cJSON *object, const char *name);

/* A table of two columns: a name and its value. */
extern const struct ht_table_column ht_fact_columns[2];
void ht_fact(
	struct ht_table *t, const char *what, struct ht_str value); /* adds no row if `value` is
								     * empty */

/* ---- functions that write one section each ---- */

struct ht_page_work {
	struct ht_buf *b; /* the sections */
	struct ht_arena *a;
	struct ht_str *title, *model; /* of each */
	size_t sections, cap;
	size_t branches;      /* ids for branches and graphs that were given out */
	struct ht_str source; /* the name of the result that is being written */
};
/* Opens a section "WHAT of NAME: POLICY"; ht_page_section_end() closes it. */
void ht_page_open_of(
	struct ht_page_work *w, struct ht_str name, const char *what, struct ht_str policy);
/* Likewise for an object that names a model. */
void ht_page_open(struct ht_page_work *w, const cJSON *of, const char *what, struct ht_str policy);

enum { HT_PAGE_ROWS = 300, HT_PAGE_NODES = 1000 }; /* most rows and nodes in tables */

void ht_page_comparisons(struct ht_page_work *w, const cJSON *root); /* a section for each model */
void ht_page_decisions(struct ht_page_work *w, const cJSON *root);
/* page_train.c: the end of a training, and the curves of a log. */
void ht_page_train(struct ht_page_work *w, const cJSON *root);
void ht_page_train_log(struct ht_page_work *w, const cJSON *root);
void ht_page_frontier(struct ht_page_work *w, const cJSON *model);
/* page_scopes.c: the map of a policy's decisions by name scope. */
void ht_page_scopes(struct ht_page_work *w, const cJSON *root);
/* page_nodes.c: the errors of nodes, for each policy that has them; the times of compile phases. */
void ht_page_error_nodes(struct ht_page_work *w, const cJSON *model);
void ht_page_phases(struct ht_page_work *w, const cJSON *model);
/* The largest `rel` of the outputs; NaN: there is none. */
double ht_page_error(const cJSON *policy);

#endif
