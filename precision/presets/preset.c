/* One walk over the nodes, which gives each its type by its class. */
#include "precision/presets/preset.h"

#include "passes/rewrite.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

extern const struct ht_preset ht_preset_keras, ht_preset_onnx, ht_preset_openvino_bf16,
	ht_preset_openvino_fp16, ht_preset_pytorch, ht_preset_tvm;

static const struct ht_preset *const presets[] = {
	[HT_PRESET_KERAS] = &ht_preset_keras,
	[HT_PRESET_ONNX] = &ht_preset_onnx,
	[HT_PRESET_OPENVINO_BF16] = &ht_preset_openvino_bf16,
	[HT_PRESET_OPENVINO_FP16] = &ht_preset_openvino_fp16,
	[HT_PRESET_PYTORCH] = &ht_preset_pytorch,
	[HT_PRESET_TVM] = &ht_preset_tvm,
};

static int by_type(const void *key, const void *row)
{
	return ht_str_cmp(
		*(const struct ht_str *)key, ht_str(((const struct ht_preset_row *)row)->type));
}

const struct ht_preset_row *ht_preset_row_of(const struct ht_preset *s, struct ht_str type)
{
	return bsearch(&type, s->row, s->rows, sizeof *s->row, by_type);
}

enum ht_preset_class ht_preset_class_of(const struct ht_preset *s, const struct ht_node *n)
{
	const struct ht_preset_row *row = ht_preset_row_of(s, n->type);

	return row ? row->class : s->otherwise;
}

struct walk {
	struct ht_precision *p;
	const struct ht_preset *preset;
	enum ht_dtype low;
	const struct ht_dtype_reason **kept;
};

/* ---- types of operands ---- */

static bool is_float_operand(struct walk *w, const struct ht_node *n, int32_t i)
{
	const struct ht_unit *u = ht_unit_of_arg(w->p, n, i);

	return u && ht_is_policy_float(u->from);
}

/* Constants, parameters and arguments are converted at no cost. */
static bool is_free(const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT | HT_VARIABLE | HT_READS_VARIABLE) ||
	       (ht_is(n, HT_FED) && !ht_is(n, HT_HAS_DEFAULT));
}

static bool all_low_or_free(struct walk *w, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (is_float_operand(w, n, i) && !is_free(n->in[i].node) &&
			ht_decided_dtype(w->p, n->in[i]) != w->low)
			return false;
	return true;
}

static bool is_scalar(struct ht_value v)
{
	const struct ht_type *t = ht_type_of(v);

	return t->shape.rank == 0;
}

/* Scalars count only if all operands are scalars. */
static bool arrives_low(struct walk *w, const struct ht_node *n)
{
	bool tensors = false, wide[2] = { false, false }, any[2] = { false, false };

	for (int32_t i = 0; i < n->ins; i++) {
		bool tensor;
		if (!is_float_operand(w, n, i))
			continue;
		tensor = !is_scalar(n->in[i]);
		tensors |= tensor;
		any[tensor] = true;
		wide[tensor] |= ht_decided_dtype(w->p, n->in[i]) != w->low;
	}
	return any[tensors] && !wide[tensors];
}

static bool first_is_low(struct walk *w, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (is_float_operand(w, n, i))
			return ht_decided_dtype(w->p, n->in[i]) == w->low;
	return false;
}

/* ---- one node ---- */

struct verdict {
	bool low;
	const struct ht_dtype_reason *rule;
	enum ht_class class;
};

static struct verdict judge(struct walk *w, const struct ht_node *n)
{
	enum ht_preset_class class = ht_preset_class_of(w->preset, n);
	bool low;

	if (w->kept[n->id])
		return (struct verdict){ false, w->kept[n->id], HT_CLASS_BLACK };
	switch (class) {
	case HT_PRESET_FLOAT32:
		return (struct verdict){ false, HT_BY(STAYS), HT_CLASS_BLACK };
	case HT_PRESET_FOLLOW:
		low = all_low_or_free(w, n);
		return (struct verdict){ low, low ? HT_BY(FOLLOWS_LOW) : HT_BY(FOLLOWS_FLOAT32),
			HT_CLASS_GRAY };
	case HT_PRESET_WIDEST:
		low = arrives_low(w, n);
		return (struct verdict){ low, low ? HT_BY(ARRIVES_LOW) : HT_BY(ARRIVES_WIDE),
			HT_CLASS_GRAY };
	case HT_PRESET_FIRST:
		return (struct verdict){ first_is_low(w, n), HT_BY(FIRST_OPERAND), HT_CLASS_GRAY };
	case HT_PRESET_LOW:
	case HT_PRESET_SPREAD:
	case HT_PRESET_TAIL:
		break;
	}
	return (struct verdict){ true, HT_BY(GOES_LOW), HT_CLASS_WHITE };
}

