/* halftone train with several policies: trainings side by side, which start from the same weights and use the same batches.
 *
 * The first side is float32; the others are compared with it.  The last side, the null policy, is float32 whose weights start
 * one unit in the last place away: its distance to the first side is the noise that rounding alone makes. */
#include "cli/train.h"

#include <halftone/tool.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN "must_keep_origin_dtype"

/* The relative difference between a side's number (loss or gradient norm) and the first side's, over all steps. */
struct deviation {
	double largest;
	long long largest_step;
	long long beyond_noise; /* the first step at which it exceeds the noise; 0: none */
};

struct side {
	const char *name;    /* of its policy */
	bool null;           /* its weights start one unit in the last place away */
	struct training run; /* the training from the current seed */
	double loss, norm;
	double step_seconds; /* of the last step */
	bool diverged;
	struct ht_step_memory memory; /* of a step */
	/* Over all seeds. */
	struct deviation loss_deviation, norm_deviation;
	double *final; /* by seed: the metric after the last step; NAN: it diverged */
	double last, seconds;
	long long skipped;
	size_t divergences;
};

struct sides {
	struct training *t;
	struct side *side;
	size_t n, seeds;
	const char *const *gradient;
	size_t gradients;
	const char *metric;
	/* The null side's largest deviation so far: of the loss, of the gradient norm. */
	double noise[2];
};

/* ---- options ---- */

bool sides_wanted(const struct cli *c)
{
	return c->option[OPTION_POLICY].n > 1 || option_on(c, OPTION_SEEDS);
}

static enum ht_status check_options(const struct cli *c)
{
	static const enum option alone[] = { OPTION_SAVE, OPTION_SAVE_EVERY, OPTION_RESUME,
		OPTION_PHASES, OPTION_LOOP, OPTION_EVAL_EVERY, OPTION_TARGET_LOSS,
		OPTION_STEP_TENSOR };

	for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
		if (option_on(c, alone[i]))
			return fail(HT_E_USAGE,
				"--%s is of one training; with several --policy, or --seeds, there are "
				"several",
				option_rows[alone[i]].name);
	return HT_OK;
}

static struct side *add_side(struct sides *s, const char *name, bool null)
{
	struct side *x = &s->side[s->n++];

	*x = (struct side){ .name = name, .null = null };
	x->final = must_alloc(s->seeds * sizeof *x->final);
	return x;
}

/* float32 first, then the stated policies in their order, then the null policy. */
static void list_sides(struct sides *s)
{
	const struct cli *c = s->t->c;
	size_t stated = c->option[OPTION_POLICY].n;

	s->side = must_alloc((stated + 2) * sizeof *s->side);
	add_side(s, ORIGIN, false);
	for (size_t i = 0; i < stated; i++)
		if (strcmp(c->option[OPTION_POLICY].value[i], ORIGIN) != 0)
			add_side(s, c->option[OPTION_POLICY].value[i], false);
	add_side(s, ORIGIN, true);
}

/* ---- a start ---- */

/* Moves each element of float32 variables one unit in the last place up or down at random; zeros stay. */
static enum ht_status move_weights(struct training *t)
{
	uint64_t state = (uint64_t)t->seed;
	struct ht_value_info v;

	for (size_t i = 0; ht_session_variable(t->session, i, &v); i++) {
		struct ht_array a = { NULL, v.bytes, v.dtype, v.rank, v.dim };
		float *x;
		enum ht_status st;

		if (v.dtype != HT_F32 || !v.value)
			continue;
		a.data = x = must_alloc(v.bytes + 1);
		memcpy(x, v.value, v.bytes);
		for (size_t k = 0; k < v.bytes / sizeof *x; k++)
			if (x[k] != 0)
				x[k] = nextafterf(
					x[k], random_next(&state) & 1 ? INFINITY : -INFINITY);
		st = ht_session_assign(t->session, i, &a, t->c->diags);
		free(x);
		if (st != HT_OK)
			return st;
	}
	return HT_OK;
}

static const char *side_name(const struct side *x)
{
	return x->null ? "null" : x->name;
}

/* Opens an event file in a folder of its own for the side, and with several seeds for each seed. */
static enum ht_status open_board(struct sides *s, struct side *x)
{
	char name[1200];

	snprintf(name, sizeof name, s->seeds > 1 ? "%.1000s seed %lld" : "%.1000s", side_name(x),
		s->t->seed);
	return board_open(&x->run.board, s->t->c, name, 0);
}

