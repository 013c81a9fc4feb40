/* Library kernels that inspect data and have no result. */
#include "kernel/library.h"

int32_t ht_library_assert(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)params;
	(void)scratch;
	if (tile_begin < tile_end && !*(const uint8_t *)buffers[0])
		return HT_FAULT_ASSERTION;
	return HT_FAULT_NONE;
}

int32_t ht_library_tee(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)buffers;
	(void)params;
	(void)tile_begin;
	(void)tile_end;
	(void)scratch;
	return HT_FAULT_NONE;
}
