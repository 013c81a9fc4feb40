/* Importing: refused files with status and place; imported tensors and names. */
#include "tests/unit/unit.h"

#include "frontend/bundle.h"
#include "frontend/frontend.h"
#include "frontend/pb.h"

#include <stdlib.h>
#include <unistd.h>

/* Expects `text` to be refused with `st` and a first message that contains `message`. */
static void refuse(
	const void *bytes, size_t n, const char *path, enum ht_status st, const char *message)
{
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_diags d;
	struct ht_graph *g;
	struct ht_buf text;
	enum ht_status got;

	ht_diags_init(&d);
	ht_arena_init(&a, &u);
	if (setjmp(u.env))
		fail_msg("out of memory");
	got = ht_import_memory(&a, bytes, n, path, NULL, &d, &g);
	ht_buf_init(&text, &a);
	if (d.first)
		ht_diag_print(d.first, &text);
	ht_putc(&text, '\0');
	if (got != st || !strstr(text.p, message))
		fail_msg("expected status %d and '%s'; got %d and '%s'", st, message, got, text.p);
	assert_null(g);
	ht_arena_release(&a);
	ht_diags_release(&d);
}

static void refuse_text(const char *text, const char *message)
{
	refuse(text, strlen(text), "t.pbtxt", HT_E_INPUT, message);
}

static struct ht_graph *accept(struct ht_arena *a, const char *text)
{
	struct ht_graph *g;
	struct ht_diags d;

	ht_diags_init(&d);
	if (ht_import_memory(a, text, strlen(text), "t.pbtxt", NULL, &d, &g) != HT_OK)
		fail_msg("refused: %.*s", d.first ? (int)d.first->text.n : 0,
			d.first ? d.first->text.p : "");
	ht_diags_release(&d);
	return g;
}

static void text_errors_have_their_line(void **state)
{
	(void)state;
	refuse_text("node {\n  nme: \"x\"\n}",
		"t.pbtxt:2:3: error: tensorflow.NodeDef has no field 'nme'");
	refuse_text("node {\n  name \"x\"\n}",
		"t.pbtxt:2:8: error: expected ':' after 'name', found '\"x\"'");
	refuse_text(
		"node { name: \"x\n", "t.pbtxt:1:14: error: the string does not end on its line");
	refuse_text(
		"node { name: \"x\" ", "t.pbtxt:1:8: error: '}' is missing at the end of the file");
	refuse_text("node { name: \"\\q\" }", "unknown escape");
	refuse_text("node { name: \"\\377\" }", "t.pbtxt:1:8: error: 'name' is not UTF-8");
	refuse_text(
		"node { name: \"a\" name: \"b\" }", "t.pbtxt:1:18: error: 'name' is given twice");
	refuse_text("versions {\n producer: 99999999999 }",
		"t.pbtxt:2:12: error: the number is out of range");
	refuse_text("versions { producer: 1x }", "'1x' is not an integer");
	refuse_text(
		"node { attr { key: \"a\" value { i: 1 f: 2 } } }", "'f' excludes another field");
	refuse_text("node { attr { key: \"a\" value { type: DT_NONE } } }",
		"tensorflow.DataType has no value 'DT_NONE'");
	refuse_text("node: [ { name: \"a\" op: \"NoOp\" }; ]", "expected ',' or ']', found ';'");
	refuse_text("[x.y] { }", "extensions do not occur");
}

static void graph_errors_have_place_and_node(void **state)
{
	(void)state;
	refuse_text("node { op: \"NoOp\" }", "t.pbtxt:1:1: error: op NoOp: a node has no name");
	refuse_text("node { name: \"a\" op: \"NoOp\" }\nnode { name: \"a\" op: \"NoOp\" }",
		"t.pbtxt:2:1: error: node 'a' (NoOp): a second node of this name");
	refuse_text("node { name: \"a\" op: \"NoOp\"\n input: \"^b\" }",
		"t.pbtxt:2:2: error: node 'a' (NoOp): input '^b': there is no such node");
	refuse_text(
		"node { name: \"c\" op: \"NoOp\" } node { name: \"a\" op: \"Odd\" input: \"^c\" input: \"c\" }",
		"stands behind a control input");
	refuse_text(
		"node { name: \"p\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } }\n"
		"node { name: \"a\" op: \"Odd\" input: \"p:1\" }",
		"t.pbtxt:2:28: error: node 'a' (Odd): input 'p:1': 'p' (Placeholder) has 1 result");
	refuse_text("node { name: \"a\" op: \"Odd\" input: \"a\" }", "cycle");
	refuse_text(
		"node { name: \"a\" op: \"O\" attr { key: \"T\" value { i: 1 } } attr { key: \"T\" } }",
		"attribute 'T' is given twice");
	refuse_text(
		"node { name: \"a\" op: \"O\" attr { key: \"s\" value { shape { dim { size: -2 } } } } }",
		"a dimension is -2");
	refuse_text(
		"node { name: \"a\" op: \"O\" attr { key: \"s\" value { list { i: 1 b: true } } } }",
		"a list has values of two kinds");
	refuse_text(
		"library { function { signature { name: \"f\" } } function { signature { name: \"f\" } } }",
		"a second function 'f'");
	refuse_text(
		"library { function { signature { name: \"f\" output_arg { name: \"r\" type: DT_FLOAT } } } }",
		"does not say what its result 'r' is");
}

