/* Derived buffers: results that stay the same from run to run as long as some state does, such
 * as packed weights of an evaluation.
 *
 * A step is *constant* here if it reads only variables to which the program does not assign,
 * steady inputs, constants, and memory that only such steps write to.  Constant steps that
 * depend on the same state form a group, which runs again when some of that state changed.  The
 * groups are the first steps of the entry.  Temporary memory of a group that other steps read
 * becomes derived buffers.
 *
 * Groups of bodies and of parts of a batch move to the entry, where equal steps become one.  The
 * entry of a batch in parts has no other steps; its groups are in plan->prelude. */
#include "lower/inside.h"

#include <string.h>

/* For a group that makes fewer bytes, testing whether it must run takes about as long as running
 * it. */
enum { LEAST_BYTES = 1024, ALIGN = 64 };

/* A constant step that moves from a body or part to the entry.  Its buffers are still those of
 * the procedure it came from. */
struct hoisted {
	struct ht_plan_step step;
	struct hoisted *next;
};

struct deriving {
	struct lower *l;
	struct ht_plan *p;
	int32_t first, steps; /* of the procedure */
	bool *constant;       /* by step of it */
	int32_t *group; /* by buffer: another buffer of its group (union-find), or itself if it
		        * represents the group */
	int32_t *of_variable; /* by variable: the buffer that represents it; -1: none yet */
};

static const struct ht_kernel *kernel_of(const struct deriving *d, int32_t i)
{
	int32_t number = d->p->step[d->first + i].kernel;

	return number >= 0 ? d->p->kernel[number] : NULL;
}

/* ---- which steps are constant ---- */

static bool is_assigned(const struct deriving *d, const struct ht_plan_buffer *b)
{
	return variable_is_assigned(d->l, d->p->variable[b->offset].name);
}

static bool is_steady(const struct deriving *d, const struct ht_plan_buffer *b)
{
	switch (b->kind) {
	case HT_PLAN_VARIABLE:
		return !is_assigned(d, b);
	case HT_PLAN_INPUT:
		return b->steady && (b->whole || !d->l->whole);
	default:
		return b->kind == HT_PLAN_CONST;
	}
}

static void find_constant(struct deriving *d)
{
	const int32_t first = d->l->procedure.buffer;
	bool *steady = HT_NEW_ARRAY(d->l->scratch, bool, (size_t)(d->p->buffers - first));

	for (int32_t i = first; i < d->p->buffers; i++)
		steady[i - first] = is_steady(d, &d->p->buffer[i]);
	d->constant = plan_constant_steps(d->l, steady);
}

/* ---- groups ---- */

static int32_t group_of(const struct deriving *d, int32_t buffer)
{
	while (d->group[buffer] != buffer)
		buffer = d->group[buffer];
	return buffer;
}

/* The buffer that represents all buffers of the same memory. */
static int32_t same_memory(struct deriving *d, int32_t buffer)
{
	const struct ht_plan_buffer *b = &d->p->buffer[buffer];

	if (b->kind != HT_PLAN_VARIABLE)
		return buffer;
	if (d->of_variable[b->offset] < 0)
		d->of_variable[b->offset] = buffer;
	return d->of_variable[b->offset];
}

static void join(struct deriving *d, int32_t i)
{
	const struct ht_plan_step *s = &d->p->step[d->first + i];
	int32_t one = -1;

	for (int32_t a = 0; a < kernel_of(d, i)->args; a++) {
		int32_t buffer = same_memory(d, s->buffer[a]);

		if (d->p->buffer[buffer].kind == HT_PLAN_CONST)
			continue;
		if (one >= 0)
			d->group[group_of(d, buffer)] = group_of(d, one);
		one = buffer;
	}
}

static int32_t group_of_step(struct deriving *d, int32_t i)
{
	const struct ht_kernel *k = kernel_of(d, i);
	const struct ht_plan_step *s = &d->p->step[d->first + i];

	for (int32_t a = 0; a < k->args; a++)
		if (k->buffer[a].kind == HT_BUFFER_OUT)
			return group_of(d, s->buffer[a]);
	return -1;
}

