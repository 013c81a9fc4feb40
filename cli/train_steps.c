/* The steps of a training, with evaluations and checkpoints between them. */
#include "cli/train.h"

#include <math.h>

enum ht_status train_measure(struct training *t, long long step)
{
	enum ht_status st = HT_OK;
	int64_t at = 0;

	for (size_t i = 0; i < t->measures; i++)
		t->value[i] = 0;
	while (at < t->eval_data.count && st == HT_OK) {
		struct entry *e = t->eval_data.count - at >= t->batch ? &t->eval : &t->rest;

		for (int64_t k = 0; k < e->batch; k++)
			t->row[k] = at + k;
		st = entry_run(t->c, t->session, e, t->row, step);
		for (size_t i = 0; i < t->measures && st == HT_OK; i++)
			t->value[i] +=
				entry_mean(e, i) * (double)e->batch / (double)t->eval_data.count;
		at += e->batch;
	}
	t->evaluated = st == HT_OK;
	t->evaluated_at = step;
	return st;
}

static enum ht_status evaluate(struct training *t, long long step)
{
	enum ht_status st = train_measure(t, step);

	if (st != HT_OK)
		return st;
	log_values(&t->log, "evaluation", step, t->measured, t->value, t->measures);
	board_evaluation(&t->board, step, t->measured, t->value, t->measures);
	return HT_OK;
}

static enum ht_status save(struct training *t, long long step)
{
	enum ht_status st = HT_OK;

	if (t->saved.n && t->saved.step[t->saved.n - 1] == step)
		return HT_OK;
	st = train_note_progress(t, step);
	if (st == HT_OK)
		st = train_note_step_now(t);
	if (st == HT_OK)
		st = save_step(t->c, t->session, t->save, step, &t->saved);
	if (st == HT_OK)
		log_saved(&t->log, step, t->save);
	t->saved_at = log_seconds(&t->log);
	return st;
}

/* Whether a multiple of `every` is greater than `before` and at most `done`. */
static bool passes(long long before, long long done, long long every)
{
	return every && done / every > before / every;
}

static bool is_due(const struct training *t, long long before, long long done)
{
	if (t->save_seconds > 0)
		return log_seconds(&t->log) - t->saved_at >= t->save_seconds;
	return passes(before, done, t->save_every);
}

static enum ht_status check_scale(const struct training *t, long long done)
{
	if (!t->scale.diverges)
		return HT_OK;
	return fail(HT_E_VERDICT,
		"step %lld: gradients overflow at loss scale %g, %lld of %lld steps were skipped: a smaller "
		"scale would not help, or is not allowed",
		done, t->scale.scale, (long long)t->scale.skipped, (long long)t->scale.runs);
}

/* A loss that is not finite is no error if the step was skipped, since the variables are unchanged. */
static enum ht_status check_number(const struct training *t, long long done)
{
	if (isfinite(t->last_loss))
		return HT_OK;
	if (t->scaled && !t->scale.finite)
		return HT_OK;
	if (t->saved.n)
		return fail(HT_E_VERDICT,
			"step %lld: the loss '%s' is %s; the last checkpoint is %s/ckpt-%lld", done,
			t->loss, isnan(t->last_loss) ? "NaN" : "infinite", t->save,
			t->saved.step[t->saved.n - 1]);
	return fail(HT_E_VERDICT, "step %lld: the loss '%s' is %s", done, t->loss,
		isnan(t->last_loss) ? "NaN" : "infinite");
}

/* Phases share the session's variables, so a change of phase only selects another program. */
static enum ht_status run_step(struct training *t, long long i)
{
	const struct phase *was = phases_current(&t->phases);
	struct phase *p = phases_next(&t->phases);
	double begun = log_seconds(&t->log);
	enum ht_status st;

