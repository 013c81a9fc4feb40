/* JSON files that options name: read by cJSON; errors have line numbers. */
#ifndef HT_JSON_H
#define HT_JSON_H

#include "precision/policy.h"

#include <cjson/cJSON.h>

/* cJSON does not keep positions.  Strings are in the text in the order of the tree, so a walk in
 * that order finds each of them: call ht_json_step() once for each key and each string value. */
struct ht_json {
	struct ht_parse *parse;
	cJSON *root;
	struct ht_str text; /* the part not passed yet */
	long line;          /* of the last string that was found */
};

/* Parses strict JSON, without NUL characters in strings.  With `comments`, comments of C's two
 * forms count as blanks if they begin outside of a string.  The tree lives as long as the arena
 * of `p`. */
enum ht_status ht_json_parse(
	struct ht_parse *p, struct ht_str text, bool comments, struct ht_json *out);
/* Moves to the next string: the key of the member, or the string value, that the walk visits. */
void ht_json_step(struct ht_json *j);
/* Skips all strings of a value. */
void ht_json_skip(struct ht_json *j, const cJSON *value);
/* HT_E_INPUT at the current line, with a message in printf's format. */
enum ht_status ht_json_error(struct ht_json *j, const char *fmt, ...) HT_PRINTF(2, 3);
const char *ht_json_kind(const cJSON *value); /* "an array" */

#endif
