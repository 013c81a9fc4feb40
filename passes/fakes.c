/* FakeParam: what a result of one side of a branch is where only the other side has a value.  Nothing reads it, so it becomes zeros of the
 * shape that the other side's tensor has.  Where neither side has a value, any shape will do. */
#include "passes/bounded.h"
#include "passes/optionals.h"

/* Whether a body, which has the dimension, computes a size that it depends on. */
static bool computes(const struct ht_graph *body, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(body, dim);

	for (int i = 0; i < ht_size_count(&e); i++)
		if (ht_size_node(body, e.size[i]))
			return true;
	return false;
}

/* The shape for one side of a branch whose other side, `body`, gives a tensor of shape `s`.  If `all`, extents that only the run tells are
 * 0; otherwise the shape is unknown if there are such extents. */
static struct ht_shape shape_beside(const struct ht_graph *body, struct ht_shape s, bool all)
{
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < s.rank; i++) {
		bool told = s.dim[i] >= 0 ||
			    (ht_dim_is_open(body, s.dim[i]) && !computes(body, s.dim[i]));

		if (!told && !all)
			return HT_SHAPE_UNKNOWN;
		dim[i] = told ? s.dim[i] : 0;
	}
	return s.rank < 0 ? s : ht_shape_make(body->arena, s.rank, dim);
}

static void make_zeros(struct ht_rw *r, struct ht_node *n, struct ht_shape s)
{
	const struct ht_value in[] = { ht_dims_value(
					       r, n, ht_rw_name_within(r, n, "shape"), HT_I64, s),
		ht_rw_scalar(r, n, ht_rw_name_within(r, n, "zero"), n->out[0].dtype, 0) };

	ht_rw_become(r, n, HT_OP_Fill, in, 2);
	n->out[0].shape = s;
}

static bool is_fake(const struct ht_node *n)
{
	enum ht_dtype t = n->op == HT_OP_FakeParam ? n->out[0].dtype : HT_INVALID;

	return t != HT_INVALID && t != HT_VARIANT && t != HT_RESOURCE;
}

/* The FakeParam that a result of a body is; NULL: it is something else. */
static struct ht_node *fake_result(const struct ht_port *ret)
{
	struct ht_value v = ht_forwarded(ret->value);

	return is_fake(v.node) ? v.node : NULL;
}

static bool settle_branch(const struct ht_pass_context *c, const struct ht_node *n, bool all)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct ht_rw_within within;
	bool any = false;
	struct ht_rw r;

	for (int k = 0; k < 2; k++) {
		const struct ht_port *other = b.of[!k]->rets;

		ht_rw_init_within(&r, &within, b.of[k]->body, c);
		for (const struct ht_port *p = b.of[k]->rets; p && other;
			p = p->next, other = other->next) {
			struct ht_node *fake = fake_result(p);
			struct ht_shape s = HT_SHAPE_UNKNOWN;

			if (fake && fake_result(other))
				s = HT_SHAPE_SCALAR;
			else if (fake)
				s = shape_beside(
					b.of[!k]->body, ht_type_of(other->value)->shape, all);
			if (s.rank >= 0)
				make_zeros(&r, fake, s);
			any = any || s.rank >= 0;
		}
	}
	return any;
}

static bool settle(const struct ht_pass_context *c, struct ht_graph *g, bool all)
{
	struct ht_rw_within within;
	bool any = false;
	struct ht_rw r;

	ht_rw_init_within(&r, &within, g, c);
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		if (is_fake(n) && ht_shape_known(n->out[0].shape)) {
			make_zeros(&r, n, n->out[0].shape);
			any = true;
		}
		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			any = settle(c, b.of[k]->body, all) || any;
		if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
			any = settle_branch(c, n, all) || any;
	}
	return any;
}

enum ht_status ht_settle_fakes(struct ht_graph *g, struct ht_pass_context *c, bool all)
{
	return settle(c, g, all) ? ht_infer_types(g, c->diags) : HT_OK;
}