static bool has_group(struct deriving *d, int32_t i, int32_t group)
{
	return d->constant[i] && group_of_step(d, i) == group;
}

/* ---- a group becomes a part of the plan ---- */

static bool reads_elsewhere(struct deriving *d, int32_t group, int32_t buffer)
{
	const struct ht_plan_buffer *b = &d->p->buffer[buffer];

	if (b->hoisted)
		return true;
	for (int32_t i = b->first_step - d->first; i <= b->last_step - d->first; i++) {
		const struct ht_plan_step *s = &d->p->step[d->first + i];
		const struct ht_kernel *k = kernel_of(d, i);

		if (!k && s->control)
			return true; /* a branch, loop or call may read the buffer */
		if (has_group(d, i, group))
			continue;
		for (int32_t a = 0; a < k->args; a++)
			if (s->buffer[a] == buffer)
				return true;
	}
	return false;
}

static bool is_in_group(const struct deriving *d, int32_t group, int32_t buffer)
{
	const struct ht_plan_buffer *b = &d->p->buffer[buffer];

	return b->first_step >= 0 && b->kind != HT_PLAN_CONST && group_of(d, buffer) == group;
}

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Stores the group's buffers that are not temporary memory in `to`, each once, unless it is
 * NULL. Returns how many there are. */
static int32_t find_sources(struct deriving *d, int32_t group, int32_t *to)
{
	int32_t n = 0;

	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++) {
		enum ht_plan_kind kind = d->p->buffer[i].kind;

		if (!is_in_group(d, group, i) || same_memory(d, i) != i || kind == HT_PLAN_TEMP ||
			kind == HT_PLAN_DERIVED)
			continue;
		if (to)
			to[n] = i;
		n++;
	}
	return n;
}

/* Makes temporary memory that other steps read derived.  Returns the bytes of all that the group
 * makes. */
static size_t keep_memory(struct deriving *d, int32_t group, struct ht_plan_derived *to)
{
	size_t all = 0;

	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++) {
		struct ht_plan_buffer *b = &d->p->buffer[i];

		if (!is_in_group(d, group, i) || b->kind != HT_PLAN_TEMP)
			continue;
		all += aligned(b->bytes);
		if (!reads_elsewhere(d, group, i))
			continue;
		b->kind = HT_PLAN_DERIVED;
		b->derived = d->p->deriveds;
		b->offset = to->bytes;
		to->bytes += aligned(b->bytes);
	}
	return all;
}

/* The steps of a rejected group run in each run, like all others. */
static void give_up(struct deriving *d, int32_t group)
{
	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++)
		if (is_in_group(d, group, i) && d->p->buffer[i].kind == HT_PLAN_DERIVED) {
			d->p->buffer[i].kind = HT_PLAN_TEMP;
			d->p->buffer[i].offset = 0;
			d->p->buffer[i].derived = 0;
		}
	for (int32_t i = 0; i < d->steps; i++)
		if (has_group(d, i, group))
			d->constant[i] = false;
}

/* Moves the steps of the group to `to`, behind those of earlier groups. */
static int32_t take_steps(struct deriving *d, int32_t group, struct ht_plan_step *to)
{
	int32_t n = 0;

	for (int32_t i = 0; i < d->steps; i++)
		if (has_group(d, i, group))
			to[n++] = d->p->step[d->first + i];
	return n;
}

static void add_derived(struct deriving *d, const struct ht_plan_derived *group)
{
	struct ht_plan *p = d->p;

	p->derived = ht_grow(d->l->arena, p->derived, (size_t)p->deriveds,
		&d->l->planning->derived_cap, sizeof *p->derived);
	p->derived[p->deriveds++] = *group;
}

static int32_t take_rest(const struct deriving *d, struct ht_plan_step *to)
{
	int32_t n = 0;

	for (int32_t i = 0; i < d->steps; i++)
		if (!d->constant[i])
			to[n++] = d->p->step[d->first + i];
	return n;
}

