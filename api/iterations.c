/* The parts of a training step in a recording: which kernels begin the forward pass and end the backward pass. */
#include "api/api.h"
#include "runtime/trace.h"

#include <string.h>

/* ---- the nodes that a program knows ---- */

static void keep_members(struct ht_known_nodes *k, struct ht_arena *a, const struct ht_plan *plan)
{
	size_t *kernels = HT_NEW_ARRAY(a, size_t, (size_t)plan->steps + 1); /* before each step */

	for (int32_t i = 0; i < plan->steps; i++)
		kernels[i + 1] = kernels[i] + (plan->step[i].kernel >= 0);
	k->members = (size_t)plan->members;
	k->member = HT_NEW_ARRAY(a, struct ht_known_member, k->members);
	for (size_t i = 0; i < k->members; i++)
		k->member[i] = (struct ht_known_member){
			.node = ht_str_copy(a, plan->member[i].node),
			.step = kernels[plan->member[i].step],
		};
}

void ht_program_keep_nodes(
	struct ht_program *p, const struct ht_graph *imported, const struct ht_plan *plan)
{
	struct ht_known_nodes *k = p->nodes = HT_NEW(&p->arena, struct ht_known_nodes);

	k->path = ht_str_copy(&p->arena, ht_str(imported->path ? imported->path : "")).p;
	k->name = HT_NEW_ARRAY(&p->arena, struct ht_str, imported->nodes);
	k->type = HT_NEW_ARRAY(&p->arena, struct ht_str, imported->nodes);
	for (const struct ht_node *n = imported->first; n; n = n->next) {
		k->name[k->n] = ht_str_copy(&p->arena, n->name);
		k->type[k->n++] = ht_str_copy(&p->arena, n->type);
	}
	keep_members(k, &p->arena, plan);
}

/* ---- points ---- */

struct dividing {
	const struct ht_program *program;
	const struct ht_image *image;
	struct ht_trace *trace;
	struct ht_work w;
	const char *forward, *backward; /* nodes; NULL: found automatically */
	struct ht_diags *d;
};

struct point {
	const char *node;
	const char *role; /* for messages: the option that names it */
	uint8_t bit;
};

static bool is_kernel(const struct ht_image *x, uint32_t step)
{
	return ht_image_steps(x)[step].op == HT_IMAGE_KERNEL;
}

static const char *kernel_name(const struct ht_image *x, uint32_t step)
{
	return ht_image_text(x, ht_image_notes(x)[step].node);
}

/* The n-th step of the image that runs a kernel. */
static uint32_t nth_kernel(const struct ht_image *x, size_t n)
{
	for (uint32_t i = 0;; i++)
		if (is_kernel(x, i) && n-- == 0)
			return i;
}

/* The name of the first marked kernel; NULL: none is marked. */
static const char *marked(const struct dividing *v, uint8_t bit)
{
	for (uint32_t i = 0; i < v->trace->steps; i++)
		if (v->trace->point[i] & bit)
			return kernel_name(v->image, i);
	return NULL;
}

static void mark_members(const struct dividing *v, const struct point *p)
{
	const struct ht_known_nodes *k = v->program->nodes;

	for (size_t i = 0; i < k->members; i++)
		if (ht_str_eq(k->member[i].node, ht_str(p->node)))
			v->trace->point[nth_kernel(v->image, k->member[i].step)] |= p->bit;
}

static void mark_named(const struct dividing *v, const struct point *p)
{
	for (uint32_t i = 0; i < v->trace->steps; i++)
		if (is_kernel(v->image, i) && !strcmp(kernel_name(v->image, i), p->node))
			v->trace->point[i] |= p->bit;
}

/* Marks every kernel that does not change variables: the first one begins the forward pass, the
 * last one ends the backward pass. */
static void mark_computing(const struct dividing *v, uint8_t bit)
{
	size_t kernel = 0;

	for (uint32_t i = 0; i < v->trace->steps; i++) {
		const char *op;

		if (!is_kernel(v->image, i))
			continue;
		op = kernel < v->program->works ? v->program->work[kernel].op : "";
		if (!(ht_op_info(ht_op_named(ht_str(op)))->effects & HT_WRITES))
			v->trace->point[i] |= bit;
		kernel++;
	}
}

/* ---- nodes that are no points ---- */

static struct ht_where place(const struct dividing *v)
{
	const struct ht_known_nodes *k = v->program->nodes;

	return (struct ht_where){ .path = k && *k->path ? k->path : NULL, .offset = -1 };
}

