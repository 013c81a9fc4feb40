/* The sizes that a host states for each run. */
#include "runtime/context.h"

#include <string.h>

void ht_rt_context_sizes(struct ht_rt_context *c, int64_t *size)
{
	c->exec.size = size;
}

void ht_rt_context_stated(struct ht_rt_context *c)
{
	size_t bytes = ht_image_count(c->exec.image, HT_IMAGE_SIZES) * sizeof *c->stated;

	if (memcmp(c->stated, c->exec.size, bytes) != 0)
		ht_exec_begin(&c->exec);
	memcpy(c->stated, c->exec.size, bytes);
}