static void order_steps(struct deriving *d)
{
	struct ht_plan_step *to =
		HT_NEW_ARRAY(d->l->scratch, struct ht_plan_step, (size_t)d->steps);
	bool *done = HT_NEW_ARRAY(d->l->scratch, bool, (size_t)d->p->buffers);
	int32_t n = 0;

	for (int32_t i = 0; i < d->steps; i++) {
		int32_t group = d->constant[i] ? group_of_step(d, i) : -1;
		struct ht_plan_derived of = { .step = d->first + n };

		if (group < 0 || done[group])
			continue;
		done[group] = true;
		of.sources = find_sources(d, group, NULL);
		if (keep_memory(d, group, &of) < LEAST_BYTES || !of.sources || !of.bytes) {
			give_up(d, group);
			continue;
		}
		of.source = HT_NEW_ARRAY(d->l->arena, int32_t, (size_t)of.sources);
		find_sources(d, group, of.source);
		of.steps = take_steps(d, group, to + n);
		n += of.steps;
		add_derived(d, &of);
	}
	n += take_rest(d, to + n);
	HT_CHECK(n == d->steps);
	memcpy(d->p->step + d->first, to, (size_t)n * sizeof *to);
}

static bool has_state(const struct lower *l)
{
	for (int32_t i = l->procedure.buffer; i < l->plan->buffers; i++)
		if (l->plan->buffer[i].kind == HT_PLAN_VARIABLE || l->plan->buffer[i].steady)
			return true;
	return false;
}

/* ---- bodies and parts ---- */

static bool is_kept(struct deriving *d, int32_t group)
{
	int32_t sources = 0;
	size_t all = 0;
	bool read = false;

	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++) {
		const struct ht_plan_buffer *b = &d->p->buffer[i];

		if (!is_in_group(d, group, i))
			continue;
		sources += b->kind != HT_PLAN_TEMP;
		all += b->kind == HT_PLAN_TEMP ? aligned(b->bytes) : 0;
		read = read || (b->kind == HT_PLAN_TEMP && reads_elsewhere(d, group, i));
	}
	return sources && read && all >= LEAST_BYTES;
}

static void hoist_step(struct deriving *d, int32_t i)
{
	struct hoisted *h = HT_NEW(d->l->scratch, struct hoisted), **end = &d->l->planning->hoisted;

	h->step = d->p->step[d->first + i];
	while (*end)
		end = &(*end)->next;
	*end = h;
}

/* Buffers that other steps read are placed when the entry is made. */
static void hoist_group(struct deriving *d, int32_t group)
{
	bool *read = HT_NEW_ARRAY(d->l->scratch, bool, (size_t)d->p->buffers);

	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++)
		read[i] = is_in_group(d, group, i) && d->p->buffer[i].kind == HT_PLAN_TEMP &&
			  reads_elsewhere(d, group, i);
	for (int32_t i = d->l->procedure.buffer; i < d->p->buffers; i++)
		if (read[i])
			d->p->buffer[i].kind = HT_PLAN_DERIVED;
	for (int32_t i = 0; i < d->steps; i++)
		if (has_group(d, i, group))
			hoist_step(d, i);
}

static void hoist(struct deriving *d)
{
	bool *met = HT_NEW_ARRAY(d->l->scratch, bool, (size_t)d->p->buffers);
	bool *kept = HT_NEW_ARRAY(d->l->scratch, bool, (size_t)d->p->buffers);

	for (int32_t i = 0; i < d->steps; i++) {
		int32_t group = d->constant[i] ? group_of_step(d, i) : -1;

		if (group >= 0 && !met[group]) {
			met[group] = true;
			kept[group] = is_kept(d, group);
			if (kept[group])
				hoist_group(d, group);
		}
		d->constant[i] = group >= 0 && kept[group];
	}
	d->steps = take_rest(d, d->p->step + d->first);
	d->p->steps = d->first + d->steps;
	d->l->procedure.steps = d->steps;
}

