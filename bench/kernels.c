/* Times each distinct kernel of a compiled program alone on one thread; bench/micro runs it.
 *
 *   build/bench/kernels [--policy NAME] [--conv-method NAME] [--target NAME] [--batch N]
 *                       [--seconds S] [--only CLASS] [--set OPTION=VALUE] [--depth all|one]
 *                       [--weights warm|cold] [--slices N] [--beside-peak yes|no] MODEL
 *   build/bench/kernels [--seconds S] --copy READ,WRITTEN
 *
 * Prints a line of JSON for each kernel: its node, the sizes of its contraction, multiply-adds
 * without those that read padding, bytes of all its operands, and the fastest and the median run.
 * CLASS: "contraction", or "other".  Operands lie where the program places them, filled with
 * numbers of their type, and stay in the cache as far as they fit.  --depth one keeps only the
 * first term of every sum of products, so it times the work behind the products.  With --weights
 * cold, constants are in no cache when a run begins, as in a model whose weights are larger than
 * the last cache.  With --slices, the tiles of a kernel are timed in so many slices, one after the
 * other, in processor time, and the fastest run is the sum of each slice's: on a busy machine a
 * slice is often undisturbed where a run of many milliseconds never is.  With --beside-peak, runs
 * alternate with products of registers alone that take as long; "beside" is the median number of
 * their multiply-adds in the time of a run.  --copy measures the limit
 * of memory: GB/s for so many bytes read and so many written, with usual stores and with stores
 * that bypass the caches. */
#include "api/api.h"
#include "bench/rates.h"
#include "lower/inside.h"

#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_RUNS = 10000, MOST_SLICES = 256 };

struct measure {
	double seconds;
	const char *only;
	bool cold;
	int64_t slices;
	enum ht_rate rate; /* of the products in the plan; HT_RATE_COUNT: is not measured */
	const struct ht_graph *graph;
	const struct ht_plan *plan;
	const struct ht_rt_program *rt;
	char *arena;
	void **at; /* by buffer */
	void *scratch;
	double *sample, *beside; /* by run */
};

static double now(void)
{
	return (double)ht_now_ns() * 1e-9;
}

/* The time of this thread on a processor. */
static double processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void *memory(size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, (size_t)1 << 21, n + 4096) != 0) {
		fputs("kernels: out of memory\n", stderr);
		exit(5);
	}
	madvise(p, n, MADV_HUGEPAGE); /* like the arena of a run */
	memset(p, 0, n + 4096);
	return p;
}

/* ---- operands ---- */

/* Sets the addresses of the plan's buffers. */
static void place(struct measure *m)
{
	const struct ht_plan *p = m->plan;

	m->arena = memory(ht_plan_entry(p)->arena_bytes);
	m->at = calloc((size_t)p->buffers + 1, sizeof *m->at);
	if (!m->at)
		exit(5);
	for (int32_t i = 0; i < p->buffers; i++) {
		const struct ht_plan_buffer *b = &p->buffer[i];

		if (b->kind == HT_PLAN_CONST)
			m->at[i] = (void *)(uintptr_t)b->blob->p;
		else
			m->at[i] =
				b->kind == HT_PLAN_TEMP ? m->arena + b->offset : memory(b->bytes);
	}
	m->scratch = memory(p->scratch_bytes);
}

static void fill_operands(struct measure *m, const struct ht_plan_step *s)
{
	for (int32_t i = 0; i < m->plan->kernel[s->kernel]->args; i++) {
		const struct ht_plan_buffer *b = &m->plan->buffer[s->buffer[i]];

		if (b->kind != HT_PLAN_CONST)
			ht_rate_fill(m->at[s->buffer[i]], b->dtype, b->bytes);
	}
}

/* ---- description of a kernel ---- */

static const struct ht_node *node_named(const struct ht_graph *g, struct ht_str name)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_str_eq(n->name, name))
			return n;
	return NULL;
}

