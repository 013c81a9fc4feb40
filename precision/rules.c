/* Rules of option files: stores them by name, checks the names, and finds the rule of a node. */
#include "precision/precision.h"

#include <string.h>

/* ---- storing ---- */

void ht_rules_init(struct ht_rules *r, const char *option, const char *path, struct ht_arena *a)
{
	memset(r, 0, sizeof *r);
	r->option = option;
	r->path = path;
	ht_map_init(&r->types, a);
	ht_map_init(&r->nodes, a);
}

struct ht_rule *ht_rules_add(struct ht_rules *r, struct ht_arena *a, struct ht_str name,
	bool is_type, long line, bool *old)
{
	struct ht_map *m = is_type ? &r->types : &r->nodes;
	uintptr_t at = (uintptr_t)ht_map_get(m, name);
	struct ht_rule *rule;

	*old = at != 0;
	if (at)
		return &r->rule[at - 1];
	r->rule = ht_grow(a, r->rule, r->n, &r->cap, sizeof *r->rule);
	rule = &r->rule[r->n++];
	*rule = (struct ht_rule){ .name = ht_str_copy(a, name), .is_type = is_type, .line = line };
	rule->where = line ? ht_str_printf(a, "%s:%ld", r->path, line).p : r->option;
	ht_map_at(m, rule->name)->value = (void *)(uintptr_t)r->n;
	return rule;
}

/* ---- known names ---- */

static bool profile_has(const struct ht_profile *profile, struct ht_str type)
{
	if (ht_profile_lists(profile, type))
		return true;
	for (size_t i = 0; i < profile->mappeds; i++)
		if (ht_str_is(type, profile->mapped[i].type) ||
			ht_str_is(type, profile->mapped[i].vendor))
			return true;
	return false;
}

static bool graph_has_type(const struct ht_graph *g, struct ht_str type)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_str_eq(n->type, type))
			return true;
	return false;
}

static bool is_type(const struct ht_precision *p, struct ht_str type)
{
	if (ht_op_named(type) != HT_OP_OPAQUE)
		return true;
	for (const struct ht_profile *const *i = ht_profiles; *i; i++)
		if (profile_has(*i, type))
			return true;
	if (ht_read(p->policy, HT_READ_ops_info)->ops_info &&
		ht_map_get(&p->policy->ops_info->types, type))
		return true;
	return graph_has_type(p->imported, type);
}

/* A set of names. */
struct words {
	struct ht_str *word;
	size_t n, cap;
	struct ht_map seen;
};

static void add_word(struct ht_precision *p, struct words *w, struct ht_str s)
{
	if (!w->seen.arena)
		ht_map_init(&w->seen, p->arena);
	if (ht_map_get(&w->seen, s))
		return;
	ht_map_at(&w->seen, s)->value = w;
	w->word = ht_grow(p->arena, w->word, w->n, &w->cap, sizeof *w->word);
	w->word[w->n++] = s;
}

static void all_types(struct ht_precision *p, struct words *w)
{
	for (int op = HT_OP_OPAQUE + 1; op < HT_OP_END; op++)
		add_word(p, w, ht_op_info((enum ht_op)op)->name);
	for (const struct ht_profile *const *i = ht_profiles; *i; i++) {
		for (size_t k = 0; k < (*i)->listeds; k++)
			add_word(p, w, ht_str((*i)->listed[k].type));
		for (size_t k = 0; k < (*i)->mappeds; k++) {
			add_word(p, w, ht_str((*i)->mapped[k].type));
			add_word(p, w, ht_str((*i)->mapped[k].vendor));
		}
	}
	for (const struct ht_node *n = p->imported->first; n; n = n->next)
		if (n->op == HT_OP_OPAQUE)
			add_word(p, w, n->type);
}

static bool same_but_case(struct ht_str a, struct ht_str b)
{
	return a.n == b.n && !strncasecmp(a.p, b.p, a.n);
}

/* ---- checking names ---- */

struct check {
	struct ht_precision *p;
	const struct ht_rules *rules;
	struct ht_resolved *to;
	struct words types, nodes; /* filled on demand */
	struct ht_map origins;     /* names of imported nodes from which nodes were made */
	size_t unknowns;
};

/* An unknown name is no error, since files are written for more than one graph.  The report has
 * every such name; the first ones also get a note. */
static void unknown(
	struct check *c, const struct ht_rule *r, const char *what, const struct words *w)
{
	struct ht_str near[3];
	struct ht_buf b;
	int n;

	if (c->unknowns++ >= HT_NEAR_LIMIT)
		return;
	n = ht_near_names(r->name, w->word, w->n, near);
	ht_buf_init(&b, c->p->arena);
	for (int i = 0; i < n; i++)
		ht_printf(&b, "%s'%.*s'%s", i ? ", " : "; did you mean ", HT_STR_ARG(near[i]),
			i + 1 < n ? "" : "?");
	ht_note(c->p->diags, ht_at_line(r->line ? c->rules->path : NULL, r->line),
		"%s: %s '%.*s': the entry has no effect%s", c->rules->option, what,
		HT_STR_ARG(r->name), n ? ht_buf_str(&b).p : "");
}

