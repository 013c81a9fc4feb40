/* The folder kernel_meta: files about the compilation of kernels, which op_debug_level and
 * op_debug_config ask for.  A file is named by op and by a hash of the kernel and the target, so
 * that several programs may share the folder:
 *
 *   OP_HASH.o             the object file, of LLVM
 *   OP_HASH.json          description: nodes, types, buffers, grid, work
 *   OP_HASH.tile          source: the tile program
 *   OP_HASH_loc.json      the source line of each piece of code
 *   OP_HASH_compute.json  the computation: its loops, what they read, reduce and store */
#include "api/api.h"
#include "kernel/eval.h"
#include "kernel/lines.h"

#include <halftone/tool.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct meta {
	const struct ht_policy *policy;
	const struct ht_program *program;
	const struct ht_plan *plan;
	const struct ht_make *how;
	const struct ht_backend *backend;
	const char *folder;
	struct ht_work w;
	struct ht_diags *d;
};

/* A kernel, and the steps that run it. */
struct described {
	const struct ht_kernel *kernel;
	int32_t number;
	const struct ht_plan_step *step; /* the first one */
	struct ht_kernel_debug leaves;   /* the files that any of the steps asks for */
	const char *name;
};

static struct ht_kernel_debug debug_of(
	const struct ht_policy *p, const struct ht_plan *plan, int32_t kernel)
{
	struct ht_kernel_debug all = { 0 };

	for (int32_t i = 0; i < plan->steps; i++) {
		const struct ht_plan_step *s = &plan->step[i];

		if (s->kernel != kernel)
			continue;
		struct ht_kernel_debug one = ht_policy_debug(p, s->node, s->of->type);
		all.leaves |= one.leaves;
		all.lines |= one.lines;
		all.plain |= one.plain;
	}
	return all;
}

const struct ht_code_how *ht_kernel_meta_how(
	const struct ht_policy *p, const struct ht_plan *plan, bool lines, struct ht_arena *a)
{
	struct ht_code_how *how;

	if (!lines && !ht_policy_debugs(p))
		return NULL;
	how = HT_NEW_ARRAY(a, struct ht_code_how, (size_t)plan->kernels);
	for (int32_t i = 0; i < plan->kernels; i++) {
		struct ht_kernel_debug one = { 0 };

		if (ht_policy_debugs(p))
			one = debug_of(p, plan, i);
		how[i] = (struct ht_code_how){ .lines = lines || one.lines, .plain = one.plain };
	}
	return how;
}

/* ---- one kernel ---- */

static struct described describe(struct meta *m, int32_t kernel)
{
	struct ht_arena *a = &m->w.scratch;
	struct described k = { .kernel = m->plan->kernel[kernel],
		.number = kernel,
		.leaves = debug_of(m->policy, m->plan, kernel) };
	struct ht_buf op;
	char key[HT_KEY_NAME];

	for (int32_t i = 0; i < m->plan->steps && !k.step; i++)
		if (m->plan->step[i].kernel == kernel)
			k.step = &m->plan->step[i];
	if (!k.step)
		return k;
	ht_key_name(ht_kernel_key(k.kernel, m->how->target, m->how->code[kernel], a).find, key);
	ht_buf_init(&op, a);
	for (size_t i = 0; i < k.step->of->type.n; i++) {
		const char c = k.step->of->type.p[i];

		ht_putc(&op,
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
				? c
				: '_');
	}
	k.name = ht_str_printf(a, "%.*s_%.16s", HT_STR_ARG(ht_buf_str(&op)), key).p;
	return k;
}

static enum ht_status write(
	struct meta *m, const struct described *k, const char *ending, struct ht_buf *b)
{
	const char *path = ht_str_printf(&m->w.scratch, "%s/%s%s", m->folder, k->name, ending).p;

	return ht_put_bytes(ht_buf_str(b), path, m->d, NULL);
}

static void begin_json(
	struct ht_buf *b, struct ht_arena *a, const char *schema, const struct described *k)
{
	ht_buf_init(b, a);
	ht_printf(b, "{\"schema\": \"halftone.%s/1\"", schema);
	ht_put_member(b, "kernel", ht_str(k->name));
}

static enum ht_status write_object(struct meta *m, const struct described *k)
{
	struct ht_buf b;

	if (k->kernel->library)
		return HT_OK;
	if (!m->backend)
		HT_TRY(ht_backend_load(m->how->backend, m->d, &m->backend));
	ht_buf_init(&b, &m->w.scratch);
	HT_TRY(m->backend->emit(k->kernel, k->name, m->how->target, m->how->code[k->number],
		ht_str_printf(&m->w.scratch, "%s/%s.tile", m->folder, k->name).p, HT_EMIT_OBJ, m->d,
		&b));
	return write(m, k, ".o", &b);
}

