/* Compares two artefacts. */
#include "api/api.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

struct difference {
	struct ht_str variant; /* empty: the difference concerns the whole file */
	struct ht_str what, before, after;
	struct difference *next;
};

struct diff {
	const char *path[2];
	struct ht_artefact_options opt;
	enum ht_format format;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_artefact artefact[2];
	cJSON *manifest[2];
	struct difference *first, **last;
	struct ht_str variant; /* the one that is being compared */
};

static void differs(struct diff *x, struct ht_str what, struct ht_str before, struct ht_str after)
{
	struct difference *new = HT_NEW(&x->w->arena, struct difference);

	*new = (struct difference){ x->variant, what, before, after, NULL };
	*x->last = new;
	x->last = &new->next;
}

/* ---- manifests ---- */

static struct ht_str value_text(struct diff *x, const cJSON *v)
{
	struct ht_str s = { 0 };
	char *text = v ? cJSON_PrintUnformatted(v) : NULL;

	if (v && !text)
		ht_arena_fail(&x->w->arena);
	if (text)
		s = ht_str_copy(&x->w->arena, ht_str(text));
	cJSON_free(text);
	return s;
}

/* Recursion: manifests of this library are four levels deep; for others, cJSON limits the depth. */
static void compare_json(struct diff *x, struct ht_str path, const cJSON *a, const cJSON *b)
{
	struct ht_arena *arena = &x->w->arena;

	if (cJSON_Compare(a, b, true))
		return;
	if (!cJSON_IsObject(a) || !cJSON_IsObject(b)) {
		differs(x, path, value_text(x, a), value_text(x, b));
		return;
	}
	for (int k = 0; k < 2; k++)
		for (const cJSON *v = k ? b->child : a->child; v; v = v->next) {
			const cJSON *in_a = cJSON_GetObjectItemCaseSensitive(a, v->string);

			/* Variants are compared separately, matched by their keys and not by
			 * their position. */
			if ((k && in_a) || !strcmp(v->string, "variants"))
				continue;
			compare_json(x,
				ht_str_printf(arena, "%.*s%s%s", HT_STR_ARG(path),
					path.n ? "." : "", v->string),
				in_a, cJSON_GetObjectItemCaseSensitive(b, v->string));
		}
}

static const cJSON *manifest_of(const struct diff *x, int side, size_t variant)
{
	return cJSON_GetArrayItem(
		cJSON_GetObjectItemCaseSensitive(x->manifest[side], "variants"), (int)variant);
}

/* ---- code ---- */

/* A kernel of a plan. */
struct kernel {
	const char *library; /* its name; "": a generated kernel */
	const struct ht_plan_code *code;
};

static bool same_kernel(const struct kernel *a, const struct kernel *b)
{
	return !strcmp(a->library, b->library) &&
	       !memcmp(a->code->digest, b->code->digest, HT_DIGEST);
}

static struct ht_str kernel_text(struct diff *x, const struct kernel *k)
{
	struct ht_arena *a = &x->w->arena;
	const uint8_t *digest = k->code->digest;

	if (k->library[0])
		return ht_str_printf(a, "library kernel %s", k->library);
	return ht_str_printf(a, "%llu bytes, SHA-256 %02x%02x%02x%02x…",
		(unsigned long long)k->code->bytes, digest[0], digest[1], digest[2], digest[3]);
}

/* The kernels of steps, by name.  Steps have the name of their node, and from the node's second
 * step on a number. */
static struct ht_map kernels_by_name(struct diff *x, const struct ht_program_plan *p)
{
	const struct ht_image *image = ht_plan_image(p);
	struct ht_arena *a = &x->w->arena;
	struct ht_map m, seen;

	ht_map_init(&m, a);
	ht_map_init(&seen, a);
	for (uint32_t i = 0; i < ht_image_count(image, HT_IMAGE_STEPS); i++) {
		const struct ht_image_step *s = &ht_image_steps(image)[i];
		const char *node = ht_image_text(image, ht_image_notes(image)[i].node);
		struct ht_map_entry *e = ht_map_at(&seen, ht_str(node));
		size_t *n = e->value ? e->value : HT_NEW(a, size_t);
		struct kernel *k;

		if (s->op != HT_IMAGE_KERNEL)
			continue;
		k = HT_NEW(a, struct kernel);
		*k = (struct kernel){ ht_image_text(image, ht_image_kernels(image)[s->to].name),
			&p->kernel[s->to] };
		e->value = n;
		ht_map_at(&m, *n ? ht_str_printf(a, "%s, step %zu", node, *n + 1) : ht_str(node))
			->value = k;
		++*n;
	}
	return m;
}