/* Finds the memory of the step that a training of this policy alone has, which does not have the gradients as outputs. */
static enum ht_status find_memory(struct sides *s, struct side *x)
{
	struct training alone = x->run;
	enum ht_status st;

	if (x->null) {
		x->memory = s->side[0].memory;
		return HT_OK;
	}
	alone.output = NULL;
	train_set_outputs(&alone, NULL, 0);
	x->memory = (struct ht_step_memory)HT_STEP_MEMORY_INIT;
	st = train_open_session(&alone);
	if (st == HT_OK)
		st = train_open_steps(&alone);
	if (st == HT_OK)
		st = ht_program_step_memory(
			alone.step[HT_PHASE_ORIGINAL].program, alone.c->diags, &x->memory);
	train_release_run(&alone);
	free(alone.output);
	return st;
}

static enum ht_status open_side_policy(struct sides *s, struct side *x)
{
	struct training *r = &x->run;
	enum ht_status st = open_named_policy(s->t->c, x->name, &r->policy);

	r->compile.policy = r->policy;
	return st == HT_OK ? find_memory(s, x) : st;
}

static enum ht_status open_side(struct sides *s, struct side *x)
{
	struct training *r = &x->run;
	enum ht_status st = HT_OK;

	r->seed = s->t->seed;
	if (!r->policy)
		st = open_side_policy(s, x);
	r->compile.policy = r->policy;
	x->diverged = false;
	if (st == HT_OK)
		st = train_open_session(r);
	if (st == HT_OK)
		st = train_open_entries(r);
	if (st == HT_OK)
		st = train_begin(r);
	if (st == HT_OK && x->null)
		st = move_weights(r);
	return st == HT_OK ? open_board(s, x) : st;
}

/* Copies the training to each side, with a session and policy of its own; the model, data and outputs are shared. */
static void share(struct sides *s)
{
	for (size_t i = 0; i < s->n; i++) {
		s->side[i].run = *s->t;
		s->side[i].run.policy = NULL;
		s->side[i].run.session = NULL;
		s->side[i].run.value = must_alloc((s->t->measures + 1) * sizeof(double));
	}
}

/* ---- steps ---- */

static double norm_of(const struct sides *s, const struct entry *e)
{
	double sum = 0;

	for (size_t i = 1; i <= s->gradients; i++)
		sum += entry_squares(e, i);
	return s->gradients ? sqrt(sum) : NAN;
}

static enum ht_status step_side(struct sides *s, struct side *x, long long i)
{
	struct training *r = &x->run;
	struct entry *e = &r->step[HT_PHASE_ORIGINAL];
	struct ht_loss_scale scale = HT_LOSS_SCALE_INIT;
	double begun = log_seconds(&s->t->log);
	enum ht_status st = entry_run(r->c, r->session, e, s->t->row, i);
	bool scaled;

	x->step_seconds = log_seconds(&s->t->log) - begun;
	x->seconds += x->step_seconds;
	if (st != HT_OK)
		return fail(st, "step %lld of policy %s failed", i + 1, x->name);
	x->loss = entry_mean(e, 0);
	x->norm = norm_of(s, e);
	scaled = ht_session_loss_scale(r->session, &scale);
	board_steps(&r->board, &(struct board_steps){ i + 1, x->loss, NAN, x->norm,
				       x->step_seconds > 0 ? 1 / x->step_seconds : NAN,
				       scaled ? &scale : NULL, NULL });
	if (scaled && !scale.finite) {
		x->skipped++;
		x->diverged = scale.diverges;
	} else {
		x->diverged = !isfinite(x->loss);
	}
	return HT_OK;
}

/* Adds a step: `a` is the side's number, `b` the first side's.  Up to ten times the noise is within it. */
static void deviate(
	struct deviation *p, double a, double b, double *noise, bool null, long long step)
{
	double apart = a == b ? 0 : fabs(a - b) / fmax(fabs(b), 1e-30);

	if (!isfinite(apart))
		return;
	if (null && apart > *noise)
		*noise = apart;
	if (!null && !p->beyond_noise && apart > 10 * fmax(*noise, 1e-6))
		p->beyond_noise = step;
	if (apart > p->largest) {
		p->largest = apart;
		p->largest_step = step;
	}
}

static void compare_sides(struct sides *s, long long step)
{
	const struct side *first = &s->side[0];

	for (size_t i = s->n; i-- > 1;) { /* from the null side, whose noise the others need */
		struct side *x = &s->side[i];

		if (x->diverged || first->diverged)
			continue;
		deviate(&x->loss_deviation, x->loss, first->loss, &s->noise[0], x->null, step);
		deviate(&x->norm_deviation, x->norm, first->norm, &s->noise[1], x->null, step);
	}
}

