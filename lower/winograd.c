/* Convolutions by Winograd's method (kernel/winograd.h), as one kernel.
 *
 * A block is some rows of tiles, or some images.  Three stages: the first transforms its tiles of the image into
 * a local buffer [product][tile][channel]; the second computes 36 or 16 matrix products into
 * another, [product][tile][result]; the third transforms these back and applies the epilogue.
 * All of them compute in F32, whatever the types in memory.  Exception: F(2 x 2) of 16 bits
 * rounds the transformed factors to the type where the target multiplies pairs of it, for F16
 * only if products are summed in short runs of F16. */
#include "lower/conv.h"
#include "lower/index.h"

#include <math.h>
#include <string.h>

/* A local buffer, [product][tile][column].  A tile stores or loads one vector of each product.  Without the gaps these vectors would mostly be
 * a multiple of 4 KB apart and compete for the same lines of the first level. */
struct local {
	int32_t buffer;
	enum ht_dtype dtype;
	int64_t columns;
};

enum { GAP_BYTES = 64 }; /* behind the tiles of each product */

struct winograd {
	struct lower *l;
	struct ht_node *n;
	const struct conv *v;
	int64_t channels, results;
	struct ht_winograd by;
	struct ht_open_axis end[2]; /* of the result's height and width */
	int image_arg;              /* the operand of `n` that is the image */
	int side;                   /* elements of the image in a tile, in each direction */
	int64_t block;              /* tiles of a block, at most */
	struct contraction c;       /* packs the filter */
	struct kernel_build *k;
	struct ht_xb *b;
	struct local image, product;
	int32_t x[4]; /* image, row and column of the tile, channel or result */
};

/* ---- when it pays ---- */

static bool fits(const struct conv *v)
{
	for (int i = 0; i < 2; i++)
		if (v->w[i].size != 3 || v->w[i].stride != 1 || v->w[i].dilation != 1)
			return false;
	return v->groups == 1;
}

/* The operand that is the image: the first of a convolution; of the gradient by its image, the gradient of its result. */
static int image_of(const struct ht_node *n)
{
	return ht_is(n, HT_CONV) ? 0 : 2;
}

/* Whether `v` is a constant, or a cast of one, which is folded before kernels are made. */
static bool is_constant(struct ht_value v)
{
	return ht_const_tensor(v) ||
	       (ht_is(v.node, HT_CASTS) && v.node->ins && ht_const_tensor(v.node->in[0]));
}

/* Loads of a vector of nine taps, if the filter is not constant.  The columns of a filter that is turned around are not side by
 * side; copying squares of them first takes about as long as a load of each number. */
static int64_t filter_loads(const struct ht_target *t, const struct ht_node *n)
{
	if (is_constant(n->in[1]))
		return 0;
	return ht_is(n, HT_CONV) ? 9 : 9 * ht_target_lanes(t);
}

/* The least extent of the result's height (i is 0) or width; the largest, if it is not open. */
static int64_t least_out(const struct ht_node *n, const struct conv *v, int i)
{
	const struct ht_open_axis end = lower_axis_end(n, 1 + i);
	const struct ht_open_size *size = end.size ? ht_size_at(n->graph, end.size) : NULL;

	if (!size || end.inner != 1 || size->most != v->out.dim[1 + i])
		return v->out.dim[1 + i];
	return size->least > 1 ? size->least : 1;
}

/* What the methods are compared for: open heights and widths at sizes that divide their range evenly. */
static struct ht_winograd_shape shape_to_price(
	const struct ht_target *t, const struct ht_node *n, const struct conv *v)
{
	enum { STEPS = HT_WINOGRAD_SIZES - 1 };
	const bool open = lower_axis_end(n, 1).size || lower_axis_end(n, 2).size;
	struct ht_winograd_shape s = { .images = v->out.dim[0],
		.channels = v->in.dim[3],
		.results = v->out.dim[3],
		.together = open ? 1 : v->out.dim[0],
		.sizes = open ? HT_WINOGRAD_SIZES : 1,
		.filter_loads = filter_loads(t, n) };

	for (int i = 0; i < 2; i++) {
		const int64_t most = v->out.dim[1 + i], range = most - least_out(n, v, i);

		for (int k = 0; k < s.sizes; k++)
			s.out[k][i] = most - range * k / STEPS;
	}
	return s;
}

