/* Describes a model: its inputs and outputs, its ops, which parts cannot be compiled, its size. */
#include "api/api.h"
#include "lower/price.h"
#include "lower/refusals.h"

#include <stdlib.h>
#include <string.h>

/* Passes that must run before unsupported ops and sizes can be determined: they remove calls,
 * variables and nodes that the outputs do not need, and infer shapes. */
static const char PREPARE[] = "prune,inline,freeze,prune,infer";

struct type_count {
	struct ht_str type;
	int64_t count;
};

struct histogram {
	struct type_count *item;
	size_t n;
};

struct inspect {
	const struct ht_model *m;
	enum ht_format format;
	struct ht_work *w;     /* of one stage: its graph */
	struct ht_arena *kept; /* of all stages: their results */
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_buf buf;
	struct histogram ops;
	struct ht_refusals refused;
	struct ht_str open;     /* the shapes to be stated, for --input-shape; may be empty */
	struct ht_type *output; /* types of the outputs; NULL: as imported */
	int64_t multiply_adds;  /* -1: not known */
	size_t weight_bytes, nodes, functions;
	bool keep_variables; /* they cannot be frozen */
	bool missing;        /* only ops without kernels are asked for; values of variables may be
		       * missing */
};

static int by_type(const void *a, const void *b)
{
	return ht_str_cmp(
		((const struct type_count *)a)->type, ((const struct type_count *)b)->type);
}

/* Op types of a graph, by name. */
static struct histogram count_types(const struct ht_graph *g, struct ht_arena *a)
{
	struct histogram h = { 0 };
	struct ht_map map;

	ht_map_init(&map, a);
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_map_entry *e = ht_map_at(&map, n->type);

		if (!e->value)
			e->value = HT_NEW(a, int64_t);
		++*(int64_t *)e->value;
	}
	h.n = map.count;
	h.item = HT_NEW_ARRAY(a, struct type_count, h.n);
	for (size_t i = 0; i < h.n; i++)
		h.item[i] =
			(struct type_count){ map.entries[i].key, *(int64_t *)map.entries[i].value };
	qsort(h.item, h.n, sizeof *h.item, by_type);
	return h;
}

static enum ht_status run_passes(
	struct inspect *s, struct ht_graph *g, const char *pipeline, struct ht_diags *d)
{
	struct ht_pass_context c = { .scratch = &s->w->scratch,
		.diags = d,
		.target = ht_target_host(),
		.entry = g->entries,
		.variables = ht_variables_of(s->m, s->w),
		.keep_variables = s->keep_variables };

	return ht_run_passes(g, pipeline, NULL, &c);
}

static enum ht_status prepare(
	struct inspect *s, enum ht_open open, struct ht_diags *d, struct ht_graph **out)
{
	HT_TRY(ht_model_copy(s->m, s->w, open, d, out));
	return run_passes(s, *out, PREPARE, d);
}

static void release_diags(void *d)
{
	ht_diags_release(d);
}

/* Collects messages of attempts, which the user should not see. */
static struct ht_diags *quiet_diags(struct inspect *s)
{
	struct ht_diags *d = HT_NEW(&s->w->arena, struct ht_diags);

	ht_diags_init(d);
	ht_arena_defer(&s->w->arena, release_diags, d);
	return d;
}

static void measure(struct inspect *s, const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *t =
			ht_is(n, HT_CONSTANT) ? ht_const_tensor(ht_out((struct ht_node *)n, 0))
					      : NULL;
		if (t && t->blob)
			s->weight_bytes += t->blob->n;
		s->multiply_adds += ht_multiply_adds(n);
	}
}

static struct ht_type port_type(const struct ht_port *p)
{
	if (p->value.index >= 0 && p->value.index < p->value.node->outs)
		return *ht_type_of(p->value);
	return (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
}

/* If the graph contradicts itself, the first error in `quiet` becomes this call's error.
 * Unsupported features are reported together with the others. */
static enum ht_status judge(struct inspect *s, enum ht_status st, const struct ht_diags *quiet)
{
	const struct ht_diag *e = quiet->first;

