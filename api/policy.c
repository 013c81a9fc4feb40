/* Policies as objects of the public interface. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* `text` NULL: the policy with this name. */
static enum ht_status make(
	const char *name, const struct ht_str *text, struct ht_diags *d, struct ht_policy **out)
{
	struct ht_policy *p = ht_sys_alloc(sizeof *p);
	enum ht_status st;

	*out = NULL;
	if (!p)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	st = text ? ht_policy_init_text(p, name, *text, d) : ht_policy_init(p, name, d);
	p->together = ht_policy_together;
	if (st == HT_OK)
		*out = p;
	else
		ht_policy_free(p);
	return st;
}

enum ht_status ht_policy_new(const char *name, struct ht_diags *d, struct ht_policy **out)
{
	return make(name, NULL, d, out);
}

enum ht_status ht_policy_parse(
	const char *name, const char *text, size_t n, struct ht_diags *d, struct ht_policy **out)
{
	struct ht_str s = { text, n };

	return make(name, &s, d, out);
}

enum ht_status ht_policy_set(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d)
{
	return ht_option_set(p, key, value, d);
}

static enum ht_status check_array(const char *where, const struct ht_array *a, struct ht_diags *d)
{
	size_t bytes = ht_dtype_bytes(a->dtype);
	bool fits = bytes && a->rank >= 0 && a->data;

	for (int32_t i = 0; fits && i < a->rank; i++)
		fits = a->dim[i] >= 0 && !__builtin_mul_overflow(bytes, (size_t)a->dim[i], &bytes);
	if (fits && bytes == a->bytes)
		return HT_OK;
	return ht_error(d, HT_E_INPUT, HT_NOWHERE,
		"samples: %s: an array of %s has %zu bytes, which are not those of its shape",
		where, ht_dtype_name(a->dtype), a->bytes);
}

static enum ht_status add_sample(struct ht_policy *p, const char *where, const char *const *name,
	const struct ht_array *a, size_t n, struct ht_diags *d)
{
	struct ht_sample *s, **last = &p->budget.sample;

	if (setjmp(p->unwind.env))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	s = HT_NEW(&p->arena, struct ht_sample);
	s->where = where ? ht_str_copy(&p->arena, ht_str(where))
			 : ht_str_printf(&p->arena, "sample %zu", p->budget.samples + 1);
	s->name = HT_NEW_ARRAY(&p->arena, struct ht_str, n);
	s->value = HT_NEW_ARRAY(&p->arena, struct ht_tensor *, n);
	for (; s->n < n; s->n++) {
		const struct ht_array *from = &a[s->n];
		struct ht_blob *blob;
		HT_TRY(check_array(s->where.p, from, d));
		blob = ht_blob_in(&p->arena, from->bytes);
		memcpy((void *)(uintptr_t)blob->p, from->data, from->bytes);
		s->name[s->n] = ht_str_copy(&p->arena, ht_str(name[s->n] ? name[s->n] : ""));
		s->value[s->n] = ht_tensor_sharing(&p->arena, from->dtype,
			ht_shape_make(&p->arena, from->rank, from->dim), blob);
	}
	while (*last)
		last = &(*last)->next;
	*last = s;
	p->budget.samples++;
	return HT_OK;
}

enum ht_status ht_policy_add_sample(struct ht_policy *p, const char *where, const char *const *name,
	const struct ht_array *a, size_t n, struct ht_diags *d)
{
	if (p->budget.samples == HT_MAX_SAMPLES)
		return ht_error(d, HT_E_LIMIT, HT_NOWHERE, "samples: more than %d", HT_MAX_SAMPLES);
	return add_sample(p, where, name, a, n, d);
}

enum ht_status ht_policy_validate(const struct ht_policy *p, struct ht_diags *d)
{
	return ht_policy_check(p, d);
}

const char *ht_policy_name(const struct ht_policy *p)
{
	return ht_policy_label(p);
}

void ht_policy_free(struct ht_policy *p)
{
	if (p)
		ht_policy_release(p);
	free(p);
}
