/* The optimal policy: a minimum cut over measured costs, priced as the graph would be fused.
 *
 * The cost of a choice depends on which nodes share a kernel, which depends on the casts.  So
 * the problem is solved for the fusion of the last trial, the first of which is all float32,
 * until the solution repeats (at most MAX_ITERATES times).  Every iterate, float32, and the
 * decision of each painting policy are written out, fused and priced as a whole; the cheapest
 * one that safety permits is taken. */
#include "precision/optimal/optimal.h"
#include "precision/optimal/walk.h"
#include "precision/presets/preset.h"

#include <math.h>
#include <string.h>

enum { MAX_ITERATES = 3, MOST_FOR_SMALL = 50000 };

struct optimal {
	struct ht_precision *p;
	struct ht_pricing pricing;
	struct ht_safety safety;
	struct ht_arena *work;     /* memory of the next two members */
	struct ht_problem problem; /* of the last iterate */
	struct ht_assignment solution;
	struct ht_trial trial;
	const struct ht_column **taken, **best; /* by node id: the chosen column, or NULL */
	const struct ht_column **before; /* the cheapest assignment without a budget; NULL: there
					  * is none */
	size_t taken_bytes;
	struct ht_certificate *certificate;
	struct ht_str winner;
	int64_t price, saved;
	int64_t bound;  /* of saved activations, in bytes; INT64_MAX: none */
	int64_t least;  /* the least that an assignment saves which safety permits */
	int64_t in_f32; /* bytes that are saved in float32 */
};

/* ---- candidates ---- */

static void note_alternative(struct optimal *o, struct ht_str name, struct ht_str refused)
{
	struct ht_certificate *c = o->certificate;

	c->alternative = ht_grow(o->p->decisions->arena, c->alternative, c->alternatives,
		&c->alternative_cap, sizeof *c->alternative);
	c->alternative[c->alternatives++] =
		(struct ht_alternative){ name, o->trial.price, o->trial.saved.bytes, refused };
}

static struct ht_str refusal(struct optimal *o, const struct ht_node *culprit)
{
	const struct ht_dtype_reason *why = o->safety.why[culprit->id];

	return ht_str_printf(o->p->decisions->arena, "%.*s: %.*s", HT_STR_ARG(culprit->name),
		HT_STR_ARG((why ? why : HT_BY(KEEPS))->text));
}

/* Why o->taken must not be taken; empty: it may be. */
static struct ht_str refused(struct optimal *o)
{
	uint8_t *label = HT_NEW_ARRAY(o->work, uint8_t, o->problem.assign.units);
	const struct ht_node *culprit;

	if (!ht_problem_labels(o->p, &o->problem, o->taken, label, &culprit))
		return refusal(o, culprit);
	if (o->trial.saved.bytes < o->least)
		o->least = o->trial.saved.bytes;
	if (o->trial.saved.bytes <= o->bound)
		return (struct ht_str){ 0 };
	return ht_str_printf(
		o->p->decisions->arena, "activation_memory: %lld bytes", (long long)o->bound);
}

/* Whether the trial is cheaper than the best one so far, or as cheap with less memory. */
static bool is_better(const struct optimal *o)
{
	if (!o->winner.n || o->trial.price != o->price)
		return !o->winner.n || o->trial.price < o->price;
	return o->trial.saved.bytes < o->saved;
}

/* Prices the trial of o->taken, and keeps it if it is the best so far. */
static void judge(struct optimal *o, struct ht_str name)
{
	struct ht_str why = refused(o);

	note_alternative(o, name, why);
	if (why.n || !is_better(o))
		return;
	o->winner = name;
	o->price = o->trial.price;
	o->saved = o->trial.saved.bytes;
	memcpy(o->best, o->taken, o->taken_bytes);
}

/* Writes o->taken out, fuses and prices it. */
static void write_out(struct optimal *o)
{
	ht_trial_free(&o->trial);
	ht_trial_make(o->p, o->taken, &o->pricing, &o->trial);
}

/* Whether a program could be compiled with the painting policy; synonyms and emulation are left
 * out.  Those of other systems are considered only where they take little time. */
static bool is_painting(const struct optimal *o, const struct ht_policy_kind *k)
{
	if (k->same_as)
		return false;
	return ht_policy_can(k, HT_CAN_BE_PRICED) || (ht_policy_can(k, HT_CAN_BE_PRICED_IF_SMALL) &&
							     o->p->graph->nodes <= MOST_FOR_SMALL);
}

