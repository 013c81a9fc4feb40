/* Cost tables: parsing, look-up, and the roofline for targets without a table.
 *
 *   halftone.costs/1
 *   target x86-64-v4+bf16
 *   machine AMD EPYC
 *   date 2026-11-21
 *   KIND TYPE SIZE SIZE SIZE PICOSECONDS SPREAD
 *
 * Each further line is a point.  TYPE is f32, f16 or bf16; sizes that a kind does not have are
 * 1; SPREAD is the relative difference of the measurements. # begins a comment. */
#include "precision/optimal/cost.h"
#include "precision/optimal/assign.h"
#include "precision/optimal/shipped.h"

#include <math.h>
#include <string.h>

#define SCHEMA "halftone.costs/1"

struct point {
	double at[3]; /* logarithms to base 2 of the sizes */
	double ps;
};

struct ht_cost_points {
	struct {
		struct point *point;
		size_t n, cap;
	} of[HT_WORK_KINDS][HT_LABELS];
};

static const char *const kind_names[HT_WORK_KINDS] = {
#define HT_WORK(id, name, unit, sizes) [HT_WORK_##id] = name,
#include "precision/optimal/cost.def"
#undef HT_WORK
};

static enum ht_label label_of(enum ht_dtype t)
{
	return t == HT_F16 ? HT_LABEL_F16 : t == HT_BF16 ? HT_LABEL_BF16 : HT_LABEL_F32;
}

/* ---- reading ---- */

struct reader {
	const char *path;
	long line;
	struct ht_arena *arena;
	struct ht_diags *diags;
	struct ht_costs *out;
};

static struct ht_str next_word(struct ht_str *rest)
{
	struct ht_str w;

	while (rest->n && (*rest->p == ' ' || *rest->p == '\t' || *rest->p == '\r')) {
		rest->p++;
		rest->n--;
	}
	w.p = rest->p;
	while (rest->n && *rest->p != ' ' && *rest->p != '\t' && *rest->p != '\r') {
		rest->p++;
		rest->n--;
	}
	w.n = (size_t)(rest->p - w.p);
	return w;
}

static enum ht_status bad(struct reader *r, const char *what, struct ht_str found)
{
	struct ht_where at = HT_NOWHERE;

	at.path = r->path;
	at.line = r->line;
	return ht_error(r->diags, HT_E_INPUT, at, "%s; found '%.*s'", what, HT_STR_ARG(found));
}

static enum ht_status bad_kind(struct reader *r, struct ht_str found)
{
	struct ht_str names[HT_WORK_KINDS], near[3];
	struct ht_where at = HT_NOWHERE;

	at.path = r->path;
	at.line = r->line;
	for (int i = 0; i < HT_WORK_KINDS; i++)
		names[i] = ht_str(kind_names[i]);
	if (!ht_near_names(found, names, HT_WORK_KINDS, near))
		return bad(r, "a kind of work was expected", found);
	return ht_error(r->diags, HT_E_INPUT, at,
		"there is no kind of work '%.*s'; did you mean '%.*s'?", HT_STR_ARG(found),
		HT_STR_ARG(near[0]));
}

static enum ht_status read_point(struct reader *r, struct ht_str word, struct ht_str rest)
{
	struct ht_cost_points *points = r->out->points;
	struct point p;
	double number[5];
	enum ht_dtype t;
	int kind = 0;

	while (kind < HT_WORK_KINDS && !ht_str_is(word, kind_names[kind]))
		kind++;
	if (kind == HT_WORK_KINDS)
		return bad_kind(r, word);
	word = next_word(&rest);
	t = ht_dtype_named(word);
	if (t != HT_F32 && t != HT_F16 && t != HT_BF16)
		return bad(r, "f32, f16 or bf16 was expected", word);
	for (int i = 0; i < 5; i++) {
		word = next_word(&rest);
		if (!ht_parse_double(word, &number[i]) || !(number[i] >= (i < 3 ? 1 : 0)) ||
			number[i] > 1e15)
			return bad(r,
				i < 3   ? "a size of 1 or more was expected"
				: i < 4 ? "picoseconds were expected"
					: "a spread was expected",
				word);
	}
	word = next_word(&rest);
	if (word.n)
		return bad(r, "the end of the line was expected", word);
	for (int i = 0; i < 3; i++)
		p.at[i] = log2(number[i]);
	p.ps = number[3];
	points->of[kind][label_of(t)].point = ht_grow(r->arena, points->of[kind][label_of(t)].point,
		points->of[kind][label_of(t)].n, &points->of[kind][label_of(t)].cap, sizeof p);
	points->of[kind][label_of(t)].point[points->of[kind][label_of(t)].n++] = p;
	return HT_OK;
}

