/* The plan as bytes.  One function describes it for both directions, so that they cannot differ:
 * numbers are 8 bytes, the low one first; a text is its length and its bytes; a list its length and
 * its elements. */
#include "runtime/artefact.h"

#include <string.h>

enum { MAX_RANK = 64 };

struct coder {
	struct ht_buf *out; /* writing */
	const uint8_t *p;   /* reading: what is left */
	size_t n;
	struct ht_arena *arena;
	const char *wrong;
};

static bool is_reading(const struct coder *c)
{
	return !c->out;
}

static void bytes(struct coder *c, void *p, size_t n)
{
	if (!is_reading(c)) {
		ht_put(c->out, p, n);
		return;
	}
	if (c->wrong || n > c->n) {
		c->wrong = "it ends too early";
		memset(p, 0, n);
		return;
	}
	memcpy(p, c->p, n);
	c->p += n;
	c->n -= n;
}

static void number(struct coder *c, uint64_t *v)
{
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)(*v >> 8 * i);
	bytes(c, b, sizeof b);
	*v = 0;
	for (int i = 0; i < 8; i++)
		*v |= (uint64_t)b[i] << 8 * i;
}

/* Elements to come, each of at least `least` bytes: no more are believed than could be there. */
static void count(struct coder *c, size_t *n, size_t least)
{
	uint64_t v = *n;

	number(c, &v);
	if (is_reading(c) && v > c->n / least) {
		c->wrong = "a list is longer than the plan";
		v = 0;
	}
	*n = (size_t)v;
}

static void text(struct coder *c, const char **s)
{
	size_t n = is_reading(c) ? 0 : strlen(*s);
	char *to;

	count(c, &n, 1);
	if (!is_reading(c)) {
		ht_put(c->out, *s, n);
		return;
	}
	to = ht_alloc(c->arena, n + 1);
	bytes(c, to, n);
	to[n] = 0;
	if (strlen(to) != n)
		c->wrong = "a text has a zero in it";
	*s = to;
}

/* Room for a list that is read. */
#define LIST(c, list, n)                                                                           \
	do {                                                                                       \
		if (is_reading(c))                                                                 \
			(list) = ht_alloc((c)->arena, (n) * sizeof *(list) + 1);                   \
	} while (0)

static void numbers(struct coder *c, uint64_t **list, size_t *n)
{
	count(c, n, 8);
	LIST(c, *list, *n);
	for (size_t i = 0; i < *n; i++)
		number(c, &(*list)[i]);
}

static void integers(struct coder *c, int64_t **list, size_t *n)
{
	count(c, n, 8);
	LIST(c, *list, *n);
	for (size_t i = 0; i < *n; i++) {
		uint64_t v = (uint64_t)(*list)[i];

		number(c, &v);
		(*list)[i] = (int64_t)v;
	}
}

static void value(struct coder *c, struct ht_plan_value *v)
{
	void *to = NULL;

	text(c, &v->name);
	number(c, &v->dtype);
	number(c, &v->bytes);
	integers(c, &v->dim, &v->rank);
	count(c, &v->value_bytes, 1);
	if (!is_reading(c)) {
		ht_put(c->out, v->value, v->value_bytes);
		return;
	}
	if (v->value_bytes) {
		to = ht_alloc(c->arena, v->value_bytes);
		bytes(c, to, v->value_bytes);
	}
	v->value = to;
}

static void values(struct coder *c, struct ht_plan_value **list, size_t *n)
{
	count(c, n, 5 * 8);
	LIST(c, *list, *n);
	for (size_t i = 0; i < *n; i++)
		value(c, &(*list)[i]);
}

static void call(struct coder *c, struct ht_plan_call *s)
{
	number(c, &s->kernel);
	number(c, &s->tiles);
	numbers(c, &s->arg, &s->args);
	integers(c, &s->param, &s->params);
	text(c, &s->node);
	text(c, &s->method);
}

