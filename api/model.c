/* Models: the imported graph, its chosen entry, and the shapes stated for its inputs. */
#include "api/api.h"

#include "frontend/frontend.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct ht_model *m;
	const char *path;
	const struct ht_load_options *opt;
	struct ht_diags *d;
};

/* ---- loading ---- */

static struct ht_entry *find_entry(const struct ht_graph *g, struct ht_str name)
{
	struct ht_entry *e = g->entries;

	while (e && !ht_str_eq(e->name, name))
		e = e->next;
	return e;
}

static enum ht_status no_signature(
	struct load *l, const char *name, const struct ht_str *known, size_t n)
{
	struct ht_where at = { .path = l->path, .offset = -1 };
	struct ht_buf b;
	size_t named = 0;

	ht_buf_init(&b, &l->m->arena);
	for (size_t i = 0; i < n; i++)
		if (known[i].n)
			ht_printf(&b, "%s'%.*s'", named++ ? ", " : "", HT_STR_ARG(known[i]));
	if (!named)
		return ht_error(l->d, HT_E_USAGE, at,
			"the model has no signature '%s': it has no signatures", name);
	return ht_error(l->d, HT_E_USAGE, at, "the model has no signature '%s'; it has %.*s", name,
		(int)b.n, b.p);
}

static enum ht_status choose_entry(struct load *l, struct ht_entry **out)
{
	struct ht_graph *g = l->m->graph;
	const char *name = l->opt->signature;
	struct ht_str names[64], near[3];
	size_t n = 0;
	int found;

	*out = name ? find_entry(g, ht_str(name)) : g->entries;
	if (!*out && !name)
		*out = ht_default_entry(g);
	if (*out)
		return HT_OK;
	for (struct ht_entry *e = g->entries; e && n < HT_COUNT(names); e = e->next)
		names[n++] = e->name;
	found = ht_near_names(ht_str(name), names, n, near);
	if (found)
		return ht_error(l->d, HT_E_USAGE,
			(struct ht_where){ .path = l->path, .offset = -1 },
			"the model has no signature '%s'; did you mean '%.*s'?", name,
			HT_STR_ARG(near[0]));
	return no_signature(l, name, names, n);
}

/* The shape that the graph states for an input. */
static struct ht_shape stated_shape(struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct ht_shape s;

	if (!ht_is(n, HT_FED))
		return v.index < n->outs ? n->out[v.index].shape : HT_SHAPE_UNKNOWN;
	if (ht_is(n, HT_HAS_DEFAULT) && n->ins == 1) {
		const struct ht_tensor *t = ht_const_tensor(n->in[0]);
		if (t)
			return t->shape;
	}
	s = ht_placeholder_shape(n->graph, n);
	if (s.rank >= 0)
		return s;
	return n->outs ? n->out[0].shape : HT_SHAPE_UNKNOWN;
}

const struct ht_tensor *ht_model_default(const struct ht_node *n)
{
	if (!ht_is(n, HT_HAS_DEFAULT) || n->ins != 1)
		return NULL;
	return ht_const_tensor(n->in[0]);
}

struct ht_shape ht_model_shape(const struct ht_model *m, const struct ht_port *p)
{
	struct ht_shape s = stated_shape(p->value);
	int64_t dim[HT_MAX_RANK];

	for (const struct ht_shape_set *set = m->shapes; set; set = set->next)
		if (ht_str_eq(set->input, p->name)) {
			s = set->shape;
			break;
		}
	if (m->batch > 0 && s.rank > 0 && s.dim[0] < 0 && !ht_model_size_of(m, p->name, 0)) {
		memcpy(dim, s.dim, (size_t)s.rank * sizeof *dim);
		dim[0] = m->batch;
		return ht_shape_make((struct ht_arena *)&m->arena, s.rank, dim);
	}
	return s;
}

