/* The assignment problem of a graph, priced by the fusion of a trial.
 *
 * A node pays for its work, for what it reads from other kernels, and for the store if its
 * kernel ends with it; otherwise for rounding its result, if the kernel rounds it.  A cast pays
 * what it adds to that: within a kernel, the rounding; at the end of a kernel, if it folds into
 * the producer, the difference of the stores, and the rounding if it widens; otherwise a kernel
 * of its own.  If the trial had the same cast, its place in the trial decides; else the most
 * likely one.
 *
 * A low label costs an additional picosecond, so that ties go to float32. */
#include "precision/optimal/optimal.h"

struct build {
	struct ht_precision *p;
	const struct ht_safety *safety;
	const struct ht_pricing *pricing;
	const struct ht_trial *trial;
	const struct ht_uses *uses;
	const struct ht_use **use; /* uses as operands, grouped by result: uses_of() */
	size_t *end;               /* by number_of() of a result: the end of its group in `use` */
	bool *has_free_user;       /* by node id: some reader of its results has a unit */
	struct ht_problem *out;
};

/* The uses of one result. */
struct span {
	const struct ht_use *const *first, *const *end;
};

static size_t number_of(const struct build *b, struct ht_value v)
{
	return b->uses->first_count[v.node->id] + (size_t)v.index;
}

static struct span uses_of(const struct build *b, struct ht_value v)
{
	size_t at = number_of(b, v);

	return (struct span){ b->use + (at ? b->end[at - 1] : 0), b->use + b->end[at] };
}

static bool is_operand(const struct ht_node *n, const struct ht_use *u)
{
	int32_t i = u->arg < 0 ? -1 : u->node->in[u->arg].index;

	return i >= 0 && i < n->outs;
}

/* Groups uses by result (counting sort).  A node has one list for the uses of all its results;
 * searching it for each of very many results would take too long. */
static void sort_uses(struct build *b, struct ht_arena *a)
{
	const struct ht_graph *g = b->p->graph;
	size_t results = 0, uses = 0;

	for (const struct ht_node *n = g->first; n; n = n->next)
		results += (size_t)n->outs;
	b->end = HT_NEW_ARRAY(a, size_t, results);
	for (struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_use *u = b->uses->of[n->id]; u; u = u->next)
			if (is_operand(n, u))
				b->end[number_of(b, u->node->in[u->arg])]++;
	/* The counts become the starts of the groups; filling the groups moves the starts to the ends. */
	for (size_t i = 0; i < results; i++) {
		size_t count = b->end[i];

		b->end[i] = uses;
		uses += count;
	}
	b->use = (const struct ht_use **)ht_alloc_array(a, uses, sizeof *b->use);
	for (struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_use *u = b->uses->of[n->id]; u; u = u->next)
			if (is_operand(n, u))
				b->use[b->end[number_of(b, u->node->in[u->arg])]++] = u;
}

enum ht_dtype ht_label_dtype(enum ht_label l)
{
	return l == HT_LABEL_F16 ? HT_F16 : l == HT_LABEL_BF16 ? HT_BF16 : HT_F32;
}

static bool label_of_dtype(enum ht_dtype t, enum ht_label *l)
{
	*l = t == HT_F16 ? HT_LABEL_F16 : t == HT_BF16 ? HT_LABEL_BF16 : HT_LABEL_F32;
	return t == HT_F32 || ht_is_low(t);
}

/* ---- units ---- */

/* Whether every operand and result has the type of its attribute. */
static bool is_uniform(const struct ht_op_info *info, const struct ht_column *c)
{
	for (int i = 0; i < info->args; i++)
		if (info->arg[i].type_attr >= 0 &&
			c->arg[i] != c->dtype[(int)info->arg[i].type_attr])
			return false;
	for (int i = 0; i < info->results; i++)
		if (info->result[i].type_attr >= 0 &&
			c->result[i] != c->dtype[(int)info->result[i].type_attr])
			return false;
	return true;
}

