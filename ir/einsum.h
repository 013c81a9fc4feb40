/* einsum: equations of Einsum, such as "...ab,bc->...ac". */
#ifndef HT_EINSUM_H
#define HT_EINSUM_H

#include "base/base.h"

/* The labels of one operand or of the result.  Every byte but ',' and '.' is a label. */
struct ht_einsum_term {
	/* `before` and `after` the ellipsis; without an ellipsis all labels are in `before` */
	struct ht_str before, after;
	bool ellipsis;
};

struct ht_einsum {
	int32_t operands; /* 1 or 2 */
	struct ht_einsum_term in[2], out;
};

/* NULL, or the error in the equation, as words that follow its name in a message. */
const char *ht_einsum_read(struct ht_str equation, struct ht_einsum *e);

/* The name of axis `axis` of a tensor of `rank` axes: the byte of its label, or for an axis of the
 * ellipsis HT_EINSUM_ELLIPSIS plus its distance from the last axis of the ellipsis. */
#define HT_EINSUM_ELLIPSIS 256
#define HT_EINSUM_NAMES (HT_EINSUM_ELLIPSIS + HT_MAX_RANK)
int32_t ht_einsum_name(const struct ht_einsum_term *t, int32_t rank, int32_t axis);
/* The number of labels, which is the least rank of the operand. */
int64_t ht_einsum_labels(const struct ht_einsum_term *t);

#endif