	while (e && e->severity != HT_ERROR)
		e = e->next;
	if (!e || st == HT_E_UNSUPPORTED)
		return HT_OK;
	return ht_error(s->d, st, e->where, "%.*s", HT_STR_ARG(e->text));
}

/* ---- what `run` would refuse ---- */

static bool is_refused(const struct inspect *s, struct ht_str type)
{
	for (size_t i = 0; i < s->refused.n; i++)
		if (ht_str_eq(s->refused.item[i].type, type))
			return true;
	return false;
}

/* Whether an error concerns all nodes of an op, and names one of them: "op TYPE …". */
static bool is_of_op(const struct ht_diag *e)
{
	return e->where.op.n && e->text.n > 3 + e->where.op.n && !memcmp(e->text.p, "op ", 3) &&
	       !memcmp(e->text.p + 3, e->where.op.p, e->where.op.n);
}

/* Adds the refusals of passes, which run before lowering checks ops: those of single nodes, or
 * those of all nodes of an op that is not refused yet. */
static void refuse_errors(struct inspect *s, const struct ht_diags *quiet, bool of_ops)
{
	struct ht_arena *a = &s->w->arena;
	struct ht_refusals *r = &s->refused;

	for (const struct ht_diag *e = quiet->first; e; e = e->next) {
		if (e->severity != HT_ERROR || is_of_op(e) != of_ops)
			continue;
		if (of_ops && is_refused(s, e->where.op))
			continue;
		r->item = ht_grow(a, r->item, r->n, &r->cap, sizeof *r->item);
		r->item[r->n++] =
			(struct ht_refusal){ .type = e->where.op.n ? e->where.op : HT_STR("-"),
				.first = e->where.node,
				.why = ht_str_copy(a, e->text).p,
				.nodes = 1 };
	}
}

/* An input with an open shape is not an unsupported op. */
static void drop_open_inputs(struct inspect *s, const struct ht_graph *g)
{
	struct ht_refusals *r = &s->refused;
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct ht_node *node = ht_graph_node(g, r->item[i].first);

		if (!r->item[i].open_shape || !node || !ht_is(node, HT_FED))
			r->item[n++] = r->item[i];
	}
	r->n = n;
}

/* If a pass failed, adds the ops behind it that could not be lowered either. */
static enum ht_status add_unlowered(struct inspect *s)
{
	struct ht_refusals *r = &s->refused, more;
	struct ht_graph *g;

	s->keep_variables = true;
	if (prepare(s, HT_OPEN_ONE, quiet_diags(s), &g) != HT_OK)
		return HT_OK;
	ht_find_refusals(g, g->entries, &s->w->arena, &more);
	for (size_t i = 0; i < more.n; i++) {
		const struct ht_node *n = ht_graph_node(g, more.item[i].first);

		/* Variables need no kernels. */
		if (ht_is(n, HT_VARIABLE | HT_READS_VARIABLE))
			continue;
		if (is_refused(s, n->type) || (n->op != HT_OP_OPAQUE && !ht_never_lowered(n)))
			continue;
		r->item = ht_grow(&s->w->arena, r->item, r->n, &r->cap, sizeof *r->item);
		r->item[r->n++] = more.item[i];
	}
	return HT_OK;
}

/* Runs the passes of a compilation up to the decision of types. */
static enum ht_status look_for_unsupported(struct inspect *s)
{
	struct ht_diags *quiet = quiet_diags(s);
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_lowering *l = HT_NEW(&s->w->arena, struct ht_lowering);
	enum ht_status st = ht_compile_options_of(&opt, quiet, &opt);

	s->open = ht_model_shapes_to_state(s->m, false, s->kept);
	if (st == HT_OK)
		st = ht_lowering_run(s->m, &opt, HT_OPEN_ONE,
			s->missing ? HT_UPTO_LOOK : HT_UPTO_LAYOUT, NULL, s->w, quiet, l);
	if (st == HT_OK)
		st = ht_graph_sort(l->graph, quiet);
	if (st == HT_OK) {
		ht_find_refusals(l->graph, l->graph->entries, &s->w->arena, &s->refused);
		drop_open_inputs(s, l->graph);
		return HT_OK;
	}
	HT_TRY(judge(s, st, quiet));
	refuse_errors(s, quiet, false);
	HT_TRY(add_unlowered(s));
	refuse_errors(s, quiet, true);
	return HT_OK;
}