/* The schedule of the method.  `multiplied`: the type as which products of taps multiply the
 * operands. */
static struct ht_winograd schedule(const struct ht_target *t, const struct ht_winograd_shape *shape,
	int m, enum ht_dtype multiplied)
{
	return ht_schedule_winograd(
		t, shape, m, m == 2 && ht_is_low(multiplied) ? multiplied : HT_F32);
}

/* Taps inside of the image, over all results; the other taps are skipped. */
static double taps_inside(const struct window *w)
{
	double n = 0;

	for (int64_t k = 0; k < w->size; k++) {
		int64_t first = w->before - k, last = w->in + w->before - k;

		first = first < 0 ? 0 : first;
		last = last > w->out ? w->out : last;
		n += last > first ? (double)(last - first) : 0;
	}
	return n;
}

/* Cycles to read the weights once from beyond the second level, at so many bytes for each channel and result. */
static double weights_cycles(const struct ht_target *t, const struct conv *v, double bytes)
{
	return bytes * (double)v->in.dim[3] * (double)v->out.dim[3] / t->rates->weights;
}

/* Taps inside of the image, over all results of height (i is 0) or width, of which there are `out`. */
static double taps_at(const struct conv *v, int i, int64_t out)
{
	struct window w = v->w[i];

	w.in -= w.out - out;
	w.out = out;
	return taps_inside(&w);
}

/* Cycles to sum taps of type `dtype`, which are multiplied as another type, and to read their
 * weights: the geometric mean over the sizes, as that of Winograd's method. */
static double direct_cycles(const struct ht_target *t, const struct conv *v,
	const struct ht_winograd_shape *shape, enum ht_dtype dtype, enum ht_dtype multiplied)
{
	const double weights = weights_cycles(t, v, 9 * (double)ht_dtype_info(dtype)->bytes);
	double product = 1;

	for (int i = 0; i < shape->sizes; i++) {
		double taps = taps_at(v, 0, shape->out[i][0]) * taps_at(v, 1, shape->out[i][1]);
		double products = (double)v->out.dim[0] * taps * (double)v->in.dim[3] *
				  (double)v->out.dim[3] / ht_target_lanes(t);

		product *= products / ht_target_products(t, multiplied) / t->rates->efficiency +
			   weights;
	}
	return pow(product, 1.0 / shape->sizes);
}

/* An estimate below this share of the other method's time is trusted. */
#define SURE 0.9

bool winograd_is_faster(const struct ht_target *t, enum ht_method method, int64_t narrow,
	double share, double error, struct ht_method_choice *why)
{
	const int64_t lanes = ht_target_lanes(t);

	*why = (struct ht_method_choice){ HT_STR(""), HT_METHOD_DIRECT, method, HT_REASON_SLOWER,
		share, SURE, 0 };
	if (narrow < lanes) {
		why->reason = HT_REASON_NARROW;
		why->is = (double)narrow;
		why->limit = (double)lanes;
		return false;
	}
	if (!(share < SURE))
		return false;
	*why = (struct ht_method_choice){ HT_STR(""), method, HT_METHOD_DIRECT, HT_REASON_FASTER,
		share, SURE, error };
	return true;
}

static enum ht_method method_of(const struct ht_winograd *by)
{
	return by->m == 2 ? HT_METHOD_WINOGRAD_2X2 : HT_METHOD_WINOGRAD;
}

/* Whether 2 x 2 tiles are taken instead of 4 x 4.  Where the estimates are close, the open heights and widths of a float32 convolution
 * decide for 2 x 2: estimates for several sizes are less certain, and 2 x 2 tiles waste less at small sizes, have fewer weights and are more
 * exact. */
