/* Stages of the compilation as text: graphs, tile programs, LLVM IR, assembly.  Also object
 * files. */
#include "api/api.h"
#include "image/build.h"
#include "image/verify.h"

#include <string.h>

struct emit {
	const struct ht_model *m;
	struct ht_compile_options opt;
	const char *form, *pipeline, *stop_after, *path;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_buf buf;
};

static enum ht_status put_graph(struct emit *e, const struct ht_graph *g)
{
	return ht_put_text(g, e->path, &e->w->arena, e->d, e->out);
}

static enum ht_status write_by(
	enum ht_status (*body)(void *emit), struct emit *e, const struct ht_compile_options *opt)
{
	struct ht_work w;

	e->w = &w;
	*e->out = (struct ht_bytes){ 0 };
	HT_TRY(ht_compile_options_of(opt, e->d, &e->opt));
	return ht_work_run(&w, body, e, e->d);
}

/* ---- passes on an unchanged graph ---- */

static enum ht_status rewrite(void *arg)
{
	struct emit *e = arg;
	struct ht_policy *policy = (struct ht_policy *)e->opt.policy;
	struct ht_precision_request precision = {
		.decider = { ht_precision_decide }, .policy = policy, .imported = e->m->graph
	};
	struct ht_fusions fusions;
	struct ht_pass_context c = {
		.scratch = &e->w->scratch,
		.diags = e->d,
		.decider = e->opt.policy ? &precision.decider : NULL,
		.fusions = &fusions,
		.variables = ht_variables_of(e->m, e->w),
		.verify = true,
	};
	struct ht_graph *g;

	HT_TRY(ht_target_of(&e->opt, e->m->cache, &e->w->arena, e->d, &c.target));
	ht_policy_fusions(policy, &fusions, &e->w->arena);
	if (policy)
		HT_TRY(ht_dump_graphs(policy, e->w, &c));
	if (e->stop_after && ht_pass_named(ht_str(e->stop_after)) &&
		!ht_pipeline_names(e->pipeline, e->stop_after))
		return ht_error(e->d, HT_E_USAGE, HT_NOWHERE,
			"pass '%s', to stop behind, is not among the passes", e->stop_after);
	HT_TRY(ht_model_check(e->m, e->w, e->d));
	if (e->m->set)
		HT_TRY(ht_model_copy_whole(e->m, e->w, HT_OPEN_KEEP, e->d, &g));
	else
		g = ht_graph_clone(e->m->graph, &e->w->arena);
	c.entry = g->entries;
	HT_TRY(ht_run_passes(g, e->pipeline, e->stop_after, &c));
	return put_graph(e, g);
}

enum ht_status ht_rewrite(const struct ht_model *m, const char *pipeline, const char *stop_after,
	const struct ht_compile_options *opt, const char *path, struct ht_diags *d,
	struct ht_bytes *out)
{
	struct emit e = { .m = m,
		.pipeline = pipeline,
		.stop_after = stop_after,
		.path = path,
		.d = d,
		.out = out };

	return write_by(rewrite, &e, opt);
}

/* ---- code ---- */

/* A member of a Unix archive. */
static void put_member(struct ht_buf *b, const char *name, struct ht_str data)
{
	ht_printf(b, "%-16s%-12d%-6d%-6d%-8s%-10zu`\n", name, 0, 0, 0, "100644", data.n);
	ht_put_str(b, data);
	if (data.n % 2)
		ht_putc(b, '\n');
}

static enum ht_status put_code(struct emit *e, const struct ht_backend *backend,
	const struct ht_plan *plan, const struct ht_target *target, enum ht_emit form)
{
	if (form == HT_EMIT_OBJ)
		ht_puts(&e->buf, "!<arch>\n");
	for (int32_t i = 0; i < plan->kernels; i++) {
		char symbol[32], member[32];
		struct ht_buf code;
		ht_buf_init(&code, &e->w->arena);
		snprintf(symbol, sizeof symbol, "kernel_%d", (int)i);
		snprintf(member, sizeof member, "k%d.o/", (int)i);
		HT_TRY(backend->emit(plan->kernel[i], symbol, target, (struct ht_code_how){ 0 },
			NULL, form, e->d, &code));
		if (form == HT_EMIT_OBJ)
			put_member(&e->buf, member, ht_buf_str(&code));
		else
			ht_put_str(&e->buf, ht_buf_str(&code));
	}
	return HT_OK;
}

