/* executor: the code of execute.h's functions.  It is compiled into the library and, a second
 * time, into nets: there all of it lies in one section of code that refers to nothing outside of
 * itself.
 *
 * A net's runner defines three macros: EXECUTOR declares each function, EXECUTOR_CALLED declares
 * those that must not be inlined, and EXECUTOR_OBSERVED says whether there may be an observer.
 *
 * The first thread leads: it alone walks over steps, calls, branches and loops.  The others wait
 * at a barrier for a job, which is the tiles of one step or the instances of a fork.  The
 * barrier that ends a job also begins the next one, unless a step for one thread lies between
 * them. */
#ifndef HT_EXECUTOR_H
#define HT_EXECUTOR_H

#include "base/cpu.h"
#include "base/poison.h"
#include "image/execute.h"

#ifndef EXECUTOR
#define EXECUTOR static inline
#define EXECUTOR_CALLED static __attribute__((noinline))
#define EXECUTOR_OBSERVED true
#endif

enum ht_exec_kind { HT_EXEC_WAIT, HT_EXEC_CHECK, HT_EXEC_TILES, HT_EXEC_INSTANCES, HT_EXEC_END };

/* One thread's share of a step's tiles.  Other threads take from it when they have finished
 * theirs. */
struct ht_exec_share {
	_Alignas(64) int64_t next;
	int64_t end;
};

/* The head of a thread's control memory; its frames follow. */
struct ht_exec_control {
	struct ht_exec_share share[2]; /* of this job, and of the one before or after */
	_Alignas(64) struct ht_exec_stop stop;
	int64_t phase;    /* barriers that the thread passed in this run */
	int64_t instance; /* the instance of a fork that the thread is running alone */
	bool open;        /* of the leader: others may still work on the last job */
	uint32_t bound; /* 1 + the procedure or step for which the lowest frame is bound; 0: none */
};

EXECUTOR bool ht_exec_observed(const struct ht_exec *x)
{
	return EXECUTOR_OBSERVED && x->observer;
}

EXECUTOR struct ht_exec_control *ht_exec_control_of(const struct ht_exec *x, int worker)
{
	return (void *)(x->control + (uint64_t)worker * x->stride);
}

EXECUTOR uint64_t ht_exec_frame_size(const struct ht_image_procedure *p)
{
	return sizeof(struct ht_exec_frame) + 8 * ((uint64_t)p->args + p->loops);
}

/* ---- faults ---- */

EXECUTOR_CALLED __attribute__((cold)) bool ht_exec_fail(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int32_t code, int64_t tile)
{
	struct ht_exec_control *c = ht_exec_control_of(x, worker);

	c->stop.code = code;
	c->stop.step = (uint32_t)(s - ht_image_steps(x->image));
	c->stop.instance = c->instance;
	c->stop.tile = tile;
	c->stop.frame = f;
	__atomic_store_n(&x->failed, c->phase, __ATOMIC_RELAXED);
	return false;
}

/* ---- places ---- */

/* It has several callers and is large. */
EXECUTOR_CALLED int64_t ht_exec_evaluate(const struct ht_exec *x, uint32_t expression)
{
	return ht_image_evaluate(x->image, expression, x->size);
}

/* Bytes of a place at the sizes of the run, a multiple of 64. */
EXECUTOR uint64_t ht_exec_room(const struct ht_exec *x, const struct ht_image_place_of *p)
{
	uint64_t n = p->reach.add;

	if (p->reach.sized)
		n += (uint64_t)ht_exec_evaluate(x, p->reach.sized - 1);
	return ((n < p->bytes ? n : p->bytes) + 63) & ~(uint64_t)63;
}

/* Places temporary buffers for the sizes of the run: each place begins where all those end that end before it at the largest sizes.  So no
 * place is further up than it is there, and places that do not overlap there do not overlap.  at[i] becomes where place i begins; as many
 * numbers behind these are used, too.  Returns the bytes of all. */
EXECUTOR_CALLED __attribute__((cold)) uint64_t ht_exec_place_buffers(
	const struct ht_exec *x, uint64_t *at)
{
	const struct ht_image_place_of *all = ht_image_places(x->image), *p;
	const uint32_t n = x->image->table[HT_IMAGE_PLACES].count;
	uint64_t *end = at + n, from = 0, most = 0;
	uint32_t ended = 0;

	for (uint32_t i = 0; i < n; i++) {
		while (p = &all[all[ended].ends], p->offset + p->bytes <= all[i].offset) {
			uint64_t up = end[all[ended++].ends];

			from = up > from ? up : from;
		}
		at[i] = from;
		end[i] = from + ht_exec_room(x, &all[i]);
		most = end[i] > most ? end[i] : most;
	}
	return most;
}

