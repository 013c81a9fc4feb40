/* Matrix products of float32 on a machine that multiplies matrices of bfloat16.
 *
 * A float32 number is the sum of three of bfloat16, which have 8 bits each: its pieces.  A product of two numbers is the sum of nine
 * products of pieces, of which the three that are smaller than 2^-24 of it do not count.  So six products of a matrix unit make one of
 * float32, in less time than the vector unit takes for it.  Each product of pieces is exact, and sums are in float32.  Only a node
 * whose mode is high_performance gets this method, since a matrix unit may be slower than the vector unit while another thread shares the
 * processor's core.
 *
 * Weights are packed in pieces; a kernel in front of the product divides its rows.  Pieces of infinities and NaN are these and zeros.
 * No piece of a weight is zero, unless the weight is, so an infinity times each of them is the same infinity. */
#include "lower/product.h"

#include <math.h>

static const double MOST_SHARE = 0.9, /* dividing rows takes time as well */
	ERROR = 1.2e-7; /* root mean square of 256 random products; by multiply-adds 2.8e-7 */

enum {
	LEAST_ROWS = 16,    /* fewer leave a tile of the matrix unit half empty */
	LEAST_DEPTH = 48,   /* a shorter sum takes less time than dividing its rows */
	LEAST_COLUMNS = 64, /* as many share the divided rows */
	MOST_DEPTH = 4096   /* a matrix unit sums without runs */
};

static bool are_finite(const struct ht_tensor *t)
{
	const size_t n = t->blob->n / sizeof(float);

	for (size_t i = 0; i < n; i++)
		if (!isfinite(ht_load_f32(t->blob->p, (int64_t)i)))
			return false;
	return true;
}

/* The estimated time of the products of pieces, as a share of that of products of float32. */
static double share_of_time(const struct ht_target *t)
{
	const double products = PIECES * (PIECES + 1) / 2.0;

	return products * ht_target_products(t, HT_F32) / ht_target_products(t, HT_BF16);
}

/* Whether the product is in a loop, and no run that comes to it has few rows. */
static bool has_rows(const struct lower *l, const struct product *p)
{
	const enum ht_recurrent_rows rows = l->invariant ? l->invariant->rows : HT_RECURRENT_FEW;

	return p->rows >= LEAST_ROWS &&
	       (rows == HT_RECURRENT_MANY || (rows == HT_RECURRENT_ANY && !l->g->sizes));
}

/* Whether the pieces of the weights stay in the second level, together with those of another product of the loop. */
static bool weights_stay(const struct lower *l, const struct product *p)
{
	return p->depth * p->columns * PIECES * (int64_t)ht_dtype_info(HT_BF16)->bytes <=
	       l->target->l2 / 2;
}

static bool has_sizes(const struct lower *l, const struct ht_node *n, const struct product *p)
{
	return has_rows(l, p) && p->depth >= LEAST_DEPTH && p->depth <= MOST_DEPTH &&
	       p->columns >= LEAST_COLUMNS && weights_stay(l, p) && !lower_cuts_depth(l, n);
}

bool product_in_pieces(const struct lower *l, const struct ht_node *n, const struct product *p)
{
	const struct ht_tensor *weights = ht_const_tensor(n->in[1]);

	return weights && ht_type_of(n->in[0])->dtype == HT_F32 && !ht_const_tensor(n->in[0]) &&
	       l->target->matrix_bf16 == 2 && share_of_time(l->target) < MOST_SHARE &&
	       !product_transposes(n, true) && p->a.rank == 2 && p->b.rank == 2 &&
	       lower_mode(n) == HT_IMPL_HIGH_PERFORMANCE && has_sizes(l, n, p) &&
	       are_finite(weights);
}

/* Piece after piece of x: what is left of it, rounded to bfloat16 where it is stored. */
static int32_t rest_of(struct ht_xb *b, int32_t x)
{
	const int32_t piece = ht_xcvt(b, HT_F32, ht_xcvt(b, HT_BF16, x));
	const int32_t rest = ht_xsub(b, x, piece), zero = ht_xf(b, 0);

	return ht_xselect(b, ht_xlt(b, ht_xabs(b, piece), ht_xf(b, INFINITY)), rest, zero);
}

struct view product_divide_rows(struct lower *l, struct ht_node *n, const struct view *a)
{
	const int64_t rows = a->dim[0], depth = a->dim[1];
	const int64_t dim[3] = { rows, ht_ceil_div(depth, HT_PIECE_DEPTH), HT_PIECE_DEPTH };
	const int64_t row = dim[1] * PIECES * HT_PIECE_DEPTH;
	struct kernel_build k;
	struct space s, at;
	struct view to, all;
	int32_t x[2], v;

	view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, HT_BF16, rows * row),
		(struct ht_shape){ 3, dim });
	to.stride[0] = row;
	to.stride[1] = PIECES * HT_PIECE_DEPTH;
	if (!l->chosen[n->id])
		plan_choice(l, n,
			(struct ht_method_choice){ .method = HT_METHOD_PIECES,
				.other = HT_METHOD_END,
				.reason = HT_REASON_MATRIX_UNIT,
				.is = share_of_time(l->target),
				.limit = MOST_SHARE,
				.error = ERROR });
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, 3, dim, ~0u);
	kb_cut(&k, 0, n->in[0], (struct cut_span){ .stride = depth, .extent = rows });
	at = s;
	x[0] = space_coord(&k.xb, &s, 0);
	x[1] = ht_xmuli(&k.xb, space_coord(&k.xb, &s, 1), HT_PIECE_DEPTH);
	x[1] = ht_xadd(&k.xb, x[1], space_coord(&k.xb, &s, 2));
	if (depth % HT_PIECE_DEPTH)
		space_and_guard(&k.xb, &at, ht_xlt(&k.xb, x[1], ht_xi(&k.xb, depth)));
	at = space_of_coords(&at, 2, a->dim, x);
	v = kb_load(&k, a, &at);
	for (int i = 0; i < PIECES; i++) {
		v = i ? rest_of(&k.xb, v) : v;
		kb_store(&k, &to, &s, v);
		to.offset += HT_PIECE_DEPTH;
	}
	kb_finish(&k, n);
	view_dense(&all, to.buffer, (struct ht_shape){ 2, (int64_t[]){ rows, row } });
	return all;
}
