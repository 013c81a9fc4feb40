/* Ops that move blocks between space, depth and batch. */
#include "lower/index.h"
#include "lower/parts.h"

static const char *refuse_unless_nhwc(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC")
		       ? NULL
		       : "has no kernel for this data_format";
}

/* r[n, h, w, c] = x[n, h / b, w / b, ((h % b) * b + w % b) * C + c] */
static int32_t pull_depth_to_space(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int64_t block = ht_attr_int(n, "block_size", 2);
	int32_t c[4], x[4];

	(void)out;
	for (int32_t i = 0; i < 4; i++)
		c[i] = space_coord(b, s, i);
	x[0] = c[0];
	x[1] = ht_xdivi(b, c[1], block);
	x[2] = ht_xdivi(b, c[2], block);
	x[3] = ht_xadd(b, ht_xmuli(b, ht_xmodi(b, c[1], block), block), ht_xmodi(b, c[2], block));
	x[3] = ht_xadd(b, ht_xmuli(b, x[3], s->dim[3]), c[3]);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_depth_to_space = { .family = FAMILY_MAP,
	.pull = pull_depth_to_space,
	.refuse = refuse_unless_nhwc,
	.rows = rows_of_image };

/* r[n, h, w, (i * b + j) * C + c] = x[n, h * b + i, w * b + j, c] */
static int32_t pull_space_to_depth(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int64_t block = ht_attr_int(n, "block_size", 2), depth = shape_of(n, 0).dim[3];
	int32_t c[4], x[4], within;

	(void)out;
	for (int32_t i = 0; i < 4; i++)
		c[i] = space_coord(b, s, i);
	within = ht_xdivi(b, c[3], depth);
	x[0] = c[0];
	x[1] = ht_xadd(b, ht_xmuli(b, c[1], block), ht_xdivi(b, within, block));
	x[2] = ht_xadd(b, ht_xmuli(b, c[2], block), ht_xmodi(b, within, block));
	x[3] = ht_xmodi(b, c[3], depth);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_space_to_depth = { .family = FAMILY_MAP,
	.pull = pull_space_to_depth,
	.refuse = refuse_unless_nhwc,
	.rows = rows_of_image };

/* The batch dimension of a block op is (position within the blocks, row-major) * batch + n. */
struct blocks {
	int32_t count; /* spatial dimensions */
	int64_t size[HT_LOWER_RANK], before[HT_LOWER_RANK];
};

static void read_blocks(const struct ht_node *n, struct blocks *k)
{
	bool listed = n->op == HT_OP_SpaceToBatchND || n->op == HT_OP_BatchToSpaceND;
	const struct ht_tensor *pads = ht_const_tensor(n->in[listed ? 2 : 1]);

	k->count = listed ? (int32_t)shape_of(n, 1).dim[0] : 2;
	for (int32_t i = 0; i < k->count; i++) {
		k->size[i] = listed ? const_int(n, 1, (size_t)i) : ht_attr_int(n, "block_size", 2);
		k->before[i] = ht_tensor_int(pads, 2 * (size_t)i);
	}
}

static int32_t pull_space_to_batch(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	struct blocks blocks;
	int32_t x[HT_LOWER_RANK], batch = space_coord(b, s, 0), within, inside = -1;
	struct space at;
	int32_t value;

	(void)out;
	read_blocks(n, &blocks);
	for (int32_t i = 0; i < in.rank; i++)
		x[i] = space_coord(b, s, i);
	within = ht_xdivi(b, batch, in.dim[0]);
	x[0] = ht_xmodi(b, batch, in.dim[0]);
	for (int32_t i = blocks.count - 1; i >= 0; i--) {
		int32_t low, high;
		x[i + 1] = ht_xaddi(b,
			ht_xadd(b, ht_xmuli(b, x[i + 1], blocks.size[i]),
				ht_xmodi(b, within, blocks.size[i])),
			-blocks.before[i]);
		within = ht_xdivi(b, within, blocks.size[i]);
		low = ht_xle(b, ht_xi(b, 0), x[i + 1]);
		high = ht_xlt(b, x[i + 1], ht_xi(b, in.dim[i + 1]));
		low = ht_xand(b, low, high);
		inside = inside < 0 ? low : ht_xand(b, inside, low);
	}
	at = space_of_coords(s, in.rank, in.dim, x);
	space_and_guard(b, &at, inside);
	value = kb_pull(k, n->in[0], &at);
	return ht_xselect(b, inside, value, ht_xk(b, compute_type(n->out[0].dtype), 0));
}

static int32_t pull_batch_to_space(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	struct blocks blocks;
	int32_t x[HT_LOWER_RANK], within = ht_xi(b, 0);

	(void)out;
	read_blocks(n, &blocks);
	for (int32_t i = 0; i < in.rank; i++)
		x[i] = space_coord(b, s, i);
	for (int32_t i = 0; i < blocks.count; i++) {
		int32_t c = ht_xaddi(b, x[i + 1], blocks.before[i]);
		within = ht_xadd(
			b, ht_xmuli(b, within, blocks.size[i]), ht_xmodi(b, c, blocks.size[i]));
		x[i + 1] = ht_xdivi(b, c, blocks.size[i]);
	}
	x[0] = ht_xadd(b, ht_xmuli(b, within, s->dim[0]), x[0]);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_space_to_batch = {
	.family = FAMILY_MAP, .pull = pull_space_to_batch, .refuse = refuse_after_first
};
const struct lower_op lower_batch_to_space = {
	.family = FAMILY_MAP, .pull = pull_batch_to_space, .refuse = refuse_after_first
};