/* ---- binding ---- */

/* `at`: by place, where it begins; NULL: buffers are where they are at the largest sizes. */
EXECUTOR void *ht_exec_address(const struct ht_exec *x, const struct ht_exec_frame *f,
	const struct ht_image_buffer *b, const uint64_t *at)
{
	switch (b->kind) {
	case HT_IMAGE_TEMP:
		return f->temps + (at ? at[b->number] : b->offset);
	case HT_IMAGE_CONST:
		return (void *)(x->links.data + (uintptr_t)x->links.constant[b->number]);
	case HT_IMAGE_VARIABLE:
		if (EXECUTOR_OBSERVED && x->links.variable)
			return x->links.variable[b->number];
		return x->links.variables + ht_image_variables(x->image)[b->number].offset;
	case HT_IMAGE_DERIVED_BUFFER:
		return x->links.derived + b->offset;
	default:
		if (EXECUTOR_OBSERVED && b->kind == HT_IMAGE_OBJECT)
			return x->links.object[b->number];
		return &x->links.stream[b->number];
	}
}

/* Arguments that stay where they are as long as the frame is this procedure's.  A run of a bound program does not come here. */
EXECUTOR_CALLED __attribute__((cold)) void ht_exec_bind(
	const struct ht_exec *x, struct ht_exec_frame *f)
{
	const struct ht_image_procedure *p = f->procedure;
	const struct ht_image_buffer *buffer = ht_image_buffers(x->image) + p->buffer;
	const uint32_t *arg = ht_image_args(x->image) + p->arg;
	uint64_t *at = NULL;

	f->bound = 0;
	f->bytes = p->frame_bytes;
	if (ht_image_is_placed(x->image, p)) {
		/* The control memory of frames that are not there yet. */
		at = (uint64_t *)(void *)(f->arg + p->args);
		f->bytes = ht_exec_place_buffers(x, at);
	}
	for (uint32_t i = 0; i < p->args; i++)
		if (buffer[arg[i]].kind != HT_IMAGE_PARAM)
			f->arg[i] = ht_exec_address(x, f, &buffer[arg[i]], at);
}

EXECUTOR void *ht_exec_port(const struct ht_exec *x, uint32_t i)
{
	const struct ht_image_entry *e = ht_image_entries(x->image) + x->entry;
	const struct ht_image_port *port = ht_image_ports(x->image) + e->port;
	const void *p;

	if (i >= e->inputs)
		return x->out[i - e->inputs];
	p = x->in[i];
	if (!p && port[i].value != HT_IMAGE_NO_VALUE)
		p = ht_image_data(x->image) + port[i].value;
	return (void *)(uintptr_t)p;
}

/* Binds the arguments that are the procedure's parameters, for the current instance. */
EXECUTOR void ht_exec_patch(const struct ht_exec *x, struct ht_exec_frame *f)
{
	const struct ht_image_procedure *p = f->procedure;
	const uint32_t *patch = ht_image_patches(x->image) + p->patch;
	const uint32_t *arg = ht_image_args(x->image) + p->arg;

	for (uint32_t i = 0; i < p->patches; i++) {
		uint32_t param = arg[patch[i]];
		char *at = f->from ? f->from[param] : ht_exec_port(x, param);

		if (f->stride)
			at += f->stride[param] * (int64_t)f->instance;
		f->arg[patch[i]] = at;
	}
}

EXECUTOR_CALLED void ht_exec_start(const struct ht_exec *x, struct ht_exec_frame *f)
{
	ht_exec_patch(x, f);
	f->next = 0;
	if (ht_exec_observed(x) && x->observer->enter)
		x->observer->enter(x->observer->arg, f);
}

EXECUTOR void ht_exec_place(struct ht_exec_frame *f, const struct ht_image_procedure *p)
{
	f->procedure = p;
	f->counter = (int64_t *)(void *)(f + 1);
	f->arg = (void **)(f->counter + p->loops);
	f->instance = 0;
	f->instances = 1;
	f->caller = NULL;
	f->from = NULL;
	f->stride = NULL;
}

/* The lowest frame of a thread, bound for the procedure or step `key`. */
EXECUTOR struct ht_exec_frame *ht_exec_lowest(
	struct ht_exec *x, int worker, const struct ht_image_procedure *p, uint32_t key)
{
	struct ht_exec_control *c = ht_exec_control_of(x, worker);
	struct ht_exec_frame *f = (void *)(c + 1);

	ht_exec_place(f, p);
	f->temps = worker ? x->forked + (uint64_t)(worker - 1) * x->stride : x->temps;
	if (c->bound != key)
		ht_exec_bind(x, f);
	c->bound = key;
	return f;
}

