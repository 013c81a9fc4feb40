/* The implementation mode of each node: how its kernel computes, if the vendor has several ways.
 *
 * In order of precedence: op_precision_mode by node, allow_hf32, op_precision_mode by type,
 * op_select_implmode with its list of types (if there is no file op_precision_mode), and policy
 * optimal.  If the mode changes a node's kernel, the node carries it as an attribute, for
 * lowering. */
#include "lower/price.h"
#include "precision/precision.h"

#include <string.h>

#define MODE(m) (1u << HT_IMPL_##m)
#define BOTH (MODE(HIGH_PERFORMANCE) | MODE(HIGH_PRECISION))
#define CUBE (BOTH | MODE(FLOAT_32) | MODE(HI_FLOAT_32))

/* The modes that the kernels of a type have (CANN 8.1.RC1, all_ops_impl_mode.ini). */
static const struct {
	unsigned modes;
	const char *types; /* separated by blanks */
} offers[] = {
	{ BOTH, " AvgPoolV2 Gelu GeluV2 BasicLSTMCellV2 BatchMultiClassNonMaxSuppression "
		"CombinedNonMaxSuppression DynamicLSTMV2 EmbeddingDenseGrad FastGeluGrad FastGelu "
		"FastGeluV2 INInferV2 SoftShrink LNDropoutGrad LogSoftmaxV2 LogSpaceD LRN Pooling "
		"ReduceMean SoftmaxV2 Sqrt Tanh BasicRNN ROIAlign KMeansCentroids SquareSumV1 FloorMod "
		"Exp Threshold RealDiv Sigmoid SegmentSum SoftmaxGrad ReduceLogSum ReduceLogSumExp "
		"ReduceMeanWithCount GeluGrad GeluGradV2 MishGrad SigmoidFocalLoss SoftmaxFocalLoss "
		"SoftmaxCrossEntropyWithLogits Dot ReluGradV2 Lerp " },
	{ BOTH | MODE(KEEP_FP16), " LayerNorm LayerNormV3 " },
	{ BOTH | MODE(SUPER_PERFORMANCE), " Mish " },
	{ BOTH | MODE(OUT_OF_BOUND),
		" Gather GatherV2 UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin "
		"UnsortedSegmentProd ScatterNdUpdate ScatterUpdate " },
	{ MODE(HIGH_PRECISION) | MODE(OUT_OF_BOUND),
		" ScatterSub ScatterNdSub ScatterNd ScatterNdAdd ScatterAdd " },
	{ CUBE, " Conv2D Conv2DBackpropFilter Conv2DBackpropFilterD Conv2DBackpropInput "
		"Conv2DBackpropInputD Conv2DTranspose Conv2DTransposeD DepthwiseConv2D "
		"DepthwiseConv2DBackpropFilter DepthwiseConv2DBackpropFilterD "
		"DepthwiseConv2DBackpropInput DepthwiseConv2DBackpropInputD Conv3D MatMul MatMulV2 "
		"BatchMatMul BatchMatMulV2 FullyConnection GEMM " },
};

/* Types for which the files of the modes name another mode than the file's own name says. */
static const char against_precision[] = " SoftShrink ReduceLogSum ReduceLogSumExp "
					"ReduceMeanWithCount MishGrad ReluGradV2 ";
static const char indexed[] =
	" Gather GatherV2 SegmentSum UnsortedSegmentSum UnsortedSegmentMax "
	"UnsortedSegmentMin UnsortedSegmentProd ScatterNdUpdate ScatterUpdate "
	"ScatterSub ScatterNdSub ScatterNd ScatterNdAdd ScatterAdd ";
static const char convolutions[] = " Conv2D DepthwiseConv2D ";

static unsigned offered(struct ht_str vendor)
{
	for (size_t i = 0; i < HT_COUNT(offers); i++)
		if (ht_type_is_in(offers[i].types, vendor))
			return offers[i].modes;
	return 0;
}

/* The mode from the file that op_select_implmode loads if it has no list of types.
 * high_performance is the default and loads no file. */
static enum ht_impl built_in(const char *mode, struct ht_str vendor)
{
	bool precision = strstr(mode, "high_precision"), all = strstr(mode, "_for_all");
	enum ht_impl is = precision ? HT_IMPL_HIGH_PRECISION : HT_IMPL_HIGH_PERFORMANCE;

	if (!strncmp(mode, "enable_", 7))
		is = ht_impl_named(ht_str(mode));
	else if (all && ht_type_is_in(convolutions, vendor))
		is = precision ? HT_IMPL_FLOAT_32 : HT_IMPL_HI_FLOAT_32;
	else if (!precision && ht_type_is_in(indexed, vendor))
		is = HT_IMPL_HIGH_PRECISION;
	else if (!all && precision && ht_type_is_in(against_precision, vendor))
		is = HT_IMPL_HIGH_PERFORMANCE;
	return offered(vendor) >> is & 1 ? is : HT_IMPL_NONE;
}

struct deciding {
	struct ht_precision *p;
	const struct ht_node *n;
	struct ht_str vendor;
	const char *where;
};

/* The mode of a rule in the file; `counts`: nothing of higher precedence applied. */
static enum ht_impl by_rule(struct deciding *d, const struct ht_rule *r, bool counts)
{
	struct ht_rule_use *use = r ? ht_use_of(d->p, HT_RULES_IMPL, r) : NULL;