/* The decision of another policy, on the graph's units. */
static void decide(struct optimal *o, const struct ht_policy_kind *kind)
{
	struct ht_precision q = *o->p;
	struct ht_policy policy = *o->p->policy;

	policy.kind = kind;
	q.policy = &policy;
	q.arena = ht_arena_of(o->p);
	q.unit = HT_NEW_ARRAY(q.arena, struct ht_unit, q.units);
	memcpy(q.unit, o->p->unit, q.units * sizeof *q.unit);
	q.choice = HT_NEW_ARRAY(q.arena, struct ht_choice, q.graph->ids);
	memcpy(q.choice, o->p->choice, q.graph->ids * sizeof *q.choice);
	ht_precision_unseen(&q); /* its uses of rules are not reported */
	kind->family->decide(&q);
	for (const struct ht_node *n = q.graph->first; n; n = n->next)
		o->taken[n->id] = q.choice[n->id].taken;
	ht_arena_release(q.arena);
	write_out(o);
	judge(o, ht_str(kind->name));
	ht_trial_free(&o->trial);
}

/* The column in which node `n` has the types of `painted`; NULL: it stays as it is. */
static const struct ht_column *column_of(
	struct ht_precision *p, const struct ht_node *n, const struct ht_node *painted)
{
	for (int l = 0; l < HT_LABELS; l++) {
		const struct ht_column *c = ht_label_column(p, n, (enum ht_label)l);
		bool same = c != NULL;
		for (int i = 0; same && i < ht_op_info(n->op)->type_attrs; i++)
			same = ht_attr_type(painted,
				       ht_attr_name(ht_op_info(n->op)->type_attr[i].name).s,
				       c->dtype[i]) == c->dtype[i];
		if (same)
			return c;
	}
	return NULL;
}

/* The types that a painting policy gives to the graph. */
static void paint(struct optimal *o, const struct ht_policy_kind *kind)
{
	struct ht_precision *p = o->p;
	struct ht_arena *a = ht_arena_of(p);
	struct ht_graph *g = ht_graph_clone(p->graph, a);
	struct ht_node **painted = HT_NEW_ARRAY(a, struct ht_node *, p->graph->ids);
	struct ht_policy policy = *p->policy;
	struct ht_decisions unwanted = { .arena = a };
	struct ht_pass_context c = { .scratch = a, .target = p->target, .entry = g->entries };
	struct ht_node *copy = g->first;
	bool done;

	for (const struct ht_node *n = p->graph->first; n; n = n->next, copy = copy->next)
		painted[n->id] = copy;
	policy.kind = kind;
	done = kind->family->paint(&policy, g, &c, &unwanted) == HT_OK;
	for (const struct ht_node *n = p->graph->first; n && done; n = n->next)
		o->taken[n->id] = p->choice[n->id].columns ? column_of(p, n, painted[n->id]) : NULL;
	ht_arena_release(a); /* before the next copy of the graph is made */
	if (!done)
		return;
	write_out(o);
	judge(o, ht_str(kind->name));
	ht_trial_free(&o->trial);
}

/* ---- iterates ---- */

static void judge_everything(struct optimal *o)
{
	bool denied = false;

	for (const struct ht_node *n = o->p->graph->first; n; n = n->next)
		if (ht_label_column(o->p, n, HT_LABEL_F16))
			denied |= ht_safety_check(&o->safety, n);
	if (denied)
		ht_safety_spread(o->p, &o->safety);
}

/* Reads the large constants of nodes that would become float16; true: one is out of range, so
 * the solution is invalid. */
static bool leaves_range(struct optimal *o)
{
	bool denied = false;

	for (const struct ht_node *n = o->p->graph->first; n; n = n->next) {
		uint32_t unit = o->problem.unit[n->id];
		if (unit != UINT32_MAX && o->solution.label[unit] == HT_LABEL_F16)
			denied |= ht_safety_check(&o->safety, n);
	}
	if (denied)
		ht_safety_spread(o->p, &o->safety);
	return denied;
}

/* Finds the cheapest types for the fusion of the last trial. */
static void solve(struct optimal *o)
{
	struct ht_arena *scratch = ht_arena_of(o->p);

	do {
		ht_arena_release(o->work);
		ht_problem_build(o->p, &o->safety, &o->pricing, &o->trial, o->work, &o->problem);
		ht_assign_solve(&o->problem.assign, o->work, scratch, &o->solution);
		ht_arena_release(scratch);
		HT_CHECK(o->solution.cost != HT_COST_NEVER); /* every unit has a possible label */
	} while (leaves_range(o));
}

