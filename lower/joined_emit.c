/* Makes the kernel of a description (joined.h), stage by stage. */
#include "lower/index.h"
#include "lower/joined.h"
#include "lower/pack.h"
#include "lower/product.h"
#include "lower/rows.h"

/* Small windows, whose taps are all unrolled, as they are in a separate kernel (kernel_conv.c). */
enum { MAX_UNROLLED_TAPS = 49 };

enum { CHANNEL = 3 };

/* The operands of a product, of which several stages may compute parts. */
struct factors {
	struct simple_conv
		left; /* c: of all products; in, v: the left operand's memory, if it is in memory */
	struct conv v;     /* of convolutions */
	struct view right; /* of matrix products */
};

struct joining {
	struct lower *l;
	const struct joined *d;
	const struct joined_stage *s; /* the one being made */
	struct kernel_build k;
	struct ht_xb *b;                   /* k's */
	struct factors *of[JOINED_STAGES]; /* by stage */
	int32_t buffer[JOINED_BUFFERS];    /* the kernel's numbers + 1 */
	int32_t x[JOINED_DIMS];            /* the stage's indices */
};

static struct factors *factors_of(const struct joining *j)
{
	return j->of[j->s - j->d->stage];
}

/* ---- places in buffers ---- */

static int32_t buffer_of(struct joining *j, int32_t n)
{
	const struct joined_buffer *of = &j->d->buffer[n];
	int64_t count = 1;

	if (j->buffer[n])
		return j->buffer[n] - 1;
	for (int i = 0; i < JOINED_DIMS; i++)
		count *= of->extent[i] ? of->extent[i] : 1;
	j->buffer[n] = kb_local(&j->k, of->dtype, count) + 1;
	return j->buffer[n] - 1;
}

/* The place of index x of dimension `dim` in buffer `of`. */
static int32_t index_in(struct joining *j, const struct joined_buffer *of, int dim, int32_t x)
{
	if (of->ring && dim == 1)
		return ht_xmodi(j->b, x, of->extent[dim]);
	return j->s->dim[dim].grid >= 0 ? kb_within(&j->k, dim) : x;
}

static int32_t place(struct joining *j, int32_t buffer, const int32_t x[])
{
	const struct joined_buffer *of = &j->d->buffer[buffer];
	int32_t at = -1;

	for (int dim = 0; dim < j->s->dims; dim++) {
		int32_t i;

		if (!of->extent[dim])
			continue;
		i = index_in(j, of, dim, x[dim]);
		at = at < 0 ? i : ht_xadd(j->b, ht_xmuli(j->b, at, of->extent[dim]), i);
	}
	return at;
}

/* Where the row of the buffer begins that a product reads. */
static int32_t row_of(struct joining *j, int32_t buffer)
{
	int32_t x[JOINED_DIMS];

	for (int dim = 0; dim < j->s->dims; dim++)
		x[dim] = j->x[dim];
	x[j->s->dims - 1] = ht_xi(j->b, 0);
	return place(j, buffer, x);
}

static void store(struct joining *j, int32_t at, int32_t x)
{
	int32_t to = buffer_of(j, j->s->to);

	ht_xstore(j->b, to, at, ht_xcvt(j->b, j->d->buffer[j->s->to].dtype, x));
}

/* ---- what stages have in common ---- */

/* Whether the stage may leave out neutral elements: it stores to a local buffer, and the product
 * that reads that buffer ends its sum at the size of the run. */
static bool may_skip_neutral(const struct joining *j)
{
	const struct joined *d = j->d;
	bool sums = false;

	for (int32_t i = 0; i < d->stages; i++)
		sums = sums || (ht_is(d->stage[i].root, HT_MATRIX_PRODUCT) &&
				       d->stage[i].from != JOINED_MEMORY &&
				       lower_cuts_depth(j->l, d->stage[i].root));
	return sums && j->s->to != JOINED_MEMORY;
}

/* Ends the stage's loops at the sizes of the run. */
static void cut_stage(struct joining *j)
{
	struct ht_shape shape = j->s->root->out[0].shape;

	for (int i = 0; i < j->s->dims; i++) {
		const struct joined_dim *d = &j->s->dim[i];

		if (d->first <= d->last)
			kb_cut(&j->k, i, ht_out(j->k.sink, 0),
				(struct cut_span){ .stride = ht_shape_stride(shape, d->last),
					.extent = d->extent,
					.neutral = may_skip_neutral(j) });
	}
}

