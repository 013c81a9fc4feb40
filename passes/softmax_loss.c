#include "passes/softmax_loss.h"

#include "ir/infer.h"

bool ht_is_softmax_loss(const struct ht_node *n)
{
	return n->op == HT_OP_SoftmaxCrossEntropyWithLogits ||
	       n->op == HT_OP_SparseSoftmaxCrossEntropyWithLogits;
}

enum ht_dtype ht_softmax_loss_type(const struct ht_node *n)
{
	return ht_type_of(n->in[0])->dtype == HT_F64 ? HT_F64 : HT_F32;
}

/* `v`.  If its extents are not all known, they are left to inference, which is told the rank alone. */
static struct ht_value settled(struct maker *m, struct ht_value v, int32_t rank)
{
	return ht_shape_known(ht_type_of(v)->shape) ? v : of_rank(m, v, rank);
}

static struct ht_value over_classes(
	struct maker *m, const char *name, enum ht_op op, struct ht_value x, bool keeps)
{
	return settled(m, reduced(part(m, name), op, x, 1, keeps), keeps ? 2 : 1);
}

/* The element of each row that its class selects. */
static struct ht_value of_class(struct maker *m, struct ht_value rows)
{
	const struct ht_value in[] = { rows, m->at->in[1], whole(part(m, "axis"), HT_I32, 1) };
	struct ht_value v =
		made(part(m, "of_class"), HT_OP_GatherV2, in, 3, ht_type_of(in[1])->shape);

	ht_attr_set_int(v.node, "batch_dims", 1);
	return v;
}

/* log(sum of e), as a vector: `log` is a column of it.  Only known extents can be those of a Reshape. */
static struct ht_value log_of_rows(struct maker *m, struct ht_value log, struct ht_value e)
{
	struct ht_shape s = ht_in_shape(m->at, 0);

	if (ht_shape_known(s))
		return reshaped(part(m, "logs"), log, (struct ht_shape){ 1, s.dim });
	return unary(part(m, "logs"), HT_OP_Log, over_classes(m, "sums", HT_OP_Sum, e, false));
}

/* With e = exp(x - max): loss = log(sum of e) - (x - max) of the class, gradient = e / sum - label; of
 * probabilities the loss is the sum over classes, weighted by them. */
void ht_write_softmax_loss(struct maker *m, struct ht_value (*marked)(struct maker *m))
{
	struct ht_node *n = m->at;
	struct ht_value x, most, e, sum, log, loss, label, softmax;

	x = in_own_type(m, "wide", n->in[0]);
	most = over_classes(m, "max", HT_OP_Max, x, true);
	x = settled(m, binary(part(m, "shifted"), HT_OP_Sub, x, most), 2);
	e = unary(part(m, "exp"), HT_OP_Exp, x);
	sum = over_classes(m, "sum", HT_OP_Sum, e, true);
	log = unary(part(m, "log"), HT_OP_Log, sum);
	if (n->op == HT_OP_SparseSoftmaxCrossEntropyWithLogits) {
		label = marked(m);
		loss = of_class(m, x);
		log = log_of_rows(m, log, e);
		loss = binary(part(m, "loss"), HT_OP_Sub, log, loss);
	} else {
		label = in_own_type(m, "wide_labels", n->in[1]);
		loss = binary(part(m, "losses"), HT_OP_Mul, label,
			binary(part(m, "negative_logs"), HT_OP_Sub, log, x));
		loss = over_classes(m, "loss", HT_OP_Sum, settled(m, loss, 2), false);
	}
	softmax = binary(part(m, "softmax"), HT_OP_RealDiv, e, sum);
	give(part(m, "rounded_gradient"), 1,
		binary(part(m, "gradient"), HT_OP_Sub, softmax, label));
	give_first(m, loss);
}
