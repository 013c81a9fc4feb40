/* Rules of open axes of ops that take or return indices: gathers, scatters, and ops that compute
 * their size. */
#include "passes/bounded_axes.h"

/* Sets an attribute for the kernel: how many indices the run has of axes `first` to before `end`
 * of a tensor, as a pair for each axis. */
static enum ht_status limit_axes(struct ht_bounded *b, struct ht_node *n, struct ht_shape s,
	const struct ht_open *axis, int32_t first, int32_t end)
{
	int64_t open[2 * HT_OPEN_RANK] = { 0 };
	struct ht_size_set sizes = { 0 };
	bool some = false;

	for (int32_t i = first; i < end; i++) {
		struct ht_open a = axis[i];

		if (!ht_open_some(a))
			continue;
		if (!is_plain(b, s, i, a))
			return ht_open_refuse(
				b, n, "this takes it together with others, which a reshape joined");
		open[2 * i] = a.part[0].size;
		open[2 * i + 1] = a.part[0].inner;
		ht_size_set_add(&sizes, a.part[0].size);
		some = true;
	}
	if (some)
		ht_attr_set_ints(n, "_open", open, 2 * (size_t)end);
	ht_open_wait(b, n, &sizes);
	return HT_OK;
}

static enum ht_status limit(struct ht_bounded *b, struct ht_node *n, int32_t first, int32_t end)
{
	struct axes a = axes_of(b, n, 0);

	return limit_axes(b, n, ht_in_shape(n, 0), a.axis, first, end);
}

/* Which indices are outside of the run's sizes, as triples: an axis, its open size and `inner` (struct ht_open_axis). */
struct outside {
	/* Triples of all axes of the indices, and of all axes of the tensor that they index. */
	int64_t within[2 * 3 * HT_OPEN_PARTS * HT_OPEN_RANK];
	struct ht_size_set sizes;
	size_t count;
};

static void add_outside(struct outside *o, int64_t axis, int32_t size, int64_t inner)
{
	o->within[o->count++] = axis;
	o->within[o->count++] = size;
	o->within[o->count++] = inner;
	ht_size_set_add(&o->sizes, size);
}

/* Elements of operand `arg` along its first `axes` axes. */
static struct outside outside_of(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axes)
{
	struct outside o = { .count = 0 };

	for (int32_t i = 0; i < axes; i++) {
		struct ht_open a = axis_of(b, n, arg, i);

		for (int p = 0; p < ht_open_parts(a); p++)
			add_outside(&o, i, a.part[p].size, a.part[p].inner);
	}
	return o;
}

/* Sets an attribute for the kernel of `n`: it follows no index there, and checks the other indices against the run's sizes. */
static void tell(struct ht_bounded *b, struct ht_node *n, const struct outside *o)
{
	if (o->count)
		ht_attr_set_ints(n, "_within", o->within, o->count);
	ht_open_wait(b, n, &o->sizes);
}

static void tell_outside(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axes)
{
	const struct outside o = outside_of(b, n, arg, axes);

	tell(b, n, &o);
}

/* All indices are outside, too, if an axis of operand 0 along which nothing is gathered has no elements: then the result has none, and
 * TensorFlow looks at no index. */
static void tell_outside_of_gather(struct ht_bounded *b, struct ht_node *n, int32_t along)
{
	struct outside o = outside_of(b, n, 1, ht_in_shape(n, 1).rank);

	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++) {
		struct ht_open a = axis_of(b, n, 0, i);

		for (int p = 0; i != along && p < ht_open_parts(a); p++)
			if (!ht_size_at(b->r.g, a.part[p].size)->least)
				add_outside(&o, -1, a.part[p].size, 1);
	}
	tell(b, n, &o);
}

enum ht_status ht_open_by_index(
	struct ht_bounded *b, struct ht_node *n, int32_t axes, int32_t indices)
{
	HT_TRY(limit(b, n, 0, axes));
	tell_outside(b, n, indices, ht_in_shape(n, indices).rank);
	return HT_OK;
}