static enum ht_status read_line(struct reader *r, struct ht_str line)
{
	static const char *const heads[] = { "target", "machine", "date" };
	struct ht_str *field[] = { &r->out->target, &r->out->machine, &r->out->date };
	struct ht_str rest = line, word;
	const char *comment = line.n ? memchr(line.p, '#', line.n) : NULL;

	if (comment)
		rest.n = (size_t)(comment - line.p);
	word = next_word(&rest);
	if (!word.n)
		return HT_OK;
	for (size_t i = 0; i < HT_COUNT(heads); i++) {
		if (!ht_str_is(word, heads[i]))
			continue;
		word = next_word(&rest);
		if (!word.n)
			return bad(r, "a value was expected", word);
		*field[i] = (struct ht_str){ word.p, (size_t)(rest.p + rest.n - word.p) };
		return HT_OK;
	}
	return read_point(r, word, rest);
}

static bool is_same_size(const struct point *a, const struct point *b)
{
	return a->at[0] == b->at[0] && a->at[1] == b->at[1] && a->at[2] == b->at[2];
}

/* Every kind must have points, at the same sizes for every type. */
static enum ht_status check_points(struct reader *r)
{
	struct ht_where at = HT_NOWHERE;

	at.path = r->path;
	for (int k = 0; k < HT_WORK_KINDS; k++)
		for (int l = 0; l < HT_LABELS; l++) {
			size_t n = r->out->points->of[k][l].n;
			const struct point *p = r->out->points->of[k][l].point,
					   *first = r->out->points->of[k][0].point;
			bool same = n && n == r->out->points->of[k][0].n;
			for (size_t i = 0; same && i < n; i++)
				same = is_same_size(&p[i], &first[i]);
			if (!same)
				return ht_error(r->diags, HT_E_INPUT, at,
					"kind '%s' needs points in f32, f16 and bf16, at the same sizes in the same order",
					kind_names[k]);
		}
	return HT_OK;
}

enum ht_status ht_costs_parse(struct ht_str text, const char *path, struct ht_arena *a,
	struct ht_diags *d, const struct ht_costs **out)
{
	struct ht_costs *c = HT_NEW(a, struct ht_costs);
	struct reader r = { path, 0, a, d, c };
	struct ht_str rest = text;

	c->name = path;
	c->hash = ht_hash_bytes(text.p, text.n);
	c->points = HT_NEW(a, struct ht_cost_points);
	while (rest.n) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct ht_str line = { rest.p, end ? (size_t)(end - rest.p) : rest.n };
		r.line++;
		if (r.line == 1 && !ht_str_eq(line, HT_STR(SCHEMA)))
			return bad(&r, "a cost table begins with " SCHEMA, line);
		if (r.line > 1)
			HT_TRY(read_line(&r, line));
		rest.n -= line.n + (end != NULL);
		rest.p += line.n + (end != NULL);
	}
	HT_TRY(check_points(&r));
	*out = c;
	return HT_OK;
}

static const struct ht_shipped_costs *shipped_for(const struct ht_target *t)
{
	const char *name = t->extensions ? ht_target_of_cpu(ht_target_level(t), t->extensions)->name
					 : t->level;
	const struct ht_shipped_costs *s = ht_shipped_costs;

	while (s->level && (strcmp(s->level, name) || strcmp(s->tuning, t->rates->name)))
		s++;
	return s->level ? s : NULL;
}

bool ht_costs_are_known(const struct ht_target *t)
{
	return shipped_for(t);
}