static void put_buffers(struct ht_buf *b, const struct ht_kernel *k)
{
	static const char *const kind[] = {
		[HT_BUFFER_IN] = "in", [HT_BUFFER_OUT] = "out", [HT_BUFFER_LOCAL] = "local"
	};

	ht_puts(b, ",\n \"buffers\": [");
	for (int32_t i = 0; i < k->buffers; i++)
		ht_printf(b, "%s{\"kind\": \"%s\", \"dtype\": \"%s\", \"elements\": %lld}",
			i ? ", " : "", kind[k->buffer[i].kind],
			ht_dtype_info(k->buffer[i].dtype)->name, (long long)k->buffer[i].count);
	ht_puts(b, "]");
}

/* Writes the nodes that the kernel computes. */
static void put_nodes(struct ht_buf *b, const struct meta *m, int32_t kernel)
{
	const char *between = "";

	ht_puts(b, ",\n \"nodes\": [");
	for (int32_t i = 0; i < m->plan->steps; i++) {
		if (m->plan->step[i].kernel != kernel)
			continue;
		ht_puts(b, between);
		ht_put_json(b, m->plan->step[i].node);
		between = ", ";
	}
	ht_puts(b, "]");
}

static const struct ht_plan_work *work_of(const struct meta *m, const struct described *k)
{
	size_t n = 0;

	for (const struct ht_plan_step *s = m->plan->step; s < k->step; s++)
		n += s->kernel >= 0;
	return &m->program->work[n];
}

static enum ht_status write_description(struct meta *m, const struct described *k)
{
	const struct ht_plan_work *work = work_of(m, k);
	struct ht_buf b;

	begin_json(&b, &m->w.scratch, "kernel", k);
	ht_put_member(&b, "op", k->step->of->type);
	put_nodes(&b, m, k->number);
	ht_put_member(&b, "result", ht_str(work->result));
	ht_put_member(&b, "dtypes", ht_str(work->dtypes));
	ht_put_member(&b, "method", ht_str(k->kernel->method ? k->kernel->method : ""));
	ht_put_member(&b, "library", ht_str(k->kernel->library ? k->kernel->library : ""));
	ht_put_member(&b, "target", ht_str(m->how->target->name));
	ht_printf(&b, ",\n \"optimized\": %s, \"code_bytes\": %zu, \"scratch_bytes\": %zu",
		m->how->code[k->number].plain ? "false" : "true",
		m->program->kernel_code[k->number].code.n, ht_kernel_scratch(k->kernel));
	ht_printf(&b, ", \"multiply_adds\": %llu, \"bytes\": %llu",
		(unsigned long long)work->multiply_adds, (unsigned long long)work->bytes);
	put_buffers(&b, k->kernel);
	ht_puts(&b, ",\n \"grid\": [");
	for (int i = 0; i < k->kernel->grid_dims; i++)
		ht_printf(&b, "%s%lld", i ? ", " : "", (long long)k->kernel->grid[i]);
	ht_puts(&b, "]}\n");
	return write(m, k, ".json", &b);
}

static enum ht_status write_source(struct meta *m, const struct described *k)
{
	struct ht_buf b;

	ht_buf_init(&b, &m->w.scratch);
	ht_kernel_print(k->kernel, &b);
	return write(m, k, ".tile", &b);
}

static enum ht_status write_locations(struct meta *m, const struct described *k)
{
	struct ht_code_lines l;
	struct ht_buf b;

	if (!ht_code_lines_unpack(m->program->kernel_code[k->number].lines, &l))
		return HT_OK; /* a library kernel */
	begin_json(&b, &m->w.scratch, "locations", k);
	ht_printf(&b, ", \"source\": \"%s.tile\",\n \"locations\": [", k->name);
	for (size_t i = 0; i < l.lines; i++)
		ht_printf(&b, "%s\n  {\"code\": %u, \"line\": %u}", i ? "," : "", l.line[i].at,
			l.line[i].line);
	ht_puts(&b, "\n ]}\n");
	return write(m, k, "_loc.json", &b);
}

/* ---- the computation ---- */

static void put_dims(struct ht_buf *b, const struct ht_stage *s)
{
	ht_puts(b, ", \"dims\": [");
	for (int32_t i = 0; i < s->dims; i++)
		ht_printf(b, "%s{\"extent\": %lld, \"grid\": %d, \"reduces\": %s, \"lanes\": %s}",
			i ? ", " : "", (long long)s->dim[i].extent, s->dim[i].grid,
			s->dim[i].reduce ? "true" : "false", s->vec == i ? "true" : "false");
	ht_puts(b, "]");
}

/* Writes a set of buffers as a list. */
static void put_set(struct ht_buf *b, const char *key, uint64_t set)
{
	const char *between = "";

	ht_printf(b, ", \"%s\": [", key);
	for (int i = 0; i < 64; i++)
		if (set >> i & 1) {
			ht_printf(b, "%s%d", between, i);
			between = ", ";
		}
	ht_puts(b, "]");
}

