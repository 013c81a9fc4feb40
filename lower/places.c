#include "lower/places.h"

#include "kernel/reach.h"

#include <stdlib.h>
#include <string.h>

struct placing {
	const struct ht_plan *plan;
	struct ht_arena *arena;
	struct ht_reach **reach; /* by kernel and argument */
	struct ht_reach *buffer; /* by buffer of the plan: the most of all its steps */
	bool *used;              /* likewise: one has been seen */
	struct ht_reach_sizes sizes;
};

static struct ht_reach whole(uint64_t bytes)
{
	return (struct ht_reach){ bytes, ht_size_number(0) };
}

/* ---- kernels ---- */

static void take_bounds(struct placing *p)
{
	int64_t *least = HT_NEW_ARRAY(p->arena, int64_t, HT_MOST_RUN_SIZES);
	int64_t *most = HT_NEW_ARRAY(p->arena, int64_t, HT_MOST_RUN_SIZES);

	for (int32_t i = 0; i < p->plan->sizes; i++) {
		least[i] = p->plan->size[i].by.n ? 0 : p->plan->size[i].least;
		most[i] = p->plan->size[i].most;
	}
	p->sizes = (struct ht_reach_sizes){ least, most, p->plan->sizes };
}

/* Whether all steps of a kernel give it the sizes of the run. */
static bool takes_sizes(const struct ht_plan *p, int32_t kernel)
{
	for (int32_t i = 0; i < p->steps; i++)
		if (p->step[i].kernel == kernel && !p->step[i].sized)
			return false;
	return p->kernel[kernel]->params == p->sizes;
}

static void reach_of_kernel(struct placing *p, int32_t number)
{
	const struct ht_kernel *k = p->plan->kernel[number];
	const struct ht_reach_sizes none = { NULL, NULL, 0 };
	bool sized = takes_sizes(p->plan, number), known = sized || !k->params;

	p->reach[number] = HT_NEW_ARRAY(p->arena, struct ht_reach, (size_t)k->args);
	for (int32_t i = 0; i < k->args; i++) {
		uint64_t element = ht_dtype_info(k->buffer[i].dtype)->bytes;
		struct ht_kernel_reach r;

		p->reach[number][i] = whole((uint64_t)k->buffer[i].count * element);
		if (!known || !ht_kernel_reach(k, i, sized ? &p->sizes : &none, &r) ||
			r.add >= k->buffer[i].count)
			continue;
		p->reach[number][i] = (struct ht_reach){ r.add > 0 ? (uint64_t)r.add * element : 0,
			ht_size_product(r.of, ht_size_number((int64_t)element)) };
	}
}

/* ---- buffers ---- */

static struct ht_reach larger(const struct ht_reach *a, const struct ht_reach *b, uint64_t bytes)
{
	struct ht_reach r = ht_size_count(&a->of) ? *a : *b;
	const struct ht_reach *other = ht_size_count(&a->of) ? b : a;

	r.add = a->add > b->add ? a->add : b->add;
	if (r.add >= bytes)
		return whole(bytes);
	if (!ht_size_count(&other->of))
		return r;
	if (!ht_size_same_sizes(&a->of, &b->of))
		return whole(bytes);
	r.of.times = a->of.times > b->of.times ? a->of.times : b->of.times;
	return r;
}

static void use(struct placing *p, int32_t buffer, struct ht_reach r)
{
	struct ht_reach *of = &p->buffer[buffer];

	*of = p->used[buffer] ? larger(of, &r, p->plan->buffer[buffer].bytes) : r;
	p->used[buffer] = true;
}

static void use_whole(struct placing *p, int32_t buffer)
{
	use(p, buffer, whole(p->plan->buffer[buffer].bytes));
}

static void use_moves(struct placing *p, const struct ht_plan_move *m, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		use_whole(p, m[i].to);
		use_whole(p, m[i].from);
	}
}

static void use_control(struct placing *p, const struct ht_plan_control *c)
{
	if (c->condition >= 0)
		use_whole(p, c->condition);
	for (int i = 0; i < 2; i++)
		for (int32_t k = 0; k < c->call[i].buffers; k++)
			use_whole(p, c->call[i].buffer[k]);
	use_moves(p, c->begin, c->begins);
	use_moves(p, c->again, c->agains);
}

static void use_step(struct placing *p, const struct ht_plan_step *s)
{
	if (s->kernel < 0) {
		use_control(p, s->control);
		return;
	}
	for (int32_t i = 0; i < p->plan->kernel[s->kernel]->args; i++)
		use(p, s->buffer[i], p->reach[s->kernel][i]);
}

/* ---- places ---- */

static int by_offset(const void *a, const void *b)
{
	const struct ht_plan_place *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->reach.add != y->reach.add)
		return x->reach.add < y->reach.add ? -1 : 1;
	if (x->reach.of.times != y->reach.of.times)
		return x->reach.of.times < y->reach.of.times ? -1 : 1;
	return memcmp(x->reach.of.size, y->reach.of.size, sizeof x->reach.of.size);
}

