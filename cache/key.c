/* Keys: texts of fields, "NAME BYTES\nVALUE\n" each, so that different fields give different
 * texts. */
#include "cache/cache.h"

#include <string.h>

static const char *const kind_names[HT_CACHE_KINDS] = { [HT_CACHE_KERNEL] = "kernel",
	[HT_CACHE_GRAPH] = "graph",
	[HT_CACHE_READS] = "reads",
	[HT_CACHE_INPUT] = "input",
	[HT_CACHE_RATES] = "rates" };

const char *ht_cache_kind_name(enum ht_cache_kind kind)
{
	return kind_names[kind];
}

bool ht_cache_kind_is_local(enum ht_cache_kind kind)
{
	return kind == HT_CACHE_INPUT || kind == HT_CACHE_RATES;
}

void ht_key_begin(struct ht_key_text *k, enum ht_cache_kind kind, struct ht_arena *a)
{
	k->kind = kind;
	ht_buf_init(&k->text, a);
	ht_key_field(k, "kind", ht_str(kind_names[kind]));
	ht_key_field(k, "entry", ht_str_printf(a, "%d", HT_ENTRY_VERSION));
}

void ht_key_field(struct ht_key_text *k, const char *name, struct ht_str value)
{
	HT_CHECK(*name && !strpbrk(name, " \n"));
	ht_printf(&k->text, "%s %zu\n", name, value.n);
	ht_put_str(&k->text, value);
	ht_putc(&k->text, '\n');
}

struct ht_cache_key ht_key_end(struct ht_key_text *k)
{
	struct ht_cache_key key = { .kind = k->kind, .text = ht_buf_str(&k->text) };

	key.find = ht_hash_bytes(key.text.p, key.text.n);
	ht_sha256(key.text.p, key.text.n, key.sha256);
	return key;
}

bool ht_key_next(struct ht_str text, size_t *at, struct ht_str *name, struct ht_str *value)
{
	const char *p = text.p + *at, *end = text.p + text.n;
	const char *blank = *at < text.n ? memchr(p, ' ', (size_t)(end - p)) : NULL;
	const char *line = blank ? memchr(blank, '\n', (size_t)(end - blank)) : NULL;
	int64_t n;

	if (!line || !ht_parse_int((struct ht_str){ blank + 1, (size_t)(line - blank - 1) }, &n))
		return false;
	if (n < 0 || n > end - line - 2 || line[1 + n] != '\n')
		return false;
	*name = (struct ht_str){ p, (size_t)(blank - p) };
	*value = (struct ht_str){ line + 1, (size_t)n };
	*at += (size_t)(line + 1 + n + 1 - p);
	return true;
}

void ht_key_name(struct ht_hash find, char name[HT_KEY_NAME])
{
	snprintf(name, HT_KEY_NAME, "%016llx%016llx", (unsigned long long)find.hi,
		(unsigned long long)find.lo);
}

bool ht_key_named(struct ht_str name, struct ht_hash *find)
{
	uint64_t part[2] = { 0, 0 };

	if (name.n != HT_KEY_NAME - 1)
		return false;
	for (size_t i = 0; i < name.n; i++) {
		const char *digit = strchr("0123456789abcdef", name.p[i]);

		if (!digit || !name.p[i])
			return false;
		part[i / 16] =
			part[i / 16] << 4 |
			(uint64_t)(name.p[i] <= '9' ? name.p[i] - '0' : name.p[i] - 'a' + 10);
	}
	*find = (struct ht_hash){ part[1], part[0] };
	return true;
}
