/* An image without native code is refused, or runs inside the memory that it needs.  Each kernel is
 * replaced by one that touches all bytes that the image declares, to the last one. */
#include "image/execute.h"
#include "image/verify.h"
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { MOST_BYTES = 1 << 16, RUN_US = 2000 };

static const struct ht_image *image;
static uint32_t kernel;                   /* number of the kernel of the current step */
static bool sized;                        /* whether that step gives it the sizes of the run */
static int64_t size[HT_IMAGE_MOST_SIZES]; /* by size of the image, in the current run */
static volatile int32_t cancelled;

/* The bytes of an argument that its kernel reaches at these sizes. */
static uint64_t reached(const struct ht_image_reach *r)
{
	return r->add + (uint64_t)ht_image_evaluate(image, r->sized - 1, size);
}

/* The bytes of an argument that its kernel touches, with the present sizes of the run. */
static uint64_t touched(const struct ht_image_touch *t)
{
	const struct ht_image_reach *r = ht_image_reaches(image) + (t - ht_image_touches(image));
	uint64_t n = t->sized ? (uint64_t)ht_image_evaluate(image, t->sized - 1, size) : t->bytes;

	if (t->written == HT_IMAGE_USES)
		return 1; /* an object: only its first byte exists */
	if (!(image->features & HT_IMAGE_PLACED) || !sized || !r->sized || t->sized)
		return n;
	return n < reached(r) ? n : reached(r);
}

/* Writes integers of 8 bytes, which are small enough for a computed size. */
static void touch_argument(const struct ht_image_touch *t, uint8_t *at)
{
	const uint64_t n = touched(t);
	volatile uint8_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		if (t->written)
			((volatile uint8_t *)at)[i] = i % 8 ? 0 : 3;
		else
			sum = (uint8_t)(sum + at[i]);
}

static int32_t touch(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const struct ht_image_kernel *k = &ht_image_kernels(image)[kernel];
	const struct ht_image_touch *t = ht_image_touches(image) + k->touch;
	volatile uint8_t sum = 0;

	memset(scratch, 7, k->scratch_bytes);
	for (uint32_t i = 0; i < k->params; i++)
		sum = (uint8_t)(sum + params[i]);
	for (uint32_t i = 0; i < k->args; i++)
		touch_argument(&t[i], b[i]);
	return begin > end ? 1 : 0;
}

static void before(void *arg, struct ht_exec_frame *f, uint32_t step)
{
	(void)arg;
	(void)f;
	kernel = ht_image_steps(image)[step].to;
	sized = !ht_image_steps(image)[step].params;
}

static void cancel(int signal)
{
	(void)signal;
	cancelled = 1;
}

static void stop_soon(void)
{
	struct itimerval t = { .it_value = { .tv_usec = RUN_US } };

	cancelled = 0;
	signal(SIGVTALRM, cancel);
	setitimer(ITIMER_VIRTUAL, &t, NULL);
}

/* Each piece of memory is allocated by itself, so that a sanitizer sees its end. */
struct memory {
	void *piece[256];
	size_t pieces, bytes;
};

static void *take(struct memory *m, uint64_t n)
{
	void *p;

	if (m->pieces == 256 || n > MOST_BYTES || m->bytes + n > MOST_BYTES)
		return NULL;
	m->bytes += n;
	p = aligned_alloc(64, (n + 64) / 64 * 64);
	if (p)
		memset(p, 1, (n + 64) / 64 * 64);
	m->piece[m->pieces++] = p;
	return p;
}

static void give_back(struct memory *m)
{
	for (size_t i = 0; i < m->pieces; i++)
		free(m->piece[i]);
	*m = (struct memory){ .pieces = 0 };
}

/* Sets each size to one of its bounds, or between them; computed sizes to their largest value. */
static void choose_sizes(uint32_t how)
{
	for (uint32_t i = 0; i < ht_image_count(image, HT_IMAGE_SIZES); i++) {
		const struct ht_image_size *s = &ht_image_sizes(image)[i];

		size[i] = how % 3 == 1 || s->kind == HT_IMAGE_BY_STEP ? s->most
			  : how % 3 == 0                              ? s->least
					 : s->least + (s->most - s->least) / 2;
	}
	ht_image_derive_all(image, size);
}