static unsigned find_changes(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_choice *c = &p->choice[n->id];
	const struct ht_op_info *info = ht_op_info(n->op);
	unsigned changes = 0;

	for (int i = 0; i < c->columns; i++)
		for (int k = 0; k < info->type_attrs; k++)
			if ((c->left >> i & 1) && is_uniform(info, &c->column[i]) &&
				c->column[i].dtype[k] != ht_unit_of(p, n, k)->from)
				changes |= 1u << k;
	return changes;
}

/* The column in which all attributes that change have the label's type; -1: none. */
static int find_column(
	struct ht_precision *p, const struct ht_node *n, enum ht_label l, unsigned changes)
{
	const struct ht_choice *c = &p->choice[n->id];
	const struct ht_op_info *info = ht_op_info(n->op);

	for (int i = 0; i < c->columns; i++) {
		bool fits = (c->left >> i & 1) && is_uniform(info, &c->column[i]);
		for (int k = 0; k < info->type_attrs && fits; k++)
			fits = c->column[i].dtype[k] ==
			       (changes >> k & 1 ? ht_label_dtype(l) : ht_unit_of(p, n, k)->from);
		if (fits)
			return i;
	}
	return -1;
}

/* The labels of a node with columns.  Nodes of the same types share an offer; the result is kept
 * for each set of columns that rules leave. */
static const struct ht_offer_labels *labels_of(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_choice *c = &p->choice[n->id];
	struct ht_offer_labels *to = c->offer->labels;

	if (to->left == c->left)
		return to;
	to->left = c->left;
	to->changes = find_changes(p, n);
	for (int l = 0; l < HT_LABELS; l++)
		to->column[l] = (int8_t)find_column(p, n, (enum ht_label)l, to->changes);
	return to;
}

static bool attr_changes(struct ht_precision *p, const struct ht_node *n, int attr)
{
	return p->choice[n->id].columns && (labels_of(p, n)->changes >> attr & 1);
}

const struct ht_column *ht_label_column(
	struct ht_precision *p, const struct ht_node *n, enum ht_label l)
{
	const struct ht_choice *c = &p->choice[n->id];
	int i = c->columns ? labels_of(p, n)->column[l] : -1;

	return i < 0 ? NULL : &c->column[i];
}

/* Whether the user's rules leave only one type. */
static bool is_forced(struct ht_precision *p, const struct ht_node *n)
{
	int columns = 0;

	for (int l = 0; l < HT_LABELS; l++)
		columns += ht_label_column(p, n, (enum ht_label)l) != NULL;
	return columns == 1;
}

/* Whether every type that may change is float32: low precision in the graph was chosen by its
 * author, and stays. */
static bool is_free(struct ht_precision *p, const struct ht_node *n)
{
	bool changes = false;

	for (int i = 0; i < ht_op_info(n->op)->type_attrs && p->choice[n->id].columns; i++) {
		if (!attr_changes(p, n, i))
			continue;
		if (ht_unit_of(p, n, i)->from != HT_F32)
			return false;
		changes = true;
	}
	return changes && (ht_label_column(p, n, HT_LABEL_F32) || is_forced(p, n));
}

static uint32_t unit_of_attr(struct build *b, const struct ht_node *n, int attr, enum ht_dtype t)
{
	enum ht_label l;

	if (attr >= 0 && b->out->unit[n->id] != UINT32_MAX && attr_changes(b->p, n, attr))
		return b->out->unit[n->id];
	return label_of_dtype(t, &l) ? (uint32_t)l : UINT32_MAX; /* the fixed units come first */
}

static struct ht_node *kernel_of(struct build *b, const struct ht_node *n)
{
	return b->trial->fusion.kernel[b->trial->copy[n->id]->id];
}

/* Whether the node's results are in memory, or would be, except for a cast at the end of its
 * kernel. */
static bool is_stored(struct build *b, const struct ht_node *n)
{
	const struct ht_node *copy = b->trial->copy[n->id], *kernel = kernel_of(b, n);

	return kernel && (kernel == copy || (ht_is(kernel, HT_CASTS) && kernel->ins == 1 &&
						    kernel->in[0].node == copy));
}

