/* The part of a report about errors of nodes: a plot of error against depth, a histogram of exponents, the worst nodes. */
#include "api/compare.h"
#include "api/page.h"
#include "stats/values.h"

#include <math.h>
#include <stdlib.h>

/* Most points of a series: in a deeper graph, neighbouring depths share a point. */
enum { MOST_POINTS = 400 };

/* ---- error against depth ---- */

/* The tensor with the largest error among those whose depths share a point. */
struct deep {
	const cJSON *tensor;
	double value;
};

static double depth_of(const cJSON *tensor)
{
	return ht_member_number(tensor, "depth");
}

static struct deep *largest_of(
	const cJSON *tensors, const char *member, double deepest, struct ht_arena *a)
{
	struct deep *d = HT_NEW_ARRAY(a, struct deep, MOST_POINTS);
	const cJSON *i;

	cJSON_ArrayForEach(i, tensors)
	{
		double v = ht_member_number(i, member);
		size_t at = (size_t)(depth_of(i) / (deepest + 1) * MOST_POINTS);

		if (!d[at].tensor || !(v <= d[at].value))
			d[at] = (struct deep){ i, v };
	}
	return d;
}

static double deepest_of(const cJSON *tensors)
{
	double most = 0;
	const cJSON *i;

	cJSON_ArrayForEach(i, tensors) most = fmax(most, depth_of(i));
	return most;
}

static size_t add_points(
	struct ht_point *to, const struct deep *d, int series, const char *what, struct ht_arena *a)
{
	size_t n = 0;

	for (size_t i = 0; i < MOST_POINTS; i++) {
		struct ht_str node = ht_member_text(d[i].tensor, "node");

		if (!d[i].tensor)
			continue;
		to[n++] = (struct ht_point){ .x = depth_of(d[i].tensor),
			.y = d[i].value,
			.good = !(ht_member_number(d[i].tensor, "excess") >= HT_NODE_SUSPECT),
			.series = series,
			.says = ht_str_printf(a, "%s %s: %.*s", what,
				ht_text_number(a, d[i].value).p, HT_STR_ARG(node)) };
	}
	return n;
}

static void put_depths(struct ht_page_work *w, const cJSON *policy, const cJSON *tensors)
{
	struct ht_str name = ht_member_text(policy, "policy");
	struct ht_point *point = HT_NEW_ARRAY(w->a, struct ht_point, 2 * (size_t)MOST_POINTS);
	double deepest = deepest_of(tensors);
	struct ht_plot plot = {
		.title = ht_str_printf(w->a,
			"Errors against depth under %.*s: dots are the largest error of a depth in the program, "
			"circles the largest own error.",
			HT_STR_ARG(name)),
		.x_name = HT_STR("depth: tensors one behind the other"),
		.y_name = HT_STR("error, relative"),
		.log_y = true,
		.point = point,
		.kind = HT_PLOT_MANY
	};

	plot.points =
		add_points(point, largest_of(tensors, "error", deepest, w->a), 0, "error", w->a);
	plot.points += add_points(point + plot.points, largest_of(tensors, "own", deepest, w->a), 1,
		"own error", w->a);
	ht_page_plot(w->b, &plot);
}

/* ---- exponents ---- */

/* The exponent of the smallest normal number, and that of the smallest power of two above all
 * finite numbers. */
static int exponent_of_normals(enum ht_dtype t)
{
	return 2 - (1 << (ht_dtype_info(t)->exponent - 1));
}
static int exponent_of_infinity(enum ht_dtype t)
{
	return 1 << (ht_dtype_info(t)->exponent - 1);
}

static void put_exponents(struct ht_page_work *w, const cJSON *exponents)
{
	const struct ht_plot_mark mark[] = {
		{ exponent_of_normals(HT_BF16), "bfloat16: least normal" },
		{ exponent_of_normals(HT_F16) - ht_dtype_info(HT_F16)->mantissa,
			"float16: least subnormal" },
		{ exponent_of_normals(HT_F16), "float16: least normal" },
		{ exponent_of_infinity(HT_F16), "float16: infinity" },
		{ exponent_of_infinity(HT_BF16), "bfloat16: infinity" },
	};
	const cJSON *counts = ht_member(exponents, "counts"), *i;
	double at = ht_member_number(exponents, "first");
	struct ht_point *point =
		HT_NEW_ARRAY(w->a, struct ht_point, (size_t)cJSON_GetArraySize(counts));
	struct ht_plot plot = {
		.title = HT_STR(
			"Numbers by their exponents, of tensors of the reference that the policy gives 16 bits, on the first four samples."),
		.x_name = HT_STR("exponent of two"),
		.y_name = HT_STR("numbers"),
		.log_y = true,
		.point = point,
		.mark = mark,
		.marks = HT_COUNT(mark),
		.kind = HT_PLOT_BARS
	};

	cJSON_ArrayForEach(i, counts)
	{
		double n = ht_json_number(i);

		if (n > 0)
			point[plot.points++] = (struct ht_point){ .x = at, .y = n, .good = true };
		at++;
	}
	ht_page_plot(w->b, &plot);
}

/* ---- tables ---- */

static double number_of(const cJSON *tensor, const char *member)
{
	double v = ht_member_number(tensor, member);

	return isnan(v) ? 0 : v;
}

