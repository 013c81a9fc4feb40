/* The backend's interface: compiles many kernels on several threads into one block of read-execute memory. */
#include "backend/machine.h"
#include "backend/emit.h"

#include <halftone-ids.h>
#include <llvm-c/Core.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ht_code {
	void *p;
	size_t n, mapped;
	ht_kernel_fn **entry;
	struct place *place; /* of each kernel */
	char *lines;         /* of all kernels */
};

/* One thread's share; the first thread is the caller's. */
struct worker {
	struct job *job;
	struct ht_unwind unwind;
	struct ht_arena arena; /* the image */
	struct ht_buf image, lines;
	enum ht_status status;
	struct ht_str wrong;
	size_t at, lines_at; /* of the image in the code, and of its lines */
};

struct job {
	const struct ht_kernel *const *kernel;
	int32_t n;
	const struct ht_target *target;
	const struct ht_code_how *how; /* by kernel */
	const struct ht_watch *watch;
	atomic_int next, done;
	atomic_bool stop;
	struct place *place; /* of each kernel */
	struct turn *order;  /* the order in which they are compiled */
};

struct turn {
	int32_t kernel;
	int64_t work; /* estimated time */
};

/* The offsets of a kernel's code: first within its worker's image, later within the whole code. */
struct place {
	int worker;
	size_t begin, end, entry;
	size_t lines, lines_end; /* likewise within the lines */
};

#define SYMBOL "kernel"
enum { LINES_ALIGN = 8 };

static const char *keep_lines(struct worker *w, struct ht_object o, struct place *at)
{
	struct ht_code_lines lines;
	const char *wrong = ht_object_lines(o, at->entry - at->begin, w->image.arena, &lines);

	if (wrong)
		return wrong;
	while (w->lines.n % LINES_ALIGN)
		ht_putc(&w->lines, 0);
	at->lines = w->lines.n;
	ht_code_lines_pack(&lines, &w->lines);
	at->lines_end = w->lines.n;
	return NULL;
}

/* Compiles kernel i and appends its code to the worker's image; NULL, or the error. */
static const char *object_code(struct worker *w, struct ht_machine *m, int32_t i,
	struct ht_arena *scratch, struct place *at)
{
	const char *wrong;
	struct ht_buf b;
	struct ht_object o;

	ht_buf_init(&b, scratch);
	if (!ht_machine_compile(m, w->job->kernel[i], (struct ht_machine_names){ SYMBOL, SYMBOL },
		    HT_EMIT_OBJ, scratch, &b))
		return m->wrong.p;
	o.p = (const uint8_t *)b.p;
	o.n = b.n;
	while (w->image.n % 64)
		ht_putc(&w->image, 0);
	at->begin = w->image.n;
	wrong = ht_object_link(o, SYMBOL, &w->image, &at->entry);
	at->end = w->image.n;
	return wrong || !w->job->how[i].lines ? wrong : keep_lines(w, o, at);
}

static enum ht_status compile_one(
	struct worker *w, struct ht_machine *m, int32_t i, struct place *at)
{
	struct ht_unwind unwind;
	struct ht_arena scratch;
	const char *wrong;

	ht_arena_init(&scratch, &unwind);
	if (setjmp(unwind.env)) {
		ht_arena_release(&scratch);
		w->wrong = HT_STR("out of memory");
		return HT_E_ENVIRONMENT;
	}
	wrong = object_code(w, m, i, &scratch, at);
	if (wrong)
		w->wrong = ht_str_copy(&w->arena, ht_str(wrong));
	ht_arena_release(&scratch);
	return wrong ? HT_E_INTERNAL : HT_OK;
}

static void after_one(struct worker *w, int number)
{
	struct job *j = w->job;
	int done = atomic_fetch_add(&j->done, 1) + 1;

	if (number == 0)
		ht_watch_tell(j->watch, "code", (size_t)done, (size_t)j->n);
	if (w->status == HT_OK && done < j->n && ht_watch_cancelled(j->watch)) {
		w->status = HT_E_LIMIT;
		w->wrong = HT_STR("the compilation was cancelled");
	}
	if (w->status != HT_OK)
		atomic_store(&j->stop, true);
}

/* One of two machines, with these options; NULL: w->wrong says why there is none. */
static struct ht_machine *machine_for(
	struct worker *w, struct ht_machine m[2], struct ht_code_how how)
{
	struct ht_machine *one = &m[how.plain];

	if (!one->tm && !ht_machine_init(one, w->job->target, how)) {
		w->wrong = ht_str_copy(&w->arena, one->wrong);
		return NULL;
	}
	one->how = how;
	return one;
}