static bool takes_small_tiles(const struct ht_winograd_shape *shape, const struct ht_winograd *two,
	const struct ht_winograd *four)
{
	if (shape->sizes > 1 && !ht_is_low(two->dtype))
		return SURE * two->cycles < four->cycles;
	return two->cycles < SURE * four->cycles;
}

/* The faster of both forms, if it is faster than summing taps. m is 0 if taps are to be summed. */
static struct ht_winograd faster(const struct ht_target *t, const struct ht_node *n,
	const struct conv *v, enum ht_dtype dtype, enum ht_dtype multiplied,
	struct ht_method_choice *why)
{
	const struct ht_winograd_shape shape = shape_to_price(t, n, v);
	int64_t narrow = v->in.dim[3];
	struct ht_winograd four, two;
	double share;

	if (v->out.dim[3] < narrow)
		narrow = v->out.dim[3];
	four = schedule(t, &shape, 4, multiplied);
	two = schedule(t, &shape, 2, multiplied);
	if (takes_small_tiles(&shape, &two, &four))
		four = two;
	share = four.cycles / direct_cycles(t, v, &shape, dtype, multiplied);
	return winograd_is_faster(t, method_of(&four), narrow, share,
		       ht_winograd_error(four.m, four.dtype), why)
		       ? four
		       : (struct ht_winograd){ 0 };
}

static struct ht_winograd asked(const struct lower *l, const struct ht_node *n,
	const struct conv *v, enum ht_dtype multiplied, struct ht_method_choice *why)
{
	const struct ht_winograd_shape shape = shape_to_price(l->target, n, v);
	struct ht_winograd by = { 0 };

	if (l->asked->asked.conv != HT_CONV_DIRECT)
		by = schedule(l->target, &shape, l->asked->asked.conv == HT_CONV_WINOGRAD ? 4 : 2,
			multiplied);
	*why = (struct ht_method_choice){ .method = by.m ? method_of(&by) : HT_METHOD_DIRECT,
		.other = HT_METHOD_END,
		.reason = HT_REASON_ASKED,
		.error = by.m ? ht_winograd_error(by.m, by.dtype) : 0 };
	return by;
}

bool conv_turned(const struct ht_node *n, int64_t filter[4], struct conv *v)
{
	const struct ht_shape of = shape_of(n, 1);
	struct window w[2];

	*v = (struct conv){ .in = shape_of(n, 2), .out = n->out[0].shape, .groups = 1 };
	if (is_constant(n->in[1]) || of.rank != 4 || v->in.rank != 4 || v->out.rank != 4 ||
		of.dim[2] != v->out.dim[3]) /* with groups it is a convolution of another kind */
		return false;
	read_windows(n, v->out, v->in, of.dim, w);
	for (int i = 0; i < 2; i++) {
		if (w[i].open.size || w[i].stride != 1)
			return false;
		v->w[i] = (struct window){ .size = w[i].size,
			.in = w[i].out,
			.out = w[i].in,
			.stride = 1,
			.dilation = w[i].dilation,
			.before = (w[i].size - 1) * w[i].dilation - w[i].before };
	}
	memcpy(filter, (int64_t[]){ of.dim[0], of.dim[1], of.dim[3], of.dim[2] },
		4 * sizeof *filter);
	v->filter = (struct ht_shape){ 4, filter };
	return true;
}

/* Reads the convolution that `n` computes; false: it computes none. */
static bool read_any(const struct ht_node *n, int64_t filter[4], struct conv *v)
{
	if (ht_is(n, HT_CONV_TRANSPOSE))
		return ht_multiply_adds(n) > 0 && !lower_refuse(n) && conv_turned(n, filter, v);
	if (!ht_is(n, HT_CONV))
		return false;
	read_conv(n, v);
	return true;
}

/* The form that AUTO chooses for a convolution of type `dtype`, or for the gradient of one by its image; m 0: it sums taps.  `filter`
 * holds the sizes of the filter of `v`. */
