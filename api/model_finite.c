/* Whether a model's constants are finite.  If so, NaN and infinities in its outputs come from
 * computing. */
#include "api/api.h"

#include <string.h>

static bool is_finite(const struct ht_tensor *t)
{
	uint64_t infinity = ht_infinity_bits(t->dtype), bits = 0;
	size_t size = ht_dtype_info(t->dtype)->bytes, n = t->blob->n / size;
	const char *p = t->blob->p;

	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, p + i * size, size); /* little-endian */
		if ((bits & infinity) == infinity)
			return false;
	}
	return true;
}

static bool all_finite(const struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *t = ht_const_tensor(ht_out(n, 0));

		if (t && ht_is_kernel_float(t->dtype) && !is_finite(t))
			return false;
	}
	return true;
}

struct asking {
	const struct ht_model *m;
	struct ht_work *w;
	bool finite;
};

static enum ht_status ask(void *arg)
{
	struct asking *a = arg;
	struct ht_pass_context c = { .scratch = &a->w->scratch };
	struct ht_diags quiet;
	struct ht_graph *g;
	enum ht_status st;

	ht_diags_init(&quiet);
	c.diags = &quiet;
	st = ht_model_copy(a->m, a->w, HT_OPEN_KEEP, &quiet, &g);
	if (st == HT_OK) {
		c.entry = g->entries;
		st = ht_run_passes(g, "feeds,prune,inline,prune", NULL, &c);
	}
	ht_diags_release(&quiet);
	HT_TRY(st);
	a->finite = all_finite(g);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		a->finite = a->finite && (!f->body || all_finite(f->body));
	return HT_OK;
}

int ht_model_is_finite(const struct ht_model *m)
{
	struct ht_work w;
	struct asking a = { m, &w, false };

	return ht_work_run(&w, ask, &a, NULL) == HT_OK && a.finite;
}
