/* halftone train: steps of a training graph over data, with evaluations and checkpoints. */
#include "cli/train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- signals: the first one ends the training after the current step ---- */

static volatile sig_atomic_t stopped;

bool train_is_stopped(void)
{
	return stopped;
}

static void stop(int signal)
{
	stopped = signal;
}

static void catch_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM };

	for (size_t i = 0; i < 2; i++) {
		struct sigaction now, ours = { .sa_handler = stop };

		if (sigaction(ending[i], NULL, &now) || now.sa_handler == SIG_IGN)
			continue;
		sigemptyset(&ours.sa_mask);
		ours.sa_flags = (int)SA_RESETHAND;
		sigaction(ending[i], &ours, NULL);
	}
}

/* ---- options ---- */

/* Parses N steps, or "600s" for seconds. */
static enum ht_status read_save_every(struct training *t)
{
	const char *s = option(t->c, OPTION_SAVE_EVERY, NULL);
	char *end;
	double x;

	t->save = option(t->c, OPTION_SAVE, NULL);
	if (!s)
		return HT_OK;
	if (!t->save)
		return refuse(t->c, "--save-every has no effect without --save");
	x = strtod(s, &end);
	if (end == s || !(x > 0) || x > 1e15 || (*end && strcmp(end, "s") != 0) ||
		(!*end && x != floor(x)))
		return fail(HT_E_USAGE,
			"--save-every: '%s' is neither N steps nor SECONDSs, as 600s", s);
	if (*end)
		t->save_seconds = x;
	else
		t->save_every = (long long)x;
	return HT_OK;
}

static enum ht_status read_eval_names(struct training *t)
{
	const char *s = option(t->c, OPTION_EVAL_FETCH, t->loss);
	char *save = NULL;

	if (option_on(t->c, OPTION_EVAL_FETCH) && !option_on(t->c, OPTION_EVAL))
		return refuse(t->c, "--eval-fetch has no effect without --eval");
	if (option_on(t->c, OPTION_EVAL_EVERY) && !option_on(t->c, OPTION_EVAL))
		return refuse(t->c, "--eval-every has no effect without --eval");
	t->eval_names = strdup(s);
	t->measured = must_alloc((strlen(s) + 1) * sizeof *t->measured);
	for (char *n = strtok_r(t->eval_names, ",", &save); n; n = strtok_r(NULL, ",", &save))
		t->measured[t->measures++] = n;
	t->value = must_alloc((t->measures + 1) * sizeof *t->value);
	return HT_OK;
}

static enum ht_status read_step_tensor_name(struct training *t)
{
	const char *phases = option(t->c, OPTION_PHASES, NULL);

	t->step_tensor = option(t->c, OPTION_STEP_TENSOR, NULL);
	if (t->step_tensor && (!phases || !strstr(phases, "|step")))
		return refuse(t->c,
			"--step-tensor has no effect without --accelerate-train-mode '…|step'");
	return HT_OK;
}

static enum ht_status read_options(struct training *t)
{
	struct cli *c = t->c;
	long long keep = 0, threads = 1;
	enum ht_status st = load_configs(c);

