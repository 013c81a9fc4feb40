/* price: what a graph costs, kernel by kernel, by a cost table.
 *
 * A kernel pays its launch, the work of its nodes, what it loads and stores, and a rounding for
 * every low-precision value that stays in it: a store rounds what it stores.  A contraction's kernel
 * rounds only what a Cast in it reads and makes (lower/round.c).  The work of a root (a contraction,
 * a window, a reduction) is measured with its operands and result in memory; so a root pays no loads,
 * and its store is taken out, to be paid by the node whose result is stored.  Reshapes are free, and
 * so are casts of constants.  Contractions whose mode sums short runs of float16 (lower/price.h) are priced by the
 * float32 products of the table and the target's rates, not by the table's float16 products, which are summed in float32. */
#ifndef HT_PRICE_H
#define HT_PRICE_H

#include "lower/price.h"
#include "precision/optimal/cost.h"

struct ht_price_memo;
struct ht_pricing {
	const struct ht_costs *costs;
	struct ht_price_memo *memo; /* what was looked up before: models repeat themselves */
	const struct ht_target *target;
	bool cold_weights; /* they do not fit the last cache: every run reads them from memory */
};
/* Works in `a`, which has to live as long. */
void ht_pricing_init(struct ht_pricing *p, const struct ht_costs *costs, const struct ht_target *t,
	const struct ht_graph *g, struct ht_arena *a);

/* Parts of the price, in picoseconds; the node's shapes and mode count, its types do not. */
int64_t ht_price_work(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t);
int64_t ht_price_launch(const struct ht_pricing *p);
int64_t ht_price_load(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
int64_t ht_price_store(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
/* Rounds to `t` within a kernel; nothing for F32. */
int64_t ht_price_round(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
/* A kernel of its own that casts between F32 and `low`. */
int64_t ht_price_cast(
	const struct ht_pricing *p, struct ht_value v, enum ht_dtype low, bool widens);

/* The whole graph, with its own types, fused as lowering would. */
int64_t ht_price_graph(
	const struct ht_pricing *p, const struct ht_graph *g, const struct ht_fusion *fusion);

#endif
