/* Streams of random numbers: the states in which a context's next run begins. */
#include "runtime/context.h"

static bool has_seed(const struct ht_image_stream *s)
{
	return s->seed || s->seed2;
}

size_t ht_rt_unseeded(const struct ht_rt_program *p)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(p->image, HT_IMAGE_RANDOM); i++)
		n += !has_seed(&ht_image_random(p->image)[i]);
	return n;
}

struct ht_philox *ht_rt_streams(struct ht_rt_context *c)
{
	return c->stream;
}

void ht_rt_context_seed(struct ht_rt_context *c, uint64_t seed)
{
	const struct ht_rt_program *p = c->program;

	for (uint32_t i = 0; i < ht_image_count(p->image, HT_IMAGE_RANDOM); i++) {
		const struct ht_image_stream *s = &ht_image_random(p->image)[i];

		c->stream[i] = has_seed(s) ? ht_philox_init(s->seed, s->seed2)
					   : ht_philox_named(seed, s->name);
	}
}
