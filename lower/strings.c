/* Strings of a program: inputs and outputs of the entry whose elements are numbers of strings,
 * and the object that holds the strings. */
#include "base/object.h"
#include "lower/inside.h"

#include <string.h>

static struct ht_tensor *bytes_tensor(
	struct lower *l, enum ht_dtype t, int64_t count, struct ht_blob *blob)
{
	return ht_tensor_sharing(l->arena, t, ht_shape_make(l->arena, 1, &count), blob);
}

void plan_text_parts(
	struct lower *l, const struct ht_str *text, size_t n, const struct ht_tensor **part)
{
	struct ht_blob *offsets = ht_blob_in(l->arena, (n + 1) * sizeof(uint64_t)), *bytes;
	uint64_t *offset = (uint64_t *)(uintptr_t)offsets->p;
	char *p;

	for (size_t i = 0; i < n; i++)
		offset[i + 1] = offset[i] + text[i].n;
	bytes = ht_blob_in(l->arena, (size_t)offset[n]);
	p = (char *)(uintptr_t)bytes->p;
	for (size_t i = 0; i < n; i++)
		if (text[i].n)
			memcpy(p + offset[i], text[i].p, text[i].n);
	part[0] = bytes_tensor(l, HT_I64, (int64_t)n + 1, offsets);
	part[1] = bytes_tensor(l, HT_U8, (int64_t)bytes->n, bytes);
}

int32_t plan_strings_object(struct lower *l)
{
	const struct ht_map *strings = l->g->library->strings;
	struct ht_str *text = HT_NEW_ARRAY(l->arena, struct ht_str, strings->count);
	const struct ht_tensor *part[2];

	for (size_t i = 0; i < strings->count; i++)
		text[i] = strings->entries[i].key;
	plan_text_parts(l, text, strings->count, part);
	return plan_object(l, &(struct object_text){ .name = ht_str(HT_STRINGS_KIND),
				      .kind = HT_STRINGS_KIND,
				      .owner = HT_IMAGE_OF_CONTEXT,
				      .part = part,
				      .parts = 2 });
}

static bool any_strings(const struct ht_entry *e)
{
	for (const struct ht_port *p = e->inputs; p; p = p->next)
		if (p->strings)
			return true;
	for (const struct ht_port *p = e->outputs; p; p = p->next)
		if (p->strings)
			return true;
	return false;
}

void plan_strings(struct lower *l)
{
	if (any_strings(l->asked->entry))
		plan_strings_object(l);
}