/* Whether memory for a frame of procedure `p`, which begins at `f` and `temps`, lies within the thread's.  Where the buffers of the lowest
 * frame lie closer together than at the largest sizes, the run may have been given less (ht_exec_temps_of()). */
EXECUTOR bool ht_exec_fits(const struct ht_exec *x, int worker, const struct ht_exec_frame *f,
	const char *temps, const struct ht_image_procedure *p)
{
	const struct ht_exec_control *c = ht_exec_control_of(x, worker);
	const struct ht_exec_frame *lowest = (const void *)(c + 1);
	uint64_t most = worker ? x->needs.forked : x->needs.temps;
	uint64_t saved = lowest->procedure->frame_bytes - lowest->bytes;

	return (uint64_t)((const char *)f - (const char *)c) + ht_exec_frame_size(p) <=
		       x->needs.control &&
	       (uint64_t)(temps - lowest->temps) + saved + p->frame_bytes <= most;
}

/* The frame of a procedure that step s of frame f calls; NULL: there is not enough memory. */
EXECUTOR_CALLED struct ht_exec_frame *ht_exec_above(
	struct ht_exec *x, struct ht_exec_frame *f, const struct ht_image_step *s, int worker)
{
	const struct ht_image_procedure *p = ht_image_procedures(x->image) + s->to;
	struct ht_exec_frame *n = (void *)((char *)f + ht_exec_frame_size(f->procedure));
	char *temps = f->temps + f->bytes;
	uint32_t key = (uint32_t)(s - ht_image_steps(x->image)) + 1;

	if (!ht_exec_fits(x, worker, n, temps, p))
		return NULL;
	ht_exec_place(n, p);
	n->temps = temps;
	n->caller = f;
	n->from = f->arg + s->arg;
	if (f->bound != key)
		ht_exec_bind(x, n);
	f->bound = key;
	return n;
}

/* ---- tiles ---- */

/* The arguments with which a thread calls the kernels of a frame. */
struct ht_exec_calls {
	void **arg;
	uintptr_t code;
	const int64_t *kernel, *param, *size;
	char *scratch;
};

EXECUTOR struct ht_exec_calls ht_exec_calls_of(
	const struct ht_exec *x, const struct ht_exec_frame *f, int worker)
{
	return (struct ht_exec_calls){ .arg = f->arg,
		.code = EXECUTOR_OBSERVED ? 0 : x->links.code,
		.kernel = x->links.kernel,
		.param = ht_image_params(x->image),
		.size = x->size,
		.scratch = x->scratch + (uint64_t)worker * x->scratch_stride };
}

/* Runs tiles, at least one.  Returns the fault, or 0. */
EXECUTOR int32_t ht_exec_tiles(const struct ht_exec *x, const struct ht_exec_calls *c,
	const struct ht_image_step *s, int64_t begin, int64_t end)
{
	ht_exec_fn *kernel = (ht_exec_fn *)(c->code + (uintptr_t)c->kernel[s->to]);

#if HT_POISONS && EXECUTOR_OBSERVED
	for (uint64_t i = 0; i < ht_image_kernels(x->image)[s->to].scratch_bytes; i++)
		c->scratch[i] = -1;
#endif
	(void)x;
	return kernel(
		c->arg + s->arg, s->params ? c->param + s->param : c->size, begin, end, c->scratch);
}

/* Runs one worker's share of the checks before a step. */
EXECUTOR bool ht_exec_check(
	struct ht_exec *x, const struct ht_exec_job *job, int worker, int at, int workers)
{
	int32_t fault = x->observer->check(x->observer->arg, job->frame,
		(uint32_t)(job->step - ht_image_steps(x->image)), at, workers);

	return !fault || ht_exec_fail(x, job->frame, job->step, worker, fault, 0);
}

/* Tells the observer that a thread begins a step's tiles. */
EXECUTOR void ht_exec_tiles_begin(const struct ht_exec *x, int worker)
{
	if (ht_exec_observed(x) && x->observer->begin)
		x->observer->begin(x->observer->arg, worker);
}

/* Tells the observer that it has finished them. */
EXECUTOR void ht_exec_tiles_end(
	const struct ht_exec *x, const struct ht_image_step *s, int worker, int workers)
{
	if (ht_exec_observed(x) && x->observer->end)
		x->observer->end(x->observer->arg, (uint32_t)(s - ht_image_steps(x->image)), worker,
			workers);
}

/* Gives neighbouring tiles to the thread that had them in the step before, unless that thread is
 * late. */
