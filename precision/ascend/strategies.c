/* How one tensor narrows the columns of its node, for each mode. */
#include "precision/ascend/judge.h"

/* ---- matchers: each narrows the columns, or returns false and changes nothing ---- */

bool ht_judge_narrow(struct judge *j, enum ht_dtype t)
{
	bool found = ht_narrow_columns(j->c, j->at, t);

	j->matched |= found;
	return found;
}

/* Takes t, or else the nearest wider float: f32 for both low types, nothing for f32.  Integers
 * match only exactly. */
static bool rise(struct judge *j, enum ht_dtype t)
{
	return ht_judge_narrow(j, t) || (ht_is_low(t) && ht_judge_narrow(j, HT_F32));
}

/* Whether `t` is the low type that the mode never substitutes; it is permitted if it is the
 * tensor's own dtype `d`. */
static bool is_forbidden(const struct judge *j, enum ht_dtype t, enum ht_dtype d)
{
	if (j->keeps)
		return false;
	switch (j->mode) {
	case HT_MODE_FORCE_FP16:
	case HT_MODE_FORCE_FP32:
	case HT_MODE_CUBE:
		return t == HT_BF16;
	case HT_MODE_ALLOW_FP16:
	case HT_MODE_MIX_FP16:
		return t == HT_BF16 && d != HT_BF16;
	case HT_MODE_ALLOW_BF16:
	case HT_MODE_MIX_BF16:
		return t == HT_F16 && d != HT_F16;
	case HT_MODE_KEEP:
		break;
	}
	return false;
}

static bool reduce(struct judge *j, enum ht_dtype t, enum ht_dtype d)
{
	if (t == HT_F32 && !is_forbidden(j, HT_BF16, d) && ht_judge_narrow(j, HT_BF16))
		return true;
	return (t == HT_F32 || t == HT_BF16) && !is_forbidden(j, HT_F16, d) &&
	       ht_judge_narrow(j, HT_F16);
}

/* ---- strategies for one tensor whose original dtype is `d` ---- */

void ht_strategy_keep(struct judge *j, enum ht_dtype d)
{
	rise(j, d);
}

/* The vendor's code first tries float16 for matrix products and convolutions; by the manual,
 * float32 stays if there is a float32 kernel. */
void ht_strategy_allow_fp16(struct judge *j, enum ht_dtype d)
{
	bool prefers_fp16 = d == HT_F32 && j->c->offer->cube && !j->keeps && !j->p->profile->manual;
	enum ht_dtype target = prefers_fp16 ? HT_F16 : d;

	if (!rise(j, target) && reduce(j, target, d) && target == HT_F32)
		j->reduced = true;
}

void ht_strategy_allow_bf16(struct judge *j, enum ht_dtype d)
{
	if (!rise(j, d))
		reduce(j, d, d);
}

void ht_strategy_force_fp16(struct judge *j, enum ht_dtype d)
{
	rise(j, ht_is_policy_float(d) ? HT_F16 : d);
}

/* Once an operand had to become low, the other tensors of the node become low too. */
void ht_strategy_allow_fp16_marked(struct judge *j, enum ht_dtype d)
{
	if (j->reduced && !j->keeps)
		ht_strategy_force_fp16(j, d);
	else
		ht_strategy_allow_fp16(j, d);
}

static bool has_cube_column(const struct judge *j)
{
	for (int i = 0; i < j->c->columns; i++)
		if ((j->c->left >> i & 1) && j->c->column[i].arg[0] == HT_F16 &&
			j->c->column[i].result[0] == HT_F32)
			return true;
	return false;
}

void ht_strategy_force_fp32(struct judge *j, enum ht_dtype d)
{
	bool cube = j->c->offer->cube && (j->mode == HT_MODE_CUBE || !j->p->profile->manual);
	enum ht_dtype target = ht_is_low(d) ? HT_F32 : d;

	if (cube && ht_is_policy_float(d) && !j->at.result &&
		(j->at.formal == 0 || j->p->profile->manual) && has_cube_column(j))
		target = HT_F16;
	if (!rise(j, target))
		reduce(j, target, d);
}

/* Becomes low if a kernel can; a tensor of the other low type keeps it. */
void ht_strategy_mix(struct judge *j, enum ht_dtype d)
{
	if (!ht_is_policy_float(d) || (ht_is_low(d) && d != j->low))
		rise(j, d);
	else
		ht_judge_narrow(j, j->low);
}

/* ---- gray ---- */

/* The dtype in which an operand arrives.  A cast from the low type up is ignored: casting its
 * result would only cast back. */
static enum ht_dtype arriving(struct judge *j, struct ht_value v)
{
	enum ht_dtype to = ht_decided_dtype(j->p, v), from;

	if (!ht_is(v.node, HT_CASTS) || j->p->choice[v.node->id].class == HT_CLASS_BLACK)
		return to;
	from = ht_decided_dtype(j->p, v.node->in[0]);
	return from == j->low && ht_is_policy_float(to) ? from : to;
}

void ht_strategy_follow(struct judge *j, struct ht_value v, enum ht_dtype d)
{
	enum ht_dtype f = arriving(j, v);

	if (!j->c->followed && ht_is_policy_float(d))
		j->c->followed = v.node;
	if (!rise(j, f))
		reduce(j, f, d);
}
