/* Sections of a training: its end, and from its log the loss and the loss scale at each step. */
#include "api/page.h"

#include <math.h>
#include <string.h>

enum {
	MOST_POINTS = 400, /* of a line; more steps are averaged */
	MOST_STARTS = 64
};

/* ---- the end ---- */

static void put_phases(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "policy", false }, { "steps", true },
		{ "seconds", true } };
	struct ht_table t = { .b = w->b,
		.title = "Phases",
		.caption = "The policies that the training went through, in their order.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "phases"))
	{
		ht_cell(&t, ht_member_text(i, "policy"));
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(i, "steps")));
		ht_cell(&t, ht_text_member(w->a, i, "seconds"));
	}
	ht_table_end(&t);
}

static void put_facts(struct ht_page_work *w, const cJSON *root)
{
	const cJSON *scale = ht_member(root, "loss_scale"), *i;
	struct ht_table t = { .b = w->b,
		.title = "Result",
		.caption = "The state after the last step.",
		.column = ht_fact_columns,
		.columns = 2,
		.limit = HT_PAGE_ROWS };

	ht_fact(&t, "target", ht_member_text(root, "target"));
	ht_fact(&t, "first step", ht_text_exact(w->a, ht_member_number(root, "first")));
	ht_fact(&t, "steps", ht_text_exact(w->a, ht_member_number(root, "steps")));
	ht_fact(&t, "seconds", ht_text_member(w->a, root, "seconds"));
	ht_fact(&t, "loss", ht_text_member(w->a, root, "loss"));
	if (scale) {
		ht_fact(&t, "loss scale", ht_text_exact(w->a, ht_member_number(scale, "scale")));
		ht_fact(&t, "skipped steps",
			ht_text_exact(w->a, ht_member_number(scale, "skipped")));
	}
	cJSON_ArrayForEach(i, ht_member(root, "evaluation"))
		ht_fact(&t, ht_str_printf(w->a, "evaluation: %s", i->string).p,
			ht_text_number(w->a, ht_json_number(i)));
	ht_table_end(&t);
}

void ht_page_train(struct ht_page_work *w, const cJSON *root)
{
	ht_page_open(w, root, "Training", ht_member_text(root, "policy"));
	put_facts(w, root);
	put_phases(w, root);
	ht_page_section_end(w->b);
}

/* ---- curves ---- */

/* A value over the steps of one policy from one start. */
struct curve {
	struct ht_str policy;
	double seed; /* NaN: the log names none */
	struct ht_point *point;
	size_t n, cap;
	double sum;          /* sum of the values behind the last point, */
	size_t in_sum, each; /* how many these are, and how many make a point */
	double last;
};

struct curves {
	struct ht_arena *a;
	const char *member; /* of the log's lines */
	struct curve of[MOST_STARTS];
	size_t n, left_out;
};

static struct curve *curve_of(struct curves *c, const cJSON *event)
{
	struct ht_str policy = ht_member_text(event, "policy");
	double seed = ht_member_number(event, "seed");

	for (size_t i = 0; i < c->n; i++)
		if (ht_str_eq(c->of[i].policy, policy) &&
			(c->of[i].seed == seed || (isnan(seed) && isnan(c->of[i].seed))))
			return &c->of[i];
	if (c->n == MOST_STARTS)
		return NULL;
	c->of[c->n] = (struct curve){ .policy = policy, .seed = seed, .each = 1 };
	return &c->of[c->n++];
}

static bool is_step(const cJSON *event)
{
	struct ht_str name = ht_member_text(event, "event");

	return ht_str_is(name, "step") || ht_str_is(name, "loop");
}

static double value_of(const struct curves *c, const cJSON *event)
{
	return ht_member_number(event, c->member);
}

/* How many steps each point stands for. */
static void count_steps(struct curves *c, const cJSON *log)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, log)
	{
		struct curve *k = is_step(i) && ht_member(i, c->member) ? curve_of(c, i) : NULL;
		if (k)
			k->cap++;
		else if (is_step(i) && ht_member(i, c->member))
			c->left_out++;
	}
	for (size_t at = 0; at < c->n; at++) {
		c->of[at].each = (c->of[at].cap + MOST_POINTS - 1) / MOST_POINTS;
		c->of[at].point = HT_NEW_ARRAY(c->a, struct ht_point, MOST_POINTS + 1);
	}
}

static void end_point(struct curve *k, double step)
{
	if (!k->in_sum)
		return;
	k->point[k->n++] = (struct ht_point){ .x = step,
		.y = k->sum / (double)k->in_sum,
		.x_low = NAN,
		.x_high = NAN,
		.y_low = NAN,
		.y_high = NAN };
	k->sum = 0;
	k->in_sum = 0;
}

