/* Copies of a model to work on, with the shapes stated for its inputs. */
#include "api/api.h"

#include <string.h>

static struct ht_where at_node(const struct ht_node *n)
{
	return (struct ht_where){
		.path = n->graph->path, .node = n->name, .op = n->type, .offset = -1
	};
}

/* `to` has by its number what an open dimension becomes: a size, a symbol, or HT_DIM_UNKNOWN,
 * which means that it must be stated. */
static enum ht_status close_shape(const struct ht_model *m, const struct ht_port *from,
	struct ht_arena *a, const struct ht_node *n, const int64_t to[HT_MOST_OPEN],
	enum ht_open open, struct ht_diags *d, struct ht_shape *shape)
{
	int64_t dim[HT_MAX_RANK];
	struct ht_where at = at_node(n);

	if (open == HT_OPEN_KEEP || ht_shape_known(*shape))
		return HT_OK;
	if (shape->rank < 0 && open == HT_OPEN_ONE)
		return HT_OK;
	if (shape->rank < 0)
		return ht_error(d, HT_E_UNSUPPORTED, at,
			"the shape of this input is not known; state it with --input-shape");
	memcpy(dim, shape->dim, (size_t)shape->rank * sizeof *dim);
	for (int32_t i = 0; i < shape->rank; i++) {
		int32_t size = ht_model_size_of(m, from->name, i);

		if (dim[i] >= 0)
			continue;
		if (size >= 0)
			dim[i] = to[size];
		if (dim[i] == HT_DIM_UNKNOWN && open != HT_OPEN_ONE)
			return ht_error(d, HT_E_UNSUPPORTED, at,
				"dimension %d of this input is open; state it with --input-shape, a "
				"number or a range such as 1..128",
				(int)i);
	}
	*shape = ht_shape_make(a, shape->rank, dim);
	return HT_OK;
}

/* A default whose shape is not the stated one cannot be used, nor one that is computed where a size is open: the node becomes a plain input. */
static void drop_default(struct ht_node *n)
{
	ht_node_set_type(n, HT_STR("Placeholder"));
	ht_node_set_ins(n, NULL, 0);
}

static bool is_stated(const struct ht_model *m, const struct ht_port *p)
{
	const struct ht_tensor *t = ht_model_default(p->value.node);

	for (const struct ht_shape_set *set = m->shapes; set; set = set->next)
		if (ht_str_eq(set->input, p->name))
			return true;
	return m->batch > 0 && !t;
}

static void set_shape(struct ht_node *n, struct ht_shape s)
{
	ht_attr_set_shape(n, "shape", s);
	if (n->outs)
		n->out[0].shape = s; /* the shape of the signature does not count any more */
}

static enum ht_status state_shape(const struct ht_model *m, struct ht_port *p,
	const struct ht_port *from, const int64_t to[HT_MOST_OPEN], enum ht_open open,
	struct ht_arena *a, struct ht_diags *d)
{
	struct ht_node *n = p->value.node;
	const struct ht_tensor *t = ht_model_default(n);
	struct ht_shape s = ht_model_shape(m, from);

	p->open = open != HT_OPEN_KEEP && to[0] < HT_DIM_UNKNOWN && !n->graph->sizes &&
		  s.rank > 0 && s.dim[0] < 0;
	/* The default may have one of several shapes that the input accepts. */
	if (open == HT_OPEN_KEEP && t && !is_stated(m, from))
		return HT_OK;
	if (!ht_is(n, HT_FED)) {
		/* A tensor fed in the middle of the graph: pass feeds makes a placeholder of
		 * this type. */
		if (p->value.index < n->outs) {
			HT_TRY(close_shape(m, from, a, n, to, open, d, &s));
			ht_type_of(p->value)->shape = s;
		}
		return HT_OK;
	}
	HT_TRY(close_shape(m, from, a, n, to, open, d, &s));
	if (ht_is(n, HT_HAS_DEFAULT) && (t ? !ht_shape_eq(t->shape, s) : !ht_shape_known(s)))
		drop_default(n);
	set_shape(n, s);
	return HT_OK;
}

