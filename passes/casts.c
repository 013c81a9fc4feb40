/* casts: chains of casts become one cast, and casts of constants become constants.
 *
 * Cast B→C of Cast A→B becomes Cast A→C if B can represent every value of A; if A is C, both are
 * removed.  So f16→f32→f16 is removed, and f32→bf16→f32 stays, as it rounds.  If a constant has
 * other users, it stays, and the cast constant is added beside it.  Only float types: integer
 * constants are small, and `fold` folds their casts. */
#include "kernel/kernel.h"
#include "passes/rewrite.h"

/* Whether every value of `a` is a value of `b`. */
static bool holds(enum ht_dtype b, enum ht_dtype a)
{
	const struct ht_dtype_info *x = ht_dtype_info(a), *y = ht_dtype_info(b);
	int bits;

	if (a == b)
		return true;
	if (x->kind == HT_KIND_FLOAT && y->kind == HT_KIND_FLOAT)
		return x->exponent <= y->exponent && x->mantissa <= y->mantissa;
	if (x->kind == HT_KIND_BOOL)
		return y->kind == HT_KIND_INT || y->kind == HT_KIND_UINT ||
		       y->kind == HT_KIND_FLOAT;
	if (x->kind != HT_KIND_INT && x->kind != HT_KIND_UINT)
		return false;
	bits = 8 * (int)x->bytes - (x->kind == HT_KIND_INT);
	if (y->kind == HT_KIND_FLOAT)
		return bits <= y->mantissa + 1;
	if (y->kind == HT_KIND_INT)
		return bits <= 8 * (int)y->bytes - 1;
	return y->kind == HT_KIND_UINT && x->kind == HT_KIND_UINT && x->bytes <= y->bytes;
}

static bool merge(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *inner = n->in[0].node;
	struct ht_value x;

	if (!ht_is(inner, HT_CASTS) || inner->controls || n->controls)
		return false;
	x = inner->in[0];
	if (!ht_rw_on(r, HT_FUSION_casts))
		return false;
	if (!holds(inner->out[0].dtype, ht_type_of(x)->dtype) ||
		ht_attr_bool(n, "Truncate", false) || ht_attr_bool(inner, "Truncate", false)) {
		ht_rw_miss(r, HT_FUSION_casts, 1, inner, "rounds");
		return false;
	}
	ht_rw_hit(r, HT_FUSION_casts);
	if (ht_type_of(x)->dtype == n->out[0].dtype) {
		ht_rw_replace_node(r, n, x);
		return true;
	}
	ht_attr_set_type(n, "SrcT", ht_type_of(x)->dtype);
	ht_rw_set_in(r, n, 0, x);
	return true;
}

/* Elements that a thread converts as one piece of work. */
enum { PIECE = 1 << 17 };

struct conversion {
	const struct ht_tensor *from;
	struct ht_blob *made;
	enum ht_dtype to;
};

static void convert_range(void *arg, size_t begin, size_t end)
{
	const struct conversion *c = arg;
	const char *from = c->from->blob->p;
	char *to = (char *)(uintptr_t)c->made->p;

	ht_convert_floats(c->from->dtype, from + begin * ht_dtype_info(c->from->dtype)->bytes,
		c->to, to + begin * ht_dtype_info(c->to)->bytes, end - begin);
}

static void fold_const(struct ht_rw *r, struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[0]);
	enum ht_dtype to = n->out[0].dtype;
	struct ht_blob *b;
	struct ht_value made;
	size_t count;

	if (!t || n->controls || n->in[0].node->controls || ht_attr_bool(n, "Truncate", false))
		return;
	if (!ht_is_f32_or_low(t->dtype) || !ht_is_f32_or_low(to))
		return;
	count = t->blob->n / ht_dtype_info(t->dtype)->bytes;
	b = ht_rw_blob(r, count * ht_dtype_info(to)->bytes);
	ht_on_ranges(r->c->threads, count, PIECE, convert_range, &(struct conversion){ t, b, to });
	made = ht_rw_const(r, n, n->name, to, t->shape, b);
	ht_node_add_origin(made.node, n->in[0].node);
	ht_rw_replace_node(r, n, made);
	if (!n->graph)
		ht_node_rename(made.node, n->name);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct ht_node **all;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_node *n = all[i];

		while (n->graph && ht_is(n, HT_CASTS) && merge(&r, n))
			;
		if (n->graph && ht_is(n, HT_CASTS))
			fold_const(&r, n);
	}
	return HT_OK;
}

const struct ht_pass ht_pass_casts = {
	.name = "casts",
	.summary = "merges chains of casts, casts constants",
	.does_more = true,
	.run = run,
};
