/* A run of a context: checks of the arrays that the caller passes, and the outputs after the
 * run. */
#include "api/context.h"

#include <stdlib.h>
#include <string.h>

static bool is_of_strings(const struct ht_value_info *v)
{
	return v->dtype == HT_STRING;
}

/* Whether an array has exactly the fixed type and shape that the program was compiled for: the
 * most frequent case. */
static bool is_as_compiled(const struct ht_value_info *v, const struct ht_array *a)
{
	if (!v->bytes || a->bytes != v->bytes || is_of_strings(v) || a->dtype != v->dtype ||
		a->rank != v->rank || !a->data)
		return false;
	for (int32_t i = 0; i < v->rank; i++)
		if (a->dim[i] != v->dim[i])
			return false;
	return true;
}

/* Checks type, shape and size of one array.  `output` is the number of the output; for an input
 * it is no output's number, and its open extents have been checked. */
static enum ht_status check(const struct ht_context *c, const char *what,
	const struct ht_value_info *v, size_t output, const struct ht_array *a, struct ht_diags *d)
{
	size_t bytes = ht_dtype_info(v->dtype)->bytes;

	if (a->dtype != v->dtype)
		return ht_refuse(d, HT_E_INPUT, "%s '%s' is %s, %s was given", what, v->name,
			ht_dtype_name(v->dtype), ht_dtype_name(a->dtype));
	if (a->rank != v->rank)
		return ht_refuse(d, HT_E_INPUT, "%s '%s' has %d dimensions, %d were given", what,
			v->name, (int)v->rank, (int)a->rank);
	for (int32_t i = 0; i < v->rank; i++) {
		int64_t wants = v->dim[i] >= 0 ? v->dim[i]
				: output < c->program->outputs
					? ht_sizes_extent(c->program, output, i, c->size)
					: a->dim[i];

		if (a->dim[i] != wants)
			return ht_refuse(d, HT_E_INPUT,
				"dimension %d of %s '%s' is %lld, %lld was given", (int)i, what,
				v->name, (long long)wants, (long long)a->dim[i]);
		bytes *= (size_t)wants;
	}
	if (v->dtype != HT_STRING && a->bytes != bytes)
		return ht_refuse(d, HT_E_INPUT, "%s '%s' has %zu bytes, %zu were given", what,
			v->name, bytes, a->bytes);
	if (!a->data && (bytes || (v->dtype == HT_STRING && output >= c->program->outputs)) &&
		!v->value)
		return ht_refuse(d, HT_E_INPUT, "%s '%s' has no data", what, v->name);
	return HT_OK;
}

/* ---- outputs whose memory the caller allocates ---- */

static enum ht_status allocate(
	struct ht_context *c, size_t i, size_t bytes, struct ht_diags *d, void **to)
{
	const struct ht_value_info *v = &c->program->output[i];
	int64_t few[8], *dim = v->rank <= 8 ? few : ht_sys_alloc((size_t)v->rank * sizeof *dim);
	size_t fixed;

	*to = NULL;
	if (!dim)
		return ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
	ht_sizes_output(c->program, i, c->size, dim, &fixed);
	c->allocate(c->allocate_arg, i, dim, bytes, to);
	if (dim != few)
		free(dim);
	return *to ? HT_OK
		   : ht_refuse(d, HT_E_ENVIRONMENT,
			     "the caller allocated no memory for the %zu bytes of output '%s'",
			     bytes, v->name);
}

static enum ht_status allocate_output(struct ht_context *c, size_t i, struct ht_diags *d)
{
	size_t bytes = ht_sizes_output_bytes(c->program, i, c->size);

	HT_TRY(allocate(c, i, bytes, d, &c->out[i]));
	if (c->kept[i].used && bytes)
		memcpy(c->out[i], c->kept[i].memory, bytes);
	return HT_OK;
}

/* Memory for the largest size of an output whose size the run computes.  It is allocated in the
 * first run that needs it. */
