/* Which paths `convert` may write to, and in which format. */
#include "api/convert.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct ht_where at(const char *path)
{
	return (struct ht_where){ .path = path, .offset = -1 };
}

/* ---- formats ---- */

static const struct {
	const char *suffix;
	enum ht_convert_form form;
} written[] = {
	{ ".json", HT_CONVERT_TFJS },
	{ ".hir", HT_CONVERT_HIR },
	{ ".pbtxt", HT_CONVERT_TEXT },
	{ "txt", HT_CONVERT_TEXT },
};

/* Formats that cannot be written, though a user may expect it. */
static const struct {
	const char *suffix, *what;
} others[] = {
	{ ".onnx", "ONNX models" },
	{ ".ort", "ONNX Runtime models" },
	{ ".tflite", "TensorFlow Lite models" },
	{ ".lite", "TensorFlow Lite models" },
	{ ".h5", "Keras models" },
	{ ".hdf5", "Keras models" },
	{ ".keras", "Keras models" },
	{ ".pt", "PyTorch models" },
	{ ".pth", "PyTorch models" },
	{ ".safetensors", "safetensors" },
	{ ".mlmodel", "Core ML models" },
	{ ".mlpackage", "Core ML models" },
	{ ".om", "offline models of the vendor" },
	{ ".xml", "OpenVINO models" },
	{ ".mlir", "MLIR" },
	{ ".zip", "archives" },
	{ ".npz", "arrays" },
	{ ".npy", "arrays" },
	{ ".csv", "tables" },
	{ ".dot", "drawings (halftone explain --format dot writes them)" },
	{ ".htx", "artefacts (halftone compile -o writes them)" },
	{ ".so", "libraries (halftone aot writes them)" },
	{ ".a", "libraries (halftone aot writes them)" },
	{ ".o", "object files (halftone aot writes them)" },
};

static enum ht_status find_form(struct ht_convert_to *to)
{
	struct ht_str path = ht_str(to->path);

	to->form = HT_CONVERT_WIRE;
	for (size_t i = 0; i < HT_COUNT(written); i++)
		if (ht_str_ends(path, written[i].suffix)) {
			to->form = written[i].form;
			return HT_OK;
		}
	for (size_t i = 0; i < HT_COUNT(others); i++)
		if (ht_str_ends(path, others[i].suffix))
			return ht_error(to->diags, HT_E_USAGE, at(to->path),
				"convert writes no %s; it writes GraphDefs (.pb, .pbtxt), TF.js "
				"graph models (.json) and .hir",
				others[i].what);
	return HT_OK;
}

/* ---- files of the model ---- */

static bool is_same_file(const struct stat *a, const char *path)
{
	struct stat b;

	return path && !stat(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_one_of(const struct stat *s, const struct ht_input_file *files)
{
	for (; files; files = files->next)
		if (is_same_file(s, files->file->path))
			return true;
	return false;
}

/* The path without its last part, resolved; NULL: there is no such folder.  The caller frees it. */
static char *folder_of(const char *path, struct ht_arena *a)
{
	const char *slash = strrchr(path, '/');

	return realpath(slash ? ht_str_printf(a, "%.*s/", (int)(slash - path), path).p : ".", NULL);
}

/* All files in a SavedModel's folder belong to the model, even those that are not read: assets,
 * fingerprints. */
static bool is_in_folder(const struct ht_convert_to *to, const struct ht_model *m, const char *path)
{
	char *file = realpath(path, NULL), *folder = NULL;
	size_t n;
	bool in;

	if (m->graph->source == HT_SOURCE_SAVEDMODEL && m->graph->path)
		folder = folder_of(m->graph->path, to->work);
	n = folder ? strlen(folder) : 0;
	in = file && folder && !strncmp(file, folder, n) && file[n] == '/';
	free(file);
	free(folder);
	return in;
}

enum ht_status ht_convert_keep(
	const struct ht_convert_to *to, const struct ht_model *m, const char *path)
{
	struct ht_input_file *checkpoint = NULL;
	struct ht_diags quiet;
	struct stat s;
	bool same;

	if (!strcmp(path, "-") || stat(path, &s) || !S_ISREG(s.st_mode))
		return HT_OK;
	ht_diags_init(&quiet);
	if (m->graph->checkpoint) /* a file that cannot be read is not one of the model's */
		(void)ht_checkpoint_files(to->work, m->graph->checkpoint, &quiet, &checkpoint);
	ht_diags_release(&quiet);
	same = is_same_file(&s, m->graph->path) || is_one_of(&s, m->graph->inputs) ||
	       is_one_of(&s, checkpoint) || is_in_folder(to, m, path);
	if (!same)
		return HT_OK;
	return ht_error(to->diags, HT_E_USAGE, at(path),
		"this is a file of the model that is read; write to another one");
}

enum ht_status ht_convert_check(struct ht_convert_to *to, const struct ht_model *m)
{
	HT_TRY(find_form(to));
	return ht_convert_keep(to, m, to->path);
}
