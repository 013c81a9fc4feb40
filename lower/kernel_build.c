/* Making one kernel: arguments, stages, and values pulled through the nodes that it holds. */
#include "lower/inside.h"
#include "lower/strides.h"

#include <string.h>

enum { MAX_PARAMS = 8 };

/* ---- arguments and stages ---- */

void kb_init(struct kernel_build *k, struct lower *l, const struct ht_node *n)
{
	memset(k, 0, sizeof *k);
	k->l = l;
	k->sink = n ? l->owner[n->id] : NULL;
	k->arena = l->planning->spare ? l->planning->spare : ht_arena_within(l->arena);
	l->planning->spare = NULL;
	k->kernel = HT_NEW(k->arena, struct ht_kernel);
	k->kernel->buffer =
		HT_NEW_ARRAY(k->arena, struct ht_kernel_buffer, HT_COUNT(k->plan_buffer_of));
}

int32_t kb_arg_as(
	struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind, enum ht_dtype dtype)
{
	struct ht_kernel *kernel = k->kernel;
	const struct ht_plan_buffer *p = &k->l->plan->buffer[plan_buffer];
	size_t bytes = ht_dtype_info(dtype)->bytes;

	for (int32_t i = 0; i < kernel->args; i++)
		if (k->plan_buffer_of[i] == plan_buffer) {
			if (kind == HT_BUFFER_OUT)
				kernel->buffer[i].kind = kind;
			return i;
		}
	HT_CHECK((size_t)kernel->buffers < HT_COUNT(k->plan_buffer_of));
	HT_CHECK(kernel->buffers == kernel->args);
	k->plan_buffer_of[kernel->args] = plan_buffer;
	kernel->buffer[kernel->args] =
		(struct ht_kernel_buffer){ kind, dtype, bytes ? (int64_t)(p->bytes / bytes) : 0 };
	kernel->buffers++;
	return kernel->args++;
}

int32_t kb_arg(struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind)
{
	return kb_arg_as(k, plan_buffer, kind, k->l->plan->buffer[plan_buffer].dtype);
}

/* Locals are numbered from HT_COUNT(plan_buffer_of) while the kernel is built, since arguments are
 * still being found; kb_finish() renumbers them. */
enum { LOCAL_BASE = HT_COUNT(((struct kernel_build *)0)->plan_buffer_of) };

int32_t kb_local(struct kernel_build *k, enum ht_dtype t, int64_t count)
{
	HT_CHECK((size_t)k->locals < HT_COUNT(k->local));
	k->local[k->locals] = (struct ht_kernel_buffer){ HT_BUFFER_LOCAL, t, count };
	return LOCAL_BASE + k->locals++;
}

void kb_grid(struct kernel_build *k, int dims, const int64_t *count)
{
	HT_CHECK(dims <= HT_MAX_GRID);
	k->kernel->grid_dims = dims;
	memcpy(k->kernel->grid, count, (size_t)dims * sizeof *count);
}

/* The expressions built from here on compute in the mode of node `n`; NULL: in no mode. */
static void compute_as(struct kernel_build *k, const struct ht_node *n)
{
	enum ht_impl mode = n ? lower_mode(n) : HT_IMPL_NONE;

	k->xb.accuracy = mode == HT_IMPL_HIGH_PERFORMANCE    ? HT_ACCURACY_SHORT
			 : mode == HT_IMPL_SUPER_PERFORMANCE ? HT_ACCURACY_SHORTEST
							     : HT_ACCURACY_FULL;
	k->xb.keep = mode == HT_IMPL_KEEP_FP16 ? n->out[0].dtype : HT_INVALID;
}

struct ht_stage *kb_stage(struct kernel_build *k, enum ht_stage_kind kind)
{
	k->kernel->stage = ht_grow(k->arena, k->kernel->stage, (size_t)k->kernel->stages,
		&k->stage_cap, sizeof *k->kernel->stage);
	k->stage = &k->kernel->stage[k->kernel->stages++];
	memset(k->stage, 0, sizeof *k->stage);
	k->stage->kind = kind;
	k->stage->vec = -1;
	ht_xb_init(&k->xb, k->arena, k->stage);
	k->pulled_count = 0;
	k->root = NULL;
	compute_as(k, k->sink ? k->l->root[k->sink->id] : NULL);
	return k->stage;
}

