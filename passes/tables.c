/* tables: tables that the model fills with constants get these as attributes, "_keys" and
 * "_values".
 *
 * One node makes a table and another node fills it.  The entry does not reach the second one:
 * the model's initialiser runs it, often in a function that takes the table, keys and values as
 * arguments.  So this pass examines the whole graph, before anything is pruned.  The node that
 * fills a table then becomes a NoOp for entries that reach it.
 *
 * Whole numbers that count up, and casts of whole numbers, count as constants: TensorFlow 1 writes the numbers of a vocabulary so.
 *
 * A text file that the graph names counts as constants, too (passes/tables_file.c).  A mutable
 * table gets what the model's saver restores from the checkpoint as "_first_keys" and
 * "_first_values".
 *
 * Left alone, and refused by lowering: tables that are filled with values that are not constant,
 * from a file that is named when the program runs, or by several nodes with different contents.
 * A key with two different values is an error, as in TensorFlow. */
#include "base/object.h"
#include "kernel/kernel.h"
#include "passes/passes.h"
#include "passes/tables_file.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_CALLS = 100000, MOST_DEPTH = 100, MOST_COUNTED = 1 << 24 };

/* A call whose body is being visited; NULL: the graph itself. */
struct frame {
	const struct ht_node *call;
	const struct ht_function *f;
	const struct frame *up;
	int depth;
};

/* The contents with which a table is filled. */
struct contents {
	struct ht_node *by;
	struct ht_tensor *keys, *values;
	bool unclear; /* several nodes fill it with different contents, or the contents are not
		       * constant */
};

struct tables {
	struct ht_graph *g;
	struct ht_pass_context *c;
	struct ht_map of;      /* name of a table → struct contents */
	struct ht_map fillers; /* functions, by name: whether they or their callees fill tables */
	struct ht_map idle;    /* nodes that fill a table whose contents are known, by address */
	size_t calls;
	int64_t counted; /* elements of lists that were computed */
	enum ht_status status;
};

static char yes, no;

static enum ht_status fail(struct tables *t, enum ht_status st, const struct ht_node *n,
	const char *fmt, ...) HT_PRINTF(4, 5);
static enum ht_status fail(
	struct tables *t, enum ht_status st, const struct ht_node *n, const char *fmt, ...)
{
	struct ht_where at = { .path = t->g->path, .node = n->name, .op = n->type, .offset = -1 };
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	t->status = ht_error(t->c->diags, st, at, "%s", text);
	return t->status;
}

static bool is_filler(const struct ht_node *n)
{
	return ht_fills_table(n) || ht_fills_table_from_file(n);
}

/* ---- tracing values through calls ---- */

static int32_t number_of_argument(const struct ht_function *f, const struct ht_node *n)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (p->value.node == n)
			return i;
	return -1;
}

/* Traces a value through identities and arguments; the node is NULL if the call passes none.
 * *at becomes the call whose body has the node. */
static struct ht_value trace(struct ht_value v, const struct frame **at)
{
	for (;;) {
		const struct frame *in = *at;

		if (ht_is(v.node, HT_FORWARDS) && v.index >= 0 && v.index < v.node->ins) {
			v = v.node->in[v.index];
		} else if (in && ht_is(v.node, HT_ARGUMENT)) {
			int32_t i = number_of_argument(in->f, v.node);

			if (i < 0 || i >= in->call->ins)
				return (struct ht_value){ 0 };
			v = in->call->in[i];
			*at = in->up;
		} else {
			return v;
		}
	}
}

static struct ht_value origin_of(struct ht_value v, const struct frame *in)
{
	return trace(v, &in);
}

static struct ht_tensor *constant(struct ht_value from)
{
	const struct ht_tensor *t = from.node ? ht_const_tensor(from) : NULL;

	if (from.node && !t)
		t = ht_const_text(from);
	return (struct ht_tensor *)(uintptr_t)t;
}

/* ---- numbers that are computed of constants ---- */

