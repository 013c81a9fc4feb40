/* Attribution: compiles the four programs, matches their tensors and divides the nodes into waves. */
#include "api/attribute.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Least bytes for tensors of the reference, if the caller states no bound.  Programs that run side by side store few of them. */
#define LEAST_BESIDE ((size_t)128 << 20)
#define LEAST_IN_TURN ((size_t)16 << 20)

const char *const ht_numeric_names[HT_NUMERICS] = { "overflow", "underflow", "subnormal", "nan" };

/* ---- queries about a node ---- */

static double relative(double squares, double of)
{
	if (squares == 0)
		return 0;
	return of > 0 ? sqrt(squares / of) : (double)INFINITY;
}

double ht_node_rms(const struct ht_node_error *e, const struct ht_distance_sum *s)
{
	return relative(s->squares, e->squares);
}

double ht_node_expected(const struct ht_node_error *e)
{
	return relative(e->expected.squares, e->expected_squares);
}

/* What the expected error would add up to over all samples. */
static double expected_squares(const struct ht_node_error *e)
{
	return e->expected_squares > 0 ? e->expected.squares * (e->squares / e->expected_squares)
				       : e->expected.squares;
}

/* Relative errors up to 2^-22 (`least`) count as expected: float32 sums in another order differ by as much. */
double ht_node_excess(const struct ht_node_error *e)
{
	double least = e->squares * 0x1p-44, expected = expected_squares(e) + least;

	if (!isfinite(e->expected.squares) || e->own.squares <= least)
		return e->own.squares > 0 ? 1 : 0;
	return expected > 0 ? sqrt(e->own.squares / expected) : (double)INFINITY;
}

int ht_rank_compare(const struct ht_rank *a, const struct ht_rank *b)
{
	if ((a->excess >= HT_NODE_SUSPECT || b->excess >= HT_NODE_SUSPECT) &&
		a->excess != b->excess)
		return a->excess > b->excess ? -1 : 1;
	if (a->own != b->own)
		return a->own > b->own ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

double ht_excess_shown(double excess)
{
	return isfinite(excess) ? round(excess * 1000) / 1000 : excess;
}

static struct ht_rank rank_of(const struct ht_node_error *e)
{
	return (struct ht_rank){ ht_node_excess(e), ht_node_rms(e, &e->own), (double)e->order };
}

static int by_rank(const void *x, const void *y)
{
	struct ht_rank a = rank_of(*(const struct ht_node_error *const *)x),
		       b = rank_of(*(const struct ht_node_error *const *)y);

	return ht_rank_compare(&a, &b);
}

const struct ht_node_error **ht_nodes_ranked(const struct ht_node_errors *n, struct ht_arena *a)
{
	const struct ht_node_error **e = HT_NEW_ARRAY(a, const struct ht_node_error *, n->n);

	for (size_t i = 0; i < n->n; i++)
		e[i] = &n->of[i];
	if (n->n)
		qsort(e, n->n, sizeof(*e), by_rank);
	return e;
}

const struct ht_node_error *ht_nodes_first(const struct ht_node_errors *n, enum ht_numeric what)
{
	const struct ht_node_error *first = NULL;

	for (size_t i = 0; i < n->n; i++)
		if (n->of[i].count[what] && (!first || n->of[i].order < first->order))
			first = &n->of[i];
	return first;
}

/* ---- programs ---- */

struct beginning {
	struct ht_attribution *a;
	struct ht_constants constants; /* of the programs that outlive the next one */
	struct ht_diags *d;
};

/* Drops warnings: the compilation of the comparison's own program gave the same ones. */
static enum ht_status compile(struct beginning *b, enum ht_looked_at which, struct ht_program **out)
{
	struct ht_compile_options opt = *b->a->of.compile;
	bool overwritten = which == HT_LOOKED_ALONE || which == HT_LOOKED_WIDE,
	     faulty = which == HT_LOOKED_POLICY || which == HT_LOOKED_ALONE;
	struct ht_teeing how = { .what = which == HT_LOOKED_POLICY ? HT_LOWER_TEE_ALL
								   : HT_LOWER_TEE_ALONE,
		.widened = which == HT_LOOKED_WIDE,
		.fault = faulty ? b->a->of.fault : HT_STR(""),
		.fault_by = b->a->of.fault_by,
		.constants = &b->constants };
	struct ht_diags said;
	enum ht_status st;

	opt.policy = which == HT_LOOKED_REFERENCE ? NULL : b->a->of.policy;
	if (overwritten)
		opt.batch_method = "whole";
	if (which == HT_LOOKED_WIDE)
		opt.conv_method = "direct";
	ht_diags_init(&said);
	st = ht_compile_teed(b->a->of.model, &opt, &how, &said, out);
	if (st != HT_OK && said.last)
		ht_error(b->d, st, said.last->where, "%.*s", HT_STR_ARG(said.last->text));
	ht_diags_release(&said);
	return st;
}

enum ht_status ht_attribution_context(const struct ht_attribution *a, const struct ht_program *p,
	struct ht_diags *d, struct ht_context **out)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;

	opt.threads = a->threads;
	return ht_context_new(p, &opt, d, out);
}

