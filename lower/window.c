/* Sliding windows: what convolutions and pooling have in common. */
#include "lower/inside.h"

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

void read_windows(const struct ht_node *n, struct ht_shape in, struct ht_shape out,
	const int64_t size[2], struct window w[2])
{
	struct ht_str padding = ht_attr_str(n, "padding", "VALID");

	for (size_t i = 0; i < 2; i++) {
		w[i] = (struct window){ .size = size[i],
			.in = in.dim[1 + i],
			.out = out.dim[1 + i],
			.stride = list_int(n, "strides", 1 + i, 1),
			.dilation = list_int(n, "dilations", 1 + i, 1) };
		set_window(&w[i], padding, list_int(n, "explicit_paddings", 2 * (1 + i), 0));
	}
}

void read_pool_windows(const struct ht_node *n, struct window w[2])
{
	int64_t size[2] = { list_int(n, "ksize", 1, 1), list_int(n, "ksize", 2, 1) };

	read_windows(n, ht_type_of(n->in[0])->shape, n->out[0].shape, size, w);
}

bool pool_is_spatial(const struct ht_node *n)
{
	return list_int(n, "ksize", 0, 1) == 1 && list_int(n, "ksize", 3, 1) == 1 &&
	       list_int(n, "strides", 0, 1) == 1 && list_int(n, "strides", 3, 1) == 1;
}

bool window_leaves(const struct window *w)
{
	return w->before > 0 ||
	       (w->out - 1) * w->stride - w->before + (w->size - 1) * w->dilation >= w->in;
}

int32_t window_coord(
	struct kernel_build *k, const struct window *w, int32_t out, int32_t tap, struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xmuli(b, out, w->stride);

	x = ht_xadd(b, x, ht_xmuli(b, tap, w->dilation));
	x = ht_xaddi(b, x, -w->before);
	if (window_leaves(w))
		space_and_guard(
			b, s, ht_xand(b, ht_xle(b, ht_xi(b, 0), x), ht_xlt(b, x, ht_xi(b, w->in))));
	return x;
}