EXECUTOR void ht_exec_share_tiles(
	struct ht_exec *x, const struct ht_exec_job *job, int worker, int workers)
{
	const struct ht_exec_calls c = ht_exec_calls_of(x, job->frame, worker);
	const struct ht_image_step *s = job->step;
	const int64_t chunk = s->count / (8 * workers) + 1;
	const int64_t slot = ht_exec_control_of(x, worker)->phase & 1;

	for (int k = 0, of = worker; k < workers; k++, of = of + 1 < workers ? of + 1 : 0) {
		struct ht_exec_share *share = &ht_exec_control_of(x, of)->share[slot];
		int64_t at;

		while ((at = __atomic_fetch_add(&share->next, chunk, __ATOMIC_RELAXED)) <
			share->end) {
			int64_t end = at + chunk < share->end ? at + chunk : share->end;
			int32_t fault = ht_exec_tiles(x, &c, s, at, end);

			if (fault) {
				ht_exec_fail(x, job->frame, s, worker, fault, at);
				return;
			}
		}
	}
}

/* ---- the steps of a procedure ---- */

/* Numbers of 4 and 8 bytes are moved as such, so that the next load finds all of one in the same store.  The empty statement keeps
 * the compiler from making this a call of memcpy(). */
#define HT_EXEC_COPY(type)                                                                         \
	for (; i + sizeof(type) <= n; i += sizeof(type)) {                                         \
		*(type *)(to + i) = *(const type *)(from + i);                                     \
		__asm__ volatile("" ::: "memory");                                                 \
	}
EXECUTOR_CALLED void ht_exec_copy(
	const struct ht_exec *x, void *const *arg, const struct ht_image_step *s)
{
	typedef uint64_t both __attribute__((vector_size(16)));
	typedef both __attribute__((may_alias, aligned(1))) words;
	typedef uint64_t __attribute__((may_alias, aligned(1))) word;
	typedef uint32_t __attribute__((may_alias, aligned(1))) half;
	uint64_t n = (uint64_t)ht_image_params(x->image)[s->param], i = 0;
	const char *from = arg[1];
	char *to = arg[0];

	HT_EXEC_COPY(words)
	HT_EXEC_COPY(word)
	HT_EXEC_COPY(half)
	HT_EXEC_COPY(char)
}
#undef HT_EXEC_COPY

EXECUTOR bool ht_exec_is_zero(const void *p, uint32_t bytes)
{
	return bytes == 1   ? !*(const char *)p
	       : bytes == 4 ? !*(const int32_t *)p
			    : !*(const int64_t *)p;
}

/* ---- threads ---- */

struct ht_exec_range {
	int64_t from, to;
};

/* The instances of a fork. */
EXECUTOR_CALLED struct ht_exec_range ht_exec_range_of(
	const struct ht_exec *x, const struct ht_image_step *s)
{
	if (s->op == HT_IMAGE_SPREAD)
		return (struct ht_exec_range){ ht_exec_evaluate(x, s->count),
			ht_exec_evaluate(x, s->count + 1) };
	return (struct ht_exec_range){ 0, s->op == HT_IMAGE_CALL ? 1 : s->count };
}

/* Behind the last of those that each thread runs equally many of by itself. */
EXECUTOR_CALLED int64_t ht_exec_apart(
	const struct ht_image_step *s, struct ht_exec_range r, int workers)
{
	int64_t n = r.to - r.from;

	return r.to - (s->op == HT_IMAGE_BESIDE && s->to && n < workers ? 0 : n % workers);
}

/* Waits until all have finished the last job, and lets the other threads begin the next one.
 * False: a thread stopped in the last job. */
EXECUTOR_CALLED bool ht_exec_advance(struct ht_exec *x, enum ht_exec_kind kind,
	struct ht_exec_frame *f, const struct ht_image_step *s, int workers)
{
	struct ht_exec_control *c = ht_exec_control_of(x, 0);
	int64_t done = c->phase, slot = (done + 1) & 1;
	struct ht_exec_job *job = &x->job[slot];

	job->kind = kind;
	job->step = s;
	job->frame = f;
	if (kind == HT_EXEC_INSTANCES) {
		struct ht_exec_range r = ht_exec_range_of(x, s);

		job->instance = r.from;
		job->end = ht_exec_apart(s, r, workers);
	}
	for (int i = 0; kind == HT_EXEC_TILES && i < workers; i++) {
		struct ht_exec_share *share = &ht_exec_control_of(x, i)->share[slot];

		share->end = (int64_t)s->count * (i + 1) / workers;
		__atomic_store_n(&share->next, (int64_t)s->count * i / workers, __ATOMIC_RELAXED);
	}
	x->threads->barrier(x->threads->pool);
	c->phase++;
	c->open = kind != HT_EXEC_WAIT;
	return __atomic_load_n(&x->failed, __ATOMIC_RELAXED) != done;
}

