/* Contexts: the state that runs of a program need. */
#include "api/context.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The seed is below 2^53, so that every reader of JSON reads it exactly. */
bool ht_draw_seed(uint64_t *seed)
{
	ssize_t n;

	do
		n = getrandom(seed, sizeof *seed, 0);
	while (n < 0 && errno == EINTR);
	*seed >>= 11;
	return n == sizeof *seed;
}

uint64_t ht_context_seed(const struct ht_context *c)
{
	return c->seed;
}

void ht_context_set_seed(struct ht_context *c, uint64_t seed)
{
	c->seed = seed;
	ht_rt_context_seed(c->rt, seed);
}

enum ht_status ht_program_run_at_most(struct ht_program *p, int n, struct ht_diags *d)
{
	struct ht_rt_turns *turns = n > 0 ? ht_rt_turns_new(n) : NULL;

	if (n < 0)
		return ht_refuse(d, HT_E_USAGE, "%d contexts that run at once", n);
	if (n && !turns)
		return ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
	ht_rt_turns_free(p->rt.turns);
	p->rt.turns = turns;
	return HT_OK;
}

static bool limit(struct ht_rt_context *c, const struct ht_context_options *opt)
{
	return ht_rt_context_limits(
		c, (const uint64_t[HT_RT_LIMITS]){ [HT_RT_RUN] = opt->timeout_ns,
			   [HT_RT_SYNC] = opt->sync_timeout_ns,
			   [HT_RT_TURN] = opt->turn_timeout_ns,
			   [HT_RT_KERNEL] = opt->kernel_timeout_ns,
			   [HT_RT_WAIT] = opt->wait_timeout_ns });
}

static enum ht_status seed_anew(struct ht_context *c, struct ht_diags *d)
{
	uint64_t seed = 0;

	if (c->program->info.unseeded && !ht_draw_seed(&seed))
		return ht_refuse(d, HT_E_ENVIRONMENT,
			"the system has no random number for a seed: %s", strerror(errno));
	ht_context_set_seed(c, seed);
	return HT_OK;
}

static enum ht_status place_variables(struct ht_context *c, struct ht_diags *d)
{
	size_t n = ht_program_variables(c->program);

	c->variable = n ? ht_sys_alloc(n * sizeof *c->variable) : NULL;
	if (n && !c->variable)
		return ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
	return n ? ht_paged_variables(c->program, &c->pages, c->variable, d) : HT_OK;
}

static struct ht_exec_limits limits_of(const struct ht_context_options *opt)
{
	struct ht_exec_limits l = HT_EXEC_LIMITS_INIT;

	if (opt->max_depth)
		l.depth = (uint32_t)opt->max_depth;
	if (opt->max_iterations)
		l.iterations = opt->max_iterations;
	return l;
}

/* Checks that the memory of the caller, if it gives any, suffices for the depth of calls that it
 * asks for. */
static enum ht_status check_depth(
	const struct ht_program *p, const struct ht_context_options *opt, struct ht_diags *d)
{
	const struct ht_exec_limits l = limits_of(opt);
	int threads = opt->threads ? opt->threads : 1;

	if (opt->max_depth > UINT32_MAX)
		return ht_refuse(d, HT_E_USAGE,
			"ht_context_options: a depth of %llu calls; at most %llu are possible",
			(unsigned long long)opt->max_depth, (unsigned long long)UINT32_MAX);
	if (opt->memory && l.depth > HT_EXEC_DEPTH_INIT &&
		ht_rt_memory_of(&p->rt, threads, l.depth) != ht_program_memory(p, threads))
		return ht_refuse(d, HT_E_USAGE,
			"ht_context_options: memory is for %d calls that recurse, and the depth is %llu",
			(int)HT_EXEC_DEPTH_INIT, (unsigned long long)opt->max_depth);
	return HT_OK;
}

enum ht_status ht_context_new(const struct ht_program *p, const struct ht_context_options *opt,
	struct ht_diags *d, struct ht_context **out)
{
	return ht_context_sharing(p, opt, NULL, NULL, d, out);
}

static bool is_aligned(const void *p)
{
	return p && (uintptr_t)p % HT_IMAGE_ALIGN == 0;
}

