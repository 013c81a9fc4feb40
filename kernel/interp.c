/* interp: the reference interpreter; it is the meaning of a kernel.
 *
 * A stage's expressions are evaluated one after the other for up to LANES iterations at once, along
 * the `lane` dimension; the other dimensions are walked by an odometer.  The lanes run along a
 * kept dimension (each lane has its own sums), or along a reduction dimension (the lanes are then
 * summed in order), whichever is longer.
 *
 * Offsets are checked against the buffers' sizes: one out of range is our defect and aborts. */
#include "kernel/eval.h"
#include "kernel/kernel.h"

#include <math.h>
#include <string.h>

enum { LANES = 128 };

/* A stage made ready: what to evaluate where. */
struct program {
	const struct ht_stage *s;
	void **slot;    /* by expression: LANES values */
	int32_t *inner; /* expressions of the reductions, in order */
	int32_t inners;
	int32_t *outer; /* expressions of the stores */
	int32_t outers;
	int32_t *row; /* of a contraction: expressions of a_row, a_guard and b_base */
	int32_t rows;
	int lane;                         /* dimension along the lanes; -1: there is none */
	void **sum;                       /* by reduction: LANES values */
	int64_t **position;               /* by reduction, for ARGMIN and ARGMAX: LANES positions */
	int32_t kept[HT_MAX_DIMS], kepts; /* dimensions to walk outside the reductions */
	int32_t reduced[HT_MAX_DIMS], reduceds; /* and inside */
	void *columns;                          /* of a contraction: one sum a column */
};

struct machine {
	const struct ht_kernel *k;
	char **buffer; /* arguments and locals */
	const int64_t *params;
	int64_t grid[HT_MAX_GRID];
	int64_t lo[HT_MAX_DIMS], hi[HT_MAX_DIMS]; /* the tile's part of each dimension */
	int64_t index[HT_MAX_DIMS];
	const struct program *p;
	int n; /* lanes in use */
	int32_t fault;
};

/* ---- preparing a stage ---- */

static size_t size_of(enum ht_dtype t)
{
	return ht_dtype_info(t)->bytes;
}

static void need(int32_t i, uint8_t *mark)
{
	if (i >= 0)
		mark[i] = 1;
}

/* The marked expressions and all they use, in order. */
static int32_t *closure(struct ht_arena *a, const struct ht_stage *s, uint8_t *mark, int32_t *count)
{
	int32_t *list, n = 0;

	for (int32_t i = s->xs - 1; i >= 0; i--) {
		if (!mark[i])
			continue;
		need(s->x[i].a, mark);
		need(s->x[i].b, mark);
		need(s->x[i].c, mark);
	}
	list = HT_NEW_ARRAY(a, int32_t, (size_t)s->xs + 1);
	for (int32_t i = 0; i < s->xs; i++)
		if (mark[i] && s->x[i].op != HT_X_CONST)
			list[n++] = i;
	*count = n;
	return list;
}

static void list_expressions(struct ht_arena *a, struct program *p)
{
	const struct ht_stage *s = p->s;
	uint8_t *mark = HT_NEW_ARRAY(a, uint8_t, (size_t)s->xs + 1);

	if (s->kind == HT_STAGE_CONTRACT) {
		need(s->contract.a_row, mark);
		need(s->contract.a_guard, mark);
		need(s->contract.b_base, mark);
		p->row = closure(a, s, mark, &p->rows);
	} else {
		for (int32_t i = 0; i < s->reds; i++)
			need(s->red[i].x, mark);
		p->inner = closure(a, s, mark, &p->inners);
	}
	memset(mark, 0, (size_t)s->xs);
	for (int32_t i = 0; i < s->stores; i++) {
		need(s->store[i].offset, mark);
		need(s->store[i].value, mark);
		need(s->store[i].guard, mark);
	}
	p->outer = closure(a, s, mark, &p->outers);
}

static int choose_lane(const struct ht_stage *s)
{
	int best = -1;

	if (s->kind == HT_STAGE_CONTRACT)
		return s->contract.n;
	/* The last kept dimension when it is long enough: it is the one along memory. */
	for (int i = s->dims - 1; i >= 0; i--)
		if (!s->dim[i].reduce) {
			if (s->dim[i].extent >= 16)
				return i;
			break;
		}
	/* Of the reductions only the last, so that positions are visited in order. */
	for (int i = s->dims - 1; i >= 0; i--)
		if (best < 0 || (!s->dim[i].reduce && s->dim[i].extent > s->dim[best].extent))
			best = i;
	return best;
}

