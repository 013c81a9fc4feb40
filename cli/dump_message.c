/* The vendor's files with the tensors of an op: 8 bytes with the length of a message DumpData,
 * little-endian; that message, in wire form; then the elements of all inputs and of all outputs,
 * in the order of the message.
 *
 * A tensor that was not dumped but precedes one that was has an entry without type, shape and
 * size. */
#include "cli/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the vendor's enum OutputDataType. */
static const struct {
	enum ht_dtype dtype;
	unsigned number;
} types[] = { { HT_F32, 1 }, { HT_F16, 2 }, { HT_I8, 3 }, { HT_U8, 4 }, { HT_I16, 5 },
	{ HT_U16, 6 }, { HT_I32, 7 }, { HT_I64, 8 }, { HT_U32, 9 }, { HT_U64, 10 }, { HT_BOOL, 11 },
	{ HT_F64, 12 }, { HT_C64, 16 }, { HT_C128, 17 }, { HT_BF16, 27 } };

static unsigned number_of(enum ht_dtype t)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].dtype == t)
			return types[i].number;
	return 0;
}

static enum ht_dtype dtype_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].number == number)
			return types[i].dtype;
	return HT_INVALID;
}

/* Fields of the messages.  Inputs and outputs have the same fields, some with different numbers. */
enum { VERSION = 1, DUMP_TIME = 2, OUTPUT = 3, INPUT = 4, OP_NAME = 6 };
enum { DATA_TYPE = 1, FORMAT = 2, SHAPE = 3, DIM = 1 };
enum { FORMAT_ND = 2 };
static const uint64_t tensor_field[2] = { INPUT, OUTPUT }, size_field[2] = { 5, 6 },
		      original_shape_field[2] = { 6, 7 };

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };

/* ---- writing ---- */

static char *put_varint(char *to, uint64_t x)
{
	for (; x >= 128; x >>= 7)
		*to++ = (char)(x | 128);
	*to++ = (char)x;
	return to;
}

static char *put_number(char *to, uint64_t field, uint64_t x)
{
	return put_varint(put_varint(to, field << 3 | VARINT), x);
}

static char *put_bytes(char *to, uint64_t field, const char *from, size_t n)
{
	to = put_varint(put_varint(to, field << 3 | BYTES), n);
	memcpy(to, from, n);
	return to + n;
}

enum { MOST_SHAPE = 11 * DUMP_AXES + 16, MOST_TENSOR = 2 * MOST_SHAPE + 64 };

static char *put_shape(char *to, uint64_t field, const struct dump_tensor *t)
{
	char dims[11 * DUMP_AXES], shape[MOST_SHAPE], *end = dims;

	for (int32_t i = 0; i < t->rank; i++)
		end = put_varint(end, (uint64_t)t->dim[i]);
	end = t->rank ? put_bytes(shape, DIM, dims, (size_t)(end - dims)) : shape;
	return put_bytes(to, field, shape, (size_t)(end - shape));
}

static char *put_tensor(char *to, int side, const struct dump_tensor *t)
{
	char message[MOST_TENSOR], *end = message;

	if (t->dtype != HT_INVALID) {
		end = put_number(end, DATA_TYPE, number_of(t->dtype));
		end = put_number(end, FORMAT, FORMAT_ND);
		end = put_shape(end, SHAPE, t);
		end = put_number(end, size_field[side], t->bytes);
		end = put_shape(end, original_shape_field[side], t);
	}
	return put_bytes(to, tensor_field[side], message, (size_t)(end - message));
}

/* The message; the caller frees it. */
static char *encode(const struct dump_file *f, size_t *n)
{
	char *message =
		must_alloc((f->of[0].n + f->of[1].n) * (MOST_TENSOR + 16) + strlen(f->node) + 64);
	char *to = put_bytes(message, VERSION, "1.0", 3);

	to = put_number(to, DUMP_TIME, f->time);
	for (int side = DUMP_OUTPUT; side >= DUMP_INPUT; side--)
		for (size_t i = 0; i < f->of[side].n; i++)
			to = put_tensor(to, side, &f->of[side].tensor[i]);
	to = put_bytes(to, OP_NAME, f->node, strlen(f->node));
	*n = (size_t)(to - message);
	return message;
}

static bool write_all(FILE *out, const struct dump_file *f)
{
	unsigned char length[8];
	size_t n;
	char *message = encode(f, &n);
	bool good;

	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)((uint64_t)n >> 8 * i);
	good = fwrite(length, 1, 8, out) == 8 && fwrite(message, 1, n, out) == n;
	for (int side = DUMP_INPUT; side <= DUMP_OUTPUT; side++)
		for (size_t i = 0; good && i < f->of[side].n; i++) {
			const struct dump_tensor *t = &f->of[side].tensor[i];

			good = !t->bytes || fwrite(t->data, 1, t->bytes, out) == t->bytes;
		}
	free(message);
	return good;
}

bool dump_file_write(const struct dump_file *f, const char *path)
{
	FILE *out;
	bool good;

	errno = 0;
	out = fopen(path, "wbe");
	good = out && write_all(out, f);
	if (out && fclose(out) != 0)
		good = false;
	return good;
}

