/* The policies that reports are. */
#include "passes/precision/report/report.h"

static const struct ht_policy_kind behind_cleanups = { .name = "report",
	.summary = "as a report of halftone explain --format json says" };
static const struct ht_policy_kind painting = {
	.name = "report", .summary = "as a report of a painting says", .paint = ht_report_paint
};

const struct ht_policy_kind *ht_report_kind(const struct ht_report_data *r)
{
	return r->decisions.painted == HT_INVALID ? &behind_cleanups : &painting;
}
