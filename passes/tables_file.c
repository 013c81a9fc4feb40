/* The lines of a text file as keys and values of a table (InitializeTableFromTextFile), by the
 * rules of TensorFlow.
 *
 * The key, and likewise the value, of a line is the line itself, its number, or one of its
 * columns.  A carriage return is no character.  The last line may end with the file.  The
 * attribute vocab_size, unless it is -1, is the number of lines that are read: further ones are
 * ignored, and fewer are an error, as are an empty line and a file without lines. */
#include "passes/tables_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { WHOLE_LINE = -2, LINE_NUMBER = -1 }; /* values of key_index and value_index */

/* The text of the file without carriage returns, and what is read of each line. */
struct reading {
	const struct ht_node *fills;
	const char *path;
	struct ht_arena *a;
	struct ht_diags *d;
	struct ht_str text;
	char delimiter;
	int64_t offset, line; /* line: from 0 */
};

/* Keys or values. */
struct part {
	const char *name;
	int64_t index;
	enum ht_dtype dtype;
	struct ht_tensor *to;
};

static enum ht_status fail(const struct reading *r, const char *fmt, ...) HT_PRINTF(2, 3);
static enum ht_status fail(const struct reading *r, const char *fmt, ...)
{
	struct ht_where at = { .path = r->path,
		.line = (long)r->line + 1,
		.node = r->fills->name,
		.op = r->fills->type,
		.offset = -1 };
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ht_error(r->d, HT_E_INPUT, at, "%s", text);
}

/* ---- text ---- */

static struct ht_str without_returns(const struct ht_file *f, struct ht_arena *a)
{
	char *p = HT_NEW_ARRAY(a, char, f->n + 1);
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		if (f->p[i] != '\r')
			p[n++] = (char)f->p[i];
	return (struct ht_str){ p, n };
}

/* Takes what is in front of the next `end`, or all, off the front of *text. */
static struct ht_str take(struct ht_str *text, char end)
{
	const char *p = text->n ? memchr(text->p, end, text->n) : NULL;
	struct ht_str first = { text->p, p ? (size_t)(p - text->p) : text->n };
	size_t taken = first.n + (p != NULL);

	text->p += taken;
	text->n -= taken;
	return first;
}

static int64_t lines_of(struct ht_str text)
{
	int64_t n = 0;

	for (; text.n; n++)
		take(&text, '\n');
	return n;
}

/* False: the line has no such column, and *index is the number of its columns. */
static bool column_of(struct ht_str line, char delimiter, int64_t *index, struct ht_str *out)
{
	int64_t columns = 0;

	do {
		bool last = !line.n || !memchr(line.p, delimiter, line.n);

		*out = take(&line, delimiter);
		if (columns++ == *index)
			return true;
		if (last)
			break;
	} while (true);
	*index = columns;
	return false;
}

/* ---- elements ---- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct ht_str trimmed(struct ht_str s)
{
	while (s.n && is_blank(s.p[0]))
		s.p++, s.n--;
	while (s.n && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

static void *element(const struct part *p, int64_t i)
{
	return (char *)(uintptr_t)p->to->blob->p + (size_t)i * ht_dtype_info(p->dtype)->bytes;
}

static bool put_int(const struct part *p, int64_t i, int64_t v)
{
	int32_t narrow = (int32_t)v;

	if (p->dtype == HT_I32 && narrow != v)
		return false;
	if (p->dtype == HT_I32)
		memcpy(element(p, i), &narrow, sizeof narrow);
	else
		memcpy(element(p, i), &v, sizeof v);
	return true;
}

static bool put_float(const struct part *p, int64_t i, double v)
{
	float narrow = (float)v;

	if (p->dtype == HT_F32)
		memcpy(element(p, i), &narrow, sizeof narrow);
	else
		memcpy(element(p, i), &v, sizeof v);
	return true;
}

static bool put_text(const struct part *p, int64_t i, struct ht_str s)
{
	int64_t whole;
	double v;

	if (p->dtype == HT_STRING) {
		p->to->strings[i] = s;
		return true;
	}
	s = trimmed(s);
	if (ht_is_float(p->dtype))
		return ht_parse_double(s, &v) && put_float(p, i, v);
	return ht_parse_int(s, &whole) && put_int(p, i, whole);
}

static enum ht_status put(const struct reading *r, const struct part *p, struct ht_str line)
{
	int64_t index = p->index, number;
	struct ht_str s = line;

	if (index == LINE_NUMBER)
		return !__builtin_add_overflow(r->line, r->offset, &number) &&
				       put_int(p, r->line, number)
			       ? HT_OK
			       : fail(r, "the number of the line is too large");
	if (index != WHOLE_LINE && !column_of(line, r->delimiter, &index, &s))
		return fail(r, "the line has %" PRId64 " columns, and the %s is column %" PRId64,
			index, p->name, p->index);
	if (put_text(p, r->line, s))
		return HT_OK;
	return fail(r, "the %s '%.*s' is no %s", p->name, s.n < 100 ? (int)s.n : 100, s.p,
		ht_dtype_info(p->dtype)->name);
}

/* ---- attributes ---- */

