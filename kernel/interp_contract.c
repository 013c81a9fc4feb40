/* Interprets contractions, a row of the result at a time. */
#include "kernel/interp.h"

#include <math.h>
#include <string.h>

static float number_at(enum ht_dtype t, const char *p, int64_t i)
{
	uint16_t h;
	float f;

	switch (t) {
	case HT_F16:
		memcpy(&h, p + 2 * i, sizeof h);
		return ht_f16_to_f32(h);
	case HT_BF16:
		memcpy(&h, p + 2 * i, sizeof h);
		return ht_bf16_to_f32(h);
	default:
		memcpy(&f, p + 4 * i, sizeof f);
		return f;
	}
}

static int32_t integer_at(enum ht_dtype t, const char *p, int64_t i)
{
	int32_t v;

	switch (t) {
	case HT_I8:
		return ((const int8_t *)p)[i];
	case HT_U8:
		return ((const uint8_t *)p)[i];
	default:
		memcpy(&v, p + 4 * i, sizeof v);
		return v;
	}
}

struct contraction {
	enum ht_dtype a, b;
	const char *a_memory, *b_memory;
	int64_t a_count, b_count;
	int a_pair; /* numbers of A that a step between them counts as one: 2 where pairs are held as such */
	int64_t taps, depth, padded; /* Q, K, K' */
};

static struct contraction contraction_of(const struct ht_interp *m)
{
	const struct ht_stage *s = m->p->s;
	const struct ht_contract *c = &s->contract;
	const struct ht_kernel_buffer *a = &m->k->buffer[c->a_buffer],
				      *b = &m->k->buffer[c->b_buffer];
	const enum ht_dtype rows = ht_row_type(m->k, c), numbers = ht_packed_type(m->k, c);
	struct contraction r = { .a = rows,
		.b = numbers,
		.a_memory = m->buffer[c->a_buffer],
		.b_memory = m->buffer[c->b_buffer],
		.a_count = a->count * (a->dtype == rows ? 1 : 2),
		.b_count = b->count * (b->dtype == numbers ? 1 : 2),
		.a_pair = a->dtype == rows ? 1 : 2,
		.taps = 1,
		.depth = s->dim[s->dims - 1].extent };

	for (int i = 0; i < s->dims - 1; i++)
		if (s->dim[i].reduce)
			r.taps *= s->dim[i].extent;
	r.padded = (r.depth + c->kp - 1) / c->kp * c->kp;
	return r;
}

/* The F16 nearest to x * y + z, where all are F16.  The double result is exact, unless it is too
 * small to affect the rounding. */
static float short_muladd(float x, float y, float z)
{
	const double exact = (double)x * (double)y + (double)z;
	float near = (float)exact;
	uint32_t bits;

	memcpy(&bits, &near, sizeof bits);
	if ((double)near != exact && exact == exact) /* round to odd, so that only one rounding
						      * matters */
		bits = (bits - (fabs((double)near) > fabs(exact))) | 1;
	memcpy(&near, &bits, sizeof near);
	return ht_f16_to_f32(ht_f32_to_f16(near));
}

/* sum[2 * i] = sum[2 * i] + x * element i * kp of `b` in F16. */
static void add_shorts(float *sum, float x, const char *b, int kp, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[2 * i] = short_muladd(x, number_at(HT_F16, b, i * kp), sum[2 * i]);
}

/* Ends a run: adds its sums of all columns to the sums in F32. */
static void end_run(struct ht_interp *m)
{
	const int32_t n = m->p->s->contract.n;
	float *sum = m->p->columns, *run = m->p->short_columns;

	for (int64_t i = 0; i < m->hi[n] - m->lo[n]; i++)
		sum[i] += ht_f16_to_f32(ht_f32_to_f16(run[2 * i] + run[2 * i + 1]));
	memset(run, 0, 2 * sizeof *run * (size_t)(m->hi[n] - m->lo[n]));
}

/* sum[i] += x * element i * kp of `b`, for n columns of one panel. */
static void add_floats(float *sum, float x, enum ht_dtype t, const char *b, int kp, int64_t n)
{
	if (t == HT_F32)
		for (int64_t i = 0; i < n; i++)
			sum[i] += x * ((const float *)b)[i * kp];
	else
		for (int64_t i = 0; i < n; i++)
			sum[i] += x * number_at(t, b, i * kp);
}

static void add_integers(int32_t *sum, int32_t x, enum ht_dtype t, const char *b, int kp, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] = (int32_t)((uint32_t)sum[i] +
				   (uint32_t)x * (uint32_t)integer_at(t, b, i * kp));
}