static size_t describe(const struct ht_plan *plan, enum ht_plan_kind kind,
	const struct ht_port *port, struct ht_image_port_text *to)
{
	const struct ht_plan_procedure *p = ht_plan_entry(plan);
	size_t n = 0;

	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++) {
		const struct ht_plan_buffer *b = &plan->buffer[i];

		if (b->kind != kind)
			continue;
		to[n++] = (struct ht_image_port_text){ .name = port ? port->name : b->name,
			.dtype = b->strings ? HT_STRING : b->dtype,
			.shape = b->shape,
			.bytes = b->bytes * (b->whole ? 1 : (size_t)plan->parts) };
		port = port ? port->next : NULL;
	}
	return n;
}

static void put_image(struct emit *e, const struct ht_plan *plan, const struct ht_graph *g)
{
	struct ht_arena *a = &e->w->arena;
	size_t most = (size_t)plan->buffers;
	struct ht_image_port_text *in = HT_NEW_ARRAY(a, struct ht_image_port_text, most),
				  *out = HT_NEW_ARRAY(a, struct ht_image_port_text, most);
	size_t ins = describe(plan, HT_PLAN_INPUT, NULL, in);
	size_t outs = describe(plan, HT_PLAN_OUTPUT, g->entries->outputs, out);
	struct ht_str image = ht_plan_write_image(plan, in, ins, out, outs, a);

	ht_image_print((const void *)image.p, &e->buf);
}

static enum ht_status emit(void *arg)
{
	static const char *const forms[] = {
		[HT_EMIT_LLVM] = "llvm", [HT_EMIT_ASM] = "asm", [HT_EMIT_OBJ] = "obj"
	};
	struct emit *e = arg;
	const struct ht_backend *backend;
	struct ht_lowering l;
	struct ht_plan *plan;
	size_t form = 0;
	bool graph = !strcmp(e->form, "hir"), kernels = !strcmp(e->form, "kernels"),
	     image = !strcmp(e->form, "plan");

	while (form < HT_COUNT(forms) && strcmp(forms[form], e->form))
		form++;
	if (form == HT_COUNT(forms) && !graph && !kernels && !image)
		return ht_error(e->d, HT_E_USAGE, HT_NOWHERE,
			"cannot emit '%s'; there are hir, kernels, plan, llvm, asm, obj", e->form);
	if (e->stop_after && !graph)
		return ht_error(e->d, HT_E_USAGE, HT_NOWHERE,
			"stopping behind a pass leaves no code, only hir");
	HT_TRY(ht_lowering_run(
		e->m, &e->opt, HT_OPEN_STAY, HT_UPTO_LAYOUT, e->stop_after, e->w, e->d, &l));
	if (graph)
		return put_graph(e, l.graph);
	HT_TRY(ht_lower(l.graph, &l.lower, &e->w->arena, &plan));
	ht_buf_init(&e->buf, &e->w->arena);
	if (kernels) {
		ht_put_kernels(plan, &e->buf);
	} else if (image) {
		put_image(e, plan, l.graph);
	} else {
		HT_TRY(ht_backend_load(e->opt.backend, e->d, &backend));
		HT_TRY(put_code(e, backend, plan, l.passes.target, (enum ht_emit)form));
	}
	return ht_put_bytes(ht_buf_str(&e->buf), e->path, e->d, e->out);
}

enum ht_status ht_emit_code(const struct ht_model *m, const struct ht_compile_options *opt,
	const char *form, const char *stop_after, const char *path, struct ht_diags *d,
	struct ht_bytes *out)
{
	struct emit e = {
		.m = m, .form = form, .stop_after = stop_after, .path = path, .d = d, .out = out
	};

	return write_by(emit, &e, opt);
}