	if (p != was)
		log_values(&t->log,
			p->kind == HT_PHASE_ORIGINAL ? "original precision"
						     : ht_phase_name(p->kind),
			i, NULL, NULL, 0);
	t->log.phase = t->phases.on ? ht_phase_name(p->kind) : NULL;
	st = train_watched_step(t, p->kind, i);
	p->steps++;
	p->seconds += log_seconds(&t->log) - begun;
	if (st != HT_OK)
		return st;
	p->loss = t->last_loss = entry_mean(&t->step[p->kind], 0);
	ht_train_phases_count_step(t->phases.plan, t->last_loss);
	if (t->step_tensor) {
		st = train_read_step_tensor(t, &t->step[p->kind]);
		if (st != HT_OK)
			return st;
	}
	t->scaled = ht_session_loss_scale(t->session, &t->scale);
	p->skipped += t->scaled && !t->scale.finite;
	p->scale = t->scale.scale;
	return HT_OK;
}

static enum ht_status one_step(struct training *t, long long i)
{
	enum ht_status st;

	for (int64_t k = 0; k < t->batch; k++)
		t->row[k] = order_row(&t->order, i * t->batch + k);
	st = run_step(t, i);
	if (st != HT_OK)
		return fail(st, "step %lld failed", i + 1);
	st = check_number(t, i + 1);
	return st == HT_OK ? check_scale(t, i + 1) : st;
}

/* Logs the steps from `first` to `done`, also to the event file.  They began at the time `begun`; `sum` is the sum of their losses. */
static void log_steps(struct training *t, long long first, long long done, double begun, double sum)
{
	const double steps = (double)(done - first), seconds = log_seconds(&t->log) - begun;
	const struct ht_loss_scale *scale = t->scaled ? &t->scale : NULL;
	const enum ht_phase_kind *phase = t->phases.on ? &phases_current(&t->phases)->kind : NULL;

	log_loop(&t->log, &(struct logged_loop){ done, done - first, t->last_loss, sum / steps,
				  (double)done * (double)t->batch / (double)t->data.count, scale });
	board_steps(&t->board,
		&(struct board_steps){ done, t->last_loss, t->loop > 1 ? sum / steps : NAN, NAN,
			seconds > 0 ? steps / seconds : NAN, scale, phase });
}

/* Runs steps up to the next multiple of --iterations-per-loop or the last step; then evaluates and saves if that is due. */
static enum ht_status one_loop(struct training *t, long long first, long long *done)
{
	long long end = first + t->loop - first % t->loop;
	double begun = log_seconds(&t->log), sum = 0;
	enum ht_status st = HT_OK;

	if (end > t->steps)
		end = t->steps;
	*done = first;
	while (*done < end && st == HT_OK && !train_is_stopped()) {
		st = one_step(t, *done);
		if (st != HT_OK && st != HT_E_VERDICT)
			break; /* the step did not finish, so it has no loss */
		sum += t->last_loss;
		++*done;
	}
	if (*done == first)
		return st;
	log_steps(t, first, *done, begun, sum);
	if (st == HT_OK && t->eval_data.n && passes(first, *done, t->eval_every))
		st = evaluate(t, *done);
	if (st == HT_OK && t->save && is_due(t, first, *done))
		st = save(t, *done);
	return st;
}

static void note_last_loop(const struct training *t)
{
	if (t->steps > t->first && t->steps % t->loop)
		note(t->c, "the last loop has %lld steps instead of %lld", t->steps % t->loop,
			t->loop);
}

enum ht_status train_run_steps(struct training *t)
{
	enum ht_status st = HT_OK;
	long long i = t->first;

	if (i && i >= t->steps)
		note(t->c, "%lld steps are done already", i);
	note_last_loop(t);
	while (i < t->steps && st == HT_OK && !train_is_stopped())
		st = one_loop(t, i, &i);
	if (st != HT_OK)
		return st;
	if (train_is_stopped())
		note(t->c, "stopped by a signal behind step %lld", i);
	if (t->eval_data.n && !train_is_stopped() && !(t->evaluated && t->evaluated_at == i))
		st = evaluate(t, i);
	if (st == HT_OK && t->save)
		st = save(t, i);
	t->steps = i;
	return st;
}