	t->loss = option(c, OPTION_LOSS, NULL);
	t->train_op = option(c, OPTION_TRAIN_OP, NULL);
	if (!t->loss || !option_on(c, OPTION_TRAIN_STEPS))
		return fail(HT_E_USAGE, "halftone train needs --loss NAME and --steps N");
	if (!option_on(c, OPTION_DATA))
		return fail(
			HT_E_USAGE, "halftone train needs data: --data NAME=@FILE.npy, repeatable");
	if (st == HT_OK)
		st = option_number(c, OPTION_TRAIN_STEPS, 0, 0, 1LL << 40, &t->steps);
	if (st == HT_OK)
		st = option_number(c, OPTION_BATCH, 32, 1, 1 << 20, &t->batch);
	if (st == HT_OK)
		st = option_number(c, OPTION_SEED, 1, 0, INT64_MAX, &t->seed);
	if (st == HT_OK)
		st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);
	if (st == HT_OK)
		st = option_number(c, OPTION_LOOP, 1, 1, 1LL << 40, &t->loop);
	if (st == HT_OK)
		st = option_number(c, OPTION_EVAL_EVERY, 0, 1, 1LL << 40, &t->eval_every);
	if (st == HT_OK)
		st = option_number(c, OPTION_KEEP, 5, 0, 1 << 20, &keep);
	if (st == HT_OK)
		st = read_save_every(t);
	if (st == HT_OK)
		st = read_eval_names(t);
	if (st == HT_OK)
		st = read_step_tensor_name(t);
	t->saved.keep = (size_t)keep;
	t->compile.threads = (int)threads;
	t->compile.target = option(c, OPTION_TARGET, NULL);
	t->compile.lines = announce_lines(c);
	t->compile.nodes = profile_nodes(c);
	t->compile.tee = dump_tee(c);
	if (st == HT_OK && option_on(c, OPTION_RESUME) &&
		(option_on(c, OPTION_RESTORE) || option_on(c, OPTION_INIT_OP)))
		st = fail(HT_E_USAGE,
			"--resume goes on with a training; --restore and --init-op begin one");
	return st;
}

/* ---- preparing ---- */

/* Whether computing the loss is a step, as in a signature of TensorFlow 2 that trains. */
static bool loss_trains(const struct training *t)
{
	struct ht_diags *unsaid = ht_diags_new();
	bool trains = ht_model_check_step(t->model, t->loss, NULL, unsaid) == HT_OK;

	ht_diags_free(unsaid);
	return trains;
}

/* Takes the train op of --train-op, else the one that the model names; none where the loss trains. */
static enum ht_status find_train_op(struct training *t)
{
	if (!t->train_op)
		t->train_op = ht_model_train_op(t->model);
	if (t->train_op)
		return ht_model_check_step(t->model, t->loss, t->train_op, t->c->diags);
	return loss_trains(t)
		       ? HT_OK
		       : fail(HT_E_USAGE,
				 "halftone train needs --train-op NAME: the model names no train op, or "
				 "several, and computing the loss changes no variable");
}

/* The steps of an artefact are compiled already; options that would change them are refused. */
static enum ht_status check_compiled(const struct training *t)
{
	static const enum option compiled[] = { OPTION_TRAIN_OP, OPTION_LOSS_SCALE, OPTION_INIT_OP,
		OPTION_SIGNATURE, OPTION_CONFIG };

	for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
		if (option_on(t->c, compiled[i]))
			return fail(HT_E_USAGE,
				"--%s: %s is compiled already; state it to compile --entry",
				option_rows[compiled[i]].name, t->c->model);
	if (sides_wanted(t->c) || dump_tee(t->c))
		return fail(HT_E_USAGE, "%s: dumps, and policies side by side, need the model",
			t->c->model);
	return HT_OK;
}

enum ht_status train_open_model(struct training *t)
{
	struct ht_load_options opt = HT_LOAD_OPTIONS_INIT;
	struct cli *c = t->c;
	enum ht_status st;

	if (ht_is_artefact(c->model)) {
		st = check_compiled(t);
		return st == HT_OK ? phases_read(c, NULL, t->steps, t->loop, &t->phases) : st;
	}
	opt.signature = option(c, OPTION_SIGNATURE, NULL);
	st = ht_model_load(c->model, &opt, c->diags, &t->model);
	if (st == HT_OK)
		st = find_train_op(t);
	if (st == HT_OK)
		st = use_cache(c, t->model);
	if (st == HT_OK)
		st = open_policy(c, &t->policy);
	if (st == HT_OK)
		st = phases_read(c, t->policy, t->steps, t->loop, &t->phases);
	t->compile.policy = t->policy;
	return st;
}