static uint64_t bytes_of(const struct ht_tensor *t)
{
	return (uint64_t)ht_shape_count(t->shape) * ht_dtype_info(t->dtype)->bytes;
}

/* The file may state fewer elements if the last ones are equal. */
static bool is_whole(const struct ht_tensor *t)
{
	return t->dtype == HT_STRING ? t->values == (size_t)ht_shape_count(t->shape)
				     : t->blob->n == bytes_of(t);
}

/* A list whose elements the caller sets; NULL: all lists together would have too many. */
static struct ht_tensor *whole_numbers(struct tables *t, enum ht_dtype type, int64_t count)
{
	struct ht_blob *b;

	if (count > MOST_COUNTED - t->counted)
		return NULL;
	t->counted += count;
	b = ht_blob_in(t->g->arena, (size_t)count * ht_dtype_info(type)->bytes);
	return ht_tensor_new(
		t->g->arena, type, ht_shape_make(t->g->arena, 1, &count), ht_blob_ref(b));
}

static void set_whole(const struct ht_tensor *t, int64_t i, int64_t x)
{
	void *p = (void *)(uintptr_t)t->blob->p;

	if (t->dtype == HT_I64)
		((int64_t *)p)[i] = x;
	else
		((int32_t *)p)[i] = (int32_t)x;
}

/* One whole number; false: it is not known. */
static bool known_number(struct ht_value v, const struct frame *in, int64_t *x)
{
	const struct ht_tensor *t = constant(origin_of(v, in));

	if (!t || !ht_is_index(t->dtype) || ht_shape_count(t->shape) != 1 || !is_whole(t))
		return false;
	*x = ht_tensor_int(t, 0);
	return true;
}

/* The numbers of a Range whose step is 1; NULL: it is none. */
static struct ht_tensor *counted(struct tables *t, const struct ht_node *n, const struct frame *in)
{
	enum ht_dtype type = ht_type_attr(n, "Tidx");
	int64_t first, end, step, count;
	struct ht_tensor *list;

	if (!ht_is_index(type) || n->ins != 3 || !known_number(n->in[0], in, &first) ||
		!known_number(n->in[1], in, &end) || !known_number(n->in[2], in, &step) ||
		step != 1 || __builtin_sub_overflow(end, first, &count) || count < 0)
		return NULL;
	list = whole_numbers(t, type, count);
	for (int64_t i = 0; list && i < count; i++)
		set_whole(list, i, first + i);
	return list;
}

/* A list of whole numbers in another type; NULL: it is none, or the file states fewer elements. */
static struct ht_tensor *cast_to(struct tables *t, const struct ht_tensor *from, enum ht_dtype type)
{
	int64_t count = from->shape.rank == 1 ? ht_shape_count(from->shape) : -1;
	struct ht_tensor *to;

	if (count < 0 || !ht_is_index(from->dtype) || !ht_is_index(type) || !is_whole(from))
		return NULL;
	to = whole_numbers(t, type, count);
	for (int64_t i = 0; to && i < count; i++)
		set_whole(to, i, ht_tensor_int(from, (size_t)i));
	return to;
}

/* The value of a constant, or of a list that counts up; either may be cast once, as TensorFlow 1 writes the contents of its tables. */
static struct ht_tensor *constant_of(struct tables *t, struct ht_value v, const struct frame *in)
{
	struct ht_value from = trace(v, &in);
	const struct ht_node *cast =
		from.node && from.node->op == HT_OP_Cast && from.node->ins == 1 ? from.node : NULL;
	struct ht_tensor *x;

	if (cast)
		from = trace(cast->in[0], &in);
	x = constant(from);
	if (!x && from.node && from.node->op == HT_OP_Range)
		x = counted(t, from.node, in);
	return x && cast ? cast_to(t, x, ht_type_attr(cast, "DstT")) : x;
}

/* ---- filling ---- */

static bool are_same_strings(const struct ht_tensor *a, const struct ht_tensor *b)
{
	if (a->values != b->values)
		return false;
	for (size_t i = 0; i < a->values; i++)
		if (!ht_str_eq(a->strings[i], b->strings[i]))
			return false;
	return true;
}

