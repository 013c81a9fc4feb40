/* The recording of a context: per step, and as a timeline. */
#include "api/api.h"
#include "runtime/trace.h"

#include <stdio.h>

/* A context whose recording is shown as a process of the timeline. */
struct traced {
	const char *name; /* or NULL */
	const struct ht_program *program;
	const struct ht_trace *trace;
	struct ht_step_profile *step; /* by step of the image; without `node`: it runs no kernel */
};

struct tracing {
	const struct ht_context *const *context;
	const char *const *name;
	size_t n;
	struct traced *of;
	size_t process; /* of the events being written */
	int64_t origin; /* of the timeline, on the clock of the traces */
	struct ht_bytes *out;
	struct ht_work w;
	struct ht_buf b;
};

/* Threads of the timeline.  Perfetto takes thread 0 of a process for the system's idle thread
 * and does not show it. */
enum { COMPILING = 1, RUNS, FIRST_WORKER };

/* ---- steps ---- */

static struct ht_step_profile step_profile(const struct ht_program *p, const struct ht_trace *t,
	uint32_t step, const struct ht_plan_work *w)
{
	static const struct ht_plan_work unknown = { .op = "", .result = "", .dtypes = "" };
	const struct ht_image *x = p->rt.image;
	const struct ht_image_note *note = &ht_image_notes(x)[step];
	const struct ht_trace_total total = ht_trace_total(t, step);

	w = w ? w : &unknown;
	return (struct ht_step_profile){ .node = ht_image_text(x, note->node),
		.op = w->op,
		.result = w->result,
		.dtypes = w->dtypes,
		.method = note->method ? ht_image_text(x, note->method) : NULL,
		.executions = total.executions,
		.ns = total.ns,
		.multiply_adds = w->multiply_adds,
		.bytes = w->bytes,
		.limit_ps = w->limit_ps };
}

size_t ht_context_step_profiles(const struct ht_context *c, struct ht_step_profile *out, size_t cap)
{
	const struct ht_program *p = ht_context_program(c);
	const struct ht_trace *t = ht_context_recorded(c);
	const struct ht_image *x = p->rt.image;
	size_t n = 0;

	for (uint32_t i = 0; t && i < ht_image_count(x, HT_IMAGE_STEPS); i++) {
		if (ht_image_steps(x)[i].op != HT_IMAGE_KERNEL)
			continue;
		if (n < cap)
			out[n] = step_profile(p, t, i, n < p->works ? &p->work[n] : NULL);
		n++;
	}
	return n;
}

void ht_context_recording(const struct ht_context *c, struct ht_recording *out)
{
	const struct ht_trace *t = ht_context_recorded(c);

	*out = (struct ht_recording){ 0 };
	if (!t)
		return;
	out->runs = t->runs.n;
	out->ns = t->run_ns;
	out->threads = t->workers;
	out->lost = ht_trace_lost(t);
}

/* ---- the timeline ---- */

static void put_us(struct tracing *t, int64_t ns)
{
	ht_put_fixed(&t->b, (double)ns / 1000, 3);
}

/* Writes an event up to its arguments. */
static void begin_event(struct tracing *t, const char *name, const char *category, int thread,
	int64_t begin, int64_t end)
{
	ht_puts(&t->b, ",\n{\"name\": ");
	ht_put_json(&t->b, ht_str(name));
	ht_printf(&t->b,
		", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %zu, \"tid\": %d, \"ts\": ", category,
		t->process + 1, thread);
	put_us(t, begin);
	ht_puts(&t->b, ", \"dur\": ");
	put_us(t, end - begin);
}

static void put_name(struct tracing *t, int thread, const char *name, int number)
{
	ht_printf(&t->b,
		",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %zu, \"tid\": %d, \"args\": {\"name\": \"%s",
		t->process + 1, thread, name);
	if (number >= 0)
		ht_printf(&t->b, " %d", number);
	ht_printf(&t->b,
		"\"}},\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": %zu, \"tid\": %d, \"args\": {\"sort_index\": %d}}",
		t->process + 1, thread, thread);
}

static void put_names(struct tracing *t, const struct traced *x)
{
	ht_printf(&t->b,
		"%s{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %zu, \"args\": {\"name\": ",
		t->process ? ",\n" : "", t->process + 1);
	ht_put_json(&t->b, ht_str(x->name ? x->name : "halftone"));
	ht_puts(&t->b, "}}");
	put_name(t, COMPILING, "compilation", -1);
	put_name(t, RUNS, "runs", -1);
	for (int i = 0; i < x->trace->workers; i++)
		put_name(t, FIRST_WORKER + i, "thread", i);
}

static int64_t phases_ns(const struct traced *x)
{
	const struct ht_program_info *info = &x->program->info;
	int64_t sum = 0;

	for (size_t i = 0; i < info->phases; i++)
		sum += info->phase[i].ns;
	return sum;
}

