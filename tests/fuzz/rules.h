/* Requirements on the readers of rules: an error names the file and, unless it concerns the whole
 * file, a line; rules have names and lines, and no name occurs twice in a map by name. */
#ifndef HT_FUZZ_RULES_H
#define HT_FUZZ_RULES_H

#include "precision/policy.h"

static inline long fuzz_lines(struct ht_str text)
{
	long n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

static inline void fuzz_rules_check(const struct ht_rules *r, struct ht_str text)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct ht_rule *rule = &r->rule[i];
		const struct ht_map *m = rule->is_type ? &r->types : &r->nodes;
		HT_CHECK(rule->name.n && rule->line > 0 && rule->line <= fuzz_lines(text));
		/* Rules of switches are identified by their section, too, and are not in the
		 * maps. */
		HT_CHECK(!m->count || (uintptr_t)ht_map_get(m, rule->name) == i + 1);
		HT_CHECK(rule->ins <= HT_MAX_CUSTOM && rule->outs <= HT_MAX_CUSTOM);
	}
}

static inline int fuzz_rules(const uint8_t *data, size_t size,
	enum ht_status (*parse)(struct ht_parse *p, struct ht_str text, struct ht_rules *out))
{
	struct ht_str text = { (const char *)data, size };
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_diags diags;
	struct ht_rules rules;

	for (int lenient = 0; lenient < 2; lenient++) {
		struct ht_parse p = {
			.arena = &arena, .diags = &diags, .path = "x.cfg", .lenient = lenient
		};
		ht_diags_init(&diags);
		ht_arena_init(&arena, &unwind);
		if (!setjmp(unwind.env)) {
			ht_rules_init(&rules, "option", "x.cfg", &arena);
			if (parse(&p, text, &rules) == HT_OK) {
				HT_CHECK(!diags.errors);
				fuzz_rules_check(&rules, text);
			} else {
				HT_CHECK(diags.errors == 1 && diags.first->where.path);
				HT_CHECK(diags.first->where.line <= fuzz_lines(text));
			}
		}
		ht_arena_release(&arena);
		ht_diags_release(&diags);
	}
	return 0;
}

#endif
