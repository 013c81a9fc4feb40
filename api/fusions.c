/* What the fusions of a compilation did: for reports, and as the vendor's fusion_result.json. */
#include "api/report.h"

#include <string.h>

/* A fusion that is on but found no candidate is not reported. */
static bool is_news(const struct ht_fusion_record *r)
{
	return r->off || r->matches || r->missed;
}

bool ht_fusions_are_switched(const struct ht_fusions *f)
{
	for (int id = 0; id < HT_FUSION_END; id++)
		if (f->of[id].off)
			return true;
	return false;
}

void ht_fusions_text(const struct ht_fusions *f, struct ht_buf *b)
{
	for (int id = 0; id < HT_FUSION_END; id++) {
		const struct ht_fusion_record *r = &f->of[id];
		const char *name = ht_fusion_info[id].name;

		if (r->off)
			ht_printf(b, "fusion %s is off: %s\n", name, r->off);
		else if (r->matches)
			ht_printf(b, "fusion %s: %lld\n", name, (long long)r->effects);
		if (r->missed)
			ht_printf(b, "fusion %s did not match: '%.*s' %s\n", name,
				HT_STR_ARG(r->node), r->missed);
	}
}

void ht_fusions_json(const struct ht_fusions *f, struct ht_buf *b)
{
	int n = 0;

	ht_puts(b, ",\n \"fusion_results\": [");
	for (int id = 0; id < HT_FUSION_END; id++) {
		const struct ht_fusion_record *r = &f->of[id];
		const struct ht_fusion_info *info = &ht_fusion_info[id];

		if (!is_news(r))
			continue;
		ht_printf(b, "%s\n  {\"name\": \"%s\", \"kind\": \"%s\"", n++ ? "," : "",
			info->name, ht_fusion_kind_name(info->kind));
		ht_put_member(b, "state", ht_str(r->off ? r->off : "on"));
		ht_put_number(b, "matches", r->matches);
		ht_put_number(b, "effects", r->effects);
		if (r->missed) {
			ht_put_member(b, "missed_node", r->node);
			ht_put_member(b, "missed", ht_str(r->missed));
		}
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

/* ---- fusion_result.json ---- */

/* By the vendor's name, if there is one. */
static void put_result(const struct ht_fusion_record *r, enum ht_fusion_id id, struct ht_buf *b)
{
	const char *vendor = ht_fusion_vendor_name(id, 0);

	ht_printf(b, "\"%s\": {\"match_times\": \"%lld\", \"effect_times\": \"%lld\"%s}",
		vendor ? vendor : ht_fusion_info[id].name, (long long)r->matches,
		(long long)r->effects,
		ht_fusion_info[id].kind == HT_FUSION_LOOP ? ", \"repository_hit_times\": \"0\""
							  : "");
}

/* All fusions that are on, even if they found nothing: they ran. */
static void put_results(const struct ht_fusions *f, const char *key, bool loops, struct ht_buf *b)
{
	int n = 0;

	ht_printf(b, "\"%s\": {", key);
	for (int id = 0; id < HT_FUSION_END; id++) {
		if (f->of[id].off || (ht_fusion_info[id].kind == HT_FUSION_LOOP) != loops)
			continue;
		ht_puts(b, n++ ? ",\n   " : "\n   ");
		put_result(&f->of[id], (enum ht_fusion_id)id, b);
	}
	ht_putc(b, '}');
}

enum ht_status ht_fusion_result_write(const struct ht_policy *p, const struct ht_fusions *f,
	struct ht_arena *a, struct ht_diags *d)
{
	const char *path = p->fusion_result ? p->fusion_result
			   : p->export_stat ? "fusion_result.json"
					    : NULL;
	struct ht_buf b;

	if (!path)
		return HT_OK;
	ht_buf_init(&b, a);
	ht_puts(&b, "{\"session_and_graph_id_0_0\": {\n  ");
	put_results(f, "graph_fusion", false, &b);
	ht_puts(&b, ",\n  ");
	put_results(f, "ub_fusion", true, &b);
	ht_puts(&b, "}}\n");
	return ht_put_bytes(ht_buf_str(&b), path, d, NULL);
}