/* Waits until all threads have finished their work and wait; false: one stopped. */
EXECUTOR bool ht_exec_settle(struct ht_exec *x, int workers)
{
	return !ht_exec_control_of(x, 0)->open || workers == 1 ||
	       ht_exec_advance(x, HT_EXEC_WAIT, NULL, NULL, workers);
}

EXECUTOR_CALLED bool ht_exec_walk(
	struct ht_exec *x, struct ht_exec_frame *f, int worker, int workers);

/* The frame in which a thread runs step s of the job's frame. */
EXECUTOR struct ht_exec_frame *ht_exec_instance_frame(
	struct ht_exec *x, const struct ht_exec_job *job, const struct ht_image_step *s, int worker)
{
	const struct ht_image_procedure *p = ht_image_procedures(x->image) + s->to;
	uint32_t key = (uint32_t)(s - ht_image_steps(x->image)) + 1;
	struct ht_exec_control *c = ht_exec_control_of(x, worker);
	struct ht_exec_frame *lowest = (void *)(c + 1);

	if (worker == 0)
		return ht_exec_above(x, job->frame, s, 0);
	if (sizeof *c + ht_exec_frame_size(p) > x->needs.control ||
		p->frame_bytes > x->needs.forked)
		return NULL;
	ht_exec_lowest(x, worker, p, key);
	lowest->caller = job->frame;
	lowest->from = job->frame->arg + s->arg;
	return lowest;
}

/* Each thread takes instances and runs all steps of one, so that tensors between steps stay in
 * its caches.  Instances are taken in order: if several stop, the first of them has been run. */
EXECUTOR void ht_exec_instances(struct ht_exec *x, struct ht_exec_job *job, int worker)
{
	struct ht_exec_control *c = ht_exec_control_of(x, worker);
	int64_t i;

	while (__atomic_load_n(&x->failed, __ATOMIC_RELAXED) != c->phase &&
		(i = __atomic_fetch_add(&job->instance, 1, __ATOMIC_RELAXED)) < job->end) {
		const struct ht_image_step *s =
			job->step + (job->step->op == HT_IMAGE_BESIDE ? 1 + i : 0);
		struct ht_exec_frame *f = ht_exec_instance_frame(x, job, s, worker);

		c->instance = i;
		if (!f) {
			ht_exec_fail(x, job->frame, s, worker, HT_EXEC_DEPTH, 0);
			return;
		}
		f->stride = s->params ? ht_image_params(x->image) + s->param : NULL;
		f->instance = (uint32_t)i;
		f->instances = f->instance + 1;
		ht_exec_start(x, f);
		if (!ht_exec_walk(x, f, worker, 1))
			return;
	}
	c->instance = 0;
}

/* Works on the current job, on one thread. */
EXECUTOR_CALLED void ht_exec_work(struct ht_exec *x, int worker, int workers)
{
	struct ht_exec_job *job = &x->job[ht_exec_control_of(x, worker)->phase & 1];

	if (job->kind == HT_EXEC_TILES) {
		ht_exec_tiles_begin(x, worker);
		ht_exec_share_tiles(x, job, worker, workers);
		ht_exec_tiles_end(x, job->step, worker, workers);
	} else if (job->kind == HT_EXEC_INSTANCES) {
		ht_exec_instances(x, job, worker);
	} else if (job->kind == HT_EXEC_CHECK) {
		ht_exec_check(x, job, worker, worker, workers);
	}
}

/* Runs a job on all threads, of which the caller is the first. */
EXECUTOR bool ht_exec_job(struct ht_exec *x, enum ht_exec_kind kind, struct ht_exec_frame *f,
	const struct ht_image_step *s, int workers)
{
	if (!ht_exec_advance(x, kind, f, s, workers))
		return false;
	ht_exec_work(x, 0, workers);
	return !ht_exec_control_of(x, 0)->stop.code;
}

/* ---- steps ---- */

EXECUTOR bool ht_exec_late(const struct ht_exec *x, int worker)
{
	return ht_exec_observed(x) && x->observer->late &&
	       x->observer->late(x->observer->arg, worker);
}