/* Notes which results are saved in float32. */
static void note_saved(struct optimal *o)
{
	bool *saved = HT_NEW_ARRAY(o->p->arena, bool, o->p->graph->ids);

	for (const struct ht_node *n = o->p->graph->first; n; n = n->next)
		saved[n->id] = o->trial.saved.is[o->trial.copy[n->id]->id];
	o->pricing.saved = saved;
	o->in_f32 = o->trial.saved.bytes;
}

static void iterate(struct optimal *o)
{
	struct ht_certificate *c = o->certificate;
	uint8_t *before = NULL;

	write_out(o); /* no column is taken: all float32 */
	note_saved(o);
	if (o->bound != INT64_MAX && !o->trial.saved.bytes)
		ht_note(o->p->diags, HT_NOWHERE,
			"activation_memory has no effect: no gradient needs activations of this graph");
	for (int i = 1; i <= MAX_ITERATES && !c->settled; i++) {
		size_t units;
		solve(o);
		units = o->problem.assign.units;
		if (i == 1)
			judge(o, HT_STR("float32"));
		c->iterates++;
		c->settled = before && !memcmp(before, o->solution.label, units);
		if (c->settled)
			break;
		before = before ? before : HT_NEW_ARRAY(o->p->arena, uint8_t, units);
		memcpy(before, o->solution.label, units);
		ht_problem_columns(o->p, &o->problem, o->solution.label, o->taken);
		write_out(o);
		judge(o, ht_str_printf(o->p->decisions->arena, "iterate %d", i));
	}
}

/* ---- a bound of memory ---- */

/* The highest price of a byte, in picoseconds; more than a run of any length would pay. */
enum { MOST_FOR_BYTE = 1 << 20, HALVES = 4 };

/* The sum of the prices of all saved bytes and of the kernels is an int64_t. */
static int64_t most_for_byte(const struct optimal *o)
{
	const int64_t most = INT64_MAX / 8 / (o->in_f32 + 1);

	return most < MOST_FOR_BYTE ? most : MOST_FOR_BYTE;
}

/* Judges the cheapest assignment at this price of a saved byte.  Whether it keeps the bound. */
static bool keeps_at(struct optimal *o, int64_t byte)
{
	o->pricing.byte = byte;
	solve(o);
	o->pricing.byte = 0;
	ht_problem_columns(o->p, &o->problem, o->solution.label, o->taken);
	write_out(o);
	judge(o, ht_str_printf(
			 o->p->decisions->arena, "at %lld ps for a saved byte", (long long)byte));
	return o->trial.saved.bytes <= o->bound;
}

/* If the last iterate exceeds the bound, saved bytes cost more and more, until the cheapest assignment keeps it; then less again, as
 * long as it does. */
static void keep_bound(struct optimal *o)
{
	const int64_t most = most_for_byte(o);
	int64_t low = 0, high = 1;

	if (o->trial.saved.bytes <= o->bound)
		return;
	while (high < most && !keeps_at(o, high)) {
		low = high;
		high *= 8;
	}
	for (int i = 0; i < HALVES && high < most && high - low > 1; i++) {
		int64_t middle = low + (high - low) / 2;

		*(keeps_at(o, middle) ? &high : &low) = middle;
	}
	solve(o); /* without that price, for the certificate */
}

static enum ht_status check_bound(struct optimal *o)
{
	if (o->winner.n)
		return HT_OK;
	return ht_error(o->p->diags, HT_E_LIMIT, HT_NOWHERE,
		"activation_memory: %lld bytes of activations may be saved; the least that was found is %lld",
		(long long)o->bound, (long long)o->least);
}

/* ---- the report ---- */

static struct ht_hash hash_problem(const struct ht_assign *a, struct ht_arena *arena)
{
	struct ht_buf b;

	ht_buf_init(&b, arena);
	ht_put(&b, a->cost, a->units * sizeof *a->cost);
	for (size_t i = 0; i < a->tensors; i++) {
		ht_put(&b, &a->tensor[i].producer, sizeof a->tensor[i].producer);
		ht_put(&b, &a->tensor[i].users, sizeof a->tensor[i].users);
		ht_put(&b, a->tensor[i].up, sizeof a->tensor[i].up);
		ht_put(&b, a->tensor[i].down, sizeof a->tensor[i].down);
	}
	ht_put(&b, a->user, a->users * sizeof *a->user);
	return ht_hash_bytes(b.p, b.n);
}

