/* Streams of random numbers: where a context's ops draw from in its next run. */
#include "runtime/context.h"

static bool has_seed(const struct ht_rt_stream *s)
{
	return s->seed || s->seed2;
}

size_t ht_rt_unseeded(const struct ht_rt_program *p)
{
	size_t n = 0;

	for (int32_t i = 0; i < p->streams; i++)
		n += !has_seed(&p->stream[i]);
	return n;
}

void ht_rt_context_seed(struct ht_rt_context *c, uint64_t seed)
{
	const struct ht_rt_program *p = c->program;

	for (int32_t i = 0; i < p->streams; i++) {
		const struct ht_rt_stream *s = &p->stream[i];

		c->stream[i] = has_seed(s) ? ht_philox_init(s->seed, s->seed2)
					   : ht_philox_named(seed, s->name);
	}
}

void ht_streams_move(struct ht_rt_context *c)
{
	for (int32_t i = 0; i < c->program->streams; i++)
		ht_philox_skip(&c->stream[i], c->program->stream[i].blocks);
}
