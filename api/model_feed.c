/* Tensors that the caller feeds instead of having them computed, and inputs by any of their
 * names. */
#include "api/api.h"

#include "frontend/frontend.h"

#include <string.h>

struct feed {
	struct ht_model *m;
	const char *const *name;
	size_t n;
	struct ht_work *w;
	struct ht_diags *d;
};

/* ---- types and shapes of the tensors in the graph ---- */

/* Open dimensions become -1, whatever the graph knows about them. */
static struct ht_shape plain_shape(struct ht_arena *a, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	if (s.rank < 1)
		return s;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = s.dim[i] < 0 ? HT_DIM_UNKNOWN : s.dim[i];
	return ht_shape_make(a, s.rank, dim);
}

static void state_type(struct ht_model *m, struct ht_value v, struct ht_type t)
{
	struct ht_type *known = ht_type_of(v);

	if (t.dtype >= HT_REF)
		t.dtype -= HT_REF;
	if (t.dtype)
		known->dtype = t.dtype;
	if (t.shape.rank >= 0)
		known->shape = plain_shape(&m->arena, t.shape);
}

/* Infers the shapes of the tensors on a copy of the model in which they are the outputs.  Errors
 * in the nodes that compute them are ignored, since these nodes will not be computed. */
static void infer(struct feed *f, const struct ht_entry *unfed, struct ht_port *const *fed)
{
	struct ht_pass_context c = { .scratch = &f->w->scratch, .keep_variables = true };
	struct ht_model probe = *f->m;
	struct ht_entry entry = *unfed;
	struct ht_diags quiet;
	enum ht_status st;
	struct ht_graph *g;
	size_t i = 0;

	entry.outputs = HT_NEW_ARRAY(&f->w->arena, struct ht_port, f->n);
	entry.targets = NULL;
	for (; i < f->n; i++) {
		entry.outputs[i] = *fed[i];
		entry.outputs[i].next = i + 1 < f->n ? &entry.outputs[i + 1] : NULL;
	}
	probe.entry = &entry;
	ht_diags_init(&quiet);
	c.diags = &quiet;
	st = ht_model_copy(&probe, f->w, HT_OPEN_KEEP, &quiet, &g);
	f->m->arena = probe.arena; /* shapes were made in it */
	if (st == HT_OK) {
		c.entry = g->entries;
		if (ht_run_passes(g, "prune,inline,prune,infer", NULL, &c) == HT_OK) {
			i = 0;
			for (struct ht_port *p = g->entries->outputs; p; p = p->next, i++)
				if (p->value.index < p->value.node->outs)
					state_type(f->m, fed[i]->value, *ht_type_of(p->value));
		}
	}
	ht_diags_release(&quiet);
}

static enum ht_status check_types(struct feed *f, struct ht_port *const *fed)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct ht_node *n = fed[i]->value.node;
		struct ht_where at = {
			.path = f->m->graph->path, .offset = -1, .node = n->name, .op = n->type
		};

		state_type(f->m, fed[i]->value, ht_stated_type(fed[i]->value));
		if (!ht_type_of(fed[i]->value)->dtype)
			return ht_error(f->d, HT_E_UNSUPPORTED, at,
				"this is to be fed, but its type is not known");
	}
	return HT_OK;
}

/* ---- names ---- */

static enum ht_status feed(void *arg)
{
	struct feed *f = arg;
	struct ht_model *m = f->m;
	struct ht_str *names = HT_NEW_ARRAY(&m->arena, struct ht_str, f->n);
	struct ht_port **fed = HT_NEW_ARRAY(&m->arena, struct ht_port *, f->n);
	struct ht_entry *unfed = m->unfed ? m->unfed : m->entry, *e;
	struct ht_port *p;
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		names[i] = ht_str_copy(&m->arena, ht_str(f->name[i]));
	HT_TRY(ht_entry_for_inputs(m->graph, unfed, names, f->n, f->d, &e));
	for (size_t i = 0, all = f->n; i < all; i++)
		if ((p = ht_port_named(e->inputs, names[i])))
			fed[n++] = p;
	f->n = n;
	HT_TRY(check_types(f, fed));
	if (n)
		infer(f, unfed, fed);
	m->unfed = unfed;
	m->entry = e;
	m->set = m->inputs_set = true;
	ht_model_describe(m);
	return HT_OK;
}

enum ht_status ht_model_set_inputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d)
{
	struct ht_work w;
	struct feed f = { m, name, n, &w, d };
	enum ht_status st;

	if (!n)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "no inputs named");
	ht_work_init(&w);
	w.arena.unwind = w.scratch.unwind = &m->unwind;
	st = ht_guarded(&m->unwind, feed, &f, d);
	ht_work_release(&w);
	return st;
}

/* ---- defaults ---- */

/* Whether the caller has said something about an input. */
static bool is_named(const struct feed *f, const struct ht_port *p)
{
	for (const struct ht_shape_set *s = f->m->shapes; s; s = s->next)
		if (ht_str_eq(s->input, p->name))
			return true;
	for (size_t i = 0; i < f->n; i++)
		if (ht_port_named(f->m->entry->inputs, ht_str(f->name[i])) == p)
			return true;
	return ht_model_is_steady(f->m, p->name);
}

/* The pass `identity` replaces a node that is no input by its default. */
static enum ht_status compute_defaults(void *arg)
{
	struct feed *f = arg;
	struct ht_entry *e = HT_NEW(&f->m->arena, struct ht_entry);
	struct ht_port **end = &e->inputs;

	*e = *f->m->entry;
	e->inputs = NULL;
	for (const struct ht_port *p = f->m->entry->inputs; p; p = p->next) {
		const struct ht_node *n = p->value.node;

		if (ht_is(n, HT_HAS_DEFAULT) && n->ins == 1 && !ht_model_default(n) &&
			!is_named(f, p)) {
			f->m->set = f->m->inputs_set = true;
			continue;
		}
		*end = HT_NEW(&f->m->arena, struct ht_port);
		**end = *p;
		(*end)->next = NULL;
		end = &(*end)->next;
	}
	if (!f->m->unfed)
		f->m->unfed = f->m->entry;
	f->m->entry = e;
	ht_model_describe(f->m);
	return HT_OK;
}

enum ht_status ht_model_compute_defaults(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d)
{
	struct feed f = { .m = m, .name = name, .n = n, .d = d };

	return ht_guarded(&m->unwind, compute_defaults, &f, d);
}

int ht_model_input_named(const struct ht_model *m, const char *name, size_t *i)
{
	const struct ht_port *found = ht_port_named(m->entry->inputs, ht_str(name));
	size_t at = 0;

	for (const struct ht_port *p = m->entry->inputs; p && p != found; p = p->next)
		at++;
	if (!found)
		return 0;
	*i = at;
	return 1;
}