/* Attribute batch_dims: how many first axes the tensor and the indices have in common; -1: not known. */
static int32_t batch_of(const struct ht_node *n)
{
	int64_t batch = ht_attr_int(n, "batch_dims", 0);

	batch += batch < 0 ? ht_in_shape(n, 1).rank : 0;
	return batch < 0 || batch > ht_in_shape(n, 1).rank ? -1 : (int32_t)batch;
}

enum ht_status ht_open_gathered(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, own = ht_in_shape(n, 1).rank, batch = batch_of(n);
	int32_t axis = n->ins > 2 ? named_axis(b, n->in[2], 0, rank) : 0;
	struct ht_open along;
	bool joined;

	if (axis < 0 || batch < 0 || batch > axis)
		return ht_open_refuse(b, n, "this gathers along it");
	along = axis_of(b, n, 0, axis);
	joined = ht_open_is_joined(b, ht_in_shape(n, 0), axis, along);
	if (!joined)
		HT_TRY(limit(b, n, axis, axis + 1));
	HT_TRY(put_axes(b, n, 0, 0, axis, out, 0));
	HT_TRY(put_axes(b, n, 1, 0, batch, out, 0));
	HT_TRY(put_axes(b, n, 1, batch, own, out, axis));
	tell_outside_of_gather(b, n, axis);
	HT_TRY(put_axes(b, n, 0, axis + 1, rank, out, axis + own - batch));
	if (joined)
		ht_open_take_from_run(b, n, 1, along);
	return HT_OK;
}

/* The last axis of the indices has one index for each of the first axes of operand 0. */
enum ht_status ht_open_gathered_nd(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, last = ht_in_shape(n, 1).rank - 1;
	int64_t depth = last < 0 ? -1 : ht_in_shape(n, 1).dim[last];

	if (depth < 0 || depth > rank)
		return ht_open_refuse(b, n, "this gathers by so many indices");
	HT_TRY(limit(b, n, 0, (int32_t)depth));
	HT_TRY(put_axes(b, n, 1, 0, last, out, 0));
	tell_outside(b, n, 1, last);
	return put_axes(b, n, 0, (int32_t)depth, rank, out, last);
}

/* Operands `indices` and `slices`. The first `outer` axes of `slices` count the slices; behind
 * them are the axes of the target from `depth` on.  The target has the axes `to`. */
struct scattering {
	int32_t indices, slices, outer, depth;
};

static enum ht_status scatter(struct ht_bounded *b, struct ht_node *n, struct scattering s,
	const struct ht_open to[HT_OPEN_RANK])
{
	for (int32_t i = 0; i < ht_in_shape(n, s.slices).rank; i++) {
		struct ht_open a =
			i < s.outer ? axis_of(b, n, s.indices, i) : to[s.depth + i - s.outer];

		if (!is_same(a, axis_of(b, n, s.slices, i)))
			return ht_open_refuse(b, n,
				"the slices that this scatters are not as many, or not as large");
	}
	tell_outside(b, n, s.indices, s.outer);
	return HT_OK;
}

static int32_t depth_of(const struct ht_node *n, int32_t indices)
{
	struct ht_shape s = ht_in_shape(n, indices);

	return s.rank && s.dim[s.rank - 1] >= 0 && s.dim[s.rank - 1] < HT_OPEN_RANK
		       ? (int32_t)s.dim[s.rank - 1]
		       : 0;
}

/* Indices of the first axes of the result must be below the run's sizes, one size for each axis. */
static enum ht_status limit_result(
	struct ht_bounded *b, struct ht_node *n, int32_t end, const struct ht_open *out)
{
	return limit_axes(b, n, n->out[0].shape, out, 0, end);
}

enum ht_status ht_open_scattered(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t depth = depth_of(n, 0);
	struct scattering s = { 0, 1, ht_in_shape(n, 0).rank - 1, depth };

	HT_TRY(ht_open_made(b, n, out));
	HT_TRY(limit_result(b, n, depth, out));
	return scatter(b, n, s, out);
}

