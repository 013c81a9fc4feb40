/* The work of each step of a program, for profiles. */
#include "api/api.h"
#include "kernel/work.h"
#include "lower/price.h"

static const char *result_of(struct ht_arena *a, const struct ht_node *n)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	if (!n->outs)
		return "";
	ht_puts(&b, ht_dtype_info(n->out[0].dtype)->tag);
	ht_putc(&b, '[');
	for (int32_t i = 0; i < n->out[0].shape.rank; i++) {
		ht_puts(&b, i ? "," : "");
		ht_put_int(&b, n->out[0].shape.dim[i]);
	}
	ht_putc(&b, ']');
	return ht_buf_str(&b).p;
}

/* Each dtype once, in the order of the kernel's arguments. */
static const char *dtypes_of(struct ht_arena *a, const struct ht_kernel *k)
{
	struct ht_buf b;
	uint64_t seen = 0;

	ht_buf_init(&b, a);
	for (int32_t i = 0; i < k->args; i++) {
		uint64_t bit = (uint64_t)1 << k->buffer[i].dtype;

		if (seen & bit)
			continue;
		ht_printf(&b, "%s%s", seen ? "," : "", ht_dtype_info(k->buffer[i].dtype)->tag);
		seen |= bit;
	}
	return ht_buf_str(&b).p;
}

static struct ht_plan_work account(struct ht_arena *a, const struct ht_plan *plan,
	const struct ht_plan_step *s, const struct ht_target *t)
{
	const struct ht_kernel *k = plan->kernel[s->kernel];
	struct ht_kernel_work w = ht_kernel_work_of(k, t);

	/* If a loop's products are unrolled, the kernel has no sum that shows their number. */
	if (!w.multiply_adds && !k->library)
		ht_kernel_work_add(&w, ht_multiply_adds(s->of), HT_F32, t);
	return (struct ht_plan_work){ .op = ht_str_copy(a, s->of->type).p,
		.result = result_of(a, s->of),
		.dtypes = dtypes_of(a, k),
		.multiply_adds = (uint64_t)w.multiply_adds,
		.bytes = w.bytes,
		.limit_ps = (uint64_t)ht_work_limit_ps(&w, t) };
}

void ht_program_account(struct ht_program *p, const struct ht_plan *plan, const struct ht_target *t)
{
	p->work = HT_NEW_ARRAY(&p->arena, struct ht_plan_work, (size_t)plan->steps);
	for (int32_t i = 0; i < plan->steps; i++)
		if (plan->step[i].kernel >= 0)
			p->work[p->works++] = account(&p->arena, plan, &plan->step[i], t);
}
