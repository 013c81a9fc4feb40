/* Convolutions with a single result channel, such as masks.  Neighbouring pixels are computed
 * along lanes; a register tile would use only one lane of its columns.  The image is first
 * copied to padded planes, in which the pixels of a row of one channel are adjacent. */
#include "lower/conv.h"
#include "lower/index.h"

/* The copy costs about two operations for each number; a register tile costs one for each number
 * and tap. */
enum { FEWEST_TAPS = 4, ROWS_SIDE_BY_SIDE = 4 };

bool conv_has_one_result(const struct lower *l, const struct conv *v)
{
	return v->filter.dim[3] == 1 && v->groups == 1 && v->w[1].stride == 1 &&
	       v->w[0].size * v->w[1].size >= FEWEST_TAPS &&
	       v->w[1].out >= ht_target_lanes(l->target);
}

/* A view of the planes, in the form of NHWC: [image, row, channel, pixel]. */
static struct view planes(struct lower *l, const struct ht_node *n, const struct conv *v)
{
	const struct view *in = lower_operand(l, n, 0);
	int64_t dim[4] = { v->in.dim[0], 0, v->in.dim[3], 0 }, size[2];
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space s, at;
	struct view to = { .rank = 4 };
	int32_t x[4];

	for (int i = 0; i < 2; i++) {
		size[i] = (v->w[i].out - 1) * v->w[i].stride +
			  (v->w[i].size - 1) * v->w[i].dilation + 1;
		dim[1 + 2 * i] = size[i];
	}
	to.buffer = plan_buffer(
		l, HT_PLAN_TEMP, ht_type_of(n->in[0])->dtype, dim[0] * dim[1] * dim[2] * dim[3]);
	for (int i = 0; i < 4; i++)
		to.dim[i] = (int64_t[]){ dim[0], dim[1], dim[3], dim[2] }[i];
	to.stride[3] = dim[3];
	to.stride[2] = 1;
	to.stride[1] = dim[2] * dim[3];
	to.stride[0] = dim[1] * to.stride[1];
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, 4, dim, ~0u);
	conv_cut_copy(&k, n, v, 0, s.group[1].x, 1);
	conv_cut_copy(&k, n, v, 1, s.group[3].x, 1);
	x[0] = s.group[0].x;
	x[1] = window_shift(&k, &v->w[0], s.group[1].x);
	x[2] = window_shift(&k, &v->w[1], s.group[3].x);
	x[3] = s.group[2].x;
	at = space_of_coords(&s, 4, v->in.dim, x);
	for (int i = 1; i < 3; i++)
		space_and_guard(b, &at,
			ht_xand(b, ht_xle(b, ht_xi(b, 0), x[i]),
				ht_xlt(b, x[i], window_end(&k, &v->w[i - 1]))));
	x[1] = s.group[1].x;
	x[2] = s.group[3].x;
	s = space_of_coords(&s, 4, to.dim, x);
	kb_store(&k, &to, &s, kb_load(&k, in, &at));
	kb_finish(&k, n);
	return to;
}

void emit_one_result(struct lower *l, struct ht_node *n, const struct conv *v)
{
	struct view in = planes(l, n, v);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, filter;
	int32_t x[4], f[4], product, weight;

	plan_choice(l, n,
		(struct ht_method_choice){ .method = HT_METHOD_ONE_RESULT,
			.other = HT_METHOD_END,
			.reason = HT_REASON_ONE_CHANNEL,
			.is = (double)(v->w[0].size * v->w[1].size),
			.limit = FEWEST_TAPS });
	kb_init(&k, l, n);
	k.kernel->method = ht_method_info[HT_METHOD_ONE_RESULT].name;
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, v->out.dim, ~0u);
	k.stage->vec = 2;
	kb_cut_space(&k, &out, ht_out(k.sink, 0));
	if (v->out.dim[1] >= ROWS_SIDE_BY_SIDE)
		k.stage->dim[1].unroll = ROWS_SIDE_BY_SIDE;
	x[0] = out.group[0].x;
	for (int i = 0; i < 2; i++) {
		f[i] = ht_xdim(b, kb_reduce_dim(&k, v->w[i].size));
		x[1 + i] = ht_xadd(b, ht_xmuli(b, out.group[1 + i].x, v->w[i].stride),
			ht_xmuli(b, f[i], v->w[i].dilation));
	}
	x[3] = f[2] = ht_xdim(b, kb_reduce_dim(&k, v->filter.dim[2]));
	f[3] = ht_xi(b, 0);
	from = space_of_coords(&out, 4, in.dim, x);
	filter = space_of_coords(&out, 4, v->filter.dim, f);
	weight = kb_load(&k, lower_operand(l, n, 1), &filter);
	product = ht_xmul(b, kb_load(&k, &in, &from), weight);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, HT_F32, product), &out);
	kb_finish(&k, n);
}
