/* Whether a model's constants are finite.  If so, NaN and infinities in its outputs come from
 * computing. */
#include "api/api.h"

#include <string.h>

/* The exponent bits of a floating-point dtype, all of which are set only in infinities and NaN;
 * 0: it is not one of the four dtypes. */
static uint64_t exponent_of(enum ht_dtype t)
{
	switch (t) {
	case HT_F16:
		return 0x7c00;
	case HT_BF16:
		return 0x7f80;
	case HT_F32:
		return 0x7f800000;
	case HT_F64:
		return 0x7ff0000000000000;
	default:
		return 0;
	}
}

static bool is_finite(const struct ht_tensor *t)
{
	uint64_t exponent = exponent_of(t->dtype), bits = 0;
	size_t size = ht_dtype_info(t->dtype)->bytes, n = exponent ? t->blob->n / size : 0;
	const char *p = t->blob->p;

	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, p + i * size, size); /* little-endian */
		if ((bits & exponent) == exponent)
			return false;
	}
	return true;
}

static bool all_finite(const struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *t = ht_const_tensor(ht_out(n, 0));

		if (t && !is_finite(t))
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