static void wire_errors_have_their_byte(void **state)
{
	(void)state;
	refuse("", 0, "t.pb", HT_E_INPUT, "the file is empty");
	refuse("\x0a\x7f\x0a\x01", 4, "t.pb", HT_E_INPUT,
		"t.pb: byte 1: error: tensorflow.GraphDef: field 1 (node) says it has 127 bytes; 2 are left");
	refuse("\x0a\x02\x08\x01\x0a\0", 6, "t.pb", HT_E_INPUT,
		"byte 2: error: tensorflow.NodeDef: field 'name' should be bytes; found a varint");
	refuse("\x0a\x03\x0a\x01\xff\x12\0", 7, "t.pb", HT_E_INPUT, "'name' is not UTF-8");
	refuse("\x0b\x0c\x01\x02", 4, "t.pb", HT_E_INPUT, "wire type 3");
	refuse("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "t.pb", HT_E_INPUT,
		"does not fit 64 bits");
	refuse("\x18\x80", 2, "t.pb", HT_E_INPUT, "a number is cut off");
}

/* Small files that would need much: nesting, and shapes of more elements than the limits allow. */
static void limits_hold(void **state)
{
	static char deep[100000], *p = deep;
	size_t n = 0;

	(void)state;
	p += sprintf(p, "node { name: \"a\" op: \"b\" attr { key: \"f\" value { ");
	for (n = 0; n < 200; n++)
		p += sprintf(p, "func { attr { key: \"f\" value { ");
	refuse(deep, (size_t)(p - deep), "t.pbtxt", HT_E_LIMIT, "messages nest deeper than 64");
	for (n = 0, p = deep; n < 5000; n++)
		p += sprintf(p, "{\"library\":");
	refuse(deep, (size_t)(p - deep), "t.json", HT_E_INPUT, "this is not JSON");
}

static const char *constant(const char *tensor)
{
	static char text[1000];

	snprintf(text, sizeof text,
		"node { name: \"c\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } }"
		" attr { key: \"value\" value { tensor { dtype: DT_FLOAT %s } } } }",
		tensor);
	return text;
}

static void tensors_of_both_forms(void **state)
{
	static const float spread[5] = { 1, 2.5f, -3, -3, -3 };
	const struct ht_tensor *t;
	struct ht_graph *g;

	(void)state;
	UNIT_ARENA(a);
	g = accept(&a, constant("tensor_shape { dim { size: 5 } } float_val: [1, 2.5, -3]"));
	t = ht_const_tensor(ht_out(g->first, 0));
	assert_int_equal(t->form, HT_TENSOR_VALUES);
	assert_int_equal(t->values, 3);
	assert_memory_equal(t->blob->p, spread, sizeof spread);
	g = accept(&a, constant("tensor_shape { } tensor_content: \"\\000\\000\\200?\""));
	t = ht_const_tensor(ht_out(g->first, 0));
	assert_int_equal(t->form, HT_TENSOR_CONTENT);
	assert_memory_equal(t->blob->p, spread, sizeof *spread);
	g = accept(&a, constant("tensor_shape { dim { size: 0 } }"));
	t = ht_const_tensor(ht_out(g->first, 0));
	assert_int_equal(t->blob->n, 0);
	/* More elements than a file may have: the tensor is kept without bytes. */
	g = accept(&a, constant("tensor_shape { dim { size: 1000000000000 } } float_val: 1"));
	assert_null(ht_const_tensor(ht_out(g->first, 0)));
	refuse_text(constant("tensor_shape { dim { size: 2 } } float_val: [1, 2, 3]"),
		"a tensor of 2 elements has 3 values");
	refuse_text(constant("tensor_shape { dim { size: 2 } } tensor_content: \"1234\""),
		"a tensor of 2 elements of type float32 has 4 bytes");
	refuse_text(constant("tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } }"),
		"does not fit 64 bits");
	ht_arena_release(&a);
}