static void open_stage(struct joining *j, enum ht_stage_kind kind)
{
	const struct joined_stage *s = j->s;
	struct ht_stage *to = kb_stage_of(&j->k, s->root, kind);

	to->start = s->starts;
	for (int i = 0; i < s->dims; i++) {
		const struct joined_dim *d = &s->dim[i];

		if (d->grid >= 0)
			kb_grid_dim(&j->k, d->grid, d->extent, d->step);
		else
			kb_dim(&j->k, d->extent);
		if (d->unroll)
			to->dim[i].unroll = d->unroll;
	}
	to->vec = s->dims - 1;
	cut_stage(j);
}

static void take_indices(struct joining *j)
{
	for (int i = 0; i < j->s->dims; i++)
		j->x[i] = ht_xdim(j->b, i);
}

/* The element of the root's result at indices x. */
static struct space space_at(const struct joining *j, const int32_t x[])
{
	struct ht_shape shape = j->s->root->out[0].shape;
	struct space at = { .rank = shape.rank, .guard = -1 };

	for (int32_t i = 0; i < shape.rank; i++)
		at.dim[i] = shape.dim[i];
	for (int32_t i = 0; i < j->s->dims; i++) {
		const struct joined_dim *d = &j->s->dim[i];

		if (d->first <= d->last)
			at.group[at.groups++] = (struct space_group){ d->first, d->last, x[i] };
	}
	return at;
}

/* Ends a stage; x is the element of its root at `at`, before rounding. */
static void finish(struct joining *j, int32_t x, const struct space *at)
{
	if (j->s->to == JOINED_MEMORY) {
		kb_store_root(&j->k, j->s->root, x, at);
		return;
	}
	x = kb_epilogue(&j->k, j->s->root, x, at);
	store(j, place(j, j->s->to, j->x), x);
}

/* ---- rings ---- */

/* The row of a ring that the stage is at, and the corresponding row of the image. */
static void ring_row(struct joining *j, int32_t *row, int32_t *image)
{
	const struct window *w = j->d->window;
	struct ht_xb *b = j->b;
	int32_t within = ht_xaddi(b, j->x[1], j->s->dim[1].from);
	int32_t first = ht_xmuli(b, ht_xgrid(b, 1), w[0].stride);

	*row = ht_xadd(b, first, within);
	*image = ht_xaddi(b, *row, -w[0].before);
}

/* Whether row `h` is in the image; -1: all are. */
static int32_t in_image(struct joining *j, int32_t h)
{
	const struct window *w = j->d->window;
	struct ht_xb *b = j->b;
	int32_t below, above;

	if (!window_leaves(&w[0]))
		return -1;
	below = ht_xlt(b, h, ht_xi(b, w[0].in));
	above = ht_xle(b, ht_xi(b, 0), h);
	return ht_xand(b, above, below);
}

static void store_in_ring(struct joining *j, int32_t row, int32_t x)
{
	int32_t column = ht_xaddi(j->b, j->x[2], j->s->dim[2].from);

	store(j, place(j, j->s->to, (int32_t[]){ j->x[0], row, column, j->x[CHANNEL] }), x);
}

static void emit_zeros(struct joining *j)
{
	open_stage(j, HT_STAGE_LOOP);
	take_indices(j);
	store_in_ring(j, j->x[1], ht_xf(j->b, 0));
}

const struct joined_loop joined_zeros = { NULL, emit_zeros };

/* ---- products ---- */

static void prepare_conv(struct joining *j, struct factors *f)
{
	struct ht_node *n = j->s->root;
	struct contraction *c = &f->left.c;

	read_conv(n, &f->v);
	if (j->s->from == JOINED_MEMORY) {
		simple_conv(j->l, n, &f->v, &f->left);
		return;
	}
	contract_init(c, j->l, n, ht_type_of(n->in[0])->dtype);
	c->rows = f->v.out.dim[0] * f->v.out.dim[1] * f->v.out.dim[2];
	c->columns = f->v.filter.dim[3];
	c->depth = f->v.filter.dim[2];
	c->short_sums = false; /* rows have the type of local_type() */
	contract_pack_const(c, ht_const_tensor(n->in[1]), 0, c->columns, 1, 1, 0);
}

static void prepare_matrices(struct joining *j, struct factors *f)
{
	struct ht_node *n = j->s->root;
	struct ht_shape shape = n->out[0].shape;
	struct contraction *c = &f->left.c;
	struct product p;

	f->right = product_right(j->l, n);
	contract_init(c, j->l, n, ht_type_of(n->in[0])->dtype);
	c->short_sums = false; /* a Softmax may amplify the errors of its operands without bound */
	c->rows = shape.dim[shape.rank - 2];
	c->depth = f->right.dim[f->right.rank - 2];
	c->columns = f->right.dim[f->right.rank - 1];
	if (j->s->from != JOINED_MEMORY)
		return;
	read_product(j->l, n, &p);
	straighten(j->l, n, &p.a);
	f->left.in = p.a;
	c->a_step = p.a.stride[p.a.rank - 1];
}

