/* Diagnostics and small facts, for the public interface. */
#include "api/api.h"

#include <stdlib.h>

const char *ht_version(void)
{
	return HT_VERSION;
}

void ht_guard_files(void)
{
	ht_mapped_guard();
}

int ht_abi(void)
{
	return HT_ABI;
}

const char *ht_status_text(enum ht_status st)
{
	switch (st) {
	case HT_OK:
		return "done";
	case HT_E_VERDICT:
		return "done, with a negative verdict";
	case HT_E_USAGE:
		return "wrong usage";
	case HT_E_INPUT:
		return "invalid input";
	case HT_E_UNSUPPORTED:
		return "valid, but not supported here";
	case HT_E_ENVIRONMENT:
		return "cannot read, write or allocate";
	case HT_E_LIMIT:
		return "a limit was reached";
	case HT_E_INTERNAL:
		return "a defect of halftone";
	}
	return "unknown status";
}

struct ht_diags *ht_diags_new(void)
{
	struct ht_diags *d = ht_sys_alloc(sizeof *d);

	if (d)
		ht_diags_init(d);
	return d;
}

void ht_diags_free(struct ht_diags *d)
{
	if (!d)
		return;
	ht_diags_release(d);
	free(d);
}

size_t ht_diags_count(const struct ht_diags *d)
{
	size_t n = 0;

	if (d)
		for (const struct ht_diag *m = d->first; m; m = m->next)
			n++;
	return n;
}

size_t ht_diags_dropped(const struct ht_diags *d)
{
	return d ? d->dropped : 0;
}

static const struct ht_diag *nth(const struct ht_diags *d, size_t i)
{
	const struct ht_diag *m = d ? d->first : NULL;

	while (m && i--)
		m = m->next;
	return m;
}

enum ht_status ht_diags_get(const struct ht_diags *d, size_t i, struct ht_message *out)
{
	const struct ht_diag *m = nth(d, i);

	if (!m)
		return HT_E_USAGE;
	*out = (struct ht_message){
		.severity = m->severity,
		.status = m->status,
		.path = m->where.path,
		.line = m->where.line,
		.column = m->where.column,
		.offset = m->where.offset,
		.node = m->where.node.n ? m->where.node.p : NULL,
		.op = m->where.op.n ? m->where.op.p : NULL,
		.text = m->text.p,
	};
	return HT_OK;
}

struct line {
	const struct ht_diag *m;
	struct ht_work *w;
	struct ht_bytes *out;
};

static enum ht_status line(void *arg)
{
	struct line *l = arg;
	struct ht_buf b;

	ht_buf_init(&b, &l->w->arena);
	ht_diag_print(l->m, &b);
	return ht_bytes_of(ht_buf_str(&b), l->out);
}

enum ht_status ht_diags_line(const struct ht_diags *d, size_t i, struct ht_bytes *out)
{
	struct ht_work w;
	struct line l = { nth(d, i), &w, out };

	*out = (struct ht_bytes){ 0 };
	if (!l.m)
		return HT_E_USAGE;
	return ht_work_run(&w, line, &l, NULL);
}

const char *ht_dtype_name(enum ht_dtype t)
{
	return ht_dtype_info(t)->name;
}

size_t ht_dtype_bytes(enum ht_dtype t)
{
	return ht_dtype_info(t)->bytes;
}

enum ht_status ht_widen(const void *src, enum ht_dtype from, float *dst, size_t n)
{
	const uint16_t *h = src;

	if (from != HT_F16 && from != HT_BF16)
		return HT_E_USAGE;
	for (size_t i = 0; i < n; i++)
		dst[i] = from == HT_F16 ? ht_f16_to_f32(h[i]) : ht_bf16_to_f32(h[i]);
	return HT_OK;
}

enum ht_status ht_narrow(const float *src, enum ht_dtype to, void *dst, size_t n)
{
	uint16_t *h = dst;

	if (to != HT_F16 && to != HT_BF16)
		return HT_E_USAGE;
	for (size_t i = 0; i < n; i++)
		h[i] = to == HT_F16 ? ht_f32_to_f16(src[i]) : ht_f32_to_bf16(src[i]);
	return HT_OK;
}