/* The number of window positions inside the image, summed over all results along one dimension. */
static int64_t inside(const struct window *w)
{
	int64_t n = 0;

	for (int64_t o = 0; o < w->out; o++)
		for (int64_t t = 0; t < w->size; t++) {
			int64_t i = o * w->stride + t * w->dilation - w->before;

			n += i >= 0 && i < w->in;
		}
	return n;
}

/* Writes the geometry of a convolution; returns its multiply-adds without those that read
 * padding. */
static double put_convolution(const struct ht_node *n, bool depthwise)
{
	struct ht_shape in = ht_type_of(n->in[0])->shape, f = ht_type_of(n->in[1])->shape,
			out = n->out[0].shape;
	struct window w[2];

	read_windows(n, in, out, f.dim, w);
	printf(", \"image\": [%ld, %ld, %ld, %ld], \"filter\": [%ld, %ld, %ld, %ld]",
		(long)in.dim[0], (long)in.dim[1], (long)in.dim[2], (long)in.dim[3], (long)f.dim[0],
		(long)f.dim[1], (long)f.dim[2], (long)f.dim[3]);
	printf(", \"out\": [%ld, %ld], \"stride\": [%ld, %ld], \"dilation\": [%ld, %ld], \"before\": [%ld, %ld]",
		(long)w[0].out, (long)w[1].out, (long)w[0].stride, (long)w[1].stride,
		(long)w[0].dilation, (long)w[1].dilation, (long)w[0].before, (long)w[1].before);
	return (double)in.dim[0] * (double)inside(&w[0]) * (double)inside(&w[1]) *
	       (double)out.dim[3] * (depthwise ? 1. : (double)f.dim[2]);
}

/* Writes the sizes of the contraction in the kernel; returns its multiply-adds. */
static double put_contraction(const struct ht_kernel *k, const struct ht_stage *s)
{
	const struct ht_contract *c = &s->contract;
	int64_t batch = 1, taps = 1, depth = s->dim[s->dims - 1].extent;

	for (int32_t i = 0; i < s->dims - 1; i++) {
		if (s->dim[i].reduce)
			taps *= s->dim[i].extent;
		else if (i != c->m && i != c->n)
			batch *= s->dim[i].extent;
	}
	printf(", \"dtype\": \"%s\", \"batch\": %ld, \"m\": %ld, \"n\": %ld, \"k\": %ld, \"taps\": %ld",
		ht_dtype_info(k->buffer[c->a_buffer].dtype)->tag, (long)batch,
		(long)s->dim[c->m].extent, (long)s->dim[c->n].extent, (long)depth, (long)taps);
	printf(", \"nr\": %d, \"mr\": %d, \"tile\": [%ld, %ld]", (int)c->nr, (int)c->mr,
		(long)s->dim[c->m].step, (long)s->dim[c->n].step);
	return (double)(batch * s->dim[c->m].extent) * (double)s->dim[c->n].extent *
	       (double)(depth * taps);
}

static const struct ht_stage *contraction_of(const struct ht_kernel *k, int *count)
{
	const struct ht_stage *found = NULL;

	*count = 0;
	for (int32_t i = 0; i < k->stages; i++)
		if (k->stage[i].kind == HT_STAGE_CONTRACT) {
			found = found ? found : &k->stage[i];
			++*count;
		}
	return found;
}

/* Evicts the constants of a step from all caches. */
static void forget_constants(struct measure *m, int32_t step)
{
	const struct ht_plan_step *s = &m->plan->step[step];

	for (int32_t a = 0; a < m->plan->kernel[s->kernel]->args; a++) {
		const struct ht_plan_buffer *b = &m->plan->buffer[s->buffer[a]];
		const char *at = m->at[s->buffer[a]];

		for (size_t k = 0; b->kind == HT_PLAN_CONST && k < b->bytes; k += 64)
			_mm_clflush(at + k);
	}
	_mm_mfence();
}

static bool has_step(const struct ht_plan_procedure *p, int32_t i)
{
	return i >= p->step && i < p->step + p->steps;
}