/* Runs once for all stages of a root. */
static void prepare_product(struct joining *j)
{
	const struct joined *d = j->d;
	struct factors *f;

	if (factors_of(j))
		return;
	f = HT_NEW(j->l->scratch, struct factors);
	if (ht_is(j->s->root, HT_MATRIX_PRODUCT))
		prepare_matrices(j, f);
	else
		prepare_conv(j, f);
	for (int32_t i = 0; i < d->stages; i++)
		if (d->stage[i].root == j->s->root)
			j->of[i] = f;
}

/* Where the matrix row of the stage begins; for an image, where the pixel at `at` begins. */
static int32_t matrix_row(struct joining *j, const struct view *a, const struct space *at)
{
	struct ht_xb *b = j->b;
	int32_t row = ht_xaddi(b, ht_xmuli(b, j->x[1], a->stride[a->rank - 2]), a->offset);

	return ht_xadd(b, row, batch_offset(b, j->x[0], at, a->rank, a->dim, a->stride));
}

static int32_t pixel_row(struct joining *j, const struct simple_conv *from, const struct space *at,
	const int32_t tap[])
{
	int32_t pixel[3];

	for (int32_t i = 0; i < 3; i++)
		pixel[i] = at->groups == 4 ? at->group[i].x : space_coord(j->b, at, i);
	return simple_conv_row(from, &j->k, tap, pixel);
}

static void take_left(
	struct joining *j, struct factors *f, const struct space *at, const int32_t tap[])
{
	struct ht_contract *t = &j->k.stage->contract;
	const struct joined_stage *s = j->s;

	if (s->from != JOINED_MEMORY) {
		t->a_buffer = buffer_of(j, s->from);
		t->a_row = row_of(j, s->from);
		return;
	}
	t->a_buffer = kb_arg(&j->k, f->left.in.buffer, HT_BUFFER_IN);
	t->a_row = ht_is(s->root, HT_MATRIX_PRODUCT) ? matrix_row(j, &f->left.in, at)
						     : pixel_row(j, &f->left, at, tap);
}

/* Opens a stage of a product; the caller adds its left operand and its store. */
static void open_product(struct joining *j, const struct contraction *c, int32_t tap[])
{
	struct kernel_build *k = &j->k;
	int32_t zero;
	int depth;

	open_stage(j, HT_STAGE_CONTRACT);
	for (int i = 0; i < c->taps; i++)
		tap[i] = ht_xdim(j->b, kb_reduce_dim(k, c->tap[i]));
	depth = kb_reduce_dim(k, c->depth);
	if (ht_is(j->s->root, HT_MATRIX_PRODUCT))
		kb_cut_depth(k, depth, j->s->root, j->s->root->in[0],
			(struct cut_span){ .stride = 1, .extent = c->depth });
	take_indices(j);
	k->stage->contract.m = j->s->dims - 2;
	k->stage->contract.n = j->s->dims - 1;
	zero = ht_xi(j->b, 0);
	contract_packed(c, k, c->constants ? kb_arg(k, c->b, HT_BUFFER_IN) : c->b, zero);
}

/* Stores the rows of the tile's window that the stage computes. */
static void emit_into_ring(struct joining *j, struct factors *f, const int32_t tap[])
{
	struct ht_contract *t = &j->k.stage->contract;
	int32_t row, image, inside, x;
	struct space at;

	ring_row(j, &row, &image);
	inside = in_image(j, image);
	at = space_at(j, (int32_t[]){ j->x[0], image, j->x[2], j->x[CHANNEL] });
	take_left(j, f, &at, tap);
	t->a_guard = inside;
	at.guard = inside;
	x = kb_epilogue(&j->k, j->s->root, ht_xred(j->b, 0, HT_F32), &at);
	if (inside >= 0)
		x = ht_xselect(j->b, inside, x, ht_xf(j->b, 0));
	store_in_ring(j, row, x);
}

static void emit_product(struct joining *j)
{
	struct factors *f = factors_of(j);
	int32_t tap[2];
	struct space at;

	open_product(j, &f->left.c, tap);
	if (j->s->to != JOINED_MEMORY && j->d->buffer[j->s->to].ring) {
		emit_into_ring(j, f, tap);
		return;
	}
	at = space_at(j, j->x);
	take_left(j, f, &at, tap);
	finish(j, ht_xred(j->b, 0, HT_F32), &at);
}

const struct joined_loop joined_product = { prepare_product, emit_product };

