/* Reading run configurations: what the files config*.c share. */
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

enum { HT_CONFIG_NAME = 128 }; /* longest name of an option, with its NUL */

/* ---- config_member.c ---- */

/* The member of `object` ("": of the configuration itself) called `key`.  A member of the
 * configuration may also be called by a session's name for it. */
bool ht_config_find(const char *object, const char *key, struct ht_option_info *out);
/* NULL: the configuration does not state this option. */
const struct ht_setting *ht_config_stated(const struct ht_config *c, const char *name);
/* A value of the option as the text that a command line would have; NULL: none of its kind. */
const char *ht_config_text(struct reading *r, const char *option, const cJSON *value);
/* Adds a setting that stands in this line, if it is legal and the first of its name. */
enum ht_status ht_config_take(
	struct reading *r, const struct ht_option_info *o, const char *text, long line);
/* `object` ("": the configuration itself) has no member `key`: an error, or a warning where unknown names
 * are passed over. */
enum ht_status ht_config_unknown(struct reading *r, const char *object, const char *key);

/* ---- config_session.c ---- */

/* The object session_config, whose key the walk stands at. */
enum ht_status ht_config_session(struct reading *r, const cJSON *session);

#endif