static struct ht_rank rank_of(const cJSON *tensor)
{
	return (struct ht_rank){ number_of(tensor, "excess"), number_of(tensor, "own"),
		number_of(tensor, "order") };
}

static int by_rank(const void *x, const void *y)
{
	struct ht_rank a = rank_of(*(const cJSON *const *)x), b = rank_of(*(const cJSON *const *)y);

	return ht_rank_compare(&a, &b);
}

static void put_node(struct ht_table *t, const cJSON *tensor, struct ht_arena *a)
{
	double excess = ht_member_number(tensor, "excess");
	struct ht_str body = ht_member_text(tensor, "body"), node = ht_member_text(tensor, "node");

	ht_cell_printf(t, "%.*s%s%.*s", HT_STR_ARG(body), body.n ? "/" : "", HT_STR_ARG(node));
	ht_cell(t, ht_member_text(tensor, "op"));
	ht_cell(t, ht_member_is_true(tensor, "wide") ? HT_STR("float32, inside of a kernel")
						     : ht_member_text(tensor, "dtype"));
	ht_cell(t, ht_text_member(a, tensor, "own"));
	ht_cell(t, ht_text_member(a, tensor, "expected"));
	ht_cell_verdict(
		t, ht_text_number(a, ht_excess_shown(excess)), !(excess >= HT_NODE_SUSPECT));
	ht_cell(t, ht_text_member(a, tensor, "inherited"));
	ht_cell(t, ht_text_member(a, tensor, "error"));
	ht_cell(t, ht_text_exact(a, ht_member_number(tensor, "overflow")));
	ht_cell(t, ht_text_exact(a, ht_member_number(tensor, "underflow")));
	ht_cell(t, ht_text_exact(a, ht_member_number(tensor, "nan")));
}

static void put_worst(struct ht_page_work *w, const cJSON *tensors)
{
	static const struct ht_table_column columns[] = { { "node", false }, { "op", false },
		{ "type", false }, { "own", true }, { "expected", true },
		{ "own / expected", true }, { "inherited", true }, { "error", true },
		{ "overflow", true }, { "underflow", true }, { "NaN", true } };
	enum { MOST = 100 };
	struct ht_table t = { .b = w->b,
		.title = "Worst nodes",
		.caption =
			"First those whose own error rounding does not explain, then by own error: of the node alone, "
			"on operands of the reference. Relative, root mean square.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = MOST };
	size_t n = 0;
	const cJSON **ranked =
			    HT_NEW_ARRAY(w->a, const cJSON *, (size_t)cJSON_GetArraySize(tensors)),
		    *i;

	cJSON_ArrayForEach(i, tensors) ranked[n++] = i;
	if (n)
		qsort(ranked, n, sizeof *ranked, by_rank);
	for (size_t k = 0; k < n; k++)
		put_node(&t, ranked[k], w->a);
	ht_table_end(&t);
}

static void put_first(struct ht_page_work *w, const cJSON *nodes)
{
	static const struct ht_table_column columns[] = { { "what", false }, { "node", false },
		{ "sample", true } };
	struct ht_table t = { .b = w->b,
		.title = "Where numbers are lost first",
		.caption =
			"The first node, in the order of computation, of which a number became infinite, zero, subnormal or NaN.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(nodes, "first"))
	{
		if (cJSON_IsNull(i))
			continue;
		ht_cell(&t, ht_str(i->string));
		ht_cell(&t, ht_member_text(i, "node"));
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(i, "sample")));
	}
	ht_table_end(&t);
}

/* ---- the part ---- */

static void put_policy(struct ht_page_work *w, const cJSON *policy, const cJSON *nodes)
{
	const cJSON *tensors = ht_member(nodes, "tensors");
	struct ht_str name = ht_member_text(policy, "policy");

	ht_page_fold(w->b, ht_str_printf(w->a, "Nodes under %.*s", HT_STR_ARG(name)), false);
	ht_page_paragraph(
		w->b, ht_str_printf(w->a,
			      "%d tensors were compared on %s runs; %s have none in the reference.",
			      cJSON_GetArraySize(tensors),
			      ht_text_exact(w->a, ht_member_number(nodes, "samples")).p,
			      ht_text_exact(w->a, ht_member_number(nodes, "without_reference")).p));
	put_depths(w, policy, tensors);
	put_exponents(w, ht_member(nodes, "exponents"));
	put_worst(w, tensors);
	put_first(w, nodes);
	ht_page_fold_end(w->b);
}

void ht_page_error_nodes(struct ht_page_work *w, const cJSON *model)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(model, "policies"))
	{
		const cJSON *nodes = ht_member(i, "nodes");

		if (nodes)
			put_policy(w, i, nodes);
	}
}

/* ---- phases ---- */

void ht_page_phases(struct ht_page_work *w, const cJSON *model)
{
	static const struct ht_table_column columns[] = { { "policy", false }, { "phase", false },
		{ "time", true } };
	struct ht_table t = { .b = w->b,
		.title = "Compile phases",
		.caption = "The time that each phase took, in its order.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS,
		.folded = true };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(ht_member(model, "seconds"), "phases"))
	{
		ht_cell(&t, ht_member_text(i, "policy"));
		ht_cell(&t, ht_member_text(i, "phase"));
		ht_cell(&t, ht_text_price(w->a, ht_member_number(i, "seconds") * 1e12));
	}
	ht_table_end(&t);
}