/* Checks the memory that the caller gives instead of the context's own. */
static enum ht_status check_given(
	const struct ht_program *p, const struct ht_context_options *opt, struct ht_diags *d)
{
	if (opt->memory && !is_aligned(opt->memory))
		return ht_refuse(d, HT_E_USAGE,
			"ht_context_options: memory is at no multiple of %d", HT_IMAGE_ALIGN);
	for (size_t i = 0; opt->variable && i < ht_program_variables(p); i++)
		if (!is_aligned(opt->variable[i]))
			return ht_refuse(d, HT_E_USAGE,
				"ht_context_options: variable %zu is NULL or at no multiple of %d",
				i, HT_IMAGE_ALIGN);
	return HT_OK;
}

static bool take_given(struct ht_context *c, const struct ht_context_options *opt)
{
	size_t n = ht_program_variables(c->program);

	c->allocate = opt->allocate;
	c->allocate_arg = opt->allocate_arg;
	if (c->allocate)
		c->kept = ht_sys_alloc((ht_program_outputs(c->program) + 1) * sizeof *c->kept);
	if (opt->variable)
		c->variable = ht_sys_alloc((n + 1) * sizeof *c->variable);
	for (size_t i = 0; c->variable && i < n; i++)
		c->variable[i] = opt->variable[i];
	return (!opt->allocate || c->kept) && (!opt->variable || c->variable);
}

size_t ht_program_memory(const struct ht_program *p, int threads)
{
	return ht_rt_memory_of(&p->rt, threads < 1 ? 1 : threads, HT_EXEC_DEPTH_INIT);
}

/* The bytes at the least sizes: no run needs fewer. */
static size_t least_memory(const struct ht_program *p, int threads)
{
	const struct ht_image *x = p->rt.image;
	int64_t size[HT_IMAGE_MOST_SIZES];

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SIZES); i++)
		size[i] = ht_image_sizes(x)[i].kind == HT_IMAGE_BY_STEP
				  ? ht_image_sizes(x)[i].most
				  : ht_image_sizes(x)[i].least;
	return ht_rt_memory_for(&p->rt, threads, HT_EXEC_DEPTH_INIT, size);
}

/* Checks that memory of the caller suffices for any run. */
static enum ht_status check_bytes(
	const struct ht_program *p, const struct ht_context_options *opt, struct ht_diags *d)
{
	size_t least = opt->memory_bytes ? least_memory(p, opt->threads ? opt->threads : 1) : 0;

	if (opt->memory_bytes && !opt->memory)
		return ht_refuse(d, HT_E_USAGE, "ht_context_options: memory_bytes without memory");
	if (opt->memory_bytes < least)
		return ht_refuse(d, HT_E_USAGE,
			"ht_context_options: memory of %zu bytes; runs take %zu or more",
			opt->memory_bytes, least);
	return HT_OK;
}

