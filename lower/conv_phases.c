/* Gradients of convolutions by their images, at a stride whose windows overlap, by phases.
 *
 * Row s * q + p of the result, of phase p, takes of the window the taps t = p + before modulo the stride s, and of the gradient row
 * q + (p + before) / s - i for the i-th of these:
 *
 *     r[s * q + p] = sum over i of x[q + (p + before) / s - i] * f[(p + before) mod s + s * i]
 *
 * Columns likewise.  A sum over all taps would multiply the others by zeros.  Here the results of each pair of phases are one product, whose
 * weights are the taps that they take; a kernel in front puts the filter into that order.  Where phases have different numbers of
 * taps, a guard leaves out those that are not there: zero times infinity is not zero. */
#include "lower/conv.h"
#include "lower/index.h"
#include "lower/pack.h"

#include <math.h>
#include <string.h>

/* The most taps of a phase. */
static int64_t taps_of(const struct window *w)
{
	return ht_ceil_div(w->size, w->stride);
}

double conv_phases_share(const struct ht_node *n, const struct window w[2])
{
	double share = 1;

	if (ht_const_tensor(n->in[1]) || (w[0].stride == 1 && w[1].stride == 1) ||
		ht_type_of(n->in[1])->shape.dim[2] != n->out[0].shape.dim[3]) /* it has groups */
		return INFINITY;
	for (int i = 0; i < 2; i++) {
		if (w[i].dilation != 1 || w[i].open.size || w[i].shifts || w[i].before < 0 ||
			n->out[0].shape.dim[1 + i] % w[i].stride)
			return INFINITY;
		share /= (double)w[i].stride; /* each tap belongs to one phase */
	}
	return share;
}

/* The tap of the window that is number `i` of a phase. */
static int32_t tap_of_phase(struct ht_xb *b, const struct window *w, int32_t phase, int32_t i)
{
	int32_t first = ht_xmodi(b, ht_xaddi(b, phase, w->before), w->stride);

	return ht_xadd(b, first, ht_xmuli(b, i, w->stride));
}

static void and_guard(struct ht_xb *b, int32_t *guard, int32_t also)
{
	*guard = *guard < 0 ? also : ht_xand(b, *guard, also);
}

/* The filter in the order of the products: [pair of phases, tap, depth, column]. */
static struct view order_filter(struct lower *l, struct ht_node *n, const struct window w[2])
{
	struct ht_shape filter = shape_of(n, 1);
	const int64_t dim[6] = { w[0].stride, w[1].stride, taps_of(&w[0]), taps_of(&w[1]),
		filter.dim[3], filter.dim[2] };
	int64_t phases = dim[0] * dim[1], taps = dim[2] * dim[3], tap = dim[4] * dim[5];
	enum ht_dtype t = ht_type_of(n->in[1])->dtype;
	struct view to = { .rank = 4 };
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space at, from;
	int32_t x[6], f[4], value;

	to.buffer = plan_buffer(l, HT_PLAN_TEMP, t, phases * taps * tap);
	memcpy(to.dim, (int64_t[]){ phases, taps, dim[4], dim[5] }, 4 * sizeof *to.dim);
	memcpy(to.stride, (int64_t[]){ taps * tap, tap, dim[5], 1 }, 4 * sizeof *to.stride);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	at = kb_loop_space(&k, 6, dim, ~0u);
	k.stage->vec = 5;
	for (int i = 0; i < 6; i++)
		x[i] = space_coord(b, &at, i);
	from = at;
	for (int i = 0; i < 2; i++) {
		f[i] = tap_of_phase(b, &w[i], x[i], x[2 + i]);
		if (w[i].size % w[i].stride)
			space_and_guard(b, &from, ht_xlt(b, f[i], ht_xi(b, w[i].size)));
	}
	f[2] = x[5];
	f[3] = x[4];
	from = space_of_coords(&from, 4, filter.dim, f);
	value = ht_xcvt(b, t, kb_load(&k, lower_operand(l, n, 1), &from));
	ht_xstore(b, kb_arg(&k, to.buffer, HT_BUFFER_OUT), space_linear(b, &at), value);
	kb_finish(&k, n);
	return to;
}