static bool are_same(const struct ht_tensor *a, const struct ht_tensor *b)
{
	if (a == b)
		return true;
	if (a->dtype != b->dtype || !ht_shape_eq(a->shape, b->shape))
		return false;
	if (a->dtype == HT_STRING)
		return are_same_strings(a, b);
	return a->blob->n == b->blob->n && !memcmp(a->blob->p, b->blob->p, a->blob->n);
}

static void note_contents(struct tables *t, struct ht_node *by, const struct ht_node *table,
	struct ht_tensor *keys, struct ht_tensor *values)
{
	struct ht_map_entry *e = ht_map_at(&t->of, ht_variable_name(table));
	struct contents *c = e->value;

	if (!c) {
		c = e->value = HT_NEW(t->c->scratch, struct contents);
		*c = (struct contents){ by, keys, values, !keys || !values };
	} else if (!keys || !values || c->unclear || !are_same(c->keys, keys) ||
		   !are_same(c->values, values)) {
		c->unclear = true;
	}
}

static struct ht_str key_of(struct tables *t, const struct ht_node *n)
{
	return ht_str_printf(t->c->scratch, "%p", (const void *)n);
}

/* The file whose name is the value `v`; NULL: the graph does not name it.  The name may be read
 * from a variable, whose node has it then. */
static const struct ht_named_file *file_of(
	struct tables *t, struct ht_value v, const struct frame *in)
{
	const struct ht_named_file *f = t->g->named_files;
	struct ht_value from = origin_of(v, in);

	if (from.node && ht_is(from.node, HT_READS_VARIABLE))
		from = origin_of(from.node->in[0], in);
	if (!from.node || from.node->graph != t->g)
		return NULL;
	while (f && !ht_str_eq(f->node, from.node->name))
		f = f->next;
	return f;
}

/* The keys and values that a file has for a table; both NULL: the file is not known. */
static void read_file(struct tables *t, const struct ht_node *n, const struct ht_node *table,
	const struct frame *in, struct ht_tensor **keys, struct ht_tensor **values)
{
	const struct ht_named_file *f = file_of(t, n->in[1], in);

	*keys = *values = NULL;
	if (f && !f->file)
		t->status = ht_error(t->c->diags, HT_E_INPUT,
			(struct ht_where){
				.path = f->path, .node = n->name, .op = n->type, .offset = -1 },
			"the file of the table is not read: %s", f->why);
	else if (f)
		t->status = ht_table_of_file(n, f, table, t->g->arena, t->c->diags, keys, values);
}

/* The tensor of the checkpoint that the value `v` is restored from; NULL: it is not. */
static struct ht_tensor *restored(struct tables *t, struct ht_value v, const struct frame *in)
{
	struct ht_value from = trace(v, &in);
	const struct ht_tensor *names;
	struct ht_tensor *found = NULL;
	size_t i;

	if (!from.node || !ht_restores(from.node))
		return NULL;
	names = constant_of(t, from.node->in[1], in);
	i = (size_t)from.index;
	if (!names || !names->strings || !names->values)
		return NULL;
	t->status = t->c->variables->read(t->c->variables->self,
		names->strings[i < names->values ? i : names->values - 1], t->g->arena, t->c->diags,
		&found);
	return t->status == HT_OK ? found : NULL;
}

/* A mutable table begins with the contents that the model's saver restores. */
static void read_restored(struct tables *t, const struct ht_node *n, const struct ht_node *table,
	const struct frame *in)
{
	struct ht_tensor *keys, *values;

	if (!ht_fills_table(n) || !t->g->checkpoint || !t->c->variables)
		return;
	keys = restored(t, n->in[1], in);
	values = keys ? restored(t, n->in[2], in) : NULL;
	if (values)
		note_contents(t, (struct ht_node *)(uintptr_t)n, table, keys, values);
}