static void take_steps(struct curves *c, const cJSON *log)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, log)
	{
		struct curve *k = is_step(i) && ht_member(i, c->member) ? curve_of(c, i) : NULL;
		if (!k)
			continue;
		k->last = ht_member_number(i, "step");
		k->sum += value_of(c, i);
		if (++k->in_sum == k->each)
			end_point(k, k->last);
	}
	for (size_t at = 0; at < c->n; at++)
		end_point(&c->of[at], c->of[at].last);
}

static struct ht_str name_of(const struct curves *c, const struct curve *k)
{
	struct ht_str policy = k->policy.n ? k->policy : HT_STR("the training");

	return isnan(k->seed) || !k->policy.n
		       ? policy
		       : ht_str_printf(c->a, "%.*s, seed %.0f", HT_STR_ARG(policy), k->seed);
}

/* The curves of the log, at most as many as a plot has lines. */
static void put_curves(
	struct ht_page_work *w, const cJSON *log, const char *member, const char *name)
{
	struct curves *c = HT_NEW(w->a, struct curves);
	struct ht_plot plot = { .x_name = HT_STR("step"),
		.y_name = ht_str(name),
		.log_y = true,
		.kind = HT_PLOT_LINES };
	struct ht_point *point;
	size_t shown, each = 1;

	c->a = w->a;
	c->member = member;
	count_steps(c, log);
	take_steps(c, log);
	shown = c->n < HT_PLOT_MOST_LINES ? c->n : HT_PLOT_MOST_LINES;
	point = HT_NEW_ARRAY(w->a, struct ht_point, shown * (MOST_POINTS + 1));
	for (size_t i = 0; i < shown; i++) {
		const struct curve *k = &c->of[i];
		each = k->each > each ? k->each : each;
		for (size_t j = 0; j < k->n; j++) {
			struct ht_point *p = &point[plot.points++];
			*p = k->point[j];
			p->series = (int)i;
			p->label = name_of(c, k);
			p->says = ht_str_printf(w->a, "%.*s: %s at step %.0f", HT_STR_ARG(p->label),
				ht_text_number(w->a, p->y).p, p->x);
		}
	}
	plot.point = point;
	plot.title = each > 1 ? ht_str_printf(w->a, "The %s, the mean of up to %zu steps a point",
					name, each)
			      : ht_str_printf(w->a, "The %s at each step", name);
	ht_page_plot(w->b, &plot);
	if (c->n > shown || c->left_out)
		ht_page_paragraph(
			w->b, ht_str_printf(w->a, "The first %zu curves are drawn.", shown));
}

/* ---- events ---- */

static bool is_of_every_event(const char *name)
{
	return !strcmp(name, "event") || !strcmp(name, "step") || !strcmp(name, "seconds");
}

static void put_value(struct ht_buf *b, const cJSON *i, struct ht_arena *a)
{
	ht_puts(b, b->n ? ", " : "");
	ht_printf(b, "%s ", i->string);
	ht_put_str(b,
		cJSON_IsString(i) ? ht_str(i->valuestring) : ht_text_number(a, ht_json_number(i)));
}

/* What the event has beside the members of every event; of an evaluation its tensors, whatever they are called. */
static void put_values(struct ht_table *t, const cJSON *event, struct ht_arena *a)
{
	struct ht_buf b;
	const cJSON *i;

	ht_buf_init(&b, a);
	cJSON_ArrayForEach(i, event)
	{
		if (!is_of_every_event(i->string) && !cJSON_IsBool(i) && !cJSON_IsObject(i))
			put_value(&b, i, a);
	}
	cJSON_ArrayForEach(i, ht_member(event, "values"))
	{
		put_value(&b, i, a);
	}
	ht_cell_text(t, ht_buf_str(&b));
}

static void put_events(struct ht_page_work *w, const cJSON *log)
{
	static const struct ht_table_column columns[] = { { "step", true }, { "event", false },
		{ "values", false } };
	struct ht_table t = { .b = w->b,
		.title = "Events",
		.caption =
			"Evaluations, checkpoints, changes of the phase, and steps that were skipped because a gradient was not "
			"finite.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, log)
	{
		bool skipped = ht_member_is_true(i, "skipped");
		if (is_step(i) && !skipped)
			continue;
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(i, "step")));
		ht_cell(&t, skipped ? HT_STR("skipped") : ht_member_text(i, "event"));
		put_values(&t, i, w->a);
	}
	ht_table_end(&t);
}

void ht_page_train_log(struct ht_page_work *w, const cJSON *root)
{
	ht_page_open_of(w, w->source, "Training log", (struct ht_str){ "", 0 });
	put_curves(w, root, "loss", "loss");
	put_curves(w, root, "scale", "loss scale");
	put_events(w, root);
	ht_page_section_end(w->b);
}
