/* Loads one variant of an artefact: reads its plan, copies its kernels, and maps the files of
 * its weights. */
#include "runtime/coder.h"
#include "runtime/format.h"

#include <stdio.h>
#include <sys/mman.h>

/* Bytes behind the last kernel, so that instruction prefetch stays in the mapping. */
enum { CODE_ALIGN = 64, CODE_PADDING = 4096 };

static enum ht_status read_plan(struct ht_artefact *a, const struct ht_index_variant *v,
	struct ht_arena *arena, struct ht_diags *d, struct ht_program_plan *plan)
{
	/* The plan is copied before it is verified, so a later change of the file has no effect. */
	struct ht_str copy = ht_str_copy(
		arena, (struct ht_str){ a->plans.p + v->plan_offset, (size_t)v->plan_bytes });
	uint8_t digest[HT_DIGEST];
	const char *wrong;
	char text[128];

	ht_sha256(copy.p, copy.n, digest);
	if (memcmp(digest, v->digest, HT_DIGEST) != 0)
		return ht_artefact_refuse(a, d, "its plan is damaged");
	wrong = ht_plan_read(copy, arena, plan);
	if (!wrong)
		return HT_OK;
	snprintf(text, sizeof text, "of its plan, %s", wrong);
	return ht_artefact_refuse(a, d, text);
}

/* Compares the facts that are both in the plan and in the index. */
static const char *compare(const struct ht_artefact *a, const struct ht_index_variant *v,
	const struct ht_program_plan *p)
{
	const struct ht_image *x = ht_plan_image(p);
	const struct ht_image_entry *e = ht_image_entries(x);
	const struct ht_image_port *in = ht_image_ports(x) + e->port;

	if (strcmp(v->target, p->target) != 0 || strcmp(v->policy, p->policy) != 0 ||
		v->inputs != e->inputs)
		return "its plan is another variant's";
	for (size_t i = 0; i < e->inputs; i++)
		if (strcmp(v->input[i].name, ht_image_text(x, in[i].name)) != 0 ||
			v->input[i].rank != in[i].rank ||
			memcmp(v->input[i].dim, ht_image_dims(x) + in[i].dim,
				in[i].rank * sizeof *v->input[i].dim) != 0)
			return "its plan is another variant's";
	for (size_t i = 0; i < p->weights; i++)
		if (p->weight[i].number >= a->index.weights ||
			p->weight[i].bytes != a->index.weight[p->weight[i].number].bytes)
			return "its plan has other weights";
	for (size_t i = 0; i < p->kernels; i++)
		if (!ht_inside(p->kernel[i].offset, p->kernel[i].bytes, a->code.n))
			return "a kernel is outside of the code";
	return NULL;
}

/* Kernels are copied before they are verified, like the plan. */
static const char *copy_kernels(
	struct ht_artefact *a, const struct ht_program_plan *p, struct ht_arena *arena)
{
	char *to = a->code_copy; /* zeroed between kernels */

	a->kernel = HT_NEW_ARRAY(arena, const void *, p->kernels);
	for (size_t i = 0; i < p->kernels; i++) {
		const struct ht_plan_code *k = &p->kernel[i];
		uint8_t digest[HT_DIGEST];

		if (!k->bytes)
			continue;
		memcpy(to, a->code.p + k->offset, k->bytes);
		ht_sha256(to, k->bytes, digest);
		if (memcmp(digest, k->digest, HT_DIGEST) != 0)
			return "its code is damaged";
		a->kernel[i] = to;
		to += ht_align_to(k->bytes, CODE_ALIGN);
	}
	return NULL;
}

static enum ht_status load_code(struct ht_artefact *a, const struct ht_program_plan *p,
	struct ht_arena *arena, struct ht_diags *d)
{
	size_t all = CODE_PADDING;
	const char *wrong;

	for (size_t i = 0; i < p->kernels; i++)
		all += ht_align_to(p->kernel[i].bytes, CODE_ALIGN);
	a->code_copy = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->code_copy == MAP_FAILED) {
		a->code_copy = NULL;
		return ht_refuse(d, HT_E_ENVIRONMENT, "no memory for %zu bytes of code", all);
	}
	a->code_mapped = all;
	wrong = copy_kernels(a, p, arena);
	if (wrong)
		return ht_artefact_refuse(a, d, wrong);
	if (mprotect(a->code_copy, all, PROT_READ | PROT_EXEC) != 0)
		return ht_refuse(d, HT_E_ENVIRONMENT, "the system does not let memory be executed");
	return HT_OK;
}

enum ht_status ht_artefact_plan(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan)
{
	const struct ht_index_variant *v = &a->index.variant[variant];
	const char *wrong;

	HT_TRY(read_plan(a, v, arena, d, plan));
	wrong = compare(a, v, plan);
	return wrong ? ht_artefact_refuse(a, d, wrong) : HT_OK;
}

static const struct ht_index_value *value_of(const struct ht_index *x, const char *variable)
{
	for (size_t i = 0; i < x->values; i++)
		if (!strcmp(x->value[i].name, variable))
			return &x->value[i];
	return NULL;
}

enum ht_status ht_artefact_value(struct ht_artefact *a, const char *variable, struct ht_diags *d,
	const struct ht_index_value **out)
{
	const struct ht_index_value *v = *out = value_of(&a->index, variable);

	if (!v)
		return HT_OK;
	if (a->index.weight[v->weight].file)
		HT_TRY(ht_artefact_map_beside(a, a->index.weight[v->weight].file - 1, false, d));
	return ht_artefact_check_weight(a, v->weight, 0, 1)
		       ? HT_OK
		       : ht_artefact_refuse(a, d, "the value of a variable is damaged");
}

enum ht_status ht_artefact_load(struct ht_artefact *a, size_t variant, struct ht_arena *arena,
	struct ht_diags *d, struct ht_program_plan *plan)
{
	HT_TRY(ht_artefact_plan(a, variant, arena, d, plan));
	for (size_t i = 0; i < plan->weights; i++) {
		uint64_t file = a->index.weight[plan->weight[i].number].file;

		if (file)
			HT_TRY(ht_artefact_map_beside(a, file - 1, false, d));
	}
	return load_code(a, plan, arena, d);
}
