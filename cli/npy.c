/* NumPy's .npy: a header in Python's notation, then the elements.
 *
 * Versions 1 to 3 are read, version 1 is written.  Big-endian, pickled and structured arrays are
 * refused; Fortran order is put into row-major order.  Strings (npy_strings.c) are read from 'S' and 'U' and written as 'S'.  bfloat16 has no form of its own there: it is
 * read from 'V2' and '<u2' where a bfloat16 is wanted, and written as '<u2' (npz.c puts a note
 * beside it) or widened to float32. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_RANK 32

static const struct {
	const char *descr;
	enum ht_dtype dtype;
} types[] = {
	{ "<f4", HT_F32 },
	{ "<f8", HT_F64 },
	{ "<f2", HT_F16 },
	{ "|b1", HT_BOOL },
	{ "|i1", HT_I8 },
	{ "|u1", HT_U8 },
	{ "<i2", HT_I16 },
	{ "<u2", HT_U16 },
	{ "<i4", HT_I32 },
	{ "<u4", HT_U32 },
	{ "<i8", HT_I64 },
	{ "<u8", HT_U64 },
	{ "<c8", HT_C64 },
	{ "<c16", HT_C128 },
	{ "|V2", HT_U16 },
	{ "<V2", HT_U16 },
	{ "=f4", HT_F32 },
};

void array_free(struct array *a)
{
	free(a->a.data);
	a->a.data = NULL;
}

enum ht_status array_make(struct array *a, enum ht_dtype t, int32_t rank, const int64_t *dim)
{
	size_t count = 1;

	memset(a, 0, sizeof *a);
	if (rank > MAX_RANK)
		return fail(HT_E_UNSUPPORTED, "an array of %d dimensions", (int)rank);
	for (int32_t i = 0; i < rank; i++) {
		a->shape[i] = dim[i];
		if (dim[i] < 0 || __builtin_mul_overflow(count, (size_t)dim[i], &count))
			return fail(HT_E_INPUT, "an array of too many elements");
	}
	a->a.dtype = t;
	a->a.rank = rank;
	a->a.dim = a->shape;
	if (t == HT_STRING)
		a->a.bytes = count < SIZE_MAX / 32 ? (count + 1) * sizeof(uint64_t) : SIZE_MAX;
	else if (__builtin_mul_overflow(count, ht_dtype_bytes(t), &a->a.bytes))
		a->a.bytes = SIZE_MAX;
	if (a->a.bytes > SIZE_MAX / 4)
		return fail(HT_E_INPUT, "an array of too many bytes");
	a->a.data = aligned_alloc(64, (a->a.bytes + 127) / 64 * 64);
	if (!a->a.data)
		return fail(HT_E_ENVIRONMENT, "no memory for an array of %zu bytes", a->a.bytes);
	memset(a->a.data, 0, a->a.bytes);
	return HT_OK;
}

/* ---- reading ---- */

/* The text behind 'key': in the header's dictionary; NULL if there is no such key. */
static const char *value_of(const char *text, const char *key)
{
	char quoted[32];
	const char *p;

	snprintf(quoted, sizeof quoted, "'%s'", key);
	p = strstr(text, quoted);
	if (!p)
		return NULL;
	p += strlen(quoted);
	p += strspn(p, " ");
	if (*p++ != ':')
		return NULL;
	return p + strspn(p, " ");
}

static bool parse_shape(const char *p, struct npy_head *h)
{
	if (*p++ != '(')
		return false;
	h->rank = 0;
	for (;;) {
		char *end;
		p += strspn(p, " ,");
		if (*p == ')')
			return true;
		if (h->rank == MAX_RANK || *p < '0' || *p > '9')
			return false;
		h->dim[h->rank] = strtoll(p, &end, 10);
		if (h->dim[h->rank] < 0 || h->dim[h->rank] > (int64_t)1 << 48)
			return false;
		h->rank++;
		p = end;
		if (*p == 'L')
			p++;
	}
}

static bool parse_header(const char *text, struct npy_head *h)
{
	const char *descr = value_of(text, "descr"), *order = value_of(text, "fortran_order");
	const char *shape = value_of(text, "shape");
	size_t n;

	if (!descr || !order || !shape || *descr != '\'')
		return false;
	n = strcspn(descr + 1, "'");
	if (n >= sizeof h->descr)
		return false;
	memcpy(h->descr, descr + 1, n);
	h->descr[n] = 0;
	h->fortran = !strncmp(order, "True", 4);
	return (h->fortran || !strncmp(order, "False", 5)) && parse_shape(shape, h);
}