static size_t bytes_of(struct ht_shape s, enum ht_dtype t)
{
	int64_t count = ht_shape_known(s) ? ht_shape_count(s) : -1;
	size_t n;

	if (count < 0 || !ht_mul_size((size_t)count, ht_dtype_info(t)->bytes, &n))
		return 0;
	return n;
}

void ht_model_describe(struct ht_model *m)
{
	size_t n = 0;

	for (const struct ht_port *p = m->entry->inputs; p; p = p->next)
		n++;
	m->input = HT_NEW_ARRAY(&m->arena, struct ht_value_info, n);
	m->inputs = n;
	n = 0;
	for (const struct ht_port *p = m->entry->inputs; p; p = p->next) {
		struct ht_value_info *v = &m->input[n++];
		struct ht_shape s = ht_model_shape(m, p);
		const struct ht_tensor *t = ht_model_default(p->value.node);
		v->name = p->name.p;
		v->dtype = ht_is(p->value.node, HT_FED) ? ht_type_attr(p->value.node, "dtype")
							: HT_INVALID;
		if (v->dtype == HT_INVALID && p->value.node->outs > p->value.index)
			v->dtype = p->value.node->out[p->value.index].dtype;
		v->rank = s.rank;
		v->dim = s.dim;
		v->bytes = bytes_of(s, v->dtype);
		v->value = t && t->blob && ht_shape_eq(t->shape, s) ? t->blob->p : NULL;
	}
}

static enum ht_status load(void *arg)
{
	struct load *l = arg;
	struct ht_model *m = l->m;
	struct ht_import_limits limits = { .nodes = l->opt->max_nodes };
	struct ht_entry *chosen;
	int64_t start = ht_now_ns();

	if (ht_artefact_is(l->path))
		return ht_error(l->d, HT_E_INPUT,
			(struct ht_where){ .path = l->path, .offset = -1 },
			"this is an artefact, which can be run, measured and inspected; for anything "
			"else its model is needed");
	HT_TRY(ht_import(&m->arena, l->path, &limits, l->d, &m->graph));
	HT_TRY(choose_entry(l, &chosen));
	m->entry = HT_NEW(&m->arena, struct ht_entry);
	*m->entry = *chosen;
	m->entry->next = NULL;
	m->chosen = m->entry;
	ht_model_describe(m);
	ht_vendor_attributes_note(m->graph, &m->arena, l->d);
	m->import_ns = ht_now_ns() - start;
	return HT_OK;
}

static enum ht_status load_guarded(void *arg)
{
	struct load *l = arg;

	return ht_guarded(&l->m->unwind, load, l, l->d);
}

enum ht_status ht_model_load(const char *path, const struct ht_load_options *opt,
	struct ht_diags *d, struct ht_model **out)
{
	struct ht_load_options all = HT_LOAD_OPTIONS_INIT;
	struct load l = { NULL, path, &all, d };
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_load_options", &all, sizeof all, d));
	l.m = ht_sys_alloc(sizeof(struct ht_model));
	if (!l.m)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&l.m->arena, &l.m->unwind);
	st = ht_until_cancelled(all.cancel, load_guarded, &l, d);
	if (st == HT_OK)
		*out = l.m;
	else
		ht_model_free(l.m);
	return st;
}

void ht_model_free(struct ht_model *m)
{
	if (!m)
		return;
	ht_arena_release(&m->arena);
	ht_content_free(m->content);
	free(m);
}

size_t ht_model_inputs(const struct ht_model *m)
{
	return m->inputs;
}

int ht_model_input(const struct ht_model *m, size_t i, struct ht_value_info *out)
{
	if (i >= m->inputs)
		return 0;
	*out = m->input[i];
	return 1;
}

/* ---- settings ---- */

struct set {
	struct ht_model *m;
	const char *const *name;
	size_t n;
	const char *input;
	int32_t rank;
	const int64_t *dim;
	int64_t batch, least, most;
	const char *size; /* the name of an open size; its dimension is `rank` */
	struct ht_diags *d;
};

