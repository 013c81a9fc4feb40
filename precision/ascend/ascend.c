/* The vendor's way to decide: nodes are visited in topological order; each tensor of a node
 * narrows the node's columns, and the node takes the first column that is left.  It goes
 * strictly forward: the types of producers are final when a node is judged.  A match that would
 * leave no column changes nothing.
 *
 * Memory formats are not modelled, as nothing here depends on them. */
#include "precision/ascend/judge.h"
#include "precision/calls.h"

/* ---- one node ---- */

static bool is_constant(const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT | HT_READS_VARIABLE | HT_VARIABLE);
}

/* Describes operand or result `i`, and its dtype in the graph; false: policies do not decide on
 * it. */
static bool is_tensor(struct judge *j, bool result, int32_t i, enum ht_dtype *d)
{
	const struct ht_op_info *info = ht_op_info(j->n->op);
	int f = result ? ht_formal_of_result(j->n, i) : ht_formal_of_arg(j->n, i);

	if (f < 0)
		return false;
	j->at = (struct ht_tensor_of){ result, f };
	*d = ht_formal_from(j->p, j->n, result ? &info->result[f] : &info->arg[f]);
	return *d != HT_INVALID;
}

/* Judges operands first, with constants behind the others, then results.  `gray`: operands
 * follow their producers. */
static void judge_tensors(struct judge *j, strategy *apply, bool gray)
{
	enum ht_dtype d;

	for (int constants = 0; constants < 2; constants++)
		for (int32_t i = 0; i < j->n->ins; i++) {
			if (is_constant(j->n->in[i].node) != (constants == 1) ||
				!is_tensor(j, false, i, &d))
				continue;
			if (gray)
				ht_strategy_follow(j, j->n->in[i], d);
			else
				apply(j, d);
		}
	for (int32_t i = 0; i < j->n->outs; i++)
		if (is_tensor(j, true, i, &d))
			apply(j, d);
}

/* The dtype that operands of both dtypes are promoted to. */
static enum ht_dtype promoted(enum ht_dtype a, enum ht_dtype b)
{
	if (a == b || b == HT_INVALID)
		return a;
	if (a == HT_INVALID)
		return b;
	return ht_dtype_info(a)->bytes == ht_dtype_info(b)->bytes  ? HT_F32
	       : ht_dtype_info(a)->bytes > ht_dtype_info(b)->bytes ? a
								   : b;
}

/* If no tensor has narrowed the columns: operands that must have one dtype take the column of
 * the dtype to which all of them can be promoted, or of a wider one. */
static void promote(struct judge *j)
{
	const enum ht_dtype wider[] = { HT_F32, HT_F64 };
	enum ht_dtype t = HT_INVALID, d;
	bool found = false;

	for (int32_t i = 0; i < j->n->ins && i < 32; i++)
		if ((j->c->offer->promotes >> i & 1) && is_tensor(j, false, i, &d))
			t = promoted(d, t);
	for (int32_t i = 0; i < j->n->ins && i < 32; i++) {
		if (!(j->c->offer->promotes >> i & 1) || !is_tensor(j, false, i, &d))
			continue;
		found |= ht_judge_narrow(j, t);
		for (size_t k = 0; !found && k < HT_COUNT(wider); k++)
			found |= ht_is_float(t) &&
				 ht_dtype_info(wider[k])->bytes > ht_dtype_info(t)->bytes &&
				 ht_judge_narrow(j, wider[k]);
	}
	if (found)
		j->c->rule = HT_BY(PROMOTED);
}

/* ---- whether the machine has a kernel for the node at all ---- */

static bool may_reduce(const struct judge *j, enum ht_dtype from, enum ht_dtype to)
{
	bool black = j->c->class == HT_CLASS_BLACK;

	if (j->keeps || j->mode == HT_MODE_KEEP)
		return false;
	switch (j->mode) {
	case HT_MODE_FORCE_FP32:
	case HT_MODE_CUBE:
		return !black;
	case HT_MODE_FORCE_FP16:
	case HT_MODE_ALLOW_FP16:
		return to == HT_F16;
	case HT_MODE_MIX_FP16:
		return to == HT_F16 && !black;
	case HT_MODE_ALLOW_BF16:
		return to == HT_BF16 && from == HT_F32;
	case HT_MODE_MIX_BF16:
		return to == HT_BF16 && from == HT_F32 && !black;
	case HT_MODE_KEEP:
		break;
	}
	return false;
}

static bool is_served(const struct judge *j, struct ht_tensor_of at, enum ht_dtype d)
{
	for (int i = 0; i < j->c->columns; i++) {
		enum ht_dtype t = ht_column_dtype(&j->c->column[i], at);
		if (t == d || (ht_is_low(d) && t == HT_F32))
			return true;
		if (ht_is_policy_float(d) && ht_is_low(t) && d != HT_F16 && may_reduce(j, d, t))
			return true;
	}
	return false;
}

static bool is_supported(struct judge *j)
{
	enum ht_dtype d;

	if (j->p->profile->computed_columns || j->c->by)
		return true;
	for (int32_t i = 0; i < j->n->ins; i++)
		if (is_tensor(j, false, i, &d) && !is_served(j, j->at, d))
			return false;
	for (int32_t i = 0; i < j->n->outs; i++)
		if (is_tensor(j, true, i, &d) && !is_served(j, j->at, d))
			return false;
	return true;
}