static enum ht_status open_program(struct beginning *b, enum ht_looked_at which)
{
	struct ht_looked *l = &b->a->looked[which];
	struct ht_program **reference = b->a->of.reference;

	l->of = b->a;
	if (which != HT_LOOKED_REFERENCE)
		return compile(b, which, &l->program);
	if (!*reference)
		HT_TRY(compile(b, which, reference));
	l->program = *reference;
	return HT_OK;
}

/* Each program reads constants of those before it where its own are equal.  The reference's program stays when the policy's are freed, so it
 * reads only those of the model as it is. */
static enum ht_status open_programs(struct beginning *b)
{
	struct ht_attribution *a = b->a;

	ht_constants_init(&b->constants, &a->arena);
	ht_constants_add(&b->constants, a->of.base);
	for (int i = 0; i < HT_LOOKED; i++) {
		HT_TRY(open_program(b, (enum ht_looked_at)i));
		ht_constants_add(&b->constants, a->looked[i].program);
		if (i == HT_LOOKED_REFERENCE)
			ht_constants_add(&b->constants, a->of.row);
	}
	malloc_trim(0); /* compilations leave free memory between what stays */
	return HT_OK;
}

static void make_room(struct ht_attribution *a, struct ht_looked *l)
{
	const struct ht_program *p = l->program;

	l->in = HT_NEW_ARRAY(&a->arena, struct ht_array, p->inputs);
	l->room = HT_NEW_ARRAY(&a->arena, void *, p->inputs);
	l->out = HT_NEW_ARRAY(&a->arena, struct ht_array, p->outputs);
	for (size_t i = 0; i < p->inputs; i++)
		if (p->input[i].dtype != a->of.base->input[i].dtype)
			l->room[i] = ht_alloc(&a->arena, p->input[i].bytes + 64);
	for (size_t i = 0; i < p->outputs; i++) {
		const struct ht_value_info *v = &p->output[i];

		l->out[i] = (struct ht_array){ ht_alloc(&a->arena, v->bytes + 64), v->bytes,
			v->dtype, v->rank, v->dim };
	}
	l->executions = HT_NEW_ARRAY(&a->arena, uint64_t, p->tee_places);
	l->tensor = HT_NEW_ARRAY(&a->arena, int32_t, p->tee_places);
	for (size_t i = 0; i < p->tee_places; i++)
		l->tensor[i] = -1;
}

/* ---- matching the tensors of the programs ---- */

static struct ht_str key_of(struct ht_arena *a, const struct ht_tensor_info *i)
{
	return ht_str_printf(a, "%s\n%s\n%zu %d", i->body, i->node, i->result, i->imported);
}

/* Maps the name of each tensor of `p` to 1 + the index of its place. */
static void name_places(struct ht_attribution *a, const struct ht_program *p, struct ht_map *m)
{
	ht_map_init(m, &a->arena);
	for (size_t i = 0; i < p->tee_places; i++)
		for (size_t k = 0; k < p->tee_place[i].n; k++)
			ht_map_at(m, key_of(&a->arena, &p->tee[p->tee_place[i].first + k].info))
				->value = (void *)(i + 1);
}

/* The place in map `m` of the tensor that `p` has at `place`; -1: none. */
static int32_t place_named(
	struct ht_attribution *a, const struct ht_map *m, const struct ht_program *p, size_t place)
{
	const struct ht_tee_place *t = &p->tee_place[place];

	for (size_t k = 0; k < t->n; k++) {
		uintptr_t at =
			(uintptr_t)ht_map_get(m, key_of(&a->arena, &p->tee[t->first + k].info));

		if (at)
			return (int32_t)at - 1;
	}
	return -1;
}

static const struct ht_tensor_info *info_of(const struct ht_program *p, size_t place)
{
	return &p->tee[p->tee_place[place].first].info;
}

static bool is_same_shape(const struct ht_tensor_info *a, const struct ht_tensor_info *b)
{
	return ht_shape_eq(
		(struct ht_shape){ a->rank, a->dim }, (struct ht_shape){ b->rank, b->dim });
}

