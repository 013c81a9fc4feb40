/* Library kernels: computations that do not fit a tile program, in C with the same calling
 * convention. */
#ifndef HT_KERNEL_LIBRARY_H
#define HT_KERNEL_LIBRARY_H

#include "base/object.h"
#include "kernel/kernel.h"

struct ht_library_row {
	const char *name;
	ht_kernel_fn *fn;
	size_t (*scratch)(const struct ht_kernel *k); /* NULL: none */
};

/* library_mutable.c: kernels and a kind of objects that libhalftone has.  library_rt.c: libhalftone-rt lacks them, so names and kind are
 * NULL. */
struct ht_library_more {
	struct ht_library_row kernel[5];
	const struct ht_object_kind *object;
};
extern const struct ht_library_more ht_library_more;

/* Bytes of scratch that the library kernel of `k` needs. */
size_t ht_library_scratch(const struct ht_kernel *k);

/* Library kernels use these macros for what code without outside references must compute in another way; kernel/library_net.h defines them
 * again for nets. HT_LIBRARY_NUMBER(x) is the constant x, HT_LIBRARY_EXP(x) is e^x for x <= 0, rounded once to float32, and
 * HT_LIBRARY_BYTES(type) is the size of an element in bytes. */
#define HT_LIBRARY_NUMBER(x) (x)
#define HT_LIBRARY_EXP(x) ((float)exp((double)(x)))
#define HT_LIBRARY_BYTES(type) (ht_dtype_info(type)->bytes)

/* library_index.c */
int32_t ht_library_top_k(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);
int32_t ht_library_sparse_to_dense(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);

/* library_where.c */
ht_kernel_fn ht_library_where;

/* library_boxes.c */
ht_kernel_fn ht_library_boxes;
size_t ht_boxes_scratch(const struct ht_kernel *k);
ht_kernel_fn ht_library_combined_boxes;
size_t ht_combined_boxes_scratch(const struct ht_kernel *k);

/* library_ctc.c */
ht_kernel_fn ht_library_ctc_beams;
size_t ht_ctc_beams_scratch(const struct ht_kernel *k);

/* library_distance.c */
ht_kernel_fn ht_library_edit_distance;
size_t ht_edit_distance_scratch(const struct ht_kernel *k);

/* library_unique.c */
ht_kernel_fn ht_library_unique;
size_t ht_unique_scratch(const struct ht_kernel *k);

/* library_candidates.c: how classes are drawn, parameter 0 of kernel "candidates". */
enum ht_candidates {
	HT_CANDIDATES_UNIFORM,
	HT_CANDIDATES_LOG_UNIFORM,
	HT_CANDIDATES_ALL,     /* each once */
	HT_CANDIDATES_WEIGHED, /* by constant weights */
	HT_CANDIDATES_COUNTED /* by how often they were true classes of earlier runs, and once more */
};
/* The numbers of a tree of counts: the tree of `classes` classes has as many leaves.  Leaf i, the count of class i, is number leaves + i;
 * number i is the sum of numbers 2i and 2i + 1, and number 1 that of all. */
int64_t ht_candidates_leaves(int64_t classes);
ht_kernel_fn ht_library_candidates;
size_t ht_candidates_scratch(const struct ht_kernel *k);

/* library_check.c: buffer 0 is one BOOL; HT_FAULT_ASSERTION if it is false. */
ht_kernel_fn ht_library_assert;
/* Also there: does nothing.  The observer of the run reads buffer 0 before the step; parameter 0
 * says which tensor it is. */
ht_kernel_fn ht_library_tee;

/* library_table.c */
ht_kernel_fn ht_library_table_fill, ht_library_table_find, ht_library_table_size;
extern const struct ht_object_kind ht_table_kind;

/* library_strings.c */
extern const struct ht_object_kind ht_strings_kind;

/* Blocks of Philox by which a stream advances for each number that an op draws, as in TensorFlow, whether the op uses all of them or not. */
enum { HT_RESERVED_BLOCKS = 256 };
/* library_random.c.  The callers compute the number of tiles with ht_random_tiles(). */
ht_kernel_fn ht_library_random_bits, ht_library_random_gamma, ht_library_random_normal,
	ht_library_random_truncated_normal, ht_library_random_uniform,
	ht_library_random_uniform_int;
ht_kernel_fn ht_library_random_key, ht_library_random_seed, ht_library_random_skip,
	ht_library_random_state;

#endif
