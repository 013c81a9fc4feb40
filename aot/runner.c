/* The runner of nets, of which each net contains a copy.  Everything is in one code section that
 * refers to nothing outside of it: no function, constant or variable (the test aot.runner looks for
 * relocations). */
#define IN_RUNNER __attribute__((section("ht_aot_runner"), used, noinline))
#define HT_IMAGE_CALLED static IN_RUNNER
#define HT_IMAGE_INLINED static inline __attribute__((always_inline))
#include "aot/teller.h"

/* Once a run or less: small rather than fast. */
#define COLD __attribute__((cold))
#define INLINE static inline __attribute__((always_inline))
#define EXECUTOR INLINE
#define EXECUTOR_CALLED static IN_RUNNER
#define EXECUTOR_OBSERVED false
#include "image/executor.h"

_Static_assert(offsetof(struct ht_exec_control, stop) == HT_AOT_RECORD &&
		       offsetof(struct ht_exec_stop, code) == offsetof(struct ht_aot_record, code),
	"a run that does not stop leaves no record");

INLINE const void *at(const struct ht_aot_plan *plan, int64_t offset)
{
	return (const char *)plan + offset;
}

INLINE bool has(uint64_t needs, uint64_t cpu)
{
	return HT_AOT_LEVEL(needs) <= cpu && ht_cpu_has((unsigned)HT_AOT_EXTENSIONS(needs));
}

/* The best level that the machine runs, or NULL.  Asking the CPU is slow in virtual machines, so that
 * the answer is kept; threads that ask at once all write the same. */
static IN_RUNNER COLD const struct ht_aot_level *level_of(const struct ht_aot_plan *plan)
{
	int32_t *state = (int32_t *)(uintptr_t)at(plan, plan->state);
	const struct ht_aot_level *level = (const struct ht_aot_level *)(plan + 1);
	int32_t known = __atomic_load_n(state, __ATOMIC_RELAXED);

	if (!known) {
		uint64_t cpu = (uint64_t)ht_cpu_level();

		known = -1;
		for (uint64_t i = 0; i < plan->levels && known < 0; i++)
			if (has(level[i].needs, cpu))
				known = (int32_t)i + 1;
		__atomic_store_n(state, known, __ATOMIC_RELAXED);
	}
	return known < 0 ? NULL : &level[known - 1];
}

INLINE bool same_weights(const struct ht_aot_plan *plan, const uint8_t *header)
{
	for (int i = 0; i < 32; i++)
		if (header[32 + i] != plan->digest[i])
			return false;
	return true;
}

/* Sets the members one by one: a compiler may clear or copy a whole structure by a call. */
INLINE void link(struct ht_exec *x, const struct ht_aot_plan *plan,
	const struct ht_aot_level *level, const void *weights)
{
	x->image = at(plan, level->image);
	x->entry = 0;
	x->links.code = (uintptr_t)at(plan, plan->code);
	x->links.data = (uintptr_t)weights;
	x->links.kernel = at(plan, level->kernel);
	x->links.constant = at(plan, level->constant);
	x->links.stream = NULL;
	x->links.variables = NULL;
	x->needs.control = level->memory.control;
	x->needs.temps = level->memory.temps;
	x->needs.forked = level->memory.forked;
	x->needs.scratch = level->memory.scratch;
	x->limits.depth = 0;
	x->limits.iterations = plan->iterations;
	x->cancel = NULL;
	x->observer = NULL;
	x->flush = !plan->keep_subnormals;
}

INLINE bool is_aligned(const void *memory)
{
	return memory && (uintptr_t)memory % 64 == 0;
}

/* The net's weights, or the caller's; NULL: the caller's are not those of this net. */
INLINE const void *weights_of(const struct ht_aot_plan *plan, const void *given)
{
	if (!plan->external)
		return at(plan, plan->weights);
	return is_aligned(given) && same_weights(plan, given) ? given : NULL;
}

/* Links the kept memory, whose address follows the outputs, if the net keeps anything.  The version
 * of an input is odd if the caller said that it is unchanged. */
INLINE bool link_kept(struct ht_exec *x, const struct ht_aot_level *level, void *const *out)
{
	char *kept;

	if (!level->kept)
		return true;
	kept = out[ht_image_entries(x->image)->outputs];
	if (!is_aligned(kept))
		return false;
	x->links.variables = kept;
	x->links.version = (const uint64_t *)(const void *)(kept + level->version);
	x->links.made = (uint64_t *)(void *)(kept + level->made);
	x->links.derived = kept + level->derived;
	for (uint64_t *v = (uint64_t *)(void *)(kept + level->version); v != x->links.made; v++)
		*v += *v & 1 ? UINT64_MAX : 2;
	return true;
}

/* Takes the open sizes, which follow the inputs, if the net has any; `all` has room for all sizes.  If the run computes
 * sizes, the caller's memory has room for them. */