enum ht_status ht_context_sharing(const struct ht_program *p, const struct ht_context_options *opt,
	struct ht_rt_pool *pool, void *const *object, struct ht_diags *d, struct ht_context **out)
{
	struct ht_context_options all = HT_CONTEXT_OPTIONS_INIT;
	struct ht_rt_fault fault;
	struct ht_context *c;
	struct ht_cores cores;
	enum ht_status st;
	bool own_pages, shared = pool; /* a session's variables are in the session's memory */

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_context_options", &all, sizeof all, d));
	if (all.threads < 0)
		return ht_refuse(d, HT_E_USAGE, "ht_context_options: %d threads", all.threads);
	opt = &all;
	HT_TRY(check_depth(p, opt, d));
	HT_TRY(check_bytes(p, opt, d));
	if (opt->guard && p->probes)
		return ht_refuse(d, HT_E_USAGE,
			"a program compiled with numerics keeps its counts in the arena, which "
			"guarded contexts do not have");
	if (opt->guard && ht_rt_memory_of(&p->rt, 1, 1) != ht_rt_memory_of(&p->rt, 1, 2))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"in a guarded context all calls of a function have the same memory, and "
			"functions of the program call themselves");
	if (!ht_target_runs(p->info.target))
		return ht_refuse(d, HT_E_UNSUPPORTED,
			"the program's code is for %s; this machine runs %s", p->info.target,
			ht_target_host()->name);
	if (!shared)
		HT_TRY(check_given(p, opt, d));
	if (opt->device)
		HT_TRY(ht_device_find(*opt->device, &cores, d));
	c = ht_sys_alloc(sizeof *c);
	if (!c)
		goto failed;
	c->program = p;
	c->keep_subnormals = opt->keep_subnormals != 0;
	c->limits = limits_of(opt);
	c->memory_bytes = opt->memory_bytes;
	c->in = ht_sys_alloc((ht_program_inputs(p) + 1) * sizeof *c->in);
	c->out = ht_sys_alloc((ht_program_outputs(p) + 1) * sizeof *c->out);
	if (!pool)
		pool = c->pool = ht_rt_pool_new_on(
			opt->threads ? opt->threads : 1, opt->device ? &cores : NULL);
	if (!c->in || !c->out || !pool || !take_given(c, opt))
		goto failed;
	own_pages = !c->variable && p->pages.pages != HT_PAGES_USUAL;
	if (own_pages) {
		st = place_variables(c, d);
		if (st != HT_OK) {
			ht_context_free(c);
			return st;
		}
	}
	c->rt = ht_rt_context_new(&p->rt, pool, c->variable, opt->memory, c->limits.depth);
	if (!c->rt)
		goto failed;
	if (!ht_rt_context_objects(c->rt, object, ht_table_bytes(opt), &fault)) {
		ht_context_free(c);
		return ht_object_tell(p, &fault, d);
	}
	if (ht_rt_strings(c->rt)) {
		c->texts = ht_texts_new(p, ht_rt_strings(c->rt));
		if (!c->texts)
			goto failed;
	}
	if (own_pages && c->variable)
		ht_rt_context_reset(c->rt);
	for (size_t i = 0; !shared && opt->variable && i < ht_program_variables(p); i++)
		ht_rt_context_expose(c->rt, (uint32_t)i);
	ht_rt_context_limit(c->rt, c->limits.iterations, opt->cancel);
	ht_rt_context_sizes(c->rt, c->size);
	ht_rt_context_cores(c->rt, opt->device ? &cores : NULL);
	if (!limit(c->rt, opt))
		goto failed;
	if (opt->guard &&
		!ht_rt_context_guard(c->rt,
			opt->guard == HT_GUARD_BEHIND ? HT_RT_GUARD_BEHIND : HT_RT_GUARD_BEFORE))
		goto failed;
	st = seed_anew(c, d);
	if (st == HT_OK)
		*out = c;
	else
		ht_context_free(c);
	return st;
failed:
	ht_context_free(c);
	return ht_refuse(d, HT_E_ENVIRONMENT, "no memory or threads for a context of %zu bytes",
		ht_program_arena(p->rt.image));
}

void ht_context_free(struct ht_context *c)
{
	if (!c)
		return;
	ht_rt_context_free(c->rt);
	ht_rt_pool_free(c->pool);
	ht_seeing_free(c->seeing);
	ht_texts_free(c->texts);
	for (size_t i = 0; c->kept && i < ht_program_outputs(c->program); i++)
		free(c->kept[i].memory);
	free(c->kept);
	ht_page_pool_free(&c->pages);
	free(c->variable);
	free(c->in);
	free(c->out);
	free(c);
}

enum ht_status ht_context_see(struct ht_context *c, void (*fn)(void *arg, const struct ht_seen *t),
	void *arg, struct ht_diags *d)
{
	struct ht_seeing *s = NULL;

	if (fn)
		HT_TRY(ht_seeing_new(c->program, fn, arg, d, &s));
	ht_seeing_join(s, c->rt);
	ht_seeing_free(c->seeing);
	c->seeing = s;
	return HT_OK;
}

void ht_context_tee(struct ht_context *c, ht_rt_tee_fn *fn, void *arg)
{
	ht_rt_context_tee(c->rt, (int64_t)(uintptr_t)ht_library_kernel("tee"), fn, arg);
}

void *ht_context_variable(struct ht_context *c, size_t i)
{
	if (i >= ht_program_variables(c->program))
		return NULL;
	ht_rt_context_expose(c->rt, (uint32_t)i);
	return ht_rt_variable(c->rt, (uint32_t)i);
}

