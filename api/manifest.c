/* The manifest of an artefact, for people and tools.  Loading an artefact does not read it. */
#include "api/api.h"

#include <string.h>

/* An open extent is null. */
static void put_extent(struct ht_buf *b, const char *before, int64_t extent)
{
	if (extent < 0)
		ht_printf(b, "%snull", before);
	else
		ht_printf(b, "%s%lld", before, (long long)extent);
}

static void put_open(struct ht_buf *b, const struct ht_image *x)
{
	const struct ht_image_size *s = ht_image_sizes(x);

	for (uint32_t i = 0; i < ht_image_stated(x); i++) {
		ht_puts(b, i ? ", " : ",\n   \"open\": {");
		ht_put_json(b, ht_str(ht_image_text(x, s[i].name)));
		ht_printf(b, ": {\"least\": %lld, \"most\": %lld}", (long long)s[i].least,
			(long long)s[i].most);
	}
	ht_puts(b, ht_image_stated(x) ? "}" : "");
}

static void put_values(
	struct ht_buf *b, const char *name, const struct ht_image *x, uint32_t first, uint32_t n)
{
	const struct ht_image_port *v = ht_image_ports(x) + first;

	ht_printf(b, ",\n   \"%s\": [", name);
	for (uint32_t i = 0; i < n; i++) {
		ht_printf(b, "%s\n    {\"name\": ", i ? "," : "");
		ht_put_json(b, ht_str(ht_image_text(x, v[i].name)));
		if (v[i].alias)
			ht_put_member(b, "alias", ht_str(ht_image_text(x, v[i].alias)));
		ht_put_member(b, "dtype", ht_str(ht_dtype_name((enum ht_dtype)v[i].dtype)));
		ht_puts(b, ", \"shape\": [");
		for (uint32_t k = 0; k < v[i].rank; k++)
			put_extent(b, k ? ", " : "", ht_image_dims(x)[v[i].dim + k]);
		ht_puts(b, "]}");
	}
	ht_puts(b, "]");
}

void ht_manifest_variant(
	struct ht_buf *b, const struct ht_program_plan *p, const char *entry, size_t number)
{
	const struct ht_image *x = ht_plan_image(p);
	const struct ht_image_entry *e = ht_image_entries(x);

	ht_puts(b, number ? ",\n  {\"target\": " : "\n  {\"target\": ");
	ht_put_json(b, ht_str(p->target));
	ht_put_member(b, "policy", ht_str(p->policy));
	if (*entry)
		ht_put_member(b, "entry", ht_str(entry));
	ht_printf(b,
		",\n   %s,\n   \"float_nodes\": %llu, \"low_nodes\": %llu, \"casts\": %llu,\n"
		"   \"steps\": %zu, \"kernels\": %zu, \"code_bytes\": %llu,\n"
		"   \"weight_bytes\": %llu, \"arena_bytes\": %llu, \"live_bytes\": %llu,\n"
		"   \"scratch_bytes\": %llu",
		p->provenance, (unsigned long long)p->float_nodes, (unsigned long long)p->low_nodes,
		(unsigned long long)p->casts, ht_program_steps(x), p->kernels,
		(unsigned long long)p->code_bytes, (unsigned long long)p->weight_bytes,
		(unsigned long long)ht_program_arena(x), (unsigned long long)p->live_bytes,
		(unsigned long long)ht_program_scratch(x));
	put_open(b, x);
	put_values(b, "inputs", x, e->port, e->inputs);
	put_values(b, "outputs", x, e->port + e->inputs, e->outputs);
	ht_puts(b, "}");
}

static void put_variables(struct ht_buf *b, const struct ht_index *x)
{
	for (size_t i = 0; i < x->values; i++) {
		const struct ht_index_value *v = &x->value[i];

		ht_puts(b, i ? ",\n  {\"name\": " : ",\n \"variables\": [\n  {\"name\": ");
		ht_put_json(b, ht_str(v->name));
		ht_put_member(b, "key", ht_str(v->key));
		ht_put_member(b, "dtype", ht_str(ht_dtype_name((enum ht_dtype)v->dtype)));
		ht_puts(b, ", \"shape\": [");
		for (size_t k = 0; k < v->rank; k++)
			put_extent(b, k ? ", " : "", v->dim[k]);
		ht_puts(b, "]}");
	}
	ht_puts(b, x->values ? "]" : "");
}

struct ht_str ht_manifest(struct ht_str variants, const struct ht_index *x, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_puts(&b, "{\"schema\": \"halftone.artefact/2\"");
	ht_put_member(&b, "halftone", ht_str(ht_version()));
	ht_puts(&b, ",\n \"variants\": [");
	ht_put_str(&b, variants);
	ht_puts(&b, "]");
	put_variables(&b, x);
	if (x->scaled_loss) {
		ht_put_member(&b, "scaled_loss", ht_str(x->scaled_loss));
		ht_put_member(&b, "loss_scale", ht_str(x->loss_scale));
	}
	ht_puts(&b, "}\n");
	return ht_buf_str(&b);
}

/* ---- provenance of a variant ---- */

static void put_target(struct ht_buf *b, const struct ht_target *t)
{
	ht_puts(b, ",\n   \"target_description\": {\"cpu\": ");
	ht_put_json(b, ht_str(t->cpu));
	ht_put_member(b, "features", ht_str(t->features));
	ht_put_member(b, "tuning", ht_str(t->rates->name));
	ht_printf(b, ", \"vector_bytes\": %d, \"l1\": %lld, \"l2\": %lld, \"l3\": %lld}",
		t->vector_bytes, (long long)t->l1, (long long)t->l2, (long long)t->l3);
}

/* Writes digests in the order in which the files are read, without names, so that a model may be
 * moved. */
static void put_sources(struct ht_buf *b, struct ht_str content)
{
	const char *separator = "";

	ht_puts(b, ",\n   \"sources\": [");
	for (const char *p = content.p, *end = p + content.n; p < end;) {
		const char *line = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((line ? line : end) - p);

		ht_puts(b, separator);
		ht_put_json(b, (struct ht_str){ p, n });
		separator = ", ";
		p += n + 1;
	}
	ht_putc(b, ']');
}

/* Writes the options that were read and do not have their defaults. */
static void put_options(struct ht_buf *b, const struct ht_wanted *w, struct ht_reads reads)
{
	const char *separator = "";

	ht_puts(b, ",\n   \"options\": {");
	for (int r = 0; r < HT_READ_END; r++) {
		struct ht_str value = ht_str("");

		if (ht_was_read(reads, (enum ht_read)r) && !ht_read_is_place((enum ht_read)r))
			value = ht_wanted_value(w, (enum ht_read)r, b->arena);
		if (!value.n)
			continue;
		ht_puts(b, separator);
		ht_put_json(b, ht_str(ht_read_name((enum ht_read)r)));
		ht_puts(b, ": ");
		ht_put_json(b, value);
		separator = ", ";
	}
	ht_putc(b, '}');
}

struct ht_str ht_provenance(const struct ht_wanted *w, struct ht_reads reads, const char *llvm,
	struct ht_str content, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_puts(&b, "\"llvm\": ");
	ht_put_json(&b, ht_str(llvm));
	put_target(&b, w->target);
	put_options(&b, w, reads);
	put_sources(&b, content);
	return ht_buf_str(&b);
}