static void put_operations(struct ht_buf *b, const struct ht_stage *s)
{
	int32_t count[HT_X_END] = { 0 };
	const char *between = "";

	for (int32_t i = 0; i < s->xs; i++)
		count[s->x[i].op]++;
	ht_puts(b, ", \"operations\": {");
	for (int i = 0; i < HT_X_END; i++)
		if (count[i]) {
			ht_printf(
				b, "%s\"%s\": %d", between, ht_xop_name((enum ht_xop)i), count[i]);
			between = ", ";
		}
	ht_puts(b, "}");
}

static void put_stage(struct ht_buf *b, const struct ht_stage *s)
{
	uint64_t reads = 0, writes = 0;

	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_LOAD)
			reads |= (uint64_t)1 << s->x[i].imm;
	for (int32_t i = 0; i < s->stores; i++)
		writes |= (uint64_t)1 << s->store[i].buffer;
	if (s->kind == HT_STAGE_CONTRACT)
		reads |= (uint64_t)1 << s->contract.a_buffer | (uint64_t)1 << s->contract.b_buffer;
	ht_printf(b, "{\"kind\": \"%s\"", s->kind == HT_STAGE_CONTRACT ? "contract" : "loop");
	put_dims(b, s);
	put_set(b, "reads", reads);
	put_set(b, "writes", writes);
	put_operations(b, s);
	ht_printf(b, ", \"reductions\": %d}", (int)s->reds);
}

static enum ht_status write_compute(struct meta *m, const struct described *k)
{
	struct ht_buf b;

	begin_json(&b, &m->w.scratch, "compute", k);
	ht_put_member(&b, "op", k->step->of->type);
	put_nodes(&b, m, k->number);
	put_buffers(&b, k->kernel);
	ht_puts(&b, ",\n \"stages\": [");
	for (int32_t i = 0; i < k->kernel->stages; i++) {
		ht_puts(&b, i ? ",\n  " : "\n  ");
		put_stage(&b, &k->kernel->stage[i]);
	}
	ht_puts(&b, "]}\n");
	return write(m, k, "_compute.json", &b);
}

/* ---- all kernels ---- */

static enum ht_status write_kernel(struct meta *m, int32_t kernel)
{
	static const struct {
		enum ht_leave leave;
		enum ht_status (*write)(struct meta *, const struct described *);
	} file[] = { { HT_LEAVE_OBJECT, write_object }, { HT_LEAVE_OBJECT, write_description },
		{ HT_LEAVE_SOURCE, write_source }, { HT_LEAVE_LOCATIONS, write_locations },
		{ HT_LEAVE_COMPUTE, write_compute } };
	const struct described k = describe(m, kernel);

	for (size_t i = 0; k.step && i < HT_COUNT(file); i++)
		if (k.leaves.leaves & file[i].leave)
			HT_TRY(file[i].write(m, &k));
	return HT_OK;
}

static enum ht_status make_one(struct meta *m, const char *path)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	if (mkdir(path, 0777) && errno != EEXIST)
		return ht_error(
			m->d, HT_E_ENVIRONMENT, at, "cannot make this folder: %s", strerror(errno));
	return HT_OK;
}

/* An absolute path, for debuggers. */
static enum ht_status make_folder(struct meta *m)
{
	const char *in = m->policy->debug_dir ? m->policy->debug_dir : ".";
	const char *path = ht_str_printf(&m->w.arena, "%s/kernel_meta", in).p;
	char *real;

	HT_TRY(make_one(m, in));
	HT_TRY(make_one(m, path));
	real = realpath(path, NULL);
	m->folder = real ? ht_str_copy(&m->w.arena, ht_str(real)).p : path;
	free(real);
	return HT_OK;
}

static enum ht_status write_all(void *arg)
{
	struct meta *m = arg;

	HT_TRY(make_folder(m));
	for (int32_t i = 0; i < m->plan->kernels; i++) {
		HT_TRY(write_kernel(m, i));
		ht_arena_release(&m->w.scratch);
		ht_arena_init(&m->w.scratch, &m->w.unwind);
	}
	return HT_OK;
}

enum ht_status ht_kernel_meta_write(const struct ht_policy *p, const struct ht_program *program,
	const struct ht_plan *plan, const struct ht_make *how, struct ht_diags *d)
{
	struct meta m = { .policy = p, .program = program, .plan = plan, .how = how, .d = d };
	bool any = false;

	if (!ht_policy_debugs(p))
		return HT_OK;
	for (int32_t i = 0; i < plan->kernels && !any; i++)
		any = debug_of(p, plan, i).leaves != 0;
	return any ? ht_work_run(&m.w, write_all, &m, d) : HT_OK;
}
