/* Results as a page: JSON that was checked, and what each kind of result shows of it. */
#ifndef HT_API_PAGE_H
#define HT_API_PAGE_H

#include <halftone/page.h>

#include "api/api.h"
#include "page/page.h"
#include "precision/json.h"

/* ---- page_forms.c: which members the JSON has to have ---- */

struct ht_json_form;
extern const struct ht_json_form ht_comparison_form, ht_decisions_form, ht_train_form,
	ht_train_log_form; /* the last: an array of the lines of a log */
/* HT_E_INPUT with the line where something is missing or of another type.  Members that the form does not
 * name may be anything. */
enum ht_status ht_json_check(struct ht_json *j, const struct ht_json_form *form);

/* ---- page_values.c: members of JSON that was checked ---- */

/* NULL where the object lacks it or has null. */
const cJSON *ht_member(const cJSON *object, const char *name);
/* Empty where there is none. */
struct ht_str ht_member_text(const cJSON *object, const char *name);
struct ht_str ht_item_text(const cJSON *array, int i);
/* NaN where there is none. */
double ht_member_number(const cJSON *object, const char *name);
double ht_json_number(const cJSON *value);
bool ht_json_is_nan(const cJSON *value); /* "nan" */
bool ht_member_is_true(const cJSON *object, const char *name);

/* Three digits of it. */
struct ht_str ht_text_number(struct ht_arena *a, double v);
struct ht_str ht_text_member(struct ht_arena *a, const cJSON *object, const char *name);
/* The others are empty where `v` is NaN, and ht_text_member() where there is no such member. */
struct ht_str ht_text_exact(struct ht_arena *a, double v);
struct ht_str ht_text_bytes(struct ht_arena *a, double v);
struct ht_str ht_text_price(struct ht_arena *a, double ps);
/* "1.2", and "1.1 to 1.4" on a line below, of an object with `name`, `low` and `high`. */
struct ht_str ht_text_interval(struct ht_arena *a, const cJSON *object, const char *name);

/* A table of two columns: what, and its value. */
extern const struct ht_table_column ht_fact_columns[2];
void ht_fact(
	struct ht_table *t, const char *what, struct ht_str value); /* nothing where it is empty */

/* ---- a section each ---- */

struct ht_page_work {
	struct ht_buf *b; /* the sections */
	struct ht_arena *a;
	struct ht_str *title, *model; /* of each */
	size_t sections, cap;
	size_t branches;      /* numbers given to branches and graphs */
	struct ht_str source; /* the name of the result that is being written */
};
/* "WHAT of NAME: POLICY"; to be ended with ht_page_section_end(). */
void ht_page_open_of(
	struct ht_page_work *w, struct ht_str name, const char *what, struct ht_str policy);
/* Likewise of an object with a model. */
void ht_page_open(struct ht_page_work *w, const cJSON *of, const char *what, struct ht_str policy);

enum { HT_PAGE_ROWS = 300, HT_PAGE_NODES = 1000 }; /* what tables show */

void ht_page_comparisons(struct ht_page_work *w, const cJSON *root); /* a section a model */
void ht_page_decisions(struct ht_page_work *w, const cJSON *root);
/* page_train.c: a training that ended, and the curves of a log. */
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
