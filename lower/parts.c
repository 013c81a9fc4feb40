/* Parts of a batch.
 *
 * If each row of the results, along the first dimension, depends on the same row of the inputs
 * only, the steps are made for one part of the batch and run once for each part.  A thread runs
 * all steps of a part, so the tensors between steps stay in its caches, and threads need no
 * barriers.  The graph that is lowered is a copy with the shapes of a part, which shares the
 * constants.
 *
 * Every part reads all weights, and packs those that are not constant.  So the products of a
 * part need enough rows, and constant weights. */
#include "image/image.h"
#include "lower/index.h"
#include "lower/parts.h"

#include <string.h>

enum {
	LEAST_ROWS = 32 /* rows that a part needs in each product, as it reads a weight once for
		        * this many rows */
};
/* At least this share of all multiplications must be in products with so many rows and constant
 * weights. */
static const double LEAST_SHARE = 0.9;

bool has_rows(const struct parts *p, const struct ht_node *n, int32_t arg)
{
	return p->by_rows[n->in[arg].node->id];
}

bool rows_of(const struct parts *p, const struct ht_node *n, int32_t arg)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (has_rows(p, n, i) != (i == arg))
			return false;
	return shape_of(n, arg).dim[0] == n->out[0].shape.dim[0];
}

bool rows_of_first(const struct parts *p, const struct ht_node *n)
{
	return rows_of(p, n, 0);
}

bool broadcast_rows(const struct parts *p, const struct ht_node *n)
{
	struct ht_shape out = n->out[0].shape;

	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = shape_of(n, i);

		if (has_rows(p, n, i) ? s.rank != out.rank || s.dim[0] != out.dim[0]
				      : s.rank == out.rank && s.dim[0] != 1)
			return false;
	}
	return true;
}

/* Several results, each the result of an operand of its own. */
static bool all_rows(const struct parts *p, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (!has_rows(p, n, i))
			return false;
	return true;
}

bool rows_of_image(const struct parts *p, const struct ht_node *n)
{
	return n->out[0].shape.rank == 4 && rows_of_first(p, n);
}

static bool keeps_rows(const struct parts *p, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (n->out[i].shape.rank < 1 || n->out[i].shape.dim[0] % p->batch)
			return ht_is(n, HT_BATCH_NORM);
	return true;
}

static bool follows(const struct parts *p, const struct ht_node *n)
{
	if (!keeps_rows(p, n))
		return false;
	if (lower_is_aligned(n))
		return n->outs == 1 ? broadcast_rows(p, n) : all_rows(p, n);
	return lower_op_of(n)->rows && lower_op_of(n)->rows(p, n);
}

/* ---- whether it can be done ---- */

/* The first dimension of the first input that has one. */
static int64_t batch_of(const struct ht_entry *entry)
{
	for (const struct ht_port *i = entry->inputs; i; i = i->next)
		if (ht_type_of(i->value)->shape.rank)
			return ht_type_of(i->value)->shape.dim[0];
	return 0;
}

/* Marks the nodes whose results have rows.  Returns the first node that mixes rows, or an output
 * without rows; NULL: there is neither. */
static const struct ht_node *first_that_mixes(struct parts *p)
{
	const struct ht_entry *entry = p->l->asked->entry;

	for (const struct ht_node *n = p->l->g->first; n; n = n->next) {
		bool rows = false;

		if (ht_op_info(n->op)->effects & (HT_RANDOM | HT_WRITES))
			return n;
		for (int32_t i = 0; i < n->ins; i++)
			rows = rows || has_rows(p, n, i);
		if (rows && !p->by_rows[n->id] && !follows(p, n))
			return n;
		p->by_rows[n->id] = p->by_rows[n->id] || rows;
	}
	for (const struct ht_port *o = entry->outputs; o; o = o->next)
		if (!p->by_rows[o->value.node->id])
			return o->value.node;
	return NULL;
}

static bool is_by_rows(struct parts *p)
{
	for (const struct ht_port *i = p->l->asked->entry->inputs; i; i = i->next) {
		struct ht_shape s = ht_type_of(i->value)->shape;

		p->by_rows[i->value.node->id] = s.rank && s.dim[0] == p->batch;
	}
	return !first_that_mixes(p);
}

/* ---- whether it pays ---- */

static int64_t most_bytes(const struct parts *p)
{
	int64_t most = 0;

	for (const struct ht_node *n = p->l->g->first; n; n = n->next)
		for (int32_t i = 0; p->by_rows[n->id] && i < n->outs; i++) {
			int64_t bytes = ht_shape_count(n->out[i].shape) *
					(int64_t)ht_dtype_info(n->out[i].dtype)->bytes;

			most = bytes > most ? bytes : most;
		}
	return most;
}

/* Rows of the whole batch that are multiplied with the same weights; 0: none. */
static int64_t product_rows_of(const struct parts *p, const struct ht_node *n)
{
	struct ht_shape out;

	if (!p->by_rows[n->id] || !ht_multiply_adds(n) || ht_is(n, HT_DEPTHWISE) ||
		(has_rows(p, n, 0) && has_rows(p, n, 1)))
		return 0;
	out = n->out[0].shape;
	return ht_shape_count(out) / out.dim[out.rank - 1];
}

