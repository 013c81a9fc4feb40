/* The fusions of one compilation: which are on, and what each found and changed.
 *
 * A pass asks ht_fusion_on() before it changes anything.  It calls ht_fusion_hit() for each change,
 * and ht_fusion_miss() if a pattern did not match.  The miss that satisfied the most conditions is
 * kept. */
#ifndef HT_CHOICE_FUSION_H
#define HT_CHOICE_FUSION_H

#include "base/base.h"

struct ht_node;

enum ht_fusion_id {
#define FUSION(name, kind, level, pass, pattern, exactness) HT_FUSION_##name,
#include "choice/fusions.def"
#undef FUSION
	HT_FUSION_END
};

enum ht_fusion_kind { HT_FUSION_GRAPH, HT_FUSION_LOOP, HT_FUSION_ENGINE, HT_FUSION_SCOPE };

struct ht_fusion_info {
	const char *name;
	enum ht_fusion_kind kind;
	int level;
	const char *pass, *pattern, *exactness;
};
extern const struct ht_fusion_info ht_fusion_info[HT_FUSION_END];
const char *ht_fusion_kind_name(enum ht_fusion_kind k);
/* HT_FUSION_END: no fusion has the name. */
enum ht_fusion_id ht_fusion_named(struct ht_str name);

struct ht_fusion_record {
	const char *off;    /* the reason why it is off; NULL: it is on */
	bool ran;           /* its pass ran */
	int64_t matches;    /* patterns found */
	int64_t effects;    /* changes made */
	struct ht_str node; /* node of the nearest miss */
	const char *missed; /* the condition that it did not satisfy; NULL: there was no miss */
	int progress;       /* number of conditions that it satisfied before */
};

struct ht_fusions {
	struct ht_arena *arena; /* for names */
	struct ht_fusion_record of[HT_FUSION_END];
};

/* Switches all fusions on; a policy may switch some off (ht_policy_fusions()). */
void ht_fusions_init(struct ht_fusions *f, struct ht_arena *a);

/* `f` NULL: all fusions are on, and nothing is recorded. */
bool ht_fusion_on(const struct ht_fusions *f, enum ht_fusion_id id);
void ht_fusion_hit(struct ht_fusions *f, enum ht_fusion_id id);
void ht_fusion_miss(struct ht_fusions *f, enum ht_fusion_id id, int progress,
	const struct ht_node *n, const char *condition);
/* Whether the pass has fusions and all are off.  Records that the others ran. */
bool ht_fusion_pass_is_off(struct ht_fusions *f, const char *pass);

#endif
