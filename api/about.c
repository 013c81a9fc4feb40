/* Queries about a program, and freeing it. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void ht_program_free(struct ht_program *p)
{
	if (!p)
		return;
	if (p->when_freed)
		p->when_freed(p);
	if (p->code)
		p->backend->free(p->code);
	if (p->code_map)
		munmap(p->code_map, p->code_mapped);
	ht_artefact_close(&p->artefact);
	ht_page_pool_free(&p->pages);
	ht_rt_turns_free(p->rt.turns);
	ht_arena_release(&p->arena);
	free(p);
}

enum ht_status ht_program_files_check(const struct ht_program *p, struct ht_diags *d)
{
	uint32_t n = ht_mapped_lost() ? ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS) : 0;

	for (uint32_t i = 0; i < n; i++)
		HT_TRY(ht_mapped_check((const void *)(uintptr_t)p->rt.constant[i], d));
	return HT_OK;
}

size_t ht_program_steps(const struct ht_image *x)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_STEPS); i++)
		n += ht_image_steps(x)[i].op == HT_IMAGE_KERNEL;
	return n;
}

size_t ht_program_arena(const struct ht_image *x)
{
	const struct ht_exec_limits limits = HT_EXEC_LIMITS_INIT;
	struct ht_exec_needs needs;

	return ht_exec_needs_of(x, 0, &limits, &needs) ? needs.temps : SIZE_MAX;
}

size_t ht_program_scratch(const struct ht_image *x)
{
	size_t most = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		if (ht_image_kernels(x)[i].scratch_bytes > most)
			most = ht_image_kernels(x)[i].scratch_bytes;
	return most;
}

size_t ht_program_inputs(const struct ht_program *p)
{
	return p->inputs;
}

size_t ht_program_outputs(const struct ht_program *p)
{
	return p->outputs;
}

/* In the program, an element of a string tensor is a number.  How long the strings are is not
 * known before a run. */
static struct ht_value_info shown(const struct ht_value_info *v)
{
	struct ht_value_info out = *v;

	if (v->dtype == HT_STRING)
		out.bytes = 0;
	return out;
}

int ht_program_input(const struct ht_program *p, size_t i, struct ht_value_info *out)
{
	if (i >= ht_program_inputs(p))
		return 0;
	*out = shown(&p->input[i]);
	return 1;
}

int ht_program_output(const struct ht_program *p, size_t i, struct ht_value_info *out)
{
	if (i >= ht_program_outputs(p))
		return 0;
	*out = shown(&p->output[i]);
	return 1;
}

size_t ht_program_variables(const struct ht_program *p)
{
	return ht_image_count(p->rt.image, HT_IMAGE_VARIABLES);
}

int ht_program_variable(const struct ht_program *p, size_t i, struct ht_value_info *out)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_variable *v = &ht_image_variables(x)[i];

	if (i >= ht_program_variables(p))
		return 0;
	*out = (struct ht_value_info){ .name = ht_image_text(x, v->name),
		.dtype = (enum ht_dtype)v->dtype,
		.rank = (int32_t)v->rank,
		.dim = ht_image_dims(x) + v->dim,
		.bytes = v->bytes,
		.value = v->constant != HT_IMAGE_NO_VALUE
				 ? (const void *)(uintptr_t)p->rt.constant[v->constant]
			 : p->rt.initial ? p->rt.initial[i]
					 : NULL };
	return 1;
}

/* Like ht_port_named(): a tensor's own name is preferred to a second name. */
static int named(const struct ht_value_info *v, const char *const *alias, size_t n,
	const char *name, size_t *i)
{
	size_t len = strlen(name);

	if (len > 2 && !strcmp(name + len - 2, ":0"))
		len -= 2;
	for (*i = 0; *i < n; ++*i)
		if (!strcmp(v[*i].name, name) ||
			(strlen(v[*i].name) == len && !strncmp(v[*i].name, name, len)))
			return 1;
	for (*i = 0; *i < n; ++*i)
		if (*alias[*i] && !strcmp(alias[*i], name))
			return 1;
	return 0;
}

int ht_program_input_named(const struct ht_program *p, const char *name, size_t *i)
{
	return named(p->input, p->input_alias, ht_program_inputs(p), name, i);
}

int ht_program_output_named(const struct ht_program *p, const char *name, size_t *i)
{
	return named(p->output, p->output_alias, ht_program_outputs(p), name, i);
}

void ht_program_about(const struct ht_program *p, struct ht_program_info *out)
{
	ht_caller_result(out, "ht_program_info", &p->info, sizeof p->info, NULL);
}