/* Element (i0, i1, …) is at i0 + d0 * (i1 + d1 * …) in the file. */
static void from_fortran(
	const char *src, char *dst, const struct array *a, size_t size, size_t count)
{
	int64_t at[MAX_RANK] = { 0 };

	for (size_t i = 0; i < count; i++) {
		size_t from = 0;
		for (int32_t d = a->a.rank; d-- > 0;)
			from = from * (size_t)a->shape[d] + (size_t)at[d];
		memcpy(dst + i * size, src + from * size, size);
		for (int32_t d = a->a.rank; d-- > 0;) {
			if (++at[d] < a->shape[d])
				break;
			at[d] = 0;
		}
	}
}

static size_t count_of(const struct npy_head *h)
{
	size_t n = 1;

	for (int32_t i = 0; i < h->rank; i++)
		if (__builtin_mul_overflow(n, (size_t)h->dim[i], &n))
			return SIZE_MAX;
	return n;
}

static enum ht_status take_strings(
	const char *name, const struct npy_head *h, const char *p, size_t n, struct array *out)
{
	size_t count = count_of(h), promised;
	char *ordered = NULL;
	enum ht_status st;

	if (__builtin_mul_overflow(count, h->width, &promised) || promised != n)
		return fail(HT_E_INPUT, "%s: %zu bytes of elements, the header promises %zu", name,
			n, promised);
	st = array_make(out, HT_STRING, h->rank, h->dim);
	if (st != HT_OK)
		return st;
	if (h->fortran && h->rank > 1) {
		ordered = must_alloc(n + 1);
		from_fortran(p, ordered, out, h->width, count);
	}
	st = npy_strings(name, h, ordered ? ordered : p, count, out);
	free(ordered);
	if (st != HT_OK)
		array_free(out);
	return st;
}

static enum ht_status take(
	const char *name, const struct npy_head *h, const char *p, size_t n, struct array *out)
{
	enum ht_status st;

	if (h->dtype == HT_STRING)
		return take_strings(name, h, p, n, out);
	st = array_make(out, h->dtype, h->rank, h->dim);
	if (st != HT_OK)
		return st;
	if (n != out->a.bytes) {
		st = fail(HT_E_INPUT, "%s: %zu bytes of elements, the header promises %zu", name, n,
			out->a.bytes);
		array_free(out);
		return st;
	}
	out->raw16 = h->raw16;
	if (h->fortran && h->rank > 1)
		from_fortran(p, out->a.data, out, ht_dtype_bytes(h->dtype),
			out->a.bytes / ht_dtype_bytes(h->dtype));
	else if (out->a.bytes)
		memcpy(out->a.data, p, out->a.bytes);
	return HT_OK;
}

static enum ht_status set_type(const char *name, struct npy_head *h)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].descr, h->descr))
			h->dtype = types[i].dtype;
	h->raw16 = h->dtype == HT_U16;
	if (npy_is_string(h->descr, &h->width))
		h->dtype = HT_STRING;
	if (h->dtype == HT_INVALID)
		return fail(
			HT_E_INPUT, "%s: elements of NumPy type '%s' are not read", name, h->descr);
	return HT_OK;
}

static enum ht_status read_text(
	const char *name, npy_read_fn *read, void *from, size_t length, struct npy_head *h)
{
	char *text;
	bool ok;

	if (length > 1 << 20)
		return fail(HT_E_INPUT, "%s: byte 8: a header of %zu bytes", name, length);
	text = must_alloc(length + 1);
	ok = read(from, text, length) == length;
	if (!ok) {
		free(text);
		return fail(HT_E_INPUT, "%s: byte 8: a header of %zu bytes", name, length);
	}
	ok = parse_header(text, h);
	free(text);
	if (!ok)
		return fail(HT_E_INPUT, "%s: byte %zu: the header is no NumPy header", name,
			h->start - length);
	return set_type(name, h);
}

enum ht_status npy_head(const char *name, npy_read_fn *read, void *from, struct npy_head *h)
{
	unsigned char p[12] = { 0 };
	size_t length;

