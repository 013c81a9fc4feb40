/* The lowering of each row of the op table. */
#include "passes/lower/lower.h"

static const struct lower_op lower_none = { .name = "none" };
static const struct lower_op lower_constant = { .name = "constant", .family = FAMILY_SOURCE };
static const struct lower_op lower_placeholder = { .name = "placeholder", .family = FAMILY_SOURCE };

#define OP(name, signature, effects, infer, prec, lower, test, meaning)                            \
	extern const struct lower_op lower_##lower;
/* `none`, `constant` and `placeholder` are above: an extern declaration after a static one refers to it. */
#include "ir/ops.def"
#undef OP

static const struct lower_op *const table[HT_OP_END] = {
#define OP(name, signature, effects, infer, prec, lower, test, meaning)                            \
	[HT_OP_##name] = &lower_##lower,
#include "ir/ops.def"
#undef OP
};

const struct lower_op *lower_op_of(const struct ht_node *n)
{
	return table[n->op] == &lower_none ? NULL : table[n->op];
}

bool lower_is_aligned(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op->aligned && !(op->unaligned && op->unaligned(n));
}
