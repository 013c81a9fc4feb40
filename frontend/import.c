/* Files → graphs: detects the format of a file and calls its reader. */
#include "frontend/graphdef.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define COMPLETED_ENTRIES 32 /* each one takes a walk over the graph */

enum form { FORM_GRAPHDEF, FORM_METAGRAPH, FORM_SAVEDMODEL, FORM_JSON, FORM_HIR };

static void unref_file(void *file)
{
	ht_file_unref(file);
}

enum ht_status ht_importer_map(struct ht_importer *im, const char *path, struct ht_file **out)
{
	enum ht_status st = ht_file_map_watched(path, im->limit.file_bytes, im->diags, out);

	if (st == HT_E_LIMIT)
		ht_note(im->diags, HT_NOWHERE,
			"formats that keep weights outside of the graph hold more: "
			"a SavedModel, or a TF.js graph model with its shards");
	HT_TRY(st);
	ht_arena_defer(im->a, unref_file, *out);
	ht_importer_add_file(im, *out);
	return HT_OK;
}

/* ---- detecting formats ---- */

/* Wire form always has a control character near its start, at the latest the tag of a node's op. */
static bool is_text(struct ht_str s)
{
	size_t n = s.n < 4096 ? s.n : 4096;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < 9 || (c > 13 && c < 32) || c == 127)
			return false;
	}
	return true;
}

/* The first field's name in a text form. */
static struct ht_str first_word(struct ht_str s)
{
	size_t i = 0, start;

	while (i < s.n) {
		if (s.p[i] == '#')
			while (i < s.n && s.p[i] != '\n')
				i++;
		else if (s.p[i] > ' ' && (unsigned char)s.p[i] < 0x80)
			break;
		else
			i++;
	}
	start = i;
	while (i < s.n && (s.p[i] == '_' || (s.p[i] >= 'a' && s.p[i] <= 'z')))
		i++;
	if (i == start && i < s.n)
		i++;
	return (struct ht_str){ s.p + start, i - start };
}

static enum form text_form(struct ht_str s)
{
	struct ht_str word = first_word(s);

	if (ht_str_is(word, "{"))
		return FORM_JSON;
	if (ht_str_is(word, "saved_model_schema_version") || ht_str_is(word, "meta_graphs"))
		return FORM_SAVEDMODEL;
	if (ht_pb_field_named(HT_PB_MetaGraphDef, word))
		return FORM_METAGRAPH;
	return FORM_GRAPHDEF;
}

/* Whether the bytes can be this message, apart from unknown fields. */
static bool can_be(struct ht_arena *a, struct ht_str s, enum ht_pb_type t)
{
	struct ht_pb_source src = { .p = (const uint8_t *)s.p, .n = s.n, .depth = 64 };
	struct ht_pb_reader r = ht_pb_open(&src, t);
	struct ht_pb_value v;
	struct ht_buf kept;

	ht_buf_init(&kept, a);
	while (ht_pb_next(&r, &v)) {
		if (!v.field || (v.number != 2 && v.s.n > 65536))
			continue;
		kept.n = 0;
		if (ht_pb_keep(&r, &v, &kept) != HT_OK)
			return false;
	}
	return r.status == HT_OK;
}

/* Decides by the fields that only one of the messages has; if there are none, by their content. */
static enum form wire_form(struct ht_arena *a, struct ht_str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i = 0, length, nodes = 0;
	bool second = false;
	int shift;

	if (s.n && p[0] == 0x08)
		return FORM_SAVEDMODEL;
	while (i < s.n && nodes < 2) {
		unsigned tag = p[i++];

		if (tag == (3 << 3 | 2) || tag == (6 << 3 | 2) || tag == (7 << 3 | 2))
			return FORM_METAGRAPH;
		if ((tag & 7) != 2)
			return FORM_GRAPHDEF;
		nodes += tag == (1 << 3 | 2);
		second |= tag == (2 << 3 | 2);
		for (length = 0, shift = 0; i < s.n && shift < 35; shift += 7) {
			length |= (size_t)(p[i] & 0x7f) << shift;
			if (!(p[i++] & 0x80))
				break;
		}
		if (length > s.n - i)
			return FORM_GRAPHDEF;
		i += length;
	}
	if (nodes > 1 || !second || can_be(a, s, HT_PB_GraphDef) ||
		!can_be(a, s, HT_PB_MetaGraphDef))
		return FORM_GRAPHDEF;
	return FORM_METAGRAPH;
}