static bool take_ports(struct memory *m, const void **in, void **out)
{
	const struct ht_image_entry *e = ht_image_entries(image);
	const struct ht_image_port *p = ht_image_ports(image) + e->port;

	for (uint32_t i = 0; i < e->inputs + e->outputs; i++) {
		void *at = take(m, ht_exec_port_bytes(image, &p[i], size));

		if (!at)
			return false;
		if (i < e->inputs)
			in[i] = p[i].value == HT_IMAGE_NO_VALUE ? at : NULL;
		else
			out[i - e->inputs] = at;
	}
	return true;
}

static bool take_links(struct memory *m, struct ht_exec *x)
{
	uint32_t kernels = ht_image_count(image, HT_IMAGE_KERNELS);
	uint32_t constants = ht_image_count(image, HT_IMAGE_CONSTANTS);
	uint32_t objects = ht_image_count(image, HT_IMAGE_OBJECTS);
	int64_t *kernel_at = take(m, 8 * (uint64_t)kernels),
		*constant_at = take(m, 8 * (uint64_t)constants);
	void **object_at = take(m, 8 * (uint64_t)objects);

	x->links.stream = take(
		m, sizeof(struct ht_philox) * (uint64_t)ht_image_count(image, HT_IMAGE_RANDOM));
	x->links.variables = take(m, ht_image_variable_bytes(image));
	x->links.derived = take(m, ht_image_derived_bytes(image));
	x->links.version = take(m, 8 * (uint64_t)ht_image_versions(image));
	x->links.made = take(m, 8 * (uint64_t)ht_image_count(image, HT_IMAGE_DERIVED_BUFFERS));
	x->links.object = object_at;
	x->links.kernel = kernel_at;
	x->links.constant = constant_at;
	if (!kernel_at || !constant_at || !object_at || !x->links.stream || !x->links.variables ||
		!x->links.derived || !x->links.version || !x->links.made)
		return false;
	for (uint32_t i = 0; i < kernels; i++)
		kernel_at[i] = (int64_t)(uintptr_t)touch;
	for (uint32_t i = 0; i < objects; i++)
		object_at[i] = take(m, 1);
	for (uint32_t i = 0; i < objects; i++)
		if (!object_at[i])
			return false;
	for (uint32_t i = 0; i < constants; i++) {
		constant_at[i] = (int64_t)(uintptr_t)take(m, ht_image_constants(image)[i]);
		if (!constant_at[i])
			return false;
	}
	return true;
}

static void run(struct memory *m, uint32_t how)
{
	static const struct ht_exec_observer look = { .before = before };
	struct ht_exec x = { .image = image,
		.limits = { 8, 1000 },
		.cancel = (const int32_t *)(uintptr_t)&cancelled,
		.observer = &look };
	const void *in[128];
	void *out[128], *memory;
	const struct ht_image_entry *e = ht_image_entries(image);

	if (e->inputs > 100 || e->outputs > 100 || !ht_exec_needs_of(image, 0, &x.limits, &x.needs))
		return;
	choose_sizes(how);
	x.size = size;
	memory = take(m, ht_exec_common_bytes(&x.needs) + ht_exec_thread_bytes(&x.needs));
	if (!memory || !take_ports(m, in, out) || !take_links(m, &x))
		return;
	ht_exec_lay_out(&x, memory);
	ht_exec_begin(&x);
	stop_soon();
	/* Derived buffers are made in the first run, and are fresh in the second. */
	if (ht_exec_run(&x, in, out) && ht_image_count(image, HT_IMAGE_DERIVED_BUFFERS))
		ht_exec_run(&x, in, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct memory m = { .pieces = 0 };
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_buf text;
	void *copy = aligned_alloc(64, bytes / 64 * 64 + 64);

	if (!copy)
		return 0;
	memcpy(copy, data, bytes);
	image = copy;
	if (!ht_image_verify((struct ht_str){ copy, bytes })) {
		ht_arena_init(&arena, &unwind);
		if (!setjmp(unwind.env)) {
			ht_buf_init(&text, &arena);
			ht_image_print(image, &text);
		}
		ht_arena_release(&arena);
		for (uint32_t how = 0; how < (image->features & HT_IMAGE_OPEN ? 3 : 1); how++) {
			run(&m, how);
			give_back(&m);
		}
	}
	free(copy);
	return 0;
}
