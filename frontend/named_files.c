/* Files that a graph names and that fill its tables (struct ht_named_file).
 *
 * A SavedModel lists its assets: a tensor of the graph for each, and the name of a file in its
 * folder "assets".  When TensorFlow loads the model, the tensor gets the file's name.  It is a
 * placeholder, whose value an initialiser assigns to a variable, or a constant.  The name in any
 * other constant counts from the folder of the model.
 *
 * A file is read only if it lies in the folder of the model, with all links followed: a model
 * from elsewhere must not put other files of this machine into a program.  The name of a file
 * that cannot be read is kept with the reason, since the entry may not need the table. */
#include "frontend/graphdef.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct naming {
	struct ht_importer *im;
	const char *dir;
	struct ht_graph *g;
	struct ht_map known; /* by node: its struct ht_named_file */
	struct ht_named_file **end;
};

static bool is(const struct ht_node *n, const char *type)
{
	return ht_str_is(n->type, type);
}

static bool fills_from_file(const struct ht_node *n)
{
	return is(n, "InitializeTableFromTextFileV2") || is(n, "InitializeTableFromTextFile");
}

static bool any_filled(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (fills_from_file(n))
			return true;
	return false;
}

static bool is_needed(const struct ht_graph *g)
{
	bool any = any_filled(g);

	for (const struct ht_function *f = g->functions; f && !any; f = f->next)
		any = any_filled(f->body);
	return any;
}

/* ---- files ---- */

static bool is_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && (path[n] == '/' || !strcmp(folder, "/"));
}

/* Why the file `path` is not read; NULL: it may be.  `real` gets its path without links. */
static const char *refuse(const struct naming *x, const char *path, char *real)
{
	char folder[PATH_MAX];
	struct stat s;

	if (!realpath(path, real) || !realpath(*x->dir ? x->dir : ".", folder) || stat(real, &s))
		return ht_str_copy(x->im->a, ht_str(strerror(errno))).p;
	if (!is_within(real, folder))
		return "it does not lie in the folder of the model";
	return S_ISREG(s.st_mode) ? NULL : "it is no file";
}

/* The file that has the same path as one before. */
static const struct ht_file *mapped_before(const struct naming *x, const char *path)
{
	for (const struct ht_named_file *f = x->g->named_files; f; f = f->next)
		if (f->file && !strcmp(f->file->path, path))
			return f->file;
	return NULL;
}

static enum ht_status open_file(const struct naming *x, struct ht_named_file *f)
{
	char real[PATH_MAX];
	struct ht_file *file;

	f->why = refuse(x, f->path, real);
	if (f->why)
		return HT_OK;
	f->file = mapped_before(x, real);
	if (f->file)
		return HT_OK;
	HT_TRY(ht_importer_map(x->im, ht_str_copy(x->im->a, ht_str(real)).p, &file));
	f->file = file;
	return HT_OK;
}

/* Notes that tensor `node` has the name of the file `name`, in the folder `dir` unless the name is absolute. */
static enum ht_status add(struct naming *x, struct ht_str node, const char *dir, struct ht_str name)
{
	struct ht_map_entry *e = ht_map_at(&x->known, node);
	struct ht_named_file *f;

	if (e->value || memchr(name.p, 0, name.n))
		return HT_OK;
	f = e->value = HT_NEW(x->im->a, struct ht_named_file);
	f->node = ht_str_copy(x->im->a, node);
	f->path = ht_str_printf(
		x->im->a, "%s%.*s", name.n && name.p[0] == '/' ? "" : dir, HT_STR_ARG(name))
			  .p;
	HT_TRY(open_file(x, f));
	*x->end = f;
	x->end = &f->next;
	return HT_OK;
}

/* ---- assets ---- */

static struct ht_value through_identities(struct ht_value v)
{
	for (int i = 0; i < 8 && is(v.node, "Identity") && v.node->ins; i++)
		v = v.node->in[0];
	return v;
}

/* Variables to which the graph assigns the asset's tensor have the same file. */
static enum ht_status add_variables(
	struct naming *x, struct ht_str tensor, const char *dir, struct ht_str name)
{
	for (const struct ht_node *n = x->g->first; n; n = n->next) {
		if (!is(n, "AssignVariableOp") || n->ins < 2 ||
			!ht_str_eq(through_identities(n->in[1]).node->name, tensor))
			continue;
		HT_TRY(add(x, through_identities(n->in[0]).node->name, dir, name));
	}
	return HT_OK;
}

static enum ht_status add_asset(struct naming *x, struct ht_str tensor, struct ht_str name)
{
	const char *dir = ht_str_printf(x->im->a, "%sassets/", x->dir).p;

	if (ht_str_ends(tensor, ":0"))
		tensor.n -= 2;
	HT_TRY(add(x, tensor, dir, name));
	return add_variables(x, tensor, dir, name);
}

/* An AssetFileDef. */
static enum ht_status read_asset(struct naming *x, struct ht_pb_reader r)
{
	struct ht_str tensor = HT_STR(""), name = HT_STR("");
	struct ht_pb_value v, w;
	struct ht_pb_reader info;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 2)
			name = v.s;
		if (v.number != 1)
			continue;
		info = ht_pb_enter(&r, &v);
		while (ht_pb_next(&info, &w))
			if (w.number == 1)
				tensor = w.s;
	}
	return tensor.n && name.n ? add_asset(x, tensor, name) : HT_OK;
}

static enum ht_status read_assets(struct naming *x)
{
	struct ht_pb_source src;
	struct ht_pb_reader meta;
	struct ht_pb_value v;

	if (!ht_container_metagraph(x->g, &src, &meta))
		return HT_OK;
	while (ht_pb_next(&meta, &v))
		if (v.number == 6)
			HT_TRY(read_asset(x, ht_pb_enter(&meta, &v)));
	return HT_OK;
}

/* ---- constants ---- */

static enum ht_status add_constant(struct naming *x, struct ht_value v)
{
	const struct ht_tensor *t;

	v = through_identities(v);
	t = v.index >= 0 ? ht_const_text(v) : NULL;
	return t && t->values == 1 ? add(x, v.node->name, x->dir, t->strings[0]) : HT_OK;
}

/* Constants that may be names of such files: operands of a node that fills a table, or of a call
 * of a function that may do so. */
static enum ht_status read_constants(struct naming *x)
{
	for (const struct ht_node *n = x->g->first; n; n = n->next)
		for (int32_t i = 0; (fills_from_file(n) || ht_is(n, HT_CALLS_ONE)) && i < n->ins;
			i++)
			HT_TRY(add_constant(x, n->in[i]));
	return HT_OK;
}

enum ht_status ht_import_named_files(struct ht_importer *im, const char *dir, struct ht_graph *g)
{
	struct naming x = { .im = im, .dir = dir, .g = g, .end = &g->named_files };

	if (!is_needed(g))
		return HT_OK;
	ht_map_init(&x.known, im->scratch);
	HT_TRY(read_assets(&x));
	return read_constants(&x);
}