enum ht_status ht_open_scattered_into(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t depth = depth_of(n, 1);
	struct scattering s = { 1, 2, ht_in_shape(n, 1).rank - 1, depth };

	HT_TRY(put_axes(b, n, 0, 0, ht_in_shape(n, 0).rank, out, 0));
	HT_TRY(limit_result(b, n, depth, out));
	return scatter(b, n, s, out);
}

/* Rows of operand 0, by the segment ids in operand 1. */
enum ht_status ht_open_segmented(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t outer = ht_in_shape(n, 1).rank;
	struct scattering s = { 1, 0, outer, 1 };

	HT_TRY(ht_open_make(b, n, 0, out));
	HT_TRY(put_axes(b, n, 0, outer, ht_in_shape(n, 0).rank, out, 1));
	HT_TRY(limit_result(b, n, 1, out));
	return scatter(b, n, s, out);
}

int32_t ht_open_updates_of(const struct ht_node *n)
{
	int32_t updates = ht_named_argument(n->op, "updates");

	return updates < 0 ? ht_named_argument(n->op, "grad") : updates;
}

bool ht_open_updates_rows(const struct ht_node *n)
{
	return n->outs == 0 && ht_named_argument(n->op, "indices") >= 0 &&
	       ht_open_updates_of(n) >= 0;
}

enum ht_status ht_open_updated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const struct ht_open fixed[HT_OPEN_RANK] = { 0 };
	int32_t indices = ht_named_argument(n->op, "indices"), updates = ht_open_updates_of(n);

	(void)out;
	for (int32_t i = 0; i < n->ins; i++)
		if (i != indices && i != updates && ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return scatter(b, n,
		(struct scattering){ indices, updates, ht_in_shape(n, indices).rank, 0 }, fixed);
}

/* Positions of elements, of which those outside are not counted; or all keys of a table, and their values. */
enum ht_status ht_open_located(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct axes in = axes_of(b, n, 0);
	bool joined = false;

	for (int32_t i = 0; i < s.rank; i++) {
		joined = joined || ht_open_is_joined(b, s, i, in.axis[i]);
		ht_open_mask_all(b, n, 0, i, in.axis[i], HT_NUMBER_ZERO);
	}
	for (int32_t i = 0; i < n->outs; i++)
		out[i * HT_OPEN_RANK] = (struct ht_open){ { { ht_computed_size(b->r.g, n), 1 } } };
	if (joined)
		ht_open_locate_in_run(b, n, in.axis);
	return HT_OK;
}

static bool is_open_elsewhere(
	const struct ht_bounded *b, const struct ht_node *n, int32_t arg, int32_t axis)
{
	for (int32_t i = 0; i < ht_in_shape(n, arg).rank; i++)
		if (i != axis && ht_open_some(axis_of(b, n, arg, i)))
			return true;
	return false;
}

enum ht_status ht_open_along(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", -1);

	if (axis < 0)
		return ht_open_best(b, n, out);
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		if (i != axis)
			HT_TRY(put(b, n, out, i, axis_of(b, n, 0, i)));
	return HT_OK;
}

/* Boxes of several classes of each image: those that a run does not have get the least score, which selects none. */
static enum ht_status suppressed_in_batches(
	struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct axes boxes = axes_of(b, n, 0), scores = axes_of(b, n, 1);

	for (int32_t i = 0; i < 2; i++)
		if (!is_same(boxes.axis[i], scores.axis[i]))
			return ht_open_refuse(b, n, "there are not as many boxes as scores");
	if (ht_open_some(boxes.axis[2]) || ht_open_some(boxes.axis[3]) ||
		ht_open_some(scores.axis[2]))
		return ht_open_refuse(b, n, "the number of classes may not be it");
	for (int32_t i = 0; i < n->outs; i++)
		HT_TRY(put(b, n, out + (ptrdiff_t)i * HT_OPEN_RANK, 0, boxes.axis[0]));
	ht_open_mask_all(b, n, 1, 1, scores.axis[1], HT_NUMBER_LOWEST);
	return HT_OK;
}

