/* Iterations of a training in a profile: the forward and backward pass, the time behind them,
 * and the gap before them. */
#include "cli/profile.h"

#include <stdlib.h>

enum ht_status iterations_begin(struct cli *c, struct ht_context *context)
{
	char *forward, *backward;
	enum ht_status st;

	if (!profile_divides(c))
		return HT_OK;
	forward = profile_point(c, "fp_point");
	backward = profile_point(c, "bp_point");
	st = ht_context_divide(context, forward, backward, c->diags);
	free(forward);
	free(backward);
	return st;
}

void iterations_check(struct cli *c, const struct ht_context *context)
{
	struct ht_iterations all;
	struct ht_recording runs;

	ht_context_iterations(context, &all);
	ht_context_recording(context, &runs);
	if (profile_divides(c) && runs.runs && !all.n)
		warn(c, "no run began fp_point and then ended bp_point: there are no iterations to show");
}

/* ---- tables ---- */

static double mean_ms(int64_t ns, uint64_t n)
{
	return n ? (double)ns / (double)n / 1e6 : 0;
}

static void put_part(
	struct text *out, const struct ht_iterations *all, int64_t ns, uint64_t n, const char *what)
{
	text_printf(out, "%10.4f ms %5.1f%%  %s\n", mean_ms(ns, n),
		all->ns ? 100 * (double)ns / (double)all->ns : 0, what);
}

static void put_point(struct text *out, const char *name, const char *node, const char *found)
{
	text_printf(out, ", %s %s%s%s", name, node ? "the kernel of '" : found, node ? node : "",
		node ? "'" : "");
}

void iterations_text(struct text *out, const struct ht_context *context)
{
	struct ht_iterations all;

	ht_context_iterations(context, &all);
	if (!all.n)
		return;
	text_printf(out, "%13s %6s  %llu iterations", "an iteration", "share",
		(unsigned long long)all.n);
	put_point(out, "from", all.forward, "the first kernel");
	put_point(out, "backward to", all.backward, "the last kernel that changes no variable");
	text_printf(out, "\n");
	put_part(out, &all, all.gap_ns, all.gaps, "gap in front (data augmentation bound)");
	put_part(out, &all, all.forward_ns, all.n, "forward and backward");
	put_part(out, &all, all.refresh_ns, all.n, "behind them (iteration refresh)");
}

static void put_node(struct text *out, const char *member, const char *node)
{
	text_printf(out, ", \"%s\": ", member);
	if (node)
		text_json(out, node);
	else
		text_printf(out, "null");
}

void iterations_json(struct text *out, const struct ht_context *context)
{
	struct ht_iterations all;

	ht_context_iterations(context, &all);
	if (!all.n)
		return;
	text_printf(out,
		",\n  \"iterations\": {\"iterations\": %llu, \"ms\": %.6g, \"forward_backward_ms\": %.6g, \"refresh_ms\": %.6g, \"gaps\": %llu, \"gap_ms\": %.6g",
		(unsigned long long)all.n, (double)all.ns / 1e6, (double)all.forward_ns / 1e6,
		(double)all.refresh_ns / 1e6, (unsigned long long)all.gaps,
		(double)all.gap_ns / 1e6);
	put_node(out, "forward", all.forward);
	put_node(out, "backward", all.backward);
	text_printf(out, "}");
}

/* ---- the vendor's file ---- */

const char iterations_heading[] =
	"Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),FP to BP Time(us),Iteration Refresh(us),Data Aug Bound(us),Model ID\n";

static double us(int64_t ns)
{
	return (double)ns / 1e3;
}

void iterations_csv(
	struct text *out, const struct cli *c, const struct ht_context *context, size_t model)
{
	const char *device = setting_value(c, "session_device_id");
	struct ht_iteration x;

	for (size_t i = 0; ht_context_iteration(context, i, &x); i++) {
		text_printf(out, "%s,%llu,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,", device ? device : "0",
			(unsigned long long)x.run + 1, us(x.forward), us(x.backward), us(x.end),
			us(x.end - (x.before ? x.before : x.forward)), us(x.backward - x.forward),
			us(x.end - x.backward));
		if (x.before)
			text_printf(out, "%.3f", us(x.forward - x.before));
		else
			text_printf(out, "N/A");
		text_printf(out, ",%zu\n", model);
	}
}
