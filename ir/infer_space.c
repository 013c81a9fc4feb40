/* Rules of images: space, depth and batch are exchanged; resizing; boxes. */
#include "ir/infer.h"

/* The axes of a tensor of rank 4, by data_format. */
static enum ht_status image_axes(
	struct ht_infer *in, const struct ht_node *n, int *h, int *w, int *c)
{
	struct ht_str format = ht_attr_str(n, "data_format", "NHWC");

	*h = 1, *w = 2, *c = 3;
	if (ht_str_is(format, "NCHW"))
		*c = 1, *h = 2, *w = 3;
	else if (!ht_str_is(format, "NHWC"))
		return ht_infer_refuse(
			in, n, "attribute 'data_format' is '%.*s'", HT_STR_ARG(format));
	return ht_want_rank(in, n, 0, 4);
}

static enum ht_status block_size(struct ht_infer *in, const struct ht_node *n, int64_t *block)
{
	*block = ht_attr_int(n, "block_size", 0);
	if (*block < 1 || *block > INT32_MAX)
		return ht_infer_refuse(in, n, "attribute 'block_size' is %lld", (long long)*block);
	return HT_OK;
}

static enum ht_status divide(
	struct ht_infer *in, const struct ht_node *n, int64_t size, int64_t by, int64_t *r)
{
	*r = HT_DIM_UNKNOWN;
	if (size >= 0 && size % by)
		return ht_infer_fail(
			in, n, "%lld is no multiple of %lld", (long long)size, (long long)by);
	if (size >= 0)
		*r = size / by;
	return HT_OK;
}

/* The common begin of both directions; *d is NULL if the operand's rank is not known. */
static enum ht_status start_depth(
	struct ht_infer *in, struct ht_node *n, int64_t *block, int *h, int *w, int *c, int64_t **d)
{
	int64_t *dims = ht_new_dims(in, 4);

	HT_TRY(block_size(in, n, block));
	HT_TRY(image_axes(in, n, h, w, c));
	ht_set_shape(n, 0, 4, dims);
	*d = NULL;
	if (ht_in_shape(n, 0).rank < 0)
		return HT_OK;
	dims[0] = ht_in_shape(n, 0).dim[0];
	*d = dims;
	return HT_OK;
}

enum ht_status ht_infer_depth_to_space(struct ht_infer *in, struct ht_node *n)
{
	const int64_t *from = ht_in_shape(n, 0).dim;
	int64_t *d, block;
	int h, w, c;

	HT_TRY(start_depth(in, n, &block, &h, &w, &c, &d));
	if (!d)
		return HT_OK;
	d[h] = ht_dim_mul(in, from[h], block);
	d[w] = ht_dim_mul(in, from[w], block);
	return divide(in, n, from[c], block * block, &d[c]);
}

enum ht_status ht_infer_space_to_depth(struct ht_infer *in, struct ht_node *n)
{
	const int64_t *from = ht_in_shape(n, 0).dim;
	int64_t *d, block;
	int h, w, c;

	HT_TRY(start_depth(in, n, &block, &h, &w, &c, &d));
	if (!d)
		return HT_OK;
	d[c] = ht_dim_mul(in, from[c], block * block);
	HT_TRY(divide(in, n, from[h], block, &d[h]));
	return divide(in, n, from[w], block, &d[w]);
}

/* Operands of the ND forms: tensor, block shape [m], paddings or crops [m,2]. */
struct blocks {
	int32_t m;
	int64_t *block; /* HT_DIM_UNKNOWN: not known */
	int64_t *edge;  /* padding or crop, the sum of both sides; likewise */
};

static enum ht_status read_edges(
	struct ht_infer *in, const struct ht_node *n, int32_t operand, struct blocks *b)
{
	const struct ht_known *k = ht_in_known(in, n, operand);

	b->edge = ht_new_dims(in, b->m);
	if (k && k->n != 2 * b->m)
		return ht_infer_fail(
			in, n, "operand %d must have %d rows of 2", (int)operand, (int)b->m);
	for (int32_t i = 0; k && i < b->m; i++) {
		const struct ht_elem *e = &k->e[2 * i];

		if (e[0].kind != HT_ELEM_INT || e[1].kind != HT_ELEM_INT)
			continue;
		if (e[0].i < 0 || e[1].i < 0)
			return ht_infer_fail(
				in, n, "operand %d has negative elements", (int)operand);
		b->edge[i] = ht_dim_add(e[0].i, e[1].i);
	}
	return HT_OK;
}

