/* Interprets reductions. */
#include "kernel/interp.h"

#include <math.h>
#include <string.h>

static struct ht_x op_of(enum ht_red op, enum ht_dtype t)
{
	static const enum ht_xop plain[] = { [HT_RED_ADD] = HT_X_ADD,
		[HT_RED_MUL] = HT_X_MUL,
		[HT_RED_MIN] = HT_X_MIN,
		[HT_RED_MAX] = HT_X_MAX,
		[HT_RED_AND] = HT_X_AND,
		[HT_RED_OR] = HT_X_OR,
		[HT_RED_ARGMIN] = HT_X_LT,
		[HT_RED_ARGMAX] = HT_X_LT };

	return (struct ht_x){ .op = plain[op], .dtype = t };
}

static int64_t int_limit(enum ht_dtype t, bool largest)
{
	const struct ht_dtype_info *info = ht_dtype_info(t);
	int bits = (int)info->bytes * 8;

	if (info->kind == HT_KIND_BOOL)
		return largest;
	if (info->kind == HT_KIND_UINT)
		return largest ? (int64_t)(UINT64_MAX >> (64 - bits)) : 0;
	return largest ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits);
}

/* The neutral element's bits. */
static struct ht_x neutral(enum ht_red op, enum ht_dtype t)
{
	bool least = op == HT_RED_MIN || op == HT_RED_ARGMIN;
	bool most = op == HT_RED_MAX || op == HT_RED_ARGMAX;
	double d = least ? INFINITY : most ? -INFINITY : op == HT_RED_MUL;
	float f = (float)d;
	int64_t imm = 0;

	if (t == HT_F32)
		memcpy(&imm, &f, sizeof f);
	else if (t == HT_F64)
		memcpy(&imm, &d, sizeof d);
	else if (least || most)
		imm = int_limit(t, least);
	else
		imm = op == HT_RED_AND ? (t == HT_BOOL ? 1 : -1) : op == HT_RED_MUL;
	return (struct ht_x){ .op = HT_X_CONST, .dtype = t, .imm = imm };
}

void ht_interp_start_sums(struct ht_interp *m, int n)
{
	const struct ht_stage *s = m->p->s;

	for (int32_t i = 0; i < s->reds; i++) {
		struct ht_x x = neutral(s->red[i].op, s->red[i].dtype);

		ht_x_eval(&x, x.dtype, m->p->sum[i], NULL, NULL, NULL, n);
		memset(m->p->position[i], 0, (size_t)n * sizeof(int64_t));
	}
}

static void round_floats(enum ht_dtype t, float *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] = t == HT_F16 ? ht_f16_to_f32(ht_f32_to_f16(x[i]))
				   : ht_bf16_to_f32(ht_f32_to_bf16(x[i]));
}

void ht_interp_combine(struct ht_interp *m, int32_t red, int to, int from, int n, int64_t position)
{
	const struct ht_reduction *r = &m->p->s->red[red];
	size_t bytes = ht_interp_size(r->dtype);
	char *sum = (char *)m->p->sum[red] + (size_t)to * bytes;
	char *value = (char *)m->p->slot[r->x] + (size_t)from * bytes;
	struct ht_x x = op_of(r->op, r->dtype);
	uint8_t better[HT_LANES];

	if (r->op != HT_RED_ARGMIN && r->op != HT_RED_ARGMAX) {
		ht_x_eval(&x, r->dtype, sum, sum, value, NULL, n);
		if (r->keep)
			round_floats(r->keep, (float *)(void *)sum, n);
		return;
	}
	x.dtype = HT_BOOL;
	if (r->op == HT_RED_ARGMAX)
		ht_x_eval(&x, r->dtype, better, sum, value, NULL, n);
	else
		ht_x_eval(&x, r->dtype, better, value, sum, NULL, n);
	for (int i = 0; i < n; i++)
		if (better[i]) {
			memcpy(sum + (size_t)i * bytes, value + (size_t)i * bytes, bytes);
			m->p->position[red][to + i] = position;
		}
}

int64_t ht_interp_position(const struct ht_interp *m)
{
	const struct ht_stage *s = m->p->s;
	int64_t at = 0;

	for (int i = 0; i < s->dims; i++)
		if (s->dim[i].reduce)
			at = at * s->dim[i].extent + m->index[i];
	return at;
}