static bool is_comparable(const struct ht_tensor_info *a, const struct ht_tensor_info *b)
{
	return is_same_shape(a, b) &&
	       (a->dtype == b->dtype ||
		       (ht_is_kernel_float(a->dtype) && ht_is_kernel_float(b->dtype)));
}

/* For each place of `alone`, the places that its node reads, and the place of the same tensor in the reference. */
struct matching {
	struct ht_attribution *a;
	const struct ht_program *alone, *reference;
	size_t *place_of;       /* by index in alone->tee: its place */
	int32_t *kept;          /* by place of `alone`: the place in the reference; -1: none */
	int32_t **operand;      /* by place of `alone`: the places that its node reads */
	size_t *operands, *cap; /* length and capacity of each operand[] */
};

static void find_operands(struct matching *m)
{
	const struct ht_program *p = m->alone;

	for (size_t i = 0; i < p->tee_places; i++)
		for (size_t k = 0; k < p->tee_place[i].n; k++)
			m->place_of[p->tee_place[i].first + k] = i;
	for (size_t i = 0; i < p->tees; i++)
		for (size_t k = 0; k < p->tee[i].info.uses; k++) {
			size_t by = m->place_of[p->tee[i].info.use[k].by];

			m->operand[by] = ht_grow(&m->a->arena, m->operand[by], m->operands[by],
				&m->cap[by], sizeof **m->operand);
			m->operand[by][m->operands[by]++] = (int32_t)m->place_of[i];
		}
}

/* The reference has no casts of the policy: a cast is matched with the place of the tensor that it reads; -1: none. */
static int32_t cast_of(const struct matching *m, size_t place)
{
	if (!m->alone->tee_place[place].casts || m->operands[place] != 1 ||
		(size_t)m->operand[place][0] >= place)
		return -1;
	return m->kept[m->operand[place][0]];
}

static void set_kept(struct matching *m, size_t place, int32_t kept)
{
	bool fits = kept >= 0 &&
		    is_comparable(info_of(m->alone, place), info_of(m->reference, (size_t)kept));

	m->kept[place] = fits ? kept : -1;
}

/* Where a pass gave a tensor's name to the cast of it, the tensor gets the place that was found for the cast. */
static void name_by_cast(struct matching *m, size_t cast)
{
	size_t from;

	if (!m->alone->tee_place[cast].casts || m->operands[cast] != 1)
		return;
	from = (size_t)m->operand[cast][0];
	if (m->kept[from] < 0)
		set_kept(m, from, m->kept[cast]);
}

static void find_kept(struct matching *m)
{
	struct ht_map named;

	name_places(m->a, m->reference, &named);
	for (size_t i = 0; i < m->alone->tee_places; i++) {
		int32_t k = place_named(m->a, &named, m->alone, i);

		set_kept(m, i, k < 0 ? cast_of(m, i) : k);
	}
	for (size_t i = m->alone->tee_places; i-- > 0;)
		name_by_cast(m, i);
}

/* A copy without uses, whose strings and dimensions are in `a`. */
static struct ht_tensor_info kept_info(struct ht_arena *a, const struct ht_tensor_info *from)
{
	struct ht_tensor_info to = *from;

	to.node = ht_str_copy(a, ht_str(from->node)).p;
	to.op = ht_str_copy(a, ht_str(from->op)).p;
	to.body = ht_str_copy(a, ht_str(from->body)).p;
	to.dim = ht_shape_make(a, from->rank, from->dim).dim;
	to.use = NULL;
	to.uses = 0;
	return to;
}

static size_t depth_of(const struct ht_attribution *a, const struct ht_attributed *t)
{
	size_t most = 0;

	for (size_t k = 0; k < t->operands; k++) {
		const struct ht_node_error *of = a->tensor[t->operand[k]].of;

		if (of && of->depth + 1 > most)
			most = of->depth + 1;
	}
	return most;
}

static void add_tensor(struct matching *m, size_t place)
{
	struct ht_attribution *a = m->a;
	struct ht_node_errors *n = a->of.nodes;
	const struct ht_tee_place *p = &m->alone->tee_place[place];
	const struct ht_tensor_info *i = info_of(m->alone, place);
	struct ht_attributed *t = &a->tensor[a->tensors];

	a->looked[HT_LOOKED_ALONE].tensor[place] = (int32_t)a->tensors++;
	*t = (struct ht_attributed){ .kept = m->kept[place], .place = (int32_t)place };
	t->operand = HT_NEW_ARRAY(&a->arena, int32_t, m->operands[place]);
	for (size_t k = 0; k < m->operands[place]; k++) {
		int32_t of = a->looked[HT_LOOKED_ALONE].tensor[m->operand[place][k]];

		if (of >= 0)
			t->operand[t->operands++] = of;
	}
	if (!ht_is_kernel_float(i->dtype))
		return;
	t->of = &n->of[n->n++];
	*t->of = (struct ht_node_error){
		.info = kept_info(a->of.results, i), .wide = !p->rounded, .depth = depth_of(a, t)
	};
}

