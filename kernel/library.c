/* library: the tables of library kernels, and of kinds of objects. */
#include "kernel/library.h"

#include <string.h>

static const struct ht_library_row library[] = {
	{ "assert", ht_library_assert, NULL },
	{ "boxes", ht_library_boxes, ht_boxes_scratch },
	{ "candidates", ht_library_candidates, ht_candidates_scratch },
	{ "combined_boxes", ht_library_combined_boxes, ht_combined_boxes_scratch },
	{ "ctc_beams", ht_library_ctc_beams, ht_ctc_beams_scratch },
	{ "edit_distance", ht_library_edit_distance, ht_edit_distance_scratch },
	{ "random_bits", ht_library_random_bits, NULL },
	{ "random_gamma", ht_library_random_gamma, NULL },
	{ "random_key", ht_library_random_key, NULL },
	{ "random_normal", ht_library_random_normal, NULL },
	{ "random_seed", ht_library_random_seed, NULL },
	{ "random_skip", ht_library_random_skip, NULL },
	{ "random_state", ht_library_random_state, NULL },
	{ "random_truncated_normal", ht_library_random_truncated_normal, NULL },
	{ "random_uniform", ht_library_random_uniform, NULL },
	{ "random_uniform_int", ht_library_random_uniform_int, NULL },
	{ "sparse_to_dense", ht_library_sparse_to_dense, NULL },
	{ "table_fill", ht_library_table_fill, NULL },
	{ "table_find", ht_library_table_find, NULL },
	{ "table_size", ht_library_table_size, NULL },
	{ "tee", ht_library_tee, NULL },
	{ "top_k", ht_library_top_k, NULL },
	{ "unique", ht_library_unique, ht_unique_scratch },
	{ "where", ht_library_where, NULL },
};

static const struct ht_library_row *row_of(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(library); i++)
		if (strcmp(name, library[i].name) == 0)
			return &library[i];
	for (size_t i = 0; ht_library_more.object && i < HT_COUNT(ht_library_more.kernel); i++)
		if (strcmp(name, ht_library_more.kernel[i].name) == 0)
			return &ht_library_more.kernel[i];
	return NULL;
}

ht_kernel_fn *ht_library_kernel(const char *name)
{
	const struct ht_library_row *row = row_of(name);

	return row ? row->fn : NULL;
}

size_t ht_library_scratch(const struct ht_kernel *k)
{
	const struct ht_library_row *row = row_of(k->library);

	return row && row->scratch ? row->scratch(k) : 0;
}

static const struct ht_object_kind *const object[] = { &ht_strings_kind, &ht_table_kind };

const struct ht_object_kind *ht_library_object(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(object); i++)
		if (strcmp(name, object[i]->name) == 0)
			return object[i];
	if (ht_library_more.object && strcmp(name, ht_library_more.object->name) == 0)
		return ht_library_more.object;
	return NULL;
}
