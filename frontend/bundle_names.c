/* Names of variables in a checkpoint.  The model's saver tells the key of each variable that it restores.  TensorFlow 2 names tensors by
 * their place in the object graph, which is itself a tensor of the checkpoint and maps these places to variables. */
#include "frontend/checkpoint.h"

#define OBJECT_GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH"

static const struct ht_str ambiguous;

static enum ht_status read_attribute(struct ht_checkpoint *c, struct ht_pb_reader r)
{
	struct ht_str name = HT_STR(""), key = HT_STR(""), *copy;
	struct ht_map_entry *slot;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 2)
			name = v.s;
		else if (v.number == 3)
			key = v.s;
	}
	if (r.status != HT_OK || !name.n || !key.n)
		return r.status;
	copy = HT_NEW(c->a, struct ht_str);
	*copy = ht_str_copy(c->a, key);
	c->key_of[c->keys - 1] = copy;
	slot = ht_map_at(&c->names, ht_str_copy(c->a, name));
	slot->value = slot->value ? (void *)(uintptr_t)&ambiguous : copy;
	return HT_OK;
}

static enum ht_status read_names(struct ht_checkpoint *c, struct ht_diags *d)
{
	const struct ht_bundle_entry *e = ht_map_get(&c->entries, HT_STR(OBJECT_GRAPH));
	struct ht_pb_source src = {
		.path = c->index->path, .diags = d, .translated = true, .depth = 32
	};
	struct ht_pb_reader r, node;
	struct ht_pb_value v, w;
	struct ht_tensor *t;

	c->have_names = true;
	if (!e)
		return HT_OK;
	HT_TRY(ht_bundle_tensor(c, e, c->a, d, &t));
	if (t->dtype != HT_STRING || t->values != 1)
		return ht_error(d, HT_E_INPUT, ht_bundle_place(c, -1),
			"checkpoint: its object graph is no string");
	src.p = (const uint8_t *)t->strings[0].p;
	src.n = t->strings[0].n;
	r = ht_pb_open(&src, HT_PB_TrackableObjectGraph);
	while (ht_pb_next(&r, &v)) {
		if (v.number != 1)
			continue;
		c->key_of =
			ht_grow(c->a, c->key_of, c->keys, &c->keys_cap, sizeof(struct ht_str *));
		c->key_of[c->keys++] = NULL;
		node = ht_pb_enter(&r, &v);
		while (ht_pb_next(&node, &w))
			if (w.number == 2)
				HT_TRY(read_attribute(c, ht_pb_enter(&node, &w)));
		if (node.status != HT_OK)
			return node.status;
	}
	return r.status;
}

void ht_checkpoint_follow(struct ht_checkpoint *c, struct ht_graph *g)
{
	c->model = g->path ? ht_str_copy(c->a, ht_str(g->path)).p : NULL;
	ht_restore_keys(g, c->a, &c->restored);
	ht_captured_objects(g, c->a, &c->objects);
}

/* The key of the object that the model says that the variable is; NULL: it says none. */
static const struct ht_str *key_of_object(const struct ht_checkpoint *c, struct ht_str name)
{
	const uint64_t *id = ht_map_get(&c->objects, name);

	return id && *id < c->keys ? c->key_of[*id] : NULL;
}

enum ht_status ht_bundle_find(struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d,
	struct ht_bundle_found *out)
{
	const struct ht_restored *restored = ht_map_get(&c->restored, name);
	const struct ht_str *key;

	*out = (struct ht_bundle_found){ .key = restored ? restored->key : name };
	if (restored && restored->malformed.n)
		return ht_error(d, HT_E_INPUT,
			(struct ht_where){ .path = c->model, .offset = -1, .node = restored->node },
			"the shape_and_slice of variable '%.*s' is malformed: '%.*s'",
			HT_STR_ARG(name), HT_STR_ARG(restored->malformed));
	out->entry = ht_map_get(&c->entries, out->key);
	if (out->entry || restored)
		return HT_OK;
	if (!c->have_names)
		HT_TRY(read_names(c, d));
	key = key_of_object(c, name);
	key = key ? key : ht_map_get(&c->names, name);
	out->several = key == &ambiguous;
	out->entry = key && !out->several ? ht_map_get(&c->entries, *key) : NULL;
	return HT_OK;
}

enum ht_status ht_checkpoint_key_of(
	struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d, struct ht_str *key)
{
	struct ht_bundle_found found;

	HT_TRY(ht_bundle_find(c, name, d, &found));
	*key = found.several ? HT_STR("") : found.entry ? found.entry->key : found.key;
	return HT_OK;
}