/* `m->entry` with nodes of the copied graph. */
static struct ht_port *port_in(const struct ht_model *m, struct ht_graph *g,
	const struct ht_port *from, struct ht_arena *a)
{
	struct ht_port *first = NULL, **end = &first;

	for (; from; from = from->next) {
		struct ht_port *p = HT_NEW(a, struct ht_port);
		p->name = from->name;
		p->alias = from->alias;
		p->steady = ht_model_is_steady(m, from->name);
		p->value = from->value;
		p->value.node = ht_graph_node(g, from->value.node->name);
		*end = p;
		end = &p->next;
	}
	return first;
}

int32_t ht_model_size_of(const struct ht_model *m, struct ht_str input, int32_t dimension)
{
	for (const struct ht_named_dimension *p = m->named_dimensions; p; p = p->next)
		if (p->dimension == dimension && ht_str_eq(p->input, input))
			return p->size;
	return dimension < HT_MOST_SIZES ? dimension : -1;
}

/* Whether some input leaves a dimension of size i open. */
static bool is_open(const struct ht_model *m, int32_t i)
{
	for (const struct ht_port *p = m->entry->inputs; p; p = p->next) {
		struct ht_shape s = ht_model_shape(m, p);

		for (int32_t k = 0; k < s.rank; k++)
			if (s.dim[k] < 0 && ht_model_size_of(m, p->name, k) == i)
				return true;
	}
	return false;
}

/* Whether size i is that of a dimension, or of the last name that some dimension got. */
static bool is_stated_of(const struct ht_model *m, int32_t i)
{
	for (const struct ht_named_dimension *p = m->named_dimensions; p; p = p->next)
		if (ht_model_size_of(m, p->input, p->dimension) == i)
			return true;
	return i < HT_MOST_SIZES;
}

/* What images, reports and messages call size i. */
static struct ht_str name_of(const struct ht_model *m, int32_t i, struct ht_arena *a)
{
	if (m->open[i].name.n)
		return ht_str_printf(a, "dim_%.*s", HT_STR_ARG(m->open[i].name));
	return i ? ht_str_printf(a, "dim%d", (int)i) : HT_STR(HT_SIZE_OF_ROWS);
}

static void put_size(struct ht_buf *b, const struct ht_model *m, int32_t i)
{
	if (m->open[i].name.n)
		ht_printf(b, "'%.*s'", HT_STR_ARG(m->open[i].name));
	else
		ht_printf(b, "%d", (int)i);
}

bool ht_model_leaves_open(const struct ht_model *m)
{
	for (int32_t i = 0; i < HT_MOST_OPEN; i++)
		if (!m->open[i].stay && is_open(m, i))
			return true;
	return false;
}

struct ht_open_sizes ht_model_open(const struct ht_model *m, int32_t i)
{
	struct ht_open_sizes s = m->open[i];

	s.stay = is_open(m, i);
	return s;
}

enum ht_status ht_model_check_open(const struct ht_model *m, struct ht_diags *d)
{
	for (int32_t i = 0; i < HT_MOST_OPEN; i++) {
		if (!m->open[i].stay || is_open(m, i) || !is_stated_of(m, i))
			continue;
		if (m->open[i].name.n)
			return ht_error(d, HT_E_USAGE,
				(struct ht_where){ .path = m->graph->path, .offset = -1 },
				"no open dimension of an input has the size '%.*s'",
				HT_STR_ARG(m->open[i].name));
		return ht_error(d, HT_E_USAGE,
			(struct ht_where){ .path = m->graph->path, .offset = -1 },
			"dimension %d is to stay open, but the model has no input of which "
			"it is",
			(int)i);
	}
	return HT_OK;
}

/* Default upper bounds of open sizes: of the first dimension if others are open too; of other
 * dimensions. */
enum { MOST_ROWS = 64, MOST_OTHERS = 512 };

