/* Constants at every alignment in a mapped file, which the interpreter folds and kernels read.
 * Sanitizers detect a misaligned read. */
#include "tests/unit/unit.h"

#include <halftone/halftone.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 1024 }; /* of 8 bytes: large enough to stay in the map */

static char folder[] = "/tmp/halftone-alignment-XXXXXX";

static double element(int i)
{
	return i * 0.25 - 100;
}

/* r = x + c, s = the sum of c, t = its largest element (a library kernel); a name of `length`
 * letters precedes c. */
static void write_text(const char *path, int length)
{
	FILE *f = fopen(path, "w");

	if (!f)
		exit(1);
	fprintf(f,
		"hir 1\nentry \"\" {\n  input \"x\" = %%x\n  output \"r\" = %%r\n"
		"  output \"s\" = %%s\n  output \"t\" = %%t\n}\n"
		"%%x = Placeholder() {dtype=f64, shape=shape[%d]}\n"
		"%%c%.*s = Const() {dtype=f64, value=tensor f64[%d] {",
		COUNT, length, "aaaaaaaaaaaa", COUNT);
	for (int i = 0; i < COUNT; i++)
		fprintf(f, "%s%.2f", i ? ", " : "", element(i));
	fprintf(f,
		"}}\n%%axis = Const() {dtype=i32, value=tensor i32[1] {0}}\n"
		"%%r = AddV2(%%x, %%c%.*s) {T=f64}\n"
		"%%s = Sum(%%c%.*s, %%axis) {T=f64, Tidx=i32, keep_dims=false}\n"
		"%%one = Const() {dtype=i32, value=tensor i32[] {1}}\n"
		"%%t = TopKV2(%%c%.*s, %%one) {T=f64, sorted=true}\n",
		length, "aaaaaaaaaaaa", length, "aaaaaaaaaaaa", length, "aaaaaaaaaaaa");
	assert_int_equal(fclose(f), 0);
}

/* The offset of the constant's bytes in the file, modulo 8. */
static size_t place(const char *path)
{
	static unsigned char bytes[1 << 16], want[4 * sizeof(double)];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		exit(1);
	for (int i = 0; i < 4; i++)
		memcpy(want + i * sizeof(double), &(double){ element(i) }, sizeof(double));
	n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	for (size_t i = 0; i + sizeof want <= n; i++)
		if (!memcmp(bytes + i, want, sizeof want))
			return i % 8;
	fail_msg("the constant is not in the file");
	return 0;
}

static void run_model(const char *path)
{
	static double x[COUNT], r[COUNT];
	const int64_t dim[] = { COUNT };
	struct ht_array in = { x, sizeof x, HT_F64, 1, dim }, out[3];
	struct ht_program *p;
	struct ht_context *c;
	struct ht_model *m;
	double s = 0, t = 0, want = 0;

	out[0] = (struct ht_array){ r, sizeof r, HT_F64, 1, dim };
	out[1] = (struct ht_array){ &s, sizeof s, HT_F64, 0, NULL };
	out[2] = (struct ht_array){ &t, sizeof t, HT_F64, 1, (const int64_t[]){ 1 } };
	for (int i = 0; i < COUNT; i++) {
		x[i] = i;
		want += element(i);
	}
	assert_int_equal(ht_model_load(path, NULL, NULL, &m), HT_OK);
	assert_int_equal(
		ht_model_set_outputs(m, (const char *[]){ "r", "s", "t" }, 3, NULL), HT_OK);
	assert_int_equal(ht_compile(m, NULL, NULL, &p), HT_OK);
	assert_int_equal(ht_context_new(p, NULL, NULL, &c), HT_OK);
	assert_int_equal(ht_context_run(c, &in, 1, out, 3, NULL), HT_OK);
	for (int i = 0; i < COUNT; i++)
		assert_true(r[i] == x[i] + element(i));
	assert_true(s == want); /* multiples of 1/4: exact in any order */
	assert_true(t == element(COUNT - 1));
	ht_context_free(c);
	ht_program_free(p);
	ht_model_free(m);
}

static void constants_lie_anywhere(void **state)
{
	char text[64], binary[64];
	unsigned seen = 0;
	struct ht_model *m;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(text, sizeof text, "%s/t.hir", folder);
	snprintf(binary, sizeof binary, "%s/t.pb", folder);
	for (int length = 1; length <= 8; length++) {
		write_text(text, length);
		assert_int_equal(ht_model_load(text, NULL, NULL, &m), HT_OK);
		assert_int_equal(ht_convert(m, NULL, binary, NULL), HT_OK);
		ht_model_free(m);
		seen |= 1u << place(binary);
		run_model(binary);
	}
	assert_true((seen & 0xfe) != 0 && (seen & (seen - 1)) != 0);
	unlink(text);
	unlink(binary);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(constants_lie_anywhere) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