static enum ht_status find_refusals(struct inspect *s)
{
	struct ht_refusals found;
	enum ht_status st = look_for_unsupported(s);

	found = s->refused;
	s->refused.item = HT_NEW_ARRAY(s->kept, struct ht_refusal, found.n);
	for (size_t i = 0; i < found.n; i++) {
		struct ht_refusal *r = &s->refused.item[i];

		*r = found.item[i];
		r->type = ht_str_copy(s->kept, r->type);
		r->first = ht_str_copy(s->kept, r->first);
		r->part = ht_str_copy(s->kept, r->part);
		r->name = HT_NEW_ARRAY(s->kept, struct ht_str, r->nodes);
		for (size_t k = 0; k < r->nodes; k++)
			r->name[k] = ht_str_copy(
				s->kept, found.item[i].name ? found.item[i].name[k] : r->first);
		r->why = ht_str_copy(s->kept, ht_str(r->why)).p;
	}
	return st;
}

/* ---- types and sizes ---- */

static void keep_types(struct inspect *s, const struct ht_entry *e)
{
	size_t n = 0;

	for (const struct ht_port *p = e->outputs; p; p = p->next)
		n++;
	s->output = HT_NEW_ARRAY(s->kept, struct ht_type, n);
	n = 0;
	for (const struct ht_port *p = e->outputs; p; p = p->next, n++) {
		s->output[n] = port_type(p);
		if (s->output[n].shape.rank > 0)
			s->output[n].shape = ht_shape_make(
				s->kept, s->output[n].shape.rank, s->output[n].shape.dim);
	}
}

static enum ht_status find_types(struct inspect *s)
{
	struct ht_diags *quiet = quiet_diags(s);
	struct ht_graph *g;
	enum ht_status st = prepare(s, HT_OPEN_KEEP, quiet, &g);

	if (st == HT_E_UNSUPPORTED) {
		HT_TRY(judge(s, st, quiet));
		s->keep_variables = true;
		quiet = quiet_diags(s);
		st = prepare(s, HT_OPEN_KEEP, quiet, &g);
	}
	if (st != HT_OK)
		return judge(s, st, quiet);
	keep_types(s, g->entries);
	return HT_OK;
}

static enum ht_status find_sizes(struct inspect *s)
{
	struct ht_graph *g;

	s->multiply_adds = -1;
	if (prepare(s, HT_OPEN_REFUSE, quiet_diags(s), &g) == HT_OK) {
		s->multiply_adds = 0;
		measure(s, g);
	}
	return HT_OK;
}

/* The graph of one stage is freed before the next is made. */
static enum ht_status look(struct inspect *s)
{
	enum ht_status (*const stage[])(
		struct inspect *s) = { find_types, find_sizes, find_refusals };
	struct ht_work *whole = s->w;
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < HT_COUNT(stage) && st == HT_OK; i++) {
		s->w = ht_work_within(whole);
		st = stage[i](s);
		ht_work_release(s->w);
	}
	s->w = whole;
	return st;
}

/* ---- printing ---- */

static void put_shape_json(struct ht_buf *b, int32_t rank, const int64_t *dim)
{
	if (rank < 0) {
		ht_puts(b, "null");
		return;
	}
	ht_putc(b, '[');
	for (int32_t i = 0; i < rank; i++)
		ht_printf(b, "%s%lld", i ? "," : "", (long long)(dim[i] < 0 ? -1 : dim[i]));
	ht_putc(b, ']');
}

static void put_value(
	struct inspect *s, bool first, const char *name, enum ht_dtype t, struct ht_shape shape)
{
	if (s->format == HT_FORMAT_JSON) {
		ht_puts(&s->buf, first ? "\n  {\"name\": " : ",\n  {\"name\": ");
		ht_put_json(&s->buf, ht_str(name));
		ht_printf(&s->buf, ", \"dtype\": \"%s\", \"shape\": ", ht_dtype_name(t));
		put_shape_json(&s->buf, shape.rank, shape.dim);
		ht_putc(&s->buf, '}');
		return;
	}
	ht_printf(&s->buf, "  %s  %s", name, ht_dtype_name(t));
	ht_shape_print(shape, &s->buf);
	ht_putc(&s->buf, '\n');
}