/* The step of the image that runs the kernel of a step of the plan, with the same parameters.  The image has the plan's procedures in their
 * order, then the steps in front of parts; it also has steps of branches, loops and sizes. */
static const struct ht_image_step *step_of(const struct measure *m, int32_t i)
{
	const struct ht_plan_procedure *p = m->plan->procedure;
	const struct ht_image_step *s;
	int32_t number = 0, before = 0;

	while (number < m->plan->procedures && !has_step(&p[number], i))
		number++;
	s = &ht_image_steps(m->rt->image)[ht_image_procedures(m->rt->image)[number].step];
	p = number < m->plan->procedures ? &p[number] : &m->plan->prelude;
	for (int32_t k = p->step; k < i; k++)
		before += m->plan->step[k].kernel >= 0;
	for (;; s++)
		if (s->op == HT_IMAGE_KERNEL && before-- == 0)
			return s;
}

/* The rate that limits the products of the plan, on this machine. */
static enum ht_rate rate_of(const struct ht_plan *p, const struct ht_target *t)
{
	for (int32_t i = 0; i < p->kernels; i++) {
		int count;
		const struct ht_stage *s = contraction_of(p->kernel[i], &count);

		if (!s || s->contract.kp != 2)
			continue;
		if (s->contract.run)
			return HT_RATE_F16;
		return t->matrix_bf16 ? HT_RATE_MATRICES : HT_RATE_BF16;
	}
	return HT_RATE_F32;
}

/* The multiply-adds of registers in so many seconds, at the rate that they have for about as long. */
static double multiply_adds_beside(const struct measure *m, double seconds, double (*clock)(void))
{
	static double round_takes;
	const double start = clock();
	const long rounds = round_takes > 0 ? (long)(seconds / round_takes) + 1 : 1000;

	ht_rate_run(m->rate, rounds);
	round_takes = (clock() - start) / (double)rounds;
	return seconds / round_takes * ht_rate_round(m->rate);
}

/* The tiles that share what the first of them does: a slice that began among them would do it again. */
static int64_t tiles_together(const struct ht_kernel *k)
{
	bool starts = false;

	for (int32_t i = 0; i < k->stages; i++)
		starts = starts || k->stage[i].start;
	return starts && k->grid_dims > 0 ? k->grid[k->grid_dims - 1] : 1;
}

static double (*clock_of(const struct measure *m))(void)
{
	return m->slices > 1 ? processor_time : now;
}

/* Runs all tiles in slices and returns the time; least[k] becomes the least time of slice k. */
static double time_slices(struct measure *m, int32_t i, void *const *arg, double *least)
{
	const struct ht_image_step *s = step_of(m, i);
	const int64_t *params = ht_image_params(m->rt->image) + s->param;
	ht_exec_fn *fn = (ht_exec_fn *)(uintptr_t)m->rt->kernel[s->to];
	const int64_t each = tiles_together(m->plan->kernel[m->plan->step[i].kernel]);
	double all = 0;

	for (int64_t k = 0; k < m->slices; k++) {
		double (*const clock)(void) = clock_of(m);
		double start = clock(), took;

		fn(arg, params, s->count / each * k / m->slices * each,
			k + 1 == m->slices ? s->count
					   : s->count / each * (k + 1) / m->slices * each,
			m->scratch);
		took = clock() - start;
		all += took;
		least[k] = took < least[k] ? took : least[k];
	}
	return all;
}

static void put_time(struct measure *m, int32_t i, void *const *arg)
{
	const bool beside = m->rate != HT_RATE_COUNT;
	double end = now() + m->seconds, least[MOST_SLICES] = { 0 }, fastest = 0;
	size_t n = 0;

	for (int k = 0; k < 2; k++)
		time_slices(m, i, arg, least);
	for (int64_t k = 0; k < m->slices; k++) /* with cold weights the runs above do not count */
		least[k] = 1e9;
	do {
		if (m->cold)
			forget_constants(m, i);
		m->sample[n] = time_slices(m, i, arg, least);
		if (beside)
			m->beside[n] = multiply_adds_beside(m, m->sample[n], clock_of(m));
		n++;
	} while (n < MOST_RUNS && (n < 5 || now() < end));
	qsort(m->sample, n, sizeof *m->sample, by_value);
	for (int64_t k = 0; k < m->slices; k++)
		fastest += least[k];
	printf(", \"min_us\": %.3f, \"median_us\": %.3f, \"runs\": %zu",
		1e6 * (m->slices > 1 ? fastest : m->sample[0]), 1e6 * m->sample[n / 2], n);
	if (!beside)
		return;
	qsort(m->beside, n, sizeof *m->beside, by_value);
	printf(", \"beside\": %.0f", m->beside[n / 2]);
}

