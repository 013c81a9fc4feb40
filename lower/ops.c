/* The lowering of each row of the op table. */
#include "lower/inside.h"

/* Ops that can be imported but not lowered, by reason. */
#define NEVER(reason, words) static const struct lower_op lower_no_##reason = { .never = (words) }
NEVER(kernel, "has no kernel");
NEVER(size, "has a result whose size depends on the data, which has no kernel");
NEVER(complex, "computes with complex numbers, which have no kernels");
NEVER(text, "handles strings or files, which have no kernels");
NEVER(control, "is control flow of a form that is not supported");
NEVER(call, "is part of a call that cannot be inlined");
NEVER(list, "is about an array or stack of tensors, which is not lowered");
NEVER(open_list,
	"is about a list of tensors whose elements have no one shape that is known at compile time, or are lists");
NEVER(optional,
	"is about an optional tensor that is asked whether it has a value, or has several components");
NEVER(fake, "stands for a tensor of a branch whose shape is not known at compile time");
NEVER(table_file, "fills a table from a file whose name the model does not state");
NEVER(dense_table, "is a table whose empty and deleted keys are no constant integers");
NEVER(state, "keeps something between runs, which is not lowered");
NEVER(training, "is for training, which is not lowered");
#undef NEVER
/* Refuses nodes that pass "training" could not rewrite. */
static const char *refuse_training(const struct ht_node *n)
{
	return ht_shape_known(n->out[0].shape) ? "has no kernel for these shapes"
					       : lower_refuse_type(n->out[0]);
}

static const struct lower_op lower_training = { .family = FAMILY_ROOT, .refuse = refuse_training };
/* Likewise pass "volumes". */
static const struct lower_op lower_volume = { .family = FAMILY_ROOT, .refuse = refuse_training };
static const struct lower_op lower_constant = { .family = FAMILY_SOURCE };
static const struct lower_op lower_placeholder = { .family = FAMILY_SOURCE };

#define OP(name, signature, effects, traits, infer, prec, lower, test, meaning)                    \
	extern const struct lower_op lower_##lower;
/* Some of these objects are static and defined above: an extern declaration after a static one
 * refers to it. */
#include "ir/ops.def"
#undef OP

static const struct lower_op *const table[HT_OP_END] = {
#define OP(name, signature, effects, traits, infer, prec, lower, test, meaning)                    \
	[HT_OP_##name] = &lower_##lower,
#include "ir/ops.def"
#undef OP
};

const struct lower_op *lower_op_of(const struct ht_node *n)
{
	return table[n->op];
}

bool lower_is_aligned(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op->aligned && !(op->unaligned && op->unaligned(n));
}