/* ---- reading ---- */

struct wire {
	const unsigned char *begin, *at, *end;
	const char *wrong; /* the first error; NULL: none yet */
};

static void wrong(struct wire *w, const char *what)
{
	if (!w->wrong)
		w->wrong = what;
}

static uint64_t get_varint(struct wire *w)
{
	uint64_t x = 0;

	for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
		const unsigned char byte = *w->at++;

		x |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return x;
	}
	wrong(w, "a number of the message has no end");
	return 0;
}

/* Reads the bytes of a field. */
static struct wire get_bytes(struct wire *w)
{
	const uint64_t n = get_varint(w);
	struct wire part = { .begin = w->begin, .at = w->at, .end = w->at };

	if (n > (uint64_t)(w->end - w->at)) {
		wrong(w, "a field of the message ends outside of it");
		return part;
	}
	w->at += n;
	part.end = w->at;
	return part;
}

static void skip(struct wire *w, uint64_t tag)
{
	const size_t fixed = (tag & 7) == FIXED_64 ? 8 : 4;

	if ((tag & 7) == VARINT)
		get_varint(w);
	else if ((tag & 7) == BYTES)
		get_bytes(w);
	else if (((tag & 7) != FIXED_64 && (tag & 7) != FIXED_32) ||
		 (size_t)(w->end - w->at) < fixed)
		wrong(w, "the message has a field of unknown kind");
	else
		w->at += fixed;
}

static bool more(const struct wire *w)
{
	return !w->wrong && w->at < w->end;
}

static void add_dim(struct wire *w, struct dump_tensor *t, uint64_t dim)
{
	if (t->rank == DUMP_AXES || dim > INT64_MAX)
		wrong(w, "a tensor has too many dimensions, or too large ones");
	else
		t->dim[t->rank++] = (int64_t)dim;
}

/* Reads dimensions, which may be packed. */
static void get_shape(struct wire *w, struct dump_tensor *t)
{
	t->rank = 0;
	while (more(w)) {
		const uint64_t tag = get_varint(w);

		if (tag == (DIM << 3 | VARINT)) {
			add_dim(w, t, get_varint(w));
		} else if (tag == (DIM << 3 | BYTES)) {
			struct wire dims = get_bytes(w);

			while (more(&dims) && !w->wrong)
				add_dim(w, t, get_varint(&dims));
			if (dims.wrong)
				wrong(w, dims.wrong);
		} else {
			skip(w, tag);
		}
	}
}

/* Reads a tensor; its bytes follow the message. */
static void get_tensor(struct wire *w, int side, struct dump_tensor *t)
{
	while (more(w)) {
		const uint64_t tag = get_varint(w);

		if (tag == (DATA_TYPE << 3 | VARINT)) {
			const uint64_t type = get_varint(w);

			t->dtype = dtype_of(type);
			if (type && t->dtype == HT_INVALID)
				wrong(w, "a tensor has a type that is not known here");
		} else if (tag == (SHAPE << 3 | BYTES)) {
			struct wire shape = get_bytes(w);

			get_shape(&shape, t);
			if (shape.wrong)
				wrong(w, shape.wrong);
		} else if (tag == (size_field[side] << 3 | VARINT)) {
			t->bytes = get_varint(w);
		} else {
			skip(w, tag);
		}
	}
}

struct dump_tensor *dump_file_tensor(struct dump_file *f, int side, size_t i)
{
	struct dump_tensors *of = side == DUMP_OUTPUT ? &f->of[DUMP_OUTPUT] : &f->of[DUMP_INPUT];
	struct dump_tensor *more_room;

	if (i < of->n)
		return &of->tensor[i];
	more_room = realloc(of->tensor, (i + 1) * sizeof *more_room);
	if (!more_room)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	memset(more_room + of->n, 0, (i + 1 - of->n) * sizeof *more_room);
	for (size_t k = of->n; k <= i; k++)
		more_room[k].dtype = HT_INVALID;
	of->tensor = more_room;
	of->n = i + 1;
	return &more_room[i];
}

static void get_message(struct wire *w, struct dump_file *f)
{
	while (more(w)) {
		const uint64_t tag = get_varint(w);
		const int side = tag >> 3 == OUTPUT ? DUMP_OUTPUT : DUMP_INPUT;
		struct wire part;

		if (tag != (OUTPUT << 3 | BYTES) && tag != (INPUT << 3 | BYTES)) {
			skip(w, tag);
			continue;
		}
		part = get_bytes(w);
		get_tensor(&part, side, dump_file_tensor(f, side, f->of[side].n));
		if (part.wrong)
			wrong(w, part.wrong);
	}
}

/* Whether the size of a tensor is that of its elements. */
static bool has_size(const struct dump_tensor *t)
{
	size_t n = t->dtype == HT_INVALID ? 0 : ht_dtype_bytes(t->dtype);

	for (int32_t i = 0; i < t->rank; i++)
		if (__builtin_mul_overflow(n, (size_t)t->dim[i], &n))
			return false;
	return n == t->bytes;
}