static void add_tensors(struct matching *m)
{
	struct ht_attribution *a = m->a;
	struct ht_node_errors *n = a->of.nodes;

	*n = (struct ht_node_errors){ .of = HT_NEW_ARRAY(a->of.results, struct ht_node_error,
					      m->alone->tee_places) };
	a->tensor = HT_NEW_ARRAY(&a->arena, struct ht_attributed, m->alone->tee_places);
	for (size_t i = 0; i < m->alone->tee_places; i++) {
		if (info_of(m->alone, i)->kind == HT_TENSOR_INPUT)
			continue;
		if (m->kept[i] >= 0)
			add_tensor(m, i);
		else if (ht_is_kernel_float(info_of(m->alone, i)->dtype))
			n->without++;
	}
}

/* Gives the places of program `which` the numbers of the tensors that have the same names in `alone`. */
static void join(struct ht_attribution *a, enum ht_looked_at which)
{
	const struct ht_looked *alone = &a->looked[HT_LOOKED_ALONE];
	struct ht_looked *l = &a->looked[which];
	struct ht_map named;

	name_places(a, alone->program, &named);
	for (size_t i = 0; i < l->program->tee_places; i++) {
		int32_t k = place_named(a, &named, l->program, i);

		if (k >= 0 &&
			is_comparable(info_of(l->program, i), info_of(alone->program, (size_t)k)))
			l->tensor[i] = alone->tensor[k];
	}
}

static void match(struct ht_attribution *a)
{
	const struct ht_program *alone = a->looked[HT_LOOKED_ALONE].program,
				*reference = a->looked[HT_LOOKED_REFERENCE].program;
	size_t n = alone->tee_places;
	struct matching m = { a, alone, reference, HT_NEW_ARRAY(&a->arena, size_t, alone->tees),
		HT_NEW_ARRAY(&a->arena, int32_t, n), HT_NEW_ARRAY(&a->arena, int32_t *, n),
		HT_NEW_ARRAY(&a->arena, size_t, n), HT_NEW_ARRAY(&a->arena, size_t, n) };

	find_operands(&m);
	find_kept(&m);
	add_tensors(&m);
	join(a, HT_LOOKED_POLICY);
	join(a, HT_LOOKED_WIDE);
}

/* ---- waves ---- */

static void describe_kept(struct ht_attribution *a)
{
	const struct ht_program *p = a->looked[HT_LOOKED_REFERENCE].program;

	a->kept = HT_NEW_ARRAY(&a->arena, struct ht_kept, p->tee_places);
	for (size_t i = 0; i < p->tee_places; i++) {
		const struct ht_tensor_info *t = info_of(p, i);

		a->kept[i].count = t->bytes / ht_dtype_info(t->dtype)->bytes;
		a->kept[i].bytes = a->kept[i].count * ht_dtype_info(p->tee_place[i].held)->bytes;
		a->kept[i].room = (a->kept[i].bytes + 127) / 64 * 64;
	}
}

/* Adds a tensor to a wave; returns the bytes that the wave grows by. */
static size_t want(struct ht_attribution *a, size_t tensor, size_t wave)
{
	struct ht_kept *k = &a->kept[a->tensor[tensor].kept];
	bool is_new = k->wave != wave;

	k->wave = wave;
	return is_new ? k->room : 0;
}

static size_t want_node(struct ht_attribution *a, size_t tensor, size_t wave)
{
	const struct ht_attributed *t = &a->tensor[tensor];
	size_t bytes = want(a, tensor, wave);

	for (size_t i = 0; i < t->operands; i++)
		bytes += want(a, (size_t)t->operand[i], wave);
	return bytes;
}

/* Each wave stores at most a->budget bytes, or has a single node. */
static void make_waves(struct ht_attribution *a)
{
	size_t bytes = 0, first = 0;

	a->waves = a->most = 0;
	for (size_t i = 0; i < a->tensors; i++) {
		size_t more = want_node(a, i, a->waves + 1);

		if (bytes + more > a->budget && i != first) {
			a->end[a->waves++] = first = i;
			bytes = 0;
			more = want_node(a, i, a->waves + 1);
		}
		bytes += more;
		a->most = bytes > a->most ? bytes : a->most;
	}
	a->end[a->waves++] = a->tensors;
	for (size_t i = 0; i < a->looked[HT_LOOKED_REFERENCE].program->tee_places; i++)
		a->kept[i].wave = 0;
}

