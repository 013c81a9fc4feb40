/* Parts of a partitioned variable in checkpoints. */
#ifndef HT_FRONTEND_SLICES_H
#define HT_FRONTEND_SLICES_H

#include "base/base.h"
#include "ir/ir.h"

/* A box of a tensor that is stored in slices.  The rank is at least 1. */
struct ht_slice {
	struct ht_str name; /* of the whole tensor */
	int32_t rank;
	int64_t full[HT_MAX_RANK]; /* the extents of the whole tensor */
	int64_t start[HT_MAX_RANK], length[HT_MAX_RANK];
};

/* The key of a slice is the name of the whole tensor, a blank and what SaveV2 and RestoreV2 take as shape_and_slice: "net/table 9 4 3,3:0,4".
 * A slice that is the whole tensor has the name alone as its key. */
struct ht_str ht_slice_key(struct ht_arena *a, const struct ht_slice *s);
/* False: the key is not that of a slice, and *s is undefined. */
bool ht_slice_of_key(struct ht_str key, struct ht_slice *s);
/* The slice that `spec`, a shape_and_slice, takes of the tensor `name`; false: it is malformed, and *s is undefined. */
bool ht_slice_of_spec(struct ht_str name, struct ht_str spec, struct ht_slice *s);

/* The key under which TensorFlow stores a slice, EncodeTensorNameSlice() of tensorflow/core/util/saved_tensor_slice_util.cc. */
struct ht_str ht_slice_record(struct ht_arena *a, const struct ht_slice *s);
bool ht_is_slice_record(struct ht_str key);
/* Sets all but the extents of the whole tensor; a length that the record leaves out is -1. */
bool ht_slice_of_record(struct ht_str key, struct ht_arena *a, struct ht_slice *s);
/* Takes these extents for the whole tensor; false: the slice does not lie in it. */
bool ht_slice_within(struct ht_slice *s, struct ht_shape whole);

struct ht_shape ht_slice_shape(const struct ht_slice *s);
/* Whether two slices of one tensor have elements in common. */
bool ht_slice_shared(const struct ht_slice *a, const struct ht_slice *b);
/* Sets a byte of `seen`, which has one for each element of slice `to`, for those that slice `from` has, too, and returns their number; -1: one of
 * these bytes was set. */
int64_t ht_slice_mark(const struct ht_slice *to, uint8_t *seen, const struct ht_slice *from);
/* Copies these elements, of `size` bytes each, from the tensor of slice `from` to that of slice `to`. */
void ht_slice_copy(const struct ht_slice *to, char *out, const struct ht_slice *from,
	const char *in, size_t size);

#endif
