/* The sizes that a host states for each run. */
#include "runtime/context.h"

#include <string.h>

void ht_rt_context_sizes(struct ht_rt_context *c, int64_t *size)
{
	c->exec.size = size;
}

/* A page that a run touches is in memory as a whole, and at smaller sizes a run touches a part of each buffer.  So pages become large with
 * the first run that uses nearly all memory. */
static void take(struct ht_rt_context *c)
{
	const struct ht_exec *x = &c->exec;

	c->used = c->memory_bytes - x->needs.temps +
		  ht_exec_temps_of(x->image, x->entry, &x->needs, x->size, c->work);
	if (!c->enlarged && c->used >= c->memory_bytes / 8 * 7)
		ht_context_enlarge_pages(c);
}

size_t ht_rt_context_stated(struct ht_rt_context *c)
{
	size_t bytes = ht_image_count(c->exec.image, HT_IMAGE_SIZES) * sizeof *c->stated;

	if (!c->used || memcmp(c->stated, c->exec.size, bytes) != 0) {
		ht_exec_begin(&c->exec);
		take(c);
	}
	memcpy(c->stated, c->exec.size, bytes);
	return c->used;
}
