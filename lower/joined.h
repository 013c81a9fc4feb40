/* joined: several kernels that are computed as one, tile by tile, so that the part of a tensor
 * that one stage hands to the next stays in the caches.
 *
 * Each kind of joined kernel is a file (join_*.c). It finds its instances in the graph and
 * describes each as data: the grid of tiles, the local buffers between stages, and the stages in
 * order. joined.c lists the kinds and decides which instances are joined; joined_emit.c makes
 * the kernel of a description. docs/contributing.md shows how to add a kind. */
#ifndef HT_LOWER_JOINED_H
#define HT_LOWER_JOINED_H

#include "lower/conv.h"

enum {
	JOINED_KERNELS = 4,
	JOINED_DIMS = 4,
	JOINED_BUFFERS = 4,
	JOINED_STAGES = 8,
	JOINED_MEMORY = -1 /* instead of a buffer's number: the tensor is in memory */
};

/* A local buffer, which one stage stores and later ones load.  The stages of a kernel have the same dimensions in the
 * same order. */
struct joined_buffer {
	enum ht_dtype dtype;
	/* By dimension: how many indices the buffer holds. 0: only the one being computed. If
	 * tiles share the dimension: the indices of the tile. */
	int64_t extent[JOINED_DIMS];
	/* The buffer is a ring of as many rows (dimension 1) as the window is high: the next
	 * tile finds in it the rows that it reads again. Rows and columns (dimension 2) are
	 * counted from the first one that a window reaches; those outside of the image are zero. */
	bool ring;
};

/* A dimension of a stage's loops. */
struct joined_dim {
	int64_t extent;
	int32_t first, last; /* dimensions of the root's result; last < first: none */
	int32_t grid;        /* the grid's dimension that divides it; -1: each tile has all of it */
	int64_t step;        /* indices of a tile */
	int64_t from;        /* its first index in a ring */
	int8_t unroll;       /* copies side by side; 0: 1 */
};

struct joined_stage {
	const struct joined_loop *loop;
	struct ht_node *root; /* the stage computes the nodes of this root's kernel */
	int32_t dims;
	struct joined_dim dim[JOINED_DIMS];
	int32_t from, to; /* buffers of the operand and of the result, or JOINED_MEMORY */
	/* A prologue: runs before the first of successive tiles and fills the buffers with what
	 * the tile before would have left there. */
	bool starts;
};

struct joined {
	const struct joined_kind *kind;
	int32_t kernels;
	struct ht_node *sink[JOINED_KERNELS]; /* of the kernels, in the graph's order */
	struct ht_node *named; /* the root that gives the kernel and the choice their name */
	int32_t grids;
	int64_t grid[HT_MAX_GRID];
	struct joined_buffer buffer[JOINED_BUFFERS];
	struct window window[2]; /* height, width of the window that reads a ring */
	int32_t stages;
	struct joined_stage stage[JOINED_STAGES];
	double tile; /* cycles of a tile besides its loops */
	/* NULL, or the root whose operand 0 is the kernel's first argument. Stages add their
	 * arguments behind it. */
	const struct ht_node *argument;
};

struct joined_kind {
	enum ht_method method;
	/* Describes the kernel that begins with that of `sink`; false: there is none. */
	bool (*describe)(struct lower *l, struct ht_node *sink, struct joined *out);
	/* Whether it is faster than separate kernels. */
	struct ht_method_choice (*choose)(const struct lower *l, const struct joined *d);
};
extern const struct joined_kind lower_join_block, lower_join_excite, lower_join_attention;

/* ---- joined.c ---- */

/* The root whose first operand is the result of `sink`'s kernel, if no other operand is and no
 * other node reads that result; or NULL. */
struct ht_node *root_behind(struct lower *l, const struct ht_node *sink);
/* Whether the kernel of `root` stores elements at the coordinates that they have in the root's
 * result. */
bool root_keeps_shape(const struct lower *l, const struct ht_node *root);
/* Appends a stage. Its dimensions are added afterwards, with the next two functions. */
struct joined_stage *joined_add(struct joined *d, const struct joined_loop *loop,
	struct ht_node *root, int32_t from, int32_t to);
/* Appends a dimension of the stage: dimensions first..last of its root's result, all of which
 * each tile has. */
struct joined_dim *joined_over(struct joined_stage *s, int32_t first, int32_t last, int64_t extent);
/* Has the grid's dimension `grid` divide it: each tile has `step` of its indices. */
void joined_share(struct joined_dim *d, int32_t grid, int64_t step);
/* A kind's `choose` that compares traffic with memory: tensors in local buffers are neither
 * written nor read, but each tile reads the weights of all its products. */
struct ht_method_choice joined_by_traffic(const struct lower *l, const struct joined *d);

/* ---- joined_emit.c: loops of stages ---- */

struct joining;
struct joined_loop {
	/* Makes the memory that the stage reads, before the kernel is begun; NULL: nothing to
	 * make. */
	void (*prepare)(struct joining *j);
	void (*emit)(struct joining *j);
};
extern const struct joined_loop joined_zeros, /* stores zeros in a ring */
	joined_pack,    /* packs operand 1 of a product that a later stage computes */
	joined_product, /* a matrix product or a convolution by products */
	joined_window,  /* a depthwise convolution over a ring */
	joined_map,     /* elementwise nodes that read the result in buffer `from` */
	joined_softmax;

#endif