/* Copies the elements, which follow the message. */
static void get_elements(struct wire *w, struct dump_file *f)
{
	for (int side = DUMP_INPUT; side <= DUMP_OUTPUT; side++)
		for (size_t i = 0; i < f->of[side].n && !w->wrong; i++) {
			struct dump_tensor *t = &f->of[side].tensor[i];

			if (!has_size(t))
				wrong(w, "the size of a tensor is not that of its elements");
			else if (t->bytes > (size_t)(w->end - w->at))
				wrong(w, "the file ends inside of a tensor");
			if (w->wrong)
				return;
			t->data = must_alloc(t->bytes + 1);
			memcpy(t->data, w->at, t->bytes);
			w->at += t->bytes;
		}
	if (!w->wrong && w->at != w->end)
		wrong(w, "the file goes on behind its tensors");
}

static void decode(struct wire *w, struct dump_file *f)
{
	struct wire message;
	uint64_t n = 0;

	if (w->end - w->at < 8) {
		wrong(w, "the file ends inside of its first number");
		return;
	}
	for (int i = 0; i < 8; i++)
		n |= (uint64_t)*w->at++ << 8 * i;
	if (n > (uint64_t)(w->end - w->at)) {
		wrong(w, "the message ends outside of the file");
		return;
	}
	message = (struct wire){ .begin = w->begin, .at = w->at, .end = w->at + n };
	w->at += n;
	get_message(&message, f);
	if (message.wrong) {
		w->at = message.at;
		wrong(w, message.wrong);
	}
	get_elements(w, f);
}

/* All bytes of a file; NULL: errno says why they cannot be read.  The caller frees them. */
static char *read_all(const char *path, size_t *n)
{
	FILE *in = fopen(path, "rbe");
	char *bytes = NULL;
	long end;

	if (!in)
		return NULL;
	end = fseek(in, 0, SEEK_END) == 0 ? ftell(in) : -1;
	if (end >= 0 && fseek(in, 0, SEEK_SET) == 0) {
		*n = (size_t)end;
		bytes = must_alloc(*n + 1);
	}
	if (bytes && fread(bytes, 1, *n, in) != *n) {
		free(bytes);
		bytes = NULL;
	}
	fclose(in);
	return bytes;
}

enum ht_status dump_file_read(const char *path, struct dump_file *f)
{
	struct wire w = { .wrong = NULL };
	size_t n = 0, at;
	char *bytes;

	*f = (struct dump_file){ .node = "" };
	errno = EIO;
	bytes = read_all(path, &n);
	if (!bytes)
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
	w.begin = w.at = (const unsigned char *)bytes;
	w.end = w.begin + n;
	decode(&w, f);
	at = (size_t)(w.at - w.begin);
	free(bytes);
	if (!w.wrong)
		return HT_OK;
	dump_file_free(f);
	return fail(HT_E_INPUT, "%s: byte %zu: %s", path, at, w.wrong);
}

static void free_tensors(struct dump_tensors *of)
{
	for (size_t i = 0; i < of->n; i++)
		free(of->tensor[i].data);
	free(of->tensor);
	*of = (struct dump_tensors){ .n = 0 };
}

void dump_file_free(struct dump_file *f)
{
	free_tensors(&f->of[DUMP_INPUT]);
	free_tensors(&f->of[DUMP_OUTPUT]);
}

/* ---- one tensor of a dump ---- */

static bool extend(struct dump_tensor *t, const struct ht_array *part)
{
	char *data = realloc(t->data, t->bytes + part->bytes + 1);

	if (!data)
		return false; /* t->data is unchanged */
	if (part->bytes)
		memcpy(data + t->bytes, part->data, part->bytes);
	t->data = data;
	t->bytes += part->bytes;
	return true;
}

/* Adds an array.  For parts of a batch, the file has the parts so far, and the first dimension
 * says how many rows these are. */
static bool take(struct dump_tensor *t, const struct ht_tensor_info *i, const struct ht_seen *s)
{
	if (!s->part)
		t->bytes = 0;
	t->dtype = i->dtype;
	t->rank = i->rank;
	for (int32_t k = 0; k < i->rank; k++)
		t->dim[k] = i->dim[k];
	if (s->parts > 1 && i->rank)
		t->dim[0] = i->dim[0] / (int64_t)s->parts * (int64_t)(s->part + 1);
	return extend(t, &s->array);
}

bool dump_file_put(const char *path, const char *node, uint64_t time, int side, size_t index,
	const struct ht_tensor_info *i, const struct ht_seen *s)
{
	struct dump_file f = { .node = "" };
	FILE *before = fopen(path, "rbe");
	bool good = true;

	if (before) {
		fclose(before);
		good = dump_file_read(path, &f) == HT_OK;
	}
	f.node = node;
	f.time = time;
	good = good && number_of(i->dtype) && i->rank <= DUMP_AXES &&
	       take(dump_file_tensor(&f, side, index), i, s) && dump_file_write(&f, path);
	dump_file_free(&f);
	return good;
}