static enum ht_status set_outputs(void *arg)
{
	struct set *s = arg;
	struct ht_str *names = HT_NEW_ARRAY(&s->m->arena, struct ht_str, s->n);
	struct ht_entry *e;

	for (size_t i = 0; i < s->n; i++)
		names[i] = ht_str_copy(&s->m->arena, ht_str(s->name[i]));
	HT_TRY(ht_entry_for_outputs(s->m->graph, s->m->chosen, names, s->n, s->d, &e));
	s->m->set = s->m->outputs_set = true;
	s->m->unfed = e;
	HT_TRY(ht_entry_for_inputs(s->m->graph, e, NULL, 0, s->d, &s->m->entry));
	s->m->inputs_set = false;
	ht_model_describe(s->m);
	return HT_OK;
}

enum ht_status ht_model_set_outputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d)
{
	struct set s = { .m = m, .name = name, .n = n, .d = d };

	if (!n)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "no outputs named");
	return ht_guarded(&m->unwind, set_outputs, &s, d);
}

static struct ht_where in_model(const struct ht_model *m)
{
	return (struct ht_where){ .path = m->graph->path, .offset = -1 };
}

static enum ht_status no_input(struct set *s)
{
	struct ht_str *names = HT_NEW_ARRAY(&s->m->arena, struct ht_str, s->m->inputs + 1), near[3];
	int found;

	for (size_t i = 0; i < s->m->inputs; i++)
		names[i] = ht_str(s->m->input[i].name);
	found = ht_near_names(ht_str(s->input), names, s->m->inputs, near);
	if (found)
		return ht_error(s->d, HT_E_USAGE, in_model(s->m),
			"the model has no input '%s'; did you mean '%.*s'?", s->input,
			HT_STR_ARG(near[0]));
	return ht_error(s->d, HT_E_USAGE, in_model(s->m), "the model has no input '%s'%s%s%s",
		s->input, s->m->inputs ? "; its first is '" : "",
		s->m->inputs ? s->m->input[0].name : "", s->m->inputs ? "'" : "");
}

/* The input of that name, including those that the chosen outputs do not need. */
static const struct ht_port *port_of(const struct ht_model *m, const char *name)
{
	const struct ht_port *p = ht_port_named(m->entry->inputs, ht_str(name));

	return p || !m->unfed ? p : ht_port_named(m->unfed->inputs, ht_str(name));
}

/* The shape stated earlier, or else the shape that may be fed, which is more general than the
 * default's if the node says so. */
static struct ht_shape accepted_shape(const struct ht_model *m, const struct ht_port *p)
{
	const struct ht_attr *a = ht_attr_find(p->value.node, "shape");

	for (const struct ht_shape_set *set = m->shapes; set; set = set->next)
		if (ht_str_eq(set->input, p->name))
			return set->shape;
	if (ht_model_default(p->value.node) && a && a->value.kind == HT_ATTR_SHAPE)
		return a->value.shape.shape;
	return ht_model_shape(m, p);
}

/* Sets the stated shape; dimensions that it keeps are taken from the graph. */
static enum ht_status set_shape(void *arg)
{
	struct set *s = arg;
	const struct ht_port *p = port_of(s->m, s->input);
	struct ht_shape old;
	struct ht_shape_set *set;
	int64_t dim[HT_MAX_RANK];

