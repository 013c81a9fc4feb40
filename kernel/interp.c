/* interp: the reference interpreter, which defines the meaning of a kernel.
 *
 * A stage's expressions are evaluated one after the other for up to HT_LANES iterations at once,
 * along the `lane` dimension; an odometer walks over the other dimensions.  The lanes run along
 * a kept dimension (each lane has its own sums) or along a reduction dimension (the lanes are
 * then summed in order), whichever is longer.
 *
 * Offsets are checked against the buffers' sizes: one out of range is a defect of this program
 * and aborts. */
#include "kernel/interp.h"

#include <string.h>

/* ---- expressions ---- */

static void load(struct ht_interp *m, const struct ht_x *x, void *r)
{
	const struct ht_kernel_buffer *b = &m->k->buffer[x->imm];
	const int64_t *offset = m->p->slot[x->a];
	const uint8_t *guard = x->b >= 0 ? m->p->slot[x->b] : NULL;
	const char *other = x->c >= 0 ? m->p->slot[x->c] : NULL, *memory = m->buffer[x->imm];
	size_t bytes = ht_interp_size(x->dtype);

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

static void store(struct ht_interp *m, const struct ht_store *st)
{
	const struct ht_kernel_buffer *b = &m->k->buffer[st->buffer];
	const int64_t *offset = m->p->slot[st->offset];
	const char *value = m->p->slot[st->value];
	const uint8_t *guard = st->guard >= 0 ? m->p->slot[st->guard] : NULL;
	size_t bytes = ht_interp_size(b->dtype);

	for (int i = 0; i < m->n; i++) {
		if (guard && !guard[i])
			continue;
		HT_CHECK(offset[i] >= 0 && offset[i] < b->count);
		memcpy(m->buffer[st->buffer] + (size_t)offset[i] * bytes, value + (size_t)i * bytes,
			bytes);
	}
}

static void fill_index(struct ht_interp *m, int64_t *r, int64_t first, int64_t step)
{
	for (int i = 0; i < m->n; i++)
		r[i] = first + i * step;
}

static void check(struct ht_interp *m, const struct ht_x *x, void *r)
{
	const uint8_t *good = m->p->slot[x->b];

	for (int i = 0; i < m->n; i++)
		if (!good[i]) {
			m->fault = (int32_t)x->imm;
			return;
		}
	memcpy(r, m->p->slot[x->a], (size_t)m->n * ht_interp_size(x->dtype));
}

static void reduced(struct ht_interp *m, const struct ht_x *x, void *r)
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
		memcpy(r, m->p->sum[x->imm], (size_t)m->n * ht_interp_size(x->dtype));
}

static void *slot_or_null(const struct ht_interp_stage *p, int32_t i)
{
	return i < 0 ? NULL : p->slot[i];
}

void ht_interp_evaluate(struct ht_interp *m, const int32_t *list, int32_t count)
{
	const struct ht_interp_stage *p = m->p;

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

/* ---- iterating ---- */

bool ht_interp_first(struct ht_interp *m, const int32_t *dim, int n)
{
	for (int i = 0; i < n; i++) {
		m->index[dim[i]] = m->lo[dim[i]];
		if (m->lo[dim[i]] >= m->hi[dim[i]])
			return false;
	}
	return true;
}

bool ht_interp_next(struct ht_interp *m, const int32_t *dim, int n)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++m->index[dim[i]] < m->hi[dim[i]])
			return true;
		m->index[dim[i]] = m->lo[dim[i]];
	}
	return false;
}

int ht_interp_lanes_left(const struct ht_interp *m)
{
	int64_t left = m->hi[m->p->lane] - m->index[m->p->lane];

	return left < HT_LANES ? (int)left : HT_LANES;
}

void ht_interp_finish(struct ht_interp *m)
{
	ht_interp_evaluate(m, m->p->outer, m->p->outers);
	for (int32_t i = 0; i < m->p->s->stores && !m->fault; i++)
		store(m, &m->p->s->store[i]);
}