/* ---- the entry takes what was hoisted ---- */

struct taking {
	struct deriving *d;
	int32_t *to; /* by buffer of the plan: 1 + the entry's buffer; 0: none yet */
	int32_t buffers;
	int32_t *writers; /* by buffer of the plan: hoisted steps that write to it */
};

static bool is_same_state(
	const struct ht_plan_buffer *a, int32_t i, const struct ht_plan_buffer *b, int32_t k)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case HT_PLAN_VARIABLE:
		return a->offset == b->offset;
	case HT_PLAN_INPUT:
		return b->same && ht_str_eq(a->name, b->name);
	default:
		return (a->same ? a->same : i + 1) == (b->same ? b->same : k + 1) ||
		       (a->blob && a->blob == b->blob && !a->pack && !b->pack &&
			       a->bytes == b->bytes);
	}
}

static int32_t add_copy(struct taking *t, int32_t buffer)
{
	struct lower *l = t->d->l;
	const struct ht_plan_buffer from = l->plan->buffer[buffer];
	size_t bytes = l->planning->bytes;
	int32_t i = plan_buffer(l, from.kind, from.dtype, 0);
	struct ht_plan_buffer *to = &l->plan->buffer[i];

	l->planning->bytes = bytes;
	*to = from;
	to->first_step = to->last_step = -1;
	if (from.kind == HT_PLAN_CONST || from.kind == HT_PLAN_INPUT)
		to->same = from.same ? from.same : buffer + 1;
	to->hoisted = from.kind == HT_PLAN_DERIVED;
	if (from.kind == HT_PLAN_DERIVED)
		to->kind = HT_PLAN_TEMP;
	return i;
}

/* The entry's buffer for a buffer of a hoisted step. */
static int32_t taken(struct taking *t, int32_t buffer)
{
	const struct ht_plan_buffer *b = &t->d->p->buffer[buffer];
	bool is_state = b->kind != HT_PLAN_TEMP && b->kind != HT_PLAN_DERIVED;

	for (int32_t i = t->d->l->procedure.buffer;
		is_state && !t->to[buffer] && i < t->d->p->buffers; i++)
		if (is_same_state(b, buffer, &t->d->p->buffer[i], i))
			t->to[buffer] = i + 1;
	if (!t->to[buffer])
		t->to[buffer] = add_copy(t, buffer) + 1;
	return t->to[buffer] - 1;
}

static bool writes(const struct ht_kernel *k, int32_t arg)
{
	return k->buffer[arg].kind == HT_BUFFER_OUT;
}

static bool is_same_step(
	const struct taking *t, const struct ht_plan_step *a, const struct ht_plan_step *of_entry)
{
	const struct ht_kernel *k = t->d->p->kernel[a->kernel];
	size_t params = (size_t)k->params * sizeof *a->params;

	if (of_entry->kernel != a->kernel || !a->params != !of_entry->params ||
		(a->params && memcmp(a->params, of_entry->params, params) != 0))
		return false;
	for (int32_t i = 0; i < k->args; i++)
		if (writes(k, i) ? t->writers[a->buffer[i]] != 1
				 : t->to[a->buffer[i]] != of_entry->buffer[i] + 1)
			return false;
	return true;
}

/* A hoisted step of the entry that computes the same; NULL: none. */
static const struct ht_plan_step *same_step(
	const struct taking *t, const struct ht_plan_step *s, int32_t first)
{
	for (int32_t i = first; i < t->d->p->steps; i++)
		if (is_same_step(t, s, &t->d->p->step[i]))
			return &t->d->p->step[i];
	return NULL;
}