	if (!p)
		return no_input(s);
	if (s->rank < 0 || s->rank > HT_MAX_RANK)
		return ht_error(s->d, HT_E_USAGE, in_model(s->m),
			"rank %d of input '%s' is not in 0..%d", (int)s->rank, s->input,
			HT_MAX_RANK);
	old = accepted_shape(s->m, p);
	if (old.rank >= 0 && old.rank != s->rank)
		return ht_error(s->d, HT_E_USAGE, in_model(s->m),
			"input '%s' has %d dimensions, the shape stated has %d", s->input,
			(int)old.rank, (int)s->rank);
	old = stated_shape(p->value);
	for (int32_t i = 0; i < s->rank; i++) {
		dim[i] = s->dim[i];
		if (dim[i] < HT_DIMENSION_OPEN)
			return ht_error(s->d, HT_E_USAGE, in_model(s->m),
				"a dimension of input '%s' is %lld", s->input, (long long)dim[i]);
		if (dim[i] == HT_DIMENSION_KEPT && old.rank == s->rank)
			dim[i] = old.dim[i];
		if (dim[i] < 0)
			dim[i] = HT_DIM_UNKNOWN;
	}
	set = HT_NEW(&s->m->arena, struct ht_shape_set);
	set->input = p->name;
	set->shape = ht_shape_make(&s->m->arena, s->rank, dim);
	set->next = s->m->shapes;
	s->m->shapes = set;
	s->m->set = true;
	ht_model_describe(s->m);
	return HT_OK;
}

enum ht_status ht_model_set_shape(
	struct ht_model *m, const char *input, int32_t rank, const int64_t *dim, struct ht_diags *d)
{
	struct set s = { .m = m, .input = input, .rank = rank, .dim = dim, .d = d };

	return ht_guarded(&m->unwind, set_shape, &s, d);
}

static enum ht_status set_steady(void *arg)
{
	struct set *s = arg;
	const struct ht_port *p = port_of(s->m, s->input);
	struct ht_input_name *set;

	if (!p)
		return no_input(s);
	set = HT_NEW(&s->m->arena, struct ht_input_name);
	*set = (struct ht_input_name){ p->name, s->m->steady };
	s->m->steady = set;
	s->m->set = true;
	return HT_OK;
}

enum ht_status ht_model_set_steady(struct ht_model *m, const char *input, struct ht_diags *d)
{
	struct set s = { .m = m, .input = input, .d = d };

	return ht_guarded(&m->unwind, set_steady, &s, d);
}

bool ht_model_is_steady(const struct ht_model *m, struct ht_str input)
{
	for (const struct ht_input_name *i = m->steady; i; i = i->next)
		if (ht_str_eq(i->input, input))
			return true;
	return false;
}

static enum ht_status set_batch(void *arg)
{
	struct set *s = arg;

	s->m->batch = s->batch;
	s->m->set = true;
	ht_model_describe(s->m);
	return HT_OK;
}

enum ht_status ht_model_set_batch(struct ht_model *m, int64_t batch, struct ht_diags *d)
{
	struct set s = { .m = m, .batch = batch, .d = d };

	if (batch < 1)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "a batch of %lld", (long long)batch);
	return ht_guarded(&m->unwind, set_batch, &s, d);
}

enum ht_status ht_model_widen(struct ht_model *m, const char *type, struct ht_diags *d)
{
	if (!type || strcmp(type, "f64"))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "models are widened to f64, not to '%s'",
			type ? type : "");
	m->wide = true;
	m->set = true;
	return HT_OK;
}

static enum ht_status no_such_dimension(int32_t dimension, struct ht_diags *d)
{
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"dimension %d cannot be open; dimensions 0 to %d can", (int)dimension,
		HT_MOST_SIZES - 1);
}

static enum ht_status check_bounds(int64_t least, int64_t most, struct ht_diags *d)
{
	if (least < 0 || (most && most < least) || most > INT32_MAX || least > INT32_MAX)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"sizes from %lld to %lld; they are from 0 to %d", (long long)least,
			(long long)most, INT32_MAX);
	return HT_OK;
}

static enum ht_status set_open(void *arg)
{
	struct set *s = arg;

	s->m->open[s->rank] =
		(struct ht_open_sizes){ .stay = true, .least = s->least, .most = s->most };
	s->m->set = true;
	return HT_OK;
}

