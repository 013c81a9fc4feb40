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

/* Adds the object with the graph's constant strings: where each begins, and their bytes. */
static void add_strings(struct lower *l)
{
	const struct ht_map *strings = l->g->strings;
	struct ht_blob *offsets = ht_blob_in(l->arena, (strings->count + 1) * sizeof(uint64_t)),
		       *bytes;
	uint64_t *offset = (uint64_t *)(uintptr_t)offsets->p;
	const struct ht_tensor *part[2];
	char *p;

	for (size_t i = 0; i < strings->count; i++)
		offset[i + 1] = offset[i] + strings->entries[i].key.n;
	bytes = ht_blob_in(l->arena, (size_t)offset[strings->count]);
	p = (char *)(uintptr_t)bytes->p;
	for (size_t i = 0; i < strings->count; i++)
		if (strings->entries[i].key.n)
			memcpy(p + offset[i], strings->entries[i].key.p, strings->entries[i].key.n);
	part[0] = bytes_tensor(l, HT_I64, (int64_t)strings->count + 1, offsets);
	part[1] = bytes_tensor(l, HT_U8, (int64_t)bytes->n, bytes);
	plan_object(l, &(struct object_text){ .name = ht_str(HT_STRINGS_KIND),
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
		add_strings(l);
}