struct ht_stage *kb_stage_of(
	struct kernel_build *k, const struct ht_node *n, enum ht_stage_kind kind)
{
	k->sink = k->l->owner[n->id];
	return kb_stage(k, kind);
}

static int add_dim(struct kernel_build *k, struct ht_dim d)
{
	HT_CHECK(k->stage->dims < HT_MAX_DIMS);
	d.unroll = 1;
	k->stage->dim[k->stage->dims] = d;
	return k->stage->dims++;
}

int kb_dim(struct kernel_build *k, int64_t extent)
{
	return add_dim(k, (struct ht_dim){ .extent = extent, .grid = -1 });
}

int kb_grid_dim(struct kernel_build *k, int grid, int64_t extent, int64_t step)
{
	return add_dim(k, (struct ht_dim){ .extent = extent, .grid = (int8_t)grid, .step = step });
}

int kb_reduce_dim(struct kernel_build *k, int64_t extent)
{
	return add_dim(k, (struct ht_dim){ .extent = extent, .grid = -1, .reduce = true });
}

int32_t kb_within(struct kernel_build *k, int dim)
{
	const struct ht_dim *d = &k->stage->dim[dim];
	struct ht_xb *b = &k->xb;

	return ht_xsub(b, ht_xdim(b, dim), ht_xmuli(b, ht_xgrid(b, d->grid), d->step));
}

static int32_t final_buffer(const struct kernel_build *k, int32_t b)
{
	return b >= LOCAL_BASE ? k->kernel->args + b - LOCAL_BASE : b;
}

static void place_locals(struct kernel_build *k)
{
	struct ht_kernel *kernel = k->kernel;
	struct ht_kernel_buffer *all =
		HT_NEW_ARRAY(k->arena, struct ht_kernel_buffer, (size_t)(kernel->args + k->locals));

	memcpy(all, kernel->buffer, (size_t)kernel->args * sizeof *all);
	if (k->locals)
		memcpy(all + kernel->args, k->local, (size_t)k->locals * sizeof *all);
	kernel->buffer = all;
	kernel->buffers = kernel->args + k->locals;
	for (int32_t i = 0; i < kernel->stages; i++) {
		struct ht_stage *s = &kernel->stage[i];
		for (int32_t j = 0; j < s->xs; j++)
			if (s->x[j].op == HT_X_LOAD)
				s->x[j].imm = final_buffer(k, (int32_t)s->x[j].imm);
		for (int32_t j = 0; j < s->stores; j++)
			s->store[j].buffer = final_buffer(k, s->store[j].buffer);
		if (s->kind == HT_STAGE_CONTRACT) {
			s->contract.a_buffer = final_buffer(k, s->contract.a_buffer);
			s->contract.b_buffer = final_buffer(k, s->contract.b_buffer);
			if (s->contract.wide_buffer)
				s->contract.wide_buffer = final_buffer(k, s->contract.wide_buffer);
		}
	}
}

/* The least end of a dimension's cuts; 0: it has none. */
static int64_t least_end(const struct ht_dim *d, const int64_t *least_sizes)
{
	int64_t least = d->cut[0].run ? d->extent : 0;

	for (int c = 0; c < HT_CUTS && d->cut[c].run; c++) {
		int64_t end = ht_size_value(&d->cut[c].end, least_sizes);

		least = end < least ? end : least;
	}
	return least;
}

static void set_least_ends(struct kernel_build *k)
{
	const struct ht_graph *g = k->l->g;
	int64_t *least = HT_NEW_ARRAY(k->arena, int64_t, (size_t)g->sizes);

	for (int32_t i = 0; i < g->sizes; i++)
		least[i] = g->size[i].least;
	for (int32_t i = 0; i < k->kernel->stages; i++)
		for (int32_t d = 0; d < k->kernel->stage[i].dims; d++)
			k->kernel->stage[i].dim[d].least =
				least_end(&k->kernel->stage[i].dim[d], least);
}