static void look_at_filler(struct tables *t, struct ht_node *n, const struct frame *in)
{
	struct ht_value table = origin_of(n->in[0], in);
	bool known = table.node && ht_is_table(table.node) && !ht_is_mutable_table(table.node);
	struct ht_map_entry *e = ht_map_at(&t->idle, key_of(t, n));
	struct ht_tensor *keys = NULL, *values = NULL;

	if (table.node && ht_is_mutable_table(table.node)) {
		read_restored(t, n, table.node, in);
		return;
	}
	if (ht_fills_table(n)) {
		keys = constant_of(t, n->in[1], in);
		values = constant_of(t, n->in[2], in);
	} else if (known) {
		read_file(t, n, table.node, in, &keys, &values);
	}
	if (t->status != HT_OK)
		return;
	if (known)
		note_contents(t, n, table.node, keys, values);
	if (!e->value || !known || !keys || !values)
		e->value = known && keys && values ? n : NULL;
}

/* ---- calls ---- */

static struct ht_function *callee_of(const struct ht_graph *library, const struct ht_node *n)
{
	if (ht_is(n, HT_CALLS_ONE))
		return ht_control_bodies(n).of[0];
	return n->op == HT_OP_OPAQUE ? ht_graph_function(library, n->type) : NULL;
}

static bool fills_within(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (is_filler(n))
			return true;
	return false;
}

/* Whether calling `f` may fill a table. */
static bool fills(struct tables *t, const struct ht_function *f)
{
	struct ht_map_entry *e = ht_map_at(&t->fillers, f->name);
	bool any = fills_within(f->body);
	struct ht_map called;

	if (e->value)
		return e->value == &yes;
	ht_called_functions(f->body, t->c->scratch, &called);
	for (size_t i = 0; !any && i < called.count; i++)
		any = fills_within(((struct ht_function *)called.entries[i].value)->body);
	e->value = any ? &yes : &no;
	return any;
}

/* NOLINTNEXTLINE(misc-no-recursion): MOST_DEPTH bounds it */
static void look(struct tables *t, const struct ht_graph *g, const struct frame *in)
{
	for (struct ht_node *n = g->first; n && t->status == HT_OK; n = n->next) {
		struct frame within = { n, callee_of(t->g->library, n), in,
			in ? in->depth + 1 : 1 };

		if (is_filler(n) && n->ins == (ht_fills_table(n) ? 3 : 2))
			look_at_filler(t, n, in);
		if (!within.f || !fills(t, within.f))
			continue;
		if (t->calls++ == MOST_CALLS || within.depth > MOST_DEPTH)
			fail(t, HT_E_LIMIT, n, "tables are filled by too many calls in calls");
		else
			look(t, within.f->body, &within);
	}
}

/* ---- tables ---- */

static struct ht_object_constant part_of(const struct ht_tensor *t)
{
	return (struct ht_object_constant){ t->blob->p, t->blob->n };
}

/* In the form of kernels: numbers in place of strings. */
static const struct ht_tensor *numbered(struct tables *t, const struct ht_tensor *part)
{
	struct ht_map strings;

	if (part->dtype != HT_STRING)
		return part;
	ht_strings_init(&strings, t->c->scratch);
	return ht_string_numbers(part, &strings, t->c->scratch);
}

static enum ht_status check(struct tables *t, const struct ht_node *table, const struct contents *c)
{
	const struct ht_tensor *keys = numbered(t, c->keys), *values = numbered(t, c->values);
	struct ht_object_parts parts = { .params = 3,
		.param = (const int64_t[]){ keys->dtype, values->dtype,
			ht_shape_count(keys->shape) },
		.constant = { part_of(keys), part_of(values) },
		.constants = 2 };
	uint64_t first, second;

