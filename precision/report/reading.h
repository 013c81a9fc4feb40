/* reading: reads JSON into structures, by tables with a row for each member. */
#ifndef HT_REPORT_READING_H
#define HT_REPORT_READING_H

#include "precision/json.h"
#include "precision/report/report.h"

struct ht_reading {
	struct ht_json j;
	struct ht_arena *a;
	struct ht_report_data *r;
	struct ht_decisions *d;
	struct ht_decided_node *node; /* the one being read */
	long line;                    /* of the first member of the last object */
};

typedef enum ht_status ht_reader(struct ht_reading *r, const cJSON *value, void *to);

/* A row of a table, which ends with a row without a name and has at most 32 rows. */
struct ht_member {
	const char *name;
	ht_reader *read;
	size_t offset; /* in the structure that the object is read into */
	bool needed;
};

/* null: unknown. */
struct ht_dtype_list {
	const uint8_t *dtype;
	int n;
};

ht_reader ht_read_str;    /* struct ht_str */
ht_reader ht_read_text;   /* const char * */
ht_reader ht_read_reason; /* const struct ht_dtype_reason * */
ht_reader ht_read_dtype;  /* enum ht_dtype */
ht_reader ht_read_bool;   /* bool */
ht_reader ht_read_count;  /* int64_t: a whole number, or null, which is -1 */
ht_reader ht_read_class;  /* enum ht_class */
ht_reader ht_read_dtypes; /* struct ht_dtype_list */
/* Members that are not in the table are skipped. */
enum ht_status ht_read_members(
	struct ht_reading *r, const cJSON *value, const struct ht_member *members, void *to);
enum ht_status ht_read_array(struct ht_reading *r, const cJSON *value);
size_t ht_read_items(const cJSON *array);
enum ht_status ht_read_wrong(struct ht_reading *r, const cJSON *value, const char *legal);

#endif