static void certify(struct optimal *o)
{
	struct ht_certificate *c = o->certificate;
	const struct ht_costs *costs = o->pricing.costs;
	struct ht_arena *a = o->p->decisions->arena;

	c->costs = ht_str_copy(a, ht_str(costs->name));
	c->target = ht_str_copy(a, costs->target);
	c->machine = ht_str_copy(a, costs->machine);
	c->date = ht_str_copy(a, costs->date);
	c->costs_hash = costs->hash;
	c->problem_hash = hash_problem(&o->problem.assign, o->work);
	c->winner = o->winner;
	c->price = o->price;
	c->saved = o->saved;
	c->cost = o->solution.cost;
	c->bound = o->solution.cut;
	c->free_nodes = o->solution.free_units;
	c->regions = o->solution.regions;
	c->largest_region = o->solution.largest;
}

/* Computes the errors of the solution's contractions, while their modes are attributes. */
static void certify_errors(struct optimal *o)
{
	struct ht_certificate *c = o->certificate;
	const struct ht_target *t = o->pricing.target;

	for (const struct ht_node *n = o->p->graph->first; n; n = n->next) {
		const struct ht_column *best = o->best[n->id];
		double error;

		if (!ht_is(n, HT_CONTRACTS) || !best || !ht_is_low(best->arg[0]))
			continue;
		error = sqrt(ht_sum_variance(t, n, best->arg[0]));
		c->low_sums++;
		c->short_sums += ht_sums_short(t, n, best->arg[0]);
		c->largest_error = fmax(c->largest_error, error);
	}
}

static const struct ht_dtype_reason *rule_of(struct optimal *o, const struct ht_node *n)
{
	uint32_t unit = o->problem.unit[n->id];
	const struct ht_column *best = o->best[n->id];

	if (unit == UINT32_MAX)
		return HT_BY(NO_CHOICE);
	if (best && best != ht_label_column(o->p, n, HT_LABEL_F32))
		return HT_BY(CHEAPEST_LOW);
	if (o->before && o->before[n->id] &&
		o->before[n->id] != ht_label_column(o->p, n, HT_LABEL_F32))
		return HT_BY(BUDGET);
	return o->safety.why[n->id] ? o->safety.why[n->id] : HT_BY(CHEAPEST_F32);
}

static void take(struct optimal *o, struct ht_node *n)
{
	struct ht_choice *c = &o->p->choice[n->id];

	if (!c->columns)
		return;
	c->rule = rule_of(o, n);
	if (c->rule == o->safety.why[n->id])
		c->followed = o->safety.after[n->id];
	c->taken = o->best[n->id];
	for (int i = 0; c->taken && i < ht_op_info(n->op)->type_attrs; i++)
		ht_unit_of(o->p, n, i)->to = c->taken->dtype[i];
}

/* ---- prices of other types ---- */

static bool is_priced(const struct ht_policy *policy, const struct ht_node *n)
{
	if (!strcmp(policy->priced, "*") || ht_str_is(n->name, policy->priced))
		return true;
	for (int32_t i = 0; i < n->origins; i++)
		if (ht_str_is(n->origin[i], policy->priced))
			return true;
	return false;
}

/* The cost of the solution with the node's label fixed. */
static int64_t flip_price(struct optimal *o, uint32_t unit, enum ht_label l, struct ht_arena *a)
{
	struct ht_assign forced = o->problem.assign;
	int64_t(*cost)[HT_LABELS] =
		(int64_t(*)[HT_LABELS])ht_alloc_array(a, forced.units, sizeof *cost);
	struct ht_assignment solution;

	if (forced.cost[unit][l] == HT_COST_NEVER)
		return -1;
	memcpy(cost, forced.cost, forced.units * sizeof *cost);
	for (int k = 0; k < HT_LABELS; k++)
		if (k != (int)l)
			cost[unit][k] = HT_COST_NEVER;
	forced.cost = cost;
	ht_assign_solve(&forced, a, a, &solution);
	return solution.cost - o->solution.cost;
}

