/* A context: all memory of a run is allocated before it. */
#include "runtime/context.h"

#include "runtime/objects.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static bool is_large(size_t n)
{
	return n >= 2 * HUGE_PAGE;
}

static void *memory_of(size_t n)
{
	void *p = NULL;

	return posix_memalign(&p, is_large(n) ? HUGE_PAGE : 64, n + 64) ? NULL : p;
}

void *ht_rt_memory(size_t n)
{
	void *p = memory_of(n);

	if (p && is_large(n))
		madvise(p, n, MADV_HUGEPAGE); /* a hint: it may fail */
	return p;
}

void ht_context_enlarge_pages(struct ht_rt_context *c)
{
	c->enlarged = true;
	if (c->own && is_large(c->memory_bytes))
		madvise(c->own, c->memory_bytes, MADV_HUGEPAGE); /* a hint: it may fail */
}

static void run_pool(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg)
{
	ht_pool_run(pool, fn, arg);
}

static void meet(void *pool)
{
	ht_pool_barrier(pool);
}

static size_t bytes_of(const struct ht_exec_needs *n, int threads)
{
	return ht_exec_common_bytes(n) + ht_exec_thread_bytes(n) * (size_t)threads;
}

size_t ht_rt_memory_of(const struct ht_rt_program *p, int threads, uint32_t depth)
{
	const struct ht_exec_limits limits = { .depth = depth };
	struct ht_exec_needs needs;

	return ht_exec_needs_of(p->image, 0, &limits, &needs) ? bytes_of(&needs, threads) : 0;
}

/* What ht_exec_temps_of() works with; never NULL because there is no place. */
static uint64_t *work_for(const struct ht_image *x)
{
	return calloc(2 * (size_t)ht_image_count(x, HT_IMAGE_PLACES) + 1, sizeof(uint64_t));
}

size_t ht_rt_memory_for(
	const struct ht_rt_program *p, int threads, uint32_t depth, const int64_t *size)
{
	const struct ht_exec_limits limits = { .depth = depth };
	uint64_t *work = work_for(p->image);
	struct ht_exec_needs needs;
	size_t bytes = 0;

	if (work && ht_exec_needs_of(p->image, 0, &limits, &needs))
		bytes = bytes_of(&needs, threads) - needs.temps +
			ht_exec_temps_of(p->image, 0, &needs, size, work);
	free(work);
	return bytes;
}

static bool make_memory(struct ht_rt_context *c, char *memory)
{
	struct ht_exec *x = &c->exec;

	if (!ht_exec_needs_of(x->image, x->entry, &x->limits, &x->needs))
		return false;
	c->memory_bytes = bytes_of(&x->needs, c->threads.threads);
	c->work = work_for(x->image);
	if (!memory)
		memory = c->own = memory_of(c->memory_bytes);
	c->memory = memory;
	if (!c->memory || !c->work)
		return false;
	if (!ht_image_count(x->image, HT_IMAGE_PLACES))
		ht_context_enlarge_pages(c);
	ht_exec_lay_out(x, c->memory);
	return true;
}

static bool make(struct ht_rt_context *c, struct ht_rt_pool *pool, char *const *variable,
	char *memory, uint32_t depth)
{
	const struct ht_image *image = c->program->image;

	c->threads = (struct ht_exec_threads){ ht_rt_pool_threads(pool), pool, run_pool, meet };
	c->ns = calloc(ht_image_count(image, HT_IMAGE_STEPS) + 1, sizeof *c->ns);
	c->stream = calloc(ht_image_count(image, HT_IMAGE_RANDOM) + 1, sizeof *c->stream);
	c->lives = HT_POISONS ? ht_lives_new(image) : NULL;
	c->exec = (struct ht_exec){
		.image = image,
		.links = { .kernel = c->program->kernel, .constant = c->program->constant },
		.limits = HT_EXEC_LIMITS_INIT,
		.threads = &c->threads,
	};
	c->has_objects = ht_image_count(image, HT_IMAGE_OBJECTS) > 0;
	c->exec.limits.depth = depth;
	c->exec.links.stream = c->stream;
	c->exec.links.variable = variable;
	if (!variable)
		c->variables = ht_rt_memory((size_t)ht_image_variable_bytes(image));
	c->exec.links.variables = c->variables;
	return c->ns && c->stream && (variable || c->variables) && (!HT_POISONS || c->lives) &&
	       ht_context_derived_new(c) && make_memory(c, memory);
}

struct ht_rt_context *ht_rt_context_new(const struct ht_rt_program *p, struct ht_rt_pool *pool,
	char *const *variable, char *memory, uint32_t depth)
{
	struct ht_rt_context *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->program = p;
	if (!make(c, pool, variable, memory, depth)) {
		ht_rt_context_free(c);
		return NULL;
	}
	ht_exec_begin(&c->exec);
	ht_rt_context_seed(c, 0);
	if (!variable)
		ht_rt_context_reset(c);
	return c;
}

void ht_rt_context_limit(struct ht_rt_context *c, uint64_t iterations, const int32_t *cancel)
{
	c->exec.limits.iterations = iterations;
	c->exec.cancel = cancel;
}

