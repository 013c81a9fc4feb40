/* What a training prints at its end. */
#include "cli/train.h"

#include <math.h>

/* The seconds that a phase in low precision saved, by the mean time of steps in original precision; NAN: there were no such
 * steps. */
static double saved_by(const struct phases *all, const struct phase *p)
{
	double seconds = 0, steps = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->phase[i].kind == HT_PHASE_ORIGINAL) {
			seconds += all->phase[i].seconds;
			steps += (double)all->phase[i].steps;
		}
	if (p->kind == HT_PHASE_ORIGINAL || steps == 0 || !p->steps)
		return NAN;
	return seconds / steps * (double)p->steps - p->seconds;
}

static void put_phase_text(
	const struct training *t, const struct phase *p, const char *policy, struct text *out)
{
	double saved = saved_by(&t->phases, p);

	text_printf(out, "phase  %s  %lld steps  %.3g s", policy, p->steps, p->seconds);
	if (p->steps)
		text_printf(out, "  loss %.6g", p->loss);
	if (t->scaled)
		text_printf(out, "  scale %g  %lld skipped", p->scale, p->skipped);
	if (!isnan(saved))
		text_printf(out, "  saved %.3g s", saved);
	text_printf(out, "\n");
}

static void put_known(struct text *out, double x, bool known)
{
	if (known)
		text_number(out, x);
	else
		text_printf(out, "null");
}

static void put_phase_json(
	const struct training *t, const struct phase *p, const char *policy, struct text *out)
{
	const double saved = saved_by(&t->phases, p);

	text_printf(out,
		"{\"policy\": \"%s\", \"steps\": %lld, \"seconds\": %.6f, \"loss\": ", policy,
		p->steps, p->seconds);
	put_known(out, p->loss, p->steps > 0);
	if (t->scaled)
		text_printf(out, ", \"scale\": %.17g, \"skipped\": %lld", p->scale, p->skipped);
	text_printf(out, ", \"saved\": ");
	put_known(out, saved, !isnan(saved));
	text_printf(out, "}");
}

static void put_phases(const struct training *t, struct text *out, bool json)
{
	for (size_t i = 0; i < t->phases.n && t->phases.on; i++) {
		const struct phase *p = &t->phases.phase[i];
		struct ht_program_info info = HT_PROGRAM_INFO_INIT;

		ht_program_about(t->step[p->kind].program, &info);
		if (json && i)
			text_printf(out, ",\n  ");
		(json ? put_phase_json : put_phase_text)(t, p, info.policy, out);
	}
}

static void put_scale(const struct training *t, struct text *out, bool json)
{
	struct ht_loss_scale s = HT_LOSS_SCALE_INIT;
	bool on = ht_session_loss_scale(t->session, &s);

	if (on && !json)
		text_printf(out, "loss scale %g  %lld of %lld steps skipped\n", s.scale,
			(long long)s.skipped, (long long)s.runs);
	else if (on)
		text_printf(out,
			"{\"scale\": %.17g, \"good\": %lld, \"bad\": %lld, \"steps\": %lld, \"skipped\": %lld}",
			s.scale, (long long)s.good, (long long)s.bad, (long long)s.runs,
			(long long)s.skipped);
	else if (json)
		text_printf(out, "null");
}

/* The memory of each program of a step. */
static enum ht_status put_memory(const struct training *t, struct text *out, bool json)
{
	enum ht_status st = HT_OK;
	const char *separator = "";

	for (int i = 0; i < HT_PHASE_KINDS && st == HT_OK; i++) {
		const struct ht_program *p = t->step[i].program;
		struct ht_program_info info = HT_PROGRAM_INFO_INIT;

		if (!p)
			continue;
		ht_program_about(p, &info);
		text_printf(out, json ? "%s{\"policy\": \"%s\", " : "%smemory  %s  ", separator,
			info.policy);
		st = text_step_memory(out, t->c, p, json);
		text_printf(out, json ? "}" : "\n");
		separator = json ? ",\n  " : "";
	}
	return st;
}

enum ht_status train_report(struct training *t, bool json)
{
	double seconds = log_seconds(&t->log), done = (double)(t->steps - t->first);
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct text out = { 0 };
	enum ht_status st, printed, profiled;

	ht_program_about(train_a_step(t)->program, &info);
	if (!json) {
		text_printf(&out, "%lld steps  loss %.6g  %.3g s  %.4g steps/s", t->steps,
			t->last_loss, seconds, seconds > 0 ? done / seconds : 0);
		if (!t->phases.on) /* the lines of phases have their policies */
			text_printf(&out, "  %s", info.policy);
		text_printf(&out, "\n");
		put_scale(t, &out, false);
		put_phases(t, &out, false);
		st = put_memory(t, &out, false);
		for (size_t i = 0; i < t->measures && t->evaluated; i++)
			text_printf(&out, "evaluation  %s %.6g\n", t->measured[i], t->value[i]);
		profiled = profile_end(t->c, t->watched, t->watches, &out, HT_FORMAT_TEXT);
		printed = text_print(&out);
		return st != HT_OK ? st : printed == HT_OK ? profiled : printed;
	}
	text_printf(&out, "{\"schema\": \"halftone.train/1\",\n \"model\": ");
	text_json(&out, t->c->model);
	text_printf(
		&out, ",\n \"policy\": \"%s\",\n \"target\": \"%s\",\n ", info.policy, info.target);
	text_without_effect(&out, &info);
	text_printf(
		&out, ",\n \"first\": %lld,\n \"steps\": %lld,\n \"loss\": ", t->first, t->steps);
	text_number(&out, t->last_loss);
	text_printf(&out, ",\n \"loss_scale\": ");
	put_scale(t, &out, true);
	text_printf(&out, ",\n \"seconds\": %.6f,\n \"phases\": [", seconds);
	put_phases(t, &out, true);
	text_printf(&out, "],\n \"memory\": [");
	st = put_memory(t, &out, true);
	text_printf(&out, "],\n \"evaluation\": {");
	for (size_t i = 0; i < t->measures && t->evaluated; i++) {
		text_printf(&out, i ? ", " : "");
		text_json(&out, t->measured[i]);
		text_printf(&out, ": ");
		text_number(&out, t->value[i]);
	}
	text_printf(&out, "}");
	profiled = profile_end(t->c, t->watched, t->watches, &out, HT_FORMAT_JSON);
	text_printf(&out, "}\n");
	printed = text_print(&out);
	return st != HT_OK ? st : printed == HT_OK ? profiled : printed;
}