const struct ht_costs *ht_costs_of_target(const struct ht_target *t, struct ht_arena *a)
{
	const struct ht_shipped_costs *s = shipped_for(t);
	const struct ht_costs *shipped = NULL;
	struct ht_costs *c;

	if (s) {
		HT_CHECK(ht_costs_parse(ht_str(s->text), s->file, a, NULL, &shipped) == HT_OK);
		return shipped;
	}
	c = HT_NEW(a, struct ht_costs);
	c->name = ht_str_printf(a, "roofline of %s, tuning %s", t->name, t->rates->name).p;
	c->target = ht_str(t->name);
	c->hash = ht_hash_bytes(c->name, strlen(c->name));
	c->roofline = t;
	return c;
}

/* ---- looking up ---- */

/* Points are weighted by the inverse fourth power of their distance; exactly on a point, only
 * that point counts. */
static double interpolate(const struct point *p, size_t n, const double at[3])
{
	double sum = 0, weights = 0;

	for (size_t i = 0; i < n; i++) {
		double d = 0, w;
		for (int k = 0; k < 3; k++)
			d += (p[i].at[k] - at[k]) * (p[i].at[k] - at[k]);
		w = 1 / (d * d + 1e-6);
		sum += w * p[i].ps;
		weights += w;
	}
	return sum / weights;
}

/* The cost of converting an element between F32 and `type`. */
static double conversion(const struct ht_target *t, enum ht_dtype type)
{
	const struct ht_rates *rates = t->rates;
	const bool by_instruction = type == HT_BF16 ? t->narrows_bf16 : t->narrows_f16;

	if (type == HT_F32)
		return 0;
	return (by_instruction ? rates->convert : rates->convert_bits) * rates->cycle_ps /
	       ht_target_lanes(t);
}

/* The cost of a multiply-add, which takes one more instruction if the machine does not fuse it. */
static double product(const struct ht_target *t, enum ht_dtype type)
{
	const double cycle = t->rates->cycle_ps / ht_target_lanes(t);

	if (ht_target_multiplied(t, type, false) == type && ht_target_group(t, type) > 1)
		return cycle / ht_target_products(t, type);
	return cycle / (t->rates->products / (t->fused ? 1 : 2)) + conversion(t, type) / 8;
}

/* Computed from the machine's rates, without measurements. */
static double roofline(const struct ht_target *t, enum ht_work_kind kind, enum ht_dtype type)
{
	const struct ht_rates *rates = t->rates;
	const double cycle = rates->cycle_ps, lanes = ht_target_lanes(t);
	const double memory = (type == HT_F32 ? 4 : 2) * cycle / rates->l3;
	const double convert = conversion(t, type);

	switch (kind) {
	case HT_WORK_LAUNCH:
		return rates->launch_ps;
	case HT_WORK_PRODUCT:
		return product(t, type);
	case HT_WORK_DEPTHWISE:
		return cycle / lanes + convert / 2;
	case HT_WORK_WEIGHTS:
		return rates->weight_ps;
	case HT_WORK_LOAD:
	case HT_WORK_STORE:
		return memory + convert / 2;
	case HT_WORK_PACK:
	case HT_WORK_MOVE:
	case HT_WORK_WIDEN:
	case HT_WORK_NARROW:
		return 2 * memory + convert;
	case HT_WORK_ROUND:
		return convert;
	case HT_WORK_MAP:
		return cycle / lanes;
	case HT_WORK_FUNCTION:
	case HT_WORK_GELU:
	case HT_WORK_SILU:
		return rates->function * cycle / lanes;
	case HT_WORK_ROWS:
		return rates->function * cycle / lanes + memory + convert;
	case HT_WORK_COLUMNS:
	case HT_WORK_POOL:
		return cycle / lanes + memory + convert / 2;
	case HT_WORK_KINDS:
		break;
	}
	return 0;
}

double ht_cost(const struct ht_costs *c, enum ht_work_kind kind, enum ht_dtype t,
	struct ht_work_size size, double units)
{
	double at[3] = { log2((double)(size.x > 1 ? size.x : 1)),
		log2((double)(size.y > 1 ? size.y : 1)), log2((double)(size.z > 1 ? size.z : 1)) };
	enum ht_label l = label_of(t);

	if (c->roofline)
		return units * roofline(c->roofline, kind, l == HT_LABEL_F32 ? HT_F32 : t);
	return units * interpolate(c->points->of[kind][l].point, c->points->of[kind][l].n, at);
}
