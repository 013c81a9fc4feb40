/* The target of `convert`, for the files that write it. */
#ifndef HT_CONVERT_H
#define HT_CONVERT_H

#include "api/api.h"

#include "frontend/frontend.h"

enum ht_convert_form {
	HT_CONVERT_WIRE, /* a GraphDef, or the message that held the graph, in wire format */
	HT_CONVERT_TEXT, /* likewise in text format */
	HT_CONVERT_HIR,
	HT_CONVERT_TFJS
};

struct ht_convert_to {
	const char *path;
	enum ht_convert_form form;
	bool as_imported; /* an unchanged graph is put back into the message that it came in */
	struct ht_arena *work;
	struct ht_diags *diags;
};

/* ---- convert_path.c ---- */

/* Sets the form by the path.  HT_E_USAGE: the path has the suffix of a format that cannot be
 * written, or it names a file that the model was read from, under any name. */
enum ht_status ht_convert_check(struct ht_convert_to *to, const struct ht_model *m);
/* Likewise for another file that is written besides. */
enum ht_status ht_convert_keep(
	const struct ht_convert_to *to, const struct ht_model *m, const char *path);

/* ---- convert_write.c ---- */

/* Writes all files of the graph, or none.  It replaces no file that `m` was read from. */
enum ht_status ht_convert_write(
	const struct ht_convert_to *to, const struct ht_model *m, const struct ht_graph *g);

#endif
