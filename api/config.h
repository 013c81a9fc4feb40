/* Reading run configurations: what config.c and config_session.c share. */
#ifndef HT_CONFIG_H
#define HT_CONFIG_H

#include "api/api.h"
#include "precision/json.h"

struct ht_config {
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_setting *setting; /* room for as many as there are options */
	size_t settings;
};

struct reading {
	const char *path;
	bool lenient;
	struct ht_diags *d;
	struct ht_config *c;
	struct ht_json j;
	struct ht_buf ignored; /* names of a session's members that say nothing here */
};

/* A value of the option as the text that a command line would have; NULL: none of its kind. */
const char *ht_config_text(struct reading *r, const char *option, const cJSON *value);
/* Adds a setting that stands in this line, if it is legal and the first of its name. */
enum ht_status ht_config_take(
	struct reading *r, const struct ht_option_info *o, const char *text, long line);
/* An error, or a warning where unknown names are passed over. */
enum ht_status ht_config_unknown(struct reading *r, const char *key);

/* config_session.c: the object session_config, whose key the walk stands at. */
enum ht_status ht_config_session(struct reading *r, const cJSON *session);

#endif
