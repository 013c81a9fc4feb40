/* Candidate samplers: classes drawn for a loss that is estimated from a few of them. */
#include "lower/index.h"
#include "lower/library.h"

/* Blocks of random numbers that TensorFlow reserves for each candidate, however many it uses. */
enum { RESERVED = 512 };

static enum ht_status emit_candidates(struct lower *l, struct ht_node *n)
{
	int64_t count = ht_shape_count(n->out[0].shape);
	int32_t truth = dense_operand(l, n, 0), stream = random_stream(l, n);
	struct kernel_build k;

	library_kernel(&k, l, "candidates", 1, 5);
	k.params[0] = n->op == HT_OP_LogUniformCandidateSampler;
	k.params[1] = ht_attr_bool(n, "unique", false);
	k.params[2] = ht_attr_int(n, "range_max", 1);
	k.params[3] = ht_shape_count(shape_of(n, 0));
	k.params[4] = count;
	kb_arg(&k, stream, HT_BUFFER_IN);
	kb_arg(&k, truth, HT_BUFFER_IN);
	for (int32_t i = 0; i < n->outs; i++)
		kb_arg(&k, dense_result(l, n, i), HT_BUFFER_OUT);
	kb_finish(&k, n);
	random_move(l, n, stream, count * RESERVED);
	return HT_OK;
}

static const char *refuse_candidates(const struct ht_node *n)
{
	int64_t range = ht_attr_int(n, "range_max", 1), count = ht_shape_count(n->out[0].shape);

	if (range < 1)
		return "draws from no classes";
	if (count >= INT32_MAX / 2)
		return "draws too many classes";
	return ht_attr_bool(n, "unique", false) && count > range
		       ? "draws more classes than there are, each once"
		       : NULL;
}

const struct lower_op lower_candidates = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_candidates,
	.refuse = refuse_candidates };
