/* Opens the model, the session and the programs of a training. */
#include "cli/train.h"

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

const struct entry *train_a_step(const struct training *t)
{
	return &t->step[t->phases.phase[0].kind];
}

static enum ht_status check_loss(const struct training *t)
{
	const struct ht_array *a = &train_a_step(t)->out_view[0];

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
	const struct ht_array *a = &train_a_step(t)->out_view[1];

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