/* The reductions of one chunk of lanes along a kept dimension. */
static void reduce_per_lane(struct ht_interp *m)
{
	const struct ht_interp_stage *p = m->p;

	ht_interp_start_sums(m, m->n);
	if (!ht_interp_first(m, p->reduced, p->reduceds))
		return;
	do {
		ht_interp_evaluate(m, p->inner, p->inners);
		for (int32_t i = 0; i < p->s->reds && !m->fault; i++)
			ht_interp_combine(m, i, 0, 0, m->n, ht_interp_position(m));
	} while (!m->fault && ht_interp_next(m, p->reduced, p->reduceds));
}

/* The reductions of one iteration, lanes along a reduction dimension. */
static void reduce_across_lanes(struct ht_interp *m)
{
	const struct ht_interp_stage *p = m->p;

	ht_interp_start_sums(m, 1);
	if (!ht_interp_first(m, p->reduced, p->reduceds) || m->lo[p->lane] >= m->hi[p->lane])
		return;
	do {
		m->index[p->lane] = m->lo[p->lane];
		while (m->index[p->lane] < m->hi[p->lane] && !m->fault) {
			m->n = ht_interp_lanes_left(m);
			ht_interp_evaluate(m, p->inner, p->inners);
			for (int lane = 0; lane < m->n && !m->fault; lane++, m->index[p->lane]++)
				for (int32_t i = 0; i < p->s->reds; i++)
					ht_interp_combine(m, i, 0, lane, 1, ht_interp_position(m));
		}
	} while (!m->fault && ht_interp_next(m, p->reduced, p->reduceds));
}

static void run_loop(struct ht_interp *m)
{
	const struct ht_interp_stage *p = m->p;
	bool across = p->lane >= 0 && p->s->dim[p->lane].reduce;

	if (!ht_interp_first(m, p->kept, p->kepts))
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
				ht_interp_finish(m);
			continue;
		}
		for (m->index[p->lane] = m->lo[p->lane];
			m->index[p->lane] < m->hi[p->lane] && !m->fault;
			m->index[p->lane] += HT_LANES) {
			m->n = ht_interp_lanes_left(m);
			if (p->s->reds)
				reduce_per_lane(m);
			if (!m->fault)
				ht_interp_finish(m);
		}
	} while (!m->fault && ht_interp_next(m, p->kept, p->kepts));
}

/* ---- tiles ---- */

static void set_tile(struct ht_interp *m, int64_t tile)
{
	for (int i = m->k->grid_dims - 1; i >= 0; i--) {
		m->grid[i] = tile % m->k->grid[i];
		tile /= m->k->grid[i];
	}
}

static void set_bounds(struct ht_interp *m)
{
	const struct ht_stage *s = m->p->s;

	for (int i = 0; i < s->dims; i++) {
		const struct ht_dim *d = &s->dim[i];

		m->lo[i] = d->grid < 0 ? 0 : m->grid[d->grid] * d->step;
		m->hi[i] = d->grid < 0 || m->lo[i] + d->step > d->extent ? d->extent
									 : m->lo[i] + d->step;
		m->hi[i] = ht_cut_end(d, m->params, m->hi[i]);
		if (m->hi[i] < m->lo[i])
			m->hi[i] = m->lo[i];
	}
}

static int32_t run_tiles(
	struct ht_interp *m, const struct ht_interp_stage *program, int64_t begin, int64_t end)
{
	for (int64_t tile = begin; tile < end; tile++) {
		set_tile(m, tile);
		for (int32_t i = 0; i < m->k->stages; i++) {
			m->p = &program[i];
			if (m->p->s->start && tile != begin && m->grid[m->k->grid_dims - 1] != 0)
				continue;
			set_bounds(m);
			if (m->p->s->kind == HT_STAGE_CONTRACT)
				ht_interp_contract(m);
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
	struct ht_interp_stage *program =
		HT_NEW_ARRAY(a, struct ht_interp_stage, (size_t)k->stages + 1);
	struct ht_interp m = {
		.k = k, .params = params, .buffer = HT_NEW_ARRAY(a, char *, (size_t)k->buffers + 1)
	};

	for (int32_t i = 0; i < k->buffers; i++)
		m.buffer[i] = i < k->args ? buffers[i] : scratch + ht_kernel_local_offset(k, i);
	for (int32_t i = 0; i < k->stages; i++)
		ht_interp_prepare(a, &k->stage[i], &program[i]);
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