static enum ht_status keep_output(struct ht_context *c, size_t i, struct ht_diags *d)
{
	struct kept_output *k = &c->kept[i];
	size_t bytes = (size_t)ht_image_ports(
		c->program->rt.image)[ht_image_entries(c->program->rt.image)->port +
				      c->program->inputs + i]
			       .bytes;

	k->used = true;
	if (!k->memory)
		k->memory = ht_rt_memory(bytes);
	if (!k->memory)
		return ht_refuse(d, HT_E_ENVIRONMENT,
			"no memory for the %zu bytes that output '%s' may have", bytes,
			c->program->output[i].name);
	c->out[i] = k->memory;
	return HT_OK;
}

static enum ht_status open_output(struct ht_context *c, size_t i, struct ht_diags *d)
{
	return ht_sizes_are_known(c->program, i) ? allocate_output(c, i, d) : keep_output(c, i, d);
}

static enum ht_status close_outputs(struct ht_context *c, struct ht_diags *d)
{
	for (size_t i = 0; c->kept && i < ht_program_outputs(c->program); i++)
		if (c->kept[i].used)
			HT_TRY(allocate_output(c, i, d));
	return HT_OK;
}

/* ---- strings ---- */

static enum ht_status expect_strings(
	struct ht_context *c, size_t i, const struct ht_array *a, struct ht_diags *d)
{
	const struct ht_value_info *v = &c->program->output[i];

	if (a->data || !c->allocate)
		HT_TRY(check(c, "output", v, i, a, d));
	return ht_texts_expect(c->texts, i,
		ht_sizes_output_bytes(c->program, i, c->size) / HT_IMAGE_STRING_BYTES, d,
		&c->out[i]);
}

/* The caller's memory for output `i`; NULL: it gave none, and reads the context's. */
static enum ht_status memory_for_strings(struct ht_context *c, size_t i, const struct ht_array *a,
	size_t bytes, struct ht_diags *d, void **to)
{
	const struct ht_value_info *v = &c->program->output[i];

	*to = a->data;
	if (a->data && a->bytes < bytes)
		return ht_refuse(d, HT_E_INPUT,
			"output '%s' has room for %zu bytes; its strings and offsets have %zu",
			v->name, a->bytes, bytes);
	return a->data || !c->allocate ? HT_OK : allocate(c, i, bytes, d, to);
}

static enum ht_status give_strings(
	struct ht_context *c, size_t i, const struct ht_array *a, struct ht_diags *d)
{
	const void *from;
	size_t bytes;
	void *to;

	HT_TRY(ht_texts_give(c->texts, i,
		ht_sizes_output_bytes(c->program, i, c->size) / HT_IMAGE_STRING_BYTES, d));
	from = ht_texts_block(c->texts, i, &bytes);
	HT_TRY(memory_for_strings(c, i, a, bytes, d, &to));
	if (to)
		memcpy(to, from, bytes);
	return HT_OK;
}

static enum ht_status give_all_strings(
	struct ht_context *c, const struct ht_array *out, struct ht_diags *d)
{
	for (size_t i = 0; i < ht_program_outputs(c->program); i++)
		if (is_of_strings(&c->program->output[i]))
			HT_TRY(give_strings(c, i, &out[i], d));
	return HT_OK;
}

const void *ht_context_strings(const struct ht_context *c, size_t i, size_t *bytes)
{
	*bytes = 0;
	if (i >= ht_program_outputs(c->program) || !is_of_strings(&c->program->output[i]) ||
		!c->ran)
		return NULL;
	return ht_texts_block(c->texts, i, bytes);
}

/* ---- arrays that overlap ---- */

static bool overlap(const struct ht_array *a, const struct ht_array *b)
{
	const char *x = a->data, *y = b->data;

	return x && y && a->bytes && b->bytes && x < y + b->bytes && y < x + a->bytes;
}