static struct ht_winograd taken(const struct ht_target *t, const struct ht_node *n,
	enum ht_dtype dtype, int64_t filter[4], struct conv *v)
{
	const struct ht_winograd none = { 0 };
	struct ht_method_choice why;

	if (!n->outs || !ht_shape_known(n->out[0].shape) || ht_shape_count(n->out[0].shape) == 0 ||
		!read_any(n, filter, v) || !fits(v))
		return none;
	return faster(
		t, n, v, dtype, ht_target_multiplied(t, dtype, ht_sums_short(t, n, dtype)), &why);
}

double ht_winograd_share(
	const struct ht_target *t, const struct ht_node *n, enum ht_dtype dtype, bool near_weights)
{
	struct conv v;
	int64_t filter[4];
	const struct ht_winograd by = taken(t, n, dtype, filter, &v);
	const double matrices = (by.m + 2) * (by.m + 2);
	double cycles = by.cycles, direct;
	struct ht_winograd_shape shape;

	if (!by.m)
		return 0;
	shape = shape_to_price(t, n, &v);
	direct = direct_cycles(t, &v, &shape, HT_F32, HT_F32);
	if (near_weights) {
		cycles -= weights_cycles(t, &v, matrices * ht_dtype_info(by.dtype)->bytes);
		direct -= weights_cycles(t, &v, 9 * ht_dtype_info(HT_F32)->bytes);
	}
	return cycles / direct;
}

bool ht_winograd_rounds(const struct ht_target *t, const struct ht_node *n, enum ht_dtype dtype)
{
	struct conv v;
	int64_t filter[4];
	const struct ht_winograd by = taken(t, n, dtype, filter, &v);

	return by.m && ht_is_low(by.dtype);
}

struct ht_winograd wanted_winograd(struct lower *l, const struct ht_node *n, const struct conv *v)
{
	const struct ht_winograd none = { 0 };
	const int image = image_of(n);
	enum ht_dtype dtype = ht_type_of(n->in[image])->dtype;
	enum ht_dtype multiplied =
		ht_target_multiplied(l->target, dtype, contract_sums_short(l, n));
	struct ht_method_choice why = {
		.method = HT_METHOD_DIRECT, .other = HT_METHOD_END, .reason = HT_REASON_MODE
	};
	/* That method records its own choice, if it is used. */
	bool told = ht_is(n, HT_CONV) && conv_has_one_result(l, v);
	struct ht_winograd by = none;

	if (!fits(v) || lower_operand(l, n, image)->stride[3] != 1)
		return none;
	if (lower_mode(n) != HT_IMPL_NONE && lower_mode(n) != HT_IMPL_HIGH_PERFORMANCE) {
		if (!told)
			plan_choice(l, n, why);
		return none;
	}
	ht_note_read(l->asked->reads, HT_READ_conv_method);
	if (l->asked->asked.conv == HT_CONV_AUTO)
		by = faster(l->target, n, v, dtype, multiplied, &why);
	else
		by = asked(l, n, v, multiplied, &why);
	if (by.m || !told)
		plan_choice(l, n, why);
	return by;
}

/* ---- the kernel ---- */

static int matrices(const struct winograd *w)
{
	return w->side * w->side;
}

static void pack_filters(struct winograd *w)
{
	const struct ht_tensor *t = ht_const_tensor(w->n->in[1]);
	struct contraction *c = &w->c;
	struct ht_pack p;

	contract_init(c, w->l, w->n, w->by.dtype);
	c->columns = w->results;
	c->depth = w->channels;
	c->packed_type = w->by.dtype;
	ht_schedule_packing(
		w->l->target, w->by.dtype, w->block, w->results, w->channels, &c->nr, &c->kp);
	p = (struct ht_pack){ .src_dtype = t ? t->dtype : w->by.dtype,
		.dst_dtype = w->by.dtype,
		.taps = 1,
		.depth = w->channels,
		.n = w->results,
		.sq = w->channels * w->results,
		.sk = w->results,
		.sn = 1,
		.nr = c->nr,
		.kp = c->kp,
		.winograd = w->by.m };
	c->packed_count = ht_packed_count(&p) / matrices(w);
	if (t)
		c->b = plan_packed(w->l, t, 0, &p, 1, 0);
	else
		winograd_pack_computed(c, w->by.m);
}