static bool is_constant(struct ht_value v)
{
	return ht_is(v.node, HT_CONSTANT);
}

static bool is_free_view(struct build *b, const struct ht_node *n)
{
	return ht_is_view(n) && is_stored(b, n) && n->ins &&
	       kernel_of(b, n->in[0].node) != kernel_of(b, n);
}

/* Whether its kernel rounds once, but does not round this node's result. */
static bool stays_wide(struct build *b, const struct ht_node *n)
{
	const struct ht_node *kernel = kernel_of(b, n);

	return kernel && ht_rounds_once(b->trial->fusion.root[kernel->id]);
}

/* Whether operand `i` is an activation that was saved and left the caches.  In the trial there may be a cast between them. */
static bool reads_cold(struct build *b, const struct ht_node *n, int32_t i)
{
	const struct ht_trial *t = b->trial;
	const struct ht_node *copy = t->copy[n->id], *from = t->copy[n->in[i].node->id];

	return t->saved.cold && t->saved.role[copy->id] == HT_ROLE_GRADIENTS &&
	       (t->saved.is[from->id] || ht_reads_cold(&t->saved, &t->fusion, copy, i));
}

static int64_t cost_of(struct build *b, struct ht_node *n, enum ht_dtype t)
{
	const struct ht_node *kernel = kernel_of(b, n);
	bool root = kernel && b->trial->fusion.root[kernel->id] == b->trial->copy[n->id];
	int64_t cost = (t != HT_F32) + ht_price_saved(b->pricing, n, t);

	if (!kernel || is_free_view(b, n))
		return cost;
	cost += ht_price_work(b->pricing, n, t);
	for (int32_t i = 0; i < n->ins && !root; i++)
		if (ht_unit_of_arg(b->p, n, i) && !is_constant(n->in[i]) &&
			ht_is_float(ht_type_of(n->in[i])->dtype) &&
			kernel_of(b, n->in[i].node) != kernel)
			cost += ht_price_load(b->pricing, n->in[i], t);
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_unit_of_arg(b->p, n, i) && reads_cold(b, n, i))
			cost += ht_price_reload(b->pricing, n->in[i], t);
	for (int32_t i = 0; i < n->outs; i++) {
		if (!ht_is_float(n->out[i].dtype))
			continue;
		if (is_stored(b, n))
			cost += ht_price_store(b->pricing, ht_out(n, i), t);
		else if (!stays_wide(b, n) && !ht_is_view(n) &&
			 !ht_ends_kernel(b->trial->copy[n->id], kernel))
			cost += ht_price_round(b->pricing, ht_out(n, i), t);
	}
	return cost;
}

static void add_node(struct build *b, struct ht_node *n)
{
	int64_t cost[HT_LABELS];

	b->out->unit[n->id] = UINT32_MAX;
	if (!is_free(b->p, n))
		return;
	for (int l = 0; l < HT_LABELS; l++)
		cost[l] = (!is_forced(b->p, n) &&
				  (b->safety->denied[n->id] & ht_label_bit((enum ht_label)l))) ||
					  !ht_label_column(b->p, n, (enum ht_label)l)
				  ? HT_COST_NEVER
				  : cost_of(b, n, ht_label_dtype((enum ht_label)l));
	b->out->unit[n->id] = ht_assign_unit(&b->out->assign, cost);
}

/* ---- casts ---- */

static const struct ht_node *cast_in_trial(struct build *b, struct ht_value v, enum ht_dtype to)
{
	const struct ht_trial_cast *c =
		*ht_trial_casts(b->trial, ht_out(b->trial->copy[v.node->id], v.index));

	while (c && c->result.dtype != to)
		c = c->next;
	return c ? &c->node : NULL;
}

static int64_t not_negative(int64_t x)
{
	return x > 0 ? x : 0;
}

/* Properties that all users of a value share. */
struct users {
	bool convert;     /* each can convert it from memory while reading */
	bool one_kernel;  /* all are in one kernel */
	bool fixed_float; /* some user stays in float32, or it is an output */
};

