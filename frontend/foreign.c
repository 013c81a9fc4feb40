/* Model files of other formats: detects the format by content, and names the tool that converts
 * it to a supported one. */
#include "frontend/graphdef.h"

#include <string.h>

/* The format of the file, and advice for converting it; "%s" is the file. */
struct form {
	const char *what, *how;
};

#define KERAS                                                                                      \
	"python -c \"import tensorflow as tf; tf.keras.models.load_model('%s').export('saved')\""

static const struct form hdf5 = { "a Keras model or its weights (HDF5)",
	KERAS " makes the SavedModel 'saved' of a model" };
static const struct form keras = { "a Keras model (.keras)",
	KERAS " makes the SavedModel 'saved'" };
static const struct form tflite = { "a TensorFlow Lite model",
	"python -m tf2onnx.convert --tflite %s --output m.onnx && onnx2tf -i m.onnx -o saved makes "
	"the SavedModel 'saved'" };
static const struct form onnx = { "an ONNX model",
	"onnx2tf -i %s -o saved makes the SavedModel 'saved'" };
static const struct form ort = { "an ONNX Runtime model (.ort)",
	"onnx2tf -i MODEL.onnx -o saved makes a SavedModel of the ONNX model that it was made of" };
static const struct form torch = { "a PyTorch file",
	"torch.onnx.export() in the program that has the model makes m.onnx of it, and onnx2tf -i "
	"m.onnx -o saved the SavedModel 'saved'" };
static const struct form arrays = { "NumPy arrays (.npz), not a model", "" };
static const struct form archive = { "a zip archive", "unzip %s -d folder unpacks it" };
static const struct form gzip = { "compressed (gzip)", "tar xzf %s, or gunzip, unpacks it" };
static const struct form safetensors = { "weights without a graph (safetensors)",
	"save the model with its graph: model.export('saved') in Keras" };
static const struct form checkpoint = { "a checkpoint's index, which has weights and no graph",
	"give the .meta beside it, or a SavedModel" };
static const struct form openvino = { "an OpenVINO model",
	"convert the model that it was made of" };

static bool has(struct ht_str s, size_t at, const char *magic, size_t n)
{
	return s.n >= at + n && !memcmp(s.p + at, magic, n);
}

static size_t little(const char *p, int bytes)
{
	size_t x = 0;

	for (int i = bytes; i-- > 0;)
		x = x << 8 | (uint8_t)p[i];
	return x;
}

/* ---- zip archives ---- */

enum { ZIP_END = 22, ZIP_ENTRY = 46, ZIP_COMMENT = 65535, ZIP_ENTRIES = 10000 };

/* The offset of a ZIP archive's list of members; s.n if `s` is no archive. */
static size_t zip_list(struct ht_str s)
{
	size_t back = ZIP_END, at;

	for (; back <= s.n && back <= ZIP_END + ZIP_COMMENT; back++)
		if (has(s, s.n - back, "PK\5\6", 4)) {
			at = little(s.p + s.n - back + 16, 4);
			return at < s.n ? at : s.n;
		}
	return s.n;
}

static const struct form *member_form(struct ht_str name)
{
	if (ht_str_is(name, "config.json") || ht_str_is(name, "model.weights.h5"))
		return &keras;
	if (ht_str_is(name, "data.pkl") || ht_str_ends(name, "/data.pkl"))
		return &torch;
	return ht_str_ends(name, ".npy") ? &arrays : NULL;
}

static const struct form *zip_form(struct ht_str s)
{
	const struct form *form = NULL;
	size_t at = zip_list(s), length;

	for (int i = 0; i < ZIP_ENTRIES && !form && has(s, at, "PK\1\2", 4); i++) {
		if (s.n - at < ZIP_ENTRY)
			break;
		length = little(s.p + at + 28, 2);
		if (s.n - at - ZIP_ENTRY < length)
			break;
		form = member_form((struct ht_str){ s.p + at + ZIP_ENTRY, length });
		length += little(s.p + at + 30, 2) + little(s.p + at + 32, 2);
		if (s.n - at - ZIP_ENTRY < length)
			break;
		at += ZIP_ENTRY + length;
	}
	return form ? form : &archive;
}

/* ---- ONNX ---- */

static bool read_varint(struct ht_str s, size_t *at, uint64_t *x)
{
	*x = 0;
	for (int shift = 0; *at < s.n && shift < 64; shift += 7) {
		uint8_t byte = (uint8_t)s.p[(*at)++];

		*x |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* A ModelProto: field 1 is a number (the version of the format), field 7 a message (the graph).  No
 * message of TensorFlow's has both. */
static bool is_onnx(struct ht_str s)
{
	uint64_t tag, value;
	bool version = false;
	size_t at = 0;

	while (at < s.n) {
		if (!read_varint(s, &at, &tag) || !read_varint(s, &at, &value))
			return false;
		if (tag == (7 << 3 | 2))
			return version;
		version |= tag == (1 << 3 | 0);
		if ((tag & 7) == 0)
			continue;
		if ((tag & 7) != 2 || value > s.n - at)
			return false;
		at += value;
	}
	return false;
}

/* ---- all ---- */

static const struct form *form_of(struct ht_str s)
{
	static const struct {
		const char *magic;
		size_t at, n;
		const struct form *form;
	} known[] = {
		{ "\x89HDF\r\n\x1a\n", 0, 8, &hdf5 },
		{ "TFL3", 4, 4, &tflite },
		{ "ORTM", 4, 4, &ort },
		{ "\x1f\x8b\x08", 0, 3, &gzip },
		{ "\x80\x02\x8a\x0alF\xfc\x9c", 0, 8, &torch },
		{ "\0\0{\"", 6, 4, &safetensors },
		{ "<?xml", 0, 5, &openvino },
	};

	if (has(s, 0, "PK\3\4", 4) || has(s, 0, "PK\5\6", 4))
		return zip_form(s);
	for (size_t i = 0; i < HT_COUNT(known); i++)
		if (has(s, known[i].at, known[i].magic, known[i].n))
			return known[i].form;
	if (s.n >= 48 && has(s, s.n - 8, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8))
		return &checkpoint;
	return is_onnx(s) ? &onnx : NULL;
}

static void put_how(struct ht_buf *b, const char *how, const char *path)
{
	const char *file = strstr(how, "%s");

	if (!file) {
		ht_puts(b, how);
		return;
	}
	ht_put(b, how, (size_t)(file - how));
	ht_puts(b, path);
	ht_puts(b, file + 2);
}

enum ht_status ht_refuse_foreign(
	struct ht_str bytes, const char *path, struct ht_arena *a, struct ht_diags *d)
{
	const struct form *form = form_of(bytes);
	struct ht_buf how;

	if (!form)
		return HT_OK;
	ht_buf_init(&how, a);
	put_how(&how, form->how, path);
	return ht_error(d, HT_E_INPUT, (struct ht_where){ .path = path, .offset = -1 },
		"this is %s, which is not read%s%.*s", form->what, how.n ? ": " : "",
		HT_STR_ARG(ht_buf_str(&how)));
}