static void text_accepts_what_protobuf_accepts(void **state)
{
	struct ht_graph *g;

	(void)state;
	UNIT_ARENA(a);
	g = accept(&a,
		"\xef\xbb\xbf# comment\nnode:<name:'a' \"b\", op:\"Odd\"; attr:[{key:\"f\" value{f:-inf}},"
		"{key:\"i\" value{i:0x7fffffffffffffff}},{key:\"o\" value{i:-017}},"
		"{key:\"g\" value{f:1.5f}},{key:\"t\" value{type:1}},{key:\"b\" value{b:t}}]>"
		"versions{producer:1}");
	assert_str(g->first->name, "ab");
	assert_true(ht_attr_float(g->first, "f", 0) < -3e38f);
	assert_true(ht_attr_int(g->first, "i", 0) == INT64_MAX);
	assert_int_equal(ht_attr_int(g->first, "o", 0), -15);
	assert_true(ht_attr_float(g->first, "g", 0) == 1.5f);
	assert_int_equal(ht_attr_type(g->first, "t", HT_INVALID), HT_F32);
	assert_true(ht_attr_bool(g->first, "b", false));
	ht_arena_release(&a);
}

static void entries(void **state)
{
	struct ht_str wrong = HT_STR("rellu"), right = HT_STR("relu:0");
	struct ht_str twice[] = { HT_STR("relu"), HT_STR("relu:0") };
	struct ht_entry *e;
	struct ht_graph *g;
	struct ht_diags d;

	(void)state;
	UNIT_ARENA(a);
	ht_diags_init(&d);
	g = accept(&a,
		"node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } }"
		"node { name: \"relu\" op: \"Relu\" input: \"x\" attr { key: \"T\" value { type: DT_FLOAT } } }"
		"node { name: \"init\" op: \"NoOp\" input: \"^x\" }");
	assert_str(g->entries->inputs->name, "x");
	assert_str(g->entries->outputs->name, "relu");
	assert_null(g->entries->outputs->next);
	assert_int_equal(ht_entry_for_outputs(g, NULL, &wrong, 1, &d, &e), HT_E_USAGE);
	assert_non_null(strstr(d.first->text.p, "did you mean 'relu'"));
	assert_int_equal(ht_entry_for_outputs(g, NULL, &right, 1, &d, &e), HT_OK);
	assert_str(e->outputs->name, "relu");
	assert_int_equal(ht_entry_for_outputs(g, NULL, twice, 2, &d, &e), HT_E_USAGE);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void layers_model_and_absent_shards(void **state)
{
	static const char layers[] = "{\"format\":\"layers-model\",\"modelTopology\":{}}";
	static const char shard[] =
		"{\"modelTopology\":{\"node\":[]},\"weightsManifest\":[{\"paths\":[\"w.bin\"],\"weights\":[]}]}";
	static const char outside[] =
		"{\"modelTopology\":{\"node\":[]},\"weightsManifest\":[{\"paths\":[\"../w.bin\"],\"weights\":[]}]}";
	static const char field[] = "{\"modelTopology\":{\"node\":[{\"name\":\"a\",\"op\":1}]}}";

	(void)state;
	refuse(layers, strlen(layers), "m.json", HT_E_UNSUPPORTED, "layers model");
	refuse(shard, strlen(shard), "m.json", HT_E_INPUT, "the weight shard 'w.bin' is not here");
	refuse(outside, strlen(outside), "m.json", HT_E_INPUT, "inside the model's folder");
	refuse(field, strlen(field), "m.json", HT_E_INPUT,
		"modelTopology.node[0].op: expected a string");
	refuse("{ \"a\": }", 8, "m.json", HT_E_INPUT, "m.json:1:8: error: this is not JSON");
}

static enum ht_status import_and_export(const char *text, struct ht_diags *d)
{
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_graph *g;
	struct ht_buf out;
	volatile enum ht_status st = HT_E_ENVIRONMENT;

	ht_arena_init(&a, &u);
	if (!setjmp(u.env)) {
		st = ht_import_memory(&a, text, strlen(text), "t.pbtxt", NULL, d, &g);
		ht_buf_init(&out, &a);
		if (st == HT_OK)
			st = ht_export_graphdef(g, HT_EXPORT_TEXT, d, &out);
	} else {
		st = HT_E_ENVIRONMENT;
	}
	ht_arena_release(&a);
	return st;
}

/* The k-th allocation fails, for every k: the result is a status, and nothing leaks (under
 * sanitizers). */
static void no_memory(void **state)
{
	static const char text[] =
		"node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } }"
		"node { name: \"c\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } }"
		" attr { key: \"value\" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 100000 } }"
		" float_val: 1 } } } }"
		"library { function { signature { name: \"f\" input_arg { name: \"a\" type: DT_FLOAT } } } }";
	enum ht_status st = HT_E_ENVIRONMENT;
	struct ht_diags d;
	long failures = 0;

	(void)state;
	for (long k = 0; st != HT_OK; k++) {
		ht_diags_init(&d);
		ht_fail_alloc_after(k);
		st = import_and_export(text, &d);
		ht_fail_alloc_after(-1);
		assert_true(st == HT_OK || st == HT_E_ENVIRONMENT);
		failures += st != HT_OK;
		ht_diags_release(&d);
	}
	assert_true(failures > 3);
}

static void crc(void **state)
{
	struct ht_crc32c t;

	(void)state;
	ht_crc32c_init(&t);
	assert_int_equal(ht_crc32c(&t, 0, "123456789", 9), 0xe3069283);
	assert_int_equal(ht_crc32c(&t, ht_crc32c(&t, 0, "1234", 4), "56789", 5), 0xe3069283);
	assert_int_equal(ht_crc32c_mask(0), 0xa282ead8);
}

/* ---- a checkpoint of $HALFTONE_SHARED, and copies of it with every bit flipped ---- */

static size_t read_file(const char *path, char *out, size_t room)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return 0;
	n = fread(out, 1, room, f);
	fclose(f);
	return n;
}