static enum ht_status check_apart(const struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	for (size_t i = 0; i < outs; i++) {
		for (size_t k = 0; k < ins; k++)
			if (overlap(&out[i], &in[k]))
				return ht_refuse(d, HT_E_USAGE, "output '%s' overlaps input '%s'",
					c->program->output[i].name, c->program->input[k].name);
		for (size_t k = 0; k < i; k++)
			if (overlap(&out[i], &out[k]))
				return ht_refuse(d, HT_E_USAGE, "output '%s' overlaps output '%s'",
					c->program->output[i].name, c->program->output[k].name);
	}
	return HT_OK;
}

/* Whether the memory that the caller gave suffices at these sizes. */
static enum ht_status check_memory(const struct ht_context *c, size_t bytes, struct ht_diags *d)
{
	if (!c->memory_bytes || bytes <= c->memory_bytes)
		return HT_OK;
	return ht_refuse(d, HT_E_LIMIT,
		"a run with inputs of these sizes takes %zu bytes of memory, and the context was "
		"given %zu",
		bytes, c->memory_bytes);
}

static enum ht_status take(struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	const struct ht_program *p = c->program;

	if (ins != ht_program_inputs(p) || outs != ht_program_outputs(p))
		return ht_refuse(d, HT_E_USAGE,
			"the program has %zu inputs and %zu outputs; %zu and %zu were given",
			ht_program_inputs(p), ht_program_outputs(p), ins, outs);
	if (ht_image_count(p->rt.image, HT_IMAGE_SIZES)) {
		HT_TRY(ht_sizes_take(p, in, c->size, d));
		HT_TRY(check_memory(c, ht_rt_context_stated(c->rt), d));
	}
	if (c->texts)
		ht_texts_begin(c->texts);
	for (size_t i = 0; i < ins; i++) {
		if (!is_as_compiled(&p->input[i], &in[i]))
			HT_TRY(check(c, "input", &p->input[i], outs, &in[i], d));
		c->in[i] = in[i].data ? in[i].data : p->input[i].value;
		if (in[i].data && is_of_strings(&p->input[i]))
			HT_TRY(ht_texts_take(c->texts, i, &in[i], d, &c->in[i]));
	}
	for (size_t i = 0; i < outs; i++) {
		if (c->allocate)
			c->kept[i].used = false;
		if (is_of_strings(&p->output[i])) {
			HT_TRY(expect_strings(c, i, &out[i], d));
			continue;
		}
		if (c->allocate) {
			if (!out[i].data) {
				HT_TRY(open_output(c, i, d));
				continue;
			}
		}
		if (!is_as_compiled(&p->output[i], &out[i]))
			HT_TRY(check(c, "output", &p->output[i], i, &out[i], d));
		c->out[i] = out[i].data;
	}
	return check_apart(c, in, ins, out, outs, d);
}

enum ht_status ht_context_run(struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	struct ht_rt_fault fault;

	c->ran = false;
	HT_TRY(take(c, in, ins, out, outs, d));
	if (c->seeing)
		ht_seeing_begin(c->seeing);
	c->ran = ht_rt_run(c->rt, c->in, c->out, !c->keep_subnormals, &fault);
	HT_TRY(ht_program_files_check(c->program, d));
	if (c->ran) {
		if (c->texts)
			HT_TRY(give_all_strings(c, out, d));
		return close_outputs(c, d);
	}
	if (fault.code == HT_EXEC_DAMAGED)
		return ht_artefact_refuse(&c->program->artefact, d, "its weights are damaged");
	return ht_fault_tell(c->program, &fault, &c->limits, c->seeing != NULL, d);
}

enum ht_status ht_context_output(
	const struct ht_context *c, size_t i, int64_t *dim, size_t *bytes, struct ht_diags *d)
{
	if (i >= ht_program_outputs(c->program))
		return ht_refuse(d, HT_E_USAGE, "the program has %zu outputs, not %zu",
			ht_program_outputs(c->program), i + 1);
	if (!c->ran)
		return ht_refuse(d, HT_E_USAGE, "the context has not run, or its last run failed");
	ht_sizes_output(c->program, i, c->size, dim, bytes);
	if (is_of_strings(&c->program->output[i]))
		ht_texts_block(c->texts, i, bytes);
	return HT_OK;
}