static enum ht_status one_step(struct sides *s, long long i)
{
	struct training *t = s->t;
	enum ht_status st = HT_OK;

	for (int64_t k = 0; k < t->batch; k++)
		t->row[k] = order_row(&t->order, i * t->batch + k);
	for (size_t k = 0; k < s->n && st == HT_OK; k++)
		if (!s->side[k].diverged)
			st = step_side(s, &s->side[k], i);
	if (st != HT_OK)
		return st;
	compare_sides(s, i + 1);
	for (size_t k = 0; k < s->n; k++)
		log_side(&t->log, i + 1, t->seed, side_name(&s->side[k]), s->side[k].loss,
			s->side[k].norm);
	return HT_OK;
}

/* ---- one seed ---- */

static enum ht_status end_side(struct sides *s, struct side *x, size_t seed)
{
	enum ht_status st = HT_OK, closed;

	x->last = x->loss;
	x->divergences += x->diverged;
	x->final[seed] = x->loss;
	if (s->t->eval_data.n && !x->diverged) {
		st = train_measure(&x->run, s->t->steps);
		x->final[seed] = x->run.value[0];
		board_evaluation(
			&x->run.board, s->t->steps, s->t->measured, x->run.value, s->t->measures);
	}
	if (x->diverged)
		x->final[seed] = NAN;
	closed = board_close(&x->run.board);
	train_release_run(&x->run);
	return st == HT_OK ? closed : st;
}

static enum ht_status one_seed(struct sides *s, size_t seed)
{
	enum ht_status st = train_open_order(s->t);

	for (size_t i = 0; i < s->n && st == HT_OK; i++)
		st = open_side(s, &s->side[i]);
	for (long long i = 0; i < s->t->steps && st == HT_OK && !train_is_stopped(); i++)
		st = one_step(s, i);
	if (st == HT_OK && train_is_stopped())
		st = fail(HT_E_VERDICT, "stopped by a signal; nothing is told of a part");
	for (size_t i = 0; i < s->n && st == HT_OK; i++)
		st = end_side(s, &s->side[i], seed);
	order_end(&s->t->order);
	s->t->seed++;
	return st;
}

/* ---- the report ---- */

/* The mean difference of the metric to the first side's, and its interval, over the seeds in which neither diverged; returns
 * how many these are. */
static size_t difference(const struct sides *s, const struct side *x, double *mean, double *low,
	double *high, bool *interval)
{
	double *d = must_alloc((s->seeds + 1) * sizeof *d);
	size_t n = 0;

	*mean = 0;
	for (size_t i = 0; i < s->seeds; i++)
		if (isfinite(x->final[i]) && isfinite(s->side[0].final[i]))
			d[n++] = x->final[i] - s->side[0].final[i];
	for (size_t i = 0; i < n; i++)
		*mean += d[i] / (double)n;
	*interval = ht_mean_interval_of(d, n, low, high);
	free(d);
	return n;
}

static double mean_of(const struct sides *s, const struct side *x)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->seeds; i++)
		if (isfinite(x->final[i])) {
			sum += x->final[i];
			n++;
		}
	return n ? sum / (double)n : NAN;
}

static void put_deviation_text(
	struct text *out, const char *of, const struct deviation *p, bool null)
{
	text_printf(
		out, "    %s: at most %.3g apart, at step %lld", of, p->largest, p->largest_step);
	if (p->beyond_noise)
		text_printf(out, "; beyond ten times the noise from step %lld on", p->beyond_noise);
	else if (!null)
		text_printf(out, "; within ten times the noise");
	text_printf(out, "\n");
}

static void put_side_text(const struct sides *s, const struct side *x, struct text *out)
{
	double mean, low, high;
	bool interval;
	size_t n;

	text_printf(out, "%s  %s %.6g  %.3g s", x->null ? "null policy" : x->name, s->metric,
		mean_of(s, x), x->seconds);
	if (x->divergences)
		text_printf(out, "  diverged in %zu of %zu", x->divergences, s->seeds);
	if (x->skipped)
		text_printf(out, "  %lld steps skipped", x->skipped);
	text_printf(out, "\n");
	if (!x->null) {
		text_printf(out, "    memory: ");
		put_step_memory(out, &x->memory, false);
		text_printf(out, "\n");
	}
	if (x == s->side)
		return;
	n = difference(s, x, &mean, &low, &high, &interval);
	if (n)
		text_printf(out, "    %s: %+.4g", s->metric, mean);
	if (n && interval)
		text_printf(out, "  [%+.4g, %+.4g] over %zu starts", low, high, n);
	text_printf(out, n ? "\n" : "");
	put_deviation_text(out, "loss", &x->loss_deviation, x->null);
	if (s->gradients)
		put_deviation_text(out, "gradient norm", &x->norm_deviation, x->null);
}