INLINE bool link_sizes(struct ht_exec *x, const void *const *in, int64_t *all)
{
	const struct ht_image_size *s = ht_image_sizes(x->image);
	uint32_t n = ht_image_count(x->image, HT_IMAGE_SIZES);
	int64_t *given = n ? (int64_t *)(uintptr_t)in[ht_image_entries(x->image)->inputs] : NULL;

	if (n && !given)
		return false;
	if (x->image->features & HT_IMAGE_COMPUTED)
		all = given;
	for (uint32_t i = 0; i < n; i++, s++) {
		int64_t size = s->kind == HT_IMAGE_STATED ? given[i] : s->most;

		if (size < s->least || size > s->most)
			return false;
		all[i] = size;
	}
	ht_image_derive_all(x->image, all);
	x->size = all;
	return true;
}

/* Whether the port has elements in this run. */
INLINE bool has_elements(const struct ht_exec *x, const struct ht_image_port *port)
{
	const int64_t *dim = ht_image_dims(x->image) + port->dim;

	for (uint32_t i = 0; i < port->rank; i++)
		if (dim[i] < 0 && !ht_exec_evaluate(x, (uint32_t)(-1 - dim[i])))
			return false;
	return port->bytes > 0;
}

/* Whether there is memory for all inputs without a default, and for all outputs; those without elements need none. */
INLINE bool has_arrays(const struct ht_exec *x, const void *const *in, void *const *out)
{
	const struct ht_image_entry *e = ht_image_entries(x->image);
	const struct ht_image_port *port = ht_image_ports(x->image) + e->port;

	for (uint32_t i = 0; i < e->inputs + e->outputs; i++, port++)
		if (!(i < e->inputs ? in[i] : out[i - e->inputs]) &&
			port->value == HT_IMAGE_NO_VALUE && has_elements(x, port))
			return false;
	return true;
}

INLINE void copy(char *to, const char *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		to[i] = from[i];
		__asm__ volatile("" ::: "memory"); /* keeps the compiler from calling memcpy() */
	}
}

IN_RUNNER COLD int ht_aot_begin(
	void *variables, const void *weights, const struct ht_aot_plan *plan)
{
	const struct ht_aot_level *level = level_of(plan);
	const struct ht_image *image;
	const int64_t *constant;

	if (!level)
		return HT_AOT_E_CPU;
	if (!is_aligned(variables))
		return HT_AOT_E_VARIABLES;
	weights = weights_of(plan, weights);
	if (!weights)
		return HT_AOT_E_WEIGHTS;
	image = at(plan, level->image);
	constant = at(plan, level->constant);
	for (uint64_t i = level->version; i < level->derived; i++) {
		((char *)variables)[i] = 0;
		__asm__ volatile("" ::: "memory"); /* keeps the compiler from calling memset() */
	}
	for (uint32_t i = 0; i < ht_image_count(image, HT_IMAGE_VARIABLES); i++) {
		const struct ht_image_variable *v = &ht_image_variables(image)[i];

		if (v->constant != HT_IMAGE_NO_VALUE)
			copy((char *)variables + v->offset,
				(const char *)weights + constant[v->constant], v->bytes);
	}
	return HT_AOT_OK;
}

IN_RUNNER COLD int ht_aot_run(const void *const *in, void *const *out, void *arena,
	const void *weights, const struct ht_exec_threads *parallel, const struct ht_aot_plan *plan)
{
	const struct ht_aot_level *level = level_of(plan);
	int64_t size[HT_IMAGE_MOST_SIZES];
	struct ht_exec x;

	if (!level)
		return HT_AOT_E_CPU;
	if (!is_aligned(arena))
		return HT_AOT_E_ARENA;
	weights = weights_of(plan, weights);
	if (!weights)
		return HT_AOT_E_WEIGHTS;
	if (parallel && parallel->threads == 1)
		parallel = NULL;
	if (parallel && (parallel->threads < 1 || !parallel->run || !parallel->barrier))
		return HT_AOT_E_THREADS;
	link(&x, plan, level, weights);
	if (!link_kept(&x, level, out))
		return HT_AOT_E_VARIABLES;
	if (!link_sizes(&x, in, size))
		return HT_AOT_E_ROWS;
	if (!has_arrays(&x, in, out))
		return HT_AOT_E_ARRAYS;
	x.threads = parallel;
	ht_exec_lay_out(&x, arena);
	ht_exec_forget(&x);
	if (!ht_exec_once(&x, in, out))
		((ht_aot_record_fn *)(x.links.code + (uintptr_t)plan->record))(&x);
	return x.stop.code;
}

IN_RUNNER const char *ht_aot_target(const struct ht_aot_plan *plan)
{
	const struct ht_aot_level *level = level_of(plan);

	return level ? at(plan, level->name) : NULL;
}
