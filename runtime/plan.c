/* Serialises a variant's plan: the image, and where its code and constants are. */
#include "image/verify.h"
#include "runtime/artefact.h"
#include "runtime/coder.h"

#include <string.h>

static void numbers(struct ht_coder *c, struct ht_program_plan *p)
{
	uint64_t *const list[] = { &p->live_bytes, &p->weight_bytes, &p->code_bytes, &p->parts,
		&p->low_nodes, &p->float_nodes, &p->casts };

	for (size_t i = 0; i < HT_COUNT(list); i++)
		ht_code_number(c, list[i]);
}

static void image(struct ht_coder *c, struct ht_str *s)
{
	char *to;

	ht_code_count(c, &s->n, 1);
	if (!ht_coder_reads(c)) {
		ht_put_str(c->out, *s);
		return;
	}
	to = ht_alloc(c->arena, s->n + HT_IMAGE_ALIGN);
	to += (HT_IMAGE_ALIGN - (uintptr_t)to % HT_IMAGE_ALIGN) % HT_IMAGE_ALIGN;
	ht_code_bytes(c, to, s->n);
	s->p = to;
}

static void work(struct ht_coder *c, struct ht_plan_work *w)
{
	ht_code_text(c, &w->op);
	ht_code_text(c, &w->result);
	ht_code_text(c, &w->dtypes);
	ht_code_number(c, &w->multiply_adds);
	ht_code_number(c, &w->bytes);
	ht_code_number(c, &w->limit_ps);
}

static void plan(struct ht_coder *c, struct ht_program_plan *p)
{
	ht_code_text(c, &p->target);
	ht_code_text(c, &p->policy);
	ht_code_text(c, &p->provenance);
	numbers(c, p);
	ht_code_count(c, &p->weights, 2 * 8);
	HT_CODE_LIST(c, p->weight, p->weights);
	for (size_t i = 0; i < p->weights; i++) {
		ht_code_number(c, &p->weight[i].number);
		ht_code_number(c, &p->weight[i].bytes);
	}
	ht_code_integers(c, &p->constant, &p->constants);
	ht_code_count(c, &p->kernels, 3 * 8 + HT_DIGEST);
	HT_CODE_LIST(c, p->kernel, p->kernels);
	for (size_t i = 0; i < p->kernels; i++) {
		ht_code_number(c, &p->kernel[i].offset);
		ht_code_number(c, &p->kernel[i].bytes);
		ht_code_number(c, &p->kernel[i].entry);
		ht_code_bytes(c, p->kernel[i].digest, HT_DIGEST);
	}
	ht_code_count(c, &p->works, 6 * 8);
	HT_CODE_LIST(c, p->work, p->works);
	for (size_t i = 0; i < p->works; i++)
		work(c, &p->work[i]);
	image(c, &p->image);
}

/* ---- consistency of the numbers that were read ---- */

static bool good_kernel(const struct ht_image *x, const struct ht_plan_code *k, size_t i)
{
	if (*ht_image_text(x, ht_image_kernels(x)[i].name))
		return !k->bytes;
	return k->entry < k->bytes && k->bytes <= HT_IMAGE_MOST_BYTES;
}

static size_t kernel_steps(const struct ht_image *x)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_STEPS); i++)
		n += ht_image_steps(x)[i].op == HT_IMAGE_KERNEL;
	return n;
}

static const char *check(const struct ht_program_plan *p)
{
	const char *wrong = ht_image_verify(p->image);
	const struct ht_image *x = ht_plan_image(p);

	if (wrong)
		return wrong;
	if (p->parts < 1 || p->parts > INT32_MAX)
		return "it has no parts, or too many";
	if (p->kernels != ht_image_count(x, HT_IMAGE_KERNELS) ||
		p->constants != ht_image_count(x, HT_IMAGE_CONSTANTS))
		return "it has kernels or constants of another program";
	if (p->works && p->works != kernel_steps(x))
		return "it has an account of the steps of another program";
	for (size_t i = 0; i < p->kernels; i++)
		if (!good_kernel(x, &p->kernel[i], i))
			return "a kernel begins outside of its code";
	for (size_t i = 0; i < p->constants; i++)
		if ((uint64_t)p->constant[i] >= p->weights ||
			p->weight[p->constant[i]].bytes != ht_image_constants(x)[i])
			return "a constant is outside of its memory";
	return NULL;
}

void ht_plan_write(const struct ht_program_plan *p, struct ht_buf *out)
{
	struct ht_program_plan copy = *p; /* writing needs pointers that are not const */

	plan(&(struct ht_coder){ .out = out }, &copy);
}

const char *ht_plan_read(struct ht_str from, struct ht_arena *a, struct ht_program_plan *p)
{
	struct ht_coder c = { .p = (const uint8_t *)from.p, .n = from.n, .arena = a };

	memset(p, 0, sizeof *p);
	plan(&c, p);
	return ht_coder_end(&c) ? ht_coder_end(&c) : check(p);
}