static bool has_constant_weights(const struct parts *p, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (!has_rows(p, n, i) && !ht_is(n->in[i].node, HT_CONSTANT))
			return false;
	return true;
}

static double share_with_rows(const struct parts *p, int64_t parts)
{
	double all = 0, enough = 0;

	for (const struct ht_node *n = p->l->g->first; n; n = n->next) {
		int64_t rows = product_rows_of(p, n);

		all += rows ? (double)ht_multiply_adds(n) : 0;
		enough += rows >= LEAST_ROWS * parts && has_constant_weights(p, n)
				  ? (double)ht_multiply_adds(n)
				  : 0;
	}
	return all > 0 ? enough / all : 0;
}

/* The largest number of parts for which enough products keep enough rows; 1: the batch is not
 * divided. */
static int64_t most_parts(const struct parts *p)
{
	for (int64_t rows = 1; rows <= LEAST_ROWS && rows < p->batch; rows++)
		if (p->batch % rows == 0 && share_with_rows(p, p->batch / rows) >= LEAST_SHARE)
			return p->batch / rows;
	return 1;
}

/* The number of parts.  If everything fits into the caches, parts gain nothing, and no choice is
 * recorded. */
static int64_t choose(const struct parts *p)
{
	enum ht_batch_method asked = p->l->asked->asked.batch;
	struct ht_method_choice c = { .limit = LEAST_SHARE };
	int64_t parts;

	if (asked == HT_BATCH_PARTS)
		return p->batch;
	if (most_bytes(p) <= p->l->target->l2)
		return 1;
	parts = most_parts(p);
	c.method = parts > 1 ? HT_METHOD_PARTS : HT_METHOD_WHOLE;
	c.other = parts > 1 ? HT_METHOD_WHOLE : HT_METHOD_PARTS;
	c.reason = parts > 1 ? HT_REASON_ROWS_ENOUGH : HT_REASON_FEW_ROWS;
	c.is = share_with_rows(p, parts > 1 ? parts : p->batch);
	plan_choice(p->l, p->l->asked->entry->inputs->value.node, c);
	return parts;
}

/* ---- the graph of one part ---- */

static struct ht_shape shape_of_part(struct lower *l, struct ht_shape s, int64_t parts)
{
	int64_t dim[HT_LOWER_RANK];

	memcpy(dim, s.dim, (size_t)s.rank * sizeof *dim);
	dim[0] /= parts;
	return ht_shape_make(l->scratch, s.rank, dim);
}

/* Turns `n`, a copy of `whole`, into the node of one part. */
static void take_part(
	struct lower *l, struct ht_node *n, const struct ht_node *whole, int64_t parts)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (i == 0 || ht_use_count(&l->uses, ht_out((struct ht_node *)(uintptr_t)whole, i)))
			n->out[i].shape = shape_of_part(l, whole->out[i].shape, parts);
}

static struct ht_port *ports_of_part(
	struct lower *l, const struct ht_port *from, struct ht_node *const *node)
{
	struct ht_port *first = NULL, **end = &first;

	for (; from; from = from->next) {
		struct ht_port *p = HT_NEW(l->scratch, struct ht_port);

		*p = *from;
		p->next = NULL;
		p->value.node = node[from->value.node->id];
		*end = p;
		end = &p->next;
	}
	return first;
}

/* A copy has the nodes in the order of the whole graph. */
static struct lower_part *make_part(const struct parts *p, int64_t parts)
{
	struct lower *l = p->l;
	struct lower_part *part = HT_NEW(l->scratch, struct lower_part);
	struct ht_node **node = HT_NEW_ARRAY(l->scratch, struct ht_node *, l->g->ids), *n;

	part->graph = ht_graph_clone(l->g, l->scratch);
	part->whole = HT_NEW_ARRAY(l->scratch, const struct ht_type *, part->graph->ids);
	n = part->graph->first;
	for (const struct ht_node *w = l->g->first; w; w = w->next, n = n->next) {
		node[w->id] = n;
		if (!p->by_rows[w->id])
			continue;
		part->whole[n->id] = w->out;
		take_part(l, n, w, parts);
	}
	part->entry = *l->asked->entry;
	part->entry.inputs = ports_of_part(l, l->asked->entry->inputs, node);
	part->entry.outputs = ports_of_part(l, l->asked->entry->outputs, node);
	return part;
}

struct lower_part *lower_parts(struct lower *l)
{
	struct parts p = { l, batch_of(l->asked->entry),
		HT_NEW_ARRAY(l->scratch, bool, l->g->ids) };

	ht_note_read(l->asked->reads, HT_READ_batch_method);
	l->plan->parts = 1;
	if (l->numerics || l->g->sizes || l->asked->asked.batch == HT_BATCH_WHOLE || p.batch < 2 ||
		!is_by_rows(&p))
		return NULL;
	l->plan->parts = choose(&p);
	return l->plan->parts > 1 ? make_part(&p, l->plan->parts) : NULL;
}