EXECUTOR bool ht_exec_look(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int workers)
{
	const struct ht_exec_job job = { .step = s, .frame = f };

	if (!ht_exec_settle(x, workers))
		return false;
	if (x->observer->check && workers > 1)
		if (!ht_exec_job(x, HT_EXEC_CHECK, f, s, workers) || !ht_exec_settle(x, workers))
			return false;
	if (x->observer->check && workers == 1 && !ht_exec_check(x, &job, worker, 0, 1))
		return false;
	if (ht_exec_late(x, worker))
		return ht_exec_fail(x, f, s, worker, HT_EXEC_LATE, 0);
	if (x->observer->before)
		x->observer->before(x->observer->arg, f, (uint32_t)(s - ht_image_steps(x->image)));
	return true;
}

/* Runs all tiles of step s on one thread, and those of the steps after it, before `end`, as long
 * as these have kernels. */
EXECUTOR_CALLED bool ht_exec_kernels(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, const struct ht_image_step *end, int worker)
{
	const struct ht_exec_calls c = ht_exec_calls_of(x, f, worker);
	const struct ht_image_step *next;
	/* Compilers load the next op before they compare it with 0, but not if they compare it
	 * with a register. */
	const uint32_t kernel = s->op;
	int32_t fault;

	for (next = s + 1;; next++) {
		fault = ht_exec_tiles(x, &c, next - 1, 0, next[-1].count);
		if (fault)
			return ht_exec_fail(x, f, next - 1, worker, fault, 0);
		if (next == end || next->op != kernel)
			break;
	}
	f->next += (uint32_t)(next - s) - 1;
	return true;
}

/* Whether all threads run tiles of the step. */
EXECUTOR bool ht_exec_is_shared(const struct ht_image_step *s, int workers)
{
	return workers > 1 && s->count > 1;
}

/* Runs all tiles of a step on one thread. */
EXECUTOR bool ht_exec_observed_whole(
	struct ht_exec *x, struct ht_exec_frame *f, const struct ht_image_step *s, int worker)
{
	bool good;

	ht_exec_tiles_begin(x, worker);
	good = ht_exec_kernels(x, f, s, s + 1, worker);
	ht_exec_tiles_end(x, s, worker, 1);
	return good;
}

EXECUTOR bool ht_exec_observed_kernel(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int workers)
{
	const struct ht_exec_observer *o = x->observer;

	if ((o->check || o->before || o->late) && !ht_exec_look(x, f, s, worker, workers))
		return false;
	if (ht_exec_is_shared(s, workers)
			? !ht_exec_job(x, HT_EXEC_TILES, f, s, workers)
			: !ht_exec_settle(x, workers) || !ht_exec_observed_whole(x, f, s, worker))
		return false;
	if (!o->after)
		return true;
	if (!ht_exec_settle(x, workers))
		return false;
	o->after(o->arg, f, (uint32_t)(s - ht_image_steps(x->image)));
	return true;
}

EXECUTOR bool ht_exec_kernel(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int workers)
{
	uint32_t more = workers == 1 ? f->procedure->steps - f->next : 0;

	if (ht_exec_observed(x))
		return ht_exec_observed_kernel(x, f, s, worker, workers);
	if (ht_exec_is_shared(s, workers))
		return ht_exec_job(x, HT_EXEC_TILES, f, s, workers);
	return ht_exec_settle(x, workers) && ht_exec_kernels(x, f, s, s + 1 + more, worker);
}

EXECUTOR bool ht_exec_cancelled(const struct ht_exec *x)
{
	return x->cancel && __atomic_load_n(x->cancel, __ATOMIC_RELAXED);
}

/* The frame in which the run goes on; NULL: it stopped.  Of calls side by side those that did not run on one thread each are steps
 * as all others. */
EXECUTOR struct ht_exec_frame *ht_exec_call(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int workers)
{
	bool forks = s->op != HT_IMAGE_CALL;
	struct ht_exec_range r = ht_exec_range_of(x, s);
	struct ht_exec_frame *n;

	if (r.from >= r.to)
		return f;
	if (forks && workers > 1 && !(ht_exec_observed(x) && x->observer->together)) {
		int64_t apart = ht_exec_apart(s, r, workers);

		if (apart > r.from && !ht_exec_job(x, HT_EXEC_INSTANCES, f, s, workers))
			return NULL;
		if (s->op == HT_IMAGE_BESIDE)
			f->next += (uint32_t)apart;
		if (apart == r.to)
			return f;
		r.from = apart;
	}
	if (s->op == HT_IMAGE_BESIDE)
		return f;
	/* Others may be at work on the frame that was there. */
	if (!ht_exec_settle(x, workers))
		return NULL;
	if (ht_exec_cancelled(x)) {
		ht_exec_fail(x, f, s, worker, HT_EXEC_CANCELLED, 0);
		return NULL;
	}
	n = ht_exec_above(x, f, s, worker);
	if (!n) {
		ht_exec_fail(x, f, s, worker, HT_EXEC_DEPTH, 0);
		return NULL;
	}
	n->instance = (uint32_t)r.from;
	n->instances = (uint32_t)r.to;
	n->stride = forks ? ht_image_params(x->image) + s->param : NULL;
	ht_exec_start(x, n);
	return n;
}

