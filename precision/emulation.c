/* Number formats in the place of a low type.
 *
 * A policy decides as it does for its low type, the *slot*; then every tensor of that type
 * becomes float32.  A Cast to the slot becomes a rounding to the format of activations, weights
 * or gradients; a Cast from it is removed; a node that computes in the slot gets a rounding
 * behind it.  A format of blocks along the summed axis is applied only in front of contractions,
 * since other ops have no summed axis.
 */
#include "precision/emulation.h"
#include "precision/roles.h"

/* ---- roles ---- */

/* Whether the node only returns elements of its operands, which have been rounded already. */
static bool only_moves(const struct ht_node *n)
{
	return ht_is(n, HT_ONLY_MOVES);
}

enum ht_role ht_emulated_role(const struct ht_emulating *x, const struct ht_node *n)
{
	return n->id < x->ids ? (enum ht_role)x->role[n->id] : HT_ROLE_ACTIVATIONS;
}

/* ---- where values are rounded ---- */

static bool is_of_slot(const struct ht_emulating *x, struct ht_value v)
{
	return v.index >= 0 && v.index < v.node->outs && v.node->out[v.index].dtype == x->e->slot;
}

/* The format of a value that is rounded where it is computed; NULL: it is not rounded, or where
 * it is read. */
static const struct ht_float_format *format_of(
	const struct ht_emulating *x, const struct ht_node *n)
{
	enum ht_role role = ht_emulated_role(x, n);
	const struct ht_float_format *f = &x->e->format[role];

	return x->e->native == HT_INVALID && x->e->rounds[role] && (!f->block || f->has_axis)
		       ? f
		       : NULL;
}

/* How the operands of a contraction are rounded; their producers are float32 by then. */
struct summed {
	struct ht_node *node;
	uint64_t low; /* bit set: operands in the slot */
};

/* Whether the operand had the slot's type; one that was rounded and cast back counts too. */
static bool was_low(const struct ht_emulating *x, struct ht_value v)
{
	if (ht_is(v.node, HT_CASTS) && ht_type_of(v)->dtype == HT_F32)
		v = v.node->in[0];
	return is_of_slot(x, v);
}

static uint64_t low_operands(const struct ht_emulating *x, const struct ht_node *n)
{
	uint64_t low = 0;

	for (int32_t i = 0; i < n->ins && i < 64 && ht_is(n, HT_CONTRACTS); i++)
		if (was_low(x, n->in[i]))
			low |= UINT64_C(1) << i;
	return low;
}

static void round_operands(struct ht_emulating *x, struct summed s)
{
	for (int32_t i = 0; i < s.node->ins && i < 64; i++) {
		struct ht_value v = s.node->in[i];
		enum ht_role role = ht_emulated_role(x, v.node);
		const struct ht_float_format *f = &x->e->format[role];

		if (!(s.low >> i & 1) || !x->e->rounds[role] || !f->block || f->has_axis)
			continue;
		ht_rw_set_in(&x->rw, s.node, i,
			ht_round_to(x, s.node, v, f, ht_summed_axis(s.node, i), true));
	}
}

/* ---- nodes ---- */

/* Whether the node passes on values that have been rounded: control flow, calls and arguments. */
static bool hands_over(const struct ht_node *n)
{
	return only_moves(n) || (ht_op_info(n->op)->effects & HT_CALLS) ||
	       ht_is(n, HT_FED | HT_SWITCHES | HT_DISPATCHES | HT_MERGES | HT_ENTERS | HT_ITERATES |
				HT_READS_VARIABLE);
}

static void round_result(struct ht_emulating *x, struct ht_node *n, int32_t i)
{
	const struct ht_float_format *f = format_of(x, n);
	struct ht_value v = ht_out(n, i);

	if (f && n->next && !hands_over(n))
		ht_rw_replace_behind(
			&x->rw, v, ht_round_to(x, n->next, v, f, f->axis, ht_is(n, HT_CASTS)));
}

/* A Cast to or from the slot becomes one of float32; if the other type is float32, it is
 * removed. */
static void convert_cast(struct ht_emulating *x, struct ht_node *n, bool to_slot)
{
	const struct ht_float_format *f = to_slot ? format_of(x, n) : NULL;
	struct ht_value v = n->in[0];

	if (f)
		v = ht_round_to(x, n, v, f, f->axis, true);
	ht_rw_become(&x->rw, n, HT_OP_Identity, &v, 1);
	ht_attr_set_type(n, "T", HT_F32);
}