static void make_slots(struct ht_arena *a, struct program *p)
{
	const struct ht_stage *s = p->s;

	p->slot = HT_NEW_ARRAY(a, void *, (size_t)s->xs + 1);
	for (int32_t i = 0; i < s->xs; i++) {
		const struct ht_x *x = &s->x[i];

		HT_CHECK(x->op < HT_X_EXP); /* ht_kernel_expand() comes first */
		p->slot[i] = ht_alloc(a, LANES * size_of(x->dtype));
		if (x->op == HT_X_CONST)
			ht_x_eval(x, x->dtype, p->slot[i], NULL, NULL, NULL, LANES);
	}
	p->sum = HT_NEW_ARRAY(a, void *, (size_t)s->reds + 1);
	p->position = HT_NEW_ARRAY(a, int64_t *, (size_t)s->reds + 1);
	for (int32_t i = 0; i < s->reds; i++) {
		p->sum[i] = ht_alloc(a, LANES * size_of(s->red[i].dtype));
		p->position[i] = HT_NEW_ARRAY(a, int64_t, LANES);
	}
}

static void prepare(struct ht_arena *a, const struct ht_stage *s, struct program *p)
{
	*p = (struct program){ .s = s, .lane = choose_lane(s) };
	list_expressions(a, p);
	make_slots(a, p);
	for (int i = 0; i < s->dims; i++) {
		if (i == p->lane)
			continue;
		if (s->dim[i].reduce)
			p->reduced[p->reduceds++] = i;
		else
			p->kept[p->kepts++] = i;
	}
	if (s->kind == HT_STAGE_CONTRACT) {
		const struct ht_dim *d = &s->dim[s->contract.n];
		int64_t n = d->grid >= 0 && d->step < d->extent ? d->step : d->extent;

		p->columns = ht_alloc_array(a, (size_t)n, 4);
	}
}

/* ---- expressions ---- */

static void load(struct machine *m, const struct ht_x *x, void *r)
{
	const struct ht_kernel_buffer *b = &m->k->buffer[x->imm];
	const int64_t *offset = m->p->slot[x->a];
	const uint8_t *guard = x->b >= 0 ? m->p->slot[x->b] : NULL;
	const char *other = x->c >= 0 ? m->p->slot[x->c] : NULL, *memory = m->buffer[x->imm];
	size_t bytes = size_of(x->dtype);

	for (int i = 0; i < m->n; i++) {
		const char *from;

		if (guard && other && !guard[i])
			from = other + (size_t)i * bytes;
		else {
			HT_CHECK(offset[i] >= 0 && offset[i] < b->count);
			from = memory + (size_t)offset[i] * bytes;
		}
		switch (bytes) {
		case 1:
			((char *)r)[i] = *from;
			break;
		case 2:
			memcpy((uint16_t *)r + i, from, 2);
			break;
		case 4:
			memcpy((uint32_t *)r + i, from, 4);
			break;
		default:
			memcpy((uint64_t *)r + i, from, 8);
		}
	}
}

static void store(struct machine *m, const struct ht_store *st)
{
	const struct ht_kernel_buffer *b = &m->k->buffer[st->buffer];
	const int64_t *offset = m->p->slot[st->offset];
	const char *value = m->p->slot[st->value];
	const uint8_t *guard = st->guard >= 0 ? m->p->slot[st->guard] : NULL;
	size_t bytes = size_of(b->dtype);

	for (int i = 0; i < m->n; i++) {
		if (guard && !guard[i])
			continue;
		HT_CHECK(offset[i] >= 0 && offset[i] < b->count);
		memcpy(m->buffer[st->buffer] + (size_t)offset[i] * bytes, value + (size_t)i * bytes,
			bytes);
	}
}

static void fill_index(struct machine *m, int64_t *r, int64_t first, int64_t step)
{
	for (int i = 0; i < m->n; i++)
		r[i] = first + i * step;
}

static void check(struct machine *m, const struct ht_x *x, void *r)
{
	const uint8_t *good = m->p->slot[x->b];

	for (int i = 0; i < m->n; i++)
		if (!good[i]) {
			m->fault = (int32_t)x->imm;
			return;
		}
	memcpy(r, m->p->slot[x->a], (size_t)m->n * size_of(x->dtype));
}

