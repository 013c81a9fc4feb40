/* Decides which nodes cannot be lowered, and why. */
#include "image/image.h"
#include "lower/inside.h"

#include <string.h>

static const char unknown_shape[] =
	"has a shape that is not known at compile time (--input-shape may fix it)";

static const char unbounded[] =
	"has a result whose size depends on the data, without a bound that is known at compile time";

bool lower_is_open_shape(const char *why)
{
	return why == unknown_shape;
}

const char *lower_refuse_type(struct ht_type t)
{
	const struct ht_dtype_info *d = ht_dtype_info(t.dtype);
	size_t bytes;

	if (t.dtype >= HT_REF || d->kind == HT_KIND_OTHER || d->kind == HT_KIND_NONE ||
		d->kind == HT_KIND_COMPLEX || !d->bytes)
		return "has no kernel for this dtype";
	if (t.shape.rank > HT_LOWER_RANK)
		return "has more than 8 dimensions";
	if (!ht_shape_known(t.shape))
		return unknown_shape;
	if (ht_shape_count(t.shape) < 0 ||
		!ht_mul_size((size_t)ht_shape_count(t.shape), d->bytes, &bytes))
		return "has more elements than fit";
	if (bytes > HT_IMAGE_MOST_BYTES)
		return "has more bytes than a process can address";
	return NULL;
}

/* The reserve outputs of FusedBatchNormV3, which it leaves for its gradient, have no known shape
 * and are not computed. */
static bool is_reserve(const struct ht_node *n, int32_t i)
{
	return ht_is(n, HT_BATCH_NORM) && i == 5;
}

/* Whether the size of the result depends on elements that are known only in the run, so that a
 * user could not make it known by stating shapes. */
static bool is_unbounded(const struct ht_node *n)
{
	if (ht_computes_size(n))
		return !ht_computed_size(n->graph, n);
	for (int32_t i = 0; i < n->ins; i++)
		if (!ht_shape_known(ht_type_of(n->in[i])->shape))
			return false;
	return ht_is(n, HT_SIZED_BY_ELEMENTS) && !ht_shape_known(n->out[0].shape);
}

static bool is_source_of_strings(const struct ht_node *n)
{
	return (ht_is(n, HT_FED) && n->outs == 1 && n->out[0].dtype == HT_STRING) ||
	       ht_const_text(ht_out((struct ht_node *)(uintptr_t)n, 0));
}

const char *lower_refuse(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);
	const char *why;

	if (!op)
		return "is not an op we know";
	if (op->never)
		return op->never;
	if (n->fault)
		return n->fault;
	/* Nodes that are fed strings or have constant strings are not refused; their consumers
	 * are, unless they only print them in a message.  Pass "strings" has left only strings
	 * whose consumer has no kernel for them. */
	if (op->family == FAMILY_NOTHING || is_source_of_strings(n))
		return NULL;
	if (is_unbounded(n))
		return unbounded;
	why = ht_varies_in_rank(n);
	if (why)
		return why;
	for (int32_t i = 0; i < n->outs; i++)
		if ((ht_shape_known(n->out[i].shape) || !is_reserve(n, i)) &&
			(why = lower_refuse_type(n->out[i])))
			return why;
	for (int32_t i = op->variables; i < n->ins; i++)
		if (!(op->takes_text && ht_const_text(n->in[i])) &&
			(why = lower_refuse_type(*ht_type_of(n->in[i]))))
			return why;
	if (ht_is(n, HT_CONSTANT) && !ht_const_tensor(ht_out((struct ht_node *)(uintptr_t)n, 0)))
		return "has a value that the file states shorter than it is, too large to expand";
	return op->refuse ? op->refuse(n) : NULL;
}

bool ht_can_lower(const struct ht_node *n)
{
	return lower_refuse(n) == NULL;
}

const char *ht_never_lowered(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op ? op->never : NULL;
}

enum ht_status lower_check_support(struct lower *l)
{
	struct ht_refusals r;
	enum ht_status st = HT_OK;

	ht_find_refusals(l->g, l->asked->entry, l->scratch, &r);
	for (size_t i = 0; i < r.n; i++) {
		struct ht_where at = HT_NOWHERE;
		struct ht_buf text;

		at.path = l->g->path;
		at.node = r.item[i].first;
		at.op = r.item[i].type;
		ht_buf_init(&text, l->scratch);
		ht_refusal_print(&r.item[i], &text);
		st = ht_error(l->asked->diags, HT_E_UNSUPPORTED, at, "op %.*s %.*s",
			HT_STR_ARG(r.item[i].type), (int)text.n, text.p);
	}
	return st;
}