/* The position of the gradient that tap `i` of a phase reads for result `q` of the phase; adds to the guard whether there are both. */
static int32_t position(
	struct contraction *c, const struct window *w, int32_t q, int32_t phase, int32_t i)
{
	struct ht_xb *b = &c->k.xb;
	int32_t x = ht_xadd(b, q, ht_xdivi(b, ht_xaddi(b, phase, w->before), w->stride));

	x = ht_xsub(b, x, i);
	and_guard(b, &c->a_guard,
		ht_xand(b, ht_xle(b, ht_xi(b, 0), x), ht_xlt(b, x, ht_xi(b, w->out))));
	if (w->size % w->stride)
		and_guard(
			b, &c->a_guard, ht_xlt(b, tap_of_phase(b, w, phase, i), ht_xi(b, w->size)));
	return x;
}

static bool takes_lines(const struct contraction *of, struct ht_shape from,
	const struct window w[2], const int64_t dim[4])
{
	struct lines_axis axis[2];
	struct contraction c = *of;

	for (int i = 0; i < 2; i++)
		axis[i] = (struct lines_axis){ .count = dim[1 + i],
			.step = 1,
			.taps = taps_of(&w[i]),
			.each = -1,
			.phases = w[i].stride,
			.shift = w[i].before,
			.size = w[i].size };
	c.batch = 1;
	return conv_by_lines(&c, 2, from, axis);
}

void emit_phases(struct lower *l, struct ht_node *n, const struct window w[2])
{
	struct ht_shape from_shape = shape_of(n, 2), to = n->out[0].shape;
	struct view in, filter = order_filter(l, n, w);
	int64_t dim[4] = { to.dim[0], to.dim[1] / w[0].stride, to.dim[2] / w[1].stride, to.dim[3] };
	struct contraction c;
	struct ht_xb *b = &c.k.xb;
	struct space at, from, out = { .rank = 4, .groups = 4 };
	int32_t phase[2], x[4];

	contract_init(&c, l, n, ht_type_of(n->in[2])->dtype);
	c.batch = w[0].stride * w[1].stride;
	c.rows = dim[0] * dim[1] * dim[2];
	c.columns = to.dim[3];
	c.depth = from_shape.dim[3];
	c.taps = 2;
	for (int i = 0; i < 2; i++)
		c.tap[i] = taps_of(&w[i]);
	c.a_step = lower_operand(l, n, 2)->stride[3];
	contract_pack_taps(&c, &filter, 1);
	if (takes_lines(&c, from_shape, w, dim))
		return;
	in = conv_image(&c, 2);
	contract_begin(&c);
	c.k.kernel->method = ht_method_info[HT_METHOD_PHASES].name;
	at = conv_pixels(&c, (struct ht_shape){ 4, dim });
	phase[0] = ht_xdivi(b, c.batch_x, w[1].stride);
	phase[1] = ht_xmodi(b, c.batch_x, w[1].stride);
	x[0] = space_coord(b, &at, 0);
	x[3] = ht_xi(b, 0);
	out.guard = c.pixel_guard;
	memcpy(out.dim, to.dim, 4 * sizeof *to.dim);
	out.group[0] = (struct space_group){ 0, 0, x[0] };
	out.group[3] = (struct space_group){ 3, 3, c.n_x };
	for (int i = 0; i < 2; i++) {
		int32_t q = space_coord(b, &at, 1 + i);

		x[1 + i] = position(&c, &w[i], q, phase[i], c.tap_x[i]);
		out.group[1 + i] = (struct space_group){ 1 + i, 1 + i,
			ht_xadd(b, ht_xmuli(b, q, w[i].stride), phase[i]) };
	}
	from = space_of_coords(&at, 4, from_shape.dim, x);
	contract_end(&c, in.buffer, space_offset(b, &from, in.stride, in.offset),
		ht_xmuli(b, c.batch_x, c.packed_count), &out);
}