static void reduced(struct machine *m, const struct ht_x *x, void *r)
{
	const struct ht_stage *s = m->p->s;
	enum ht_red op = s->kind == HT_STAGE_LOOP ? s->red[x->imm].op : HT_RED_ADD;

	if (s->kind == HT_STAGE_CONTRACT)
		memcpy(r,
			(const char *)m->p->columns +
				4 * (m->index[m->p->lane] - m->lo[m->p->lane]),
			4 * (size_t)m->n);
	else if (op == HT_RED_ARGMIN || op == HT_RED_ARGMAX)
		memcpy(r, m->p->position[x->imm], (size_t)m->n * 8);
	else
		memcpy(r, m->p->sum[x->imm], (size_t)m->n * size_of(x->dtype));
}

static void *slot_or_null(const struct program *p, int32_t i)
{
	return i < 0 ? NULL : p->slot[i];
}

/* Evaluates a list for the lanes in use; stops at a fault. */
static void evaluate(struct machine *m, const int32_t *list, int32_t count)
{
	const struct program *p = m->p;

	for (int32_t i = 0; i < count; i++) {
		const struct ht_x *x = &p->s->x[list[i]];
		void *r = p->slot[list[i]];

		switch (x->op) {
		case HT_X_DIM:
			fill_index(m, r, m->index[x->imm], x->imm == p->lane);
			break;
		case HT_X_GRID:
			fill_index(m, r, m->grid[x->imm], 0);
			break;
		case HT_X_PARAM:
			fill_index(m, r, m->params[x->imm], 0);
			break;
		case HT_X_LOAD:
			load(m, x, r);
			break;
		case HT_X_CHECK:
			check(m, x, r);
			if (m->fault)
				return;
			break;
		case HT_X_RED:
			reduced(m, x, r);
			break;
		default:
			ht_x_eval(x, p->s->x[x->a].dtype, r, p->slot[x->a], slot_or_null(p, x->b),
				slot_or_null(p, x->c), m->n);
		}
	}
}

/* ---- reductions ---- */

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

static void start(struct machine *m, int n)
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

/* sum[to] = sum[to] op value[from], for `n` lanes from there on. */
static void combine(struct machine *m, int32_t red, int to, int from, int n, int64_t position)
{
	const struct ht_reduction *r = &m->p->s->red[red];
	size_t bytes = size_of(r->dtype);
	char *sum = (char *)m->p->sum[red] + (size_t)to * bytes;
	char *value = (char *)m->p->slot[r->x] + (size_t)from * bytes;
	struct ht_x x = op_of(r->op, r->dtype);
	uint8_t better[LANES];

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

/* Row-major position in the reduction dimensions. */
static int64_t position_of(const struct machine *m)
{
	const struct ht_stage *s = m->p->s;
	int64_t at = 0;

	for (int i = 0; i < s->dims; i++)
		if (s->dim[i].reduce)
			at = at * s->dim[i].extent + m->index[i];
	return at;
}

/* ---- walking ---- */

/* Sets the listed dimensions to their first indices; false when one of them is empty. */
static bool first(struct machine *m, const int32_t *dim, int n)
{
	for (int i = 0; i < n; i++) {
		m->index[dim[i]] = m->lo[dim[i]];
		if (m->lo[dim[i]] >= m->hi[dim[i]])
			return false;
	}
	return true;
}

static bool next(struct machine *m, const int32_t *dim, int n)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++m->index[dim[i]] < m->hi[dim[i]])
			return true;
		m->index[dim[i]] = m->lo[dim[i]];
	}
	return false;
}

static int lanes_left(const struct machine *m)
{
	int64_t left = m->hi[m->p->lane] - m->index[m->p->lane];

	return left < LANES ? (int)left : LANES;
}

static void finish(struct machine *m)
{
	evaluate(m, m->p->outer, m->p->outers);
	for (int32_t i = 0; i < m->p->s->stores && !m->fault; i++)
		store(m, &m->p->s->store[i]);
}

