/* Adds operands and results to branches and loops, and extends the attributes with their types
 * and shapes. */
#include "passes/carry.h"

#include <string.h>

#include "passes/outline.h"

static void append_item(struct ht_node *n, const char *name, struct ht_attr_value item)
{
	struct ht_attr *a = ht_attr_own(n, name);
	struct ht_attr_value *more;

	if (!a || a->value.kind != HT_ATTR_LIST || !a->value.list.n)
		return;
	more = HT_NEW_ARRAY(n->graph->arena, struct ht_attr_value, a->value.list.n + 1);
	memcpy(more, a->value.list.item, a->value.list.n * sizeof *more);
	more[a->value.list.n++] = item;
	a->value.list.item = more;
}

/* A branch without operands or results has an empty list, whose items have no kind yet. */
static void append_type(struct ht_node *n, const char *name, enum ht_dtype t, int32_t at)
{
	if (at)
		append_item(n, name, (struct ht_attr_value){ .kind = HT_ATTR_TYPE, .type = t });
	else
		ht_attr_set_types(n, name, &t, 1);
}

void ht_carry_operand(struct ht_rw *r, struct ht_node *n, struct ht_value v)
{
	struct ht_value *in = HT_NEW_ARRAY(r->arena, struct ht_value, (size_t)n->ins + 1);
	int32_t at = n->ins - ht_control_first(n);

	memcpy(in, n->in, (size_t)n->ins * sizeof *in);
	in[n->ins] = v;
	ht_rw_set_ins(r, n, in, n->ins + 1);
	append_type(n, ht_is(n, HT_LOOPS) ? "T" : "Tin", ht_type_of(v)->dtype, at);
}

struct ht_value ht_carry_result(struct ht_node *n, struct ht_type t)
{
	int32_t at = n->outs;

	ht_node_set_outs(n, at + 1);
	n->out[at] = t;
	if (!ht_is(n, HT_LOOPS))
		append_type(n, "Tout", t.dtype, at);
	append_item(n, "output_shapes",
		(struct ht_attr_value){ .kind = HT_ATTR_SHAPE, .shape = { t.shape, NULL } });
	return ht_out(n, at);
}

static struct ht_port **end_of(struct ht_port **p)
{
	while (*p)
		p = &(*p)->next;
	return p;
}

struct ht_value ht_carry_argument(struct ht_function *f, struct ht_type t)
{
	struct ht_port **end = end_of(&f->args);
	struct ht_value arg;
	int32_t args = 0;

	for (const struct ht_port *p = f->args; p; p = p->next)
		args++;
	arg = ht_function_add_arg(f, &end, t.dtype, args);
	*ht_type_of(arg) = t;
	ht_node_move(arg.node, f->body->first);
	return arg;
}

void ht_carry_return(struct ht_function *f, struct ht_value v)
{
	struct ht_port **end = end_of(&f->rets);

	ht_function_add_ret(f, &end, v);
}

static void set_item_type(struct ht_node *n, const char *attr, int32_t i, enum ht_dtype t)
{
	struct ht_attr *a = ht_attr_own(n, attr);

	if (a && a->value.kind == HT_ATTR_TYPE)
		a->value.type = t;
	else if (a && a->value.kind == HT_ATTR_LIST && (size_t)i < a->value.list.n)
		a->value.list.item[i].type = t;
}

/* An attribute has no names for open sizes; inference finds them. */
static void set_item_shape(struct ht_node *n, int32_t i, struct ht_shape s)
{
	struct ht_attr *a = ht_attr_own(n, "output_shapes");
	int64_t dim[HT_MAX_RANK];

	for (int32_t k = 0; k < s.rank; k++)
		dim[k] = s.dim[k] < 0 ? HT_DIM_UNKNOWN : s.dim[k];
	s = s.rank < 0 ? s : ht_shape_make(n->graph->arena, s.rank, dim);
	if (a && a->value.kind == HT_ATTR_LIST && a->value.list.kind == HT_ATTR_SHAPE &&
		(size_t)i < a->value.list.n)
		a->value.list.item[i].shape.shape = s;
}

void ht_carry_operand_type(struct ht_node *n, int32_t i, struct ht_type t)
{
	set_item_type(n, ht_is(n, HT_BRANCHES) ? "Tin" : "T", i, t.dtype);
}

void ht_carry_result_type(struct ht_node *n, int32_t i, struct ht_type t)
{
	set_item_type(n, ht_is(n, HT_BRANCHES) ? "Tout" : "T", i, t.dtype);
	set_item_shape(n, i, t.shape);
}