static void take_step(struct taking *t, const struct ht_plan_step *s, int32_t first)
{
	struct lower *l = t->d->l;
	const struct ht_kernel *k = t->d->p->kernel[s->kernel];
	const struct ht_plan_step *same;
	int32_t *buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)k->args);

	for (int32_t i = 0; i < k->args; i++)
		if (!writes(k, i))
			buffer[i] = taken(t, s->buffer[i]);
	same = same_step(t, s, first);
	for (int32_t i = 0; i < k->args; i++) {
		if (!writes(k, i))
			continue;
		if (same) {
			t->to[s->buffer[i]] = same->buffer[i] + 1;
			if (t->d->p->buffer[s->buffer[i]].kind == HT_PLAN_DERIVED)
				t->d->p->buffer[same->buffer[i]].hoisted = true;
		} else {
			buffer[i] = taken(t, s->buffer[i]);
		}
	}
	if (!same)
		plan_repeat(l, s, buffer);
}

static int32_t *count_writers(const struct deriving *d)
{
	int32_t *n = HT_NEW_ARRAY(d->l->scratch, int32_t, (size_t)d->p->buffers);

	for (const struct hoisted *h = d->l->planning->hoisted; h; h = h->next) {
		const struct ht_kernel *k = d->p->kernel[h->step.kernel];

		for (int32_t i = 0; i < k->args; i++)
			n[h->step.buffer[i]] += writes(k, i);
	}
	return n;
}

static struct taking take_hoisted(struct deriving *d)
{
	struct taking t = { .d = d,
		.to = HT_NEW_ARRAY(d->l->scratch, int32_t, (size_t)d->p->buffers),
		.buffers = d->p->buffers,
		.writers = count_writers(d) };
	int32_t first = d->p->steps;

	for (const struct hoisted *h = d->l->planning->hoisted; h; h = h->next)
		take_step(&t, &h->step, first);
	d->l->planning->hoisted = NULL;
	d->l->procedure.buffers = d->p->buffers - d->l->procedure.buffer;
	d->l->procedure.steps = d->p->steps - d->l->procedure.step;
	return t;
}

/* Bodies and parts read the derived buffers at their places in the entry. */
static void place_hoisted(const struct taking *t)
{
	for (int32_t i = 0; i < t->buffers; i++) {
		struct ht_plan_buffer *b = &t->d->p->buffer[i];
		const struct ht_plan_buffer *to;

		if (!t->to[i] || b->kind != HT_PLAN_DERIVED || i >= t->d->l->procedure.buffer)
			continue;
		to = &t->d->p->buffer[t->to[i] - 1];
		HT_CHECK(to->kind == HT_PLAN_DERIVED);
		b->derived = to->derived;
		b->offset = to->offset;
	}
}

/* ---- a procedure ---- */

static bool is_entry(const struct lower *l)
{
	return !l->g->function && !l->whole;
}

/* False if an observer must see every tensor in each run. */
static bool may_derive(const struct lower *l)
{
	if (l->planning->observed)
		return false;
	return has_state(l) || (is_entry(l) && l->planning->hoisted);
}

void plan_derive(struct lower *l)
{
	struct deriving d = { .l = l, .p = l->plan, .first = l->procedure.step };
	struct taking t = { 0 };

	if (!may_derive(l))
		return;
	if (is_entry(l))
		t = take_hoisted(&d);
	d.steps = l->plan->steps - d.first;
	d.group = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)l->plan->buffers);
	d.of_variable = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)l->plan->variables);
	for (int32_t i = 0; i < l->plan->buffers; i++)
		d.group[i] = i;
	for (int32_t i = 0; i < l->plan->variables; i++)
		d.of_variable[i] = -1;
	find_constant(&d);
	for (int32_t i = 0; i < d.steps; i++)
		if (d.constant[i])
			join(&d, i);
	if (is_entry(l))
		order_steps(&d);
	else
		hoist(&d);
	plan_all_uses(l);
	if (is_entry(l))
		place_hoisted(&t);
}

void plan_prelude(struct lower *l)
{
	if (!l->planning->hoisted)
		return;
	l->procedure = (struct ht_plan_procedure){
		.name = HT_STR("main"), .buffer = l->plan->buffers, .step = l->plan->steps
	};
	plan_derive(l);
	plan_memory(l);
	l->plan->prelude = l->procedure;
}
