/* verify: whether bytes are an image that can be run; and what hosts read of one. */
#ifndef HT_IMAGE_VERIFY_H
#define HT_IMAGE_VERIFY_H

#include "base/base.h"
#include "base/words.h"
#include "image/image.h"

enum { HT_IMAGE_FEATURES = HT_IMAGE_STREAMS /* that this executor knows */ };

/* NULL, or what is wrong with the bytes, which begin at a multiple of HT_IMAGE_ALIGN.  An image that is
 * verified runs inside of the memory that ht_exec_needs_of() tells, as long as its kernels touch no
 * more than it declares. */
const char *ht_image_verify(struct ht_str bytes);

/* What a fault's message is made of: the step's piece number i. */
struct ht_words ht_image_words_at(const struct ht_image *x, uint32_t i);
struct ht_shape ht_image_shape_of(const struct ht_image *x, const struct ht_image_port *p);

/* print.c: as text, a line a step. */
void ht_image_print(const struct ht_image *x, struct ht_buf *out);

#endif