static void price_flips(struct optimal *o)
{
	struct ht_certificate *c = o->certificate;
	struct ht_arena *a = ht_arena_of(o->p);

	for (const struct ht_node *n = o->p->graph->first; n && o->p->policy->priced; n = n->next) {
		uint32_t unit = o->problem.unit[n->id];
		for (int l = 0; l < HT_LABELS && unit != UINT32_MAX && is_priced(o->p->policy, n);
			l++) {
			if (o->solution.label[unit] == l)
				continue;
			c->flip = ht_grow(o->p->decisions->arena, c->flip, c->flips, &c->flip_cap,
				sizeof *c->flip);
			c->flip[c->flips++] =
				(struct ht_flip){ n->name, ht_label_dtype((enum ht_label)l),
					flip_price(o, unit, (enum ht_label)l, a) };
			ht_arena_release(a);
		}
	}
}

static enum ht_status keep_budget(struct optimal *o)
{
	struct ht_certificate *c = o->certificate;
	const struct ht_frontier_entry *e;

	ht_read(o->p->policy, HT_READ_budget);
	ht_read(o->p->policy, HT_READ_frontier);
	if (!ht_budget_asked(&o->p->policy->budget))
		return HT_OK;
	ht_read(o->p->policy, HT_READ_samples);
	c->budget = HT_NEW(o->p->decisions->arena, struct ht_budget_report);
	o->before = HT_NEW_ARRAY(o->p->arena, const struct ht_column *, o->p->graph->ids);
	memcpy(o->before, o->best, o->taken_bytes);
	HT_TRY(ht_budget_walk(o->p, &o->pricing, &o->safety, o->best, c->budget));
	if (!c->budget->budget->clauses || !memcmp(o->before, o->best, o->taken_bytes))
		return HT_OK;
	e = &c->budget->point[c->budget->chosen];
	c->winner = HT_STR("the frontier");
	c->price = e->price;
	c->saved = -1;
	return HT_OK;
}

static void warn_of_estimates(struct ht_precision *p, const struct ht_costs *costs)
{
	if (costs->roofline && !costs->roofline->rates->measured)
		ht_warn(p->diags, HT_NOWHERE,
			"policy optimal decides by estimates: no costs were measured on %s (tuning %s); "
			"halftone tune --costs on such a machine makes a table for --cost_table",
			costs->roofline->name, costs->roofline->rates->name);
}

void ht_optimal_decide(struct ht_precision *p)
{
	const struct ht_policy *policy = ht_read(p->policy, HT_READ_cost_target);
	const struct ht_target *target = policy->cost_target ? policy->cost_target : p->target;
	const struct ht_costs *costs;
	struct optimal o = { .p = p };
	struct ht_gradients gradients;
	struct ht_short_runs runs;
	enum ht_status st;

	o.bound = ht_read(policy, HT_READ_activation_memory)->activation_memory;
	o.bound = o.bound ? o.bound : INT64_MAX;
	o.least = INT64_MAX;
	o.certificate = HT_NEW(p->decisions->arena, struct ht_certificate);
	o.taken = HT_NEW_ARRAY(p->arena, const struct ht_column *, p->graph->ids);
	o.best = HT_NEW_ARRAY(p->arena, const struct ht_column *, p->graph->ids);
	o.taken_bytes = p->graph->ids * sizeof *o.taken;
	o.trial.arena = ht_arena_of(p);
	o.work = ht_arena_of(p);
	costs = ht_read(policy, HT_READ_cost_table)->costs;
	if (!costs)
		costs = ht_costs_of_target(target, p->arena);
	warn_of_estimates(p, costs);
	ht_pricing_init(&o.pricing, costs, target, p->graph, p->arena);
	ht_short_runs_begin(p, target, &runs);
	st = ht_gradients_find(p, &gradients);
	ht_safety_build(p, &gradients, &o.safety);
	p->denied = o.safety.denied;
	p->denied_why = o.safety.why;
	if (policy->judges_all)
		judge_everything(&o);
	if (policy->question)
		ht_question_deny(p, &o.safety);
	iterate(&o);
	keep_bound(&o);
	ht_trial_free(&o.trial);
	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++)
		if (is_painting(&o, k) && k->family->paint)
			paint(&o, k);
		else if (is_painting(&o, k))
			decide(&o, k);
	certify(&o);
	if (policy->question)
		ht_question_answer(p, &o.problem);
	if (st == HT_OK)
		st = check_bound(&o);
	p->status = st == HT_OK ? keep_budget(&o) : st;
	price_flips(&o);
	certify_errors(&o);
	ht_short_runs_end(&runs);
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		take(&o, n);
	p->decisions->certificate = o.certificate;
	ht_trial_free(&o.trial);
	ht_arena_release(o.work);
}
