/* The vendor's way to decide: nodes in topological order, each keeps narrowing its columns tensor
 * by tensor, the first column that is left wins.  Strictly forward: producers are final when a
 * node is judged.  A match that would leave nothing changes nothing.
 *
 * Not here, because nothing calls for it: promote groups (their operands share one type attribute
 * in TensorFlow's ops), and formats. */
#include "passes/precision/precision.h"

struct judge {
	struct ht_precision *p;
	struct ht_node *n;
	struct ht_choice *c;
	enum ht_mode mode;
	enum ht_dtype low; /* of the mixed modes and of ALLOW_ */
};

static bool is_low(enum ht_dtype t)
{
	return t == HT_F16 || t == HT_BF16;
}

static bool is_judged_float(enum ht_dtype t)
{
	return t == HT_F32 || is_low(t);
}

/* The target, else the nearest wider float: f32 for both low types, nothing for f32. */
static bool rise(struct judge *j, int attr, enum ht_dtype t)
{
	return ht_narrow_columns(j->c, attr, t) ||
	       (is_low(t) && ht_narrow_columns(j->c, attr, HT_F32));
}

/* To the mode's low type; another low type is never put in its place. */
static bool reduce(struct judge *j, int attr, enum ht_dtype t)
{
	return t == HT_F32 && j->low != HT_INVALID && ht_narrow_columns(j->c, attr, j->low);
}

/* ---- strategies: one tensor, of type attribute `attr`, of original dtype `d` ---- */

static void keep(struct judge *j, int attr, enum ht_dtype d)
{
	rise(j, attr, d);
}

/* The manual: float32 stays wherever a float32 kernel is.  (The vendor's code first tries float16
 * for matrix products and convolutions.) */
static void allow(struct judge *j, int attr, enum ht_dtype d)
{
	if (!rise(j, attr, d))
		reduce(j, attr, d);
}

static void force(struct judge *j, int attr, enum ht_dtype d)
{
	(void)d;
	rise(j, attr, j->mode == HT_MODE_FORCE_FP16 ? HT_F16 : HT_F32);
}

/* Goes low where a kernel can; a tensor of the other low type keeps it. */
static void mix(struct judge *j, int attr, enum ht_dtype d)
{
	if (is_low(d) && d != j->low)
		rise(j, attr, d);
	else
		ht_narrow_columns(j->c, attr, j->low);
}

/* The dtype an operand arrives in.  A cast from the low type up is looked through: the cast one
 * would only be cast back. */
static enum ht_dtype arriving(struct judge *j, struct ht_value v)
{
	const char *list;
	struct ht_value before;

	if (v.node->op != HT_OP_Cast ||
		ht_profile_class(j->p->profile, v.node, &list) == HT_CLASS_BLACK)
		return ht_decided_dtype(j->p, v);
	before = v.node->in[0];
	if (is_low(ht_decided_dtype(j->p, before)) && ht_decided_dtype(j->p, v) == HT_F32)
		return ht_decided_dtype(j->p, before);
	return ht_decided_dtype(j->p, v);
}

static void follow(struct judge *j, int attr, struct ht_value v)
{
	enum ht_dtype f = arriving(j, v);

	if (!j->c->followed)
		j->c->followed = v.node;
	if (!rise(j, attr, f))
		reduce(j, attr, f);
}

/* ---- one node ---- */

static bool is_constant(const struct ht_node *n)
{
	return n->op == HT_OP_Const || n->op == HT_OP_ReadVariableOp || n->op == HT_OP_VariableV2 ||
	       n->op == HT_OP_Variable;
}

static bool is_gray(const struct judge *j)
{
	if (j->mode != HT_MODE_FORCE_FP16 && ht_profile_is_still(j->p->profile, j->n))
		return true;
	return (j->mode == HT_MODE_MIX_FP16 || j->mode == HT_MODE_MIX_BF16) &&
	       j->c->class == HT_CLASS_GRAY;
}

static void judge_gray(struct judge *j)
{
	j->c->rule = ht_profile_is_still(j->p->profile, j->n)
			     ? "has no kernel: follows its producer"
			     : "gray: follows its producer";
	for (int constants = 0; constants < 2; constants++) {
		for (int32_t i = 0; i < j->n->ins; i++) {
			struct ht_unit *u = ht_unit_of_arg(j->p, j->n, i);
			if (u && is_judged_float(u->from) &&
				is_constant(j->n->in[i].node) == (constants == 1))
				follow(j, u->attr, j->n->in[i]);
		}
	}
	for (int32_t i = 0; i < j->n->outs; i++) {
		struct ht_unit *u = ht_unit_of_result(j->p, j->n, i);
		if (u && is_judged_float(u->from))
			allow(j, u->attr, u->from);
	}
}

typedef void strategy(struct judge *j, int attr, enum ht_dtype d);

static strategy *strategy_of(struct judge *j)
{
	if (j->n->op == HT_OP_Cast) {
		j->c->rule = "a cast of the graph";
		return allow;
	}
	switch (j->mode) {
	case HT_MODE_KEEP:
		j->c->rule = "must_keep_origin_dtype";
		return keep;
	case HT_MODE_FORCE_FP16:
		j->c->rule = "force_fp16";
		return force;
	case HT_MODE_FORCE_FP32:
		j->c->rule = "force_fp32";
		return force;
	case HT_MODE_ALLOW_FP16:
	case HT_MODE_ALLOW_BF16:
		j->c->rule = "keeps float32 where a kernel has it";
		return allow;
	case HT_MODE_MIX_FP16:
	case HT_MODE_MIX_BF16:
		break;
	}
	if (j->c->class == HT_CLASS_WHITE) {
		j->c->rule = "white: goes low where a kernel can";
		return mix;
	}
	j->c->rule = "black: keeps its dtype";
	return keep;
}

/* Inputs first, constants behind the others, then outputs. */
static void judge_by(struct judge *j, strategy *apply)
{
	for (int constants = 0; constants < 2; constants++) {
		for (int32_t i = 0; i < j->n->ins; i++) {
			struct ht_unit *u = ht_unit_of_arg(j->p, j->n, i);
			if (u && is_judged_float(u->from) &&
				is_constant(j->n->in[i].node) == (constants == 1))
				apply(j, u->attr, u->from);
		}
	}
	for (int32_t i = 0; i < j->n->outs; i++) {
		struct ht_unit *u = ht_unit_of_result(j->p, j->n, i);
		if (u && is_judged_float(u->from))
			apply(j, u->attr, u->from);
	}
}

static enum ht_dtype low_of(enum ht_mode mode)
{
	switch (mode) {
	case HT_MODE_ALLOW_FP16:
	case HT_MODE_MIX_FP16:
	case HT_MODE_FORCE_FP16:
	case HT_MODE_FORCE_FP32:
		return HT_F16;
	case HT_MODE_ALLOW_BF16:
	case HT_MODE_MIX_BF16:
		return HT_BF16;
	case HT_MODE_KEEP:
		break;
	}
	return HT_INVALID;
}

void ht_ascend_decide(struct ht_precision *p)
{
	enum ht_mode mode = (enum ht_mode)p->policy->kind->mode;

	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		struct judge j = { p, n, &p->choice[n->id], mode, low_of(mode) };
		if (!j.c->columns)
			continue;
		if (is_gray(&j))
			judge_gray(&j);
		else
			judge_by(&j, strategy_of(&j));
		ht_settle(p, n);
	}
}
