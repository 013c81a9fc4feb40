/* JSON files that options name: read by cJSON, with the lines that errors are reported at. */
#ifndef HT_JSON_H
#define HT_JSON_H

#include "precision/policy.h"

#include <cjson/cJSON.h>

/* cJSON keeps no places.  Strings lie in the text in the order of the tree, so that a walk in that
 * order finds each: keys and string values, one call each. */
struct ht_json {
	struct ht_parse *parse;
	cJSON *root;
	struct ht_str text; /* not yet passed */
	long line;          /* of the string found last */
};

/* Strict JSON, without zero characters in strings.  With `comments`, `//` to the end of its line and a text between the two marks of
 * C's comments count as blanks where they begin outside of a string.  The tree lives as long as the
 * arena of `p`. */
enum ht_status ht_json_parse(
	struct ht_parse *p, struct ht_str text, bool comments, struct ht_json *out);
/* Goes on to the next string: the key of the member, or the string value, that the walk is at. */
void ht_json_step(struct ht_json *j);
/* Passes over all strings of a value. */
void ht_json_skip(struct ht_json *j, const cJSON *value);
/* HT_E_INPUT at the current line, with printf's format. */
enum ht_status ht_json_error(struct ht_json *j, const char *fmt, ...) HT_PRINTF(2, 3);
const char *ht_json_kind(const cJSON *value); /* "an array" */

#endif