static bool wanted(const struct measure *m, bool contraction)
{
	return !m->only || (strcmp(m->only, "contraction") == 0) == contraction;
}

static void measure_step(struct measure *m, int32_t i, int uses)
{
	const struct ht_plan_step *s = &m->plan->step[i];
	const struct ht_kernel *k = m->plan->kernel[s->kernel];
	const struct ht_node *n = node_named(m->graph, s->node);
	struct ht_str type = n ? n->type : HT_STR("");
	int contractions;
	const struct ht_stage *c = contraction_of(k, &contractions);
	double macs = 0, bytes = 0;
	void **arg;

	if (!wanted(m, c != NULL))
		return;
	arg = calloc((size_t)k->args + 1, sizeof *arg);
	if (!arg)
		exit(5);
	for (int32_t a = 0; a < k->args; a++) {
		arg[a] = m->at[s->buffer[a]];
		bytes += (double)m->plan->buffer[s->buffer[a]].bytes;
	}
	fill_operands(m, s);
	printf("{\"node\": \"%.*s\", \"op\": \"%.*s\", \"method\": \"%s\", \"uses\": %d, \"contractions\": %d",
		HT_STR_ARG(s->node), HT_STR_ARG(type), k->method ? k->method : "", uses,
		contractions);
	if (c)
		macs = put_contraction(k, c);
	if (n && ht_is(n, HT_CONV))
		macs = put_convolution(n, false);
	else if (n && ht_is(n, HT_DEPTHWISE))
		macs = put_convolution(n, true);
	printf(", \"multiply_adds\": %.0f, \"bytes\": %.0f", macs, bytes);
	put_time(m, i, arg);
	puts("}");
	free(arg);
}

static int measure_all(struct measure *m)
{
	m->sample = calloc(MOST_RUNS, sizeof *m->sample);
	m->beside = calloc(MOST_RUNS, sizeof *m->beside);
	if (!m->sample || !m->beside)
		return 5;
	place(m);
	for (int32_t i = 0; i < m->plan->steps; i++) {
		int uses = 0;
		bool first = true;

		for (int32_t j = 0; j < m->plan->steps; j++) {
			uses += m->plan->step[j].kernel == m->plan->step[i].kernel;
			first = first &&
				!(j < i && m->plan->step[j].kernel == m->plan->step[i].kernel);
		}
		if (first && m->plan->step[i].kernel >= 0)
			measure_step(m, i, uses);
	}
	return 0;
}

/* ---- memory ---- */

enum { LINE = 64 };

/* Reads `reads` lines for each `writes` lines that it writes; one of the two is 1. */
struct mix {
	size_t reads, writes, times;
};

static void copy(__m512i *to, const __m512i *from, const struct mix *m, bool past)
	__attribute__((target("avx512f"), always_inline));
static inline void copy(__m512i *to, const __m512i *from, const struct mix *m, bool past)
{
	for (size_t i = 0; i < m->times; i++) {
		__m512i v = _mm512_load_si512(from++);

		for (size_t k = 1; k < m->reads; k++)
			v = _mm512_or_si512(v, _mm512_load_si512(from++));
		for (size_t k = 0; k < m->writes; k++) {
			if (past)
				_mm512_stream_si512(to++, v);
			else
				_mm512_store_si512(to++, v);
		}
	}
	_mm_sfence();
}

