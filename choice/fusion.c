/* The table of fusions, and the record of their effects. */
#include "choice/fusion.h"

#include "ir/ir.h"

#include <string.h>

const struct ht_fusion_info ht_fusion_info[HT_FUSION_END] = {
#define FUSION(name, kind, level, pass, pattern, exactness)                                        \
	[HT_FUSION_##name] = { #name, HT_FUSION_##kind, level, pass, pattern, exactness },
#include "choice/fusions.def"
#undef FUSION
};

const char *ht_fusion_kind_name(enum ht_fusion_kind k)
{
	static const char *const names[] = { "graph", "loop", "engine", "scope" };

	return names[k];
}

enum ht_fusion_id ht_fusion_named(struct ht_str name)
{
	int id = 0;

	while (id < HT_FUSION_END && !ht_str_is(name, ht_fusion_info[id].name))
		id++;
	return (enum ht_fusion_id)id;
}

void ht_fusions_init(struct ht_fusions *f, struct ht_arena *a)
{
	*f = (struct ht_fusions){ .arena = a };
}

bool ht_fusion_on(const struct ht_fusions *f, enum ht_fusion_id id)
{
	return !f || !f->of[id].off;
}

void ht_fusion_hit(struct ht_fusions *f, enum ht_fusion_id id)
{
	if (!f)
		return;
	f->of[id].matches++;
	f->of[id].effects++;
}

void ht_fusion_miss(struct ht_fusions *f, enum ht_fusion_id id, int progress,
	const struct ht_node *n, const char *condition)
{
	struct ht_fusion_record *r = f ? &f->of[id] : NULL;

	if (!r || r->progress >= progress)
		return;
	r->progress = progress;
	r->missed = condition;
	r->node = ht_str_copy(f->arena, n->name);
}

bool ht_fusion_pass_is_off(struct ht_fusions *f, const char *pass)
{
	bool any = false, on = false;

	for (int id = 0; f && id < HT_FUSION_END; id++) {
		if (strcmp(ht_fusion_info[id].pass, pass) != 0)
			continue;
		any = true;
		on = on || !f->of[id].off;
		f->of[id].ran = f->of[id].ran || !f->of[id].off;
	}
	return any && !on;
}
