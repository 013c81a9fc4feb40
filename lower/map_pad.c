/* Padding. */
#include "lower/index.h"
#include "lower/parts.h"

static int32_t pull_pad(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	const struct ht_tensor *pads = ht_const_tensor(n->in[1]);
	struct ht_shape in = shape_of(n, 0);
	enum ht_dtype t = compute_type(n->out[0].dtype);
	int32_t x[HT_LOWER_RANK], inside = -1, fill, value;
	struct space at;

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		int64_t before = ht_tensor_int(pads, 2 * (size_t)i);
		x[i] = ht_xaddi(b, space_coord(b, s, i), -before);
		if (before > 0) {
			int32_t ok = ht_xle(b, ht_xi(b, 0), x[i]);
			inside = inside < 0 ? ok : ht_xand(b, inside, ok);
		}
		if (in.dim[i] + before < s->dim[i]) {
			struct ht_open_axis open = lower_open_axis(n, i);
			int32_t ok = ht_xlt(b, x[i], kb_axis_end(k, &open, in.dim[i]));
			inside = inside < 0 ? ok : ht_xand(b, inside, ok);
		}
	}
	at = space_of_coords(s, in.rank, in.dim, x);
	if (inside < 0)
		return kb_pull(k, n->in[0], &at);
	space_and_guard(b, &at, inside);
	value = kb_pull(k, n->in[0], &at);
	fill = ht_xk(b, t, 0);
	if (n->op == HT_OP_PadV2) {
		struct space scalar = space_of_coords(s, 0, NULL, NULL);
		fill = kb_pull(k, n->in[2], &scalar);
	}
	return ht_xselect(b, inside, value, fill);
}

/* Coordinates are reflected at the edge element (REFLECT), or such that the edge element is
 * repeated (SYMMETRIC). */
static int32_t pull_mirror_pad(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	const struct ht_tensor *pads = ht_const_tensor(n->in[1]);
	int64_t repeat = ht_str_is(ht_attr_str(n, "mode", "REFLECT"), "SYMMETRIC");
	struct ht_shape in = shape_of(n, 0);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		int32_t c = ht_xaddi(b, space_coord(b, s, i), -ht_tensor_int(pads, 2 * (size_t)i));
		int32_t low = ht_xsub(b, ht_xi(b, -repeat), c);
		int32_t high = ht_xsub(b, ht_xi(b, 2 * in.dim[i] - 2 + repeat), c);
		c = ht_xselect(b, ht_xlt(b, c, ht_xi(b, 0)), low, c);
		x[i] = ht_xselect(b, ht_xle(b, ht_xi(b, in.dim[i]), c), high, c);
	}
	return pull_at(k, n, 0, s, x);
}

static int32_t pull_any_pad(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	return (n->op == HT_OP_MirrorPad ? pull_mirror_pad : pull_pad)(k, n, out, s);
}

static const char *refuse_pad(const struct ht_node *n)
{
	return is_const_ints(n, 1) ? NULL : "needs constant paddings";
}

static bool padded_rows(const struct parts *p, const struct ht_node *n)
{
	return rows_of_first(p, n) && const_int(n, 1, 0) == 0 && const_int(n, 1, 1) == 0;
}

const struct lower_op lower_pad = {
	.family = FAMILY_MAP, .pull = pull_any_pad, .refuse = refuse_pad, .rows = padded_rows
};