enum ht_status train_open_session(struct training *t)
{
	struct ht_session_options opt = HT_SESSION_OPTIONS_INIT;
	struct ht_context_options limits = HT_CONTEXT_OPTIONS_INIT;
	enum ht_status st = load_configs(t->c);

	if (st == HT_OK)
		st = use_device(t->c);
	if (st != HT_OK)
		return st;
	read_limits(t->c, &limits);
	opt.limits = &limits;
	opt.pages = pages_wanted(t->c);
	opt.threads = t->compile.threads;
	opt.seed = (uint64_t)t->seed;
	opt.seeded = 1;
	st = ht_session_new(&opt, t->c->diags, &t->session);
	if (st == HT_OK && t->model) /* an artefact has its own */
		st = ht_session_scale_loss(
			t->session, t->loss, option(t->c, OPTION_LOSS_SCALE, "none"), t->c->diags);
	return st;
}

/* Opens an entry of the model, or of the artefact, which must have a variant for the policy of
 * each kind of phase. */
static enum ht_status open_entry(
	struct training *t, enum ht_phase_kind kind, const struct entry_wanted *w, struct entry *e)
{
	struct cli *c = t->c;
	enum ht_status st;

	if (!t->model)
		return entry_load(c, t->session,
			kind != HT_PHASE_ORIGINAL     ? ht_phase_policy(kind, phases_are_v2(c))
			: option_on(c, OPTION_POLICY) ? option(c, OPTION_POLICY, NULL)
						      : NULL,
			w, e);
	t->compile.policy = kind == HT_PHASE_ORIGINAL ? t->policy : t->phases.low[kind];
	st = entry_open(c, t->session, t->model, &t->compile, w, e);
	t->compile.policy = t->policy;
	return st;
}

static enum ht_status open_eval(struct training *t)
{
	struct data *d = &t->eval_data;
	struct entry_wanted w = { "evaluation", "evaluation", t->measured, t->measures, d,
		OPTION_EVAL_FEED, 0, 0 };
	enum ht_status st = HT_OK;
	int64_t rest = d->count % t->batch;

	if (d->count >= t->batch) {
		w.batch = t->batch;
		st = open_entry(t, HT_PHASE_ORIGINAL, &w, &t->eval);
	}
	if (st == HT_OK && rest) {
		w.name = "evaluation of the last rows";
		w.batch = rest;
		st = open_entry(t, HT_PHASE_ORIGINAL, &w, &t->rest);
	}
	return st;
}

/* Any program of a step: those of all phases have the same inputs and outputs. */
static const struct entry *a_step(const struct training *t)
{
	return &t->step[t->phases.phase[0].kind];
}

static enum ht_status check_loss(const struct training *t)
{
	const struct ht_array *a = &a_step(t)->out_view[0];

	if (a->bytes != ht_dtype_bytes(a->dtype) ||
		(a->dtype != HT_F32 && a->dtype != HT_F64 && a->dtype != HT_F16 &&
			a->dtype != HT_BF16))
		return fail(HT_E_USAGE,
			"--loss %s: a loss is one number of floating point; this has %zu "
			"elements of %s",
			t->loss, a->bytes / ht_dtype_bytes(a->dtype), ht_dtype_name(a->dtype));
	return HT_OK;
}

static enum ht_status check_step_tensor(const struct training *t)
{
	const struct ht_array *a = &a_step(t)->out_view[1];

	if (a->bytes == ht_dtype_bytes(a->dtype) && a->dtype != HT_BOOL)
		return HT_OK;
	return fail(HT_E_USAGE,
		"--step-tensor %s: a number of steps is one number; this has %zu elements of %s",
		t->step_tensor, a->bytes / ht_dtype_bytes(a->dtype), ht_dtype_name(a->dtype));
}