	memset(h, 0, sizeof *h);
	if (read(from, p, 10) != 10 || memcmp(p, "\x93NUMPY", 6))
		return fail(HT_E_INPUT, "%s: byte 0: not a .npy file", name);
	if (p[6] < 1 || p[6] > 3)
		return fail(HT_E_INPUT, "%s: byte 6: version %d of .npy is not read", name, p[6]);
	length = p[8] | (size_t)p[9] << 8;
	h->start = 10 + length;
	if (p[6] > 1) {
		if (read(from, p + 10, 2) != 2)
			return fail(HT_E_INPUT, "%s: byte 8: cut off in the header", name);
		length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
		h->start = 12 + length;
	}
	return read_text(name, read, from, length, h);
}

struct memory {
	const char *p;
	size_t n;
};

static size_t read_memory(void *from, void *to, size_t n)
{
	struct memory *m = from;

	n = n < m->n ? n : m->n;
	memcpy(to, m->p, n);
	m->p += n;
	m->n -= n;
	return n;
}

enum ht_status npy_parse(const char *name, const void *data, size_t n, struct array *out)
{
	struct memory rest = { data, n };
	struct npy_head h;
	enum ht_status st;

	memset(out, 0, sizeof *out);
	st = npy_head(name, read_memory, &rest, &h);
	return st == HT_OK ? take(name, &h, rest.p, rest.n, out) : st;
}

enum ht_status npy_load(const char *path, struct array *out)
{
	struct stat s;
	enum ht_status st;
	FILE *f = NULL;
	char *p;

	memset(out, 0, sizeof *out);
	/* Tested before opening: opening a FIFO would wait for a writer. */
	if (!stat(path, &s) && !S_ISREG(s.st_mode))
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: not a regular file", path);
	f = fopen(path, "rb");
	if (!f || fstat(fileno(f), &s)) {
		st = fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
		if (f)
			fclose(f);
		return st;
	}
	p = malloc((size_t)s.st_size + 1);
	if (!p || fread(p, 1, (size_t)s.st_size, f) != (size_t)s.st_size)
		st = fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
	else
		st = npy_parse(path, p, (size_t)s.st_size, out);
	free(p);
	fclose(f);
	return st;
}

/* ---- writing ---- */

static const char *descr_of(enum ht_dtype t)
{
	if (t == HT_BF16)
		return "<u2";
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].dtype == t)
			return types[i].descr;
	return NULL;
}

static int print_header(char *h, size_t size, const struct ht_array *a, const char *descr)
{
	int n = snprintf(h, size, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);

	for (int32_t i = 0; i < a->rank; i++)
		n += snprintf(h + n, size - (size_t)n, "%lld,%s", (long long)a->dim[i],
			i + 1 < a->rank ? " " : "");
	if (a->rank > 1)
		n--; /* "(2, 3)", but "(2,)" */
	n += snprintf(h + n, size - (size_t)n, "), }");
	while ((10 + n + 1) % 64)
		h[n++] = ' ';
	h[n++] = '\n';
	return n;
}

size_t npy_header(const struct ht_array *a, const char *descr, char out[NPY_HEAD])
{
	int n = print_header(out + 10, NPY_HEAD - 90, a, descr);

	memcpy(out, "\x93NUMPY\x01\x00", 8);
	out[8] = (char)(n & 255);
	out[9] = (char)(n >> 8);
	return 10 + (size_t)n;
}

size_t npy_begin(const struct ht_array *a, bool widen, char out[NPY_HEAD])
{
	bool wide = widen && a->dtype == HT_BF16;
	const char *descr = descr_of(wide ? HT_F32 : a->dtype);

	if (!descr)
		return 0;
	return npy_header(a, descr, out);
}

enum ht_status npy_print(const struct ht_array *a, bool widen, struct ht_bytes *out)
{
	bool wide = widen && a->dtype == HT_BF16;
	size_t bytes = wide ? a->bytes * 2 : a->bytes, n;
	char head[NPY_HEAD];

	if (a->dtype == HT_STRING)
		return npy_print_strings(a, out);
	n = npy_begin(a, widen, head);
	if (!n)
		return fail(HT_E_UNSUPPORTED, "%s has no form in .npy", ht_dtype_name(a->dtype));
	out->n = n + bytes;
	out->p = malloc(out->n + 1);
	if (!out->p)
		return fail(HT_E_ENVIRONMENT, "no memory for %zu bytes", out->n);
	memcpy(out->p, head, n);
	if (wide)
		ht_widen(a->data, HT_BF16, (float *)(void *)(out->p + n), bytes / 4);
	else if (bytes)
		memcpy(out->p + n, a->data, bytes);
	return HT_OK;
}
