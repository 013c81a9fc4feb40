/* Ops on sequences of classes, for pass sizes.
 *
 * - CTCBeamSearchDecoder: a kernel finds the classes of each path and fills them up with -1.  Those that are none of these are the values of
 *   the sparse tensors.
 * - EditDistance: a kernel compares the elements of both sparse tensors that have the same number of a row. */
#include "passes/computed_rows.h"

static bool is_decoder(const struct ht_graph *g, const struct ht_node *n)
{
	return n->op == HT_OP_CTCBeamSearchDecoder && ht_has_bounds(g, n) &&
	       ht_in_shape(n, 0).rank == 3 && ht_type_of(n->in[0])->dtype == HT_F32;
}

static bool has_whole_elements(const struct ht_node *n)
{
	const enum ht_kind kind = ht_dtype_info(ht_type_of(n->in[1])->dtype)->kind;

	return kind == HT_KIND_INT || kind == HT_KIND_UINT || kind == HT_KIND_BOOL;
}

static bool is_comparison(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape a, b;

	if (n->op != HT_OP_EditDistance || !ht_has_bounds(g, n) || !has_whole_elements(n))
		return false;
	a = ht_in_shape(n, 0);
	b = ht_in_shape(n, 3);
	return a.rank == 2 && b.rank == 2 && a.dim[1] == b.dim[1] && a.dim[1] > 1 &&
	       a.dim[1] <= HT_OPEN_RANK;
}

bool ht_is_sequences(const struct ht_graph *g, const struct ht_node *n)
{
	return is_decoder(g, n) || is_comparison(g, n);
}

/* ---- CTCBeamSearchDecoder ---- */

/* The lengths of sequences.  The run stops where one is longer than there are steps. */
static struct ht_value lengths_within(struct maker *f)
{
	struct ht_value lengths = f->at->in[1], most = wide(f, total_of(f, HT_OP_Max, lengths));

	return sum(f, lengths,
		cast_to(f, unless_below(f, whole(f, HT_I64, 0), extent(f, f->at, 0, 0), most),
			HT_I32));
}

static struct ht_value paths_of(struct maker *f)
{
	struct ht_node *n = f->at;
	const struct ht_value in[] = { n->in[0], lengths_within(f) };
	struct ht_value all = node(f, HT_OP__CTCBeams, in, 2, HT_I64, open_shape(f, 3));

	ht_node_set_outs(all.node, 2);
	all.node->out[1] = (struct ht_type){ HT_F32, open_shape(f, 2) };
	ht_rw_copy_attr(all.node, n, "beam_width");
	ht_rw_copy_attr(all.node, n, "top_paths");
	ht_rw_copy_attr(all.node, n, "merge_repeated");
	return all;
}

/* The places, values and extents of the sparse tensor of a path, whose classes are in a row for each sequence. */
static void write_path(struct maker *f, struct ht_value classes, struct ht_value *to, int32_t apart)
{
	const int64_t axis = 1;
	struct ht_value kept = binary(f, HT_OP_GreaterEqual, classes, whole(f, HT_I64, 0)), lengths,
			extents[2];

	kept = of_rank(f, kept, 2);
	to[0] = where(f, kept);
	to[apart] = taken_at(f, classes, to[0], 1);
	lengths = of_rank(f,
		ht_rw_reduce(f->r, f->at, HT_OP_Sum, f->at->name, cast_to(f, kept, HT_I64), &axis,
			1, false),
		1);
	extents[0] = extent(f, f->at, 0, 1);
	extents[1] = binary(f, HT_OP_Maximum, total_of(f, HT_OP_Max, lengths), whole(f, HT_I64, 0));
	to[2 * apart] = packed(f, extents, 2);
}

static void expand_decoder(struct maker *f, struct ht_node *n)
{
	const int32_t best = (n->outs - 1) / 3;
	struct ht_value all = paths_of(f),
			*to = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->outs);

	for (int32_t i = 0; i < best; i++)
		write_path(
			f, of_rank(f, gathered(f, all, whole(f, HT_I32, i), 0), 2), to + i, best);
	to[3 * best] = ht_out(all.node, 1);
	replace_results(f, n, to);
}

/* ---- EditDistance ---- */

static void expand_comparison(struct maker *f, struct ht_node *n)
{
	const int32_t rank = (int32_t)ht_in_shape(n, 0).dim[1] - 1;
	struct ht_value size[HT_MAX_RANK], in[7], y;

	for (int32_t i = 0; i < rank; i++)
		size[i] = binary(f, HT_OP_Maximum, extent_entry(f, n->in[2], i),
			extent_entry(f, n->in[5], i));
	in[0] = repeated(f, ht_product_of(f, size, rank), real(f, HT_F32, 0));
	for (int32_t i = 0; i < 2; i++) {
		in[3 * i + 1] = ht_numbers_of(f, n->in[3 * i], size, rank);
		in[3 * i + 2] = cast_to(f, n->in[3 * i + 1], HT_I64);
		in[3 * i + 3] = length_of(f, n->in[3 * i + 1]);
	}
	y = node(f, HT_OP__EditDistance, in, 7, HT_F32, open_shape(f, 1));
	ht_rw_copy_attr(y.node, n, "normalize");
	if (rank > 1)
		y = node(f, HT_OP_Reshape, (struct ht_value[]){ y, packed(f, size, rank) }, 2,
			HT_F32, open_shape(f, rank));
	ht_rw_take_place(f->r, n, y);
}

bool ht_expand_sequences(struct maker *f, struct ht_node *n)
{
	if (is_decoder(f->r->g, n))
		expand_decoder(f, n);
	else if (is_comparison(f->r->g, n))
		expand_comparison(f, n);
	else
		return false;
	return true;
}