/* Narrows the columns by every tensor that is float32 in the graph, as far as kernels permit. */
static bool narrow(struct walk *w, const struct ht_node *n, enum ht_dtype to)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	bool found = false;

	for (int i = 0; i < info->args + info->results; i++) {
		struct ht_tensor_of of = { i >= info->args, i < info->args ? i : i - info->args };
		const struct ht_op_arg *formal =
			of.result ? &info->result[of.formal] : &info->arg[of.formal];
		if (ht_formal_from(w->p, n, formal) == HT_F32)
			found |= ht_narrow_columns(&w->p->choice[n->id], of, to);
	}
	return found;
}

static bool has_float32(struct walk *w, const struct ht_node *n)
{
	for (int i = 0; i < ht_op_info(n->op)->type_attrs; i++)
		if (ht_unit_of(w->p, n, i)->from == HT_F32)
			return true;
	return false;
}

static void visit(struct walk *w, const struct ht_node *n)
{
	struct ht_choice *c = &w->p->choice[n->id];
	const struct ht_preset_row *row = ht_preset_row_of(w->preset, n->type);
	const struct ht_rule *custom = c->by, *keeps = NULL;
	struct verdict v = judge(w, n);
	bool kept = ht_keeps_dtype(w->p, n, custom, &keeps);

	c->list = row ? row->list : "no list has it";
	c->class = v.class;
	c->rule = v.rule;
	if (custom || kept) {
		c->by = custom ? custom : keeps;
		c->rule = custom ? HT_BY(CUSTOMIZE_DTYPES) : HT_BY(KEEPS);
		c->list = c->by ? c->by->where : NULL;
	} else if (ht_is(n, HT_CASTS)) {
		c->rule = HT_BY(CAST);
	} else if (!has_float32(w, n)) {
		c->rule = HT_BY(NOT_FLOAT32);
	} else if (v.low && !narrow(w, n, w->low)) {
		c->rule = HT_BY(NO_LOW_KERNEL);
	}
	ht_settle(w->p, n);
}

void ht_preset_decide(struct ht_precision *p)
{
	const struct ht_policy_kind *kind = ht_policy_effective(p->policy);
	struct walk w = { .p = p, .preset = presets[kind->mode], .low = kind->low };

	w.kept = ht_preset_kept(p, w.preset);
	for (const struct ht_node *n = p->graph->first; n; n = n->next)
		if (p->choice[n->id].columns)
			visit(&w, n);
}

/* ---- constants ---- */

static float within(const struct ht_clamp *s, float x)
{
	float magnitude = x < 0 ? -x : x, kept = magnitude;

	if (magnitude > 0 && magnitude < s->smallest)
		kept = s->smallest;
	if (magnitude > s->largest && magnitude <= FLT_MAX)
		kept = s->largest;
	return x < 0 ? -kept : x > 0 ? kept : x;
}

static bool is_within(const struct ht_clamp *s, struct ht_value v)
{
	int64_t n = 0;
	const unsigned char *p = ht_const_f32(v, &n);

	for (int64_t i = 0; p && i < n; i++) {
		float x = ht_load_f32(p, i);
		if (x == x && within(s, x) != x)
			return false;
	}
	return true;
}

static struct ht_value clamped(struct ht_precision *p, const struct ht_clamp *s, struct ht_value v)
{
	int64_t n = 0;
	const unsigned char *from = ht_const_f32(v, &n);
	struct ht_blob *b = ht_blob_in(p->arena, (size_t)n * sizeof(float));
	struct ht_node *to;

	for (int64_t i = 0; i < n; i++) {
		float x = within(s, ht_load_f32(from, i));
		memcpy((unsigned char *)b->p + i * (int64_t)sizeof x, &x, sizeof x);
	}
	to = ht_const_sharing(p->graph,
		ht_graph_free_name(p->graph,
			ht_str_printf(p->graph->arena, "%.*s/clamped", HT_STR_ARG(v.node->name))),
		HT_F32, ht_type_of(v)->shape, b);
	ht_node_move(to, v.node->next);
	return ht_out(to, 0);
}

void ht_clamp_constants(struct ht_precision *p, const struct ht_clamp *c)
{
	p->decisions->clamp = *c;
	for (struct ht_node *n = p->graph->first; c->largest > 0 && n; n = n->next)
		if (ht_is(n, HT_CASTS) && ht_is_const(n->in[0]) && n->out[0].dtype == c->type &&
			!is_within(c, n->in[0]))
			n->in[0] = clamped(p, c, n->in[0]);
}

void ht_preset_finish(struct ht_precision *p)
{
	const struct ht_policy_kind *kind = ht_policy_effective(p->policy);
	const struct ht_preset *s = presets[kind->mode];
	struct ht_clamp c = { kind->low, s->smallest, s->largest };

	ht_clamp_constants(p, &c);
}