static struct users look_at_users(struct build *b, struct ht_value v)
{
	struct users u = { .convert = true, .one_kernel = true };
	const struct ht_node *kernel = NULL;

	u.fixed_float = b->uses->is_output[v.node->id];
	for (struct span s = uses_of(b, v); s.first < s.end; s.first++) {
		const struct ht_use *use = *s.first;

		u.convert &= ht_converts_operand(use->node, use->arg);
		u.one_kernel &= !kernel || kernel == kernel_of(b, use->node);
		kernel = kernel_of(b, use->node);
		u.fixed_float |= unit_of_attr(b, use->node, ht_attr_of_arg(use->node, use->arg),
					 HT_F32) == HT_LABEL_F32;
	}
	return u;
}

static bool computes(struct build *b, const struct ht_node *n)
{
	return ht_unit_of_result(b->p, n, 0) && n->ins > 0;
}

/* A cast from float32 to `low`: the cost in addition to the producer's store and the users'
 * loads. */
static int64_t narrow_cost(struct build *b, struct ht_value v, enum ht_dtype low, struct users u)
{
	const struct ht_pricing *p = b->pricing;
	const struct ht_node *cast = cast_in_trial(b, v, low);
	int64_t round = ht_price_round(p, v, low);
	int64_t folded = not_negative(ht_price_store(p, v, low) - ht_price_store(p, v, HT_F32));
	int64_t inlined =
		not_negative(round + ht_price_load(p, v, HT_F32) - ht_price_load(p, v, low));

	if (is_constant(v))
		return 0;
	if (cast) {
		const struct ht_node *kernel = b->trial->fusion.kernel[cast->id];
		if (kernel == kernel_of(b, v.node))
			return is_stored(b, v.node) ? folded : round;
		return kernel == cast ? ht_price_cast(p, v, low, false) : inlined;
	}
	if (!is_stored(b, v.node))
		return computes(b, v.node) ? round : inlined;
	if (computes(b, v.node) && !u.fixed_float)
		return folded;
	return u.convert && u.one_kernel ? inlined : ht_price_cast(p, v, low, false);
}

static int64_t widen_cost(struct build *b, struct ht_value v, enum ht_dtype low, struct users u)
{
	const struct ht_pricing *p = b->pricing;
	const struct ht_node *cast = cast_in_trial(b, v, HT_F32);
	int64_t round = ht_price_round(p, v, low);
	int64_t folded =
		not_negative(round + ht_price_store(p, v, HT_F32) - ht_price_store(p, v, low));
	int64_t inlined = not_negative(ht_price_load(p, v, low) - ht_price_load(p, v, HT_F32));

	if (is_constant(v))
		return 0;
	if (!is_stored(b, v.node))
		return stays_wide(b, v.node) && computes(b, v.node) ? round : 0;
	if (cast && b->trial->fusion.kernel[cast->id] == cast && kernel_of(b, v.node) != cast)
		return ht_price_cast(p, v, low, true);
	if (cast && b->trial->fusion.kernel[cast->id] != kernel_of(b, v.node))
		return inlined;
	return u.convert && !cast ? inlined : folded;
}

/* ---- tensors ---- */

static void find_free_users(struct build *b, struct ht_arena *a)
{
	b->has_free_user = HT_NEW_ARRAY(a, bool, b->p->graph->ids);
	for (const struct ht_node *n = b->p->graph->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins && b->out->unit[n->id] != UINT32_MAX; i++)
			b->has_free_user[n->in[i].node->id] = true;
}

static void add_users(struct build *b, struct ht_value v)
{
	enum ht_label own;

	for (struct span s = uses_of(b, v); s.first < s.end; s.first++) {
		const struct ht_use *u = *s.first;
		uint32_t unit;

		unit = unit_of_attr(b, u->node,
			u->node->op == HT_OP_OPAQUE ? -1 : ht_attr_of_arg(u->node, u->arg),
			ht_type_of(v)->dtype);
		if (unit != UINT32_MAX)
			ht_assign_user(&b->out->assign, unit);
	}
	if (b->uses->is_output[v.node->id] && label_of_dtype(ht_type_of(v)->dtype, &own))
		ht_assign_user(&b->out->assign, own);
}

