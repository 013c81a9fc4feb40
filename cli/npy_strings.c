/* Strings of .npy files: each element has as many bytes as the longest string, with zeros behind
 * shorter ones.
 *
 * 'S' has bytes. 'U' has code points of four bytes each, which are converted to UTF-8.  So zeros
 * at the end of a string do not belong to it, as in NumPy; a string that ends in one cannot be
 * written. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINT = 4 /* bytes of a code point of 'U' */ };

bool npy_is_string(const char *descr, size_t *width)
{
	bool bytes = !strncmp(descr, "|S", 2), points = !strncmp(descr, "<U", 2);
	char *end;
	unsigned long n;

	if ((!bytes && !points) || descr[2] < '0' || descr[2] > '9')
		return false;
	n = strtoul(descr + 2, &end, 10);
	*width = bytes ? n : n * POINT;
	return !*end && n <= (size_t)1 << 40;
}

/* ---- arrays ---- */

size_t array_count(const struct ht_array *a)
{
	size_t n = 1;

	for (int32_t i = 0; i < a->rank; i++)
		n *= (size_t)a->dim[i];
	return n;
}

static uint64_t offset_at(const struct ht_array *a, size_t i)
{
	uint64_t offset;

	memcpy(&offset, (const char *)a->data + i * sizeof offset, sizeof offset);
	return offset;
}

const char *array_string(const struct ht_array *a, size_t i, size_t *n)
{
	*n = (size_t)(offset_at(a, i + 1) - offset_at(a, i));
	return (const char *)a->data + (array_count(a) + 1) * sizeof(uint64_t) + offset_at(a, i);
}

/* ---- reading ---- */

/* The bytes of one code point as UTF-8; 0: it is not valid. */
static size_t put_point(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

static uint32_t point_at(const char *p)
{
	uint32_t c;

	memcpy(&c, p, sizeof c);
	return c;
}

/* The length without the zeros at the end. */
static size_t length_of(const char *p, size_t width)
{
	while (width && !p[width - 1])
		width--;
	return width;
}

/* UTF-8 needs no more bytes than the code points. */
static bool put_points(char *to, const char *p, size_t bytes, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < bytes; i += POINT) {
		size_t more = put_point(to + *n, point_at(p + i));

		if (!more)
			return false;
		*n += more;
	}
	return true;
}

enum ht_status npy_strings(
	const char *name, const struct npy_head *h, const char *p, size_t count, struct array *out)
{
	bool points = h->descr[1] == 'U';
	size_t offsets = (count + 1) * sizeof(uint64_t), room = offsets + count * h->width;
	char *data = realloc(out->a.data, room + 1), *to;
	uint64_t end = 0;

	if (!data)
		return fail(HT_E_ENVIRONMENT, "%s: no memory for %zu bytes", name, room);
	out->a.data = data;
	to = data + offsets;
	memset(data, 0, offsets);
	for (size_t i = 0; i < count; i++, p += h->width) {
		size_t n = length_of(p, h->width);

		if (points && !put_points(to + end, p, (n + POINT - 1) / POINT * POINT, &n))
			return fail(HT_E_INPUT,
				"%s: element %zu has a code point that UTF-8 does not have", name,
				i);
		if (!points && n)
			memcpy(to + end, p, n);
		end += n;
		memcpy(data + (i + 1) * sizeof end, &end, sizeof end);
	}
	out->a.bytes = offsets + (size_t)end;
	return HT_OK;
}

/* ---- writing ---- */

static enum ht_status width_of(const struct ht_array *a, size_t *width)
{
	*width = 1; /* NumPy does not read files with strings of no bytes */
	for (size_t i = 0; i < array_count(a); i++) {
		size_t n;
		const char *p = array_string(a, i, &n);

		if (n && !p[n - 1])
			return fail(HT_E_UNSUPPORTED,
				"string %zu ends in a zero byte, which a .npy file cannot have", i);
		if (n > *width)
			*width = n;
	}
	return HT_OK;
}

enum ht_status npy_print_strings(const struct ht_array *a, struct ht_bytes *out)
{
	char head[NPY_HEAD], descr[32];
	size_t width, bytes, n;
	enum ht_status st = width_of(a, &width);

	*out = (struct ht_bytes){ 0 };
	if (st != HT_OK)
		return st;
	snprintf(descr, sizeof descr, "|S%zu", width);
	n = npy_header(a, descr, head);
	if (__builtin_mul_overflow(width, array_count(a), &bytes) || bytes > SIZE_MAX / 4 ||
		!(out->p = calloc(n + bytes + 1, 1)))
		return fail(HT_E_ENVIRONMENT, "no memory for strings of %zu bytes each", width);
	out->n = n + bytes;
	memcpy(out->p, head, n);
	for (size_t i = 0; i < array_count(a); i++) {
		size_t length;
		const char *p = array_string(a, i, &length);

		if (length)
			memcpy(out->p + n + i * width, p, length);
	}
	return HT_OK;
}