/* The reductions of one chunk of lanes along a kept dimension. */
static void reduce_per_lane(struct machine *m)
{
	const struct program *p = m->p;

	start(m, m->n);
	if (!first(m, p->reduced, p->reduceds))
		return;
	do {
		evaluate(m, p->inner, p->inners);
		for (int32_t i = 0; i < p->s->reds && !m->fault; i++)
			combine(m, i, 0, 0, m->n, position_of(m));
	} while (!m->fault && next(m, p->reduced, p->reduceds));
}

/* The reductions of one iteration, lanes along a reduction dimension. */
static void reduce_across_lanes(struct machine *m)
{
	const struct program *p = m->p;

	start(m, 1);
	if (!first(m, p->reduced, p->reduceds) || m->lo[p->lane] >= m->hi[p->lane])
		return;
	do {
		m->index[p->lane] = m->lo[p->lane];
		while (m->index[p->lane] < m->hi[p->lane] && !m->fault) {
			m->n = lanes_left(m);
			evaluate(m, p->inner, p->inners);
			for (int lane = 0; lane < m->n && !m->fault; lane++, m->index[p->lane]++)
				for (int32_t i = 0; i < p->s->reds; i++)
					combine(m, i, 0, lane, 1, position_of(m));
		}
	} while (!m->fault && next(m, p->reduced, p->reduceds));
}

static void run_loop(struct machine *m)
{
	const struct program *p = m->p;
	bool across = p->lane >= 0 && p->s->dim[p->lane].reduce;

	if (!first(m, p->kept, p->kepts))
		return;
	do {
		if (across || p->lane < 0) {
			m->n = 1;
			if (across)
				reduce_across_lanes(m);
			else if (p->s->reds)
				reduce_per_lane(m);
			m->n = 1;
			if (!m->fault)
				finish(m);
			continue;
		}
		for (m->index[p->lane] = m->lo[p->lane];
			m->index[p->lane] < m->hi[p->lane] && !m->fault;
			m->index[p->lane] += LANES) {
			m->n = lanes_left(m);
			if (p->s->reds)
				reduce_per_lane(m);
			if (!m->fault)
				finish(m);
		}
	} while (!m->fault && next(m, p->kept, p->kepts));
}

/* ---- contractions ---- */

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
	int64_t taps, depth, padded; /* Q, K, K' */
};

static struct contraction contraction_of(const struct machine *m)
{
	const struct ht_stage *s = m->p->s;
	const struct ht_contract *c = &s->contract;
	const struct ht_kernel_buffer *a = &m->k->buffer[c->a_buffer],
				      *b = &m->k->buffer[c->b_buffer];
	struct contraction r = { a->dtype, b->dtype, m->buffer[c->a_buffer], m->buffer[c->b_buffer],
		a->count, b->count, 1, s->dim[s->dims - 1].extent, 0 };

