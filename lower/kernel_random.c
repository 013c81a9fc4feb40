/* Random numbers: each op draws from a state of Philox, which comes from a stream of the
 * context, a seed, or a key and a counter. */
#include "base/philox.h"
#include "kernel/library.h"
#include "lower/index.h"
#include "lower/library.h"

enum source { FROM_STREAM, FROM_SEED, FROM_KEY };

struct draw {
	enum ht_op op;
	const char *kernel;
	enum source source;
	int32_t bounds; /* the operand minval, which is followed by maxval; 0: none */
};

static const struct draw draws[] = {
	{ HT_OP_RandomUniform, "random_uniform", FROM_STREAM, 0 },
	{ HT_OP_RandomUniformInt, "random_uniform_int", FROM_STREAM, 1 },
	{ HT_OP_RandomStandardNormal, "random_normal", FROM_STREAM, 0 },
	{ HT_OP_TruncatedNormal, "random_truncated_normal", FROM_STREAM, 0 },
	{ HT_OP_StatelessRandomUniform, "random_uniform", FROM_SEED, 0 },
	{ HT_OP_StatelessRandomNormal, "random_normal", FROM_SEED, 0 },
	{ HT_OP_StatelessTruncatedNormal, "random_truncated_normal", FROM_SEED, 0 },
	{ HT_OP_StatelessRandomUniformInt, "random_uniform_int", FROM_SEED, 2 },
	{ HT_OP_StatelessRandomUniformFullInt, "random_bits", FROM_SEED, 0 },
	{ HT_OP_StatelessRandomUniformV2, "random_uniform", FROM_KEY, 0 },
	{ HT_OP_StatelessRandomNormalV2, "random_normal", FROM_KEY, 0 },
	{ HT_OP_StatelessTruncatedNormalV2, "random_truncated_normal", FROM_KEY, 0 },
	{ HT_OP_StatelessRandomUniformIntV2, "random_uniform_int", FROM_KEY, 4 },
	{ HT_OP_StatelessRandomUniformFullIntV2, "random_bits", FROM_KEY, 0 },
};

static const struct draw *draw_of(const struct ht_node *n)
{
	for (size_t i = 0; i < HT_COUNT(draws); i++)
		if (draws[i].op == n->op)
			return &draws[i];
	return NULL;
}

struct ht_str lower_own_name(struct lower *l, const struct ht_node *n)
{
	return l->g->function ? ht_str_printf(l->scratch, "%.*s/%.*s",
					HT_STR_ARG(l->g->function->name), HT_STR_ARG(n->name))
			      : n->name;
}

static uint64_t name_of(struct lower *l, const struct ht_node *n)
{
	struct ht_str name = lower_own_name(l, n);

	return ht_hash_bytes(name.p, name.n).lo;
}

/* If tf_random_seed is set, an op without seeds gets the seeds that the graph would have had
 * with it. */
int32_t random_stream(struct lower *l, const struct ht_node *n)
{
	struct ht_plan_stream s = { .seed = (uint64_t)ht_attr_int(n, "seed", 0),
		.seed2 = (uint64_t)ht_attr_int(n, "seed2", 0),
		.name = name_of(l, n) };

	if (!s.seed && !s.seed2) {
		ht_note_read(l->asked->reads, HT_READ_tf_random_seed);
		if (l->asked->random_seed >= 0) {
			struct ht_philox p =
				ht_philox_named((uint64_t)l->asked->random_seed, s.name);

			s.seed = p.key[0] | (uint64_t)p.key[1] << 32;
			s.seed2 = p.counter[2] | (uint64_t)p.counter[3] << 32;
		}
	}
	return plan_stream(l, s);
}

static int32_t state_buffer(struct lower *l)
{
	return plan_buffer(l, HT_PLAN_TEMP, HT_U32, HT_PHILOX_WORDS);
}

static int32_t state_of_seed(struct lower *l, struct ht_node *n)
{
	int32_t seed = dense_operand(l, n, 1), state = state_buffer(l);
	struct kernel_build k;

	library_kernel(&k, l, "random_seed", 1, 1);
	k.params[0] = ht_type_of(n->in[1])->dtype;
	kb_arg(&k, seed, HT_BUFFER_IN);
	kb_arg(&k, state, HT_BUFFER_OUT);
	kb_finish(&k, n);
	return state;
}

/* A kernel's arguments are identified by their buffers: if two operands have the same buffer,
 * the second is copied. */
static int32_t other_operand(struct lower *l, struct ht_node *n, int arg, int32_t taken)
{
	int32_t b = dense_operand(l, n, arg);

	return b == taken ? dense_copy(l, n, arg) : b;
}

