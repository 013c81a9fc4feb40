/* Objects: their owner makes and releases each of them once. */
#include "runtime/objects.h"

#include "base/object.h"
#include "runtime/context.h"

#include <stdlib.h>

static uint32_t count_of(const struct ht_rt_context *c)
{
	return ht_image_count(c->exec.image, HT_IMAGE_OBJECTS);
}

static bool is_of(const struct ht_rt_context *c, uint32_t i, enum ht_image_owner owner)
{
	return ht_image_objects(c->exec.image)[i].owner == owner;
}

/* Verifies a constant of an artefact before it is read. */
static bool is_whole(const struct ht_rt_program *p, uint32_t constant)
{
	return !p->is_whole || p->is_whole(p->is_whole_arg, constant, 0, 1);
}

static struct ht_object_parts parts_of(
	const struct ht_rt_program *p, uint32_t i, uint64_t most_bytes)
{
	const struct ht_image_object *o = &ht_image_objects(p->image)[i];
	struct ht_object_parts from = { .param = ht_image_params(p->image) + o->param,
		.params = o->params,
		.constants = o->constants,
		.most_bytes = most_bytes };

	for (uint32_t k = 0; k < o->constants; k++) {
		uint32_t constant = ht_image_args(p->image)[o->constant + k];

		from.constant[k].p = (const void *)(uintptr_t)p->constant[constant];
		from.constant[k].bytes = ht_image_constants(p->image)[constant];
	}
	return from;
}

int32_t ht_rt_object_make(
	const struct ht_rt_program *p, uint32_t i, uint64_t most_bytes, void **out)
{
	const struct ht_image_object *o = &ht_image_objects(p->image)[i];
	struct ht_object_parts from = parts_of(p, i, most_bytes);

	*out = NULL;
	for (uint32_t k = 0; k < o->constants; k++)
		if (!is_whole(p, ht_image_args(p->image)[o->constant + k]))
			return HT_EXEC_DAMAGED;
	return p->object[i]->make(&from, out);
}

/* Releases the existing objects of `owner`. */
static void release(struct ht_rt_context *c, enum ht_image_owner owner)
{
	for (uint32_t i = 0; c->object && i < count_of(c); i++) {
		if (!is_of(c, i, owner) || !c->object[i])
			continue;
		c->program->object[i]->release(c->object[i]);
		c->object[i] = NULL;
	}
}

/* Makes all objects of `owner`, or none. */
static bool make(struct ht_rt_context *c, enum ht_image_owner owner, struct ht_rt_fault *fault)
{
	for (uint32_t i = 0; i < count_of(c); i++) {
		int32_t code = is_of(c, i, owner) ? ht_rt_object_make(c->program, i,
							    c->object_bytes, &c->object[i])
						  : 0;

		if (!code)
			continue;
		release(c, owner);
		*fault = (struct ht_rt_fault){
			.code = code, .step = HT_RT_NO_STEP, .object = i + 1
		};
		return false;
	}
	return true;
}

bool ht_rt_context_objects(struct ht_rt_context *c, void *const *shared, uint64_t most_bytes,
	struct ht_rt_fault *fault)
{
	*fault = (struct ht_rt_fault){ .step = HT_RT_NO_STEP };
	if (!count_of(c))
		return true;
	c->object = ht_sys_alloc(count_of(c) * sizeof *c->object);
	c->exec.links.object = c->object;
	if (!c->object)
		return false;
	c->shares_objects = shared;
	c->object_bytes = most_bytes;
	if (!make(c, HT_IMAGE_OF_CONTEXT, fault))
		return false;
	for (uint32_t i = 0; i < count_of(c); i++) {
		if (is_of(c, i, HT_IMAGE_OF_CONTEXT))
			c->strings = c->object[i];
		c->makes_objects |= is_of(c, i, HT_IMAGE_OF_RUN);
		if (shared && is_of(c, i, HT_IMAGE_OF_SESSION))
			c->object[i] = shared[i];
	}
	return shared || make(c, HT_IMAGE_OF_SESSION, fault);
}

struct ht_strings *ht_rt_strings(const struct ht_rt_context *c)
{
	return c->strings;
}

void ht_objects_reset(struct ht_rt_context *c)
{
	for (uint32_t i = 0; c->object && !c->shares_objects && i < count_of(c); i++) {
		struct ht_object_parts from = parts_of(c->program, i, c->object_bytes);

		if (is_of(c, i, HT_IMAGE_OF_SESSION) && c->program->object[i]->reset)
			c->program->object[i]->reset(c->object[i], &from);
	}
}

bool ht_objects_begin(struct ht_rt_context *c, struct ht_rt_fault *fault)
{
	HT_CHECK(c->object);
	if (!c->makes_objects)
		return true;
	ht_exec_begin(&c->exec); /* binds arguments anew: objects have other addresses than in
				  * the last run */
	return make(c, HT_IMAGE_OF_RUN, fault);
}

void ht_objects_end(struct ht_rt_context *c)
{
	if (c->makes_objects)
		release(c, HT_IMAGE_OF_RUN);
}

void ht_objects_free(struct ht_rt_context *c)
{
	release(c, HT_IMAGE_OF_CONTEXT);
	if (!c->shares_objects)
		release(c, HT_IMAGE_OF_SESSION);
	free(c->object);
}
