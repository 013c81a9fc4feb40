/* The plan of a program, with its kernels and weights, each of which is stored once. */
#include "api/save.h"

#include <string.h>

void ht_saving_init(struct ht_saving *s, struct ht_arena *a)
{
	*s = (struct ht_saving){ .arena = a };
	ht_buf_init(&s->code, a);
	ht_map_init(&s->kernel, a);
	ht_map_init(&s->weight, a);
}

/* ---- weights ---- */

size_t ht_saving_weight(struct ht_saving *s, struct ht_str b)
{
	struct ht_hash h = ht_hash_bytes(b.p, b.n);
	struct ht_str key = ht_str_printf(s->arena, "%016llx%016llx:%zu", (unsigned long long)h.hi,
		(unsigned long long)h.lo, b.n);
	struct ht_map_entry *e;

	/* Other bytes with the same hash: tries the next number. */
	while ((e = ht_map_at(&s->weight, key))->value) {
		size_t number = *(size_t *)e->value;

		if (!memcmp(s->bytes[number].p, b.p, b.n))
			return number;
		key = ht_str_printf(s->arena, "%.*s+", HT_STR_ARG(key));
	}
	s->bytes = ht_grow(s->arena, s->bytes, s->weights, &s->weight_room, sizeof *s->bytes);
	s->bytes[s->weights] = b;
	e->value = HT_NEW(s->arena, size_t);
	*(size_t *)e->value = s->weights;
	return s->weights++;
}

/* The index of the weight in the plan's list.  `place` has 1 + index for each number in that
 * list. */
static size_t plan_weight(struct ht_program_plan *plan, size_t *place, size_t number, size_t bytes)
{
	if (!place[number]) {
		plan->weight[plan->weights++] = (struct ht_plan_weight){ number, bytes };
		plan->weight_bytes += bytes;
		place[number] = plan->weights;
	}
	return place[number] - 1;
}

static void save_constants(
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	const uint64_t *bytes = ht_image_constants(p->rt.image);
	size_t *place;

	plan->constants = ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS);
	place = HT_NEW_ARRAY(s->arena, size_t, s->weights + plan->constants);
	plan->constant = HT_NEW_ARRAY(s->arena, int64_t, plan->constants);
	plan->weight = HT_NEW_ARRAY(s->arena, struct ht_plan_weight, plan->constants);
	for (size_t i = 0; i < plan->constants; i++) {
		struct ht_str weight = { (const char *)(uintptr_t)p->rt.constant[i],
			(size_t)bytes[i] };

		plan->constant[i] =
			(int64_t)plan_weight(plan, place, ht_saving_weight(s, weight), weight.n);
	}
}

/* ---- kernels ---- */

struct ht_str ht_program_kernel(const struct ht_program *p, size_t i, uint64_t *entry)
{
	if (!p->kernel_code) {
		*entry = p->plan.kernel[i].entry;
		return (struct ht_str){ p->artefact.kernel[i], p->plan.kernel[i].bytes };
	}
	*entry = p->kernel_code[i].entry;
	return p->kernel_code[i].code;
}

static uint64_t code_offset(
	struct ht_saving *s, const uint8_t digest[HT_DIGEST], struct ht_str code)
{
	struct ht_str key =
		ht_str_copy(s->arena, (struct ht_str){ (const char *)digest, HT_DIGEST });
	struct ht_map_entry *e = ht_map_at(&s->kernel, key);

	if (!e->value) {
		e->value = HT_NEW(s->arena, uint64_t);
		*(uint64_t *)e->value = s->code.n;
		ht_put_str(&s->code, code);
	}
	return *(uint64_t *)e->value;
}

const char *ht_program_library(const struct ht_program *p, size_t i)
{
	return ht_image_text(p->rt.image, ht_image_kernels(p->rt.image)[i].name);
}

static void save_kernels(
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->kernels = p->info.kernels;
	plan->kernel = HT_NEW_ARRAY(s->arena, struct ht_plan_code, plan->kernels);
	for (size_t i = 0; i < plan->kernels; i++) {
		struct ht_plan_code *k = &plan->kernel[i];
		struct ht_str code;

		if (ht_program_library(p, i)[0])
			continue;
		code = ht_program_kernel(p, i, &k->entry);
		k->bytes = code.n;
		ht_sha256(code.p, code.n, k->digest);
		k->offset = code_offset(s, k->digest, code);
		plan->code_bytes += k->bytes;
	}
}

/* ---- the plan ---- */

struct ht_program_plan ht_saving_plan(struct ht_saving *s, const struct ht_program *p)
{
	const struct ht_program_info *i = &p->info;
	struct ht_program_plan plan = { .target = i->target,
		.policy = i->policy,
		.provenance = p->provenance,
		.live_bytes = i->live_bytes,
		.low_nodes = i->low_nodes,
		.float_nodes = i->float_nodes,
		.casts = i->casts,
		.parts = i->parts,
		.works = p->works,
		.work = p->work,
		.image = p->image };

	save_constants(s, p, &plan);
	save_kernels(s, p, &plan);
	return plan;
}