static void put_inputs(struct inspect *s)
{
	for (size_t i = 0; i < s->m->inputs; i++) {
		const struct ht_value_info *v = &s->m->input[i];
		put_value(s, !i, v->name, v->dtype, (struct ht_shape){ v->rank, v->dim });
	}
}

static void put_outputs(struct inspect *s)
{
	size_t i = 0;

	for (const struct ht_port *p = s->m->entry->outputs; p; p = p->next, i++) {
		struct ht_type t = s->output ? s->output[i] : port_type(p);

		put_value(s, i == 0, p->name.p, t.dtype, t.shape);
	}
}

static void put_histogram(struct inspect *s, const struct histogram *h)
{
	for (size_t i = 0; i < h->n; i++) {
		if (s->format == HT_FORMAT_JSON) {
			ht_puts(&s->buf, i ? ", " : "");
			ht_put_json(&s->buf, h->item[i].type);
			ht_printf(&s->buf, ": %lld", (long long)h->item[i].count);
		} else {
			ht_printf(&s->buf, "  %-28.*s %lld\n", HT_STR_ARG(h->item[i].type),
				(long long)h->item[i].count);
		}
	}
}

/* Each op type once, with the reasons. */
static void put_refusals_json(struct inspect *s)
{
	struct ht_buf *b = &s->buf;
	const struct ht_refusal *r = s->refused.item;
	struct ht_map counts;

	ht_map_init(&counts, &s->w->arena);
	for (size_t i = 0; i < s->refused.n; i++) {
		struct ht_map_entry *e = ht_map_at(&counts, r[i].type);

		e->value = (void *)((uintptr_t)e->value + r[i].nodes);
	}
	ht_puts(b, "},\n \"unsupported\": {");
	for (size_t i = 0; i < counts.count; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, counts.entries[i].key);
		ht_printf(b, ": %zu", (size_t)(uintptr_t)counts.entries[i].value);
	}
	ht_puts(b, "},\n \"refusals\": [");
	for (size_t i = 0; i < s->refused.n; i++) {
		ht_puts(b, i ? ",\n  {\"op\": " : "\n  {\"op\": ");
		ht_put_json(b, r[i].type);
		ht_put_member(b, "node", r[i].first);
		ht_put_member(b, "part", r[i].part);
		ht_put_member(b, "why", ht_str(r[i].why));
		ht_printf(b, ", \"nodes\": %zu, \"blocks\": %zu}", r[i].nodes, r[i].blocks);
	}
	ht_puts(b, "],\n \"input_shape\": ");
	if (s->open.n)
		ht_put_json(b, s->open);
	else
		ht_puts(b, "null");
}

static void put_refusals_text(struct inspect *s)
{
	struct ht_buf *b = &s->buf;

	if (s->open.n)
		ht_printf(b,
			"open shapes: a run needs --input-shape '%.*s', with a size for each ?\n",
			HT_STR_ARG(s->open));
	ht_puts(b, s->refused.n ? "unsupported:\n" : "unsupported: none\n");
	for (size_t i = 0; i < s->refused.n; i++) {
		const struct ht_refusal *r = &s->refused.item[i];

		ht_printf(b, "  %-28.*s %zu  ", HT_STR_ARG(r->type), r->nodes);
		ht_refusal_print(r, b);
		ht_putc(b, '\n');
	}
}

static void put_json(struct inspect *s)
{
	struct ht_buf *b = &s->buf;

	ht_puts(b, "{\"schema\": \"halftone.inspect/1\",\n \"model\": ");
	ht_put_json(b, ht_str(s->m->graph->path ? s->m->graph->path : ""));
	ht_puts(b, ",\n \"signatures\": [");
	for (const struct ht_entry *e = s->m->graph->entries; e; e = e->next) {
		ht_put_json(b, e->name);
		ht_puts(b, e->next ? ", " : "");
	}
	ht_puts(b, "],\n \"inputs\": [");
	put_inputs(s);
	ht_puts(b, "],\n \"outputs\": [");
	put_outputs(s);
	ht_printf(b, "],\n \"nodes\": %zu,\n \"functions\": %zu,\n \"ops\": {", s->nodes,
		s->functions);
	put_histogram(s, &s->ops);
	put_refusals_json(s);
	ht_puts(b, ",\n \"multiply_adds\": ");
	if (s->multiply_adds < 0)
		ht_puts(b, "null");
	else
		ht_printf(b, "%lld", (long long)s->multiply_adds);
	ht_printf(b, ",\n \"weight_bytes\": %zu}\n", s->weight_bytes);
}