__attribute__((target("avx512f"))) static void copy_plain(
	__m512i *to, const __m512i *from, const struct mix *m)
{
	copy(to, from, m, false);
}

__attribute__((target("avx512f"))) static void copy_streaming(
	__m512i *to, const __m512i *from, const struct mix *m)
{
	copy(to, from, m, true);
}

/* `sizes`: "READ,WRITTEN" */
static int measure_copy(const char *sizes, double seconds)
{
	char *end_of_read;
	size_t read = strtoul(sizes, &end_of_read, 10);
	size_t written = *end_of_read == ',' ? strtoul(end_of_read + 1, NULL, 10) : 0;
	static void (*const way[])(
		__m512i *, const __m512i *, const struct mix *) = { copy_plain, copy_streaming };
	static const char *const name[] = { "plain", "streaming" };
	struct mix m = { 1, 1, 0 };
	void *from, *to;

	if (!__builtin_cpu_supports("avx512f")) {
		fputs("kernels: --copy needs AVX-512\n", stderr);
		return 4;
	}
	m.reads = read > written && written ? (read + written / 2) / written : 1;
	m.writes = written > read && read ? (written + read / 2) / read : 1;
	m.times = read / LINE / m.reads;
	from = memory(m.times * m.reads * LINE);
	to = memory(m.times * m.writes * LINE);
	/* copying zeros is faster than copying numbers */
	ht_rate_fill(from, HT_F32, m.times * m.reads * LINE);
	printf("{\"bytes\": %zu", m.times * (m.reads + m.writes) * LINE);
	for (size_t i = 0; i < HT_COUNT(way); i++) {
		double best = 1e9, end = now() + seconds;

		for (int k = 0; k < 5 || now() < end; k++) {
			double start = now(), t;

			way[i](to, from, &m);
			t = now() - start;
			best = t < best ? t : best;
		}
		printf(", \"%s\": %.2f", name[i],
			1e-9 * (double)(m.times * (m.reads + m.writes) * LINE) / best);
	}
	puts("}");
	free(from);
	free(to);
	return 0;
}

/* ---- from the model to its program ---- */

struct request {
	const char *path, *policy, *only, *option;
	struct ht_compile_options opt;
	int64_t batch;
	double seconds;
	bool one_deep, cold, beside_peak;
	int64_t slices;
};

static int said(const struct ht_diags *d)
{
	for (size_t i = 0; i < ht_diags_count(d); i++) {
		struct ht_bytes line;

		if (ht_diags_line(d, i, &line) == HT_OK)
			fprintf(stderr, "%.*s\n", (int)line.n, (const char *)line.p);
		ht_bytes_free(&line);
	}
	return 1;
}

static enum ht_status make_policy(
	const struct request *q, struct ht_diags *d, struct ht_policy **out)
{
	const char *equals = q->option ? strchr(q->option, '=') : NULL;
	char key[64] = "";

	HT_TRY(ht_policy_new(q->policy, d, out));
	if (!equals)
		return HT_OK;
	snprintf(key, sizeof key, "%.*s", (int)(equals - q->option), q->option);
	return ht_policy_set(*out, key, equals + 1, d);
}

/* Keeps only the first term, or pair of terms, of every sum of products. */
static void cut_depth(struct ht_plan *plan)
{
	for (int32_t i = 0; i < plan->kernels; i++)
		for (int32_t j = 0; j < plan->kernel[i]->stages; j++) {
			struct ht_stage *s = &plan->kernel[i]->stage[j];

			for (int32_t d = 0; d < s->dims && s->kind == HT_STAGE_CONTRACT; d++)
				if (s->dim[d].reduce)
					s->dim[d].extent = d == s->dims - 1 ? s->contract.kp : 1;
		}
}

static enum ht_status compile(const struct request *q, const struct ht_model *model,
	struct ht_work *w, struct ht_diags *d, struct ht_program *p, struct measure *m)
{
	struct ht_compile_options opt;
	static struct ht_lowering l;
	struct ht_plan *plan;
	struct ht_make how;

