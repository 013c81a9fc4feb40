/* Squeeze and excitation (excite.h) as one kernel.
 *
 * A tile is a block of pixels: elementwise nodes store its rows, of all channels, to a local buffer,
 * and the convolution multiplies them from there.  The gate is two products of one row, by stages that
 * start: every thread makes it for itself. */
#include "lower/excite.h"
#include "lower/index.h"

enum { PIXELS_SIDE_BY_SIDE = 4 };

struct stages {
	struct lower *l;
	const struct excite *of;
	struct kernel_build *k;
	struct ht_xb *b;
	struct contraction gate[2], project;
	int32_t local; /* what the stage before stored */
};

/* Dimensions of a stage: pixels, of the block or the only one, and channels.  The space of an element
 * of `n`'s result. */
static struct space open_stage(struct stages *s, struct ht_node *n, enum ht_stage_kind kind)
{
	struct ht_shape shape = n->out[0].shape;
	int64_t pixels = shape.dim[1] * shape.dim[2];
	struct space at = { .rank = 4, .groups = 2, .guard = -1 };

	kb_stage_of(s->k, n, kind);
	if (pixels > 1)
		kb_grid_dim(s->k, 0, pixels, s->of->step);
	else
		kb_dim(s->k, 1);
	s->k->stage->vec = kb_dim(s->k, shape.dim[3]);
	for (int i = 0; i < 4; i++)
		at.dim[i] = shape.dim[i];
	at.group[0] = (struct space_group){ 0, 2, ht_xdim(s->b, 0) };
	at.group[1] = (struct space_group){ 3, 3, ht_xdim(s->b, 1) };
	return at;
}

static void set_product(struct stages *s, const struct contraction *c, int32_t a, int32_t a_row)
{
	struct ht_contract *t = &s->k->stage->contract;

	kb_reduce_dim(s->k, c->depth);
	t->m = 0;
	t->n = 1;
	t->a_buffer = a;
	t->a_row = a_row;
	contract_packed(c, s->k, kb_arg(s->k, c->b, HT_BUFFER_IN), ht_xi(s->b, 0));
	s->k->root_x[0] = kb_result(s->k, c->n, 0, ht_xred(s->b, 0, HT_F32));
	s->k->root = c->n;
}

/* Stores the sink's value for the stage behind. */
static void keep(
	struct stages *s, enum ht_dtype t, int64_t count, int32_t offset, const struct space *at)
{
	int32_t x = kb_pull(s->k, ht_out(s->k->sink, 0), at);

	s->local = kb_local(s->k, t, count);
	ht_xstore(s->b, s->local, offset, ht_xcvt(s->b, t, x));
}

static void gate_stage(struct stages *s, int i)
{
	const struct contraction *c = &s->gate[i];
	const struct view *in = i ? NULL : lower_view(s->l, c->n->in[0]);
	struct space at = open_stage(s, c->n, HT_STAGE_CONTRACT);

	s->k->stage->start = true;
	set_product(s, c, in ? kb_arg(s->k, in->buffer, HT_BUFFER_IN) : s->local,
		ht_xi(s->b, in ? in->offset : 0));
	keep(s, s->k->sink->out[0].dtype, c->columns, at.group[1].x, &at);
}

/* Element `column` of the block's row that is computed. */
static int32_t in_block(struct stages *s, int64_t columns, int32_t column)
{
	int32_t row = ht_xmuli(s->b, kb_within(s->k, 0), columns);

	return ht_xadd(s->b, row, column);
}

static void map_stage(struct stages *s)
{
	struct ht_node *gate = s->l->owner[s->of->gate[1]->id];
	enum ht_dtype t = gate->out[0].dtype;
	int64_t channels = s->of->v.in.dim[3];
	struct space at = open_stage(s, s->of->map, HT_STAGE_LOOP);

	s->k->stage->dim[0].unroll = PIXELS_SIDE_BY_SIDE;
	s->k->root = gate;
	s->k->root_x[0] =
		ht_xcvt(s->b, compute_type(t), ht_xload(s->b, s->local, t, at.group[1].x));
	keep(s, local_type(s->k->l, s->of->map->out[0].dtype), s->of->step * channels,
		in_block(s, channels, at.group[1].x), &at);
}

static void project_stage(struct stages *s)
{
	const struct contraction *c = &s->project;
	struct space at = open_stage(s, c->n, HT_STAGE_CONTRACT);

	set_product(s, c, s->local, in_block(s, c->depth, ht_xi(s->b, 0)));
	kb_store_sink(s->k, &at);
}

void emit_excite(struct lower *l, const void *arg)
{
	const struct excite *of = arg;
	struct kernel_build k;
	struct stages s = { .l = l, .of = of, .k = &k, .b = &k.xb };
	int64_t tiles = ht_ceil_div(of->v.out.dim[1] * of->v.out.dim[2], of->step);

	conv_pack_project(l, of->gate[0], &of->of_gate[0],
		lower_view(l, of->gate[0]->in[0])->stride[3], &s.gate[0]);
	conv_pack_project(l, of->gate[1], &of->of_gate[1], 1, &s.gate[1]);
	conv_pack_project(l, of->project, &of->v, 1, &s.project);
	kb_init(&k, l, of->project);
	k.kernel->method = ht_method_info[HT_METHOD_SQUEEZE_EXCITE].name;
	kb_grid(&k, 1, &tiles);
	gate_stage(&s, 0);
	gate_stage(&s, 1);
	map_stage(&s);
	project_stage(&s);
	kb_finish(&k, of->project);
}
