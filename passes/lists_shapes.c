/* Lists of shapes, which the loop of a gradient takes from the loop in front of it: a list of each extent alone.
 *
 * Most extents of such a shape are the same each time, and one may change from iteration to iteration.  As elements of one list they would
 * all count as changing, and each would have the bound of the largest.  What a list of one extent holds may prove to be one number, or one
 * size of the run, so that the list is not needed; and the extent that changes has a bound of its own (ranges.c). */
#include "passes/by_value.h"
#include "passes/computed_rows.h"
#include "passes/lists_beside.h"
#include "passes/lists_told.h"

/* The lists of extent `at` of each shape. */
struct split {
	struct ht_beside beside;
	int32_t at;
	struct ht_map read; /* by element that was read: the Pack of its extents, in its place */
};

/* How many extents the shapes of a list have; 0: it is no such list, or need not be divided. */
static int32_t extents_in(const struct ht_list *x)
{
	if (!x->empty || !x->various || x->whole || x->summed || !ht_is_index(x->dtype) ||
		!ht_list_is_known(x) || x->shape.rank != 1 || x->shape.dim[0] < 2 ||
		x->shape.dim[0] > HT_MAX_RANK)
		return 0;
	return (int32_t)x->shape.dim[0];
}

static struct split *split_of(struct ht_beside_part *p)
{
	return (struct split *)(void *)p->x;
}

static struct ht_value list_node(
	struct maker *f, enum ht_op op, const struct ht_value *in, int32_t ins, struct ht_type t)
{
	struct ht_value x = node(f, op, in, ins, t.dtype, t.shape);

	ht_rw_copy_attr(x.node, f->at, "element_dtype");
	return x;
}

static struct ht_value scalar_shape(struct maker *f)
{
	return ht_rw_const_ints(f->r, f->at, f->at->name, HT_I32, NULL, 0);
}

/* The list of shapes states how many extents these have, as nothing that is set tells it any more. */
static void make_reserve(struct ht_beside_part *p, struct maker *f, int64_t extents)
{
	const struct ht_value in[] = { scalar_shape(f), f->at->in[1] };
	struct ht_value x = list_node(f, HT_OP_TensorListReserve, in, 2, HT_LIST_TYPE);

	ht_attr_set_type(x.node, "shape_type", HT_I32);
	ht_attr_set_bool(x.node, HT_LIST_EMPTY, true);
	ht_beside_set(p->x, ht_out(f->at, 0), x);
	ht_rw_set_in(f->r, f->at, 0, wholes(f, HT_I32, &extents, 1));
	ht_attr_set_type(f->at, "shape_type", HT_I32);
}

/* When all extents have lists, nothing sets elements of the list of shapes any more. */
static void make_set(struct ht_beside_part *p, struct maker *f, int32_t extents)
{
	const int32_t at = split_of(p)->at;
	struct ht_node *n = f->at;
	const struct ht_value in[] = { ht_beside_of(p->x, n->in[0]), n->in[1],
		element(f, n->in[2], at) };
	struct ht_value x = list_node(f, HT_OP_TensorListSetItem, in, 3, HT_LIST_TYPE);

	if (at == extents - 1)
		ht_beside_hand_on(p, n, x);
	else
		ht_beside_set(p->x, ht_out(n, 0), x);
}

/* Uses of a shape get a Pack of its extents, of which each walk over the graph sets one. */
static void make_get(struct ht_beside_part *p, struct maker *f, int32_t extents)
{
	struct split *s = split_of(p);
	struct ht_node *n = f->at;
	const struct ht_value in[] = { ht_beside_of(p->x, n->in[0]), n->in[1], scalar_shape(f) };
	struct ht_value all[HT_MAX_RANK], x;
	struct ht_node *pack = ht_by_value(&s->read, ht_out(n, 0));

	x = list_node(f, HT_OP_TensorListGetItem, in, 3,
		(struct ht_type){ n->out[0].dtype, HT_SHAPE_SCALAR });
	if (pack) {
		ht_node_move(pack, n); /* behind its new operand */
		ht_rw_set_in(f->r, pack, s->at, x);
		return;
	}
	for (int32_t i = 0; i < extents; i++)
		all[i] = x;
	x = packed(f, all, extents);
	ht_set_by_value(&s->read, p->x->l->c->scratch, ht_out(n, 0), x.node);
	ht_rw_replace_behind(f->r, ht_out(n, 0), x);
}

static void change(struct ht_beside_part *p, struct ht_node *n)
{
	struct maker f = { .r = &p->r, .at = n, .name = n->name };
	int32_t extents =
		extents_in(ht_list_of(p->x->l, ht_makes_list(n) ? ht_out(n, 0) : n->in[0]));

	if (ht_makes_list(n))
		make_reserve(p, &f, extents);
	else if (n->op == HT_OP_TensorListSetItem)
		make_set(p, &f, extents);
	else if (n->op == HT_OP_TensorListGetItem)
		make_get(p, &f, extents);
}

static bool has_extent(const struct ht_beside *x, const struct ht_list *of)
{
	return ((const struct split *)(const void *)x)->at < extents_in(of);
}

/* The most extents that shapes in a list have; 0: there is no such list. */
static int32_t most_extents(const struct ht_lists *l)
{
	int32_t most = 0;

	for (size_t i = 0; i < l->of.count; i++) {
		const struct ht_list *x = l->of.entries[i].value;
		int32_t extents = x->same ? 0 : extents_in(x);

		most = extents > most ? extents : most;
	}
	return most;
}

void ht_lists_split_shapes(struct ht_lists *l, struct ht_graph *g, bool *changed)
{
	struct split s = { .beside = { l, .has = has_extent, .change = change } };
	int32_t most = most_extents(l);

	s.beside.type = HT_LIST_TYPE;
	ht_map_init(&s.read, l->c->scratch);
	for (s.at = 0; s.at < most; s.at++) {
		s.beside.n = 0;
		ht_beside_add(&s.beside, g);
	}
	*changed = most > 0;
}