	HT_TRY(ht_compile_options_of(&q->opt, d, &opt));
	HT_TRY(ht_lowering_run(model, &opt, HT_OPEN_REFUSE, HT_UPTO_LAYOUT, NULL, w, d, &l));
	HT_TRY(ht_lower(l.graph, &l.lower, &w->arena, &plan));
	if (q->one_deep)
		cut_depth(plan);
	if (!ht_target_runs(l.passes.target->name)) /* also requests the state of tiles */
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"this machine does not run code for %s", l.passes.target->name);
	how = (struct ht_make){ .target = l.passes.target, .threads = 1 };
	HT_TRY(ht_program_build(p, l.graph, plan, &how, &l.phases, d));
	ht_program_link(p, plan);
	m->graph = l.graph;
	m->plan = plan;
	m->rt = &p->rt;
	m->rate = q->beside_peak ? rate_of(plan, l.passes.target) : HT_RATE_COUNT;
	if (q->beside_peak && !ht_rate_has(m->rate))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "--beside-peak needs AVX-512");
	return HT_OK;
}

/* Frees nothing, since the process ends afterwards. */
static int measure_model(struct request *q)
{
	static struct measure m;
	static struct ht_program p;
	static struct ht_policy *policy;
	static struct ht_model *model;
	static struct ht_diags d;
	static struct ht_work w;

	m.seconds = q->seconds;
	m.only = q->only;
	m.cold = q->cold;
	m.slices = q->slices;
	ht_diags_init(&d);
	if (ht_model_load(q->path, NULL, &d, &model) != HT_OK ||
		(q->batch && ht_model_set_batch(model, q->batch, &d) != HT_OK) ||
		make_policy(q, &d, &policy) != HT_OK)
		return said(&d);
	q->opt.policy = policy;
	ht_work_init(&w);
	ht_arena_init(&p.arena, &w.unwind);
	if (setjmp(w.unwind.env)) {
		fputs("kernels: out of memory\n", stderr);
		return 5;
	}
	if (compile(q, model, &w, &d, &p, &m) != HT_OK)
		return said(&d);
	return measure_all(&m);
}

int main(int argc, char **argv)
{
	struct request q = { .policy = "must_keep_origin_dtype",
		.opt = HT_COMPILE_OPTIONS_INIT,
		.seconds = .05,
		.slices = 1 };
	int at = 1;

	for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
		const char *name = argv[at] + 2, *value = argv[at + 1];

		if (!strcmp(name, "copy"))
			return measure_copy(value, q.seconds);
		if (!strcmp(name, "policy"))
			q.policy = value;
		else if (!strcmp(name, "conv-method"))
			q.opt.conv_method = value;
		else if (!strcmp(name, "target"))
			q.opt.target = value;
		else if (!strcmp(name, "batch"))
			q.batch = atol(value);
		else if (!strcmp(name, "seconds"))
			q.seconds = atof(value);
		else if (!strcmp(name, "only"))
			q.only = value;
		else if (!strcmp(name, "set"))
			q.option = value;
		else if (!strcmp(name, "depth"))
			q.one_deep = !strcmp(value, "one");
		else if (!strcmp(name, "weights"))
			q.cold = !strcmp(value, "cold");
		else if (!strcmp(name, "slices"))
			q.slices = atol(value);
		else if (!strcmp(name, "beside-peak"))
			q.beside_peak = !strcmp(value, "yes");
		else
			break;
	}
	if (at != argc - 1 || q.slices < 1 || q.slices > MOST_SLICES) {
		fputs("usage: kernels [--policy NAME] [--conv-method NAME] [--target NAME] [--batch N]\n"
		      "               [--seconds S] [--only CLASS] [--set OPTION=VALUE]\n"
		      "               [--depth all|one] [--weights warm|cold] [--slices N]\n"
		      "               [--beside-peak yes|no] MODEL\n"
		      "       kernels [--seconds S] --copy READ,WRITTEN\n",
			stderr);
		return 2;
	}
	q.path = argv[at];
	return measure_model(&q);
}