/* ---- places in the local buffers ---- */

/* Tiles of the run, along the height (i is 0) or width.  They have no gaps between them in the block. */
static int32_t tiles_of_run(struct winograd *w, int i)
{
	if (!w->end[i].size)
		return ht_xi(w->b, w->by.tiles[i]);
	return ht_xdivi(
		w->b, ht_xaddi(w->b, kb_size(w->k, w->end[i].size - 1), w->by.m - 1), w->by.m);
}

static struct ht_size_expr number_of_tiles(const struct winograd *w, int i)
{
	if (!w->end[i].size)
		return ht_size_number(w->by.tiles[i]);
	return ht_size_floor(ht_size_multiple(1, w->end[i].size - 1), w->by.m - 1, w->by.m);
}

/* Ends dimension `dim` at the run's height (i is 0) or width. */
static void cut_tiles(struct winograd *w, int dim, int i)
{
	if (!w->end[i].size)
		return;
	kb_take_sizes(w->k);
	w->k->stage->dim[dim].cut[0] = (struct ht_cut){ number_of_tiles(w, i), w->by.tiles[i] };
}

/* A number that is not below the run's tiles of height h and width w, both of at least `l`, whose exact number is the product of two
 * rounded quotients:
 *	ceil(h / m) ceil(w / m) <= (h + m - 1) (w + m - 1) / m^2, where h + w <= h w / l + l as (h - l) (w - l) >= 0. */
static struct ht_size_expr most_tiles(const struct winograd *w)
{
	const int64_t least[2] = { least_out(w->n, w->v, 0), least_out(w->n, w->v, 1) };
	const int64_t l = least[0] < least[1] ? least[0] : least[1], more = w->by.m - 1;
	const struct ht_size_expr pixels =
		ht_size_product(ht_size_multiple(l + more, w->end[0].size - 1),
			ht_size_multiple(1, w->end[1].size - 1));

	return ht_size_floor(pixels, more * l * (l + more), l * w->by.m * w->by.m);
}

/* Ends dimension `dim`, the tiles of blocks, at those of the run: in each block if there are several. */
static void cut_blocks(struct winograd *w, int dim)
{
	const bool one = w->by.rows == w->by.tiles[0];
	struct ht_size_expr rows = ht_size_number(w->by.rows), width = number_of_tiles(w, 1);
	struct ht_size_expr tiles = ht_size_product(one ? number_of_tiles(w, 0) : rows, width);
	struct ht_size_expr most = ht_size_number(w->block);
	struct ht_cut *cut = w->k->stage->dim[dim].cut;

	if (ht_size_is_none(&tiles)) { /* both are rounded quotients */
		tiles = ht_size_product(rows, width);
		most = most_tiles(w);
	}
	if (!ht_size_count(&tiles))
		return;
	if (ht_size_count(&most))
		cut[1] = (struct ht_cut){ most, w->block };
	kb_take_sizes(w->k);
	cut[0] = (struct ht_cut){ tiles, w->block };
}

/* Ends dimension `dim`, which has `inner` indices for each image, at the run's number of images. */
static void cut_images(struct winograd *w, int dim, int64_t inner)
{
	const struct ht_value v = ht_out(w->k->sink, 0);
	const int64_t images = w->v->out.dim[0];
	struct ht_cut *cut = w->k->stage->dim[dim].cut, *end = cut + HT_CUTS;

	while (cut < end && cut->run)
		cut++;
	kb_cut(w->k, dim, v,
		(struct cut_span){ .stride = ht_shape_count(ht_type_of(v)->shape) / images,
			.extent = images });
	for (; cut < end && cut->run; cut++)
		*cut = (struct ht_cut){ ht_size_product(cut->end, ht_size_number(inner)),
			cut->run * inner };
}