/* If no lower bound was stated, dimensions other than the first have at least one element. */
static struct ht_open_size bounds_of(
	const struct ht_model *m, int32_t axis, int64_t dim, struct ht_str name)
{
	const struct ht_open_sizes *s = &m->open[axis];
	int64_t most = s->most ? s->most : axis ? MOST_OTHERS : MOST_ROWS;
	int64_t least = s->least || s->most || !axis ? s->least : 1;

	return (struct ht_open_size){ .dim = dim,
		.axis = axis,
		.name = name,
		.least = least,
		.most = most < least ? least : most };
}

static bool computes_in(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_computes_size(n) || ht_is(n, HT_LOOPS | HT_ITERATES))
			return true;
	return false;
}

/* Whether some node computes a size, or is a loop: then parts of a batch have not one size each, or not as many iterations. */
static bool computes_sizes(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (f->body && computes_in(f->body))
			return true;
	return computes_in(g);
}

/* Whether programs of the model need an upper bound of each open size. */
static bool has_bounds(const struct ht_model *m)
{
	for (int32_t i = 1; i < HT_MOST_OPEN; i++)
		if (is_open(m, i))
			return true;
	return computes_sizes(m->graph);
}

bool ht_model_has_rows(const struct ht_model *m, enum ht_open open)
{
	bool stays = open == HT_OPEN_STAY || (open == HT_OPEN_ONE && m->open[0].stay);

	return stays && is_open(m, 0) && !has_bounds(m);
}

void ht_model_note_bounds(
	const struct ht_model *m, enum ht_open open, struct ht_arena *a, struct ht_diags *d)
{
	struct ht_buf b;

	if (open != HT_OPEN_BOUNDED && !has_bounds(m))
		return;
	ht_buf_init(&b, a);
	for (int32_t i = 0; i < HT_MOST_OPEN; i++)
		if (is_open(m, i) && !m->open[i].most) {
			ht_puts(&b, b.n ? ", " : "");
			put_size(&b, m, i);
			ht_printf(&b, " is at most %lld",
				(long long)bounds_of(m, i, 0, HT_STR("")).most);
		}
	if (b.n)
		ht_note(d, (struct ht_where){ .path = m->graph->path, .offset = -1 },
			"open dimension %.*s, as nobody stated bounds", HT_STR_ARG(ht_buf_str(&b)));
}

void ht_model_note_raised(
	const struct ht_model *m, const struct ht_graph *g, struct ht_arena *a, struct ht_diags *d)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	for (int32_t i = 0; i < g->sizes; i++) {
		const struct ht_open_size *s = &g->size[i];

		if (s->axis >= 0 && s->least > bounds_of(m, s->axis, 0, HT_STR("")).least) {
			ht_puts(&b, b.n ? ", " : "");
			put_size(&b, m, s->axis);
			ht_printf(&b, " is at least %lld", (long long)s->least);
		}
	}
	if (b.n)
		ht_note(d, (struct ht_where){ .path = m->graph->path, .offset = -1 },
			"open dimension %.*s: of less, a window of the graph has no result",
			HT_STR_ARG(ht_buf_str(&b)));
}

static void put_shape_to_state(struct ht_buf *b, const struct ht_port *p, struct ht_shape s)
{
	ht_printf(b, "%s%.*s:%s", b->n ? ";" : "", HT_STR_ARG(p->name), s.rank < 0 ? "?" : "");
	for (int32_t i = 0; i < s.rank; i++) {
		ht_puts(b, i ? "," : "");
		if (s.dim[i] < 0 && i)
			ht_putc(b, '?');
		else
			ht_printf(b, "%lld", (long long)(s.dim[i] < 0 ? 1 : s.dim[i]));
	}
}

/* Whether all dimensions from `first` on are unknown. */
static bool is_unknown_from(struct ht_shape s, int32_t first)
{
	for (int32_t i = first; i < s.rank; i++)
		if (s.dim[i] < 0)
			return true;
	return s.rank < 0;
}

