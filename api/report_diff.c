/* The differences between the decisions of two reports, and whether the later one is worse. */
#include "api/report_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- units ---- */

/* A policy that paints decides on imported nodes, others decide after clean-ups.  Two such
 * reports are compared by imported names. */
static bool is_painting(const struct ht_report_data *r)
{
	return r->decisions.painted != HT_INVALID;
}

static struct ht_str key_of(struct ht_arena *a, struct ht_str node, struct ht_str attr)
{
	return ht_str_printf(a, "%.*s\n%.*s", HT_STR_ARG(node), HT_STR_ARG(attr));
}

static void add_unit(struct ht_difference *x, struct ht_map *m, struct ht_str node,
	const struct ht_decided_type *t)
{
	ht_map_at(m, key_of(x->arena, node, t->attr))->value = (void *)(uintptr_t)t;
}

static void collect(struct ht_difference *x, const struct ht_report_data *r, struct ht_map *m)
{
	const struct ht_decisions *d = &r->decisions;

	ht_map_init(m, x->arena);
	for (size_t i = 0; i < d->types; i++) {
		const struct ht_decided_type *t = &d->type[i];
		if (x->same_stage || !t->origins)
			add_unit(x, m, t->node, t);
		for (int32_t k = 0; k < t->origins && !x->same_stage; k++)
			add_unit(x, m, t->origin[k], t);
	}
}

static bool differ(const struct ht_decided_type *a, const struct ht_decided_type *b)
{
	return a->to != b->to || a->operands != b->operands || a->emulated != b->emulated;
}

static void add(struct ht_difference *x, struct ht_str key, const struct ht_decided_type *before,
	const struct ht_decided_type *after)
{
	const char *end = memchr(key.p, '\n', key.n);

	x->unit = ht_grow(x->arena, x->unit, x->units, &x->unit_cap, sizeof *x->unit);
	x->unit[x->units++] =
		(struct ht_unit_pair){ { key.p, (size_t)(end - key.p) }, before, after };
}

static void compare_units(struct ht_difference *x)
{
	struct ht_map before, after;

	collect(x, x->before, &before);
	collect(x, x->after, &after);
	for (size_t i = 0; i < before.count; i++) {
		const struct ht_map_entry *e = &before.entries[i];
		const struct ht_decided_type *other = ht_map_get(&after, e->key);
		x->only_before += !other;
		if (other ? differ(e->value, other) : x->same_stage)
			add(x, e->key, e->value, other);
	}
	for (size_t i = 0; i < after.count; i++) {
		const struct ht_map_entry *e = &after.entries[i];
		if (ht_map_get(&before, e->key))
			continue;
		x->only_after++;
		if (x->same_stage)
			add(x, e->key, NULL, e->value);
	}
}

/* ---- casts ---- */

static struct ht_map_entry *entry_of(
	struct ht_difference *x, struct ht_map *m, const struct ht_decided_cast *c)
{
	return ht_map_at(m, key_of(x->arena, c->source, ht_str(ht_dtype_info(c->to)->name)));
}

/* Casts of `a` without a counterpart in `b`, which is a cast from the same tensor to the same
 * dtype. */
static void compare_casts(struct ht_difference *x, const struct ht_decisions *a,
	const struct ht_decisions *b, struct ht_cast_list *out)
{
	struct ht_map left;

	ht_map_init(&left, x->arena);
	for (size_t i = 0; i < b->casts; i++) {
		struct ht_map_entry *e = entry_of(x, &left, &b->cast[i]);
		e->value = (void *)((uintptr_t)e->value + 1);
	}
	out->cast = HT_NEW_ARRAY(x->arena, const struct ht_decided_cast *, a->casts);
	for (size_t i = 0; i < a->casts; i++) {
		struct ht_map_entry *e = entry_of(x, &left, &a->cast[i]);
		if (e->value)
			e->value = (void *)((uintptr_t)e->value - 1);
		else
			out->cast[out->n++] = &a->cast[i];
	}
}

int64_t ht_casts_bytes(const struct ht_report_data *r)
{
	int64_t sum = 0;

	for (size_t i = 0; i < r->decisions.casts; i++) {
		int64_t bytes = ht_cast_bytes(&r->decisions.cast[i]);
		if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum))
			return -1;
	}
	return sum;
}

void ht_difference_find(struct ht_difference *x, const struct ht_report_data *before,
	const struct ht_report_data *after, struct ht_arena *a)
{
	*x = (struct ht_difference){ .arena = a, .before = before, .after = after };
	x->same_stage = is_painting(before) == is_painting(after);
	compare_units(x);
	compare_casts(x, &after->decisions, &before->decisions, &x->appear);
	compare_casts(x, &before->decisions, &after->decisions, &x->vanish);
}

/* ---- text ---- */

static void put_side(struct ht_buf *b, const struct ht_decided_type *t)
{
	ht_puts(b, t ? ht_dtype_info(t->to)->name : "not decided on");
}

static void put_unit(struct ht_buf *b, const struct ht_unit_pair *u)
{
	const struct ht_decided_type *any = u->before ? u->before : u->after;

	ht_printf(b, "%.*s  %.*s: ", HT_STR_ARG(u->node), HT_STR_ARG(any->attr));
	put_side(b, u->before);
	ht_puts(b, " | ");
	put_side(b, u->after);
	ht_putc(b, '\n');
	for (int side = 0; side < 2; side++) {
		const struct ht_decided_type *t = side ? u->after : u->before;
		if (!t)
			continue;
		ht_puts(b, side ? "  + " : "  - ");
		ht_put_reason(b, t);
		ht_putc(b, '\n');
	}
}