static int32_t state_of_key(struct lower *l, struct ht_node *n)
{
	int32_t key = dense_operand(l, n, 1), counter = other_operand(l, n, 2, key),
		algorithm = dense_operand(l, n, 3), state = state_buffer(l);
	struct kernel_build k;

	library_kernel(&k, l, "random_state", 1, 0);
	kb_arg(&k, key, HT_BUFFER_IN);
	kb_arg(&k, counter, HT_BUFFER_IN);
	kb_arg(&k, algorithm, HT_BUFFER_IN);
	kb_arg(&k, state, HT_BUFFER_OUT);
	kb_finish(&k, n);
	return state;
}

/* Operands of a kernel.  They are in place before the kernel is begun, since copying them takes
 * other kernels. */
struct operands {
	int32_t state, bounds[2];
};

static struct operands operands_of(struct lower *l, struct ht_node *n, const struct draw *d)
{
	struct operands o = { .state = d->source == FROM_STREAM ? random_stream(l, n)
				       : d->source == FROM_SEED ? state_of_seed(l, n)
								: state_of_key(l, n) };

	if (d->bounds) {
		o.bounds[0] = dense_operand(l, n, d->bounds);
		o.bounds[1] = other_operand(l, n, d->bounds + 1, o.bounds[0]);
	}
	return o;
}

void random_move(struct lower *l, const struct ht_node *n, int32_t stream, int64_t blocks)
{
	struct kernel_build k;

	library_kernel(&k, l, "random_skip", 1, 1);
	k.params[0] = blocks;
	kb_arg(&k, stream, HT_BUFFER_OUT);
	kb_finish(&k, n);
}

/* TensorFlow checks the bounds of an empty RandomUniformInt, but not those of an empty stateless
 * one. */
static enum ht_status emit_random(struct lower *l, struct ht_node *n)
{
	const struct draw *d = draw_of(n);
	int64_t count = ht_shape_count(n->out[0].shape);
	bool looks = d->bounds && d->source == FROM_STREAM;
	struct operands o;
	struct kernel_build k;

	if (count == 0 && !looks)
		return HT_OK;
	o = operands_of(l, n, d);
	library_kernel(&k, l, d->kernel, count ? ht_random_tiles(n->out[0].dtype, count) : 1, 2);
	k.params[0] = count;
	k.params[1] = n->out[0].dtype;
	kb_arg(&k, o.state, HT_BUFFER_IN);
	for (int i = 0; i < 2 && d->bounds; i++)
		kb_arg(&k, o.bounds[i], HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	if (d->source == FROM_STREAM)
		random_move(l, n, o.state, count * HT_RESERVED_BLOCKS);
	return HT_OK;
}

/* The numbers of open extents are drawn as a vector (passes/computed_random.c), of one parameter each or of one for all. */
static enum ht_status emit_gamma(struct lower *l, struct ht_node *n)
{
	const int32_t of = n->ins - 1;
	int64_t count = ht_shape_count(n->out[0].shape);
	int32_t alpha, state;
	struct kernel_build k;

	if (count == 0)
		return HT_OK;
	alpha = dense_operand(l, n, of);
	state = of == 2 ? state_of_seed(l, n) : state_of_key(l, n);
	library_kernel(&k, l, "random_gamma", ht_gamma_tiles(count), 3);
	k.params[0] = count;
	k.params[1] = n->out[0].dtype;
	k.params[2] = ht_shape_count(shape_of(n, of));
	kb_arg(&k, state, HT_BUFFER_IN);
	kb_arg(&k, alpha, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_random_gamma = {
	.family = FAMILY_ROOT, .alone = true, .dense = true, .emit = emit_gamma
};

/* TensorFlow has no kernel for unsigned bounds and seeds either. */
static const char *refuse_random(const struct ht_node *n)
{
	const struct draw *d = draw_of(n);
	int32_t at = d->bounds ? d->bounds : d->source == FROM_SEED ? 1 : 0;
	enum ht_dtype t = ht_type_of(n->in[at])->dtype;

	return t == HT_U32 || t == HT_U64 ? "has no kernel for seeds or bounds without a sign"
					  : NULL;
}

const struct lower_op lower_random = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_random,
	.refuse = refuse_random };

/* ---- keys and counters of stateless ops ---- */

static enum ht_status emit_key(struct lower *l, struct ht_node *n)
{
	int32_t seed = dense_operand(l, n, 0);
	struct kernel_build k;

	library_kernel(&k, l, "random_key", 1, 2);
	k.params[0] = ht_type_of(n->in[0])->dtype;
	k.params[1] = n->outs;
	kb_arg(&k, seed, HT_BUFFER_IN);
	for (int32_t i = 0; i < n->outs; i++)
		kb_arg(&k, dense_result(l, n, i), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_random_key = {
	.family = FAMILY_ROOT, .alone = true, .dense = true, .emit = emit_key
};

static int32_t pull_algorithm(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)n;
	(void)out;
	(void)s;
	return ht_xbits(&k->xb, HT_I32, HT_PHILOX_ALGORITHM);
}

const struct lower_op lower_random_algorithm = { .family = FAMILY_MAP, .pull = pull_algorithm };
