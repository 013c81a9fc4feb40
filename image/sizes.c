/* Sizes that a host states for a run. */
#include "base/base.h"
#include "image/execute.h"

int64_t ht_exec_extent(const struct ht_image *x, int64_t extent, const int64_t *size)
{
	return extent < 0 ? ht_image_evaluate(x, (uint32_t)(-1 - extent), size) : extent;
}

uint64_t ht_exec_element_bytes(uint32_t dtype)
{
	return dtype == HT_STRING ? (uint64_t)HT_IMAGE_STRING_BYTES
				  : ht_dtype_info((enum ht_dtype)dtype)->bytes;
}

uint64_t ht_exec_port_bytes(
	const struct ht_image *x, const struct ht_image_port *port, const int64_t *size)
{
	uint64_t n = ht_exec_element_bytes(port->dtype);

	for (uint32_t i = 0; i < port->rank; i++)
		n *= (uint64_t)ht_exec_extent(x, ht_image_dims(x)[port->dim + i], size);
	return n;
}

uint64_t ht_exec_buffer_bytes(const struct ht_image *x, const struct ht_image_procedure *p,
	const struct ht_image_buffer *b, const int64_t *size)
{
	const struct ht_image_reach *r;
	uint64_t n = b->bytes;

	if (b->sized)
		n = (uint64_t)ht_exec_extent(x, -(int64_t)b->sized, size);
	if (b->kind == HT_IMAGE_TEMP && n && ht_image_is_placed(x, p)) {
		r = &ht_image_places(x)[b->number].reach;
		n = r->add + (r->sized ? (uint64_t)ht_exec_extent(x, -(int64_t)r->sized, size) : 0);
	}
	return n < b->bytes ? n : b->bytes;
}

/* An extent of an input is a size itself: the verifier looks at that. */
static enum ht_exec_misfit take(const struct ht_image *x, int64_t extent, int64_t is, int64_t *size)
{
	const struct ht_image_size *bounds;
	uint32_t number;

	if (extent >= 0)
		return extent == is ? HT_EXEC_FITS : HT_EXEC_OTHER_EXTENT;
	number = ht_image_size_of_extent(x, extent);
	bounds = &ht_image_sizes(x)[number];
	if (is < bounds->least || is > bounds->most)
		return HT_EXEC_OUT_OF_BOUNDS;
	if (size[number] >= 0 && size[number] != is)
		return HT_EXEC_OTHER_SIZE;
	size[number] = is;
	return HT_EXEC_FITS;
}

enum ht_exec_misfit ht_exec_take_sizes(const struct ht_image *x, const struct ht_image_port *port,
	const int64_t *dim, int64_t *size, uint32_t *axis)
{
	for (*axis = 0; *axis < port->rank; ++*axis) {
		enum ht_exec_misfit m =
			take(x, ht_image_dims(x)[port->dim + *axis], dim[*axis], size);

		if (m != HT_EXEC_FITS)
			return m;
	}
	return HT_EXEC_FITS;
}
