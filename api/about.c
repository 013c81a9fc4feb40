/* What there is to know of a program, and its end. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void ht_program_free(struct ht_program *p)
{
	if (!p)
		return;
	if (p->code)
		p->backend->free(p->code);
	if (p->code_map)
		munmap(p->code_map, p->code_mapped);
	ht_artefact_close(&p->artefact);
	ht_arena_release(&p->arena);
	free(p);
}

size_t ht_program_inputs(const struct ht_program *p)
{
	return (size_t)p->rt.inputs;
}

size_t ht_program_outputs(const struct ht_program *p)
{
	return (size_t)p->rt.outputs;
}

int ht_program_input(const struct ht_program *p, size_t i, struct ht_value_info *out)
{
	if (i >= ht_program_inputs(p))
		return 0;
	*out = p->input[i];
	return 1;
}

int ht_program_output(const struct ht_program *p, size_t i, struct ht_value_info *out)
{
	if (i >= ht_program_outputs(p))
		return 0;
	*out = p->output[i];
	return 1;
}

void ht_program_about(const struct ht_program *p, struct ht_program_info *out)
{
	size_t size = out->struct_size;

	if (size > sizeof *out)
		size = sizeof *out;
	memcpy((char *)out + sizeof size, (const char *)&p->info + sizeof size, size - sizeof size);
}