/* Packs operand 1 of the root into the local buffer of its contraction. */
static void emit_pack(struct joining *j)
{
	struct factors *f = factors_of(j);

	contract_pack_local(&f->left.c, &j->k, &f->right);
}

const struct joined_loop joined_pack = { NULL, emit_pack };

/* ---- other loops ---- */

static int32_t weight(struct joining *j, const struct space *at, const int32_t tap[2])
{
	struct ht_node *n = j->s->root;
	int32_t x[4] = { tap[0], tap[1], j->x[CHANNEL], ht_xi(j->b, 0) };
	struct space filter = space_of_coords(at, 4, ht_type_of(n->in[1])->shape.dim, x);

	return kb_pull(&j->k, n->in[1], &filter);
}

static void emit_window(struct joining *j)
{
	const struct window *w = j->d->window;
	const struct joined_stage *s = j->s;
	struct ht_xb *b = j->b;
	int32_t tap[2], from[2], value, factor, at_ring;
	struct space at;

	open_stage(j, HT_STAGE_LOOP);
	for (int i = 0; i < 2; i++) {
		int d = kb_reduce_dim(&j->k, w[i].size);

		if (w[0].size * w[1].size <= MAX_UNROLLED_TAPS)
			j->k.stage->dim[d].unroll = (int8_t)w[i].size;
		tap[i] = ht_xdim(b, d);
	}
	take_indices(j);
	for (int i = 0; i < 2; i++)
		from[i] = ht_xadd(b, ht_xmuli(b, j->x[1 + i], w[i].stride), tap[i]);
	at_ring = place(j, s->from, (int32_t[]){ j->x[0], from[0], from[1], j->x[CHANNEL] });
	value = ht_xload(b, buffer_of(j, s->from), j->d->buffer[s->from].dtype, at_ring);
	at = space_at(j, j->x);
	factor = weight(j, &at, tap);
	value = ht_xmul(b, ht_xcvt(b, HT_F32, value), factor);
	finish(j, kb_reduce(&j->k, HT_RED_ADD, HT_F32, value), &at);
}

const struct joined_loop joined_window = { NULL, emit_window };

/* The node whose value is in buffer `of`. */
static struct ht_node *held_in(const struct joining *j, int32_t of)
{
	const struct joined_stage *s = j->d->stage;

	while (s->to != of)
		s++;
	return j->l->owner[s->root->id];
}

static void emit_map(struct joining *j)
{
	const struct joined_stage *s = j->s;
	enum ht_dtype t = j->d->buffer[s->from].dtype;
	struct kernel_build *k = &j->k;
	struct space at;
	int32_t x, to;

	open_stage(j, HT_STAGE_LOOP);
	take_indices(j);
	at = space_at(j, j->x);
	k->root = held_in(j, s->from);
	x = ht_xload(j->b, buffer_of(j, s->from), t, place(j, s->from, j->x));
	k->root_x[0] = ht_xcvt(j->b, compute_type(t), x);
	to = place(j, s->to, j->x);
	store(j, to, kb_pull(k, ht_out(k->sink, 0), &at));
}

const struct joined_loop joined_map = { NULL, emit_map };

static void emit_softmax(struct joining *j)
{
	const struct joined_dim *dim = j->s->dim;
	struct rows r = { .k = &j->k,
		.n = j->s->root,
		.shape = j->s->root->out[0].shape,
		.matrices = dim[0].extent,
		.count = dim[1].extent,
		.columns = dim[2].extent,
		.step = dim[1].step,
		.skips = may_skip_neutral(j),
		.x = buffer_of(j, j->s->from) };
	int32_t x;

	j->k.sink = j->l->owner[r.n->id];
	x = rows_softmax(&r);
	take_indices(j);
	finish(j, x, &r.at);
}

const struct joined_loop joined_softmax = { NULL, emit_softmax };

/* ---- the kernel ---- */

static void prepare(struct joining *j)
{
	const struct joined *d = j->d;

	for (j->s = d->stage; j->s < d->stage + d->stages; j->s++)
		if (j->s->loop->prepare)
			j->s->loop->prepare(j);
}

void lower_emit_joined(struct lower *l, const struct joined *d)
{
	struct joining j = { .l = l, .d = d };

	j.b = &j.k.xb;
	prepare(&j);
	kb_init(&j.k, l, d->named);
	j.k.kernel->method = ht_method_info[d->kind->method].name;
	kb_grid(&j.k, d->grids, d->grid);
	if (d->argument)
		kb_arg(&j.k, lower_view(l, d->argument->in[0])->buffer, HT_BUFFER_IN);
	for (j.s = d->stage; j.s < d->stage + d->stages; j.s++)
		j.s->loop->emit(&j);
	kb_finish(&j.k, d->named);
}
