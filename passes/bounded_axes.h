/* bounded_axes: helpers of the rules of open axes (bounded_rules.c and the files of its rules). */
#ifndef HT_PASSES_BOUNDED_AXES_H
#define HT_PASSES_BOUNDED_AXES_H

#include "passes/bounded.h"

#include "ir/infer.h"

#include <string.h>

static inline bool is_same(struct ht_open a, struct ht_open b)
{
	for (int i = 0; i < HT_OPEN_PARTS; i++)
		if (a.part[i].size != b.part[i].size ||
			(a.part[i].size && a.part[i].inner != b.part[i].inner))
			return false;
	return true;
}

static inline bool is_number(const struct ht_bounded *b, struct ht_value v, int32_t i, int64_t *n)
{
	struct ht_elem e = ht_open_element(b, v, i);

	*n = e.i;
	return e.kind == HT_ELEM_INT;
}

static inline struct ht_open axis_of(
	const struct ht_bounded *b, const struct ht_node *n, int32_t arg, int32_t axis)
{
	const struct ht_open *a = ht_open_axes(b, n->in[arg]);

	return a ? a[axis] : (struct ht_open){ 0 };
}

static inline enum ht_status put(const struct ht_bounded *b, const struct ht_node *n,
	struct ht_open *out, int32_t axis, struct ht_open a)
{
	if (!ht_open_some(a))
		return HT_OK;
	if (ht_open_some(out[axis]) && !is_same(out[axis], a))
		return ht_open_refuse(
			b, n, "two open sizes meet here, which may differ when it runs");
	out[axis] = a;
	return HT_OK;
}

/* Axes of operand `arg` from `first` to before `end` become those of the result from `to` on. */
static inline enum ht_status put_axes(const struct ht_bounded *b, const struct ht_node *n,
	int32_t arg, int32_t first, int32_t end, struct ht_open *out, int32_t to)
{
	for (int32_t i = first; i < end; i++)
		HT_TRY(put(b, n, out, to + i - first, axis_of(b, n, arg, i)));
	return HT_OK;
}

/* Whether the open indices of an axis are those of one size, from the first index on. */
static inline bool is_plain(
	const struct ht_bounded *b, struct ht_shape s, int32_t axis, struct ht_open a)
{
	int64_t run = a.part[0].inner * b->r.g->size[a.part[0].size - 1].most;

	return !a.part[1].size && ht_open_most(b, s.dim[axis]) == run;
}

static inline bool is_zero(const struct ht_bounded *b, struct ht_value v, int32_t i)
{
	int64_t n;

	return is_number(b, v, i, &n) && n == 0;
}

/* The axis, of a tensor of rank `rank`, that element i of `v` names; -1: unknown. */
static inline int32_t named_axis(
	const struct ht_bounded *b, struct ht_value v, int32_t i, int32_t rank)
{
	int64_t axis;

	return is_number(b, v, i, &axis) && ht_fix_axis(&axis, rank) ? (int32_t)axis : -1;
}

/* A copy of all axes of an operand.  It stays valid when nodes are made in front of the operand,
 * which have no recorded axes. */
struct axes {
	struct ht_open axis[HT_OPEN_RANK];
};

static inline struct axes axes_of(const struct ht_bounded *b, const struct ht_node *n, int32_t arg)
{
	const struct ht_open *a = ht_open_axes(b, n->in[arg]);
	struct axes all = { 0 };

	if (a)
		memcpy(all.axis, a, sizeof all.axis);
	return all;
}

/* ---- bounded_mask.c ---- */

/* Makes operand `arg` equal `fill` outside of open axis `axis`. */
void ht_open_mask(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill);
/* Likewise for a node that reads all elements, so that none may stay undefined. */
void ht_open_mask_all(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill);

/* Makes operand 1, a divisor or an exponent of integers, harmless outside of the run's sizes, and where the result has no elements. */
void ht_open_mask_divisor(struct ht_bounded *b, struct ht_node *n);

/* ---- bounded_rules.c ---- */