	for (int i = 0; i < s->dims - 1; i++)
		if (s->dim[i].reduce)
			r.taps *= s->dim[i].extent;
	r.padded = (r.depth + c->kp - 1) / c->kp * c->kp;
	return r;
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

/* Adds A's element times row (tap, k) of B to the sums of all columns. */
static void add_products(struct machine *m, const struct contraction *c, int64_t row, int64_t k,
	int64_t tap, int64_t base)
{
	const struct ht_contract *f = &m->p->s->contract;
	int64_t at = row + k * f->a_step, line = tap * c->padded + k, n = m->lo[f->n], columns;
	int64_t panel = c->taps * c->padded / f->kp * f->nr * f->kp;
	char *sum = m->p->columns;

	HT_CHECK(at >= 0 && at < c->a_count);
	base += line / f->kp * f->nr * f->kp + line % f->kp;
	for (; n < m->hi[f->n]; n += columns, sum += 4 * columns) {
		int64_t first = base + n / f->nr * panel + n % f->nr * f->kp;
		const char *b = c->b_memory + first * (int64_t)size_of(c->b);

		columns = f->nr - n % f->nr;
		if (columns > m->hi[f->n] - n)
			columns = m->hi[f->n] - n;
		HT_CHECK(first >= 0 && first + (columns - 1) * f->kp < c->b_count);
		if (ht_is_float(c->a))
			add_floats((float *)sum, number_at(c->a, c->a_memory, at), c->b, b, f->kp,
				columns);
		else
			add_integers((int32_t *)sum, integer_at(c->a, c->a_memory, at), c->b, b,
				f->kp, columns);
	}
}

/* One row: all its taps and depths. */
static void contract_row(struct machine *m, const struct contraction *c)
{
	const struct program *p = m->p;
	const struct ht_contract *f = &p->s->contract;
	int32_t depth = p->s->dims - 1;
	int taps = p->reduceds - 1; /* `reduced` ends with the depth */

	memset(p->columns, 0, 4 * (size_t)(m->hi[f->n] - m->lo[f->n]));
	m->index[depth] = m->index[f->n] = 0;
	if (c->depth == 0 || !first(m, p->reduced, taps))
		return;
	m->n = 1;
	do {
		evaluate(m, p->row, p->rows);
		if (m->fault)
			return;
		if (f->a_guard >= 0 && !*(const uint8_t *)p->slot[f->a_guard])
			continue;
		for (int64_t k = 0; k < c->depth; k++)
			add_products(m, c, *(const int64_t *)p->slot[f->a_row], k,
				position_of(m) / c->depth, *(const int64_t *)p->slot[f->b_base]);
	} while (next(m, p->reduced, taps));
}

static void run_contraction(struct machine *m)
{
	const struct program *p = m->p;
	struct contraction c = contraction_of(m);

	if (!first(m, p->kept, p->kepts))
		return;
	do {
		contract_row(m, &c);
		for (m->index[p->lane] = m->lo[p->lane];
			m->index[p->lane] < m->hi[p->lane] && !m->fault;
			m->index[p->lane] += LANES) {
			m->n = lanes_left(m);
			finish(m);
		}
	} while (!m->fault && next(m, p->kept, p->kepts));
}

/* ---- tiles ---- */

static void set_tile(struct machine *m, int64_t tile)
{
	for (int i = m->k->grid_dims - 1; i >= 0; i--) {
		m->grid[i] = tile % m->k->grid[i];
		tile /= m->k->grid[i];
	}
}

static void set_bounds(struct machine *m)
{
	const struct ht_stage *s = m->p->s;

	for (int i = 0; i < s->dims; i++) {
		const struct ht_dim *d = &s->dim[i];

		m->lo[i] = d->grid < 0 ? 0 : m->grid[d->grid] * d->step;
		m->hi[i] = d->grid < 0 || m->lo[i] + d->step > d->extent ? d->extent
									 : m->lo[i] + d->step;
	}
}

static int32_t run_tiles(
	struct machine *m, const struct program *program, int64_t begin, int64_t end)
{
	for (int64_t tile = begin; tile < end; tile++) {
		set_tile(m, tile);
		for (int32_t i = 0; i < m->k->stages; i++) {
			m->p = &program[i];
			if (m->p->s->start && tile != begin && m->grid[m->k->grid_dims - 1] != 0)
				continue;
			set_bounds(m);
			if (m->p->s->kind == HT_STAGE_CONTRACT)
				run_contraction(m);
			else
				run_loop(m);
			if (m->fault)
				return m->fault;
		}
	}
	return HT_FAULT_NONE;
}

static int32_t interpret(struct ht_arena *a, const struct ht_kernel *k, void *const *buffers,
	const int64_t *params, int64_t begin, int64_t end, char *scratch)
{
	struct program *program = HT_NEW_ARRAY(a, struct program, (size_t)k->stages + 1);
	struct machine m = {
		.k = k, .params = params, .buffer = HT_NEW_ARRAY(a, char *, (size_t)k->buffers + 1)
	};

	for (int32_t i = 0; i < k->buffers; i++)
		m.buffer[i] = i < k->args ? buffers[i] : scratch + ht_kernel_local_offset(k, i);
	for (int32_t i = 0; i < k->stages; i++)
		prepare(a, &k->stage[i], &program[i]);
	return run_tiles(&m, program, begin, end);
}

int32_t ht_interpret(const struct ht_kernel *k, void *const *buffers, const int64_t *params,
	int64_t tile_begin, int64_t tile_end, void *scratch)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	int32_t fault;

	if (k->library) {
		ht_kernel_fn *fn = ht_library_kernel(k->library);

		HT_CHECK(fn);
		return fn(buffers, params, tile_begin, tile_end, scratch);
	}
	ht_arena_init(&arena, &unwind);
	if (setjmp(unwind.env)) {
		ht_arena_release(&arena);
		return HT_FAULT_MEMORY;
	}
	fault = interpret(&arena, k, buffers, params, tile_begin, tile_end, scratch);
	ht_arena_release(&arena);
	return fault;
}
