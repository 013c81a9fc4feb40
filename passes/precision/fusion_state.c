/* Which fusions are on, and by what.  The first that applies:
 *
 *   1. optimization_switch names it
 *   2. it is among the ExceptionalPassOfO1Level
 *   3. the vendor's cannot be closed: it does what forbidden_close_pass says, which is on unless
 *      optimization_switch says otherwise, as in the vendor's adapter
 *   4. oo_level is below its level
 *   5. fusion_switch_file: its own entry, else ALL of its kind
 *   6. it is on
 *
 * A fusion of ours goes by its own name, or by that of its pass (where no fusion is called so), when
 * one of those is named.
 * Otherwise it is on when any of the vendor's names for it is.  Clean-ups have their level before
 * 3, and no ALL closes them; scope fusions have neither level nor ALL. */
#include "passes/precision/report/report.h"

#include <string.h>

static const struct vendor {
	const char *name;
	bool closable, cleans_up;
	const char *ours; /* or NULL */
} vendors[] = {
#define FUSION(name, closable, ours) { name, closable, false, ours },
#include "passes/precision/fusions.def"
#undef FUSION
#define CLEAN_UP(name, level, ours) { name, true, true, ours },
#include "passes/precision/clean_ups.def"
#undef CLEAN_UP
#define SCOPE(name, general, ours) { name, !(general), false, ours },
#include "passes/precision/scopes.def"
#undef SCOPE
};

static const char *const FORBIDDEN = "forbidden_close_pass";

static const struct vendor *vendor_named(struct ht_str name)
{
	for (size_t i = 0; i < HT_COUNT(vendors); i++)
		if (ht_str_is(name, vendors[i].name))
			return &vendors[i];
	return NULL;
}

/* A pass whose name is no fusion's stands for all of its own. */
static bool is_pass(struct ht_str name)
{
	if (ht_fusion_named(name) != HT_FUSION_END)
		return false;
	for (int id = 0; id < HT_FUSION_END; id++)
		if (ht_str_is(name, ht_fusion_info[id].pass))
			return true;
	return false;
}

bool ht_fusion_is_known(struct ht_str name, bool for_optimization_switch)
{
	return vendor_named(name) || ht_fusion_named(name) != HT_FUSION_END || is_pass(name) ||
	       (for_optimization_switch && ht_str_is(name, FORBIDDEN));
}

int ht_fusions_near(struct ht_str name, struct ht_str near[3], struct ht_arena *a)
{
	size_t n = 0;
	struct ht_str *names =
		HT_NEW_ARRAY(a, struct ht_str, HT_COUNT(vendors) + 2 * (size_t)HT_FUSION_END);

	for (size_t i = 0; i < HT_COUNT(vendors); i++)
		names[n++] = ht_str(vendors[i].name);
	for (int id = 0; id < HT_FUSION_END; id++) {
		names[n++] = ht_str(ht_fusion_info[id].name);
		names[n++] = ht_str(ht_fusion_info[id].pass);
	}
	return ht_near_names(name, names, n, near);
}

const char *ht_fusion_vendor_name(enum ht_fusion_id id, int i)
{
	for (size_t k = 0; k < HT_COUNT(vendors); k++)
		if (vendors[k].ours && !strcmp(vendors[k].ours, ht_fusion_info[id].name) &&
			i-- == 0)
			return vendors[k].name;
	return NULL;
}

bool ht_fusion_is_closable(const char *vendor_name)
{
	return vendor_named(ht_str(vendor_name))->closable;
}

/* ---- entries ---- */

static const struct ht_rule *entry(const struct ht_rules *r, const char *name, bool exception)
{
	for (size_t i = 0; i < r->n; i++)
		if (ht_str_is(r->rule[i].name, name) &&
			(r->rule[i].section == HT_SWITCH_EXCEPTION) == exception)
			return &r->rule[i];
	return NULL;
}

static const struct ht_rule *entry_of_all(const struct ht_rules *r, enum ht_fusion_kind kind)
{
	enum ht_switch_section section = kind == HT_FUSION_LOOP ? HT_SWITCH_LOOP : HT_SWITCH_GRAPH;

	for (size_t i = 0; i < r->n; i++)
		if (ht_str_is(r->rule[i].name, "ALL") &&
			(r->rule[i].section == section || r->rule[i].section == HT_SWITCH_ANY))
			return &r->rule[i];
	return NULL;
}

struct verdict {
	bool on;
	bool settled;               /* by something that named it, or by its level */
	const struct ht_rule *rule; /* NULL: the level, or nothing */
};

static struct verdict by_rule(const struct ht_rule *r)
{
	return (struct verdict){ r->on, true, r };
}

/* `name` is the vendor's or ours; closable and level are those of the fusion that it stands for. */
static struct verdict verdict_of(const struct ht_policy *p, const char *name, bool closable,
	const struct ht_fusion_info *info)
{
	const struct ht_rule *r = entry(&p->switches, name, false);
	bool low = p->oo_level < info->level, cleans_up = info->kind == HT_FUSION_ENGINE;

	if (r || (r = entry(&p->fusions, name, true)))
		return by_rule(r);
	if (low && cleans_up)
		return (struct verdict){ .settled = true };
	if (!closable) {
		r = entry(&p->switches, FORBIDDEN, false);
		return r ? by_rule(r) : (struct verdict){ .on = true, .settled = true };
	}
	if (low)
		return (struct verdict){ .settled = true };
	if ((r = entry(&p->fusions, name, false)))
		return by_rule(r);
	if (!cleans_up && info->kind != HT_FUSION_SCOPE &&
		(r = entry_of_all(&p->fusions, info->kind)))
		return (struct verdict){ .on = r->on, .rule = r };
	return (struct verdict){ .on = true };
}

