/* Reads run configurations: shared by the files config*.c. */
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
	struct ht_buf ignored; /* names of members of session_config that have no effect here */
};

enum { HT_CONFIG_NAME = 128 }; /* longest name of an option, with its NUL */

/* ---- config_member.c ---- */

/* Finds the member `key` of `object` ("": of the configuration itself).  A member of the
 * configuration may also have the name that a session has for it. */
bool ht_config_find(const char *object, const char *key, struct ht_option_info *out);
/* NULL: the configuration does not state this option. */
const struct ht_setting *ht_config_stated(const struct ht_config *c, const char *name);
/* A value of the option as the text that a command line would have; NULL: it has the wrong kind. */
const char *ht_config_text(struct reading *r, const char *option, const cJSON *value);
/* Adds a setting that is stated in this line, if it is legal and its name is new. */
enum ht_status ht_config_take(
	struct reading *r, const struct ht_option_info *o, const char *text, long line);
/* `object` ("": the configuration itself) has no member `key`: an error, or a warning if unknown
 * names are ignored. */
enum ht_status ht_config_unknown(struct reading *r, const char *object, const char *key);

/* ---- config_session.c ---- */

/* Reads the object session_config; the parser is at its key. */
enum ht_status ht_config_session(struct reading *r, const cJSON *session);

#endif