static size_t largest_place(const struct ht_attribution *a)
{
	size_t most = 0;

	for (int i = 0; i < HT_LOOKED; i++)
		for (size_t k = 0; k < a->looked[i].program->tee_places; k++) {
			size_t n = (size_t)a->looked[i].program->tee_place[k].count;

			most = n > most ? n : most;
		}
	return most * sizeof(double);
}

/* ---- how the programs run ---- */

/* Parts of a tensor are put together where they are stored. */
static bool can_run_beside(const struct ht_attribution *a)
{
	return a->looked[HT_LOOKED_REFERENCE].program->info.parts <= 1;
}

static void plan_runs(struct ht_attribution *a, int threads, size_t least)
{
	const struct ht_program_info *base = &a->of.base->info, *row = &a->of.row->info;
	size_t own = base->weight_bytes + base->arena_bytes + row->weight_bytes + row->arena_bytes;

	a->threads = threads;
	a->budget = a->of.memory ? a->of.memory : own > least ? own : least;
	make_waves(a);
}

/* Several waves on several threads would take longer than one wave on one thread, which stores few tensors. */
static void choose_runs(struct ht_attribution *a)
{
	int threads = a->of.compile->threads;

	if (threads > 1 || !can_run_beside(a))
		plan_runs(a, threads, LEAST_IN_TURN);
	if (can_run_beside(a) && (threads <= 1 || a->waves > 1))
		plan_runs(a, 1, LEAST_BESIDE);
}

/* Programs that run at once have a context each; one that runs by itself gets it for the run. */
static enum ht_status make_sides(struct beginning *b)
{
	for (int i = 0; i < HT_LOOKED; i++) {
		struct ht_looked *l = &b->a->looked[i];

		HT_TRY(ht_attribution_context(b->a, l->program, b->d, &l->context));
		l->side = i == HT_LOOKED_REFERENCE ? NULL : ht_coroutine_new();
		if (!l->side && i != HT_LOOKED_REFERENCE)
			return ht_error(b->d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	}
	return HT_OK;
}

/* ---- beginning and end ---- */

static enum ht_status begin(void *arg)
{
	struct beginning *b = arg;
	struct ht_attribution *a = b->a;
	int64_t before = ht_now_ns();

	HT_TRY(open_programs(b));
	for (int i = 0; i < HT_LOOKED; i++) {
		if (!a->looked[i].program->tee_places)
			return ht_error(b->d, HT_E_UNSUPPORTED,
				(struct ht_where){ .path = a->of.model->graph->path, .offset = -1 },
				"programs with an open first dimension, or without nodes, show no tensors: nodes are not compared");
		make_room(a, &a->looked[i]);
	}
	match(a);
	describe_kept(a);
	a->end = HT_NEW_ARRAY(&a->arena, size_t, a->tensors + 1);
	choose_runs(a);
	if (!ht_attribution_map(a))
		return ht_error(b->d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"no memory for the tensors of a wave of nodes");
	for (int i = 0; i < 3; i++)
		a->room[i] = ht_alloc(&a->arena, largest_place(a) + 64);
	if (a->threads <= 1 && can_run_beside(a))
		HT_TRY(make_sides(b));
	a->of.nodes->waves = a->waves;
	a->of.nodes->compile_ns = ht_now_ns() - before;
	return HT_OK;
}

enum ht_status ht_attribution_new(
	const struct ht_attribution_of *of, struct ht_diags *d, struct ht_attribution **out)
{
	struct ht_attribution *a = ht_sys_alloc(sizeof *a);
	struct beginning b = { .a = a, .d = d };
	enum ht_status st;

	*out = NULL;
	if (!a)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	*a = (struct ht_attribution){ .of = *of };
	ht_arena_init(&a->arena, of->unwind);
	st = ht_guarded(of->unwind, begin, &b, d);
	if (st == HT_OK)
		*out = a;
	else
		ht_attribution_free(a);
	return st;
}

void ht_attribution_free(struct ht_attribution *a)
{
	if (!a)
		return;
	for (int i = 0; i < HT_LOOKED; i++) {
		ht_coroutine_free(a->looked[i].side);
		ht_context_free(a->looked[i].context);
		if (i != HT_LOOKED_REFERENCE)
			ht_program_free(a->looked[i].program);
	}
	ht_attribution_forget(a);
	ht_arena_release(&a->arena);
	free(a);
}
