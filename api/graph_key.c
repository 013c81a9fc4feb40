/* Keys of compiled graphs.
 *
 * Which options matter is known only after a compilation, so there are two levels: a key of the
 * first level has everything but options, and its entry lists the options that were read; a key
 * of the second level has their values too. */
#include "api/api.h"

#include <halftone-ids.h>
#include <string.h>

/* ---- fields ---- */

static void put_inputs(struct ht_key_text *k, const struct ht_model *m, struct ht_arena *a)
{
	struct ht_buf b;

	for (size_t i = 0; i < m->inputs; i++) {
		const struct ht_value_info *v = &m->input[i];

		ht_buf_init(&b, a);
		ht_printf(&b, "%s %s", v->name, ht_dtype_info(v->dtype)->name);
		ht_shape_print((struct ht_shape){ v->rank, v->dim }, &b);
		ht_key_field(k, "feed", ht_buf_str(&b));
		if (ht_model_is_steady(m, ht_str(v->name)))
			ht_key_field(k, "steady", ht_str(v->name));
	}
	for (int i = 0; i < HT_MOST_OPEN; i++) {
		struct ht_open_sizes open = ht_model_open(m, i);

		if (open.stay)
			ht_key_field(k, "open-sizes",
				ht_str_printf(a, "%d %lld %lld %.*s", i, (long long)open.least,
					(long long)open.most, HT_STR_ARG(open.name)));
	}
	for (const struct ht_named_dimension *p = m->named_dimensions; p; p = p->next)
		ht_key_field(k, "named-size",
			ht_str_printf(a, "%.*s %d %d", HT_STR_ARG(p->input), (int)p->dimension,
				(int)p->size));
}

static void put_outputs(struct ht_key_text *k, const struct ht_model *m, struct ht_arena *a)
{
	for (const struct ht_port *p = m->entry->outputs; p; p = p->next)
		ht_key_field(k, "output",
			ht_str_printf(a, "%.*s = %.*s:%d", HT_STR_ARG(p->name),
				HT_STR_ARG(p->value.node->name), (int)p->value.index));
	for (const struct ht_port *p = m->entry->targets; p; p = p->next)
		ht_key_field(k, "target-node", p->value.node->name);
}

static void put_target(struct ht_key_text *k, const struct ht_target *t, struct ht_arena *a)
{
	ht_key_field(k, "target", ht_str(t->name));
	ht_key_field(k, "cpu", ht_str(t->cpu));
	ht_key_field(k, "features", ht_str(t->features));
	ht_key_field(k, "tuning", ht_str(t->rates->name));
	ht_key_field(k, "caches",
		ht_str_printf(
			a, "%lld %lld %lld", (long long)t->l1, (long long)t->l2, (long long)t->l3));
}

/* Samples are arrays of the caller. */
static void put_samples(struct ht_buf *b, const struct ht_policy *p)
{
	for (const struct ht_sample *s = p->budget.sample; s; s = s->next)
		for (size_t i = 0; i < s->n; i++) {
			const struct ht_tensor *t = s->value[i];
			uint8_t digest[32];

			ht_printf(b, "%.*s %s", HT_STR_ARG(s->name[i]),
				ht_dtype_info(t->dtype)->name);
			ht_shape_print(t->shape, b);
			ht_putc(b, ' ');
			ht_sha256(t->blob->p, t->blob->n, digest);
			ht_put_digest(b, digest);
		}
}

struct ht_str ht_wanted_value(const struct ht_wanted *w, enum ht_read r, struct ht_arena *a)
{
	const char *method = r == HT_READ_conv_method    ? w->opt->conv_method
			     : r == HT_READ_block_method ? w->opt->block_method
			     : r == HT_READ_batch_method ? w->opt->batch_method
							 : NULL;
	struct ht_buf b;

	if (r == HT_READ_conv_method || r == HT_READ_block_method || r == HT_READ_batch_method)
		return ht_str(method && strcmp(method, "auto") ? method : "");
	if (r == HT_READ_loss_scale)
		return w->model->scaled_loss ? ht_str_printf(a, "%.17g", w->model->loss_scale)
					     : HT_STR("");
	if (!w->policy)
		return r == HT_READ_policy ? HT_STR("must_keep_origin_dtype") : HT_STR("");
	if (r != HT_READ_samples)
		return ht_read_value(w->policy, r, a);
	ht_buf_init(&b, a);
	ht_put_str(&b, ht_read_value(w->policy, r, a));
	ht_putc(&b, '\n');
	put_samples(&b, w->policy);
	return ht_buf_str(&b);
}

struct ht_cache_key ht_graph_key(const struct ht_wanted *w, enum ht_cache_kind kind,
	struct ht_reads reads, struct ht_arena *a)
{
	const struct ht_model *m = w->model;
	struct ht_key_text k;

	ht_key_begin(&k, kind, a);
	ht_key_field(&k, "tool", ht_str_printf(a, "%s %s", ht_version(), HT_TOOL_ID));
	ht_key_field(&k, "code-generator", ht_str(ht_code_id()));
	put_target(&k, w->target, a);
	ht_key_field(&k, "model", ht_content_known(m));
	ht_key_field(&k, "signature", m->entry->name);
	put_inputs(&k, m, a);
	put_outputs(&k, m, a);
	if (m->session)
		ht_key_field(&k, "variables", HT_STR("session"));
	if (m->wide)
		ht_key_field(&k, "widen", HT_STR("f64"));
	if (m->scaled_loss)
		ht_key_field(
			&k, m->unchecked ? "scaled-unchecked" : "scaled", ht_str(m->scaled_loss));
	for (int r = 0; r < HT_READ_END && kind == HT_CACHE_GRAPH; r++)
		if (ht_was_read(reads, (enum ht_read)r))
			ht_key_field(&k,
				ht_str_printf(a, "option-%s", ht_read_name((enum ht_read)r)).p,
				ht_wanted_value(w, (enum ht_read)r, a));
	return ht_key_end(&k);
}

/* ---- which options were read: names with blanks between ---- */

struct ht_reads ht_reads_parse(struct ht_str line)
{
	struct ht_reads set = { 0 };

	for (const char *p = line.p, *end = line.p + line.n, *blank; p < end; p = blank + 1) {
		blank = memchr(p, ' ', (size_t)(end - p));
		blank = blank ? blank : end;
		ht_note_read_named(&set, (struct ht_str){ p, (size_t)(blank - p) });
	}
	return set;
}

void ht_reads_print(struct ht_buf *b, struct ht_reads set)
{
	const char *blank = "";

	for (int r = 0; r < HT_READ_END; r++)
		if (ht_was_read(set, (enum ht_read)r)) {
			ht_printf(b, "%s%s", blank, ht_read_name((enum ht_read)r));
			blank = " ";
		}
}
