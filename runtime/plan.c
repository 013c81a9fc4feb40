/* The plan as bytes, and whether what was read fits together. */
#include "base/philox.h"
#include "runtime/artefact.h"
#include "runtime/coder.h"

#include <string.h>

enum { MAX_RANK = 64 };

static void value(struct ht_coder *c, struct ht_plan_value *v)
{
	void *to = NULL;

	ht_code_text(c, &v->name);
	ht_code_text(c, &v->alias);
	ht_code_number(c, &v->dtype);
	ht_code_number(c, &v->bytes);
	ht_code_integers(c, &v->dim, &v->rank);
	ht_code_count(c, &v->value_bytes, 1);
	if (!ht_coder_reads(c)) {
		ht_put(c->out, v->value, v->value_bytes);
		return;
	}
	if (v->value_bytes) {
		to = ht_alloc(c->arena, v->value_bytes);
		ht_code_bytes(c, to, v->value_bytes);
	}
	v->value = to;
}

static void values(struct ht_coder *c, struct ht_plan_value **list, size_t *n)
{
	ht_code_count(c, n, 6 * 8);
	HT_CODE_LIST(c, *list, *n);
	for (size_t i = 0; i < *n; i++)
		value(c, &(*list)[i]);
}

static void words(struct ht_coder *c, struct ht_plan_call *s)
{
	ht_code_count(c, &s->words_count, 5 * 8);
	HT_CODE_LIST(c, s->words, s->words_count);
	for (size_t i = 0; i < s->words_count; i++) {
		ht_code_text(c, &s->words[i].text);
		ht_code_number(c, &s->words[i].arg);
		ht_code_number(c, &s->words[i].dtype);
		ht_code_number(c, &s->words[i].most);
		ht_code_integers(c, &s->words[i].dim, &s->words[i].rank);
	}
}

static void call(struct ht_coder *c, struct ht_plan_call *s)
{
	ht_code_number(c, &s->kernel);
	ht_code_number(c, &s->tiles);
	ht_code_integers(c, &s->arg, &s->args);
	ht_code_integers(c, &s->param, &s->params);
	ht_code_text(c, &s->node);
	ht_code_text(c, &s->method);
	words(c, s);
}

static void streams(struct ht_coder *c, struct ht_program_plan *p)
{
	ht_code_count(c, &p->streams, 4 * 8);
	HT_CODE_LIST(c, p->stream, p->streams);
	for (size_t i = 0; i < p->streams; i++) {
		ht_code_number(c, &p->stream[i].seed);
		ht_code_number(c, &p->stream[i].seed2);
		ht_code_number(c, &p->stream[i].name);
		ht_code_number(c, &p->stream[i].blocks);
	}
}

static void plan(struct ht_coder *c, struct ht_program_plan *p)
{
	uint64_t *const sizes[] = { &p->arena_bytes, &p->live_bytes, &p->scratch_bytes,
		&p->weight_bytes, &p->code_bytes, &p->low_nodes, &p->float_nodes, &p->casts,
		&p->parts };

	ht_code_text(c, &p->target);
	ht_code_text(c, &p->policy);
	ht_code_text(c, &p->provenance);
	for (size_t i = 0; i < HT_COUNT(sizes); i++)
		ht_code_number(c, sizes[i]);
	values(c, &p->input, &p->inputs);
	values(c, &p->output, &p->outputs);
	ht_code_count(c, &p->weights, 2 * 8);
	HT_CODE_LIST(c, p->weight, p->weights);
	for (size_t i = 0; i < p->weights; i++) {
		ht_code_number(c, &p->weight[i].number);
		ht_code_number(c, &p->weight[i].bytes);
	}
	ht_code_count(c, &p->memories, 3 * 8);
	HT_CODE_LIST(c, p->memory, p->memories);
	for (size_t i = 0; i < p->memories; i++) {
		ht_code_number(c, &p->memory[i].where);
		ht_code_number(c, &p->memory[i].offset);
		ht_code_number(c, &p->memory[i].bytes);
	}
	ht_code_count(c, &p->kernels, 4 * 8 + HT_DIGEST);
	HT_CODE_LIST(c, p->kernel, p->kernels);
	for (size_t i = 0; i < p->kernels; i++) {
		ht_code_text(c, &p->kernel[i].library);
		ht_code_number(c, &p->kernel[i].offset);
		ht_code_number(c, &p->kernel[i].bytes);
		ht_code_number(c, &p->kernel[i].entry);
		ht_code_bytes(c, p->kernel[i].digest, HT_DIGEST);
	}
	ht_code_count(c, &p->calls, 7 * 8);
	HT_CODE_LIST(c, p->call, p->calls);
	for (size_t i = 0; i < p->calls; i++)
		call(c, &p->call[i]);
	streams(c, p);
}

