/* price: the cost of a graph, kernel by kernel, from a cost table.
 *
 * A kernel costs its launch, the work of its nodes, its loads and stores, and a rounding for
 * every low-precision value that stays in it; a store rounds anyway.  In a contraction's kernel,
 * only the operands and results of a Cast are rounded (lower/round.c).  The work of a root (a
 * contraction, a window, a reduction) was measured with its operands and result in memory.  So a
 * root pays no loads, and its store is subtracted, to be paid by the node whose result is
 * stored.  Reshapes are free, and so are casts of constants.  Contractions whose mode sums short
 * runs of float16 (lower/price.h) are priced by the table's float32 products and the target's
 * rates, and not by the table's float16 products, which are summed in float32. */
#ifndef HT_PRICE_H
#define HT_PRICE_H

#include "lower/price.h"
#include "precision/optimal/cost.h"

struct ht_price_memo;
struct ht_pricing {
	const struct ht_costs *costs;
	struct ht_price_memo *memo; /* earlier look-ups, since models repeat their layers */
	const struct ht_target *target;
	bool cold_weights; /* weights do not fit into the last cache, so every run reads them
			    * from memory */
	bool near_weights; /* weights fill at most half of the second level, so they stay there */
	/* While a bound of memory is kept: by node id of the graph that is decided on, whether its result is saved in float32, and the price of
	 * a saved byte. */
	const bool *saved;
	int64_t byte;
};
/* Works in `a`, which must live as long as *p. */
void ht_pricing_init(struct ht_pricing *p, const struct ht_costs *costs, const struct ht_target *t,
	const struct ht_graph *g, struct ht_arena *a);

/* Parts of the price, in picoseconds.  They depend on the node's shapes and mode, but not on its
 * types. */
int64_t ht_price_work(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t);
int64_t ht_price_launch(const struct ht_pricing *p);
int64_t ht_price_load(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
int64_t ht_price_store(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
/* Rounding to `t` within a kernel; 0 for F32. */
int64_t ht_price_round(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);
/* A separate kernel that casts between F32 and `low`. */
int64_t ht_price_cast(
	const struct ht_pricing *p, struct ht_value v, enum ht_dtype low, bool widens);

/* The price of saving the results of `n` in type `t`; 0 unless a bound of memory is kept. */
int64_t ht_price_saved(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t);

/* What a kernel pays beside the load of an activation that left the caches since it was computed. */
int64_t ht_price_reload(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t);

/* saved.c: the activations of a training step that its backward part reads. */
struct ht_saved {
	const uint8_t *role; /* by node id: enum ht_role of its results */
	const bool *is;      /* by node id: its result is saved */
	int64_t bytes;       /* of all of them, in their types */
	bool cold;           /* in float32 they do not fit into the last cache */
};
/* Finds the saved activations of `g`, whose nodes `fusion` divides into kernels; *out has its arrays in `a`.  A graph that changes no
 * variable is no training step and has none. */
void ht_saved_find(const struct ht_graph *g, const struct ht_fusion *fusion,
	const struct ht_target *t, struct ht_arena *a, struct ht_saved *out);
/* Whether operand `i` of `n` is read from memory beyond the caches because it was saved. */
bool ht_reads_cold(const struct ht_saved *s, const struct ht_fusion *fusion,
	const struct ht_node *n, int32_t i);

/* The whole graph, with its current types, fused as lowering would fuse it. */
int64_t ht_price_graph(const struct ht_pricing *p, const struct ht_graph *g,
	const struct ht_fusion *fusion, const struct ht_saved *saved);

#endif