static void put_text(struct inspect *s)
{
	struct ht_buf *b = &s->buf;
	size_t signatures = 0;

	for (const struct ht_entry *e = s->m->graph->entries; e; e = e->next)
		if (e->name.n)
			ht_printf(b, "%s%.*s",
				signatures++ ? ", " : "signatures: ", HT_STR_ARG(e->name));
	ht_puts(b, signatures ? "\ninputs:\n" : "inputs:\n");
	put_inputs(s);
	ht_puts(b, "outputs:\n");
	put_outputs(s);
	ht_printf(b, "ops (%zu nodes, %zu functions):\n", s->nodes, s->functions);
	put_histogram(s, &s->ops);
	put_refusals_text(s);
	if (s->multiply_adds >= 0)
		ht_printf(b, "multiply-adds: %lld\n", (long long)s->multiply_adds);
	ht_printf(b, "weight bytes: %zu\n", s->weight_bytes);
}

static enum ht_status inspect(void *arg)
{
	struct inspect *s = arg;

	s->kept = &s->w->arena;
	ht_buf_init(&s->buf, s->kept);
	s->ops = count_types(s->m->graph, &s->w->arena);
	s->nodes = s->m->graph->nodes;
	for (const struct ht_function *f = s->m->graph->functions; f; f = f->next)
		s->functions++;
	HT_TRY(look(s));
	if (s->format == HT_FORMAT_JSON)
		put_json(s);
	else
		put_text(s);
	return ht_bytes_of(ht_buf_str(&s->buf), s->out);
}

enum ht_status ht_model_inspect(
	const struct ht_model *m, enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct inspect s = { .m = m, .format = format, .w = &w, .d = d, .out = out };

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&w, inspect, &s, d);
}

/* ---- nodes without kernels, one by one ---- */

static void put_missing_json(struct inspect *s)
{
	struct ht_buf *b = &s->buf;

	ht_puts(b, "{\"schema\": \"halftone.missing/1\",\n \"missing\": [");
	for (size_t i = 0; i < s->refused.n; i++) {
		const struct ht_refusal *r = &s->refused.item[i];

		ht_puts(b, i ? ",\n  {\"op\": " : "\n  {\"op\": ");
		ht_put_json(b, r->type);
		ht_put_member(b, "why", ht_str(r->why));
		ht_printf(b, ", \"blocks\": %zu, \"nodes\": [", r->blocks);
		for (size_t k = 0; k < r->nodes; k++) {
			ht_puts(b, k ? ", " : "");
			ht_put_json(b, r->name[k]);
		}
		ht_puts(b, "]}");
	}
	ht_puts(b, "]}\n");
}

static void put_missing_text(struct inspect *s)
{
	struct ht_buf *b = &s->buf;

	if (!s->refused.n)
		ht_puts(b, "every op has a kernel\n");
	for (size_t i = 0; i < s->refused.n; i++) {
		const struct ht_refusal *r = &s->refused.item[i];

		ht_printf(b, "%.*s ", HT_STR_ARG(r->type));
		ht_refusal_print(r, b);
		ht_putc(b, '\n');
		for (size_t k = 0; k < r->nodes; k++)
			ht_printf(b, "  %.*s\n", HT_STR_ARG(r->name[k]));
	}
}

static enum ht_status find_missing(void *arg)
{
	struct inspect *s = arg;
	struct ht_work *whole = s->w;
	enum ht_status st;

	s->kept = &whole->arena;
	ht_buf_init(&s->buf, s->kept);
	s->w = ht_work_within(whole);
	st = find_refusals(s);
	ht_work_release(s->w);
	s->w = whole;
	HT_TRY(st);
	if (s->format == HT_FORMAT_JSON)
		put_missing_json(s);
	else
		put_missing_text(s);
	return ht_bytes_of(ht_buf_str(&s->buf), s->out);
}

enum ht_status ht_model_missing(
	const struct ht_model *m, enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct inspect s = {
		.m = m, .format = format, .w = &w, .d = d, .out = out, .missing = true
	};

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&w, find_missing, &s, d);
}