enum ht_status train_open_steps(struct training *t)
{
	static const char *const names[HT_PHASE_KINDS] = { "step", "step in float16",
		"step in bfloat16" };
	struct entry_wanted w = { NULL, "step", t->output, t->outputs, &t->data, OPTION_FEED,
		t->batch, t->steps };
	enum ht_status st = HT_OK;

	for (int i = 0; i < HT_PHASE_KINDS && st == HT_OK; i++) {
		if (!t->phases.used[i])
			continue;
		w.name = names[i];
		st = open_entry(t, (enum ht_phase_kind)i, &w, &t->step[i]);
	}
	t->compile.tee = HT_TEE_NOTHING; /* evaluations are not observed */
	return st;
}

enum ht_status train_open_entries(struct training *t)
{
	enum ht_status st = train_open_steps(t);

	if (st == HT_OK)
		st = check_loss(t);
	if (st == HT_OK && t->step_tensor)
		st = check_step_tensor(t);
	if (st == HT_OK && t->eval_data.n)
		st = open_eval(t);
	return st;
}

/* ---- first values ---- */

/* What a checkpoint notes about a training.  NOTED_SEED to NOTED_SHUFFLES determine the order of the rows; --resume requires
 * the same values. */
enum {
	NOTED_STEP,
	NOTED_SEED,
	NOTED_BATCH,
	NOTED_ROWS,
	NOTED_SHUFFLES,
	NOTED_PHASE,  /* index of the current phase */
	NOTED_WITHIN, /* steps of that phase so far */
	NOTED_LOSS,   /* bits of the last loss, on which phases may depend */
	NOTES
};
static const char NOTED_STEP_NOW[] =
	"step tensor";         /* a separate note: the last number of --step-tensor */
#define NOTED_SAME NOTED_PHASE /* the first note that may differ */

static enum ht_status note_progress(struct training *t, long long step)
{
	int64_t value[NOTES] = { step, t->seed, t->batch, t->data.count, t->order.shuffles };

	ht_train_phases_state(t->phases.plan, &value[NOTED_PHASE]);
	memcpy(&value[NOTED_LOSS], &t->last_loss, sizeof t->last_loss);
	return ht_session_note(t->session, "train", value, NOTES, t->c->diags);
}

/* A training that is resumed needs the last number of --step-tensor. */
static enum ht_status note_step_now(struct training *t)
{
	struct ht_phase_counters c = HT_PHASE_COUNTERS_INIT;

	if (!t->step_tensor)
		return HT_OK;
	ht_train_phases_counters(t->phases.plan, &c);
	return ht_session_note(t->session, NOTED_STEP_NOW, &c.step_now, 1, t->c->diags);
}

/* Phases by step continue after `now` steps. */
static enum ht_status set_step_now(struct training *t, int64_t now)
{
	struct ht_phase_counters c = HT_PHASE_COUNTERS_INIT;

	ht_train_phases_counters(t->phases.plan, &c);
	c.step_now = now;
	return ht_train_phases_set_counters(t->phases.plan, &c, t->c->diags);
}

/* Reads the number of --step-tensor after a step. */
static enum ht_status read_step_tensor(struct training *t, const struct entry *e)
{
	double now = entry_mean(e, 1);

	if (!(now >= 0 && now < 0x1p53) || now != floor(now))
		return fail(HT_E_VERDICT, "--step-tensor %s: %g is no number of steps",
			t->step_tensor, now);
	return set_step_now(t, (int64_t)now);
}

static enum ht_status go_on(struct training *t, const char *prefix)
{
	static const char *const what[NOTED_SAME] = { "", "--seed", "--batch", "rows of data",
		"shuffling" };
	const int64_t mine[NOTED_SAME] = { 0, t->seed, t->batch, t->data.count, t->order.shuffles };
	size_t n;
	const int64_t *noted = ht_session_noted(t->session, "train", &n);