static bool ends(const char *path, const char *suffix)
{
	return ht_str_ends(ht_str(path), suffix);
}

static enum form form_of(struct ht_arena *a, struct ht_str s, const char *path, bool text)
{
	if (ends(path, ".hir"))
		return FORM_HIR;
	if (text)
		return text_form(s);
	if (ends(path, "saved_model.pb"))
		return FORM_SAVEDMODEL;
	if (ends(path, ".meta"))
		return FORM_METAGRAPH;
	return wire_form(a, s);
}

/* ---- reading ---- */

struct input {
	const char *path;
	struct ht_str bytes;
	struct ht_file *file; /* NULL: from memory */
};

static const char *without_suffix(struct ht_importer *im, const char *path, const char *suffix)
{
	size_t n = strlen(path);

	if (ends(path, suffix))
		n -= strlen(suffix);
	return ht_str_printf(im->a, "%.*s", (int)n, path).p;
}

static enum ht_status read_hir(
	struct ht_importer *im, const struct input *in, struct ht_graph **out)
{
	const char *path =
		ht_str_printf(im->a, "%s.weights", without_suffix(im, in->path, ".hir")).p;
	struct ht_file *weights = NULL;
	struct stat st;

	if (in->file && !stat(path, &st))
		HT_TRY(ht_importer_map(im, path, &weights));
	HT_TRY(ht_text_parse(im->a, in->bytes, in->path, weights, im->diags, out));
	if ((*out)->nodes <= im->limit.nodes)
		return HT_OK;
	*out = NULL;
	return ht_error(im->diags, HT_E_LIMIT, (struct ht_where){ .path = in->path, .offset = -1 },
		"more than %zu nodes", im->limit.nodes);
}

static const char *directory_of(struct ht_importer *im, const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? ht_str_printf(im->a, "%.*s", (int)(slash - path + 1), path).p : "";
}

/* Finds the checkpoint with the values of the variables, if there is one. */
static void find_checkpoint(struct ht_importer *im, const struct input *in, struct ht_graph *g)
{
	struct stat st;
	const char *prefix;

	if (!in->file)
		return;
	if (g->source == HT_SOURCE_SAVEDMODEL)
		prefix =
			ht_str_printf(im->a, "%svariables/variables", directory_of(im, in->path)).p;
	else
		prefix = without_suffix(im, in->path, ".meta");
	if (!stat(ht_str_printf(im->a, "%s.index", prefix).p, &st))
		g->checkpoint = prefix;
}

static enum ht_status read_message(struct ht_importer *im, const struct input *in, enum form form,
	bool text, struct ht_graph *g)
{
	static const enum ht_pb_type types[] = {
		[FORM_GRAPHDEF] = HT_PB_GraphDef,
		[FORM_METAGRAPH] = HT_PB_MetaGraphDef,
		[FORM_SAVEDMODEL] = HT_PB_SavedModel,
	};
	struct ht_pb_source *src = HT_NEW(im->a, struct ht_pb_source);

	if (text)
		HT_TRY(ht_pb_from_text(
			im->a, in->bytes, in->path, types[form], im->limit.depth, im->diags, src));
	else
		*src = (struct ht_pb_source){
			.path = in->path,
			.diags = im->diags,
			.p = (const uint8_t *)in->bytes.p,
			.n = in->bytes.n,
			.file = in->file,
			.depth = im->limit.depth,
		};
	if (form == FORM_METAGRAPH)
		HT_TRY(ht_import_metagraph(im, src, g));
	else if (form == FORM_SAVEDMODEL)
		HT_TRY(ht_import_savedmodel(im, src, g));
	else
		HT_TRY(ht_import_graphdef(im, ht_pb_open(src, HT_PB_GraphDef), g));
	if (form == FORM_GRAPHDEF)
		g->source = HT_SOURCE_GRAPHDEF;
	else
		find_checkpoint(im, in, g);
	return HT_OK;
}