/* Whether another thread stopped in a call beside this one.  Instances of a fork go on, so that the first that stops is reported. */
EXECUTOR bool ht_exec_stopped_beside(const struct ht_exec *x, int worker)
{
	int64_t phase = ht_exec_control_of(x, worker)->phase;

	return __atomic_load_n(&x->failed, __ATOMIC_RELAXED) == phase &&
	       x->job[phase & 1].step->op == HT_IMAGE_BESIDE;
}

/* The fault that stops the run where an iteration ends; 0: it goes on with the next one. */
EXECUTOR int32_t ht_exec_again(
	struct ht_exec *x, struct ht_exec_frame *f, const struct ht_image_step *s, int worker)
{
	if (ht_exec_cancelled(x))
		return HT_EXEC_CANCELLED;
	if (ht_exec_late(x, worker))
		return HT_EXEC_LATE;
	if ((uint64_t)++f->counter[s->count] > x->limits.iterations)
		return HT_EXEC_ITERATIONS;
	f->next = s->to + 1;
	return 0;
}

/* Sets the size that the step has computed.  Returns 0, or the fault that stops the run: the size is out of its bounds. */
EXECUTOR_CALLED __attribute__((cold)) int32_t ht_exec_set_size(
	struct ht_exec *x, const struct ht_image_step *s, const int64_t *value)
{
	const struct ht_image_size *bounds = ht_image_sizes(x->image) + s->to;

	if (*value < bounds->least || *value > bounds->most)
		return HT_EXEC_SIZE;
	x->size[s->to] = *value;
	return 0;
}

/* Versions only grow, so a changed sum means that one of them changed. */
EXECUTOR_CALLED __attribute__((cold)) void ht_exec_derive(
	struct ht_exec *x, struct ht_exec_frame *f, const struct ht_image_step *s)
{
	const struct ht_image_derived *d = ht_image_deriveds(x->image) + s->count;
	const struct ht_image_source *source = ht_image_sources(x->image) + d->source;
	uint64_t now = 1;

	for (uint32_t i = 0; i < d->sources; i++)
		now += x->links.version[ht_image_version_of(x->image, &source[i])];
	if (s->op == HT_IMAGE_MADE)
		x->links.made[s->count] = now;
	else if (x->links.made[s->count] == now)
		f->next = s->to;
}

/* Runs a step that needs all steps before it to be finished; it takes one thread. */
EXECUTOR bool ht_exec_alone(struct ht_exec *x, struct ht_exec_frame *f,
	const struct ht_image_step *s, int worker, int workers)
{
	void *const *arg = f->arg + s->arg;
	int32_t fault = 0;

	if (!ht_exec_settle(x, workers))
		return false;
	if (s->op == HT_IMAGE_AGAIN) {
		if (ht_exec_stopped_beside(x, worker))
			return false;
		fault = ht_exec_again(x, f, s, worker);
	} else if (s->op == HT_IMAGE_COPY)
		ht_exec_copy(x, arg, s);
	else if (s->op == HT_IMAGE_FAIL)
		fault = (int32_t)s->count;
	else if (s->op == HT_IMAGE_SIZE)
		fault = ht_exec_set_size(x, s, arg[0]);
	else if (s->op >= HT_IMAGE_FRESH)
		ht_exec_derive(x, f, s);
	else if (ht_exec_is_zero(arg[0], s->count))
		f->next = s->to;
	return !fault || ht_exec_fail(x, f, s, worker, fault, 0);
}

/* False: the run stopped. */
EXECUTOR bool ht_exec_step(struct ht_exec *x, struct ht_exec_frame **at,
	const struct ht_image_step *s, int worker, int workers)
{
	struct ht_exec_frame *f = *at;

	switch (s->op) {
	case HT_IMAGE_KERNEL:
		return ht_exec_kernel(x, f, s, worker, workers);
	case HT_IMAGE_CALL:
	case HT_IMAGE_FORK:
	case HT_IMAGE_SPREAD:
	case HT_IMAGE_BESIDE:
		f = ht_exec_call(x, f, s, worker, workers);
		*at = f ? f : *at;
		return f;
	case HT_IMAGE_JUMP:
		f->next = s->to;
		return true;
	case HT_IMAGE_LOOP:
		f->counter[s->count] = 0;
		return true;
	default:
		return ht_exec_alone(x, f, s, worker, workers);
	}
}

