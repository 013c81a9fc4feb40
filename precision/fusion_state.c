/* Which fusions are on, and what decides that.  The first rule that applies counts:
 *
 *   1. optimization_switch names it
 *   2. it is among the ExceptionalPassOfO1Level
 *   3. the vendor's fusion cannot be switched off: forbidden_close_pass decides; if
 *   optimization_switch
 *      does not have that, the fusion is on unless ALL of its kind is off
 *   4. oo_level is below its level
 *   5. fusion_switch_file: its own entry, else ALL of its kind
 *   6. it is on
 *
 * A fusion of this compiler goes by its own name, or by that of its pass (if no fusion has that
 * name), if one of these is named.  Otherwise it is on if any of the vendor's fusions for it is.
 * For clean-ups, the level counts before rule 3, and switch files do not apply; scope fusions
 * have no level, and go by ALL of GraphFusion. */
#include "precision/report/report.h"

#include <string.h>

static const struct vendor {
	const char *name;
	bool closable, cleans_up;
	const char *ours; /* this compiler's name, or NULL */
} vendors[] = {
#define FUSION(name, closable, ours) { name, closable, false, ours },
#include "precision/fusions.def"
#undef FUSION
#define CLEAN_UP(name, level, ours) { name, true, true, ours },
#include "precision/clean_ups.def"
#undef CLEAN_UP
#define SCOPE(name, general, ours) { name, !(general), false, ours },
#include "precision/scopes.def"
#undef SCOPE
};

static const char *const FORBIDDEN = "forbidden_close_pass";

/* V100 or V200 in front of a vendor's name is the generation of machines for which the pass is
 * made.  The manual has such names also without it. */
static const char *behind_generation(const char *vendor)
{
	return !strncmp(vendor, "V100", 4) || !strncmp(vendor, "V200", 4) ? vendor + 4 : vendor;
}

/* Whether an entry of this name concerns the fusion of that name, which is this compiler's or
 * the vendor's. */
static bool stands_for(struct ht_str name, const char *fusion)
{
	return ht_str_is(name, fusion) || ht_str_is(name, behind_generation(fusion));
}

/* The first fusion that the name stands for. */
static const struct vendor *vendor_named(struct ht_str name)
{
	for (size_t i = 0; i < HT_COUNT(vendors); i++)
		if (stands_for(name, vendors[i].name))
			return &vendors[i];
	return NULL;
}

/* Whether the name is that of a pass and of no fusion: it stands for all fusions of the pass. */
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
		HT_NEW_ARRAY(a, struct ht_str, 2 * (HT_COUNT(vendors) + (size_t)HT_FUSION_END));

	for (size_t i = 0; i < HT_COUNT(vendors); i++) {
		struct ht_str bare = ht_str(behind_generation(vendors[i].name));

		names[n++] = ht_str(vendors[i].name);
		if (bare.n < names[n - 1].n && vendor_named(bare) == &vendors[i])
			names[n++] = bare;
	}
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

/* The exact name takes precedence over the one without a generation. */
static const struct ht_rule *entry(const struct ht_rules *r, const char *name, bool exception)
{
	const struct ht_rule *found = NULL;

	for (size_t i = 0; i < r->n; i++) {
		if ((r->rule[i].section == HT_SWITCH_EXCEPTION) != exception)
			continue;
		if (ht_str_is(r->rule[i].name, name))
			return &r->rule[i];
		if (stands_for(r->rule[i].name, name))
			found = &r->rule[i];
	}
	return found;
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
	bool settled;               /* by an entry that names it, or by its level */
	const struct ht_rule *rule; /* NULL: the level decided, or nothing */
};

static struct verdict by_rule(const struct ht_rule *r)
{
	return (struct verdict){ r->on, true, r };
}

/* The vendor's fusion cannot be switched off by name, but ALL applies to this compiler's fusion
 * in its place. */
static struct verdict verdict_of_forbidden(
	const struct ht_policy *p, const char *name, const struct ht_fusion_info *info)
{
	const struct ht_rule *r = entry(&p->switches, FORBIDDEN, false), *all = NULL;

	if (r)
		return by_rule(r);
	r = entry(&p->fusions, name, false);
	if (info->kind != HT_FUSION_ENGINE)
		all = entry_of_all(&p->fusions, info->kind);
	if (all && !all->on && !(r && r->on))
		return (struct verdict){ .rule = all };
	return (struct verdict){ .on = true, .settled = true };
}

/* `name` is the vendor's or this compiler's; `closable` and `level` are those of the fusion that
 * it stands for. */
static struct verdict verdict_of(const struct ht_policy *p, const char *name, bool closable,
	const struct ht_fusion_info *info)
{
	const struct ht_rule *r = entry(&p->switches, name, false);
	bool low = p->oo_level < info->level, cleans_up = info->kind == HT_FUSION_ENGINE;

	if (r || (r = entry(&p->fusions, name, true)))
		return by_rule(r);
	if (low && cleans_up)
		return (struct verdict){ .settled = true };
	if (!closable)
		return verdict_of_forbidden(p, name, info);
	if (low)
		return (struct verdict){ .settled = true };
	if (cleans_up)
		return (struct verdict){ .on = true };
	if ((r = entry(&p->fusions, name, false)))
		return by_rule(r);
	if ((r = entry_of_all(&p->fusions, info->kind)))
		return (struct verdict){ .on = r->on, .rule = r };
	return (struct verdict){ .on = true };
}