/* ---- any number of rows ---- */

enum { STEP = 4 /* ratio of the rows of one part to those of the next smaller one */ };

static bool has_open_input(const struct ht_entry *entry)
{
	for (const struct ht_port *i = entry->inputs; i; i = i->next)
		if (i->open)
			return true;
	return false;
}

static enum ht_status refuse_open(const struct lower *l, const struct ht_node *n, const char *why)
{
	return ht_error(l->asked->diags, HT_E_UNSUPPORTED,
		(struct ht_where){
			.path = l->g->path, .offset = -1, .node = n->name, .op = n->type },
		"a dimension of an input is open, and %s; state a size with --input-shape", why);
}

static const char *why_it_mixes(const struct parts *p, const struct ht_node *n)
{
	if (ht_op_info(n->op)->effects & HT_RANDOM)
		return "this draws random numbers for it";
	if (ht_op_info(n->op)->effects & HT_WRITES)
		return "this changes a variable";
	for (int32_t i = 0; i < n->ins; i++)
		if (has_rows(p, n, i))
			return "this does not compute each row by itself, which other sizes need so far";
	return "this result does not depend on it";
}

/* The most rows that memory can hold, of the input or output with the most bytes in a row. */
static int64_t most_rows(const struct parts *p)
{
	const struct ht_entry *e = p->l->asked->entry;
	int64_t most = INT32_MAX;

	for (int i = 0; i < 2; i++)
		for (const struct ht_port *port = i ? e->outputs : e->inputs; port;
			port = port->next) {
			const struct ht_type *t = ht_type_of(port->value);
			int64_t bytes = ht_shape_count(t->shape) *
					(int64_t)ht_dtype_info(t->dtype)->bytes / HT_PART_ROWS;

			if (p->by_rows[port->value.node->id] && bytes &&
				(int64_t)HT_IMAGE_MOST_BYTES / bytes < most)
				most = (int64_t)HT_IMAGE_MOST_BYTES / bytes;
		}
	return most;
}

static enum ht_status set_bounds(const struct parts *p, struct ht_plan_rows *r)
{
	struct ht_open_rows asked = p->l->asked->open;
	int64_t most = most_rows(p);

	r->least = asked.least;
	r->most = asked.most ? asked.most : most;
	if (r->most <= most)
		return HT_OK;
	return ht_error(p->l->asked->diags, HT_E_LIMIT,
		(struct ht_where){ .path = p->l->g->path, .offset = -1 },
		"of inputs and outputs with so many bytes memory can have %lld rows, not %lld",
		(long long)most, (long long)r->most);
}

/* A larger part reads weights less often.  It is made if products would have few rows otherwise. */
static void choose_parts(const struct parts *p, struct ht_plan_rows *r)
{
	int64_t rows = 1;

	r->part = HT_NEW_ARRAY(p->l->arena, struct ht_plan_rows_part, 8);
	for (;; rows *= STEP) {
		r->part[r->parts++].rows = rows;
		if (rows == HT_PART_ROWS || rows * STEP > r->most ||
			share_with_rows(p, p->batch / rows) >= LEAST_SHARE)
			return;
	}
}

static void begin_open(struct parts *p)
{
	for (const struct ht_port *i = p->l->asked->entry->inputs; i; i = i->next)
		p->by_rows[i->value.node->id] = i->open;
}

bool ht_rows_are_apart(struct ht_graph *g, const struct ht_entry *e, struct ht_arena *scratch)
{
	const struct ht_lower_request asked = { .entry = e };
	struct lower l = { .g = g, .asked = &asked, .uses = ht_graph_uses(g, scratch) };
	struct parts p = { &l, HT_PART_ROWS, HT_NEW_ARRAY(scratch, bool, g->ids) };

	begin_open(&p);
	return !first_that_mixes(&p);
}

enum ht_status lower_open_parts(struct lower *l, struct lower_part ***out)
{
	struct parts p = { l, HT_PART_ROWS, HT_NEW_ARRAY(l->scratch, bool, l->g->ids) };
	struct ht_plan_rows *r = &l->plan->rows;
	const struct ht_node *mixes;

	*out = NULL;
	if ((l->numerics || l->asked->tee) && l->g->sizes)
		return refuse_open(l, l->asked->entry->inputs->value.node,
			"values are counted for sizes that are stated");
	if (!has_open_input(l->asked->entry))
		return HT_OK;
	begin_open(&p);
	mixes = first_that_mixes(&p);
	if (mixes)
		return refuse_open(l, mixes, why_it_mixes(&p, mixes));
	if (l->numerics || l->asked->tee)
		return refuse_open(l, l->asked->entry->inputs->value.node,
			"tensors are looked at where their numbers of rows are stated");
	HT_TRY(set_bounds(&p, r));
	choose_parts(&p, r);
	*out = HT_NEW_ARRAY(l->scratch, struct lower_part *, (size_t)r->parts);
	for (int32_t i = 0; i < r->parts; i++)
		(*out)[i] = make_part(&p, HT_PART_ROWS / r->part[i].rows);
	return HT_OK;
}