void kb_finish(struct kernel_build *k, const struct ht_node *node)
{
	if (k->flags)
		kb_set_flags(k);
	place_locals(k);
	if (k->sized)
		set_least_ends(k);
	if (!k->kernel->library) {
		ht_kernel_expand(k->kernel, k->arena);
		ht_schedule_contract(k->l->target, k->kernel);
	}
	ht_kernel_verify(k->kernel);
	plan_step(k->l, k, node);
	lower_words(k->l, k->sink, node);
}

/* ---- values ---- */

enum ht_dtype compute_type(enum ht_dtype t)
{
	return ht_is_low(t) ? HT_F32 : t;
}

enum ht_dtype local_type(const struct lower *l, enum ht_dtype t)
{
	return ht_target_multiplied(l->target, t, false);
}

/* A constant of one element is an immediate. */
static bool immediate(struct kernel_build *k, const struct view *v, int32_t *x)
{
	const struct ht_plan_buffer *p = &k->l->plan->buffer[v->buffer];
	int64_t bits = 0;
	const char *at;

	if (p->kind != HT_PLAN_CONST || p->pack || view_count(v) != 1)
		return false;
	at = (const char *)p->blob->p + (size_t)v->offset * ht_dtype_info(p->dtype)->bytes;
	memcpy(&bits, at, ht_dtype_info(p->dtype)->bytes);
	*x = ht_xbits(&k->xb, p->dtype, bits);
	return true;
}

/* Whether the stage has no reduction and computes each element on its own. */
static bool is_map(const struct ht_stage *s)
{
	for (int32_t i = 0; i < s->dims; i++)
		if (s->dim[i].reduce)
			return false;
	return s->kind == HT_STAGE_LOOP;
}

/* Biases and small filters of 16 bits are read repeatedly, so they are converted to F32 once,
 * unless sums of products read them as they are. */
static int32_t source_of(struct kernel_build *k, const struct view *v)
{
	enum { MOST_WIDENED = 32768 };
	const struct ht_plan_buffer *p = &k->l->plan->buffer[v->buffer];
	bool low = ht_is_low(p->dtype);
	bool widens = low && (local_type(k->l, p->dtype) == HT_F32 || is_map(k->stage));

	if (p->kind != HT_PLAN_CONST || p->pack || !widens ||
		p->bytes > MOST_WIDENED * sizeof(uint16_t))
		return v->buffer;
	return plan_widened(k->l, v->buffer);
}

/* *guard becomes whether the run has the element, where it is to be stored or memory has only those of the run. */
static int32_t offset_in(struct kernel_build *k, const struct view *v, const struct space *s,
	bool stores, int32_t *guard)
{
	struct space at = *s;

	*guard = s->guard;
	if (v->open && !v->ends)
		return kb_open_offset(k, v, s, guard);
	if (v->open || stores)
		kb_guard_ends(k, v, &at, v->open);
	*guard = at.guard;
	return kb_offset(k, v, &at, stores ? 0 : v->offset);
}

int32_t kb_load(struct kernel_build *k, const struct view *v, const struct space *s)
{
	int32_t x, offset;

	if (!immediate(k, v, &x)) {
		int32_t buffer = source_of(k, v), arg = kb_arg(k, buffer, HT_BUFFER_IN);
		enum ht_dtype t = k->l->plan->buffer[buffer].dtype;
		int32_t guard;

		offset = offset_in(k, v, s, false, &guard);
		x = guard < 0 ? ht_xload(&k->xb, arg, t, offset)
			      : ht_xload_if(&k->xb, arg, t, offset, guard, ht_xk(&k->xb, t, 0));
	}
	x = ht_xcvt(&k->xb, compute_type(k->stage->x[x].dtype), x);
	return v->rounds == HT_INVALID ? x : ht_xcvt(&k->xb, HT_F32, ht_xcvt(&k->xb, v->rounds, x));
}

struct pulled {
	const struct ht_node *node;
	int32_t index;
	struct space at;
	int32_t x;
};

static bool same_space(const struct space *a, const struct space *b)
{
	if (a->rank != b->rank || a->groups != b->groups || a->guard != b->guard)
		return false;
	for (int32_t i = 0; i < a->groups; i++)
		if (a->group[i].first != b->group[i].first ||
			a->group[i].last != b->group[i].last || a->group[i].x != b->group[i].x)
			return false;
	return true;
}