/* Writes the phases, one after the other, from `at` on. */
static void put_phases(struct tracing *t, const struct traced *x, int64_t at)
{
	const struct ht_program_info *info = &x->program->info;

	for (size_t i = 0; i < info->phases; i++) {
		begin_event(t, info->phase[i].name, "compilation", COMPILING, at,
			at + info->phase[i].ns);
		ht_puts(&t->b, "}");
		at += info->phase[i].ns;
	}
}

static void put_runs(struct tracing *t, const struct traced *x)
{
	const struct ht_trace_ring *r = &x->trace->runs;
	char name[32];

	for (uint64_t i = 0; i < ht_trace_kept(r); i++) {
		const struct ht_trace_event *e = ht_trace_event(r, i);

		snprintf(name, sizeof name, "run %llu", (unsigned long long)e->of);
		begin_event(t, name, "run", RUNS, e->begin - t->origin, e->end - t->origin);
		ht_puts(&t->b, "}");
	}
}

static void put_kernel(
	struct tracing *t, const struct traced *x, int worker, const struct ht_trace_event *e)
{
	const struct ht_step_profile *s = &x->step[e->of];

	begin_event(t, s->node, "kernel", FIRST_WORKER + worker, e->begin - t->origin,
		e->end - t->origin);
	ht_printf(&t->b, ", \"args\": {\"step\": %llu", (unsigned long long)e->of);
	ht_put_member(&t->b, "op", ht_str(s->op));
	ht_put_member(&t->b, "result", ht_str(s->result));
	ht_put_member(&t->b, "dtypes", ht_str(s->dtypes));
	if (s->method)
		ht_put_member(&t->b, "method", ht_str(s->method));
	ht_printf(&t->b, ", \"multiply_adds\": %llu, \"bytes\": %llu, \"limit_us\": ",
		(unsigned long long)s->multiply_adds, (unsigned long long)s->bytes);
	ht_put_fixed(&t->b, (double)s->limit_ps / 1e6, 3);
	if (x->trace->workers == 1 && e->end > e->begin) {
		ht_puts(&t->b, ", \"of_limit\": ");
		ht_put_fixed(&t->b, (double)s->limit_ps / 1e3 / (double)(e->end - e->begin), 4);
	}
	ht_puts(&t->b, "}}");
}

static void put_kernels(struct tracing *t, const struct traced *x)
{
	for (int i = 0; i < x->trace->workers; i++) {
		const struct ht_trace_ring *r = &x->trace->kernels[i];

		for (uint64_t k = 0; k < ht_trace_kept(r); k++)
			put_kernel(t, x, i, ht_trace_event(r, k));
	}
}

/* Writes the time that each run takes after its last kernel, if there is one thread: its kernels
 * follow each other without gaps. */
static void put_executor(struct tracing *t, const struct traced *x)
{
	const struct ht_trace_ring *runs = &x->trace->runs, *kernels = &x->trace->kernels[0];
	uint64_t k = 0;

	for (uint64_t i = 0; x->trace->workers == 1 && i < ht_trace_kept(runs); i++) {
		const struct ht_trace_event *run = ht_trace_event(runs, i);
		int64_t from = run->begin;

		for (; k < ht_trace_kept(kernels) && ht_trace_event(kernels, k)->end <= run->end;
			k++)
			if (ht_trace_event(kernels, k)->begin >= run->begin)
				from = ht_trace_event(kernels, k)->end;
		if (kernels->n > kernels->cap && from == run->begin)
			continue; /* its kernels were overwritten */
		begin_event(t, "executor", "executor", FIRST_WORKER, from - t->origin,
			run->end - t->origin);
		ht_puts(&t->b, "}");
	}
}

/* Writes a part of iteration `i`. */
static void put_part(
	struct tracing *t, int thread, const char *name, uint64_t i, int64_t begin, int64_t end)
{
	char text[64];

	snprintf(text, sizeof text, "%s %llu", name, (unsigned long long)i);
	begin_event(t, text, "iteration", thread, begin - t->origin, end - t->origin);
	ht_puts(&t->b, "}");
}

/* Writes each iteration around its parts, in the vendor's terms. */
static void put_iterations(struct tracing *t, const struct traced *x)
{
	const struct ht_trace *r = x->trace;
	const int thread = FIRST_WORKER + r->workers;

	if (!r->point)
		return;
	put_name(t, thread, "iterations", -1);
	for (uint64_t i = 0; i < ht_trace_iterations_kept(r); i++) {
		const struct ht_trace_iteration *e = ht_trace_iteration(r, i);

		put_part(
			t, thread, "Iteration", e->run, e->before ? e->before : e->forward, e->end);
		if (e->before)
			put_part(t, thread, "Data_aug Bound", e->run, e->before, e->forward);
		put_part(t, thread, "FP_BP Time", e->run, e->forward, e->backward);
		put_part(t, thread, "Iteration Refresh", e->run, e->backward, e->end);
	}
}

