/* A comparison in the form that the caller asks for. */
#include "api/compare.h"

struct printing {
	const struct ht_comparison *const *c;
	size_t n;
	enum ht_comparison_form form;
	const char *command;
	struct ht_work w;
	struct ht_bytes *out;
	struct ht_diags *d;
};

static enum ht_status print(void *arg)
{
	struct printing *p = arg;
	struct ht_buf b;

	ht_buf_init(&b, &p->w.arena);
	if (p->form == HT_COMPARISON_JSON)
		ht_comparison_json(p->c, p->n, p->command, &b);
	else if (p->form == HT_COMPARISON_JUNIT)
		ht_comparison_junit(p->c, p->n, &b);
	for (size_t i = 0; i < p->n; i++) {
		if (p->form == HT_COMPARISON_TEXT || p->form == HT_COMPARISON_MARKDOWN)
			ht_comparison_text(p->c[i], p->form == HT_COMPARISON_MARKDOWN, &b);
		else if (p->form == HT_COMPARISON_CSV)
			ht_comparison_csv(p->c[i], i == 0, &b);
		else if (p->form == HT_COMPARISON_GITHUB)
			ht_comparison_github(p->c[i], &b);
		else if (p->form == HT_COMPARISON_NODES_CSV)
			ht_nodes_csv(p->c[i], i == 0, &b);
		else if (p->form == HT_COMPARISON_NODE_DATA && !i)
			ht_nodes_data(p->c[i], &b);
	}
	return ht_bytes_of(ht_buf_str(&b), p->out);
}

enum ht_status ht_comparison_print(const struct ht_comparison *const *c, size_t n,
	enum ht_comparison_form form, const char *command, struct ht_diags *d, struct ht_bytes *out)
{
	struct printing p = {
		.c = c, .n = n, .form = form, .command = command, .out = out, .d = d
	};

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&p.w, print, &p, d);
}