static void write_file(const char *path, const char *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	fclose(f);
}

/* Reads all three variables; *sum checks their values. */
static enum ht_status read_variables(const char *prefix, float *sum)
{
	static const char *const names[] = { "a", "b", "c" };
	struct ht_checkpoint *c;
	struct ht_tensor *t;
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_diags d;
	enum ht_status st;
	float value;

	ht_diags_init(&d);
	ht_arena_init(&a, &u);
	if (setjmp(u.env))
		fail_msg("out of memory");
	*sum = 0;
	st = ht_checkpoint_open(&a, prefix, NULL, &d, &c);
	for (size_t i = 0; i < HT_COUNT(names) && st == HT_OK; i++) {
		st = ht_checkpoint_read(c, ht_str(names[i]), &a, &d, &t);
		if (st == HT_OK) {
			memcpy(&value, t->blob->p, sizeof value);
			*sum += value * (float)(i + 1);
		}
	}
	assert_true(st == HT_OK || d.errors);
	ht_arena_release(&a);
	ht_diags_release(&d);
	return st;
}

static void damaged_checkpoints(void **state)
{
	char from[512], index[1024], data[64], prefix[] = "/tmp/test_frontend.XXXXXX", path[600];
	const char *shared = getenv("HALFTONE_SHARED");
	size_t index_n, data_n, flips = 0;
	float sum, right;

	(void)state;
	snprintf(from, sizeof from,
		"%s/models/micro/half_plus_two/half_plus_two/00000123/variables/"
		"variables.index",
		shared ? shared : "../shared");
	index_n = read_file(from, index, sizeof index);
	if (!index_n)
		skip();
	strcpy(strrchr(from, '.'), ".data-00000-of-00001");
	data_n = read_file(from, data, sizeof data);
	*strrchr(from, '.') = '\0';
	assert_int_equal(read_variables(from, &right), HT_OK);
	assert_true(right == 0.5f + 2 * 2.0f + 3 * 3.0f);
	assert_non_null(mkdtemp(prefix));
	strcat(strcpy(from, prefix), "/v");
	for (size_t bit = 0; bit < 8 * (index_n + data_n); bit++) {
		char *byte = bit / 8 < index_n ? &index[bit / 8] : &data[bit / 8 - index_n];

		*byte ^= (char)(1 << bit % 8);
		snprintf(path, sizeof path, "%s.index", from);
		write_file(path, index, index_n);
		snprintf(path, sizeof path, "%s.data-00000-of-00001", from);
		write_file(path, data, data_n);
		*byte ^= (char)(1 << bit % 8);
		/* Bits that nothing reads (the padding of the footer, the empty block) may
		 * differ. */
		if (read_variables(from, &sum) == HT_OK) {
			assert_true(sum == right);
			assert_true(bit / 8 < index_n);
			flips++;
		}
	}
	assert_true(flips < 8 * 60);
	unlink(path);
	snprintf(path, sizeof path, "%s.index", from);
	unlink(path);
	rmdir(prefix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_errors_have_their_line),
		cmocka_unit_test(graph_errors_have_place_and_node),
		cmocka_unit_test(wire_errors_have_their_byte),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(tensors_of_both_forms),
		cmocka_unit_test(text_accepts_what_protobuf_accepts),
		cmocka_unit_test(entries),
		cmocka_unit_test(layers_model_and_absent_shards),
		cmocka_unit_test(no_memory),
		cmocka_unit_test(crc),
		cmocka_unit_test(damaged_checkpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