	if (n != NOTES)
		return fail(HT_E_INPUT,
			"%s: it was not saved by halftone train; --restore takes its values",
			prefix);
	for (int i = NOTED_SEED; i < NOTED_SAME; i++)
		if (noted[i] != mine[i])
			return fail(HT_E_USAGE,
				"%s: it was saved with %s %lld, this has %lld; --restore takes "
				"the values alone",
				prefix, what[i], (long long)noted[i], (long long)mine[i]);
	t->first = noted[NOTED_STEP];
	memcpy(&t->last_loss, &noted[NOTED_LOSS], sizeof t->last_loss);
	ht_train_phases_go_on(t->phases.plan, &noted[NOTED_PHASE], t->first, t->last_loss);
	noted = ht_session_noted(t->session, NOTED_STEP_NOW, &n);
	return t->step_tensor && n == 1 ? set_step_now(t, noted[0]) : HT_OK;
}

static enum ht_status resume(struct training *t)
{
	const char *dir = option(t->c, OPTION_RESUME, NULL);
	size_t missing = 0;
	char *prefix;
	enum ht_status st = save_find(dir, &prefix);

	if (st == HT_OK)
		st = ht_session_restore(t->session, t->model, prefix, &missing, t->c->diags);
	if (st == HT_OK && missing)
		st = fail(HT_E_INPUT, "%s: it lacks %zu variable%s of this model", prefix, missing,
			missing > 1 ? "s" : "");
	if (st == HT_OK)
		st = go_on(t, prefix);
	if (st == HT_OK)
		note(t->c, "going on from %s", prefix);
	free(prefix);
	return st;
}

enum ht_status train_begin(struct training *t)
{
	const char *from = option(t->c, OPTION_RESTORE, NULL);
	enum ht_status st = HT_OK;

	if (option_on(t->c, OPTION_RESUME))
		return resume(t);
	if (from)
		st = ht_session_restore(t->session, t->model, from, NULL, t->c->diags);
	if (st == HT_OK && t->model) /* an artefact has first values */
		st = ht_session_initialise(t->session, t->model, option(t->c, OPTION_INIT_OP, NULL),
			&t->compile, t->c->diags);
	return st;
}