/* Tile of the block, from the image, the rows and columns of tiles. */
static int32_t tile_of_block(struct winograd *w)
{
	struct ht_xb *b = w->b;
	int32_t row = w->x[1], image;

	if (w->by.images == 1) {
		row = ht_xsub(b, row, ht_xmuli(b, ht_xgrid(b, 1), w->by.rows));
	} else {
		image = ht_xsub(b, w->x[0], ht_xmuli(b, ht_xgrid(b, 0), w->by.images));
		row = ht_xadd(b, ht_xmuli(b, image, w->by.tiles[0]), row);
	}
	return ht_xadd(b, ht_xmul(b, row, tiles_of_run(w, 1)), w->x[2]);
}

/* Channel of the block, from the result's channel. */
static int32_t column_of_block(struct winograd *w, int32_t n)
{
	struct ht_xb *b = w->b;

	return ht_xsub(b, n, ht_xmuli(b, ht_xgrid(b, 2), w->by.columns));
}

/* The distance of two products in a local buffer, in tiles: those that a block has of the run's image. */
static int32_t tiles_of_product(struct winograd *w)
{
	struct ht_xb *b = w->b;
	int32_t rows;

	if (!w->end[0].size && !w->end[1].size)
		return ht_xi(b, w->block);
	rows = ht_xmin(b, ht_xi(b, w->by.rows), tiles_of_run(w, 0));
	return ht_xmul(b, rows, tiles_of_run(w, 1));
}

static int64_t gap_of(enum ht_dtype t)
{
	return GAP_BYTES / (int64_t)ht_dtype_info(t)->bytes;
}

static struct local make_local(struct winograd *w, enum ht_dtype t, int64_t columns)
{
	return (struct local){ kb_local(w->k, t, matrices(w) * (w->block * columns + gap_of(t))), t,
		columns };
}

static int32_t local_at(
	struct winograd *w, const struct local *in, int32_t product, int32_t tile, int32_t column)
{
	struct ht_xb *b = w->b;
	int32_t row = ht_xadd(b, ht_xmul(b, product, tiles_of_product(w)), tile);

	column = ht_xadd(b, column, ht_xmuli(b, product, gap_of(in->dtype)));
	return ht_xadd(b, ht_xmuli(b, row, in->columns), column);
}

/* ---- stages ---- */

/* A loop over images, the block's rows of tiles, their columns; and `columns` along lanes. */
static void open_tiles(struct winograd *w, int64_t columns, bool blocked)
{
	struct kernel_build *k = w->k;

	kb_stage(k, HT_STAGE_LOOP);
	kb_grid_dim(k, 0, w->v->out.dim[0], w->by.images);
	kb_grid_dim(k, 1, w->by.tiles[0], w->by.rows);
	kb_dim(k, w->by.tiles[1]);
	k->stage->vec = blocked ? kb_grid_dim(k, 2, columns, w->by.columns) : kb_dim(k, columns);
	cut_images(w, 0, 1);
	cut_tiles(w, 1, 0);
	cut_tiles(w, 2, 1);
	for (int i = 0; i < 4; i++)
		w->x[i] = ht_xdim(w->b, i);
}

/* Where the run's image ends.  A tile whose last results are behind those of the run also reads what is behind that end.  It is memory
 * that nothing may have stored to, and the transforms mix it with the elements that the run's results need, so it counts as 0. */
static int32_t image_end(struct winograd *w, int i)
{
	const struct ht_open_axis end = lower_axis_end(w->n, 1 + i);
	const struct window *v = &w->v->w[i];

	if (v->open.size || !end.size)
		return window_end(w->k, v);
	return ht_xaddi(w->b, kb_axis_end(w->k, &end, v->out), v->size - 1 - v->before);
}