static void resolve_type(struct check *c, const struct ht_rule *r)
{
	if (is_type(c->p, r->name)) {
		ht_map_at(&c->to->types, r->name)->value = (void *)(uintptr_t)r;
		return;
	}
	if (!c->types.n)
		all_types(c->p, &c->types);
	for (size_t i = 0; i < c->types.n; i++) {
		if (!same_but_case(c->types.word[i], r->name))
			continue;
		ht_warn(c->p->diags, ht_at_line(r->line ? c->rules->path : NULL, r->line),
			"%s: there is no op type '%.*s'; '%.*s' is taken", c->rules->option,
			HT_STR_ARG(r->name), HT_STR_ARG(c->types.word[i]));
		if (!ht_map_get(&c->to->types, c->types.word[i]))
			ht_map_at(&c->to->types, c->types.word[i])->value = (void *)(uintptr_t)r;
		return;
	}
	unknown(c, r, "there is no op type", &c->types);
}

static void collect_nodes(struct check *c)
{
	ht_map_init(&c->origins, c->p->arena);
	for (const struct ht_node *n = c->p->graph->first; n; n = n->next) {
		for (int32_t i = 0; i < n->origins; i++)
			ht_map_at(&c->origins, n->origin[i])->value = c;
		ht_map_at(&c->origins, n->name)->value = c;
	}
}

/* Whether the name is "NODE", or "FUNCTION/NODE" as in `explain`. */
static bool is_in_function(const struct ht_graph *g, struct ht_str name)
{
	for (const struct ht_function *f = g->functions; f; f = f->next) {
		struct ht_str tail = { name.p + f->name.n + 1, name.n - f->name.n - 1 };
		if (ht_graph_node(f->body, name))
			return true;
		if (name.n > f->name.n + 1 && !memcmp(name.p, f->name.p, f->name.n) &&
			name.p[f->name.n] == '/' && ht_graph_node(f->body, tail))
			return true;
	}
	return false;
}

/* A node of a function's body is in the body, and for each inlined call also in the graph, as
 * "CALL/NAME". */
static void add_inlined(struct check *c, const struct ht_rule *r)
{
	const char *tail = ht_str_printf(c->p->arena, "/%.*s", HT_STR_ARG(r->name)).p;

	for (size_t i = 0; i < c->origins.count; i++)
		if (ht_str_ends(c->origins.entries[i].key, tail))
			ht_map_at(&c->to->nodes, c->origins.entries[i].key)->value =
				(void *)(uintptr_t)r;
}

static void resolve_node(struct check *c, const struct ht_rule *r)
{
	if (!c->origins.arena)
		collect_nodes(c);
	if (ht_map_get(&c->origins, r->name) || ht_graph_node(c->p->imported, r->name)) {
		ht_map_at(&c->to->nodes, r->name)->value = (void *)(uintptr_t)r;
		return;
	}
	if (is_in_function(c->p->imported, r->name)) {
		ht_map_at(&c->to->nodes, r->name)->value = (void *)(uintptr_t)r;
		add_inlined(c, r);
		return;
	}
	if (!c->nodes.n) {
		for (const struct ht_node *n = c->p->imported->first; n; n = n->next)
			add_word(c->p, &c->nodes, n->name);
		for (size_t i = 0; i < c->origins.count; i++)
			add_word(c->p, &c->nodes, c->origins.entries[i].key);
	}
	unknown(c, r, "the graph has no node", &c->nodes);
}

void ht_rules_resolve(struct ht_precision *p)
{
	static const enum ht_read read[HT_RULE_SETS] = { [HT_RULES_MIX] = HT_READ_modify_mixlist,
		[HT_RULES_CUSTOM] = HT_READ_customize_dtypes,
		[HT_RULES_KEEP] = HT_READ_keep_dtype,
		[HT_RULES_IMPL] = HT_READ_op_precision_mode,
		[HT_RULES_CHOSEN] = HT_READ_optypelist_for_implmode };

	for (int set = 0; set < HT_RULE_SETS; set++) {
		const struct ht_rules *rules = &ht_read(p->policy, read[set])->rules[set];
		struct check c = { .p = p, .rules = rules, .to = &p->rules[set] };
		ht_map_init(&c.to->types, p->arena);
		ht_map_init(&c.to->nodes, p->arena);
		c.to->use = HT_NEW_ARRAY(p->arena, struct ht_rule_use, c.rules->n);
		for (size_t i = 0; i < c.rules->n; i++) {
			const struct ht_rule *r = &c.rules->rule[i];
			if (r->is_type)
				resolve_type(&c, r);
			else
				resolve_node(&c, r);
		}
		if (c.unknowns > HT_NEAR_LIMIT)
			ht_note(p->diags, ht_at_line(rules->path, 0),
				"%s: %zu more names that the graph lacks; explain lists them all",
				rules->option, c.unknowns - HT_NEAR_LIMIT);
	}
}

/* ---- finding rules ---- */

/* Rules about implementation modes use the names of the vendor's kernels. */
static bool names_kernels(enum ht_rule_set set)
{
	return set == HT_RULES_IMPL || set == HT_RULES_CHOSEN;
}