static void put_casts(struct ht_buf *b, const char *sign, const struct ht_cast_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		ht_puts(b, sign);
		ht_put_cast_text(b, list->cast[i], false);
	}
}

static void put_bytes(struct ht_buf *b, int64_t bytes)
{
	if (bytes < 0)
		ht_puts(b, "unknown");
	else
		ht_printf(b, "%lld", (long long)bytes);
}

static void put_totals(struct ht_buf *b, const struct ht_difference *x)
{
	int64_t was = x->before->price, is = x->after->price;

	ht_printf(b, "%zu units differ", x->units);
	if (!x->same_stage && x->only_before + x->only_after)
		ht_printf(b, ", %zu and %zu are decided on only on one side", x->only_before,
			x->only_after);
	ht_printf(b, "; casts %zu -> %zu (+%zu, -%zu), bytes ", x->before->decisions.casts,
		x->after->decisions.casts, x->appear.n, x->vanish.n);
	put_bytes(b, ht_casts_bytes(x->before));
	ht_puts(b, " -> ");
	put_bytes(b, ht_casts_bytes(x->after));
	if (was >= 0 && is >= 0) {
		ht_puts(b, "; modelled ");
		ht_put_ms(b, was);
		ht_puts(b, " -> ");
		ht_put_ms(b, is);
		if (was > 0) {
			ht_puts(b, is < was ? " (" : " (+");
			ht_put_fixed(b, 100 * ((double)is / (double)was - 1), 2);
			ht_puts(b, "%)");
		}
	}
	ht_putc(b, '\n');
}

static void put_head(struct ht_buf *b, const char *sign, const struct ht_report_data *r)
{
	ht_printf(b, "%s %.*s", sign, HT_STR_ARG(r->policy));
	if (r->path)
		ht_printf(b, " (%s)", r->path);
	ht_putc(b, '\n');
}

static void put_text(struct ht_buf *b, const struct ht_difference *x)
{
	put_head(b, "---", x->before);
	put_head(b, "+++", x->after);
	for (size_t i = 0; i < x->units; i++)
		put_unit(b, &x->unit[i]);
	put_casts(b, "- ", &x->vanish);
	put_casts(b, "+ ", &x->appear);
	put_totals(b, x);
}

/* ---- JSON ---- */

static void put_side_json(struct ht_buf *b, const char *key, const struct ht_report_data *r)
{
	ht_printf(b, ",\n \"%s\": {\"policy\": ", key);
	ht_put_json(b, r->policy);
	if (r->path)
		ht_put_member(b, "report", ht_str(r->path));
	ht_put_number(b, "casts", (int64_t)r->decisions.casts);
	ht_put_number(b, "bytes", ht_casts_bytes(r));
	ht_put_number(b, "price_ps", r->price);
	ht_putc(b, '}');
}

static void put_unit_json(struct ht_buf *b, const struct ht_unit_pair *u)
{
	ht_puts(b, "{\"node\": ");
	ht_put_json(b, u->node);
	ht_puts(b, ", \"before\": ");
	if (u->before)
		ht_put_unit_json(b, u->before);
	else
		ht_puts(b, "null");
	ht_puts(b, ", \"after\": ");
	if (u->after)
		ht_put_unit_json(b, u->after);
	else
		ht_puts(b, "null");
	ht_putc(b, '}');
}

static void put_casts_json(struct ht_buf *b, const char *key, const struct ht_cast_list *list)
{
	ht_printf(b, ",\n \"%s\": [", key);
	for (size_t i = 0; i < list->n; i++) {
		ht_puts(b, i ? ",\n  " : "\n  ");
		ht_put_cast_json(b, list->cast[i]);
	}
	ht_putc(b, ']');
}

static void put_json(struct ht_buf *b, const struct ht_difference *x)
{
	ht_puts(b, "{\"schema\": \"halftone.diff/1\"");
	put_side_json(b, "before", x->before);
	put_side_json(b, "after", x->after);
	ht_puts(b, ",\n \"units\": [");
	for (size_t i = 0; i < x->units; i++) {
		ht_puts(b, i ? ",\n  " : "\n  ");
		put_unit_json(b, &x->unit[i]);
	}
	ht_putc(b, ']');
	put_casts_json(b, "new_casts", &x->appear);
	put_casts_json(b, "gone_casts", &x->vanish);
	ht_printf(b, ",\n \"only_before\": %zu,\n \"only_after\": %zu}\n", x->only_before,
		x->only_after);
}

/* ---- the interface ---- */

struct comparing {
	struct ht_report *before, *after;
	enum ht_format format;
	struct ht_bytes *out;
};

static enum ht_status compare(void *arg)
{
	struct comparing *k = arg;
	struct ht_arena *a = &k->after->w.scratch;
	struct ht_difference x;
	struct ht_buf b;

	ht_difference_find(&x, &k->before->data, &k->after->data, a);
	ht_buf_init(&b, a);
	if (k->format == HT_FORMAT_JSON)
		put_json(&b, &x);
	else
		put_text(&b, &x);
	return ht_bytes_of(ht_buf_str(&b), k->out);
}

enum ht_status ht_report_diff(struct ht_report *before, struct ht_report *after,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct comparing k = { before, after, format, out };
	enum ht_status st;

	*out = (struct ht_bytes){ 0 };
	if (format != HT_FORMAT_TEXT && format != HT_FORMAT_JSON)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "a difference is text or JSON");
	st = ht_guarded(&after->w.unwind, compare, &k, d);
	ht_arena_release(&after->w.scratch);
	return st;
}