static enum ht_status read_blocks(struct ht_infer *in, const struct ht_node *n, struct blocks *b)
{
	const struct ht_known *k = ht_in_known(in, n, 1);
	struct ht_shape s = ht_in_shape(n, 0);

	b->m = k ? k->n : -1;
	if (!k)
		return HT_OK;
	if (s.rank >= 0 && s.rank < b->m + 1)
		return ht_infer_fail(in, n, "%.*s has fewer than %d axes",
			HT_STR_ARG(ht_shape_text(in, s)), (int)b->m + 1);
	b->block = ht_new_dims(in, b->m);
	for (int32_t i = 0; i < b->m; i++) {
		if (k->e[i].kind != HT_ELEM_INT)
			continue;
		if (k->e[i].i < 1)
			return ht_infer_fail(in, n, "block size %lld", (long long)k->e[i].i);
		b->block[i] = k->e[i].i;
	}
	return read_edges(in, n, 2, b);
}

/* The older forms have attribute block_size for axes 1 and 2, and the edges in operand 1. */
static enum ht_status read_two_blocks(
	struct ht_infer *in, const struct ht_node *n, struct blocks *b)
{
	HT_TRY(ht_want_rank(in, n, 0, 4));
	b->m = 2;
	b->block = ht_new_dims(in, 2);
	HT_TRY(block_size(in, n, &b->block[0]));
	b->block[1] = b->block[0];
	return read_edges(in, n, 1, b);
}

/* The dimensions of the result: those of the operand, with unknown dimensions where blocks change
 * them. */
static int64_t *dims_to_change(
	struct ht_infer *in, struct ht_node *n, struct ht_shape s, const struct blocks *b)
{
	int64_t *d = ht_new_dims(in, s.rank);

	for (int32_t i = 0; i < s.rank; i++)
		d[i] = b->m < 0 && i < s.rank - 1 ? HT_DIM_UNKNOWN : s.dim[i];
	ht_set_shape(n, 0, s.rank, d);
	return d;
}

static enum ht_status to_batch(struct ht_infer *in, struct ht_node *n, const struct blocks *b)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	d = dims_to_change(in, n, s, b);
	for (int32_t i = 0; i < b->m; i++) {
		int64_t padded =
			b->edge[i] == 0 ? s.dim[i + 1] : ht_dim_add(s.dim[i + 1], b->edge[i]);

		d[0] = b->block[i] < 0 ? HT_DIM_UNKNOWN : ht_dim_mul(in, d[0], b->block[i]);
		if (b->block[i] == 1)
			d[i + 1] = padded;
		else if (b->block[i] < 0)
			d[i + 1] = HT_DIM_UNKNOWN;
		else
			HT_TRY(divide(in, n, padded, b->block[i], &d[i + 1]));
	}
	return HT_OK;
}

static enum ht_status from_batch(struct ht_infer *in, struct ht_node *n, const struct blocks *b)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	d = dims_to_change(in, n, s, b);
	for (int32_t i = 0; i < b->m; i++) {
		int64_t whole = b->block[i] < 0 ? HT_DIM_UNKNOWN
						: ht_dim_mul(in, s.dim[i + 1], b->block[i]);

		if (b->block[i] < 0)
			d[0] = HT_DIM_UNKNOWN;
		else if (b->block[i] > 1)
			HT_TRY(divide(in, n, d[0], b->block[i], &d[0]));
		if (whole >= 0 && b->edge[i] > whole)
			return ht_infer_fail(in, n, "crops are larger than the image");
		d[i + 1] = b->edge[i] == 0               ? whole
			   : whole < 0 || b->edge[i] < 0 ? HT_DIM_UNKNOWN
							 : whole - b->edge[i];
	}
	return HT_OK;
}