/* ---- which strategy ---- */

static bool is_complex(struct judge *j)
{
	const struct ht_op_info *info = ht_op_info(j->n->op);

	for (int i = 0; i < info->args + info->results; i++) {
		const struct ht_op_arg *formal =
			i < info->args ? &info->arg[i] : &info->result[i - info->args];
		enum ht_dtype d = ht_formal_from(j->p, j->n, formal);
		if (d != HT_INVALID && ht_dtype_info(d)->kind == HT_KIND_COMPLEX)
			return true;
	}
	return false;
}

static strategy *allow_of(const struct judge *j)
{
	return j->mode == HT_MODE_ALLOW_BF16 || j->mode == HT_MODE_MIX_BF16
		       ? ht_strategy_allow_bf16
		       : ht_strategy_allow_fp16;
}

/* An op without a kernel follows its producer in every mode but force_fp16, as it does under
 * allow_mix_precision_fp16.  By the manual, must_keep_origin_dtype leaves it alone too. */
static bool is_still(const struct judge *j)
{
	return j->c->offer->still && j->mode != HT_MODE_FORCE_FP16 &&
	       !(j->p->profile->manual && j->mode == HT_MODE_KEEP);
}

static void judge_still(struct judge *j)
{
	if (!j->p->profile->manual || j->low == HT_INVALID)
		j->low = HT_F16;
	j->c->rule = HT_BY(NO_KERNEL_FOLLOWS);
	judge_tensors(j, allow_of(j), true);
}

static void judge_mixed(struct judge *j)
{
	if (j->c->class == HT_CLASS_GRAY) {
		j->c->rule = HT_BY(GRAY_FOLLOWS);
		judge_tensors(j, allow_of(j), true);
	} else if (j->c->class == HT_CLASS_WHITE) {
		j->c->rule = HT_BY(WHITE);
		judge_tensors(j, ht_strategy_mix, false);
	} else {
		j->c->rule = HT_BY(BLACK);
		judge_tensors(j, ht_strategy_keep, false);
	}
}

static void judge_by_mode(struct judge *j)
{
	static const struct {
		strategy *apply;
		enum ht_by by;
	} of[] = {
		[HT_MODE_KEEP] = { ht_strategy_keep, HT_BY_MODE_KEEP },
		[HT_MODE_FORCE_FP16] = { ht_strategy_force_fp16, HT_BY_MODE_FORCE_FP16 },
		[HT_MODE_FORCE_FP32] = { ht_strategy_force_fp32, HT_BY_MODE_FORCE_FP32 },
		[HT_MODE_CUBE] = { ht_strategy_force_fp32, HT_BY_MODE_CUBE },
		[HT_MODE_ALLOW_FP16] = { ht_strategy_allow_fp16_marked, HT_BY_KEEPS_FLOAT32 },
		[HT_MODE_ALLOW_BF16] = { ht_strategy_allow_bf16, HT_BY_KEEPS_FLOAT32 },
	};

	j->c->rule = &ht_dtype_reasons[of[j->mode].by];
	judge_tensors(j, of[j->mode].apply, false);
	if (j->mode == HT_MODE_ALLOW_FP16 && j->c->offer->cube && !j->p->profile->manual)
		j->c->rule = HT_BY(PREFERS_FLOAT16);
}

/* A rule for the node takes precedence over its mode; a rule about dtypes takes precedence over
 * one that keeps them. */
static void name_rule(struct judge *j, const struct ht_rule *custom, const struct ht_rule *keeps)
{
	j->c->by = custom ? custom : keeps;
	if (custom)
		j->c->rule = HT_BY(CUSTOMIZE_DTYPES);
	if (j->c->by)
		j->c->list = j->c->by->where;
}

static void judge(struct judge *j)
{
	const struct ht_rule *custom = j->c->by, *keeps = NULL;

	j->keeps = ht_keeps_dtype(j->p, j->n, custom, &keeps) && !custom;
	if (!is_supported(j)) {
		j->c->fallback = true;
		j->c->rule = HT_BY(COMPUTED_ELSEWHERE);
		j->c->columns = 0;
		return;
	}
	if (j->keeps || ht_is(j->n, HT_CASTS) || is_complex(j)) {
		j->c->rule = ht_is(j->n, HT_CASTS) ? HT_BY(CAST) : HT_BY(KEEPS);
		j->keeps = true;
		judge_tensors(j, ht_strategy_allow_fp16, false);
	} else if (is_still(j)) {
		judge_still(j);
	} else if (j->mode == HT_MODE_MIX_FP16 || j->mode == HT_MODE_MIX_BF16) {
		judge_mixed(j);
	} else {
		judge_by_mode(j);
	}
	if (!j->matched)
		promote(j);
	if (!j->matched)
		judge_tensors(j, ht_strategy_keep, false);
	name_rule(j, custom, keeps);
	ht_settle(j->p, j->n);
}

void ht_ascend_decide(struct ht_precision *p)
{
	const struct ht_policy_kind *kind = ht_policy_effective(p->policy);

	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		struct judge j = { .p = p,
			.n = n,
			.c = &p->choice[n->id],
			.mode = (enum ht_mode)kind->mode,
			.low = kind->low };
		if (j.c->columns)
			judge(&j);
		else if (p->calls)
			ht_calls_decide(p, n, ht_ascend_decide);
	}
}
