/* Diagnostics in the order in which they were recorded, copied into an arena of their own. */
#include "base/base.h"

void ht_diags_init(struct ht_diags *d)
{
	*d = (struct ht_diags){ 0 };
	ht_arena_init(&d->arena, NULL);
}

void ht_diags_release(struct ht_diags *d)
{
	ht_arena_release(&d->arena);
	ht_diags_init(d);
}

void ht_diags_restore(struct ht_diags *d, const struct ht_diags *before)
{
	d->first = before->first;
	d->last = before->last;
	d->count = before->count;
	d->errors = before->errors;
	d->warnings = before->warnings;
	d->dropped = before->dropped;
	if (d->last)
		d->last->next = NULL;
}

static struct ht_where copy_where(struct ht_arena *a, struct ht_where at)
{
	if (at.path)
		at.path = ht_str_copy(a, ht_str(at.path)).p;
	if (at.node.p)
		at.node = ht_str_copy(a, at.node);
	if (at.op.p)
		at.op = ht_str_copy(a, at.op);
	return at;
}

/* Makes the record; NULL: out of memory.  The caller's status stands in either case. */
static struct ht_diag *make(struct ht_diags *d, struct ht_where at, const char *fmt, va_list args)
{
	struct ht_unwind here;
	struct ht_diag *made;
	va_list again;
	int n;
	char *text;

	d->arena.unwind = &here;
	if (setjmp(here.env)) {
		d->arena.unwind = NULL;
		return NULL;
	}
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		ht_arena_fail(&d->arena);
	made = HT_NEW(&d->arena, struct ht_diag);
	text = ht_alloc(&d->arena, (size_t)n + 1);
	vsnprintf(text, (size_t)n + 1, fmt, args);
	made->text = (struct ht_str){ text, (size_t)n };
	made->where = copy_where(&d->arena, at);
	d->arena.unwind = NULL;
	return made;
}

static void add(struct ht_diags *d, enum ht_severity severity, enum ht_status st,
	struct ht_where at, const char *fmt, va_list args)
{
	struct ht_diag *made = NULL;

	d->errors += severity == HT_ERROR;
	d->warnings += severity == HT_WARNING;
	if (d->count < HT_MAX_DIAGS)
		made = make(d, at, fmt, args);
	if (!made) {
		d->dropped++;
		return;
	}
	d->count++;
	made->severity = severity;
	made->status = st;
	if (d->last)
		d->last->next = made;
	else
		d->first = made;
	d->last = made;
}

static void add_error(
	struct ht_diags *d, enum ht_status st, struct ht_where at, const char *fmt, va_list args)
{
	HT_CHECK(st != HT_OK);
	if (d)
		add(d, HT_ERROR, st, at, fmt, args);
}

enum ht_status ht_error(
	struct ht_diags *d, enum ht_status st, struct ht_where at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_error(d, st, at, fmt, args);
	va_end(args);
	return st;
}

enum ht_status ht_refuse(struct ht_diags *d, enum ht_status st, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_error(d, st, HT_NOWHERE, fmt, args);
	va_end(args);
	return st;
}

void ht_warn(struct ht_diags *d, struct ht_where at, const char *fmt, ...)
{
	va_list args;

	if (!d)
		return;
	va_start(args, fmt);
	add(d, HT_WARNING, HT_OK, at, fmt, args);
	va_end(args);
}

void ht_note(struct ht_diags *d, struct ht_where at, const char *fmt, ...)
{
	va_list args;

	if (!d)
		return;
	va_start(args, fmt);
	add(d, HT_NOTE, HT_OK, at, fmt, args);
	va_end(args);
}

/* Names come from files, so control characters and invalid text are replaced before they reach a
 * terminal. */
static void put_clean(struct ht_buf *out, struct ht_str s)
{
	for (size_t i = 0; i < s.n;) {
		unsigned char c = (unsigned char)s.p[i];
		size_t n = ht_utf8_length(s.p + i, s.n - i);

		if (!n || c < 0x20 || c == 0x7f)
			ht_printf(out, "\\x%02x", c);
		else
			ht_put(out, s.p + i, n);
		i += n ? n : 1;
	}
}

static void print_place(const struct ht_where *at, struct ht_buf *out)
{
	if (at->path) {
		put_clean(out, ht_str(at->path));
		if (at->line)
			ht_printf(out, ":%ld", at->line);
		if (at->line && at->column)
			ht_printf(out, ":%ld", at->column);
		ht_puts(out, ": ");
	} else if (at->line) {
		ht_printf(out, "line %ld: ", at->line);
	}
	if (at->offset >= 0 && !at->line)
		ht_printf(out, "byte %lld: ", (long long)at->offset);
}

void ht_diag_print(const struct ht_diag *d, struct ht_buf *out)
{
	static const char *const severity[] = {
		[HT_ERROR] = "error",
		[HT_WARNING] = "warning",
		[HT_NOTE] = "note",
	};

	print_place(&d->where, out);
	ht_printf(out, "%s: ", severity[d->severity]);
	if (d->where.node.n) {
		ht_puts(out, "node '");
		put_clean(out, d->where.node);
		ht_puts(out, "'");
	}
	if (d->where.op.n) {
		ht_puts(out, d->where.node.n ? " (" : "op ");
		put_clean(out, d->where.op);
		ht_puts(out, d->where.node.n ? ")" : "");
	}
	if (d->where.node.n || d->where.op.n)
		ht_puts(out, ": ");
	put_clean(out, d->text);
}
