/* Columns: combinations of dtypes of all tensors of a node that one kernel computes. */
#include "precision/precision.h"

#include <string.h>

/* ---- the columns of a profile for an op in given dtypes ---- */

struct offering {
	struct ht_precision *p;
	const struct ht_node *n; /* one of the nodes that the offer is for */
	const struct ht_op_info *info;
	struct ht_offer *offer;
};

/* Adds a column, unless there is an equal one: kernels may differ in other things than dtypes. */
static void add_column(struct offering *o, const struct ht_column *column)
{
	struct ht_offer *to = o->offer;

	for (int i = 0; i < to->columns; i++)
		if (!memcmp(&to->column[i], column, sizeof *column))
			return;
	HT_CHECK(to->columns < HT_MAX_COLUMNS);
	to->column[to->columns++] = *column;
}

/* Formals have the dtypes of their attributes; a formal without an attribute has the dtype that
 * the op fixes. */
static void fill_formals(const struct offering *o, const struct ht_op_arg *formal, int formals,
	uint8_t *dtype, const struct ht_column *column)
{
	for (int i = 0; i < formals; i++)
		dtype[i] = (uint8_t)(formal[i].type_attr < 0
					     ? ht_formal_from(o->p, o->n, &formal[i])
					     : column->dtype[(int)formal[i].type_attr]);
}

/* Adds the column of the node with every float attribute that may change set to `t`. */
static void add_uniform(struct offering *o, enum ht_dtype t)
{
	struct ht_column column = { 0 };

	for (int i = 0; i < o->info->type_attrs; i++) {
		const struct ht_op_type_attr *a = &o->info->type_attr[i];
		column.dtype[i] = ht_unit_of(o->p, o->n, i)->from;
		if (t == HT_INVALID || !ht_is_policy_float(column.dtype[i]) ||
			ht_profile_keeps(o->p->profile, o->n->type, a->name))
			continue;
		if (!(a->allowed >> t & 1))
			return;
		column.dtype[i] = t;
	}
	fill_formals(o, o->info->arg, o->info->args, column.arg, &column);
	fill_formals(o, o->info->result, o->info->results, column.result, &column);
	add_column(o, &column);
}

/* Adds the column of a matrix product or convolution of float16 operands with a float32 result,
 * which any kernel that computes in float32 can give.  A bias stays float32. */
static void add_cube(struct offering *o)
{
	struct ht_column column = { 0 };
	int operands = 0;

	for (int i = 0; i < o->offer->columns; i++)
		if (o->offer->column[i].result[0] == HT_F32)
			column = o->offer->column[i];
	for (int i = 0; i < o->info->args && operands < 2; i++)
		if (column.arg[i] == HT_F32) {
			column.arg[i] = HT_F16;
			operands++;
		}
	if (operands)
		add_column(o, &column);
}

/* The dtype that an attribute needs so that its formals can hold the kernel's operands and
 * results: the widest, if they differ. */
static enum ht_dtype widest(const struct offering *o, const struct ht_column *c, int attr)
{
	enum ht_dtype t = HT_INVALID;

	for (int side = 0; side < 2; side++) {
		const struct ht_op_arg *formal = side ? o->info->result : o->info->arg;
		const uint8_t *dtype = side ? c->result : c->arg;
		for (int i = 0; i < (side ? o->info->results : o->info->args); i++) {
			if (formal[i].type_attr != attr || dtype[i] == t)
				continue;
			t = t == HT_INVALID ? (enum ht_dtype)dtype[i] : HT_F32;
		}
	}
	return t == HT_INVALID ? ht_unit_of(o->p, o->n, attr)->from : t;
}

/* Reads one side of a column from a table; formals beyond the end have the last dtype.  Returns
 * the next side. */
static const uint8_t *take_side(const uint8_t *side, uint8_t *dtype, int formals)
{
	for (int i = 0; i < formals && side[0]; i++)
		dtype[i] = side[i < side[0] ? i + 1 : side[0]];
	return side + side[0] + 1;
}

static const uint8_t *add_kernel(struct offering *o, const uint8_t *at)
{
	struct ht_column column = { 0 };

	at = take_side(at, column.arg, o->info->args);
	at = take_side(at, column.result, o->info->results);
	for (int i = 0; i < o->info->type_attrs; i++) {
		column.dtype[i] = widest(o, &column, i);
		if (!(o->info->type_attr[i].allowed >> column.dtype[i] & 1))
			return at;
	}
	add_column(o, &column);
	return at;
}