	if (!ht_shape_known(ht_table_row(table)) ||
		ht_shape_count(c->keys->shape) * ht_shape_count(ht_table_row(table)) !=
			ht_shape_count(c->values->shape))
		return fail(t, HT_E_INPUT, c->by,
			"the table gets %" PRId64 " keys and %" PRId64 " values",
			ht_shape_count(c->keys->shape), ht_shape_count(c->values->shape));
	if (ht_is_mutable_table(table)) /* the last value counts */
		return HT_OK;
	if (ht_table_contradicts(&parts, &first, &second))
		return fail(t, HT_E_INPUT, c->by,
			"the table gets two different values for one key: elements %" PRIu64
			" and %" PRIu64,
			first, second);
	return HT_OK;
}

static bool has_types(const struct ht_node *n, const struct contents *c)
{
	return ht_type_attr(n, "key_dtype") == c->keys->dtype &&
	       ht_type_attr(n, "value_dtype") == c->values->dtype;
}

static bool is_clear(const struct contents *c)
{
	return c && !c->unclear && is_whole(c->keys) && is_whole(c->values);
}

/* A reference to the constant's tensor: the constant itself may be removed when no node needs
 * it.  Strings stay in the arena of the graph. */
static struct ht_tensor *shared(struct ht_graph *g, struct ht_tensor *t)
{
	return t->blob ? ht_tensor_sharing(g->arena, t->dtype, t->shape, t->blob) : t;
}

static void give_contents(struct tables *t, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n && t->status == HT_OK; n = n->next) {
		const struct contents *c =
			ht_is_table(n) ? ht_map_get(&t->of, ht_variable_name(n)) : NULL;

		if (!is_clear(c) || !has_types(n, c))
			continue;
		if (check(t, n, c) != HT_OK)
			return;
		ht_attr_set_tensor(
			n, ht_is_mutable_table(n) ? "_first_keys" : "_keys", shared(g, c->keys));
		ht_attr_set_tensor(n, ht_is_mutable_table(n) ? "_first_values" : "_values",
			shared(g, c->values));
	}
}

/* A dense table gets its empty and its deleted key as an attribute, if these are integers, and
 * becomes a table without them: it has no operands then, so that bodies can have it, too. */
static void reserve_keys(struct ht_node *n)
{
	int64_t key[2];
	const char *general = ht_general_table(n);

	for (int32_t i = 0; i < 2 && general; i++) {
		const struct ht_tensor *k = n->ins == 2 ? ht_const_tensor(n->in[i]) : NULL;

		if (!k || !ht_is_index(k->dtype) || ht_shape_count(k->shape) != 1)
			return;
		key[i] = ht_tensor_int(k, 0);
	}
	if (!general)
		return;
	ht_node_set_ins(n, NULL, 0);
	ht_node_set_type(n, ht_str(general));
	ht_attr_set_ints(n, "_reserved", key, 2);
}

/* All nodes of a mutable table know it by one name, in bodies, too. */
static void prepare_mutable(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		reserve_keys(n);
		if (ht_is_mutable_table(n))
			ht_attr_set_str(n, "shared_name", ht_variable_name(n));
	}
}

static void drop_fillers(struct tables *t, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		if (!is_filler(n) || !ht_map_get(&t->idle, key_of(t, n)))
			continue;
		ht_attrs_own(n);
		n->attrs = NULL;
		ht_node_set_ins(n, NULL, 0);
		ht_node_set_type(n, HT_STR("NoOp"));
	}
}

static bool has_tables(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is_table(n) || ht_general_table(n))
			return true;
	return false;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct tables t = { .g = g, .c = c };

	if (!has_tables(g))
		return HT_OK;
	ht_functions_own(g);
	prepare_mutable(g);
	ht_map_init(&t.of, c->scratch);
	ht_map_init(&t.fillers, c->scratch);
	ht_map_init(&t.idle, c->scratch);
	look(&t, g, NULL);
	give_contents(&t, g);
	drop_fillers(&t, g);
	for (struct ht_function *f = g->functions; f; f = f->next)
		drop_fillers(&t, f->body);
	return t.status;
}

const struct ht_pass ht_pass_tables = {
	.name = "tables",
	.summary = "finds the constants that the model fills its tables with",
	.run = run,
	.spares_functions = true,
};