static void put_deviation_json(struct text *out, const char *of, const struct deviation *p)
{
	text_printf(out, ", \"%s\": {\"largest\": ", of);
	text_number(out, p->largest);
	text_printf(out, ", \"step\": %lld, \"beyond_noise_from\": ", p->largest_step);
	text_printf(out, p->beyond_noise ? "%lld}" : "null}", p->beyond_noise);
}

static void put_side_json(const struct sides *s, const struct side *x, struct text *out)
{
	double mean, low, high;
	bool interval;

	text_printf(out, "{\"policy\": ");
	text_json(out, x->name);
	text_printf(out, ", \"null\": %s, \"final\": [", x->null ? "true" : "false");
	for (size_t i = 0; i < s->seeds; i++) {
		text_printf(out, i ? ", " : "");
		text_number(out, x->final[i]);
	}
	text_printf(out,
		"], \"seconds\": %.6f, \"diverged\": %zu, \"skipped\": %lld, \"memory\": {",
		x->seconds, x->divergences, x->skipped);
	put_step_memory(out, &x->memory, true);
	text_printf(out, "}");
	if (x != s->side) {
		size_t n = difference(s, x, &mean, &low, &high, &interval);

		text_printf(out, ", \"difference\": ");
		if (n)
			text_number(out, mean);
		else
			text_printf(out, "null");
		if (n && interval)
			text_printf(out, ", \"interval\": [%.17g, %.17g]", low, high);
		put_deviation_json(out, "loss", &x->loss_deviation);
		if (s->gradients)
			put_deviation_json(out, "gradient_norm", &x->norm_deviation);
	}
	text_printf(out, "}");
}

static enum ht_status report(const struct sides *s, bool json)
{
	struct text out = { 0 };

	if (json) {
		text_printf(&out, "{\"schema\": \"halftone.train_policies/1\",\n \"model\": ");
		text_json(&out, s->t->c->model);
		text_printf(&out,
			",\n \"steps\": %lld,\n \"seeds\": %zu,\n \"metric\": ", s->t->steps,
			s->seeds);
		text_json(&out, s->metric);
		text_printf(&out, ",\n \"sides\": [");
	} else {
		text_printf(&out, "%lld steps from %zu start%s\n", s->t->steps, s->seeds,
			s->seeds > 1 ? "s" : "");
	}
	for (size_t i = 0; i < s->n; i++) {
		if (json && i)
			text_printf(&out, ",\n  ");
		(json ? put_side_json : put_side_text)(s, &s->side[i], &out);
	}
	if (json)
		text_printf(&out, "]}\n");
	return text_print(&out);
}

/* ---- the verb ---- */

static enum ht_status open_all(struct sides *s)
{
	struct training *t = s->t;
	long long seeds;
	enum ht_status st = option_number(t->c, OPTION_SEEDS, 1, 1, 10000, &seeds);

	if (st == HT_OK)
		st = check_options(t->c);
	if (st == HT_OK)
		st = train_open_model(t);
	if (st == HT_OK && t->train_op)
		st = ht_model_gradients(
			t->model, t->loss, t->train_op, t->c->diags, &s->gradient, &s->gradients);
	if (st != HT_OK)
		return st;
	s->seeds = (size_t)seeds;
	s->metric = t->eval_data.n ? t->measured[0] : "loss";
	train_set_outputs(t, s->gradient, s->gradients);
	list_sides(s);
	share(s);
	return log_open(&t->log, t->c, 0, t->steps);
}

static void release(struct sides *s)
{
	for (size_t i = 0; i < s->n; i++) {
		board_close(&s->side[i].run.board);
		train_release_run(&s->side[i].run);
		ht_policy_free(s->side[i].run.policy);
		free(s->side[i].run.value);
		free(s->side[i].final);
	}
	free(s->side);
}

enum ht_status sides_run(struct training *t, bool json)
{
	struct sides s = { .t = t };
	enum ht_status st = open_all(&s), closed;

	for (size_t i = 0; i < s.seeds && st == HT_OK; i++)
		st = one_seed(&s, i);
	closed = log_close(&t->log);
	if (st == HT_OK)
		st = closed;
	if (st == HT_OK)
		st = report(&s, json);
	release(&s);
	return st;
}