static void add_kernels(struct offering *o)
{
	const struct ht_profile *profile = o->p->profile;
	const struct ht_kernel_row *row =
		ht_profile_kernels(profile, ht_profile_vendor_type(profile, o->n->type));
	const uint8_t *at = row ? row->columns : NULL;

	for (size_t i = 0; row && i < row->count; i++)
		at = add_kernel(o, at);
	if (row)
		return;
	o->offer->assumed = true;
	for (const uint8_t *t = profile->otherwise; *t; t++)
		add_uniform(o, (enum ht_dtype) * t);
}

static void add_recorded(struct offering *o, const struct ht_op_record *record)
{
	const uint8_t *at = record->column;

	for (size_t i = 0; i < record->columns; i++)
		at = add_kernel(o, at);
}

/* On a machine with computed columns the node's own dtypes come first: the node takes them if
 * nothing narrows the columns. */
static void add_computed(struct offering *o)
{
	static const enum ht_dtype order[] = { HT_INVALID, HT_F32, HT_F16, HT_BF16 };

	for (size_t i = 0; i < HT_COUNT(order); i++)
		add_uniform(o, order[i]);
	if (o->offer->cube)
		add_cube(o);
}

static struct ht_offer *new_offer(struct ht_precision *p, const struct ht_node *n)
{
	struct ht_offer *offer = HT_NEW(p->arena, struct ht_offer);
	const struct ht_op_record *record = ht_record_of(p, n);
	struct offering o = { p, n, ht_op_info(n->op), offer };

	offer->class = ht_class_of(p, n, &offer->list);
	if (offer->class == HT_CLASS_UNKNOWN)
		return offer;
	offer->still = ht_profile_is_still(p->profile, n);
	offer->cube = ht_profile_is_cube(p->profile, n);
	offer->promotes = ht_profile_promotes(p->profile, n);
	offer->labels = HT_NEW(p->arena, struct ht_offer_labels);
	offer->column = HT_NEW_ARRAY(p->arena, struct ht_column, HT_MAX_COLUMNS);
	if (record && record->columns)
		add_recorded(&o, record);
	else if (p->profile->computed_columns)
		add_computed(&o);
	else
		add_kernels(&o);
	return offer;
}

static const struct ht_offer *offer_of(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	uint32_t key[1 + HT_MAX_TYPE_ATTRS] = { (uint32_t)n->op };
	struct ht_str k = { (const char *)key, sizeof key };
	struct ht_offer *offer;

	for (int i = 0; i < info->type_attrs; i++)
		key[1 + i] = ht_unit_of(p, n, i)->from;
	offer = ht_map_get(&p->offers, k);
	if (offer)
		return offer;
	offer = new_offer(p, n);
	ht_map_at(&p->offers, ht_str_copy(p->arena, k))->value = offer;
	return offer;
}

/* ---- one node ---- */

bool ht_is_judged(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	bool floats = false;

	if (n->op == HT_OP_OPAQUE || ht_is(n, HT_CONSTANT) || info->effects)
		return false;
	for (int i = 0; i < info->type_attrs; i++) {
		struct ht_unit *u = ht_unit_of(p, n, i);
		if (u->fixed || ht_unit_root(p, u)->fixed || ht_unit_root(p, u) != u)
			return false;
		floats |= ht_is_policy_float(u->from);
	}
	return floats;
}

void ht_columns_build(struct ht_precision *p, const struct ht_node *n, struct ht_choice *c)
{
	if (!ht_is_judged(p, n))
		return;
	c->offer = offer_of(p, n);
	c->class = c->offer->class;
	c->list = c->offer->list;
	c->column = c->offer->column;
	c->columns = c->offer->columns;
	c->left = c->columns == 64 ? UINT64_MAX : (UINT64_C(1) << c->columns) - 1;
}

bool ht_narrow_columns(struct ht_choice *c, struct ht_tensor_of of, enum ht_dtype t)
{
	uint64_t left = 0;

	for (int i = 0; i < c->columns; i++)
		if ((c->left >> i & 1) && ht_column_dtype(&c->column[i], of) == t)
			left |= UINT64_C(1) << i;
	if (!left)
		return false;
	c->left = left;
	return true;
}

const struct ht_column *ht_first_column(const struct ht_choice *c)
{
	return &c->column[__builtin_ctzll(c->left)];
}

void ht_settle(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	struct ht_choice *c = &p->choice[n->id];

	if (!c->columns)
		return;
	c->taken = ht_first_column(c);
	for (int i = 0; i < info->type_attrs; i++)
		ht_unit_of(p, n, i)->to = c->taken->dtype[i];
}