static int32_t image_element(struct winograd *w, const struct view *in, int h, int ww)
{
	struct ht_xb *b = w->b;
	struct space at = { .rank = 4, .guard = -1 };
	const int tap[2] = { h, ww };
	int32_t x[4] = { w->x[0], 0, 0, w->x[3] };

	for (int i = 0; i < 2; i++) {
		x[1 + i] = ht_xmuli(b, w->x[1 + i], w->by.m);
		x[1 + i] = ht_xaddi(b, x[1 + i], tap[i] - w->v->w[i].before);
		space_and_guard(b, &at, ht_xle(b, ht_xi(b, 0), x[1 + i]));
		space_and_guard(b, &at, ht_xlt(b, x[1 + i], image_end(w, i)));
	}
	at = space_of_coords(&at, 4, w->v->in.dim, x);
	return kb_load(w->k, in, &at);
}

static void image_stage(struct winograd *w)
{
	enum { MOST = HT_WINOGRAD_MOST };
	const struct view *in = lower_operand(w->l, w->n, w->image_arg);
	int32_t column[MOST], half[MOST][MOST], r[MOST], tile;
	int m = w->by.m, side = w->side;

	open_tiles(w, w->channels, false);
	for (int j = 0; j < side; j++) {
		for (int i = 0; i < side; i++)
			column[i] = image_element(w, in, i, j);
		ht_winograd_image(w->b, m, column, r);
		for (int i = 0; i < side; i++)
			half[i][j] = r[i];
	}
	tile = tile_of_block(w);
	for (int i = 0; i < side; i++) {
		ht_winograd_image(w->b, m, half[i], r);
		for (int j = 0; j < side; j++)
			ht_xstore(w->b, w->image.buffer,
				local_at(w, &w->image, ht_xi(w->b, i * side + j), tile, w->x[3]),
				ht_xcvt(w->b, w->by.dtype, r[j]));
	}
}

static void product_stage(struct winograd *w)
{
	const int64_t image_tiles = w->by.tiles[0] * w->by.tiles[1];
	const int grid = w->by.images > 1 ? 0 : 1; /* whose step is a block */
	struct kernel_build *k = w->k;
	struct ht_xb *b = w->b;
	struct ht_contract *c;
	int32_t product, tile, tiles, guard, m, n;

	c = &kb_stage(k, HT_STAGE_CONTRACT)->contract;
	if (grid == 1)
		kb_grid_dim(k, 0, w->v->out.dim[0], 1);
	product = ht_xdim(b, kb_dim(k, matrices(w)));
	c->m = kb_grid_dim(k, grid, (grid == 1 ? 1 : w->v->out.dim[0]) * image_tiles, w->block);
	c->n = kb_grid_dim(k, 2, w->results, w->by.columns);
	kb_reduce_dim(k, w->channels);
	if (grid == 1) {
		cut_images(w, 0, 1);
		cut_blocks(w, c->m);
	} else {
		cut_images(w, c->m, image_tiles);
	}
	k->stage->vec = c->n;
	m = ht_xdim(b, c->m);
	n = ht_xdim(b, c->n);
	tile = ht_xsub(b, m, ht_xmuli(b, ht_xgrid(b, grid), w->block));
	c->a_buffer = w->image.buffer;
	c->b_buffer = kb_arg(k, w->c.b, HT_BUFFER_IN);
	c->a_row = local_at(w, &w->image, product, tile, ht_xi(b, 0));
	c->a_guard = -1;
	c->a_step = 1;
	c->b_base = ht_xmuli(b, product, w->c.packed_count);
	c->nr = w->c.nr;
	c->kp = w->c.kp;
	c->run = w->by.dtype == HT_F16 ? HT_SHORT_RUN : 0;
	tiles = tiles_of_product(w);
	guard = ht_xlt(b, tile, tiles); /* behind them the next product begins */
	ht_xstore_if(b, w->product.buffer,
		local_at(w, &w->product, product, tile, column_of_block(w, n)),
		ht_xred(b, 0, HT_F32), w->end[0].size || w->end[1].size ? guard : -1);
}

