/* bounded_axes: what rules of open axes have in common (bounded_rules.c, bounded_windows.c). */
#ifndef HT_PASSES_BOUNDED_AXES_H
#define HT_PASSES_BOUNDED_AXES_H

#include "passes/bounded.h"

static inline bool is_same(struct ht_open a, struct ht_open b)
{
	for (int i = 0; i < 2; i++)
		if (a.part[i].size != b.part[i].size ||
			(a.part[i].size && a.part[i].inner != b.part[i].inner))
			return false;
	return true;
}

static inline bool is_number(const struct ht_bounded *b, struct ht_value v, int32_t i, int64_t *n)
{
	struct ht_elem e = ht_open_element(b, v, i);

	*n = e.i;
	return e.kind == HT_ELEM_INT;
}

static inline struct ht_open axis_of(
	const struct ht_bounded *b, const struct ht_node *n, int32_t arg, int32_t axis)
{
	const struct ht_open *a = ht_open_axes(b, n->in[arg]);

	return a ? a[axis] : (struct ht_open){ 0 };
}

static inline enum ht_status put(const struct ht_bounded *b, const struct ht_node *n,
	struct ht_open *out, int32_t axis, struct ht_open a)
{
	if (!ht_open_some(a))
		return HT_OK;
	if (ht_open_some(out[axis]) && !is_same(out[axis], a))
		return ht_open_refuse(
			b, n, "two open sizes meet here, which may differ when it runs");
	out[axis] = a;
	return HT_OK;
}

/* Axes first.. up to `end` of operand `arg` are those from `to` on. */
static inline enum ht_status put_axes(const struct ht_bounded *b, const struct ht_node *n,
	int32_t arg, int32_t first, int32_t end, struct ht_open *out, int32_t to)
{
	for (int32_t i = first; i < end; i++)
		HT_TRY(put(b, n, out, to + i - first, axis_of(b, n, arg, i)));
	return HT_OK;
}

/* Whether an axis has the indices of its only size, and no others, from the first on. */
static inline bool is_plain(
	const struct ht_bounded *b, struct ht_shape s, int32_t axis, struct ht_open a)
{
	int64_t run = a.part[0].inner * b->r.g->size[a.part[0].size - 1].most;

	return !a.part[1].size && ht_open_most(b, s.dim[axis]) == run;
}

/* bounded_windows.c: rules of convolutions and pooling, and of padding. */
ht_open_rule ht_open_window;
ht_open_rule ht_open_padded;

#endif
