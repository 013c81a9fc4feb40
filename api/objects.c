/* Objects of programs: the functions of their kinds, their limit, and the errors of objects that cannot be
 * made. */
#include "api/api.h"

const struct ht_object_kind *const *ht_program_objects(struct ht_arena *a, const struct ht_image *x)
{
	uint32_t n = ht_image_count(x, HT_IMAGE_OBJECTS);
	const struct ht_object_kind **kind = HT_NEW_ARRAY(a, const struct ht_object_kind *, n);

	for (uint32_t i = 0; i < n; i++)
		kind[i] = ht_library_object(ht_image_text(x, ht_image_objects(x)[i].kind));
	return kind;
}

uint64_t ht_table_bytes(const struct ht_context_options *opt)
{
	return opt->table_bytes ? opt->table_bytes : UINT64_C(1) << 30;
}

enum ht_status ht_object_tell(
	const struct ht_program *p, const struct ht_rt_fault *fault, struct ht_diags *d)
{
	if (!fault->code)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	if (fault->code == HT_EXEC_DAMAGED)
		return ht_artefact_refuse(&p->artefact, d, "its weights are damaged");
	return ht_fault_tell(p, fault, 0, false, d);
}