static struct part part_of(const struct reading *r, const struct ht_node *table, const char *name)
{
	const char *index = name[0] == 'k' ? "key_index" : "value_index",
		   *type = name[0] == 'k' ? "key_dtype" : "value_dtype";

	return (struct part){ .name = name,
		.index = ht_attr_int(r->fills, index, 0),
		.dtype = ht_type_attr(table, type) };
}

static enum ht_status check_part(const struct reading *r, const struct part *p)
{
	bool whole = ht_is_index(p->dtype) || p->dtype == HT_STRING;

	if (p->index < WHOLE_LINE)
		return fail(r, "attribute %s_index is %" PRId64, p->name, p->index);
	if (!whole && p->dtype != HT_F32 && p->dtype != HT_F64)
		return fail(
			r, "a text has no %s of type %s", p->name, ht_dtype_info(p->dtype)->name);
	if (p->index == LINE_NUMBER && p->dtype != HT_I64)
		return fail(r, "the %s is the number of the line, which is no %s", p->name,
			ht_dtype_info(p->dtype)->name);
	if (p->index == WHOLE_LINE && !whole)
		return fail(r, "the %s is the whole line, which is no %s", p->name,
			ht_dtype_info(p->dtype)->name);
	return HT_OK;
}

/* The number of lines to be read. */
static enum ht_status count(struct reading *r, int64_t *lines)
{
	int64_t size = ht_attr_int(r->fills, "vocab_size", -1);

	*lines = lines_of(r->text);
	if (!*lines || !size)
		return fail(r, "the table gets no line of the file");
	if (size < 0)
		return HT_OK;
	r->line = *lines;
	if (*lines < size)
		return fail(r,
			"the file ends here; attribute vocab_size promises %" PRId64 " lines",
			size);
	r->line = 0;
	*lines = size;
	return HT_OK;
}

static struct ht_tensor *new_tensor(const struct reading *r, enum ht_dtype t, int64_t n)
{
	struct ht_shape shape = ht_shape_make(r->a, 1, &n);
	struct ht_tensor *x;

	if (t != HT_STRING)
		return ht_tensor_sharing(
			r->a, t, shape, ht_blob_in(r->a, (size_t)n * ht_dtype_info(t)->bytes));
	x = ht_tensor_new(r->a, t, shape, NULL);
	x->form = HT_TENSOR_VALUES;
	x->values = (size_t)n;
	x->strings = HT_NEW_ARRAY(r->a, struct ht_str, (size_t)n);
	return x;
}

static char delimiter_of(const struct ht_node *n)
{
	struct ht_str s = ht_attr_str(n, "delimiter", "\t");

	return s.n ? s.p[0] : '\t';
}

enum ht_status ht_table_of_file(const struct ht_node *fills, const struct ht_named_file *f,
	const struct ht_node *table, struct ht_arena *a, struct ht_diags *d,
	struct ht_tensor **keys, struct ht_tensor **values)
{
	struct reading r = { .fills = fills,
		.path = f->path,
		.a = a,
		.d = d,
		.text = without_returns(f->file, a),
		.delimiter = delimiter_of(fills),
		.offset = ht_attr_int(fills, "offset", 0) };
	struct part key = part_of(&r, table, "key"), value = part_of(&r, table, "value");
	struct ht_str text = r.text;
	int64_t lines;

	HT_TRY(check_part(&r, &key));
	HT_TRY(check_part(&r, &value));
	HT_TRY(count(&r, &lines));
	key.to = *keys = new_tensor(&r, key.dtype, lines);
	value.to = *values = new_tensor(&r, value.dtype, lines);
	for (; r.line < lines; r.line++) {
		struct ht_str line = take(&text, '\n');

		if (!line.n)
			return fail(&r, "the line is empty");
		HT_TRY(put(&r, &key, line));
		HT_TRY(put(&r, &value, line));
	}
	return HT_OK;
}
