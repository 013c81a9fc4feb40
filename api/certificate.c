/* The optimal policy's account: what was compared, and what shows that nothing is cheaper. */
#include "api/api.h"

static void put_hash(struct ht_buf *b, const char *key, struct ht_hash h)
{
	ht_printf(b, ", \"%s\": \"%016llx%016llx\"", key, (unsigned long long)h.hi,
		(unsigned long long)h.lo);
}

static void put_field(struct ht_buf *b, const char *key, struct ht_str value)
{
	ht_printf(b, ", \"%s\": ", key);
	ht_put_json(b, value);
}

static void put_alternatives_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n  \"alternatives\": [");
	for (size_t i = 0; i < c->alternatives; i++) {
		const struct ht_alternative *a = &c->alternative[i];
		ht_puts(b, i ? ",\n   {\"name\": " : "\n   {\"name\": ");
		ht_put_json(b, a->name);
		ht_printf(b, ", \"price_ps\": %lld", (long long)a->price);
		if (a->refused.n)
			put_field(b, "refused", a->refused);
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

static void put_flips_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n  \"prices\": [");
	for (size_t i = 0; i < c->flips; i++) {
		const struct ht_flip *f = &c->flip[i];
		ht_puts(b, i ? ",\n   [" : "\n   [");
		ht_put_json(b, f->node);
		ht_printf(b, ", \"%s\", ", ht_dtype_name(f->to));
		if (f->price < 0)
			ht_puts(b, "null]");
		else
			ht_printf(b, "%lld]", (long long)f->price);
	}
	ht_putc(b, ']');
}

void ht_certificate_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n \"certificate\": {\n  \"costs\": {\"table\": ");
	ht_put_json(b, c->costs);
	put_field(b, "target", c->target);
	put_field(b, "machine", c->machine);
	put_field(b, "date", c->date);
	put_hash(b, "hash", c->costs_hash);
	ht_puts(b, "},\n  \"winner\": ");
	ht_put_json(b, c->winner);
	ht_printf(b,
		", \"price_ps\": %lld,\n  \"last_iterate\": {\"cost_ps\": %lld, \"bound_ps\": %lld",
		(long long)c->price, (long long)c->cost, (long long)c->bound);
	put_hash(b, "problem", c->problem_hash);
	ht_printf(b,
		"},\n  \"iterates\": %u, \"settled\": %s, \"free_nodes\": %u, \"regions\": %u, \"largest_region\": %u",
		c->iterates, c->settled ? "true" : "false", c->free_nodes, c->regions,
		c->largest_region);
	put_alternatives_json(b, c);
	if (c->flips)
		put_flips_json(b, c);
	ht_putc(b, '}');
}

static void put_ms(struct ht_buf *b, int64_t ps)
{
	ht_put_fixed(b, (double)ps / 1e9, 6);
	ht_puts(b, " ms");
}

void ht_certificate_text(struct ht_buf *b, const struct ht_certificate *c)
{
	for (size_t i = 0; i < c->flips; i++) {
		ht_printf(b, "%.*s in %s: ", HT_STR_ARG(c->flip[i].node),
			ht_dtype_name(c->flip[i].to));
		if (c->flip[i].price < 0) {
			ht_puts(b, "must not be\n");
			continue;
		}
		put_ms(b, c->flip[i].price);
		ht_puts(b, " more\n");
	}
	for (size_t i = 0; i < c->alternatives; i++) {
		const struct ht_alternative *a = &c->alternative[i];
		ht_printf(b, "%.*s: ", HT_STR_ARG(a->name));
		put_ms(b, a->price);
		if (a->refused.n)
			ht_printf(b, ", refused: %.*s", HT_STR_ARG(a->refused));
		ht_putc(b, '\n');
	}
	ht_printf(b, "%.*s is cheapest by %.*s: ", HT_STR_ARG(c->winner), HT_STR_ARG(c->costs));
	put_ms(b, c->price);
	ht_puts(b, "; for the fusion of the last iterate no assignment costs less than ");
	put_ms(b, c->bound);
	ht_putc(b, '\n');
}
