/* Names and lines of a program's machine code, for perf and gdb. */
#include "api/api.h"
#include "debug/debug.h"

#include <halftone/tool.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct announcing {
	const struct ht_program *p;
	int to; /* enum ht_announce, combined */
	const char *dir;
	struct ht_debug_function *function; /* by kernel; without code: a library kernel */
	struct ht_work w;
	struct ht_diags *d;
};

/* ---- names ---- */

struct named {
	const char *node, *op;
	size_t others; /* nodes whose kernel has the same code */
};

/* By kernel, the first step that runs it. */
static struct named *names_of(const struct ht_program *p, struct ht_arena *a)
{
	const struct ht_image *x = p->rt.image;
	struct named *name = HT_NEW_ARRAY(a, struct named, ht_image_count(x, HT_IMAGE_KERNELS));
	size_t work = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_STEPS); i++) {
		const struct ht_image_step *s = &ht_image_steps(x)[i];

		if (s->op != HT_IMAGE_KERNEL)
			continue;
		if (name[s->to].node)
			name[s->to].others++;
		else
			name[s->to] = (struct named){ ht_image_text(x, ht_image_notes(x)[i].node),
				work < p->works ? p->work[work].op : "", 0 };
		work++;
	}
	return name;
}

static const char *put_together(const struct named *n, struct ht_arena *a)
{
	const char *op = n->op ? n->op : "", *node = n->node && *n->node ? n->node : "kernel";

	return n->others ? ht_str_printf(a, "%s%s%s+%zu", op, *op ? ":" : "", node, n->others).p
			 : ht_str_printf(a, "%s%s%s", op, *op ? ":" : "", node).p;
}

/* ---- code ---- */

static struct ht_debug_function function_of(
	const struct ht_program *p, size_t kernel, const char *name)
{
	struct ht_debug_function f = { .name = name };
	uint64_t entry;

	if (*ht_program_library(p, kernel))
		return f;
	f.code = ht_program_kernel(p, kernel, &entry);
	f.code.p = (const char *)(uintptr_t)p->rt.kernel[kernel] - entry;
	if (p->kernel_code && p->source.n &&
		ht_code_lines_unpack(p->kernel_code[kernel].lines, &f.lines))
		f.first_line = p->source_line[kernel];
	return f;
}

static int by_address(const void *a, const void *b)
{
	const struct ht_debug_function *x = a, *y = b;

	return (x->code.p > y->code.p) - (x->code.p < y->code.p);
}

static struct ht_debug_code code_of(struct announcing *n)
{
	struct ht_arena *a = &n->w.arena;
	size_t kernels = ht_image_count(n->p->rt.image, HT_IMAGE_KERNELS);
	const struct named *name = names_of(n->p, a);
	struct ht_debug_code c = { 0 };
	struct ht_debug_function *f = HT_NEW_ARRAY(a, struct ht_debug_function, kernels);

	for (size_t i = 0; i < kernels; i++) {
		f[c.n] = function_of(n->p, i, put_together(&name[i], a));
		c.n += f[c.n].code.n != 0;
	}
	qsort(f, c.n, sizeof *f, by_address);
	c.function = f;
	return c;
}

/* ---- the folder ---- */

/* An absolute path, since tools look for the sources from other folders. */
static enum ht_status make_folder(struct announcing *n)
{
	struct ht_where at = HT_NOWHERE;
	char *path;

	at.path = n->dir;
	if (mkdir(n->dir, 0777) && errno != EEXIST)
		return ht_error(
			n->d, HT_E_ENVIRONMENT, at, "cannot make this folder: %s", strerror(errno));
	path = realpath(n->dir, NULL);
	if (!path)
		return ht_error(
			n->d, HT_E_ENVIRONMENT, at, "cannot open this folder: %s", strerror(errno));
	n->dir = ht_str_copy(&n->w.arena, ht_str(path)).p;
	free(path);
	return HT_OK;
}

static enum ht_status write_source(struct announcing *n, struct ht_debug_code *c)
{
	static atomic_int dumped, debugged;
	struct ht_arena *a = &n->w.arena;

	if (!n->p->source.n)
		return HT_OK;
	/* Profiles of several processes are combined, and breakpoints must stay valid from one
	 * run to the next. */
	c->source = n->to & HT_ANNOUNCE_JITDUMP
			    ? ht_str_printf(a, "%s/kernels-%d-%d.tile", n->dir, (int)getpid(),
				      atomic_fetch_add(&dumped, 1))
				      .p
			    : ht_str_printf(a, "%s/kernels-%d.tile", n->dir,
				      atomic_fetch_add(&debugged, 1))
				      .p;
	return ht_file_write(c->source, n->p->source.p, n->p->source.n, n->d);
}

static enum ht_status announce(void *arg)
{
	struct announcing *n = arg;
	struct ht_debug_code c = code_of(n);

	if (n->dir) {
		HT_TRY(make_folder(n));
		HT_TRY(write_source(n, &c));
	}
	if (n->to & HT_ANNOUNCE_JITDUMP)
		HT_TRY(ht_jitdump_add(&c, n->dir, n->d));
	if (n->to & HT_ANNOUNCE_PERF_MAP)
		HT_TRY(ht_perf_map_add(&c, n->d));
	if (n->to & HT_ANNOUNCE_GDB) {
		((struct ht_program *)(uintptr_t)n->p)->when_freed = ht_gdb_remove;
		HT_TRY(ht_gdb_add(&c, n->p, n->d));
	}
	return HT_OK;
}

enum ht_status ht_program_announce(
	const struct ht_program *p, int to, const char *dir, struct ht_diags *d)
{
	const int all = HT_ANNOUNCE_JITDUMP | HT_ANNOUNCE_PERF_MAP | HT_ANNOUNCE_GDB;
	struct announcing n = { .p = p, .to = to, .dir = dir, .d = d };

	if (!to || (to & ~all))
		return ht_error(
			d, HT_E_USAGE, HT_NOWHERE, "%d is no combination of enum ht_announce", to);
	if ((to & HT_ANNOUNCE_JITDUMP) && !dir)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "a jitdump needs a folder");
	return ht_work_run(&n.w, announce, &n, d);
}

/* ---- sources ---- */

void ht_put_kernels(const struct ht_plan *plan, struct ht_buf *b)
{
	for (int32_t i = 0; i < plan->kernels; i++) {
		ht_printf(b, "# kernel_%d\n", (int)i);
		ht_kernel_print(plan->kernel[i], b);
	}
}

void ht_program_keep_source(struct ht_program *p, const struct ht_plan *plan)
{
	uint32_t line = 1;
	struct ht_buf b;

	ht_buf_init(&b, &p->arena);
	ht_put_kernels(plan, &b);
	p->source = ht_buf_str(&b);
	p->source_line = HT_NEW_ARRAY(&p->arena, uint32_t, (size_t)plan->kernels);
	for (int32_t i = 0; i < plan->kernels; i++) {
		p->source_line[i] = line + 1;
		line += 1 + (uint32_t)ht_kernel_lines(plan->kernel[i]);
	}
}