/* Fills the entries of steps that ran. */
static void fill_steps(struct tracing *t, struct traced *x)
{
	const struct ht_image *image = x->program->rt.image;
	uint32_t steps = ht_image_count(image, HT_IMAGE_STEPS);
	size_t n = 0;

	x->step = HT_NEW_ARRAY(&t->w.arena, struct ht_step_profile, steps);
	for (uint32_t i = 0; i < steps; i++)
		if (ht_image_steps(image)[i].op == HT_IMAGE_KERNEL) {
			x->step[i] = step_profile(x->program, x->trace, i,
				n < x->program->works ? &x->program->work[n] : NULL);
			n++;
		}
}

/* The time of the earliest event in the recording: compilations are shown before it. */
static int64_t first_of(const struct ht_trace *t)
{
	int64_t first = INT64_MAX;

	for (int i = -1; i < t->workers; i++) {
		const struct ht_trace_ring *r = i < 0 ? &t->runs : &t->kernels[i];

		if (r->n && ht_trace_event(r, 0)->begin < first)
			first = ht_trace_event(r, 0)->begin;
	}
	if (t->iterations.n && ht_trace_iteration(t, 0)->before &&
		ht_trace_iteration(t, 0)->before < first)
		first = ht_trace_iteration(t, 0)->before;
	return first;
}

static void open_all(struct tracing *t)
{
	int64_t first = INT64_MAX, phases = 0;

	t->of = HT_NEW_ARRAY(&t->w.arena, struct traced, t->n);
	for (size_t i = 0; i < t->n; i++) {
		struct traced *x = &t->of[i];
		int64_t own;

		*x = (struct traced){ .name = t->name ? t->name[i] : NULL,
			.program = ht_context_program(t->context[i]),
			.trace = ht_context_recorded(t->context[i]) };
		fill_steps(t, x);
		own = first_of(x->trace);
		first = own < first ? own : first;
		phases += phases_ns(x);
	}
	t->origin = (first == INT64_MAX ? 0 : first) - phases;
}

static void put_about(struct tracing *t)
{
	unsigned long long runs = 0, lost = 0;
	int threads = 0;

	ht_puts(&t->b,
		"{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"schema\": \"halftone.trace/1\"");
	ht_put_member(&t->b, "target", ht_str(t->of[0].program->info.target));
	ht_puts(&t->b, ", \"policy\": \"");
	for (size_t i = 0; i < t->n; i++) {
		const struct traced *x = &t->of[i];

		ht_printf(&t->b, "%s%s", i ? ", " : "", x->program->info.policy);
		runs += x->trace->runs.n;
		lost += ht_trace_lost(x->trace);
		threads = x->trace->workers > threads ? x->trace->workers : threads;
	}
	ht_printf(&t->b, "\", \"threads\": %d, \"runs\": %llu, \"kernels_lost\": %llu},\n", threads,
		runs, lost);
}

static enum ht_status put_trace(void *arg)
{
	struct tracing *t = arg;
	int64_t compiled = 0;

	ht_buf_init(&t->b, &t->w.arena);
	open_all(t);
	put_about(t);
	ht_puts(&t->b, "\"traceEvents\": [\n");
	for (t->process = 0; t->process < t->n; t->process++) {
		const struct traced *x = &t->of[t->process];

		put_names(t, x);
		put_phases(t, x, compiled);
		compiled += phases_ns(x);
		put_runs(t, x);
		put_kernels(t, x);
		put_executor(t, x);
		put_iterations(t, x);
	}
	ht_puts(&t->b, "\n]}\n");
	return ht_bytes_of(ht_buf_str(&t->b), t->out);
}

enum ht_status ht_contexts_trace(const struct ht_context *const *c, const char *const *name,
	size_t n, struct ht_diags *d, struct ht_bytes *out)
{
	struct tracing t = { .context = c, .name = name, .n = n, .out = out };

	*out = (struct ht_bytes){ 0 };
	if (!n)
		return ht_refuse(d, HT_E_USAGE, "there are no contexts to show");
	for (size_t i = 0; i < n; i++)
		if (!ht_context_recorded(c[i]))
			return ht_refuse(d, HT_E_USAGE,
				"nothing was recorded: ht_context_record() comes before the runs");
	return ht_work_run(&t.w, put_trace, &t, d);
}

enum ht_status ht_context_trace(
	const struct ht_context *c, struct ht_diags *d, struct ht_bytes *out)
{
	return ht_contexts_trace(&c, NULL, 1, d, out);
}