static enum ht_status no_node(
	struct dividing *v, const struct point *p, const struct ht_str *name, size_t n)
{
	const char *what =
		v->program->nodes
			? "%s: the model has no node '%s'%s%.*s%s"
			: "%s: the program has no kernel that is named after a node '%s'%s%.*s%s";
	struct ht_str near[3] = { { 0 } };
	const bool any = ht_near_names(ht_str(p->node), name, n, near) > 0;

	return ht_error(v->d, HT_E_INPUT, place(v), what, p->role, p->node,
		any ? "; did you mean '" : "", any ? (int)near[0].n : 0, any ? near[0].p : "",
		any ? "'?" : "");
}

static enum ht_status no_kernel_named(struct dividing *v, const struct point *p)
{
	struct ht_str *name = HT_NEW_ARRAY(&v->w.arena, struct ht_str, v->trace->steps);
	size_t n = 0;

	for (uint32_t i = 0; i < v->trace->steps; i++)
		if (is_kernel(v->image, i))
			name[n++] = ht_str(kernel_name(v->image, i));
	return no_node(v, p, name, n);
}

static enum ht_status no_kernel(struct dividing *v, const struct point *p)
{
	const struct ht_known_nodes *k = v->program->nodes;
	struct ht_where at = place(v);
	size_t i = 0;

	if (!k)
		return no_kernel_named(v, p);
	while (i < k->n && !ht_str_eq(k->name[i], ht_str(p->node)))
		i++;
	if (i == k->n)
		return no_node(v, p, k->name, k->n);
	at.node = k->name[i];
	at.op = k->type[i];
	return ht_error(v->d, HT_E_INPUT, at,
		"%s: no kernel computes this node: it was folded into constants, only gives its operand "
		"another name or shape, or no output needs it",
		p->role);
}

static enum ht_status set_point(struct dividing *v, const struct point *p)
{
	const char *kernel;

	if (!p->node) {
		mark_computing(v, p->bit);
		return HT_OK;
	}
	if (v->program->nodes)
		mark_members(v, p);
	else
		mark_named(v, p);
	kernel = marked(v, p->bit);
	if (!kernel)
		return no_kernel(v, p);
	if (strcmp(kernel, p->node) != 0)
		ht_note(v->d, place(v), "%s: node '%s' is in the kernel of '%s', which counts",
			p->role, p->node, kernel);
	return HT_OK;
}

static enum ht_status divide(void *arg)
{
	struct dividing *v = arg;
	struct ht_trace *t = v->trace;

	HT_TRY(set_point(v, &(struct point){ v->forward, "fp_point", HT_TRACE_FORWARD }));
	HT_TRY(set_point(v, &(struct point){ v->backward, "bp_point", HT_TRACE_BACKWARD }));
	t->forward = v->forward ? marked(v, HT_TRACE_FORWARD) : NULL;
	t->backward = v->backward ? marked(v, HT_TRACE_BACKWARD) : NULL;
	return HT_OK;
}

enum ht_status ht_context_divide(
	struct ht_context *c, const char *forward, const char *backward, struct ht_diags *d)
{
	struct dividing v = { .program = ht_context_program(c),
		.trace = ht_rt_recording(ht_context_rt(c)),
		.forward = forward,
		.backward = backward,
		.d = d };

	v.image = v.program->rt.image;
	if (!v.trace)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"nothing is recorded: ht_context_record() comes before ht_context_divide()");
	if (!ht_trace_divide(v.trace))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for iterations");
	return ht_work_run(&v.w, divide, &v, d);
}

/* ---- iterations ---- */

static const struct ht_trace *divided(const struct ht_context *c)
{
	const struct ht_trace *t = ht_context_recorded(c);

	return t && t->point ? t : NULL;
}

void ht_context_iterations(const struct ht_context *c, struct ht_iterations *out)
{
	const struct ht_trace *t = divided(c);

	*out = (struct ht_iterations){ 0 };
	if (!t)
		return;
	*out = (struct ht_iterations){ .n = t->iterations.n,
		.ns = t->iterations.ns,
		.forward_ns = t->iterations.forward_ns,
		.refresh_ns = t->iterations.refresh_ns,
		.gaps = t->iterations.gaps,
		.gap_ns = t->iterations.gap_ns,
		.forward = t->forward,
		.backward = t->backward };
}

int ht_context_iteration(const struct ht_context *c, size_t i, struct ht_iteration *out)
{
	const struct ht_trace *t = divided(c);
	const struct ht_trace_iteration *x;

	*out = (struct ht_iteration){ 0 };
	if (!t || i >= ht_trace_iterations_kept(t))
		return 0;
	x = ht_trace_iteration(t, i);
	*out = (struct ht_iteration){ .run = x->run,
		.before = x->before,
		.forward = x->forward,
		.backward = x->backward,
		.end = x->end };
	return 1;
}