/* Whether an entry that applies to fusions of this kind names it. */
static bool is_named(const struct ht_policy *p, const char *name, enum ht_fusion_kind kind)
{
	return entry(&p->switches, name, false) || entry(&p->fusions, name, true) ||
	       (kind != HT_FUSION_ENGINE && entry(&p->fusions, name, false));
}

static struct verdict verdict(const struct ht_policy *p, enum ht_fusion_id id)
{
	const struct ht_fusion_info *info = &ht_fusion_info[id];
	struct verdict first = { 0 };
	const char *name;

	if (is_named(p, info->name, info->kind))
		return verdict_of(p, info->name, true, info);
	if (is_pass(ht_str(info->pass)) && is_named(p, info->pass, info->kind))
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

/* Whether the policy switches anything; otherwise all fusions are on, and nothing is looked up. */
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

void ht_policy_fusions(const struct ht_policy *p, struct ht_fusions *f, struct ht_arena *a)
{
	ht_fusions_init(f, a);
	for (int id = 0; p && id < HT_FUSION_END; id++)
		f->of[id].off = ht_fusion_off(p, (enum ht_fusion_id)id, a);
}

/* ---- the effect of an entry ---- */

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

static bool is_in_section(enum ht_fusion_kind kind, enum ht_switch_section section)
{
	return section == HT_SWITCH_ANY || (section == HT_SWITCH_LOOP) == (kind == HT_FUSION_LOOP);
}

/* Lists what `"ALL": "off"` does not switch off: clean-ups, and fusions with entries of their
 * own. */
static void put_open(
	struct ht_buf *b, const struct ht_policy *p, const struct ht_rule *all, bool clean_ups)
{
	int n = 0;

	for (int id = 0; id < HT_FUSION_END; id++) {
		const struct ht_fusion_info *info = &ht_fusion_info[id];
		struct verdict v = verdict(p, (enum ht_fusion_id)id);

		if (!v.on || !is_in_section(info->kind, all->section) ||
			(info->kind == HT_FUSION_ENGINE) != clean_ups)
			continue;
		ht_printf(b, "%s%s",
			n++         ? ", "
			: clean_ups ? "; no file closes the clean-ups "
				    : "; on stay ",
			info->name);
		if (v.rule)
			ht_printf(b, " (%s)", v.rule->where);
	}
	if (n && clean_ups)
		ht_puts(b, ": optimization_switch and oo_level govern them");
}

static const char *note_all(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_puts(&b, rule->section == HT_SWITCH_LOOP    ? "every loop fusion"
		    : rule->section == HT_SWITCH_GRAPH ? "every graph and scope fusion"
						       : "every fusion");
	if (!rule->on)
		put_open(&b, p, rule, false);
	if (!rule->on)
		put_open(&b, p, rule, true);
	return ht_buf_str(&b).p;
}

/* Why an entry with a vendor's name has no effect; NULL: it may have one. */
static const char *why_idle(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a)
{
	const struct vendor *f = vendor_named(rule->name);
	struct ht_buf b;

	if (!f)
		return NULL;
	if (!f->ours && ht_str_is(rule->name, f->name))
		return "no counterpart here";
	if (f->ours)
		return !f->closable && rule->section != HT_SWITCH_EXCEPTION && !rule->on &&
				       !entry(&p->switches, f->name, false) &&
				       verdict(p, ht_fusion_named(ht_str(f->ours))).on
			       ? "stays on: it cannot be closed"
			       : NULL;
	ht_buf_init(&b, a);
	for (size_t i = 0; i < HT_COUNT(vendors); i++)
		if (stands_for(rule->name, vendors[i].name))
			ht_printf(&b, "%s%s", b.n ? ", " : "", vendors[i].name);
	ht_puts(&b, ": no counterpart here");
	return ht_buf_str(&b).p;
}

/* Whether an entry of a switch file names a clean-up, by the vendor's name or this compiler's. */
static bool is_governed_elsewhere(const struct ht_policy *p, const struct ht_rule *rule)
{
	const struct vendor *f = vendor_named(rule->name);
	bool in_file =
		p->fusions.n && rule >= p->fusions.rule && rule < p->fusions.rule + p->fusions.n;
	int clean_ups = f && f->cleans_up;

	if (!in_file || rule->section == HT_SWITCH_EXCEPTION)
		return false;
	for (int id = 0; id < HT_FUSION_END; id++) {
		if (!is_about(rule, (enum ht_fusion_id)id))
			continue;
		if (ht_fusion_info[id].kind != HT_FUSION_ENGINE)
			return false;
		clean_ups++;
	}
	return clean_ups;
}

const char *ht_fusion_note(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a)
{
	const char *idle;
	struct ht_buf b;
	int n = 0;

	if (ht_str_is(rule->name, "ALL"))
		return note_all(p, rule, a);
	if (ht_str_is(rule->name, FORBIDDEN))
		return "the fusions that cannot be closed";
	if (is_governed_elsewhere(p, rule))
		return "a clean-up: optimization_switch and oo_level govern it";
	idle = why_idle(p, rule, a);
	if (idle)
		return idle;
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
