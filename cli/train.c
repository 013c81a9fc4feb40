/* halftone train: a training of a graph over data, with its options, from beginning to end. */
#include "cli/train.h"

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

/* ---- a training ---- */

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
		st = train_run_steps(&t);
	}
	closed = close_told(&t);
	if (st == HT_OK)
		st = closed;
	if (st == HT_OK)
		st = train_report(&t, format == HT_FORMAT_JSON);
	closed = dump_end(t.dump); /* also after a training that failed: its dump shows why */
	if (st == HT_OK)
		st = closed;
	dump_free(t.dump);
	release(&t);
	if (st == HT_OK && stopped)
		raise(stopped);
	return st;
}
