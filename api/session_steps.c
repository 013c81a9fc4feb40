/* Loops of training steps in a session, each step in the precision of its phase. */
#include "api/session.h"
#include "stats/values.h"

static const char loop_name[] = "ht_session_loop";

static enum ht_status check_loss(const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	if (!outs || !out->data || out->bytes != ht_dtype_bytes(out->dtype) ||
		(out->dtype != HT_F64 && out->dtype != HT_F32 && out->dtype != HT_F16 &&
			out->dtype != HT_BF16))
		return ht_refuse(d, HT_E_USAGE,
			"the first output of steps is the loss, one number of floating point");
	return HT_OK;
}

static enum ht_status one_step(struct ht_session *s, struct ht_session_loop *l,
	struct ht_session_loop *caller, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	size_t phase = l->phases ? ht_train_phases_next(l->phases) : 0;
	enum ht_phase_kind kind =
		l->phases ? ht_train_phases_kind(l->phases, phase) : HT_PHASE_ORIGINAL;
	const char *entry = l->entry ? l->entry[kind] : NULL;

	if (!entry)
		return ht_refuse(
			d, HT_E_USAGE, "no entry for steps of phase '%s'", ht_phase_name(kind));
	if (l->before)
		l->before(l->arg, l->done);
	HT_TRY(ht_session_run(s, entry, in, ins, out, outs, d));
	l->loss = ht_value(&(struct ht_values){ out->data, out->dtype, 1, 1 }, 0);
	HT_TRY(ht_caller_result(caller, loop_name, l, sizeof *l, d));
	if (l->phases)
		ht_train_phases_count_step(l->phases, l->loss);
	if (l->after)
		l->after(l->arg, l->done, phase);
	l->done++;
	return ht_caller_result(caller, loop_name, l, sizeof *l, d);
}

enum ht_status ht_session_steps(struct ht_session *s, struct ht_session_loop *l,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d)
{
	struct ht_session_loop all = HT_SESSION_LOOP_INIT;

	HT_TRY(ht_caller_options(l, loop_name, &all, sizeof all, d));
	HT_TRY(check_loss(out, outs, d));
	for (int64_t left = all.steps; left > 0 && !(all.stop && *all.stop); left--)
		HT_TRY(one_step(s, &all, l, in, ins, out, outs, d));
	return HT_OK;
}