static void work_through(struct worker *w, int number)
{
	struct job *j = w->job;
	struct ht_machine m[2] = { 0 }, *one;
	int32_t turn;

	w->status = HT_OK;
	while (!atomic_load(&j->stop) && (turn = atomic_fetch_add(&j->next, 1)) < j->n) {
		int32_t i = j->order[turn].kernel;

		if (j->kernel[i]->library)
			continue;
		j->place[i].worker = number;
		one = machine_for(w, m, j->how[i]);
		w->status = one ? compile_one(w, one, i, &j->place[i]) : HT_E_INTERNAL;
		after_one(w, number);
	}
	for (int i = 0; i < 2; i++)
		ht_machine_release(&m[i]);
}

static void start_worker(void *arg, int number)
{
	struct worker *w = (struct worker *)arg + number;

	if (setjmp(w->unwind.env)) {
		w->wrong = HT_STR("out of memory");
		w->status = HT_E_ENVIRONMENT;
		atomic_store(&w->job->stop, true);
		return;
	}
	ht_buf_init(&w->image, &w->arena);
	ht_buf_init(&w->lines, &w->arena);
	work_through(w, number);
}

/* The most work first; equal amounts by number. */
static int by_work(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->work != y->work)
		return (x->work < y->work) - (x->work > y->work);
	return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

static int64_t work_of(const struct ht_kernel *k)
{
	int64_t work = 0;

	for (int32_t i = 0; i < k->stages; i++)
		work += k->stage[i].xs;
	return work;
}

/* The kernels with the most work first, so that threads end at about the same time; NULL: out of
 * memory. */
static struct turn *in_order(const struct ht_kernel *const *kernel, int32_t n)
{
	struct turn *t = calloc((size_t)n + 1, sizeof *t);

	for (int32_t i = 0; t && i < n; i++)
		t[i] = (struct turn){ i, work_of(kernel[i]) };
	if (t)
		qsort(t, (size_t)n, sizeof *t, by_work);
	return t;
}

/* Joins the workers' images in new memory, which is never writable and executable at the same
 * time. */
static struct ht_code *join(struct worker *w, int workers)
{
	struct ht_code *c = calloc(1, sizeof *c);
	size_t n = 0;

	if (!c)
		return NULL;
	for (int i = 0; i < workers; i++) {
		w[i].at = n;
		n += (w[i].image.n + 63) / 64 * 64;
	}
	c->n = n;
	c->mapped = n + 4096;
	c->p = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->p == MAP_FAILED) {
		free(c);
		return NULL;
	}
	for (int i = 0; i < workers; i++)
		if (w[i].image.n)
			memcpy((char *)c->p + w[i].at, w[i].image.p, w[i].image.n);
	if (mprotect(c->p, c->mapped, PROT_READ | PROT_EXEC) != 0) {
		munmap(c->p, c->mapped);
		free(c);
		return NULL;
	}
	return c;
}

static void free_code(struct ht_code *c)
{
	if (!c)
		return;
	munmap(c->p, c->mapped);
	free(c->entry);
	free(c->place);
	free(c->lines);
	free(c);
}

/* Joins the workers' lines; false: out of memory. */
static bool join_lines(struct ht_code *c, struct worker *w, int workers)
{
	size_t n = 0;

	for (int i = 0; i < workers; i++) {
		w[i].lines_at = n;
		n += (w[i].lines.n + LINES_ALIGN - 1) / LINES_ALIGN * LINES_ALIGN;
	}
	c->lines = malloc(n + 1);
	for (int i = 0; c->lines && i < workers; i++)
		if (w[i].lines.n)
			memcpy(c->lines + w[i].lines_at, w[i].lines.p, w[i].lines.n);
	return c->lines;
}

static struct ht_code *collect(const struct job *j, struct worker *w, int workers)
{
	struct ht_code *c = join(w, workers);

	if (!c)
		return NULL;
	c->entry = calloc((size_t)j->n + 1, sizeof *c->entry);
	c->place = calloc((size_t)j->n + 1, sizeof *c->place);
	if (!c->entry || !c->place || !join_lines(c, w, workers)) {
		free_code(c);
		return NULL;
	}
	for (int32_t i = 0; i < j->n; i++) {
		const struct place *from = &j->place[i];
		size_t image = w[from->worker].at, lines = w[from->worker].lines_at;
		void *p = (char *)c->p + image + from->entry;

		if (j->kernel[i]->library)
			continue;
		memcpy(&c->entry[i], &p, sizeof p);
		c->place[i] = (struct place){ from->worker, image + from->begin, image + from->end,
			image + from->entry, lines + from->lines, lines + from->lines_end };
	}
	return c;
}