static void compare_code(
	struct diff *x, const struct ht_program_plan *a, const struct ht_program_plan *b)
{
	struct ht_map before = kernels_by_name(x, a), after = kernels_by_name(x, b);
	struct ht_arena *arena = &x->w->arena;

	for (size_t i = 0; i < before.count; i++) {
		struct ht_str name = before.entries[i].key;
		const struct kernel *was = before.entries[i].value;
		const struct kernel *is = ht_map_get(&after, name);
		struct ht_str what = ht_str_printf(arena, "code of node '%.*s'", HT_STR_ARG(name));

		if (!is)
			differs(x, what, kernel_text(x, was), ht_str(""));
		else if (!same_kernel(was, is))
			differs(x, what, kernel_text(x, was), kernel_text(x, is));
	}
	for (size_t i = 0; i < after.count; i++) {
		struct ht_str name = after.entries[i].key;

		if (!ht_map_get(&before, name))
			differs(x, ht_str_printf(arena, "code of node '%.*s'", HT_STR_ARG(name)),
				ht_str(""), kernel_text(x, after.entries[i].value));
	}
}

/* ---- weights ---- */

static struct ht_str weight_key(struct diff *x, const struct ht_index_weight *w)
{
	struct ht_buf b;

	ht_buf_init(&b, &x->w->arena);
	ht_printf(&b, "%llu", (unsigned long long)w->bytes);
	for (size_t i = 0; i < w->chunks; i++)
		ht_printf(&b, ":%llx%016llx", (unsigned long long)w->chunk[i].hi,
			(unsigned long long)w->chunk[i].lo);
	return ht_buf_str(&b);
}

/* The weights of a plan that the other plan does not have; empty: none. */
static struct ht_str only_in(struct diff *x, int side, const struct ht_program_plan *plan)
{
	const struct ht_index *here = &x->artefact[side].index, *there = &x->artefact[!side].index;
	const struct ht_program_plan *other = &plan[side ? -1 : 1];
	unsigned long long n = 0, bytes = 0;
	struct ht_map m;

	ht_map_init(&m, &x->w->arena);
	for (size_t i = 0; i < other->weights; i++)
		ht_map_at(&m, weight_key(x, &there->weight[other->weight[i].number]))->value = x;
	for (size_t i = 0; i < plan->weights; i++) {
		if (ht_map_get(&m, weight_key(x, &here->weight[plan->weight[i].number])))
			continue;
		n++;
		bytes += plan->weight[i].bytes;
	}
	return n ? ht_str_printf(&x->w->arena, "%llu of its own, %llu bytes", n, bytes)
		 : ht_str("");
}

/* ---- variants ---- */

static struct ht_str variant_text(struct diff *x, const struct ht_index_variant *v)
{
	struct ht_buf b;

	ht_buf_init(&b, &x->w->arena);
	ht_variant_put(&b, v);
	return ht_buf_str(&b);
}

static enum ht_status compare_variant(struct diff *x, const size_t number[2])
{
	const cJSON *a = manifest_of(x, 0, number[0]), *b = manifest_of(x, 1, number[1]);
	struct ht_program_plan plan[2];
	struct ht_str before, after;

	for (int i = 0; i < 2; i++)
		HT_TRY(ht_artefact_plan(&x->artefact[i], number[i], &x->w->arena, x->d, &plan[i]));
	compare_json(x, ht_str(""), a, b);
	compare_code(x, &plan[0], &plan[1]);
	before = only_in(x, 0, &plan[0]);
	after = only_in(x, 1, &plan[1]);
	if (before.n || after.n)
		differs(x, ht_str("weights"), before, after);
	return HT_OK;
}

static bool find(struct diff *x, int side, struct ht_str name, size_t *number)
{
	const struct ht_index *in = &x->artefact[side].index;

	for (size_t i = 0; i < in->variants; i++)
		if (ht_str_eq(variant_text(x, &in->variant[i]), name)) {
			*number = i;
			return true;
		}
	return false;
}