static bool needs_place(const struct ht_plan_buffer *b)
{
	return b->kind == HT_PLAN_TEMP && b->first_step >= 0 && b->bytes;
}

/* Whether a place is one for this buffer. */
static bool is_like(
	const struct ht_plan_place *p, const struct ht_plan_buffer *b, const struct ht_reach *r)
{
	return p->offset == b->offset && p->bytes == b->bytes && p->reach.add == r->add &&
	       p->reach.of.times == r->of.times && ht_size_same_sizes(&p->reach.of, &r->of);
}

static struct ht_reach reach_of(const struct placing *p, int32_t buffer)
{
	return p->used[buffer] ? p->buffer[buffer] : whole(p->plan->buffer[buffer].bytes);
}

static void add_place(struct placing *p, struct ht_plan_places *to, int32_t buffer)
{
	const struct ht_plan_buffer *b = &p->plan->buffer[buffer];
	struct ht_plan_place *place = to->place;
	struct ht_reach r = reach_of(p, buffer);

	while (place < to->place + to->n && !is_like(place, b, &r))
		place++;
	if (place < to->place + to->n)
		return;
	to->n++;
	*place = (struct ht_plan_place){ b->offset, b->bytes, r, 0 };
}

/* Numbers places by where they end. */
static void sort_ends(struct ht_plan_places *to)
{
	for (uint32_t i = 0; i < to->n; i++) {
		const struct ht_plan_place *p = &to->place[i];
		uint32_t before = 0;

		for (uint32_t k = 0; k < to->n; k++) {
			uint64_t end = to->place[k].offset + to->place[k].bytes;

			before += end < p->offset + p->bytes ||
				  (end == p->offset + p->bytes && k < i);
		}
		to->place[before].ends = i;
	}
}

static void number_buffers(const struct placing *p, struct ht_plan_places *to)
{
	const struct ht_plan_procedure *of = ht_plan_entry(p->plan);

	for (int32_t i = of->buffer; i < of->buffer + of->buffers; i++) {
		const struct ht_plan_buffer *b = &p->plan->buffer[i];
		const struct ht_reach r = reach_of(p, i);

		while (needs_place(b) && !is_like(&to->place[to->of[i]], b, &r))
			to->of[i]++;
	}
}

static bool any_sized(const struct ht_plan_places *to)
{
	for (uint32_t i = 0; i < to->n; i++)
		if (ht_size_count(&to->place[i].reach.of))
			return true;
	return false;
}

/* Of so many buffers each search for a place would take long. */
enum { VERY_MANY = 4000 };

static void find_places(struct placing *p, struct ht_plan_places *to)
{
	const struct ht_plan_procedure *of = ht_plan_entry(p->plan);

	for (int32_t i = of->step; i < of->step + of->steps; i++)
		use_step(p, &p->plan->step[i]);
	for (int32_t i = of->buffer; i < of->buffer + of->buffers; i++)
		if (needs_place(&p->plan->buffer[i]))
			add_place(p, to, i);
	if (to->n)
		qsort(to->place, to->n, sizeof *to->place, by_offset);
	sort_ends(to);
	number_buffers(p, to);
	if (!any_sized(to))
		to->n = 0;
}

/* Whether something calls the entry, as where it recurs; its frames would have other sizes then. */
static bool calls_entry(const struct ht_plan *p)
{
	for (int32_t i = 0; i < p->steps; i++) {
		const struct ht_plan_control *c = p->step[i].kernel < 0 ? p->step[i].control : NULL;

		for (int k = 0; c && k < 2; k++)
			if (c->call[k].buffers && c->call[k].procedure == p->procedures - 1)
				return true;
	}
	return false;
}

struct ht_plan_places ht_plan_places_of(const struct ht_plan *plan, struct ht_arena *a)
{
	struct placing p = { .plan = plan, .arena = a };
	struct ht_plan_places to = { .n = 0 };

	/* Numbers of roundings are read where they are at the largest sizes. */
	if (!plan->sizes || plan->probes || plan->rows.parts || plan->parts > 1 ||
		ht_plan_entry(plan)->buffers > VERY_MANY || calls_entry(plan))
		return to;
	p.reach = HT_NEW_ARRAY(a, struct ht_reach *, (size_t)plan->kernels);
	p.buffer = HT_NEW_ARRAY(a, struct ht_reach, (size_t)plan->buffers);
	p.used = HT_NEW_ARRAY(a, bool, (size_t)plan->buffers);
	to.of = HT_NEW_ARRAY(a, uint32_t, (size_t)plan->buffers);
	to.place = HT_NEW_ARRAY(a, struct ht_plan_place, (size_t)ht_plan_entry(plan)->buffers);
	to.reach = p.reach;
	take_bounds(&p);
	for (int32_t i = 0; i < plan->kernels; i++)
		reach_of_kernel(&p, i);
	find_places(&p, &to);
	return to;
}
