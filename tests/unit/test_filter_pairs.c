/* Gradients of convolutions by their filters as products, on a target that multiplies pairs of bfloat16: words of two images, in tiles that
 * pack their own share of the gradient, and by shares that are packed in front.  The interpreter runs these forms on any machine; their
 * results are those of the target without pairs. */
#include "tests/unit/interpreted.h"
#include "tests/unit/random.h"

#define PAIRED "x86-64-v4+bf16"

struct shape {
	int64_t images, height, width, channels, results, filter, stride;
};

static void write_graph(const struct shape *s, struct ht_buf *b)
{
	const int64_t high = (s->height + s->stride - 1) / s->stride,
		      wide = (s->width + s->stride - 1) / s->stride;

	ht_printf(b,
		"hir 1\nentry \"\" { input \"x\" = %%x input \"dy\" = %%dy output \"y\" = %%y }\n"
		"%%to = Const() {dtype=i32, value=tensor i32[4] values 4 {%d, %d, %d, %d}}\n"
		"%%x = Placeholder() {dtype=bf16, shape=shape[%d,%d,%d,%d]}\n"
		"%%dy = Placeholder() {dtype=bf16, shape=shape[%d,%d,%d,%d]}\n"
		"%%y = Conv2DBackpropFilter(%%x, %%to, %%dy) {T=bf16, strides=[1,%d,%d,1], "
		"padding=\"SAME\", data_format=\"NHWC\"}\n",
		(int)s->filter, (int)s->filter, (int)s->channels, (int)s->results, (int)s->images,
		(int)s->height, (int)s->width, (int)s->channels, (int)s->images, (int)high,
		(int)wide, (int)s->results, (int)s->stride, (int)s->stride);
}

static void run_on(struct run *r, const char *target, const struct shape *s)
{
	struct ht_buf b;

	run_init(r);
	ht_buf_init(&b, &r->arena);
	write_graph(s, &b);
	parse(r, ht_buf_str(&b));
	r->context.target = ht_target_named(target);
	r->method = HT_CONV_DIRECT;
	if (ht_run_passes(r->graph, "infer", NULL, &r->context) != HT_OK || execute(r) != HT_OK)
		fail_with_diags(r, target);
}

/* Whether a kernel has words of two numbers of bfloat16. */
static bool has_words(const struct ht_plan *p)
{
	for (int32_t i = 0; i < p->kernels; i++)
		for (int32_t k = 0; k < p->kernel[i]->buffers; k++)
			if (p->kernel[i]->buffer[k].dtype == HT_U32)
				return true;
	return false;
}

/* Whether a kernel packs them in front of another. */
static bool packs_in_front(const struct ht_plan *p)
{
	for (int32_t i = 0; i < p->buffers; i++)
		if (p->buffer[i].kind == HT_PLAN_TEMP && p->buffer[i].dtype == HT_U32)
			return true;
	return false;
}

struct seen {
	int words, in_front;
};

/* Compares a shape on the target with pairs and on the one without. */
static void check(const struct shape *s, struct seen *seen)
{
	struct run plain, paired;
	char name[200];

	run_on(&plain, "x86-64", s);
	run_on(&paired, PAIRED, s);
	snprintf(name, sizeof name, "%d images of %d x %d x %d, %d results, filter %d, stride %d",
		(int)s->images, (int)s->height, (int)s->width, (int)s->channels, (int)s->results,
		(int)s->filter, (int)s->stride);
	assert_false(has_words(plain.plan));
	assert_true(has_words(paired.plan) == (s->images > 1));
	seen->words += has_words(paired.plan);
	seen->in_front += packs_in_front(paired.plan);
	compare(name, &plain, &paired);
	run_release(&plain);
	run_release(&paired);
}

static struct shape random_shape(void)
{
	static const int64_t channels[] = { 1, 3, 8, 16, 17, 32 };
	struct shape s = { 1 + below(5), 2 + below(6), 2 + below(6),
		channels[below(HT_COUNT(channels))], 1 + below(40), 1 + 2 * below(2),
		1 + below(2) };

	return s;
}

static void words_of_images(void **unused)
{
	/* Several parts, whose shares of the gradient lie one behind the other. */
	static const struct shape parts = { 17, 8, 8, 320, 10, 3, 1 };
	/* Lines so long that they are copied whole. */
	static const struct shape lines[] = { { 3, 4, 40, 1, 8, 3, 1 }, { 2, 5, 61, 3, 8, 3, 2 } };
	struct seen seen = { 0 };

	(void)unused;
	state = 0x9e3779b97f4a7c15u;
	for (int i = 0; i < 20; i++) {
		struct shape s = random_shape();

		check(&s, &seen);
	}
	check(&parts, &seen);
	for (size_t i = 0; i < HT_COUNT(lines); i++)
		check(&lines[i], &seen);
	assert_true(seen.words > 10 && seen.in_front > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(words_of_images) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
