/* What `convert` writes a graph to; shared by the files that do it. */
#ifndef HT_CONVERT_H
#define HT_CONVERT_H

#include "api/api.h"

#include "frontend/frontend.h"

enum ht_convert_form {
	HT_CONVERT_WIRE, /* a GraphDef, or the message that the graph came in */
	HT_CONVERT_TEXT, /* likewise */
	HT_CONVERT_HIR,
	HT_CONVERT_TFJS
};

struct ht_convert_to {
	const char *path;
	enum ht_convert_form form;
	bool as_imported; /* a graph that is as it came is put back into what it came in */
	struct ht_arena *work;
	struct ht_diags *diags;
};

/* ---- convert_path.c ---- */

/* Sets the form by the path.  HT_E_USAGE where the path's suffix is that of a format that is not
 * written, or where it names a file that the model was read from, by whatever name. */
enum ht_status ht_convert_check(struct ht_convert_to *to, const struct ht_model *m);
/* Likewise for another file that is written beside it. */
enum ht_status ht_convert_keep(
	const struct ht_convert_to *to, const struct ht_model *m, const char *path);

/* ---- convert_write.c ---- */

/* All files of the graph, or none.  No file that `m` was read from is replaced. */
enum ht_status ht_convert_write(
	const struct ht_convert_to *to, const struct ht_model *m, const struct ht_graph *g);

#endif