static enum ht_status read_input(
	struct ht_importer *im, const struct input *in, struct ht_graph **out)
{
	bool text = is_text(in->bytes);
	enum form form = form_of(im->a, in->bytes, in->path, text);
	struct ht_where at = HT_NOWHERE;
	struct ht_graph *g;
	int entries = 0;

	at.path = in->path;
	if (!in->bytes.n)
		return ht_error(im->diags, HT_E_INPUT, at, "the file is empty");
	HT_TRY(ht_refuse_foreign(in->bytes, in->path, im->a, im->diags));
	if (form == FORM_HIR)
		return read_hir(im, in, out);
	g = ht_graph_new(im->a);
	g->path = ht_str_copy(im->a, ht_str(in->path)).p;
	if (form == FORM_JSON)
		HT_TRY(ht_import_tfjs(
			im, in->bytes, g->path, in->file ? directory_of(im, in->path) : NULL, g));
	else
		HT_TRY(read_message(im, in, form, text, g));
	if (!g->entries)
		g->entries = ht_default_entry(g);
	for (struct ht_entry *e = g->entries; e && ++entries <= COMPLETED_ENTRIES; e = e->next)
		ht_entry_add_placeholders(g, e);
	HT_TRY(ht_verify(g, im->diags));
	*out = g;
	return HT_OK;
}

/* The file in a directory that has the graph. */
static enum ht_status find_in_directory(struct ht_importer *im, const char *dir, const char **path)
{
	static const char *const names[] = { "saved_model.pb", "saved_model.pbtxt", "model.json" };
	struct ht_where at = HT_NOWHERE;
	struct stat st;

	for (size_t i = 0; i < HT_COUNT(names); i++) {
		*path = ht_str_printf(im->a, "%s%s%s", dir, ends(dir, "/") ? "" : "/", names[i]).p;
		if (!stat(*path, &st))
			return HT_OK;
	}
	at.path = dir;
	return ht_error(im->diags, HT_E_INPUT, at,
		"a directory without saved_model.pb, saved_model.pbtxt or model.json");
}

enum ht_status ht_import(struct ht_arena *a, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out)
{
	struct ht_importer im;
	struct input in;
	struct stat file;
	enum ht_status st;

	*out = NULL;
	ht_importer_init(&im, a, limits, d);
	in.path = ht_str_copy(a, ht_str(path)).p;
	if (!stat(path, &file) && S_ISDIR(file.st_mode))
		HT_TRY(find_in_directory(&im, path, &in.path));
	HT_TRY(ht_importer_map(&im, in.path, &in.file));
	in.bytes = (struct ht_str){ (const char *)in.file->p, in.file->n };
	st = read_input(&im, &in, out);
	if (st == HT_OK)
		st = ht_import_named_files(&im, directory_of(&im, in.path), *out);
	ht_arena_release(im.scratch);
	if (st == HT_OK)
		(*out)->inputs = im.inputs;
	else
		*out = NULL;
	return st;
}

enum ht_status ht_import_memory(struct ht_arena *a, const void *p, size_t n, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out)
{
	struct input in = { .path = path, .bytes = { p, n } };
	struct ht_importer im;
	enum ht_status st;

	*out = NULL;
	ht_importer_init(&im, a, limits, d);
	ht_importer_add_input(&im, n);
	st = read_input(&im, &in, out);
	ht_arena_release(im.scratch);
	return st;
}
