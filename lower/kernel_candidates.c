/* Candidate samplers: classes drawn for a loss that is estimated from a few of them.
 *
 * Weights that a node states, and what TensorFlow computes of them (core/kernels/range_sampler.cc, core/lib/random/distribution_sampler.cc),
 * are constants.  Counts of the classes of earlier runs are a variable of the session, which begins with one for each class. */
#include "image/image.h"
#include "kernel/library.h"
#include "lower/index.h"
#include "lower/library.h"

#include <math.h>

/* Blocks of random numbers that TensorFlow reserves for each candidate, however many it uses. */
enum { RESERVED = 512 };
/* Classes of which weights or counts are kept. */
enum { MOST_KEPT = 1 << 24 };

static enum ht_candidates kind_of(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_LogUniformCandidateSampler:
		return HT_CANDIDATES_LOG_UNIFORM;
	case HT_OP_AllCandidateSampler:
		return HT_CANDIDATES_ALL;
	case HT_OP_FixedUnigramCandidateSampler:
		return HT_CANDIDATES_WEIGHED;
	case HT_OP_LearnedUnigramCandidateSampler:
	case HT_OP_ThreadUnsafeUnigramCandidateSampler:
		return HT_CANDIDATES_COUNTED;
	default:
		return HT_CANDIDATES_UNIFORM;
	}
}

static int64_t classes_of(const struct ht_node *n)
{
	return ht_attr_int(n, n->op == HT_OP_AllCandidateSampler ? "num_sampled" : "range_max", 1);
}

/* A plan's constant of `count` numbers of 4 bytes, which the caller fills. */
static struct ht_tensor *numbers(struct lower *l, enum ht_dtype t, int64_t count)
{
	struct ht_blob *b = ht_blob_in(l->arena, (size_t)count * 4);

	return ht_tensor_new(l->arena, t, ht_shape_make(l->arena, 1, &count), ht_blob_ref(b));
}

static void *numbers_in(const struct ht_tensor *t)
{
	return (void *)(uintptr_t)t->blob->p;
}

/* ---- stated weights ---- */

/* The weights of one shard: those of the reserved classes, 0, then the stated ones raised to the power of attribute distortion. */
struct stated {
	const struct ht_attr_value *weight;
	int64_t weights, reserved, shards, shard;
};

static struct stated stated_by(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "unigrams");
	bool any = a && a->value.kind == HT_ATTR_LIST;

	return (struct stated){ .weight = any ? a->value.list.item : NULL,
		.weights = any ? (int64_t)a->value.list.n : 0,
		.reserved = ht_attr_int(n, "num_reserved_ids", 0),
		.shards = ht_attr_int(n, "num_shards", 1),
		.shard = ht_attr_int(n, "shard", 0) };
}

/* How many of the first `n` numbers are those of the shard. */
static int64_t in_shard(const struct stated *s, int64_t n)
{
	return n > s->shard ? (n - 1 - s->shard) / s->shards + 1 : 0;
}

/* The numbers of the stated weights begin behind the reserved classes of this shard.  Returns their sum. */
static float fill_weights(const struct ht_node *n, const struct stated *s, float *weight)
{
	float distortion = ht_attr_float(n, "distortion", 1), sum = 0;
	int64_t first = in_shard(s, s->reserved), count = first;

	for (int64_t i = 0; i < first; i++)
		weight[i] = 0;
	for (int64_t i = 0; i < s->weights; i++)
		if ((first + i) % s->shards == s->shard) {
			weight[count] = powf(s->weight[i].f, distortion);
			sum += weight[count++];
		}
	return sum;
}

/* The weights of FixedUnigramSampler count from the number of reserved classes in the shard on. */
static int64_t stated_classes(const struct stated *s)
{
	int64_t first = in_shard(s, s->reserved);

	return first + in_shard(s, first + s->weights) - in_shard(s, first);
}

/* Vose's alias method with TensorFlow's order of pairs: fills share and alternative of each class. */
static void fill_shares(
	struct lower *l, const float *weight, int64_t count, float *share, int32_t *other)
{
	double *p = HT_NEW_ARRAY(l->scratch, double, (size_t)count), sum = 0;
	int32_t *low = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)count),
		*high = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)count);
	int64_t lows = 0, highs = 0;

	for (int64_t i = 0; i < count; i++)
		sum += (double)weight[i];
	for (int64_t i = 0; i < count; i++) {
		p[i] = (double)(weight[i] * (float)count) / sum;
		if (p[i] < 1)
			low[lows++] = (int32_t)i;
		else
			high[highs++] = (int32_t)i;
	}
	while (highs && lows) {
		int32_t a = low[--lows], b = high[--highs];

		other[a] = b;
		p[b] -= 1 - p[a];
		if (p[b] < 1)
			low[lows++] = b;
		else
			high[highs++] = b;
	}
	for (int64_t i = 0; i < count; i++)
		share[i] = (float)p[i];
	while (lows || highs) {
		int32_t i = lows ? low[--lows] : high[--highs];

		share[i] = 1;
		other[i] = i;
	}
}