static enum ht_status compile(const struct ht_kernel *const *kernel, int32_t n,
	const struct ht_target *target, const struct ht_code_how *how, int threads,
	const struct ht_watch *watch, struct ht_diags *d, struct ht_code **out,
	ht_kernel_fn ***entry)
{
	struct job j = { .kernel = kernel, .n = n, .target = target, .how = how, .watch = watch };
	struct worker *w;
	enum ht_status st = HT_OK;

	*out = NULL;
	*entry = NULL;
	threads = ht_thread_limit(threads, n);
	j.place = calloc((size_t)n + 1, sizeof *j.place);
	j.order = in_order(kernel, n);
	w = calloc((size_t)threads, sizeof *w);
	if (!j.place || !j.order || !w) {
		st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory for code");
		threads = 0;
	}
	for (int i = 0; i < threads; i++) {
		w[i].job = &j;
		ht_arena_init(&w[i].arena, &w[i].unwind);
	}
	if (st == HT_OK)
		ht_on_threads(threads, start_worker, w);
	for (int i = 0; i < threads && st == HT_OK; i++) {
		st = w[i].status;
		if (st == HT_E_LIMIT)
			ht_error(d, st, HT_NOWHERE, "%.*s", HT_STR_ARG(w[i].wrong));
		else if (st != HT_OK)
			ht_error(d, st, HT_NOWHERE, "cannot generate code for %s: %.*s",
				target->name, HT_STR_ARG(w[i].wrong));
	}
	if (st == HT_OK) {
		*out = collect(&j, w, threads);
		if (*out)
			*entry = (*out)->entry;
		else
			st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for code");
	}
	for (int i = 0; i < threads; i++)
		ht_arena_release(&w[i].arena);
	free(w);
	free(j.order);
	free(j.place);
	return st;
}

static struct ht_str kernel_code(const struct ht_code *c, int32_t i, size_t *entry)
{
	const struct place *at = &c->place[i];

	*entry = at->entry - at->begin;
	return (struct ht_str){ (const char *)c->p + at->begin, at->end - at->begin };
}

static struct ht_str kernel_lines(const struct ht_code *c, int32_t i)
{
	const struct place *at = &c->place[i];

	return (struct ht_str){ c->lines + at->lines, at->lines_end - at->lines };
}

static enum ht_status emit(const struct ht_kernel *kernel, const char *symbol,
	const struct ht_target *target, struct ht_code_how how, const char *source,
	enum ht_emit form, struct ht_diags *d, struct ht_buf *out)
{
	struct ht_unwind unwind;
	struct ht_arena scratch;
	struct ht_machine m;
	volatile bool ok = false;

	if (kernel->library)
		return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE,
			"'%s' is a library kernel, which has no generated code", kernel->library);
	if (!ht_machine_init(&m, target, how))
		return ht_error(d, HT_E_INTERNAL, HT_NOWHERE, "%.*s", HT_STR_ARG(m.wrong));
	ht_arena_init(&scratch, &unwind);
	if (setjmp(unwind.env)) {
		ht_arena_release(&scratch);
		ht_machine_release(&m);
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory for code");
	}
	ok = ht_machine_compile(
		&m, kernel, (struct ht_machine_names){ symbol, source }, form, &scratch, out);
	ht_arena_release(&scratch);
	ht_machine_release(&m);
	if (!ok)
		return ht_error(d, HT_E_INTERNAL, HT_NOWHERE, "cannot generate code for %s: %.*s",
			target->name, HT_STR_ARG(m.wrong));
	return HT_OK;
}

static const char *llvm_version(void)
{
	static char text[32];
	unsigned major, minor, patch;

	LLVMGetVersion(&major, &minor, &patch);
	snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
	return text;
}

static const char *id(void)
{
	static char text[96];

	snprintf(text, sizeof text, HT_CODE_ID " LLVM %s", llvm_version());
	return text;
}

__attribute__((visibility("default"))) extern const struct ht_backend ht_backend;
const struct ht_backend ht_backend = {
	.abi = HT_BACKEND_ABI,
	.compile = compile,
	.free = free_code,
	.kernel_code = kernel_code,
	.kernel_lines = kernel_lines,
	.emit = emit,
	.llvm_version = llvm_version,
	.id = id,
};