struct ht_str ht_model_shapes_to_state(const struct ht_model *m, bool rows, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	for (const struct ht_port *p = m->entry->inputs; p; p = p->next)
		if (is_unknown_from(ht_model_shape(m, p), rows ? 0 : 1))
			put_shape_to_state(&b, p, ht_model_shape(m, p));
	return ht_buf_str(&b);
}

/* Sets to[i], what an open dimension i becomes, and the open sizes of `g`, if dimensions other
 * than the first stay open, or the first needs bounds. */
static void open_sizes(const struct ht_model *m, enum ht_open open, struct ht_graph *g,
	struct ht_arena *a, int64_t to[HT_MOST_OPEN])
{
	bool stays[HT_MOST_OPEN], all = open == HT_OPEN_STAY || open == HT_OPEN_BOUNDED,
				  others = open == HT_OPEN_BOUNDED || computes_sizes(g);

	for (int32_t i = 0; i < HT_MOST_OPEN; i++) {
		to[i] = i ? HT_DIM_UNKNOWN : 1;
		stays[i] = (all || m->open[i].stay) && is_open(m, i);
		others = others || (i && stays[i]);
	}
	for (int32_t i = 0; i < HT_MOST_OPEN; i++) {
		struct ht_str name = name_of(m, i, a);

		if (!stays[i])
			continue;
		to[i] = ht_dim_named(g, name);
		if (others)
			ht_graph_add_size(g, bounds_of(m, i, to[i], name));
	}
}

/* Applies the stated shapes to `g`, a copy of the model's graph. */
static enum ht_status state(const struct ht_model *m, struct ht_work *w, enum ht_open open,
	struct ht_diags *d, struct ht_graph *g)
{
	struct ht_entry *e = HT_NEW(&w->arena, struct ht_entry);
	const struct ht_port *from = m->entry->inputs;
	int64_t to[HT_MOST_OPEN] = { 0 };

	e->name = m->entry->name;
	e->method = m->entry->method;
	e->inputs = port_in(m, g, m->entry->inputs, &w->arena);
	e->outputs = port_in(m, g, m->entry->outputs, &w->arena);
	e->targets = port_in(m, g, m->entry->targets, &w->arena);
	g->entries = e;
	if (open != HT_OPEN_KEEP) {
		HT_TRY(ht_model_check_open(m, d));
		open_sizes(m, open, g, &w->arena, to);
	}
	for (struct ht_port *p = e->inputs; p; p = p->next, from = from->next)
		HT_TRY(state_shape(m, p, from, to, open, &w->arena, d));
	return HT_OK;
}

enum ht_status ht_model_copy(const struct ht_model *m, struct ht_work *w, enum ht_open open,
	struct ht_diags *d, struct ht_graph **out)
{
	if (m->wide)
		return ht_model_copy_whole(m, w, open, d, out);
	*out = ht_graph_clone_sharing(m->graph, &w->arena);
	return state(m, w, open, d, *out);
}

enum ht_status ht_model_copy_whole(const struct ht_model *m, struct ht_work *w, enum ht_open open,
	struct ht_diags *d, struct ht_graph **out)
{
	*out = ht_graph_clone(m->graph, &w->arena);
	HT_TRY(state(m, w, open, d, *out));
	if (m->wide)
		ht_widen_model(*out);
	return HT_OK;
}

bool ht_model_is_open(const struct ht_model *m)
{
	for (const struct ht_port *p = m->entry->inputs; p; p = p->next)
		if (!ht_shape_known(ht_model_shape(m, p)) || ht_model_default(p->value.node))
			return true;
	return false;
}

enum ht_status ht_model_check(const struct ht_model *m, struct ht_work *w, struct ht_diags *d)
{
	struct ht_pass_context c = { .scratch = &w->scratch, .diags = d };
	struct ht_graph *g;

	if (!m->set)
		return HT_OK;
	HT_TRY(ht_model_copy(m, w, HT_OPEN_KEEP, d, &g));
	c.entry = g->entries;
	return ht_run_passes(g, "prune,infer", NULL, &c);
}
