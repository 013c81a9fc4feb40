/* Sliding windows: what convolutions and pooling have in common. */
#include "lower/inside.h"

#include <math.h>
#include <string.h>

/* `pads`: explicit paddings before the dimension, or -1. */
static void set_window(struct window *w, struct ht_str padding, int64_t explicit_before)
{
	int64_t span = (w->size - 1) * w->dilation + 1;

	w->before = 0;
	if (ht_str_is(padding, "SAME")) {
		int64_t total = (w->out - 1) * w->stride + span - w->in;
		w->before = total > 0 ? total / 2 : 0;
	} else if (ht_str_is(padding, "EXPLICIT")) {
		w->before = explicit_before;
	}
}

static int64_t list_int(const struct ht_node *n, const char *name, size_t i, int64_t fallback)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_INT ||
		i >= a->value.list.n)
		return fallback;
	return a->value.list.item[i].i;
}

/* Sets the image's open size along dimension i, if windows extend beyond it (pass sizes).  Those of one position do so only with
 * explicit padding. */
static void set_open(const struct ht_node *n, size_t i, struct ht_str padding, struct window *w)
{
	if (w->size == 1 && ht_str_is(padding, "SAME"))
		return;
	w->open = lower_open_axis(n, 1 + (int32_t)i);
	w->shifts = w->open.size && w->stride > 1 && ht_str_is(padding, "SAME");
}

/* Attribute `dilations` of the node says how far positions of a window are apart. */
static void read_spread(const struct ht_node *n, struct ht_shape in, struct ht_shape out,
	const int64_t size[2], const char *dilations, struct window w[2])
{
	struct ht_str padding = ht_attr_str(n, "padding", "VALID");

	for (size_t i = 0; i < 2; i++) {
		w[i] = (struct window){ .size = size[i],
			.in = in.dim[1 + i],
			.out = out.dim[1 + i],
			.stride = list_int(n, "strides", 1 + i, 1),
			.dilation = list_int(n, dilations, 1 + i, 1) };
		set_window(&w[i], padding, list_int(n, "explicit_paddings", 2 * (1 + i), 0));
		set_open(n, i, padding, &w[i]);
	}
}

void read_windows(const struct ht_node *n, struct ht_shape in, struct ht_shape out,
	const int64_t size[2], struct window w[2])
{
	read_spread(n, in, out, size, "dilations", w);
}

void read_patch_windows(
	const struct ht_node *n, struct ht_shape in, struct ht_shape out, struct window w[2])
{
	int64_t size[2] = { list_int(n, "ksizes", 1, 1), list_int(n, "ksizes", 2, 1) };

	read_spread(n, in, out, size, "rates", w);
}

void read_pool_windows(
	const struct ht_node *n, struct ht_shape in, struct ht_shape out, struct window w[2])
{
	int64_t size[2] = { list_int(n, "ksize", 1, 1), list_int(n, "ksize", 2, 1) };

	read_windows(n, in, out, size, w);
}

bool pool_is_spatial(const struct ht_node *n)
{
	return list_int(n, "ksize", 0, 1) == 1 && list_int(n, "ksize", 3, 1) == 1 &&
	       list_int(n, "strides", 0, 1) == 1 && list_int(n, "strides", 3, 1) == 1;
}

bool window_leaves(const struct window *w)
{
	return w->before > 0 || w->open.size ||
	       (w->out - 1) * w->stride - w->before + (w->size - 1) * w->dilation >= w->in;
}

int32_t window_end(struct kernel_build *k, const struct window *w)
{
	return kb_axis_end(k, &w->open, w->in);
}

/* The padding that set_window() computes, for the run's size. */
static int32_t padding_in_front(struct kernel_build *k, const struct window *w)
{
	struct ht_xb *b = &k->xb;
	int32_t in = window_end(k, w), out = ht_xdivi(b, ht_xaddi(b, in, w->stride - 1), w->stride);
	int32_t reach = ht_xaddi(
		b, ht_xmuli(b, out, w->stride), (w->size - 1) * w->dilation + 1 - w->stride);

	return ht_xdivi(b, ht_xmax(b, ht_xsub(b, reach, in), ht_xi(b, 0)), 2);
}

int32_t window_shift(struct kernel_build *k, const struct window *w, int32_t x)
{
	if (!w->shifts)
		return ht_xaddi(&k->xb, x, -w->before);
	return ht_xsub(&k->xb, x, padding_in_front(k, w));
}

int32_t window_coord(
	struct kernel_build *k, const struct window *w, int32_t out, int32_t tap, struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xmuli(b, out, w->stride);

	x = ht_xadd(b, x, ht_xmuli(b, tap, w->dilation));
	x = window_shift(k, w, x);
	if (window_leaves(w))
		space_and_guard(b, s,
			ht_xand(b, ht_xle(b, ht_xi(b, 0), x), ht_xlt(b, x, window_end(k, w))));
	return x;
}

int32_t window_result(
	struct kernel_build *k, const struct window *w, int32_t x, int32_t tap, int32_t *guard)
{
	struct ht_xb *b = &k->xb;
	int32_t from = ht_xsub(b, ht_xaddi(b, x, w->before), ht_xmuli(b, tap, w->dilation)), ok, q;

	q = ht_xdivi(b, from, w->stride);
	ok = ht_xand(
		b, ht_xle(b, ht_xi(b, 0), from), ht_xlt(b, q, kb_axis_end(k, &w->open, w->out)));
	if (w->stride > 1)
		ok = ht_xand(b, ok, ht_xeq(b, ht_xmodi(b, from, w->stride), ht_xi(b, 0)));
	*guard = *guard < 0 ? ok : ht_xand(b, *guard, ok);
	return q;
}

int64_t window_results(const struct window *w)
{
	const int64_t most = ht_ceil_div(w->size, w->stride);

	return w->out < most ? w->out : most;
}

int32_t window_containing(
	struct kernel_build *k, const struct window *w, int32_t x, int32_t i, int32_t *guard)
{
	struct ht_xb *b = &k->xb;
	const bool all = window_results(w) == w->out; /* none is known to be too far away */
	int32_t at = ht_xaddi(b, x, w->before);
	int32_t last = all ? ht_xi(b, w->out - 1) : ht_xdivi(b, at, w->stride), ok, from;
	const int32_t r = ht_xsub(b, last, i);

	from = ht_xsub(b, at, ht_xmuli(b, r, w->stride));
	ok = ht_xlt(b, r, kb_axis_end(k, &w->open, w->out));
	ok = ht_xand(b, ok, ht_xle(b, ht_xi(b, 0), all ? from : r));
	if (all || w->size % w->stride)
		ok = ht_xand(b, ok, ht_xlt(b, from, ht_xi(b, w->size)));
	*guard = *guard < 0 ? ok : ht_xand(b, *guard, ok);
	return r;
}

int32_t window_count(struct kernel_build *k, const struct window *w, int32_t out)
{
	struct ht_xb *b = &k->xb;
	int32_t start = window_shift(k, w, ht_xmuli(b, out, w->stride));
	int32_t end = ht_xmin(b, ht_xaddi(b, start, w->size), window_end(k, w));

	return ht_xsub(b, end, ht_xmax(b, start, ht_xi(b, 0)));
}

int32_t lowest_of(struct ht_xb *b, enum ht_dtype t)
{
	int bits = (int)ht_dtype_info(t)->bytes * 8;
	bool is_unsigned = ht_dtype_info(t)->kind == HT_KIND_UINT;

	return ht_xconst(b, t, -INFINITY, is_unsigned ? 0 : (int64_t)(~(uint64_t)0 << (bits - 1)));
}
