/* Objects of a session: entries share the object of each name.  The first entry that has it
 * makes it. */
#include "api/session.h"

#include "base/object.h"

/* A hash of the data that an object is made from. */
static struct ht_hash contents_of(
	const struct ht_rt_program *p, const struct ht_image_object *o, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_str(&b, ht_str(ht_image_text(p->image, o->kind)));
	ht_put(&b, ht_image_params(p->image) + o->param, o->params * sizeof(int64_t));
	for (uint32_t i = 0; i < o->constants; i++) {
		uint32_t constant = ht_image_args(p->image)[o->constant + i];
		struct ht_hash h = ht_hash_bytes((const void *)(uintptr_t)p->constant[constant],
			ht_image_constants(p->image)[constant]);

		ht_put(&b, &h, sizeof h);
	}
	return ht_hash_bytes(b.p, b.n);
}

static enum ht_status make(const struct ht_session *s, const struct ht_program *p, uint32_t i,
	struct ht_session_object *o, struct ht_diags *d)
{
	struct ht_rt_fault fault = { .step = HT_RT_NO_STEP, .object = i + 1 };

	o->kind = p->rt.object[i];
	fault.code = ht_rt_object_make(&p->rt, i, ht_table_bytes(&s->limits), &o->object);
	return fault.code ? ht_object_tell(p, &fault, d) : HT_OK;
}

static enum ht_status object_of(struct ht_session *s, const struct ht_program *p, uint32_t i,
	struct ht_arena *a, struct ht_diags *d, void **out)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_object *from = &ht_image_objects(x)[i];
	struct ht_str name = ht_str_copy(&s->arena, ht_str(ht_image_text(x, from->name)));
	struct ht_hash contents = contents_of(&p->rt, from, a);
	struct ht_map_entry *e = ht_map_at(&s->objects, name);
	struct ht_session_object *o = e->value;

	if (!o) {
		o = e->value = HT_NEW(&s->arena, struct ht_session_object);
		o->contents = contents;
	}
	if (!ht_hash_eq(o->contents, contents))
		return ht_error(d, HT_E_INPUT, (struct ht_where){ .node = name, .offset = -1 },
			"the object has other contents in another entry of the session");
	if (!o->object)
		HT_TRY(make(s, p, i, o, d));
	*out = o->object;
	return HT_OK;
}

enum ht_status ht_session_objects(struct ht_session *s, const struct ht_program *p,
	struct ht_arena *a, struct ht_diags *d, void *const **out)
{
	const struct ht_image *x = p->rt.image;
	uint32_t n = ht_image_count(x, HT_IMAGE_OBJECTS);
	void **object = HT_NEW_ARRAY(a, void *, n + 1);

	for (uint32_t i = 0; i < n; i++)
		if (ht_image_objects(x)[i].owner == HT_IMAGE_OF_SESSION)
			HT_TRY(object_of(s, p, i, a, d, &object[i]));
	*out = object;
	return HT_OK;
}

void ht_session_release_objects(struct ht_session *s)
{
	for (size_t i = 0; i < s->objects.count; i++) {
		struct ht_session_object *o = s->objects.entries[i].value;

		if (o && o->object)
			o->kind->release(o->object);
	}
}
