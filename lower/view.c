/* Views: where a tensor's elements are in memory. */
#include "lower/inside.h"

#include <string.h>

void view_dense(struct view *v, int32_t buffer, struct ht_shape s)
{
	int64_t stride = 1;

	memset(v, 0, sizeof *v);
	v->buffer = buffer;
	v->rank = s.rank;
	for (int32_t i = s.rank - 1; i >= 0; i--) {
		v->dim[i] = s.dim[i];
		v->stride[i] = stride;
		stride *= s.dim[i];
	}
}

int64_t view_count(const struct view *v)
{
	int64_t n = 1;

	for (int32_t i = 0; i < v->rank; i++)
		n *= v->dim[i];
	return n;
}

bool view_is_dense(const struct view *v)
{
	int64_t stride = 1;

	for (int32_t i = v->rank - 1; i >= 0; i--) {
		if (v->dim[i] != 1 && v->stride[i] != stride)
			return false;
		stride *= v->dim[i];
	}
	return true;
}

static void dense_strides(struct view *v)
{
	int64_t stride = 1;

	for (int32_t k = v->rank - 1; k >= 0; k--) {
		v->stride[k] = stride;
		stride *= v->dim[k];
	}
}

/* Matches runs of old dimensions with runs of new ones that have the same product.  A run of
 * several old dimensions must be dense in itself. */
bool view_reshape(const struct view *v, int32_t rank, const int64_t *dim, struct view *out)
{
	struct view r = {
		.buffer = v->buffer, .offset = v->offset, .rank = rank, .rounds = v->rounds
	};
	int64_t old[HT_LOWER_RANK], step[HT_LOWER_RANK];
	int32_t olds = 0;

	if (rank)
		memcpy(r.dim, dim, (size_t)rank * sizeof *dim);
	dense_strides(&r);
	*out = r;
	if (view_count(v) == 0 || view_is_dense(v))
		return true;
	for (int32_t i = 0; i < v->rank; i++)
		if (v->dim[i] != 1) {
			old[olds] = v->dim[i];
			step[olds++] = v->stride[i];
		}
	for (int32_t i = 0, j = 0; i < olds && j < rank;) {
		int32_t i1 = i + 1, j1 = j + 1;
		int64_t have = old[i], want = dim[j];

		while (have != want) {
			if (want < have)
				want *= dim[j1++];
			else
				have *= old[i1++];
		}
		for (int32_t k = i; k + 1 < i1; k++)
			if (step[k] != step[k + 1] * old[k + 1])
				return false;
		for (int64_t k = j1 - 1, stride = step[i1 - 1]; k >= j; k--) {
			out->stride[k] = stride;
			stride *= dim[k];
		}
		i = i1;
		j = j1;
	}
	return true;
}
