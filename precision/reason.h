/* Why a tensor has its dtype, or why it does not have another one. */
#ifndef HT_PRECISION_REASON_H
#define HT_PRECISION_REASON_H

#include "base/base.h"

enum ht_by {
#define REASON(id, text) HT_BY_##id,
#include "precision/reasons.def"
#undef REASON
	HT_BY_END
};

struct ht_dtype_reason {
	enum ht_by by;
	struct ht_str text; /* as in reports */
};
/* By enum ht_by.  Two reasons are the same if their addresses are, or if their texts are equal. */
extern const struct ht_dtype_reason ht_dtype_reasons[HT_BY_END];
#define HT_BY(id) (&ht_dtype_reasons[HT_BY_##id])

/* HT_BY_FOLLOWS: a node whose dtype was taken; in `a`. */
const struct ht_dtype_reason *ht_reason_follows(struct ht_str node, struct ht_arena *a);
/* A reason of this kind whose text has figures of its own; in `a`. */
const struct ht_dtype_reason *ht_reason_new(enum ht_by by, struct ht_str text, struct ht_arena *a);
/* The reason with this text, or one that has only the text; in `a`. */
const struct ht_dtype_reason *ht_reason_of_text(struct ht_str text, struct ht_arena *a);

#endif
