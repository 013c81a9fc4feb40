/* The return values of a net, from the table of base/fault.def. */
#include "api/aot.h"
#include "base/fault.h"

#define HT_OF_KERNEL(name, number, net, text) { number, net, text },
#define HT_OF_RUN(name, number, net, text) { number, net, text },
#define HT_OF_CALLER(name, number, net, text) { number, net, text },
#define HT_OF_SENTENCE(name, number, text)
static const struct {
	int32_t number;
	const char *net, *text;
} statuses[] = {
#include "base/fault.def"
};
#undef HT_OF_SENTENCE

#undef HT_OF_KERNEL
#undef HT_OF_RUN
#undef HT_OF_CALLER
#define HT_OF_KERNEL(name, number, net, text)
#define HT_OF_RUN(name, number, net, text)
#define HT_OF_CALLER(name, number, net, text)
#define HT_OF_SENTENCE(name, number, text) { number, text },
static const struct {
	int32_t number;
	const char *text;
} parts[] = {
#include "base/fault.def"
};

/* Appends a text with `limit` for '#'. */
static void put_limited(struct ht_buf *b, const char *text, const char *limit)
{
	for (; *text; text++) {
		if (*text == '#')
			ht_puts(b, limit);
		else
			ht_putc(b, *text);
	}
}

void ht_aot_put_status(const struct ht_aot *a, struct ht_buf *b)
{
	ht_printf(b, "enum %s_status {\n\t%s_OK = %d,\n", a->prefix, a->upper, HT_AOT_OK);
	for (size_t i = 0; i < HT_COUNT(statuses); i++)
		if (*statuses[i].net) {
			ht_printf(b, "\t%s_E_%s = %d, /* ", a->upper, statuses[i].net,
				statuses[i].number);
			put_limited(b, statuses[i].text, "N");
			ht_puts(b, " */\n");
		}
	ht_puts(b, "};\n\n");
}

/* The limit that the text of a status tells. */
static const char *limit_of(const struct ht_aot *a, int32_t status)
{
	uint64_t limit = status == HT_EXEC_DEPTH ? HT_EXEC_DEPTH_INIT : a->iterations;

	return ht_str_printf(a->arena, "%llu", (unsigned long long)limit).p;
}

/* Appends the bounds of the open sizes. */
static void put_bounds(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_image *x = a->program[0]->rt.image;

	for (uint32_t i = 0; i < ht_image_stated(x); i++) {
		const struct ht_image_size *s = &ht_image_sizes(x)[i];

		ht_printf(b, "%s %s is %lld to %lld", i ? "," : ":", ht_image_text(x, s->name),
			(long long)s->least, (long long)s->most);
	}
}

void ht_aot_put_texts(const struct ht_aot *a, struct ht_buf *b)
{
	for (size_t i = 0; i < HT_COUNT(statuses); i++)
		if (*statuses[i].net) {
			ht_printf(b, "%d ", statuses[i].number);
			put_limited(b, statuses[i].text, limit_of(a, statuses[i].number));
			if (statuses[i].number == HT_AOT_E_ROWS)
				put_bounds(a, b);
			ht_putc(b, 0);
		}
	for (size_t i = 0; i < HT_COUNT(parts); i++) {
		ht_printf(b, "%d %s", parts[i].number, parts[i].text);
		ht_putc(b, 0);
	}
	ht_putc(b, 0);
}