/* Where lines of the result are as long as the run's, no line behind its last one is touched; kb_store() guards the columns then. */
static void guard_result(struct winograd *w, int i, int32_t x, struct space *at)
{
	const struct view *to = w->l->view[w->k->sink->id];
	const int64_t out = w->v->out.dim[1 + i];

	if (to->ends && to->rank == 4 && w->end[i].size && ht_size_count(&to->ends[1 + i])) {
		if (i == 0)
			space_and_guard(
				w->b, at, ht_xlt(w->b, x, kb_size(w->k, w->end[i].size - 1)));
	} else if (out % w->by.m) {
		space_and_guard(w->b, at, ht_xlt(w->b, x, ht_xi(w->b, out)));
	}
}

/* Stores the epilogue of result (h, w) of the tile, unless it is outside of the image. */
static void store_result(struct winograd *w, int h, int ww, int32_t x)
{
	struct ht_xb *b = w->b;
	struct space at = { .rank = 4, .guard = -1 };
	const int place[2] = { h, ww };
	int32_t coord[4] = { w->x[0], 0, 0, w->x[3] };

	for (int i = 0; i < 2; i++) {
		coord[1 + i] = ht_xmuli(b, w->x[1 + i], w->by.m);
		coord[1 + i] = ht_xaddi(b, coord[1 + i], place[i]);
		guard_result(w, i, coord[1 + i], &at);
	}
	at = space_of_coords(&at, 4, w->v->out.dim, coord);
	kb_store_root(w->k, w->n, x, &at);
}

static void result_stage(struct winograd *w)
{
	enum { MOST = HT_WINOGRAD_MOST };
	int32_t column[MOST], half[MOST][MOST], r[MOST], tile, n;
	int m = w->by.m, side = w->side;

	open_tiles(w, w->results, true);
	tile = tile_of_block(w);
	n = column_of_block(w, w->x[3]);
	for (int j = 0; j < side; j++) {
		for (int i = 0; i < side; i++)
			column[i] = ht_xload(w->b, w->product.buffer, w->product.dtype,
				local_at(w, &w->product, ht_xi(w->b, i * side + j), tile, n));
		ht_winograd_result(w->b, m, column, r);
		for (int i = 0; i < m; i++)
			half[i][j] = r[i];
	}
	for (int i = 0; i < m; i++) {
		ht_winograd_result(w->b, m, half[i], r);
		for (int j = 0; j < m; j++)
			store_result(w, i, j, r[j]);
	}
}

void emit_winograd(
	struct lower *l, struct ht_node *n, const struct conv *v, const struct ht_winograd *by)
{
	struct kernel_build k;
	struct winograd w;
	int64_t grid[3];

	w = (struct winograd){ .l = l,
		.n = n,
		.v = v,
		.channels = v->in.dim[3],
		.results = v->out.dim[3],
		.by = *by,
		.image_arg = image_of(n),
		.side = by->m + 2,
		.block = by->images * by->rows * by->tiles[1],
		.k = &k,
		.b = &k.xb };
	for (int32_t i = 0; i < 2; i++) {
		w.end[i] = lower_axis_end(n, 1 + i);
		if (w.end[i].inner != 1)
			w.end[i].size = 0;
	}
	pack_filters(&w);
	kb_init(&k, l, n);
	k.kernel->method = ht_method_info[method_of(by)].name;
	grid[0] = ht_ceil_div(v->out.dim[0], by->images);
	grid[1] = ht_ceil_div(by->tiles[0], by->rows);
	grid[2] = ht_ceil_div(w.results, by->columns);
	kb_grid(&k, 3, grid);
	w.image = make_local(&w, by->dtype, w.channels);
	w.product = make_local(&w, HT_F32, by->columns);
	image_stage(&w);
	product_stage(&w);
	result_stage(&w);
	kb_finish(&k, n);
}