typedef enum ht_status read_fn(struct ht_infer *in, const struct ht_node *n, struct blocks *b);
typedef enum ht_status apply_fn(struct ht_infer *in, struct ht_node *n, const struct blocks *b);

static enum ht_status exchange(
	struct ht_infer *in, struct ht_node *n, read_fn *read, apply_fn *apply)
{
	struct blocks b = { 0 };

	HT_TRY(read(in, n, &b));
	return apply(in, n, &b);
}

enum ht_status ht_infer_space_to_batch_nd(struct ht_infer *in, struct ht_node *n)
{
	return exchange(in, n, read_blocks, to_batch);
}

enum ht_status ht_infer_space_to_batch(struct ht_infer *in, struct ht_node *n)
{
	return exchange(in, n, read_two_blocks, to_batch);
}

enum ht_status ht_infer_batch_to_space_nd(struct ht_infer *in, struct ht_node *n)
{
	return exchange(in, n, read_blocks, from_batch);
}

enum ht_status ht_infer_batch_to_space(struct ht_infer *in, struct ht_node *n)
{
	return exchange(in, n, read_two_blocks, from_batch);
}

/* Operands: NHWC images; the new height and width. */
/* The size is operand `arg`. */
static enum ht_status resized(struct ht_infer *in, struct ht_node *n, int32_t arg)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *k = ht_in_known(in, n, arg);
	int64_t *d = ht_new_dims(in, 4);

	HT_TRY(ht_want_rank(in, n, 0, 4));
	HT_TRY(ht_want_rank(in, n, arg, 1));
	if (k && k->n != 2)
		return ht_infer_fail(in, n, "size must have 2 elements");
	ht_set_shape(n, 0, 4, d);
	if (s.rank == 4) {
		d[0] = s.dim[0];
		d[3] = s.dim[3];
	}
	for (int i = 0; k && i < 2; i++) {
		if (k->e[i].kind == HT_ELEM_INT && k->e[i].i < 1)
			return ht_infer_fail(
				in, n, "size %lld must be positive", (long long)k->e[i].i);
		d[i + 1] = ht_elem_dim(&k->e[i]);
	}
	return HT_OK;
}

enum ht_status ht_infer_resize(struct ht_infer *in, struct ht_node *n)
{
	return resized(in, n, 1);
}

/* Operands: images, maps, size. */
enum ht_status ht_infer_transform(struct ht_infer *in, struct ht_node *n)
{
	return resized(in, n, 2);
}

/* Operands: images, boxes, the image of each box, size. */
enum ht_status ht_infer_crop_and_resize(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), boxes = ht_in_shape(n, 1), which = ht_in_shape(n, 2);
	const struct ht_known *k = ht_in_known(in, n, 3);
	int64_t *d = ht_new_dims(in, 4);

	HT_TRY(ht_want_rank(in, n, 0, 4));
	HT_TRY(ht_want_rank(in, n, 1, 2));
	HT_TRY(ht_want_rank(in, n, 2, 1));
	HT_TRY(ht_want_rank(in, n, 3, 1));
	ht_set_shape(n, 0, 4, d);
	if (boxes.rank == 2) {
		d[0] = boxes.dim[0];
		if (boxes.dim[1] >= 0 && boxes.dim[1] != 4)
			return ht_infer_fail(
				in, n, "boxes have %lld numbers, not 4", (long long)boxes.dim[1]);
	}
	if (which.rank == 1 && !ht_merge_dim(d[0], which.dim[0], &d[0]))
		return ht_infer_fail(in, n, "there are not as many boxes as images of boxes");
	if (s.rank == 4) {
		d[3] = s.dim[3];
		if (s.dim[1] == 0 || s.dim[2] == 0)
			return ht_infer_fail(in, n, "the images have no pixels");
	}
	if (k && k->n != 2)
		return ht_infer_fail(in, n, "crop_size must have 2 elements");
	for (int i = 0; k && i < 2; i++) {
		if (k->e[i].kind == HT_ELEM_INT && k->e[i].i < 1)
			return ht_infer_fail(
				in, n, "crop_size %lld must be positive", (long long)k->e[i].i);
		d[i + 1] = ht_elem_dim(&k->e[i]);
	}
	return HT_OK;
}