static enum ht_status compare_variants(struct diff *x)
{
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < x->artefact[side].index.variants; i++) {
			size_t number[2] = { i, i };

			const struct ht_index_variant *v = &x->artefact[side].index.variant[i];
			struct ht_str size = ht_str_printf(&x->w->arena, "a plan of %llu bytes",
				(unsigned long long)v->plan_bytes);

			x->variant = variant_text(x, v);
			if (!find(x, !side, x->variant, &number[!side]))
				differs(x, ht_str("variant"), side ? ht_str("") : size,
					side ? size : ht_str(""));
			else if (!side)
				HT_TRY(compare_variant(x, number));
		}
	x->variant = ht_str("");
	return HT_OK;
}

static struct ht_str signer(struct diff *x, int side)
{
	struct ht_buf b;

	ht_buf_init(&b, &x->w->arena);
	for (size_t i = 0; x->artefact[side].is_signed && i < sizeof x->artefact[side].key; i++)
		ht_printf(&b, "%02x", x->artefact[side].key[i]);
	return ht_buf_str(&b);
}

/* ---- what is printed ---- */

static void put_text(struct diff *x, struct ht_buf *b, const struct difference *i)
{
	struct ht_str before = i->before, after = i->after;

	if (i->variant.n)
		ht_printf(b, "%.*s: ", HT_STR_ARG(i->variant));
	if (!before.n || !after.n)
		ht_printf(b, "%.*s: only in %s: %.*s\n", HT_STR_ARG(i->what), x->path[!before.n],
			HT_STR_ARG(before.n ? before : after));
	else
		ht_printf(b, "%.*s: %.*s -> %.*s\n", HT_STR_ARG(i->what), HT_STR_ARG(before),
			HT_STR_ARG(after));
}

static void put_json(struct ht_buf *b, const struct difference *i)
{
	ht_puts(b, "\n  {\"what\": ");
	ht_put_json(b, i->what);
	ht_put_member(b, "variant", i->variant);
	ht_put_member(b, "before", i->before);
	ht_put_member(b, "after", i->after);
	ht_puts(b, i->next ? "}," : "}");
}

static enum ht_status print(struct diff *x)
{
	struct ht_buf b;

	ht_buf_init(&b, &x->w->arena);
	if (x->format == HT_FORMAT_JSON)
		ht_puts(&b, "{\"schema\": \"halftone.artefact_diff/1\",\n \"differences\": [");
	for (const struct difference *i = x->first; i; i = i->next)
		if (x->format == HT_FORMAT_JSON)
			put_json(&b, i);
		else
			put_text(x, &b, i);
	if (x->format == HT_FORMAT_JSON)
		ht_puts(&b, "]}\n");
	return ht_put_bytes(ht_buf_str(&b), NULL, x->d, x->out);
}

/* ---- the whole ---- */

static void close_artefact(void *a)
{
	ht_artefact_close(a);
}

static void free_json(void *v)
{
	cJSON_Delete(v);
}

static enum ht_status open(struct diff *x, int side)
{
	struct ht_artefact_trust trust = ht_artefact_trust_of(&x->opt);
	struct ht_artefact *a = &x->artefact[side];

	HT_TRY(ht_artefact_open(x->path[side], &trust, &x->w->arena, x->d, a));
	ht_arena_defer(&x->w->arena, close_artefact, a);
	x->manifest[side] = cJSON_ParseWithLength(a->manifest.p, a->manifest.n);
	if (!x->manifest[side])
		return ht_artefact_refuse(a, x->d, "its manifest is no JSON");
	ht_arena_defer(&x->w->arena, free_json, x->manifest[side]);
	return HT_OK;
}

static enum ht_status diff(void *arg)
{
	struct diff *x = arg;

	x->last = &x->first;
	for (int i = 0; i < 2; i++)
		HT_TRY(open(x, i));
	compare_json(x, ht_str(""), x->manifest[0], x->manifest[1]);
	HT_TRY(compare_variants(x));
	if (!ht_str_eq(signer(x, 0), signer(x, 1)))
		differs(x, ht_str("signature"), signer(x, 0), signer(x, 1));
	HT_TRY(print(x));
	return x->first ? HT_E_VERDICT : HT_OK;
}

enum ht_status ht_artefact_diff(const char *a, const char *b, const struct ht_artefact_options *opt,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct diff x = { .path = { a, b }, .format = format, .w = &w, .d = d, .out = out };

	*out = (struct ht_bytes){ 0 };
	HT_TRY(ht_artefact_options_of(opt, d, &x.opt));
	return ht_work_run(&w, diff, &x, d);
}