/* Adds element k of A's row times row (tap, of_b) of B to the sums of all columns. */
static void add_products(
	struct ht_interp *m, const struct contraction *c, int64_t k, int64_t of_b, int64_t tap)
{
	const struct ht_contract *f = &m->p->s->contract;
	int64_t at = *(const int64_t *)m->p->slot[f->a_row] + k / c->a_pair * f->a_step;
	int64_t base = *(const int64_t *)m->p->slot[f->b_base];
	int64_t line = tap * c->padded + of_b, n = m->lo[f->n], columns;
	int64_t panel = f->b_row ? f->nr : c->taps * c->padded / f->kp * f->nr * f->kp;
	char *sum = m->p->columns;
	float *run = f->run ? m->p->short_columns + k % 2 : NULL;

	at = at * c->a_pair + k % c->a_pair;
	HT_CHECK(at >= 0 && at < c->a_count);
	base += f->b_row ? line * f->b_row : line / f->kp * f->nr * f->kp + line % f->kp;
	for (; n < m->hi[f->n]; n += columns, sum += 4 * columns) {
		int64_t first = base + n / f->nr * panel + n % f->nr * f->kp;
		const char *b = c->b_memory + first * (int64_t)ht_interp_size(c->b);

		columns = f->nr - n % f->nr;
		if (columns > m->hi[f->n] - n)
			columns = m->hi[f->n] - n;
		HT_CHECK(first >= 0 && first + (columns - 1) * f->kp < c->b_count);
		if (f->run) {
			add_shorts(run, number_at(c->a, c->a_memory, at), b, f->kp, columns);
			run += 2 * columns;
		} else if (ht_is_float(c->a))
			add_floats((float *)sum, number_at(c->a, c->a_memory, at), c->b, b, f->kp,
				columns);
		else
			add_integers((int32_t *)sum, integer_at(c->a, c->a_memory, at), c->b, b,
				f->kp, columns);
	}
}

/* Adds the products of a group of pieces, which begins at `from` of the depth, the smallest first. */
static void add_pieces(struct ht_interp *m, const struct contraction *c, int64_t from)
{
	const int32_t pieces = m->p->s->contract.pieces;

	for (int32_t sum = pieces - 1; sum >= 0; sum--)
		for (int32_t i = sum; i >= 0; i--)
			for (int64_t k = from; k < from + HT_PIECE_DEPTH; k++)
				add_products(m, c, k + i * HT_PIECE_DEPTH,
					k + (sum - i) * HT_PIECE_DEPTH, 0);
}

/* Adds the products of one tap over the whole depth; its row is known. */
static void contract_tap(struct ht_interp *m, const struct contraction *c, int64_t tap)
{
	const struct ht_interp_stage *p = m->p;
	const struct ht_contract *f = &p->s->contract;
	const bool inside = f->a_guard < 0 || *(const uint8_t *)p->slot[f->a_guard];
	const int64_t end = m->hi[p->s->dims - 1];

	if (f->pieces) {
		for (int64_t k = 0; k < end; k += f->pieces * HT_PIECE_DEPTH)
			add_pieces(m, c, k);
		return;
	}
	for (int64_t k = 0; inside && k < end; k++) {
		add_products(m, c, k, k, tap);
		if (f->run && (k + 1) % (f->run * f->kp) == 0)
			end_run(m);
	}
	if (f->run && (tap + 1) % ht_taps_of_run(p->s, f->run) == 0)
		end_run(m);
}

/* Computes one row: all its taps and depths. */
static void contract_row(struct ht_interp *m, const struct contraction *c)
{
	const struct ht_interp_stage *p = m->p;
	const struct ht_contract *f = &p->s->contract;
	int32_t depth = p->s->dims - 1;
	int taps = p->reduceds - 1; /* the last of `reduced` is the depth */

	memset(p->columns, 0, 4 * (size_t)(m->hi[f->n] - m->lo[f->n]));
	if (f->run)
		memset(p->short_columns, 0, 8 * (size_t)(m->hi[f->n] - m->lo[f->n]));
	m->index[depth] = m->index[f->n] = 0;
	if (c->depth == 0 || !ht_interp_first(m, p->reduced, taps))
		return;
	m->n = 1;
	do {
		ht_interp_evaluate(m, p->row, p->rows);
		if (m->fault)
			return;
		contract_tap(m, c, ht_interp_position(m) / c->depth);
	} while (ht_interp_next(m, p->reduced, taps));
}

void ht_interp_contract(struct ht_interp *m)
{
	const struct ht_interp_stage *p = m->p;
	struct contraction c = contraction_of(m);

	if (!ht_interp_first(m, p->kept, p->kepts))
		return;
	do {
		contract_row(m, &c);
		for (m->index[p->lane] = m->lo[p->lane];
			m->index[p->lane] < m->hi[p->lane] && !m->fault;
			m->index[p->lane] += HT_LANES) {
			m->n = ht_interp_lanes_left(m);
			ht_interp_finish(m);
		}
	} while (!m->fault && ht_interp_next(m, p->kept, p->kepts));
}