static void add_weights(struct lower *l, const struct ht_node *n, int32_t buffer[2])
{
	const struct stated s = stated_by(n);
	int64_t count = classes_of(n);
	struct ht_tensor *weights = numbers(l, HT_F32, 2 * count + 1),
			 *others = numbers(l, HT_I32, count);
	float *weight = numbers_in(weights);

	weight[2 * count] = fill_weights(n, &s, weight);
	fill_shares(l, weight, count, weight + count, numbers_in(others));
	buffer[0] = plan_const(l, weights);
	buffer[1] = plan_const(l, others);
}

static const char *refuse_weights(const struct ht_node *n, int64_t classes)
{
	const struct stated s = stated_by(n);

	if (ht_attr_str(n, "vocab_file", "").n)
		return "reads the weights of its classes from a file, and not from its attribute 'unigrams'";
	if (s.shards < 1 || s.shard < 0 || s.shard >= s.shards || s.reserved < 0 ||
		s.reserved > MOST_KEPT)
		return "has numbers of shards or of reserved classes that do not fit";
	return stated_classes(&s) == classes ? NULL
					     : "does not state one weight for each of its classes";
}

/* ---- counts ---- */

/* A tree in which each class counts 1. */
static struct ht_tensor *first_counts(struct lower *l, int64_t classes)
{
	int64_t leaves = ht_candidates_leaves(classes);
	struct ht_tensor *t = numbers(l, HT_I32, 2 * leaves);
	int32_t *tree = numbers_in(t);

	tree[0] = 0;
	for (int64_t i = 0; i < leaves; i++)
		tree[leaves + i] = i < classes;
	for (int64_t i = leaves - 1; i > 0; i--)
		tree[i] = tree[2 * i] + tree[2 * i + 1];
	return t;
}

static int32_t counts(struct lower *l, const struct ht_node *n)
{
	struct ht_str name =
		ht_str_printf(l->arena, "%.*s/counts", HT_STR_ARG(lower_own_name(l, n)));

	return plan_own_variable(l, name, first_counts(l, classes_of(n)));
}

/* ---- the kernel ---- */

/* The buffers by which classes are drawn; returns how many. */
static int32_t add_state(struct lower *l, const struct ht_node *n, int32_t buffer[2])
{
	switch (kind_of(n)) {
	case HT_CANDIDATES_WEIGHED:
		add_weights(l, n, buffer);
		return 2;
	case HT_CANDIDATES_COUNTED:
		buffer[0] = counts(l, n);
		buffer[1] = rows_operand(l, n, 0);
		return 2;
	default:
		return 0;
	}
}

static enum ht_status emit_candidates(struct lower *l, struct ht_node *n)
{
	int64_t count = ht_shape_count(n->out[0].shape);
	int32_t truth = dense_operand(l, n, 0), stream = random_stream(l, n), state[2],
		states = add_state(l, n, state);
	struct kernel_build k;

	library_kernel(&k, l, "candidates", 1, 6);
	k.params[0] = kind_of(n);
	k.params[1] = ht_attr_bool(n, "unique", false);
	k.params[2] = classes_of(n);
	k.params[3] = ht_shape_count(shape_of(n, 0));
	k.params[4] = count;
	k.params[5] = shape_of(n, 0).dim[1];
	kb_arg(&k, stream, HT_BUFFER_IN);
	kb_arg(&k, truth, HT_BUFFER_IN);
	for (int32_t i = 0; i < n->outs; i++)
		kb_arg(&k, dense_result(l, n, i), HT_BUFFER_OUT);
	for (int32_t i = 0; i < states; i++)
		kb_arg(&k, state[i],
			kind_of(n) == HT_CANDIDATES_COUNTED && i == 0 ? HT_BUFFER_OUT
								      : HT_BUFFER_IN);
	kb_finish(&k, n);
	random_move(l, n, stream, count * RESERVED);
	return HT_OK;
}

static const char *refuse_candidates(const struct ht_node *n)
{
	int64_t range = classes_of(n), count = ht_shape_count(n->out[0].shape);
	enum ht_candidates kind = kind_of(n);

	if (range < 1)
		return "draws from no classes";
	if (count >= INT32_MAX / 2)
		return "draws too many classes";
	if (kind >= HT_CANDIDATES_WEIGHED && range > MOST_KEPT)
		return "draws from too many classes";
	if (ht_attr_bool(n, "unique", false) && count > range)
		return "draws more classes than there are, each once";
	return kind == HT_CANDIDATES_WEIGHED ? refuse_weights(n, range) : NULL;
}

const struct lower_op lower_candidates = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_candidates,
	.refuse = refuse_candidates };