/* ---- the loop ---- */

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
	st = note_progress(t, step);
	if (st == HT_OK)
		st = note_step_now(t);
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
		st = read_step_tensor(t, &t->step[p->kind]);
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
	while (*done < end && st == HT_OK && !stopped) {
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

static enum ht_status run_steps(struct training *t)
{
	enum ht_status st = HT_OK;
	long long i = t->first;

	if (i && i >= t->steps)
		note(t->c, "%lld steps are done already", i);
	note_last_loop(t);
	while (i < t->steps && st == HT_OK && !stopped)
		st = one_loop(t, i, &i);
	if (st != HT_OK)
		return st;
	if (stopped)
		note(t->c, "stopped by a signal behind step %lld", i);
	if (t->eval_data.n && !stopped && !(t->evaluated && t->evaluated_at == i))
		st = evaluate(t, i);
	if (st == HT_OK && t->save)
		st = save(t, i);
	t->steps = i;
	return st;
}

/* ---- the report ---- */

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

static enum ht_status report(struct training *t, bool json)
{
	double seconds = log_seconds(&t->log), done = (double)(t->steps - t->first);
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct text out = { 0 };
	enum ht_status st, printed, profiled;

	ht_program_about(a_step(t)->program, &info);
	if (!json) {
		text_printf(&out, "%lld steps  loss %.6g  %.3g s  %.4g steps/s  %s\n", t->steps,
			t->last_loss, seconds, seconds > 0 ? done / seconds : 0, info.policy);
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

/* Sets the outputs of a step: the loss, `others`, the train op if there is one. */
void train_set_outputs(struct training *t, const char *const *others, size_t n)
{
	free(t->output);
	t->output = must_alloc((n + 2) * sizeof *t->output);
	t->output[0] = t->loss;
	for (size_t i = 0; i < n; i++)
		t->output[i + 1] = others[i];
	t->output[n + 1] = t->train_op;
	t->outputs = n + 1 + (t->train_op != NULL);
}

static enum ht_status open_data(struct training *t)
{
	struct cli *c = t->c;
	enum ht_status st = read_options(t);

	if (st == HT_OK)
		st = data_open(c, OPTION_DATA, &t->data);
	if (st == HT_OK)
		st = data_open(c, OPTION_EVAL, &t->eval_data);
	t->row = must_alloc(((size_t)t->batch + 1) * sizeof *t->row);
	return st;
}

enum ht_status train_open_order(struct training *t)
{
	return order_begin(
		&t->order, t->data.count, (uint64_t)t->seed, !option_on(t->c, OPTION_NO_SHUFFLE));
}

static enum ht_status prepare(struct training *t)
{
	enum ht_status st = train_open_order(t);

	if (st == HT_OK && t->save)
		st = save_make_dir(t->save);
	if (st == HT_OK)
		st = train_open_model(t);
	train_set_outputs(t, &t->step_tensor, t->step_tensor != NULL);
	if (st == HT_OK)
		st = train_open_session(t);
	if (st == HT_OK)
		st = train_open_entries(t);
	if (st == HT_OK)
		st = train_begin(t);
	return st == HT_OK ? train_watch_begin(t) : st;
}

/* Frees the session and the entries, which one run uses; the model, data and policy remain. */
void train_release_run(struct training *t)
{
	for (int i = 0; i < HT_PHASE_KINDS; i++)
		entry_close(&t->step[i]);
	entry_close(&t->eval);
	entry_close(&t->rest);
	memset(t->step, 0, sizeof t->step);
	t->eval = t->rest = (struct entry){ 0 };
	ht_session_free(t->session);
	t->session = NULL;
}

static void release(struct training *t)
{
	train_release_run(t);
	phases_free(&t->phases);
	free(t->output);
	ht_policy_free(t->policy);
	ht_model_free(t->model);
	data_close(&t->data);
	data_close(&t->eval_data);
	order_end(&t->order);
	free(t->saved.step);
	free(t->row);
	free(t->eval_names);
	free(t->measured);
	free(t->value);
}

/* Closes the log and the event file. */
static enum ht_status close_told(struct training *t)
{
	enum ht_status log = log_close(&t->log), board = board_close(&t->board);

	return log == HT_OK ? board : log;
}

enum ht_status verb_train(struct cli *c)
{
	struct training t = { .c = c,
		.compile = HT_COMPILE_OPTIONS_INIT,
		.last_loss = NAN,
		.board.c = c,
		.scale = HT_LOSS_SCALE_INIT };
	enum ht_format format;
	enum ht_status st = option_json(c, &format), closed;

	if (st == HT_OK)
		st = open_data(&t);
	if (st == HT_OK && sides_wanted(c) && (dump_tee(c) || profile_wanted(c)))
		st = refuse(c,
			"dumps and profiles are about one training; --policy and --seeds ask for several");
	if (st == HT_OK && sides_wanted(c)) {
		catch_signals();
		st = sides_run(&t, format == HT_FORMAT_JSON);
		release(&t);
		return st;
	}
	if (st == HT_OK)
		st = prepare(&t);
	if (st == HT_OK)
		st = log_open(&t.log, c, t.first, t.steps);
	t.log.loop = t.loop;
	if (st == HT_OK)
		st = board_open(&t.board, c, NULL, t.first);
	if (st == HT_OK) {
		catch_signals();
		st = run_steps(&t);
	}
	closed = close_told(&t);
	if (st == HT_OK)
		st = closed;
	if (st == HT_OK)
		st = report(&t, format == HT_FORMAT_JSON);
	closed = dump_end(t.dump); /* also after a training that failed: its dump shows why */
	if (st == HT_OK)
		st = closed;
	dump_free(t.dump);
	release(&t);
	if (st == HT_OK && stopped)
		raise(stopped);
	return st;
}