const struct ht_rule *ht_rule_of_type(
	struct ht_precision *p, enum ht_rule_set set, struct ht_str type)
{
	const struct ht_map *m = &p->rules[set].types;
	const struct ht_rule *r;
	const char *family;
	size_t next = 0;

	if (!m->count)
		return NULL;
	r = ht_map_get(m, type);
	if (!r)
		r = ht_map_get(m, ht_profile_vendor_type(p->profile, type));
	while (!r && names_kernels(set) && (family = ht_family_of(type, &next)))
		r = ht_map_get(m, ht_str(family));
	return r;
}

struct ht_rule_use *ht_use_of(struct ht_precision *p, enum ht_rule_set set, const struct ht_rule *r)
{
	return &p->rules[set].use[r - p->policy->rules[set].rule];
}

struct ht_rule_use *ht_rule_acts(struct ht_precision *p, enum ht_rule_set set,
	const struct ht_rule *r, const struct ht_node *n)
{
	struct ht_rule_use *use = ht_use_of(p, set, r);

	if (!use->effective)
		ht_map_init(&use->acted, p->arena);
	use->effective = true;
	ht_map_at(&use->acted, ht_reported_name(p->arena, n->graph, n->name))->value = use;
	return use;
}

static void note_outranked(
	struct ht_precision *p, enum ht_rule_set set, const struct ht_rule *by_type)
{
	struct ht_rule_use *use = by_type ? ht_use_of(p, set, by_type) : NULL;

	if (!use)
		return;
	use->nodes++;
	use->why = "a rule for the node counts before it";
}

const struct ht_rule *ht_rule_of(
	struct ht_precision *p, enum ht_rule_set set, const struct ht_node *n)
{
	const struct ht_map *m = &p->rules[set].nodes;
	const struct ht_rule *r = m->count ? ht_map_get(m, n->name) : NULL;

	for (int32_t i = 0; !r && m->count && i < n->origins; i++)
		r = ht_map_get(m, n->origin[i]);
	if (!r && m->count && n->graph->function)
		r = ht_map_get(
			m, ht_str_printf(p->arena, "%.*s/%.*s",
				   HT_STR_ARG(n->graph->function->name), HT_STR_ARG(n->name)));
	if (!r)
		return ht_rule_of_type(p, set, n->type);
	note_outranked(p, set, ht_rule_of_type(p, set, n->type));
	return r;
}

/* ---- effects of rules ---- */

static const char *why_not(struct ht_precision *p, const struct ht_rule *r)
{
	if (!r->is_type)
		return ht_graph_node(p->imported, r->name) || is_in_function(p->imported, r->name)
			       ? "the node was folded away, or policies do not judge it"
			       : "ignored: the graph has no such node";
	if (!is_type(p, r->name))
		return "ignored: there is no such op type";
	for (const struct ht_node *n = p->imported->first; n; n = n->next)
		if (ht_str_eq(n->type, r->name) || ht_family_has(r->name, n->type) ||
			ht_str_eq(ht_profile_vendor_type(p->profile, n->type), r->name))
			return "such nodes were fused or folded away, or policies do not judge them";
	return "the graph has no such op";
}

/* "from white to black, 5 nodes: 'a', 'b', 'c' and others" */
static const char *what_it_did(struct ht_arena *a, const struct ht_rule_use *use)
{
	enum { SHOWN = 3 };
	struct ht_buf b;

	ht_buf_init(&b, a);
	if (use->did)
		ht_printf(&b, "%s, ", use->did);
	ht_printf(&b, "%zu node%s: ", use->acted.count, use->acted.count == 1 ? "" : "s");
	for (size_t i = 0; i < use->acted.count && i < SHOWN; i++)
		ht_printf(&b, "%s'%.*s'", i ? ", " : "", HT_STR_ARG(use->acted.entries[i].key));
	if (use->acted.count > SHOWN)
		ht_puts(&b, " and others");
	return ht_buf_str(&b).p;
}

static void report_rule(struct ht_precision *p, const struct ht_rules *rules,
	const struct ht_rule *r, const struct ht_rule_use *use, struct ht_decisions *out)
{
	const char *note = use->effective           ? what_it_did(out->arena, use)
			   : use->nodes && use->why ? use->why
						    : why_not(p, r);

	out->rule = ht_grow(out->arena, out->rule, out->rules, &out->rule_cap, sizeof *out->rule);
	out->rule[out->rules++] = (struct ht_reported_rule){
		.where = ht_str_copy(out->arena, ht_str(r->where)),
		.name = ht_str_copy(out->arena, r->name),
		.note = ht_str_copy(out->arena, ht_str(note)),
		.option = rules->option,
		.acted = use->effective,
	};
}

void ht_rules_report(struct ht_precision *p, struct ht_decisions *out)
{
	for (int set = 0; set < HT_RULE_SETS; set++) {
		const struct ht_rules *rules = &p->policy->rules[set];

		for (size_t i = 0; i < rules->n; i++)
			report_rule(p, rules, &rules->rule[i], &p->rules[set].use[i], out);
	}
}