	if (!r)
		return HT_IMPL_NONE;
	use->nodes++;
	if (counts)
		ht_rule_acts(d->p, HT_RULES_IMPL, r, d->n)->did = ht_impl_name(r->impl);
	use->why = "a rule for the node or allow_hf32 counts before it";
	if (!counts)
		return HT_IMPL_NONE;
	d->where = r->where;
	return r->impl;
}

static enum ht_impl by_node(struct deciding *d)
{
	const struct ht_rule *r = ht_rule_of(d->p, HT_RULES_IMPL, d->n);

	return by_rule(d, r && !r->is_type ? r : NULL, true);
}

static enum ht_impl by_type(struct deciding *d, bool counts)
{
	return by_rule(d, ht_rule_of_type(d->p, HT_RULES_IMPL, d->n->type), counts);
}

static enum ht_impl by_hf32(struct deciding *d)
{
	unsigned modes = offered(d->vendor);
	bool conv = strstr(ht_str_copy(d->p->arena, d->vendor).p, "Conv");

	if (d->p->policy->hf32 < 0 || !(modes & MODE(HI_FLOAT_32)))
		return HT_IMPL_NONE;
	d->where = "allow_hf32";
	return d->p->policy->hf32 >> conv & 1 ? HT_IMPL_HI_FLOAT_32 : HT_IMPL_FLOAT_32;
}

static enum ht_impl by_selection(struct deciding *d)
{
	const struct ht_policy *policy = d->p->policy;
	const struct ht_rules *chosen = &policy->rules[HT_RULES_CHOSEN];
	const struct ht_rule *r = ht_rule_of_type(d->p, HT_RULES_CHOSEN, d->n->type);
	const char *mode = policy->select_impl;

	if (!ht_policy_selects_impl(policy) || policy->rules[HT_RULES_IMPL].option)
		return HT_IMPL_NONE;
	d->where = "op_select_implmode";
	if (!chosen->n || strstr(mode, "_for_all"))
		return built_in(mode, d->vendor);
	if (!r)
		return HT_IMPL_NONE;
	ht_use_of(d->p, HT_RULES_CHOSEN, r)->nodes++;
	ht_rule_acts(d->p, HT_RULES_CHOSEN, r, d->n)->did = mode;
	return ht_impl_named(ht_str(mode));
}

/* The mode of a contraction that policy optimal made float16. */
static enum ht_impl by_policy(struct deciding *d)
{
	const struct ht_column *c = d->p->choice[d->n->id].taken;

	if (!d->p->short_runs || !d->p->short_runs[d->n->id] || !c || c->arg[0] != HT_F16)
		return HT_IMPL_NONE;
	d->where = "policy optimal";
	return HT_IMPL_HIGH_PERFORMANCE;
}

/* Whether the vendor's kernels of the node have the mode, under any of their names. */
static bool offers_mode(const struct deciding *d, enum ht_impl mode)
{
	unsigned modes = offered(d->vendor);
	const char *family;

	for (size_t next = 0; (family = ht_family_of(d->n->type, &next));)
		modes |= offered(ht_str(family));
	return modes >> mode & 1;
}

static void add(struct ht_decisions *out, struct ht_node *n, struct ht_decided_impl d)
{
	d.node = n->name;
	d.at = n;
	out->impl = ht_grow(out->arena, out->impl, out->impls, &out->impl_cap, sizeof *out->impl);
	out->impl[out->impls++] = d;
}

static void decide(struct ht_precision *p, struct ht_node *n, struct ht_decisions *out)
{
	struct deciding d = { p, n, ht_profile_vendor_type(p->profile, n->type), NULL };
	enum ht_impl mode = by_node(&d), type;

	if (mode == HT_IMPL_NONE)
		mode = by_hf32(&d);
	type = by_type(&d, mode == HT_IMPL_NONE);
	if (mode == HT_IMPL_NONE)
		mode = type;
	if (mode == HT_IMPL_NONE)
		mode = by_selection(&d);
	if (mode == HT_IMPL_NONE)
		mode = by_policy(&d);
	if (mode == HT_IMPL_NONE)
		return;
	add(out, n,
		(struct ht_decided_impl){ .where = ht_str_copy(out->arena, ht_str(d.where)),
			.mode = mode,
			.offered = offers_mode(&d, mode) });
}

void ht_impl_decide(struct ht_precision *p, struct ht_decisions *out)
{
	const struct ht_policy *policy = ht_read(p->policy, HT_READ_allow_hf32);

	ht_read(policy, HT_READ_op_select_implmode);
	if (!policy->rules[HT_RULES_IMPL].n && !ht_policy_selects_impl(policy) &&
		policy->hf32 < 0 && !p->short_runs)
		return;
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		decide(p, n, out);
}

void ht_impl_as_reported(
	struct ht_precision *p, const struct ht_decisions *report, struct ht_decisions *out)
{
	for (size_t i = 0; i < report->impls; i++) {
		struct ht_node *n = ht_graph_node(p->graph, report->impl[i].node);

		if (n)
			add(out, n, report->impl[i]);
	}
}

void ht_impl_apply(struct ht_decisions *out, size_t first)
{
	for (size_t i = first; i < out->impls; i++) {
		struct ht_decided_impl *d = &out->impl[i];

		d->kernel = ht_mode_effect(d->at, d->mode);
		if (d->kernel)
			ht_attr_set_str(d->at, ht_mode_attribute, ht_str(ht_impl_name(d->mode)));
	}
}
