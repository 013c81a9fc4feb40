/* verify: checks that bytes are an image that can run, and reads parts of it for hosts. */
#ifndef HT_IMAGE_VERIFY_H
#define HT_IMAGE_VERIFY_H

#include "base/base.h"
#include "base/size_math.h"
#include "base/words.h"
#include "image/image.h"

enum {
	/* The features that this executor supports. */
	HT_IMAGE_FEATURES = HT_IMAGE_STREAMS | HT_IMAGE_HAS_VARIABLES | HT_IMAGE_OPEN |
			    HT_IMAGE_SIZED | HT_IMAGE_COMPUTED | HT_IMAGE_DERIVED |
			    HT_IMAGE_DERIVES | HT_IMAGE_HAS_OBJECTS | HT_IMAGE_STRINGS |
			    HT_IMAGE_BESIDES | HT_IMAGE_PLACED
};

/* NULL, or the error in the bytes, which begin at a multiple of HT_IMAGE_ALIGN.  A verified image stays
 * inside of the memory that ht_exec_needs_of() computes, if its kernels touch no more than it declares. */
const char *ht_image_verify(struct ht_str bytes);

/* Piece i of the messages of faults. */
/* The bytes of an input or output; NONE: its extents do not have such a product. */
struct ht_size_expr ht_image_bytes_of(const struct ht_image *x, const struct ht_image_port *p);
struct ht_shape ht_image_shape_of(const struct ht_image *x, const struct ht_image_port *p);
struct ht_shape ht_image_variable_shape(
	const struct ht_image *x, const struct ht_image_variable *v);

/* print.c: prints the image as text, one line a step. */
void ht_image_print(const struct ht_image *x, struct ht_buf *out);

#endif