/* `kind` is HT_IMAGE_PARAM or HT_IMAGE_VARIABLE; the program has `count` of them.  `what` is
 * their name in messages. */
static enum ht_status leave_unchanged(struct ht_context *c, enum ht_image_kind kind,
	const char *what, size_t count, size_t i, struct ht_diags *d)
{
	if (i >= count)
		return ht_refuse(
			d, HT_E_USAGE, "the program has %zu %s, not %zu", count, what, i + 1);
	ht_rt_context_unchanged(c->rt, kind, (uint32_t)i);
	return HT_OK;
}

enum ht_status ht_context_input_unchanged(struct ht_context *c, size_t i, struct ht_diags *d)
{
	return leave_unchanged(c, HT_IMAGE_PARAM, "inputs", ht_program_inputs(c->program), i, d);
}

enum ht_status ht_context_variable_unchanged(struct ht_context *c, size_t i, struct ht_diags *d)
{
	return leave_unchanged(
		c, HT_IMAGE_VARIABLE, "variables", ht_program_variables(c->program), i, d);
}

void ht_context_reset(struct ht_context *c)
{
	ht_rt_context_reset(c->rt);
}

void ht_context_profile(struct ht_context *c, int on)
{
	ht_rt_profile(c->rt, on != 0);
}

size_t ht_context_steps(const struct ht_context *c, struct ht_step_time *out, size_t cap)
{
	const int64_t *ns = ht_rt_step_ns(c->rt);
	const struct ht_image *x = c->program->rt.image;
	size_t n = 0;

	for (uint32_t i = 0; ns && i < ht_image_count(x, HT_IMAGE_STEPS); i++) {
		const struct ht_image_note *note = &ht_image_notes(x)[i];

		if (ht_image_steps(x)[i].op != HT_IMAGE_KERNEL)
			continue;
		if (n < cap)
			out[n] = (struct ht_step_time){ ht_image_text(x, note->node), ns[i],
				note->method ? ht_image_text(x, note->method) : NULL };
		n++;
	}
	return n;
}

struct ht_philox *ht_context_streams(struct ht_context *c)
{
	return ht_rt_streams(c->rt);
}

const struct ht_program *ht_context_program(const struct ht_context *c)
{
	return c->program;
}

struct ht_rt_context *ht_context_rt(const struct ht_context *c)
{
	return c->rt;
}

const struct ht_trace *ht_context_recorded(const struct ht_context *c)
{
	return ht_rt_recorded(c->rt);
}

enum ht_status ht_context_record(struct ht_context *c, size_t events, struct ht_diags *d)
{
	if (events > HT_MOST_EVENTS)
		return ht_refuse(d, HT_E_USAGE, "%zu events of a recording; at most %d are kept",
			events, HT_MOST_EVENTS);
	if (!ht_rt_record(c->rt, events))
		return ht_refuse(
			d, HT_E_ENVIRONMENT, "no memory for a recording of %zu events", events);
	return HT_OK;
}

static struct ht_numerics count(const struct ht_probe *p, const uint8_t *rounding)
{
	size_t n[HT_ROUNDINGS] = { 0 };

	for (size_t i = 0; i < p->elements; i++)
		n[rounding[i]]++;
	return (struct ht_numerics){
		.tensor = p->tensor,
		.dtype = p->dtype,
		.elements = p->elements,
		.overflow = n[HT_ROUNDED_OVERFLOW],
		.underflow = n[HT_ROUNDED_UNDERFLOW],
		.subnormal = n[HT_ROUNDED_SUBNORMAL],
		.sentinel = n[HT_ROUNDED_SENTINEL],
		.infinite = n[HT_ROUNDED_INFINITE],
		.nan = n[HT_ROUNDED_NAN],
		.format = p->format,
	};
}

size_t ht_context_numerics(const struct ht_context *c, struct ht_numerics *out, size_t cap)
{
	const struct ht_program *p = c->program;
	const char *arena = ht_rt_arena(c->rt);

	if (!c->ran)
		return 0;
	for (size_t i = 0; i < p->probes && i < cap; i++)
		out[i] = count(
			&p->probe[i], (const uint8_t *)(const void *)(arena + p->probe[i].offset));
	return p->probes;
}
