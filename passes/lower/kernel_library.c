/* Kernels that are functions of kernel/library.c: random numbers. */
#include "passes/lower/lower.h"

static enum ht_status emit_random(struct lower *l, struct ht_node *n)
{
	const struct view *v = &l->view[n->id][0];
	struct kernel_build k;
	int64_t *params = HT_NEW_ARRAY(l->arena, int64_t, 3);

	if (view_count(v) == 0)
		return HT_OK;
	kb_init(&k, l);
	k.kernel->library = n->op == HT_OP_RandomUniform ? "random_uniform" : "random_normal";
	k.kernel->params = 3;
	params[0] = view_count(v);
	params[1] = ht_attr_int(n, "seed", 0);
	params[2] = ht_attr_int(n, "seed2", 0);
	kb_arg(&k, v->buffer, HT_BUFFER_OUT);
	k.params = params;
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse_random(const struct ht_node *n)
{
	if (n->op != HT_OP_RandomUniform && n->op != HT_OP_RandomStandardNormal)
		return "has no kernel";
	return n->out[0].dtype == HT_F32 ? NULL : "has no kernel for this dtype";
}

/* The kernel writes dense memory of its own. */
const struct lower_op lower_random = { .name = "random", .family = FAMILY_ROOT, .alone = true,
	.emit = emit_random, .refuse = refuse_random };
