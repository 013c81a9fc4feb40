/* The loss scale of a session. */
#include "api/session.h"

#include "passes/passes.h"

static const struct ht_str note_name = { "loss_scale", sizeof "loss_scale" - 1 };

static bool is_scaled(const struct ht_session *s)
{
	for (size_t i = 0; i < s->entries.count; i++)
		if (((const struct ht_session_entry *)s->entries.entries[i].value)->scaled)
			return true;
	return false;
}

struct naming {
	struct ht_session *s;
	const char *loss, *how;
};

static enum ht_status keep_name(void *arg)
{
	struct naming *x = arg;

	x->loss = ht_str_copy(&x->s->arena, ht_str(x->loss)).p;
	x->how = ht_str_copy(&x->s->arena, ht_str(x->how)).p;
	return HT_OK;
}

static struct ht_session_variable own(const char *name, enum ht_dtype t, void *memory)
{
	return (struct ht_session_variable){ .name = ht_str(name),
		.key = ht_str(name),
		.dtype = t,
		.shape = HT_SHAPE_SCALAR,
		.bytes = ht_dtype_bytes(t),
		.memory = memory,
		.set = true };
}

enum ht_status ht_session_scale_loss(
	struct ht_session *s, const char *loss, const char *how, struct ht_diags *d)
{
	struct naming x = { s, loss, how };
	struct ht_scaling scaling;
	struct ht_work w;

	HT_TRY(ht_scaling_parse(how, &scaling, d));
	if (is_scaled(s))
		return ht_refuse(
			d, HT_E_USAGE, "the session has an entry with a loss scale already");
	HT_TRY(ht_session_guarded(s, &w, keep_name, &x, d));
	s->scaling = scaling;
	s->loss_scale = scaling.loss ? x.how : NULL;
	if (scaling.loss)
		s->scaling.loss = x.loss;
	s->scale = own(HT_LOSS_SCALE, HT_F32, &s->scaling.scale);
	s->finite = own(HT_GRADIENTS_FINITE, HT_BOOL, &s->scaling.finite);
	return HT_OK;
}

enum ht_status ht_session_scale_as(
	struct ht_session *s, const struct ht_program *p, struct ht_diags *d)
{
	const struct ht_index *x = &p->artefact.index;

	if (s->scaling.loss || !x->scaled_loss || !*x->scaled_loss)
		return HT_OK;
	return ht_session_scale_loss(s, x->scaled_loss, x->loss_scale, d);
}

int ht_session_loss_scale(const struct ht_session *s, struct ht_loss_scale *out)
{
	const struct ht_scaling *x = &s->scaling;
	const struct ht_loss_scale all = { sizeof all, (double)x->scale, x->good, x->bad, x->steps,
		x->skipped, x->finite, x->diverges };

	if (!x->loss)
		return 0;
	return ht_caller_result(out, "ht_loss_scale", &all, sizeof all, NULL) == HT_OK;
}

struct ht_session_variable *ht_session_scale_variable(struct ht_session *s, struct ht_str name)
{
	if (!s->scaling.loss)
		return NULL;
	return ht_str_eq(name, s->scale.name)    ? &s->scale
	       : ht_str_eq(name, s->finite.name) ? &s->finite
						 : NULL;
}

void ht_session_update_scale(struct ht_session *s)
{
	ht_scaling_update(&s->scaling);
	s->scale.version.count++;
	s->finite.version.count++;
}

/* ---- checkpoints ---- */

void ht_session_note_scale(struct ht_session *s)
{
	int64_t numbers[HT_LOSS_SCALE_NUMBERS];

	if (!s->scaling.loss)
		return;
	ht_scaling_numbers(&s->scaling, numbers);
	ht_session_put_note(s, note_name, numbers, HT_LOSS_SCALE_NUMBERS);
}

void ht_session_take_scale(struct ht_session *s)
{
	size_t n;
	const int64_t *numbers = ht_session_noted(s, note_name.p, &n);

	if (!s->scaling.loss || n != HT_LOSS_SCALE_NUMBERS)
		return;
	ht_scaling_take(&s->scaling, numbers);
	s->scale.version.count++;
}