/* Sets the axes of operand `arg`, which is broadcast to a result of rank `rank`. */
enum ht_status ht_open_align(const struct ht_bounded *b, const struct ht_node *n, int32_t arg,
	int32_t rank, struct ht_open *out);
/* Gives axis `to` of the result the size that its extent has, from the first index on. */
enum ht_status ht_open_make(
	const struct ht_bounded *b, const struct ht_node *n, int32_t to, struct ht_open *out);
/* Does that for all axes of the result. */
ht_open_rule ht_open_made;
/* The result has the axes of operand 0; no other operand has open ones. */
ht_open_rule ht_open_of_first;

/* ---- rules, by file ---- */

/* bounded_sums.c */
ht_open_rule ht_open_multiplied, ht_open_contracted, ht_open_reduced, ht_open_consumed,
	ht_open_found, ht_open_shared, ht_open_judged, ht_open_best;
/* bounded_indices.c */
ht_open_rule ht_open_gathered, ht_open_gathered_nd, ht_open_scattered, ht_open_scattered_into,
	ht_open_segmented, ht_open_updated, ht_open_located, ht_open_along, ht_open_suppressed,
	ht_open_distinct, ht_open_drawn, ht_open_drawn_by_counts, ht_open_hot;
/* Tells the kernel which indices the run has of the first `axes` axes of operand 0, and which elements of operand `indices` to follow. */
enum ht_status ht_open_by_index(
	struct ht_bounded *b, struct ht_node *n, int32_t axes, int32_t indices);
/* Whether the op updates rows of a variable; then ht_open_updated() is its rule. */
bool ht_open_updates_rows(const struct ht_node *n);
/* The operand with updates of a variable's rows, or with their gradient. */
int32_t ht_open_updates_of(const struct ht_node *n);
/* bounded_pieces.c */
ht_open_rule ht_open_concatenated, ht_open_packed, ht_open_split, ht_open_unpacked, ht_open_sliced,
	ht_open_strided;
/* bounded_places.c */
ht_open_rule ht_open_reversed;
/* Entries of a StridedSlice that take one element of an open axis of operand 0: where it is depends on the run. */
struct ht_open_taken {
	int32_t entry, axis;
};
/* The StridedSlice takes place 0 of what gathers found, as far as it has these entries. */
void ht_open_take(
	struct ht_bounded *b, struct ht_node *n, const struct ht_open_taken *taken, int32_t count);
/* bounded_rare.c: the rule of an op that no trait or value of field `axes` says; NULL: there is none. */
ht_open_rule *ht_open_rare_rule(enum ht_op op);
/* bounded_gradients.c: likewise that of a gradient. */
ht_open_rule *ht_open_gradient_rule(enum ht_op op);
/* bounded_joined.c: whether a reshape put an open size of an axis together with others, so that elements have other places along it than in
 * the run's tensor. */
bool ht_open_is_joined(
	const struct ht_bounded *b, struct ht_shape s, int32_t axis, struct ht_open a);
/* The places of elements along such an axis, which are the last result of `n`, become those in the run's tensor. */
void ht_open_find_in_run(struct ht_bounded *b, struct ht_node *n, struct ht_open a);
/* Likewise places along several axes of operand 0, of Where. */
void ht_open_locate_in_run(struct ht_bounded *b, struct ht_node *n, const struct ht_open *axis);
/* The elements of `v` along such an axis in the order of the run's tensor, those outside behind all others; *a are its open indices then. */
struct ht_value ht_open_in_order(
	struct ht_bounded *b, struct ht_value v, int32_t axis, struct ht_open_axis *a);
/* Operand `arg`, places along such an axis in the run's tensor, becomes those in that of the largest extents. */
void ht_open_take_from_run(struct ht_bounded *b, struct ht_node *n, int32_t arg, struct ht_open a);
/* bounded_windows.c */
ht_open_rule ht_open_window, ht_open_padded, ht_open_unwindow;
/* Attribute _ends: where the axes of the result end; of the second function, the number of images alone. */
void ht_open_set_ends(struct ht_node *n, const struct ht_open *out);
void ht_open_set_images(struct ht_node *n, struct ht_open images);

#endif