static bool is_named(const struct ht_policy *p, const char *name)
{
	return entry(&p->switches, name, false) || entry(&p->fusions, name, false) ||
	       entry(&p->fusions, name, true);
}

static struct verdict verdict(const struct ht_policy *p, enum ht_fusion_id id)
{
	const struct ht_fusion_info *info = &ht_fusion_info[id];
	struct verdict first = { 0 };
	const char *name;

	if (is_named(p, info->name))
		return verdict_of(p, info->name, true, info);
	if (is_pass(ht_str(info->pass)) && is_named(p, info->pass))
		return verdict_of(p, info->pass, true, info);
	for (int i = 0; (name = ht_fusion_vendor_name(id, i)); i++) {
		struct verdict v = verdict_of(p, name, vendor_named(ht_str(name))->closable, info);

		if (v.on)
			return v;
		if (i == 0)
			first = v;
	}
	return ht_fusion_vendor_name(id, 0) ? first : verdict_of(p, info->name, true, info);
}

/* Otherwise all are on, and there is nothing to look up. */
static bool switches_any(const struct ht_policy *p)
{
	return p->fusions.n || p->switches.n || p->oo_level < 3 || p->keep_constants;
}

const char *ht_fusion_off(const struct ht_policy *p, enum ht_fusion_id id, struct ht_arena *a)
{
	struct verdict v;

	if (ht_read(p, HT_READ_policy)->report)
		return p->report->off[id];
	ht_read(p, HT_READ_fusion_switch_file);
	ht_read(p, HT_READ_optimization_switch);
	ht_read(p, HT_READ_oo_level);
	ht_read(p, HT_READ_oo_constant_folding);
	if (!switches_any(p))
		return NULL;
	v = verdict(p, id);
	if (v.on && id == HT_FUSION_constant_folding && p->keep_constants && !v.settled)
		return "oo_constant_folding is false";
	if (v.on)
		return NULL;
	if (!v.rule)
		return ht_str_printf(a, "oo_level is O%d", p->oo_level).p;
	return ht_str_printf(a, "%s: '%.*s' is off", v.rule->where, HT_STR_ARG(v.rule->name)).p;
}

/* ---- what an entry did ---- */

static bool is_about(const struct ht_rule *rule, enum ht_fusion_id id)
{
	const char *name;

	if (ht_str_is(rule->name, ht_fusion_info[id].name) ||
		(is_pass(rule->name) && ht_str_is(rule->name, ht_fusion_info[id].pass)))
		return true;
	for (int i = 0; (name = ht_fusion_vendor_name(id, i)); i++)
		if (ht_str_is(rule->name, name))
			return true;
	return false;
}

/* The fusions that ALL does not close, and why. */
static const char *note_all(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a)
{
	struct ht_buf b;
	int n = 0;

	ht_buf_init(&b, a);
	ht_puts(&b, "every fusion that can be closed");
	for (int id = 0; !rule->on && id < HT_FUSION_END; id++) {
		const struct ht_fusion_info *info = &ht_fusion_info[id];
		const char *name = ht_fusion_vendor_name((enum ht_fusion_id)id, 0);
		struct verdict v = verdict(p, (enum ht_fusion_id)id);

		if (!v.on || info->kind == HT_FUSION_ENGINE ||
			(info->kind == HT_FUSION_LOOP && rule->section == HT_SWITCH_GRAPH) ||
			(info->kind == HT_FUSION_GRAPH && rule->section == HT_SWITCH_LOOP))
			continue;
		ht_printf(&b, "%s%s (%s)", n++ ? ", " : "; on stay ", info->name,
			v.rule                          ? v.rule->where
			: info->kind == HT_FUSION_SCOPE ? "a scope fusion: its own name closes it"
							: name);
	}
	if (n)
		ht_puts(&b, ": the vendor's cannot be closed, and by their own names ours can");
	return ht_buf_str(&b).p;
}

const char *ht_fusion_note(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a)
{
	const struct vendor *f = vendor_named(rule->name);
	struct ht_buf b;
	int n = 0;

	if (ht_str_is(rule->name, "ALL"))
		return note_all(p, rule, a);
	if (ht_str_is(rule->name, FORBIDDEN))
		return "the fusions that cannot be closed";
	if (f && f->cleans_up && p->fusions.n && rule >= p->fusions.rule &&
		rule < p->fusions.rule + p->fusions.n)
		return "a clean-up: optimization_switch and oo_level govern it";
	if (f && !f->closable && rule->section != HT_SWITCH_EXCEPTION && !rule->on &&
		!entry(&p->switches, f->name, false))
		return "stays on: it cannot be closed";
	if (f && !f->ours)
		return "no counterpart here";
	ht_buf_init(&b, a);
	for (int id = 0; id < HT_FUSION_END; id++) {
		struct verdict v = verdict(p, (enum ht_fusion_id)id);

		if (!is_about(rule, (enum ht_fusion_id)id))
			continue;
		ht_printf(&b, "%s%s", n++ ? ", " : "", ht_fusion_info[id].name);
		if (v.on != rule->on && v.rule)
			ht_printf(&b, " (%s by %s: '%.*s')", v.on ? "on" : "off", v.rule->where,
				HT_STR_ARG(v.rule->name));
		else if (v.on != rule->on)
			ht_printf(&b, " (%s)",
				v.on ? "stays on: it has other names" : "off: oo_level");
	}
	return ht_buf_str(&b).p;
}