static void add_value(struct build *b, struct ht_value v)
{
	enum ht_dtype t = ht_type_of(v)->dtype;
	struct ht_assign_tensor *tensor;
	uint32_t producer;
	struct users u;

	if (t >= HT_REF)
		t = (enum ht_dtype)(t - HT_REF);
	producer = unit_of_attr(
		b, v.node, v.node->op == HT_OP_OPAQUE ? -1 : ht_attr_of_result(v.node, v.index), t);
	if (producer == UINT32_MAX || (producer < HT_LABELS && !b->has_free_user[v.node->id]))
		return;
	u = look_at_users(b, v);
	tensor = ht_assign_tensor(&b->out->assign, producer);
	tensor->down[0] = narrow_cost(b, v, HT_F16, u);
	tensor->up[1] = narrow_cost(b, v, HT_BF16, u);
	tensor->up[0] = widen_cost(b, v, HT_F16, u);
	tensor->down[1] = widen_cost(b, v, HT_BF16, u);
	add_users(b, v);
}

void ht_problem_build(struct ht_precision *p, const struct ht_safety *s,
	const struct ht_pricing *pricing, const struct ht_trial *t, struct ht_arena *a,
	struct ht_problem *out)
{
	struct build b = {
		.p = p, .safety = s, .pricing = pricing, .trial = t, .uses = &s->uses, .out = out
	};

	ht_assign_init(&out->assign, a);
	out->unit = HT_NEW_ARRAY(a, uint32_t, p->graph->ids);
	for (int l = 0; l < HT_LABELS; l++) {
		int64_t fixed[HT_LABELS] = { HT_COST_NEVER, HT_COST_NEVER, HT_COST_NEVER };
		fixed[l] = 0;
		ht_assign_unit(&out->assign, fixed);
	}
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		add_node(&b, n);
	sort_uses(&b, a);
	find_free_users(&b, a);
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			add_value(&b, ht_out(n, i));
}

/* ---- from labels to columns and back ---- */

void ht_problem_columns(struct ht_precision *p, const struct ht_problem *b, const uint8_t *label,
	const struct ht_column **taken)
{
	for (const struct ht_node *n = p->graph->first; n; n = n->next) {
		uint32_t unit = b->unit[n->id];
		taken[n->id] = unit == UINT32_MAX
				       ? NULL
				       : ht_label_column(p, n, (enum ht_label)label[unit]);
	}
}

static bool changes_nothing(
	struct ht_precision *p, const struct ht_node *n, const struct ht_column *c)
{
	for (int i = 0; c && i < ht_op_info(n->op)->type_attrs; i++)
		if (c->dtype[i] != ht_unit_of(p, n, i)->from)
			return false;
	return !c || is_uniform(ht_op_info(n->op), c);
}

bool ht_problem_labels(struct ht_precision *p, const struct ht_problem *b,
	const struct ht_column *const *taken, uint8_t *label, const struct ht_node **culprit)
{
	for (int l = 0; l < HT_LABELS; l++)
		label[l] = (uint8_t)l;
	for (const struct ht_node *n = p->graph->first; n; n = n->next) {
		uint32_t unit = b->unit[n->id];
		int l = 0;
		*culprit = n;
		if (unit == UINT32_MAX || changes_nothing(p, n, taken[n->id])) {
			if (!changes_nothing(p, n, taken[n->id]))
				return false;
			if (unit == UINT32_MAX)
				continue;
			if (b->assign.cost[unit][HT_LABEL_F32] == HT_COST_NEVER)
				return false;
			label[unit] = HT_LABEL_F32;
			continue;
		}
		while (l < HT_LABELS && ht_label_column(p, n, (enum ht_label)l) != taken[n->id])
			l++;
		if (l == HT_LABELS || b->assign.cost[unit][l] == HT_COST_NEVER)
			return false;
		label[unit] = (uint8_t)l;
	}
	return true;
}