/* ---- whether what was read fits together ---- */

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

/* Whether parts of `bytes` are all of `whole`. */
static bool good_parts(const struct ht_program_plan *p, uint64_t bytes, uint64_t whole)
{
	return whole % p->parts == 0 && bytes == whole / p->parts;
}

static bool good_memory(const struct ht_program_plan *p, const struct ht_plan_memory *m)
{
	switch (m->where) {
	case HT_RT_ARENA:
		return m->offset % 64 == 0 && ht_inside(m->offset, m->bytes, p->arena_bytes);
	case HT_RT_CONST:
		return m->offset < p->weights && m->bytes == p->weight[m->offset].bytes;
	case HT_RT_INPUT:
		return m->offset < p->inputs &&
		       (m->bytes == p->input[m->offset].bytes ||
			       good_parts(p, m->bytes, p->input[m->offset].bytes));
	case HT_RT_OUTPUT:
		return m->offset < p->outputs &&
		       good_parts(p, m->bytes, p->output[m->offset].bytes);
	case HT_RT_STREAM:
		return m->offset < p->streams && m->bytes == sizeof(struct ht_philox);
	default:
		return false;
	}
}

struct call_in_plan {
	const struct ht_program_plan *plan;
	const struct ht_plan_call *call;
};

static uint64_t bytes_of_argument(const void *arg, size_t i)
{
	const struct call_in_plan *at = arg;

	return at->plan->memory[at->call->arg[i]].bytes;
}

static bool good_words(const struct ht_program_plan *p, const struct ht_plan_call *s)
{
	struct call_in_plan at = { p, s };

	for (size_t i = 0; i < s->words_count; i++)
		if (!ht_words_fit(&s->words[i], s->args, bytes_of_argument, &at))
			return false;
	return true;
}

static bool good_call(const struct ht_program_plan *p, const struct ht_plan_call *s)
{
	if (s->kernel >= p->kernels || s->tiles > INT32_MAX || s->args > INT32_MAX)
		return false;
	for (size_t i = 0; i < s->args; i++)
		if ((uint64_t)s->arg[i] >= p->memories)
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
	if (p->parts < 1 || p->parts > INT32_MAX)
		return "it has no parts, or too many";
	for (size_t i = 0; i < p->inputs; i++)
		if (!good_value(&p->input[i]))
			return "an input's type, shape and size do not fit together";
	for (size_t i = 0; i < p->outputs; i++)
		if (!good_value(&p->output[i]))
			return "an output's type, shape and size do not fit together";
	if (p->streams && p->parts > 1)
		return "parts of a batch would draw the same random numbers";
	if (p->memories > INT32_MAX || p->calls > INT32_MAX || p->streams > INT32_MAX)
		return "it has too many steps";
	for (size_t i = 0; i < p->memories; i++)
		if (!good_memory(p, &p->memory[i]))
			return "a buffer is outside of its memory";
	for (size_t i = 0; i < p->kernels; i++, k++)
		if (!k->library[0] && (k->entry >= k->bytes || k->bytes > MOST))
			return "a kernel begins outside of its code";
	for (size_t i = 0; i < p->calls; i++)
		if (!good_call(p, &p->call[i]))
			return "a step has a kernel or buffer that is not there";
	for (size_t i = 0; i < p->calls; i++)
		if (!good_words(p, &p->call[i]))
			return "a step's message is about elements that are not there";
	return NULL;
}

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out)
{
	struct ht_program_plan copy = *p; /* numbers are written through pointers */

	plan(&(struct ht_coder){ .out = out }, &copy);
}

const char *ht_plan_read(struct ht_str from, struct ht_arena *a, struct ht_program_plan *p)
{
	struct ht_coder c = { .p = (const uint8_t *)from.p, .n = from.n, .arena = a };

	memset(p, 0, sizeof *p);
	plan(&c, p);
	return ht_coder_end(&c) ? ht_coder_end(&c) : check(p);
}
