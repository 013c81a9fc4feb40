/* Attributes that the vendor's scripts set on nodes: reports those without effect. */
#include "api/api.h"

static const struct attribute {
	const char *name, *why;
} attributes[] = {
#define ATTRIBUTE(name, why) { name, why },
#include "api/vendor_attributes.def"
#undef ATTRIBUTE
};

enum { SHOWN = 3 };

struct found {
	size_t nodes;
	struct ht_str node[SHOWN]; /* as reported; in the body of a function: "FUNCTION/NODE" */
};

static const struct attribute *attribute_named(struct ht_str name)
{
	for (size_t i = 0; i < HT_COUNT(attributes); i++)
		if (ht_str_is(name, attributes[i].name))
			return &attributes[i];
	return NULL;
}

/* False and an empty text request nothing. */
static bool asks(const struct ht_attr_value *v)
{
	return v->kind == HT_ATTR_BOOL ? v->b : v->kind != HT_ATTR_STRING || v->s.n;
}

static void look(const struct ht_graph *g, struct found *found, struct ht_arena *a)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_attr *i = n->attrs; i; i = i->next) {
			const struct attribute *named =
				ht_str_starts(i->name, "_") ? attribute_named(i->name) : NULL;
			struct found *f;

			if (!named || !asks(&i->value))
				continue;
			f = &found[named - attributes];
			if (f->nodes < SHOWN)
				f->node[f->nodes] = ht_reported_name(a, g, n->name);
			f->nodes++;
		}
}

static void tell(const struct attribute *attribute, const struct found *f, const char *path,
	struct ht_arena *a, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;
	struct ht_buf b;

	at.path = path;
	ht_buf_init(&b, a);
	for (size_t i = 0; i < f->nodes && i < SHOWN; i++)
		ht_printf(&b, "%s'%.*s'", i ? ", " : "", HT_STR_ARG(f->node[i]));
	ht_note(d, at, "attribute %s of %zu node%s (%s%s) has no effect: %s", attribute->name,
		f->nodes, f->nodes == 1 ? "" : "s", ht_buf_str(&b).p,
		f->nodes > SHOWN ? " and others" : "", attribute->why);
}

void ht_vendor_attributes_note(const struct ht_graph *g, struct ht_arena *a, struct ht_diags *d)
{
	struct found found[HT_COUNT(attributes)] = { 0 };

	look(g, found, a);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		look(f->body, found, a);
	for (size_t i = 0; i < HT_COUNT(attributes); i++)
		if (found[i].nodes)
			tell(&attributes[i], &found[i], g->path, a, d);
}
