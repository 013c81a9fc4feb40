/* Derived buffers of a context: their memory, and the versions of their sources. */
#include "runtime/context.h"

#include <stdlib.h>
#include <string.h>

static uint32_t variables_of(const struct ht_rt_context *c)
{
	return ht_image_count(c->exec.image, HT_IMAGE_VARIABLES);
}

/* ---- variables that an image writes to ---- */

static bool writes(const struct ht_image *x, const struct ht_image_step *s, uint32_t arg)
{
	switch (s->op) {
	case HT_IMAGE_KERNEL:
		return ht_image_touches(x)[ht_image_kernels(x)[s->to].touch + arg].written;
	case HT_IMAGE_COPY:
		return arg == 0;
	case HT_IMAGE_CALL:
	case HT_IMAGE_FORK:
	case HT_IMAGE_SPREAD:
		return ht_image_buffers(x)[ht_image_procedures(x)[s->to].buffer + arg].written;
	default:
		return false;
	}
}

static void note_written(struct ht_rt_context *c, const struct ht_image_procedure *p)
{
	const struct ht_image *x = c->exec.image;
	const struct ht_image_buffer *buffer = ht_image_buffers(x) + p->buffer;

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct ht_image_step *s = &ht_image_steps(x)[p->step + i];
		const uint32_t *arg = ht_image_args(x) + p->arg + s->arg;

		for (uint32_t k = 0; k < s->args; k++)
			if (buffer[arg[k]].kind == HT_IMAGE_VARIABLE && writes(x, s, k))
				c->written[buffer[arg[k]].number] = true;
	}
}

/* ---- memory ---- */

bool ht_context_derived_new(struct ht_rt_context *c)
{
	const struct ht_image *x = c->exec.image;
	uint32_t n = variables_of(c);

	c->own_version = calloc((size_t)n + 1, sizeof *c->own_version);
	c->version = calloc((size_t)n + 1, sizeof *c->version);
	c->written = calloc((size_t)n + 1, sizeof *c->written);
	c->now = calloc((size_t)ht_image_versions(x) + 1, sizeof *c->now);
	c->unchanged = calloc((size_t)ht_image_versions(x) + 1, sizeof *c->unchanged);
	c->made = calloc((size_t)ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS) + 1, sizeof *c->made);
	c->derived = ht_rt_memory((size_t)ht_image_derived_bytes(x));
	if (!c->own_version || !c->version || !c->written || !c->now || !c->unchanged || !c->made ||
		!c->derived)
		return false;
	for (uint32_t i = 0; i < n; i++)
		c->version[i] = &c->own_version[i];
	for (uint32_t i = 0; n && i < ht_image_count(x, HT_IMAGE_PROCEDURES); i++)
		note_written(c, &ht_image_procedures(x)[i]);
	c->derives = ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS) > 0;
	c->exec.links.derived = c->derived;
	c->exec.links.version = c->now;
	c->exec.links.made = c->made;
	return true;
}

void ht_context_derived_free(struct ht_rt_context *c)
{
	free(c->own_version);
	free(c->version);
	free(c->written);
	free(c->now);
	free(c->unchanged);
	free(c->made);
	free(c->derived);
}

/* ---- versions ---- */

void ht_rt_context_versions(struct ht_rt_context *c, struct ht_rt_version *const *version)
{
	if (variables_of(c))
		memcpy(c->version, version, variables_of(c) * sizeof *version);
}

void ht_rt_context_expose(struct ht_rt_context *c, uint32_t variable)
{
	c->version[variable]->exposed = true;
}

void ht_rt_context_unchanged(struct ht_rt_context *c, enum ht_image_kind kind, uint32_t number)
{
	const struct ht_image_source s = { (uint32_t)kind, number };

	c->unchanged[ht_image_version_of(c->exec.image, &s)] = true;
}

void ht_context_versions_begin(struct ht_rt_context *c)
{
	uint32_t n = variables_of(c);

	for (uint32_t i = 0; i < ht_image_versions(c->exec.image); i++) {
		if (i >= n)
			c->now[i] += !c->unchanged[i];
		else if (c->version[i]->exposed && !c->unchanged[i])
			c->version[i]->count++;
		if (i < n)
			c->now[i] = c->version[i]->count;
		c->unchanged[i] = false;
	}
}

void ht_context_versions_end(struct ht_rt_context *c)
{
	for (uint32_t i = 0; i < variables_of(c); i++)
		c->version[i]->count += c->written[i];
}