static void plan(struct coder *c, struct ht_program_plan *p)
{
	uint64_t *const sizes[] = { &p->arena_bytes, &p->live_bytes, &p->scratch_bytes,
		&p->weight_bytes, &p->code_bytes, &p->low_nodes, &p->float_nodes, &p->casts };

	text(c, &p->target);
	text(c, &p->policy);
	for (size_t i = 0; i < HT_COUNT(sizes); i++)
		number(c, sizes[i]);
	values(c, &p->input, &p->inputs);
	values(c, &p->output, &p->outputs);
	count(c, &p->memories, 3 * 8);
	LIST(c, p->memory, p->memories);
	for (size_t i = 0; i < p->memories; i++) {
		number(c, &p->memory[i].where);
		number(c, &p->memory[i].offset);
		number(c, &p->memory[i].bytes);
	}
	count(c, &p->kernels, 4 * 8);
	LIST(c, p->kernel, p->kernels);
	for (size_t i = 0; i < p->kernels; i++) {
		text(c, &p->kernel[i].library);
		number(c, &p->kernel[i].offset);
		number(c, &p->kernel[i].bytes);
		number(c, &p->kernel[i].entry);
	}
	count(c, &p->calls, 6 * 8);
	LIST(c, p->call, p->calls);
	for (size_t i = 0; i < p->calls; i++)
		call(c, &p->call[i]);
}

/* ---- whether what was read fits together ---- */

static bool inside(uint64_t offset, uint64_t n, uint64_t all)
{
	return offset <= all && n <= all - offset;
}

static bool good_value(const struct ht_plan_value *v)
{
	uint64_t n;

	if (v->dtype >= HT_REF || v->rank > MAX_RANK ||
		(v->value_bytes && v->value_bytes != v->bytes))
		return false;
	n = ht_dtype_info((enum ht_dtype)v->dtype)->bytes;
	for (size_t i = 0; i < v->rank; i++)
		if (v->dim[i] < 0 || __builtin_mul_overflow(n, (uint64_t)v->dim[i], &n))
			return false;
	return n == v->bytes;
}

static bool good_memory(const struct ht_program_plan *p, const struct ht_plan_memory *m)
{
	switch (m->where) {
	case HT_RT_ARENA:
		return m->offset % 64 == 0 && inside(m->offset, m->bytes, p->arena_bytes);
	case HT_RT_CONST:
		return m->offset % 64 == 0 && inside(m->offset, m->bytes, p->weight_bytes);
	case HT_RT_INPUT:
		return m->offset < p->inputs && m->bytes == p->input[m->offset].bytes;
	case HT_RT_OUTPUT:
		return m->offset < p->outputs && m->bytes == p->output[m->offset].bytes;
	default:
		return false;
	}
}

static bool good_call(const struct ht_program_plan *p, const struct ht_plan_call *s)
{
	if (s->kernel >= p->kernels || s->tiles > INT32_MAX || s->args > INT32_MAX)
		return false;
	for (size_t i = 0; i < s->args; i++)
		if (s->arg[i] >= p->memories)
			return false;
	return true;
}

/* Sizes that a process could have. */
#define MOST ((uint64_t)1 << 46)

static const char *check(const struct ht_program_plan *p)
{
	const struct ht_plan_code *k = p->kernel;

	if (p->arena_bytes > MOST || p->scratch_bytes > MOST)
		return "it asks for more memory than there can be";
	for (size_t i = 0; i < p->inputs; i++)
		if (!good_value(&p->input[i]))
			return "an input's type, shape and size do not fit together";
	for (size_t i = 0; i < p->outputs; i++)
		if (!good_value(&p->output[i]))
			return "an output's type, shape and size do not fit together";
	if (p->memories > INT32_MAX || p->calls > INT32_MAX)
		return "it has too many steps";
	for (size_t i = 0; i < p->memories; i++)
		if (!good_memory(p, &p->memory[i]))
			return "a buffer is outside of its memory";
	for (size_t i = 0; i < p->kernels; i++, k++)
		if (!k->library[0] &&
			(k->offset % 64 || !inside(k->offset, k->bytes, p->code_bytes) ||
				k->entry >= k->bytes))
			return "a kernel is outside of the code";
	for (size_t i = 0; i < p->calls; i++)
		if (!good_call(p, &p->call[i]))
			return "a step has a kernel or buffer that is not there";
	return NULL;
}

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out)
{
	struct ht_program_plan copy = *p; /* numbers are written through pointers */

	plan(&(struct coder){ .out = out }, &copy);
}

const char *ht_plan_read(struct ht_str from, struct ht_arena *a, struct ht_program_plan *p)
{
	struct coder c = { .p = (const uint8_t *)from.p, .n = from.n, .arena = a };

	memset(p, 0, sizeof *p);
	plan(&c, p);
	if (c.wrong)
		return c.wrong;
	if (c.n)
		return "something follows it";
	return check(p);
}