bool ht_rt_context_limits(struct ht_rt_context *c, const uint64_t ns[HT_RT_LIMITS])
{
	bool stamps = ns[HT_RT_KERNEL] || ns[HT_RT_WAIT];

	free(c->stamp);
	memset(c->limit, 0, sizeof c->limit);
	c->limited = false;
	c->stamp = stamps ? aligned_alloc(_Alignof(struct ht_stamp),
				    (size_t)c->threads.threads * sizeof *c->stamp)
			  : NULL;
	if (stamps && !c->stamp)
		return false;
	for (int i = HT_RT_RUN; i < HT_RT_LIMITS; i++)
		c->limit[i] = ns[i] < INT64_MAX / 2 ? ns[i] : INT64_MAX / 2;
	c->limited = stamps || ns[HT_RT_RUN] || ns[HT_RT_SYNC];
	return true;
}

void ht_rt_context_cores(struct ht_rt_context *c, const struct ht_cores *cores)
{
	c->placed = cores;
	if (cores)
		c->cores = *cores;
}

void ht_rt_context_tee(struct ht_rt_context *c, int64_t kernel, ht_rt_tee_fn *fn, void *arg)
{
	c->tee = fn;
	c->tee_arg = arg;
	c->tee_kernel = kernel;
}

void *ht_rt_variable(const struct ht_rt_context *c, uint32_t i)
{
	return c->exec.links.variable ? c->exec.links.variable[i]
				      : c->variables + ht_image_variables(c->exec.image)[i].offset;
}

void ht_rt_context_reset(struct ht_rt_context *c)
{
	const struct ht_image *x = c->exec.image;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_VARIABLES); i++) {
		const struct ht_image_variable *v = &ht_image_variables(x)[i];

		c->version[i]->count++;
		if (v->constant == HT_IMAGE_NO_VALUE && c->program->initial &&
			c->program->initial[i])
			memcpy(ht_rt_variable(c, i), c->program->initial[i], v->bytes);
		else if (v->constant == HT_IMAGE_NO_VALUE)
			memset(ht_rt_variable(c, i), 0, v->bytes);
		else
			memcpy(ht_rt_variable(c, i),
				(const void *)(uintptr_t)c->program->constant[v->constant],
				v->bytes);
	}
	ht_objects_reset(c);
}

/* Scratch memory that the kernels of the image declare. */
static size_t scratch_bytes(const struct ht_image *x)
{
	size_t most = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		if (ht_image_kernels(x)[i].scratch_bytes > most)
			most = ht_image_kernels(x)[i].scratch_bytes;
	return (most + 63) / 64 * 64;
}

bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where)
{
	struct ht_guarded *g =
		ht_guarded_new(c->program, where, c->threads.threads, scratch_bytes(c->exec.image));

	if (!g)
		return false;
	c->guarded = g;
	if (HT_POISONS)
		ht_lives_free(c->lives);
	c->lives = NULL;
	c->exec.scratch = ht_guarded_scratch(g, &c->exec.scratch_stride);
	return true;
}

void ht_rt_context_free(struct ht_rt_context *c)
{
	if (!c)
		return;
	ht_objects_free(c);
	ht_guarded_free(c->guarded);
	if (HT_POISONS)
		ht_lives_free(c->lives);
	ht_trace_free(c->trace);
	ht_counters_free(c->counters);
	free(c->own);
	free(c->work);
	free(c->ns);
	free(c->stream);
	free(c->stamp);
	free(c->variables);
	ht_context_derived_free(c);
	free(c);
}

const void *ht_rt_arena(const struct ht_rt_context *c)
{
	return c->exec.temps;
}

void ht_rt_profile(struct ht_rt_context *c, bool on)
{
	c->profile = on;
}

const int64_t *ht_rt_step_ns(const struct ht_rt_context *c)
{
	return c->profile ? c->ns : NULL;
}

bool ht_rt_record(struct ht_rt_context *c, size_t events)
{
	ht_trace_free(c->trace);
	c->trace = events ? ht_trace_new(c->threads.threads,
				    ht_image_count(c->exec.image, HT_IMAGE_STEPS), events)
			  : NULL;
	return !events || c->trace;
}

bool ht_rt_count(struct ht_rt_context *c, bool on)
{
	ht_counters_free(c->counters);
	c->counters = on ? ht_counters_new(c->threads.threads,
				   ht_image_count(c->exec.image, HT_IMAGE_STEPS), &ht_perf_system)
			 : NULL;
	return !on || c->counters;
}

const struct ht_counters *ht_rt_counters(const struct ht_rt_context *c)
{
	return c->counters;
}

struct ht_trace *ht_rt_recording(struct ht_rt_context *c)
{
	return c->trace;
}

const struct ht_trace *ht_rt_recorded(const struct ht_rt_context *c)
{
	return c->trace;
}

size_t ht_rt_loops(const struct ht_rt_program *p)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(p->image, HT_IMAGE_PROCEDURES); i++)
		n += ht_image_procedures(p->image)[i].loops;
	return n;
}