static void convert(struct ht_emulating *x, struct ht_node *n)
{
	enum ht_dtype to = x->e->native == HT_INVALID ? HT_F32 : x->e->native;
	uint64_t low = 0;

	ht_attrs_retype(n, x->e->slot, to);
	for (int32_t i = 0; i < n->outs; i++)
		if (is_of_slot(x, ht_out(n, i))) {
			n->out[i].dtype = to;
			low |= i < 64 ? UINT64_C(1) << i : 0;
		}
	if (ht_is(n, HT_CASTS) && to == HT_F32 && ht_type_of(n->in[0])->dtype == HT_F32 &&
		n->out[0].dtype == HT_F32) {
		convert_cast(x, n, low);
		return;
	}
	for (int32_t i = 0; i < n->outs && i < 64; i++)
		if (low >> i & 1)
			round_result(x, n, i);
}

/* Policies that paint leave graphs without inferred types. */
static void state_types(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			if (n->out[i].dtype == HT_INVALID)
				n->out[i].dtype = ht_stated_type(ht_out(n, i)).dtype;
}

/* A cast is converted after its operand. */
static enum ht_status convert_graph(struct ht_emulating *x)
{
	size_t n, count = 0;
	struct ht_node **node;
	struct summed *summed;

	state_types(x->rw.g);
	x->ids = x->rw.g->ids;
	x->role = ht_roles_of(x->rw.g, x->rw.arena);
	node = ht_rw_nodes(&x->rw, &n);
	summed = HT_NEW_ARRAY(x->rw.arena, struct summed, n);
	for (size_t i = 0; i < n; i++) {
		struct summed s = { node[i], low_operands(x, node[i]) };
		if (s.low)
			summed[count++] = s;
	}
	for (size_t i = 0; i < n; i++)
		if (node[i]->graph)
			convert(x, node[i]);
	for (size_t i = 0; i < count && x->e->native == HT_INVALID; i++)
		if (summed[i].node->graph)
			round_operands(x, summed[i]);
	return x->status;
}

static enum ht_status emulate_in(
	const struct ht_emulation *e, struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_emulating x = { .diags = c->diags, .e = e };

	ht_rw_init(&x.rw, g, c);
	return convert_graph(&x);
}

enum ht_status ht_emulate(
	const struct ht_policy *policy, struct ht_graph *g, struct ht_pass_context *c)
{
	for (size_t i = 0; i < policy->emulations; i++) {
		HT_TRY(emulate_in(&policy->emulation[i], g, c));
		for (struct ht_function *f = g->functions; f; f = f->next)
			HT_TRY(emulate_in(&policy->emulation[i], f->body, c));
	}
	return HT_OK;
}

/* ---- reports ---- */

enum ht_dtype ht_effective_dtype(const struct ht_decided_type *t)
{
	return t->operands != HT_INVALID   ? t->operands
	       : t->emulated != HT_INVALID ? t->emulated
					   : t->to;
}

void ht_emulation_note(const struct ht_policy *policy, struct ht_decisions *out)
{
	const char *text[HT_MAX_EMULATIONS];

	out->emulation = policy->emulation;
	out->emulations = policy->emulations;
	for (size_t i = 0; i < policy->emulations; i++) {
		const struct ht_emulation *e = &policy->emulation[i];
		struct ht_buf b;

		ht_buf_init(&b, out->arena);
		ht_emulation_put(&b, e);
		text[i] = ht_str_printf(out->arena, "%s%s", ht_buf_str(&b).p,
			e->native == HT_INVALID ? " (emulated)" : "")
				  .p;
		for (size_t k = 0; k < out->types; k++)
			if (ht_effective_dtype(&out->type[k]) == e->slot)
				out->type[k].format = text[i];
		for (size_t k = 0; k < out->casts; k++)
			if (out->cast[k].from == e->slot || out->cast[k].to == e->slot)
				out->cast[k].format = text[i];
	}
}

/* ---- graphs that already have tensors of the slot ---- */

static enum ht_status check(
	const struct ht_emulation *e, const struct ht_graph *g, struct ht_diags *d)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		bool has = ht_attrs_have_type(n, e->slot);

		for (int32_t i = 0; i < n->outs; i++)
			has |= n->out[i].dtype == e->slot;
		if (has)
			return ht_error(d, HT_E_UNSUPPORTED,
				(struct ht_where){ .path = g->path,
					.node = n->name,
					.op = n->type,
					.offset = -1 },
				"the model has tensors of %s itself, which cannot be told from those that the policy's "
				"formats stand for; a policy of the other 16-bit type can",
				ht_dtype_info(e->slot)->name);
	}
	return HT_OK;
}

enum ht_status ht_emulation_check(
	const struct ht_policy *policy, const struct ht_graph *g, struct ht_diags *d)
{
	for (size_t i = 0; i < policy->emulations; i++) {
		HT_TRY(check(&policy->emulation[i], g, d));
		for (const struct ht_function *f = g->functions; f; f = f->next)
			HT_TRY(check(&policy->emulation[i], f->body, d));
	}
	return HT_OK;
}