int32_t kb_pull(struct kernel_build *k, struct ht_value v, const struct space *s)
{
	const struct ht_node *n = v.node;
	enum ht_accuracy accuracy = k->xb.accuracy;
	enum ht_dtype keep = k->xb.keep;
	struct pulled *p;
	int32_t x;

	if (n == k->root)
		return k->root_x[v.index];
	if (!lower_is_inside(k->l, k->sink, n))
		return kb_load(k, lower_view(k->l, v), s);
	for (size_t i = 0; i < k->pulled_count; i++)
		if (k->pulled[i].node == n && k->pulled[i].index == v.index &&
			same_space(&k->pulled[i].at, s))
			return k->pulled[i].x;
	compute_as(k, n);
	x = kb_result(k, n, v.index, lower_op_of(n)->pull(k, n, v.index, s));
	k->xb.accuracy = accuracy;
	k->xb.keep = keep;
	k->pulled =
		ht_grow(k->arena, k->pulled, k->pulled_count, &k->pulled_cap, sizeof *k->pulled);
	p = &k->pulled[k->pulled_count++];
	*p = (struct pulled){ n, v.index, *s, x };
	kb_tee(k, n, s, x);
	return x;
}

int32_t kb_pull_arg(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s)
{
	return ht_xcvt(
		&k->xb, node_type(n, ht_type_of(n->in[arg])->dtype), kb_pull(k, n->in[arg], s));
}

int32_t kb_operand(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s)
{
	struct ht_shape shape = ht_type_of(n->in[arg])->shape;
	struct space at = space_broadcast(&k->xb, s, shape.rank, shape.dim);

	return kb_pull_arg(k, n, arg, &at);
}

/* The offset of a result in its buffer.  It is a parameter, so that kernels that differ only by
 * their place in a concatenation are equal, unless the parameters are sizes. */
static int32_t begin(struct kernel_build *k, int64_t offset)
{
	int32_t i = 0;

	if (!offset || k->l->g->sizes)
		return ht_xi(&k->xb, offset);
	if (!k->params)
		k->params = HT_NEW_ARRAY(k->l->arena, int64_t, MAX_PARAMS);
	while (i < k->kernel->params && k->params[i] != offset)
		i++;
	if (i == MAX_PARAMS)
		return ht_xi(&k->xb, offset);
	k->params[i] = offset;
	if (i == k->kernel->params)
		k->kernel->params++;
	return ht_xparam(&k->xb, i);
}

void kb_store(struct kernel_build *k, const struct view *v, const struct space *s, int32_t x)
{
	enum ht_dtype t = k->l->plan->buffer[v->buffer].dtype;
	int32_t arg = kb_arg(k, v->buffer, HT_BUFFER_OUT), at = begin(k, v->offset);
	int32_t guard, offset = offset_in(k, v, s, true, &guard);

	ht_xstore_if(&k->xb, arg, ht_xadd(&k->xb, offset, at), ht_xcvt(&k->xb, t, x), guard);
}

void kb_store_result(
	struct kernel_build *k, int32_t i, const struct view *v, const struct space *s, int32_t x)
{
	kb_store(k, v, s, x);
	kb_flag_result(k, i, s, k->l->plan->buffer[v->buffer].dtype, x);
	if (k->l->numerics)
		probe_result(k, i, s, x);
}

int32_t kb_reduce(struct kernel_build *k, enum ht_red red, enum ht_dtype t, int32_t x)
{
	return ht_xred(&k->xb, ht_xreduce(&k->xb, red, x), t);
}

static void set_root(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s)
{
	k->root_x[0] = kb_result(k, n, 0, x);
	k->root = n;
	kb_tee(k, n, s, k->root_x[0]);
}

int32_t kb_epilogue(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s)
{
	set_root(k, n, x, s);
	return kb_pull(k, ht_out(k->sink, 0), s);
}

void kb_store_root(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s)
{
	set_root(k, n, x, s);
	kb_store_sink(k, s);
}

void kb_store_sink(struct kernel_build *k, const struct space *s)
{
	const struct view *v = &k->l->view[k->sink->id][0];
	struct space at = space_reshape(&k->xb, s, v->rank, v->dim);

	kb_store_result(k, 0, v, &at, kb_pull(k, ht_out(k->sink, 0), &at));
}

int lanes(const struct lower *l)
{
	return ht_target_lanes(l->target);
}