/* The classes of sequences step by step, behind an axis of paths.  The kernel reads as many sequences as the run has, and of each as many
 * steps as its length. */
static enum ht_status decoded(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (!is_same(axis_of(b, n, 0, 1), axis_of(b, n, 1, 0)))
		return ht_open_refuse(b, n, "there are not as many lengths as sequences");
	if (ht_open_some(axis_of(b, n, 0, 2)))
		return ht_open_refuse(b, n, "the number of classes may not be it");
	HT_TRY(limit(b, n, 0, 2));
	HT_TRY(put(b, n, out, 1, axis_of(b, n, 0, 1)));
	HT_TRY(put(b, n, out, 2, axis_of(b, n, 0, 0)));
	return put(b, n, out + HT_OPEN_RANK, 0, axis_of(b, n, 0, 1));
}

/* Boxes and their scores: the kernel reads as many as the run has. */
enum ht_status ht_open_suppressed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t size = ht_computed_size(b->r.g, n);

	for (int32_t i = 2; i < n->ins && ht_in_shape(n, 0).rank > 1; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	if (ht_in_shape(n, 0).rank == 4)
		return suppressed_in_batches(b, n, out);
	if (ht_in_shape(n, 0).rank == 3)
		return decoded(b, n, out);
	if (ht_in_shape(n, 0).rank ==
		1) { /* the kernel reads as many elements of the other operands as some of them say */
		HT_TRY(limit(b, n, 0, 1));
		return put(b, n, out, 0, axis_of(b, n, 0, 0));
	}
	if (!is_same(axis_of(b, n, 0, 0), axis_of(b, n, 1, 0)) || is_open_elsewhere(b, n, 0, 0))
		return ht_open_refuse(b, n, "there are not as many boxes as scores");
	HT_TRY(limit(b, n, 0, 1));
	for (int32_t i = 0; size && i < n->outs && n->out[i].shape.rank; i++)
		out[i * HT_OPEN_RANK] = (struct ht_open){ { { size, 1 } } };
	return HT_OK;
}

/* Distinct slices, the number of the distinct slice for each slice, and how often each occurs. */
enum ht_status ht_open_distinct(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool given = n->ins > 1 && ht_shape_count(ht_in_shape(n, 1)) > 0;
	int32_t axis = given ? named_axis(b, n->in[1], 0, ht_in_shape(n, 0).rank) : 0;
	struct ht_open computed = { { { ht_computed_size(b->r.g, n), 1 } } };

	if (axis < 0)
		return ht_open_refuse(b, n, "the axis is not constant");
	if (is_open_elsewhere(b, n, 0, axis))
		return ht_open_refuse(b, n, "this compares slices of its size");
	HT_TRY(limit(b, n, axis, axis + 1));
	out[axis] = computed;
	out[HT_OPEN_RANK] = axis_of(b, n, 0, axis);
	if (n->outs > 2)
		out[2 * HT_OPEN_RANK] = computed;
	return HT_OK;
}

/* The sampled candidates do not depend on the true classes; each true class has an expected
 * count. */
/* The kernel refuses true classes that are none; outside of the run's sizes they are class 0. */
enum ht_status ht_open_drawn(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct axes a = axes_of(b, n, 0);

	HT_TRY(put_axes(b, n, 0, 0, ht_in_shape(n, 0).rank, out + HT_OPEN_RANK, 0));
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		ht_open_mask_all(b, n, 0, i, a.axis[i], HT_NUMBER_ZERO);
	return HT_OK;
}

/* The kernel counts the true classes of the run's rows. */
enum ht_status ht_open_drawn_by_counts(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	HT_TRY(limit(b, n, 0, ht_in_shape(n, 0).rank));
	return ht_open_drawn(b, n, out);
}

enum ht_status ht_open_hot(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	const int64_t axis = ht_attr_int(n, "axis", -1);

	if (axis != -1 && axis != rank)
		return ht_open_refuse(b, n, "this puts an axis in front of it");
	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return put_axes(b, n, 0, 0, rank, out, 0);
}