/* The last step that ended, or the place of the first step if there is none. */
EXECUTOR const struct ht_image_step *ht_exec_last_step(
	const struct ht_exec *x, const struct ht_exec_frame *f)
{
	uint32_t last = f->procedure->steps ? f->procedure->steps - 1 : 0;

	return ht_image_steps(x->image) + f->procedure->step + last;
}

/* Runs a frame from its first step to its last; false: the run stopped. */
EXECUTOR_CALLED bool ht_exec_walk(
	struct ht_exec *x, struct ht_exec_frame *f, int worker, int workers)
{
	const struct ht_image_step *step = ht_image_steps(x->image);
	const struct ht_exec_frame *lowest = f;

	for (;;) {
		while (f->next < f->procedure->steps) {
			const struct ht_image_step *s = step + f->procedure->step + f->next++;

			if (!ht_exec_step(x, &f, s, worker, workers))
				return false;
		}
		if ((f != lowest || ht_exec_observed(x)) && !ht_exec_settle(x, workers))
			return false;
		if (ht_exec_observed(x) && x->observer->leave)
			x->observer->leave(x->observer->arg, f);
		if (++f->instance < f->instances && !ht_exec_cancelled(x))
			ht_exec_start(x, f);
		else if (f->instance < f->instances)
			return ht_exec_fail(
				x, f, ht_exec_last_step(x, f), worker, HT_EXEC_CANCELLED, 0);
		else if (f == lowest)
			return true;
		else
			f = f->caller;
	}
}

EXECUTOR void ht_exec_lead(struct ht_exec *x, int workers)
{
	const struct ht_image_entry *e = ht_image_entries(x->image) + x->entry;
	struct ht_exec_frame *f =
		ht_exec_lowest(x, 0, ht_image_procedures(x->image) + e->procedure, x->entry + 1);

	ht_exec_start(x, f);
	ht_exec_walk(x, f, 0, workers);
	if (workers > 1)
		ht_exec_advance(x, HT_EXEC_END, NULL, NULL, workers);
}

EXECUTOR void ht_exec_follow(struct ht_exec *x, int worker, int workers)
{
	struct ht_exec_control *c = ht_exec_control_of(x, worker);

	for (;;) {
		int64_t done = c->phase;

		x->threads->barrier(x->threads->pool);
		c->phase++;
		if (x->job[c->phase & 1].kind == HT_EXEC_END)
			return;
		if (__atomic_load_n(&x->failed, __ATOMIC_RELAXED) != done)
			ht_exec_work(x, worker, workers);
	}
}

EXECUTOR_CALLED void ht_exec_worker(void *arg, int worker, int workers)
{
	struct ht_exec *x = arg;
	unsigned before = ht_cpu_modes_begin(x->flush);

	if (worker == 0)
		ht_exec_lead(x, workers);
	else
		ht_exec_follow(x, worker, workers);
	ht_cpu_modes_end(before);
}

/* ---- runs ---- */

EXECUTOR int ht_exec_threads_of(const struct ht_exec *x)
{
	return x->threads ? x->threads->threads : 1;
}

EXECUTOR void ht_exec_forget(struct ht_exec *x)
{
	for (int i = 0; i < ht_exec_threads_of(x); i++)
		ht_exec_control_of(x, i)->bound = 0;
}

/* The stop of the first tile of the first instance, whichever thread ran it.  A thread runs
 * tiles in order until one stops it, so the first of all that stop has been run. */
EXECUTOR void ht_exec_first_stop(struct ht_exec *x)
{
	const struct ht_exec_stop *first = NULL;

	for (int i = 0; x->failed >= 0 && i < ht_exec_threads_of(x); i++) {
		const struct ht_exec_stop *s = &ht_exec_control_of(x, i)->stop;

		if (s->code && (!first || s->instance < first->instance ||
				       (s->instance == first->instance && s->tile < first->tile)))
			first = s;
	}
	x->stop.code = 0;
	if (first)
		x->stop = *first;
}

EXECUTOR bool ht_exec_once(struct ht_exec *x, const void *const *in, void *const *out)
{
	x->in = in;
	x->out = out;
	x->failed = -1;
	for (int i = 0; i < ht_exec_threads_of(x); i++) {
		struct ht_exec_control *c = ht_exec_control_of(x, i);

		c->stop.code = 0;
		c->phase = 0;
		c->instance = 0;
		c->open = false;
	}
	if (ht_exec_threads_of(x) > 1)
		x->threads->run(x->threads->pool, ht_exec_worker, x);
	else
		ht_exec_worker(x, 0, 1);
	ht_exec_first_stop(x);
	return !x->stop.code;
}
#endif
