/* The executor, for the library and its runtime. */
#include "image/executor.h"

uint64_t ht_exec_temps_of(const struct ht_image *x, uint32_t entry, const struct ht_exec_needs *n,
	const int64_t *size, uint64_t *work)
{
	const struct ht_image_procedure *p =
		&ht_image_procedures(x)[ht_image_entries(x)[entry].procedure];
	const struct ht_exec run = { .image = x, .size = (int64_t *)(uintptr_t)size };
	uint64_t bytes;

	if (!ht_image_is_placed(x, p))
		return n->temps;
	bytes = ht_exec_place_buffers(&run, work) + (n->temps - p->frame_bytes);
	return bytes < n->temps ? (bytes + 63) & ~(uint64_t)63 : n->temps;
}

void ht_exec_begin(struct ht_exec *x)
{
	ht_exec_forget(x);
}

bool ht_exec_run(struct ht_exec *x, const void *const *in, void *const *out)
{
	return ht_exec_once(x, in, out);
}