enum ht_status ht_model_set_open(
	struct ht_model *m, int64_t least, int64_t most, struct ht_diags *d)
{
	return ht_model_set_open_dimension(m, 0, least, most, d);
}

enum ht_status ht_model_set_open_dimension(
	struct ht_model *m, int32_t dimension, int64_t least, int64_t most, struct ht_diags *d)
{
	struct set s = { .m = m, .rank = dimension, .least = least, .most = most, .d = d };

	if (dimension < 0 || dimension >= HT_MOST_SIZES)
		return no_such_dimension(dimension, d);
	HT_TRY(check_bounds(least, most, d));
	return ht_guarded(&m->unwind, set_open, &s, d);
}

/* ---- sizes with names ---- */

/* The number of the size of that name, which is added if there is none; -1: there are too many. */
static int32_t named_size(struct ht_model *m, struct ht_str name)
{
	for (int32_t i = HT_MOST_SIZES; i < HT_MOST_SIZES + m->named; i++)
		if (ht_str_eq(m->open[i].name, name))
			return i;
	if (m->named == HT_MOST_NAMED_SIZES)
		return -1;
	m->open[HT_MOST_SIZES + m->named] =
		(struct ht_open_sizes){ .stay = true, .name = ht_str_copy(&m->arena, name) };
	return HT_MOST_SIZES + m->named++;
}

static enum ht_status bound_size(struct ht_open_sizes *o, const struct set *s)
{
	int64_t least = s->least > o->least ? s->least : o->least;
	int64_t most = s->most && (!o->most || s->most < o->most) ? s->most : o->most;

	if (most && least > most)
		return ht_error(s->d, HT_E_USAGE, in_model(s->m),
			"what is stated of the size '%.*s' has no size in common",
			HT_STR_ARG(o->name));
	o->least = least;
	o->most = most;
	return HT_OK;
}

static enum ht_status set_size(void *arg)
{
	struct set *s = arg;
	const struct ht_port *p = port_of(s->m, s->input);
	struct ht_named_dimension *of;
	int32_t size;

	if (!p)
		return no_input(s);
	size = named_size(s->m, ht_str(s->size));
	if (size < 0)
		return ht_error(s->d, HT_E_USAGE, in_model(s->m),
			"more than %d open sizes have names", HT_MOST_NAMED_SIZES);
	HT_TRY(bound_size(&s->m->open[size], s));
	of = HT_NEW(&s->m->arena, struct ht_named_dimension);
	*of = (struct ht_named_dimension){ p->name, s->rank, size, s->m->named_dimensions };
	s->m->named_dimensions = of;
	s->m->set = true;
	ht_model_describe(s->m);
	return HT_OK;
}

/* A name is a part of names in C, as nets have them, of macros too. */
static bool is_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
	size_t n = s ? strlen(s) : 0;

	return n && n <= 64 && strspn(s, letters) == n && strcspn(s, "_0123456789");
}

enum ht_status ht_model_set_open_size(struct ht_model *m, const char *input, int32_t dimension,
	const char *name, int64_t least, int64_t most, struct ht_diags *d)
{
	struct set s = { .m = m,
		.input = input,
		.rank = dimension,
		.size = name,
		.least = least,
		.most = most,
		.d = d };

	if (!is_name(name))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"the name '%s' of an open size; names have up to 64 small letters, digits and _, and begin with a letter",
			name ? name : "");
	if (dimension < 0 || dimension >= HT_MOST_SIZES)
		return no_such_dimension(dimension, d);
	HT_TRY(check_bounds(least, most, d));
	return ht_guarded(&m->unwind, set_size, &s, d);
}

const char *ht_model_open_size_name(const struct ht_model *m, size_t input, int32_t dimension)
{
	int32_t size;

	if (input >= m->inputs || dimension < 0)
		return NULL;
	size = ht_model_size_of(m, ht_str(m->input[input].name), dimension);
	return size < HT_MOST_SIZES ? NULL : m->open[size].name.p;
}
