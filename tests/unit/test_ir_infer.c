/* Inference: each case is a graph in the .hir form with the expected type of its node %y.
 * tests/ir/types_of_models.py compares shapes of whole models with TensorFlow's. */
#include "tests/unit/unit.h"

#include "ir/ir.h"

#define X(shape) "%x = Placeholder() {dtype=f32, shape=shape" shape "} "
#define XI(shape) "%x = Placeholder() {dtype=i32, shape=shape" shape "} "
#define INTS(name, shape, elements)                                                                \
	"%" name " = Const() {dtype=i32, value=tensor i32" shape " {" elements "}} "

struct test_case {
	const char *text;  /* after "hir 1" */
	const char *types; /* of %y's results; NULL: refused */
};

static struct ht_str types_of(struct ht_arena *a, const struct ht_node *n)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	for (int32_t i = 0; i < n->outs; i++) {
		ht_printf(&b, "%s%s", i ? " " : "", ht_dtype_info(n->out[i].dtype)->tag);
		ht_shape_print(n->out[i].shape, &b);
	}
	return ht_buf_str(&b);
}

static void check(const struct test_case *c)
{
	UNIT_ARENA(a);
	struct ht_graph *g;
	struct ht_diags d;
	struct ht_str text = ht_str_printf(&a, "hir 1 %s", c->text);
	enum ht_status st;

	ht_diags_init(&d);
	if (ht_text_parse(&a, text, "t.hir", NULL, &d, &g) != HT_OK ||
		ht_graph_sort(g, &d) != HT_OK || ht_verify(g, &d) != HT_OK)
		fail_msg("%s: %.*s", c->text, HT_STR_ARG(d.first->text));
	st = ht_infer_types(g, &d);
	if (c->types) {
		struct ht_str types;

		if (st != HT_OK)
			fail_msg("%s: %.*s", c->text, HT_STR_ARG(d.first->text));
		types = types_of(&a, ht_graph_node(g, HT_STR("y")));
		if (!ht_str_is(types, c->types))
			fail_msg("%s: %.*s, not %s", c->text, HT_STR_ARG(types), c->types);
	} else {
		if (st != HT_E_INPUT)
			fail_msg("%s: not refused", c->text);
		assert_str(d.first->where.node, "y");
	}
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void check_all(const struct test_case *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(&c[i]);
}

static void elementwise(void **state)
{
	static const struct test_case cases[] = {
		{ X("[2,?]") "%y = Relu(%x) {T=f32}", "f32[2,?]" },
		{ X("[*]") "%y = Relu(%x) {T=f32}", "f32[*]" },
		{ X("[2,?]") "%y = Cast(%x) {SrcT=f32, DstT=bf16}", "bf16[2,?]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

#define AB(a, b)                                                                                   \
	"%a = Placeholder() {dtype=f32, shape=shape" a                                             \
	"} %b = Placeholder() {dtype=f32, shape=shape" b "} "

static void broadcasts(void **state)
{
	static const struct test_case cases[] = {
		{ AB("[4,1,3]", "[5,1]") "%y = AddV2(%a, %b) {T=f32}", "f32[4,5,3]" },
		{ AB("[?,3]", "[1,3]") "%y = Mul(%a, %b) {T=f32}", "f32[?,3]" },
		{ AB("[?]", "[4]") "%y = Sub(%a, %b) {T=f32}", "f32[4]" },
		{ AB("[0,3]", "[1,3]") "%y = Sub(%a, %b) {T=f32}", "f32[0,3]" },
		{ AB("[]", "[*]") "%y = Sub(%a, %b) {T=f32}", "f32[*]" },
		{ AB("[2]", "[3]") "%y = Less(%a, %b) {T=f32}", NULL },
		{ AB("[2]", "[1]") "%y = Less(%a, %b) {T=f32}", "b1[2]" },
		{ AB("[2,3]", "[3]") "%y = BiasAdd(%a, %b) {T=f32}", "f32[2,3]" },
		{ AB("[2,3]", "[2]") "%y = BiasAdd(%a, %b) {T=f32}", NULL },
		{ AB("[1,2,4,4]", "[2]") "%y = BiasAdd(%a, %b) {T=f32, data_format=\"NCHW\"}",
			"f32[1,2,4,4]" },
		{ AB("[2,?]", "[?,3]") "%y = AddN(%a, %b) {T=f32, N=2}", "f32[2,3]" },
		{ AB("[2,2]", "[2,3]") "%y = AddN(%a, %b) {T=f32, N=2}", NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

#define EINSUM(a, b, equation)                                                                     \
	AB(a, b) "%y = Einsum(%a, %b) {T=f32, N=2, equation=\"" equation "\"}"
#define EINSUM_1(a, equation) AB(a, "[1]") "%y = Einsum(%a) {T=f32, N=1, equation=\"" equation "\"}"

static void equations(void **state)
{
	static const struct test_case cases[] = {
		{ EINSUM("[2,3]", "[3,5]", "ab,bc->ca"), "f32[5,2]" },
		{ EINSUM("[2,?]", "[3,?]", "ab,bc->abc"), "f32[2,3,?]" },
		{ EINSUM("[7,1,2,3]", "[4,3,5]", "...ab,...bc->a...c"), "f32[2,7,4,5]" },
		{ EINSUM("[4,3,5]", "[3,7,1,2]", "...ab,a...c->c...b"), "f32[2,7,4,5]" },
		{ EINSUM("[2,7,4,3,5]", "[3,7,1,2]", "d...ab,a...d->d...b"), "f32[2,7,4,5]" },
		{ EINSUM("[2,3]", "[]", "ab,->ba"), "f32[3,2]" },
		{ EINSUM("[2,3]", "[3]", "...ab,...b->a"), "f32[2]" },
		{ EINSUM_1("[3,3,4]", "aab->ba"), "f32[4,3]" },
		{ EINSUM_1("[2,3]", "ab->"), "f32[]" },
		{ EINSUM_1("[3]", "a->aa"), "f32[3,3]" },
		{ EINSUM_1("[5,2,3]", "...a->a..."), "f32[3,5,2]" },
		{ EINSUM_1("[3,4]", "aa->a"), NULL }, /* sizes differ */
		{ EINSUM("[2,3]", "[4,5]", "ab,bc->ac"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "ab,b->a"), NULL },    /* rank */
		{ EINSUM("[2,3]", "[3,5]", "ab, bc->ac"), NULL }, /* a space is a label */
		{ EINSUM("[2,3]", "[3,5]", "...abc,bd->ad"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "ab,bc"), NULL }, /* no result */
		{ EINSUM("[2,3]", "[3,5]", "ab,bc->ac->a"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "ab,bc->ad"), NULL }, /* not an operand's */
		/* the equation has one operand, the node two */
		{ EINSUM("[2,3]", "[3,5]", "ab->ab"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "ab,bc,cd->ad"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "a.b,bc->ac"), NULL },
		{ EINSUM("[2,3]", "[3,5]", "...ab...,bc->ac"), NULL },
		{ EINSUM("[2,2,3]", "[3,5]", "...ab,bc->ac"), NULL }, /* lacks the ellipsis */
		{ EINSUM("[2,2,3]", "[3,3,5]", "...ab,...bc->...ac"), NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void products(void **state)
{
	static const struct test_case cases[] = {
		{ AB("[2,3]", "[3,5]") "%y = MatMul(%a, %b) {T=f32}", "f32[2,5]" },
		{ AB("[3,2]",
			  "[5,3]") "%y = MatMul(%a, %b) {T=f32, transpose_a=true, transpose_b=true}",
			"f32[2,5]" },
		{ AB("[2,3]", "[4,5]") "%y = MatMul(%a, %b) {T=f32}", NULL },
		{ AB("[2,3,1]", "[3,5]") "%y = MatMul(%a, %b) {T=f32}", NULL },
		{ AB("[7,1,2,3]", "[4,3,5]") "%y = BatchMatMulV2(%a, %b) {T=f32}", "f32[7,4,2,5]" },
		{ AB("[?,2,3]", "[?,5,3]") "%y = BatchMatMul(%a, %b) {T=f32, adj_y=true}",
			"f32[?,2,5]" },
		/* TF.js writes neither TArgs nor num_host_args. */
		{ AB("[2,3]", "[3,5]") "%y = _FusedMatMul(%a, %b, %c) {T=f32, num_args=1} "
				       "%c = Placeholder() {dtype=f32}",
			"f32[2,5]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

#define CONV(op, x, f, attrs) AB(x, f) "%y = " op "(%a, %b) {T=f32, " attrs "}"

static void windows(void **state)
{
	static const struct test_case cases[] = {
		{ CONV("Conv2D", "[1,224,225,3]", "[3,3,3,8]",
			  "strides=[1,2,2,1], padding=\"SAME\""),
			"f32[1,112,113,8]" },
		{ CONV("Conv2D", "[?,10,10,3]", "[3,5,3,8]",
			  "strides=[1,2,2,1], padding=\"VALID\""),
			"f32[?,4,3,8]" },
		{ CONV("Conv2D", "[1,3,10,10]", "[3,3,3,8]",
			  "strides=[1,1,1,1], padding=\"VALID\", data_format=\"NCHW\", dilations=[1,1,2,2]"),
			"f32[1,8,6,6]" },
		{ CONV("Conv2D", "[1,10,10,4]", "[3,3,2,8]",
			  "strides=[1,1,1,1], padding=\"EXPLICIT\", explicit_paddings=[0,0,1,2,0,0,0,0]"),
			"f32[1,11,8,8]" },
		{ CONV("Conv2D", "[1,10,10,3]", "[3,3,2,8]", "strides=[1,1,1,1], padding=\"SAME\""),
			NULL },
		{ CONV("Conv2D", "[1,10,10,3]", "[3,3,3,8]", "strides=[1,0,1,1], padding=\"SAME\""),
			NULL },
		{ CONV("Conv2D", "[1,10,10,3]", "[3,3,3,8]", "strides=[1,1], padding=\"SAME\""),
			NULL },
		{ CONV("Conv2D", "[1,10,10,3]", "[3,3,3,8]", "strides=[1,1,1,1], padding=\"SOME\""),
			NULL },
		{ CONV("Conv2D", "[1,2,2,3]", "[5,5,3,8]", "strides=[1,1,1,1], padding=\"VALID\""),
			NULL },
		{ CONV("DepthwiseConv2dNative", "[1,8,8,3]", "[3,3,3,2]",
			  "strides=[1,1,1,1], padding=\"SAME\""),
			"f32[1,8,8,6]" },
		{ X("[1,9,9,3]") "%y = MaxPool(%x) {T=f32, ksize=[1,2,2,1], strides=[1,2,2,1], "
				 "padding=\"VALID\"}",
			"f32[1,4,4,3]" },
		{ AB("[3,3,8,5]", "[1,7,7,5]") INTS("s", "[4]",
			  "1, 14, 14, 8") "%y = Conv2DBackpropInput(%s, %a, %b) {T=f32, strides=[1,2,2,1], padding=\"SAME\"}",
			"f32[1,14,14,8]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void reductions(void **state)
{
	static const struct test_case cases[] = {
		{ X("[2,3,4]") INTS("i", "[2]", "0, -1") "%y = Mean(%x, %i) {T=f32}", "f32[3]" },
		{ X("[2,3,4]") INTS("i", "[]", "1") "%y = Max(%x, %i) {T=f32, keep_dims=true}",
			"f32[2,1,4]" },
		{ X("[2,3,4]") INTS("i", "[1]", "3") "%y = Sum(%x, %i) {T=f32}", NULL },
		{ X("[2,3,4]") INTS("i", "[2]", "1, -2") "%y = Sum(%x, %i) {T=f32}", NULL },
		{ X("[2,3,4]") "%i = Placeholder() {dtype=i32} %y = Sum(%x, %i) {T=f32}",
			"f32[*]" },
		{ X("[2,3,4]") INTS("i", "[]", "-2") "%y = ArgMax(%x, %i) {T=f32}", "i64[2,4]" },
		{ X("[2,9]") INTS("i", "[]", "3") "%y = TopKV2(%x, %i) {T=f32}",
			"f32[2,3] i32[2,3]" },
		{ X("[2,9]") INTS("i", "[]", "10") "%y = TopKV2(%x, %i) {T=f32}", NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void moves(void **state)
{
	static const struct test_case cases[] = {
		{ X("[2,3,4]") INTS("i", "[2]", "-1, 6") "%y = Reshape(%x, %i) {T=f32}",
			"f32[4,6]" },
		{ X("[2,3,4]") INTS("i", "[2]", "5, 5") "%y = Reshape(%x, %i) {T=f32}", NULL },
		{ X("[2,3,4]") INTS("i", "[2]", "-1, -1") "%y = Reshape(%x, %i) {T=f32}", NULL },
		{ X("[2,3,4]") INTS("i", "[2]", "-1, 5") "%y = Reshape(%x, %i) {T=f32}", NULL },
		{ X("[?,3,4]") INTS("i", "[2]", "-1, 12") "%y = Reshape(%x, %i) {T=f32}",
			"f32[?,12]" },
		{ X("[1,3,1]") "%y = Squeeze(%x) {T=f32}", "f32[3]" },
		{ X("[1,?,1]") "%y = Squeeze(%x) {T=f32}", "f32[*]" },
		{ X("[1,?,1]") "%y = Squeeze(%x) {T=f32, squeeze_dims=[-1]}", "f32[1,?]" },
		{ X("[1,3,1]") "%y = Squeeze(%x) {T=f32, squeeze_dims=[1]}", NULL },
		{ X("[2,3]") INTS("i", "[]", "-1") "%y = ExpandDims(%x, %i) {T=f32}",
			"f32[2,3,1]" },
		{ X("[2,3,4]") INTS("i", "[3]", "2, 0, 1") "%y = Transpose(%x, %i) {T=f32}",
			"f32[4,2,3]" },
		{ X("[2,3,4]") INTS("i", "[3]", "2, 0, 0") "%y = Transpose(%x, %i) {T=f32}", NULL },
		{ AB("[2,3]", "[2,?]")
				INTS("i", "[]", "-1") "%y = ConcatV2(%a, %b, %a, %i) {T=f32, N=3}",
			"f32[2,?]" },
		{ AB("[2,3]", "[2,5]")
				INTS("i", "[]", "1") "%y = ConcatV2(%a, %b, %i) {T=f32, N=2}",
			"f32[2,8]" },
		{ AB("[2,3]", "[3,5]")
				INTS("i", "[]", "1") "%y = ConcatV2(%a, %b, %i) {T=f32, N=2}",
			NULL },
		{ X("[2,3]") "%y = Pack(%x, %x, %x) {T=f32, N=3, axis=1}", "f32[2,3,3]" },
		{ X("[2,3]") "%y = Unpack(%x) {T=f32, num=2}", "f32[3] f32[3]" },
		{ X("[2,3]") "%y = Unpack(%x) {T=f32, num=4}", NULL },
		{ X("[2,6]") INTS("i", "[]", "1") "%y = Split(%i, %x) {T=f32, num_split=2}",
			"f32[2,3] f32[2,3]" },
		{ X("[2,6]") INTS("i", "[]", "1") "%y = Split(%i, %x) {T=f32, num_split=4}", NULL },
		{ X("[2,6]") INTS("s", "[2]", "2, -1") INTS(
			  "i", "[]", "1") "%y = SplitV(%x, %s, %i) {T=f32, Tlen=i32, num_split=2}",
			"f32[2,2] f32[2,4]" },
		{ X("[2,6]") INTS("s", "[2]", "2, 5") INTS(
			  "i", "[]", "1") "%y = SplitV(%x, %s, %i) {T=f32, Tlen=i32, num_split=2}",
			NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

#define STRIDED(shape, n, begin, end, strides, masks)                                              \
	X(shape)                                                                                   \
	INTS("b", n, begin)                                                                        \
	INTS("e", n, end)                                                                          \
	INTS("s", n, strides) "%y = StridedSlice(%x, %b, %e, %s) {T=f32, Index=i32" masks "}"

static void slices(void **state)
{
	static const struct test_case cases[] = {
		{ STRIDED("[10,20]", "[2]", "1, 2", "-1, 12", "2, 3", ""), "f32[4,4]" },
		{ STRIDED("[10,20]", "[2]", "9, 0", "2, 0", "-3, 1", ", end_mask=2"), "f32[3,20]" },
		{ STRIDED("[10,20]", "[1]", "0", "0", "-1", ", begin_mask=1, end_mask=1"),
			"f32[10,20]" },
		{ STRIDED("[10,20]", "[1]", "-1", "0", "1", ", shrink_axis_mask=1"), "f32[20]" },
		{ STRIDED("[10,20]", "[1]", "10", "11", "1", ", shrink_axis_mask=1"), NULL },
		{ STRIDED("[10,20]", "[1]", "0", "1", "0", ""), NULL },
		{ STRIDED("[10,20]", "[3]", "0, 0, 0", "0, 0, 0", "1, 1, 1",
			  ", new_axis_mask=2, begin_mask=5, end_mask=5"),
			"f32[10,1,20]" },
		{ STRIDED("[2,3,4,5]", "[2]", "0, 1", "0, 2", "1, 1", ", ellipsis_mask=1"),
			"f32[2,3,4,1]" },
		{ STRIDED("[2]", "[2]", "0, 1", "0, 2", "1, 1", ""), NULL },
		{ STRIDED("[?,5]", "[2]", "0, 1", "0, 3", "1, 1", ", end_mask=1"), "f32[?,2]" },
		{ X("[4,6]") INTS("b", "[2]", "1, 0") INTS(
			  "s", "[2]", "-1, 2") "%y = Slice(%x, %b, %s) {T=f32, Index=i32}",
			"f32[3,2]" },
		{ X("[4,6]") INTS("b", "[2]", "1, 0") INTS(
			  "s", "[2]", "4, 2") "%y = Slice(%x, %b, %s) {T=f32, Index=i32}",
			NULL },
		{ X("[4,6]") INTS("i", "[2,3]", "0, 1, 2, 3, 0, 1") INTS("k", "[]",
			  "1") "%y = GatherV2(%x, %i, %k) {Tparams=f32, Tindices=i32, Taxis=i32}",
			"f32[4,2,3]" },
		{ X("[4,6,7]") INTS("i", "[3,2]",
			  "0, 1, 2, 3, 0, 1") "%y = GatherNd(%x, %i) {Tparams=f32, Tindices=i32}",
			"f32[3,7]" },
		{ X("[4,6]") INTS("i", "[2,2]", "0, 1, 2, 3") "%y = Pad(%x, %i) {T=f32}",
			"f32[5,11]" },
		{ X("[4,6]") INTS("i", "[2,2]",
			  "0, 4, 2, 3") "%y = MirrorPad(%x, %i) {T=f32, mode=\"REFLECT\"}",
			NULL },
		{ X("[4,6]") INTS("i", "[2]", "2, 3") "%y = Tile(%x, %i) {T=f32}", "f32[8,18]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void images(void **state)
{
	static const struct test_case cases[] = {
		{ X("[1,2,3,8]") "%y = DepthToSpace(%x) {T=f32, block_size=2}", "f32[1,4,6,2]" },
		{ X("[1,4,6,2]") "%y = SpaceToDepth(%x) {T=f32, block_size=2}", "f32[1,2,3,8]" },
		{ X("[1,4,6,2]") "%y = SpaceToDepth(%x) {T=f32, block_size=3}", NULL },
		{ X("[2,5,7,3]") INTS("b", "[2]", "2, 2") INTS(
			  "p", "[2,2]", "1, 0, 0, 1") "%y = SpaceToBatchND(%x, %b, %p) {T=f32}",
			"f32[8,3,4,3]" },
		{ X("[8,3,4,3]") INTS("b", "[2]", "2, 2") INTS(
			  "p", "[2,2]", "1, 0, 0, 1") "%y = BatchToSpaceND(%x, %b, %p) {T=f32}",
			"f32[2,5,7,3]" },
		{ X("[1,4,6,2]") INTS("s", "[2]", "9, 8") "%y = ResizeBilinear(%x, %s) {T=f32}",
			"f32[1,9,8,2]" },
		{ X("[1,4,6,2]") INTS("s", "[3]", "9, 8, 7") "%y = ResizeBilinear(%x, %s) {T=f32}",
			NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void makers(void **state)
{
	static const struct test_case cases[] = {
		{ INTS("a", "[]", "2") INTS("b", "[]", "11")
				INTS("c", "[]", "3") "%y = Range(%a, %b, %c)",
			"i32[3]" },
		{ INTS("a", "[]", "2") INTS("c", "[]", "0") "%y = Range(%a, %a, %c)", NULL },
		{ INTS("s", "[2]", "2, 3") INTS("v", "[]", "0") "%y = Fill(%s, %v) {T=i32}",
			"i32[2,3]" },
		{ INTS("s", "[2]", "2, -3") INTS("v", "[]", "0") "%y = Fill(%s, %v) {T=i32}",
			NULL },
		{ INTS("s", "[2]", "2, 3") "%y = RandomUniform(%s) {T=i32, dtype=f32}",
			"f32[2,3]" },
		{ XI("[2,?]") INTS("d", "[]", "10") INTS(
			  "v", "[]", "1") "%y = OneHot(%x, %d, %v, %v) {T=i32, TI=i32, axis=1}",
			"i32[2,10,?]" },
		{ X("[1,3]") INTS("s", "[3]", "4, 2, 3") "%y = BroadcastTo(%x, %s) {T=f32}",
			"f32[4,2,3]" },
		{ X("[2,3]") INTS("s", "[3]", "4, 4, 3") "%y = BroadcastTo(%x, %s) {T=f32}", NULL },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

/* The batch is unknown, everything else is inferred. */
#define SHAPE(shape)                                                                               \
	X(shape)                                                                                   \
	"%s = Shape(%x) {T=f32} " INTS("z", "[1]", "0") INTS("o", "[1]", "1")                      \
		INTS("t", "[1]", "2") INTS("c2", "[]", "2") INTS("c0", "[]", "0")

static void shape_arithmetic(void **state)
{
	static const struct test_case cases[] = {
		{ SHAPE("[?,4,6]") "%n = StridedSlice(%s, %z, %o, %o) {T=i32, Index=i32, shrink_axis_mask=1} "
				   "%k = Mul(%c2, %c2) {T=i32} %six = AddV2(%k, %c2) {T=i32} "
				   "%p = Pack(%n, %k, %six) {T=i32, N=3} %y = Reshape(%x, %p) {T=f32}",
			"f32[?,4,6]" },
		{ SHAPE("[?,4,6]") "%h = Slice(%s, %o, %t) {T=i32, Index=i32} %q = Prod(%h, %c0) {T=i32} "
				   "%m = Pack(%q) {T=i32, N=1} %f = Slice(%s, %z, %o) {T=i32, Index=i32} "
				   "%p = ConcatV2(%f, %m, %c0) {T=i32, N=2} %y = Reshape(%x, %p) {T=f32}",
			"f32[?,24]" },
		{ SHAPE("[2,4,6]") "%g = GatherV2(%s, %t, %c0) {Tparams=i32, Tindices=i32, Taxis=i32} "
				   "%d = FloorDiv(%g, %t) {T=i32} %y = Fill(%d, %c2) {T=i32}",
			"i32[3]" },
		/* By way of floats, as in resizing of images. */
		{ SHAPE("[1,5,7]") "%h = Slice(%s, %o, %t) {T=i32, Index=i32} "
				   "%f = Cast(%h) {SrcT=i32, DstT=f32} "
				   "%half = Const() {dtype=f32, value=tensor f32[] {0.5}} "
				   "%m = Mul(%f, %half) {T=f32} %w = Floor(%m) {T=f32} "
				   "%i = Cast(%w) {SrcT=f32, DstT=i32} %y = Fill(%i, %c2) {T=i32}",
			"i32[2,3]" },
		{ SHAPE("[2,4,6]") "%u = Unpack(%s) {T=i32, num=3} %p = Pack(%u:2, %u:0) {T=i32, N=2} "
				   "%y = Fill(%p, %c2) {T=i32}",
			"i32[6,2]" },
		{ SHAPE("[2,4,6]") "%r = Rank(%x) {T=f32} %k = Sub(%r, %c2) {T=i32} "
				   "%y = ExpandDims(%x, %k) {T=f32}",
			"f32[2,1,4,6]" },
		{ SHAPE("[2,4,6]") "%r = ReverseV2(%s, %z) {T=i32, Tidx=i32} %y = Fill(%r, %c2) {T=i32}",
			"i32[6,4,2]" },
		{ SHAPE("[2,4,6]") "%b = StridedSlice(%s, %t, %z, %m1) {T=i32, Index=i32, end_mask=1} " INTS(
			  "m1", "[1]", "-1") "%y = Fill(%b, %c2) {T=i32}",
			"i32[6,4,2]" },
		{ SHAPE("[2,4,6]") "%q = Size(%x) {T=f32} %p = Pack(%q) {T=i32, N=1} "
				   "%y = Reshape(%x, %p) {T=f32}",
			"f32[48]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

static void symbols_stay(void **state)
{
	static const char text[] = "hir 1 dim d0 = name \"batch\" " SHAPE(
		"[d0,4,6]") "%n = StridedSlice(%s, %z, %o, %o) {T=i32, Index=i32, shrink_axis_mask=1} "
			    "%k = Mul(%c2, %c2) {T=i32} %six = AddV2(%k, %c2) {T=i32} "
			    "%p = Pack(%n, %six, %k) {T=i32, N=3} %r = Reshape(%x, %p) {T=f32} "
			    "%one = Const() {dtype=f32, value=tensor f32[1,1] {1.0}} %y = AddV2(%r, %one) {T=f32}";
	UNIT_ARENA(a);
	struct ht_graph *g;
	const struct ht_node *y;

	(void)state;
	assert_int_equal(ht_text_parse(&a, ht_str(text), "t", NULL, NULL, &g), HT_OK);
	assert_int_equal(ht_infer_types(g, NULL), HT_OK);
	y = ht_graph_node(g, HT_STR("y"));
	assert_int_equal(y->out[0].shape.rank, 3);
	assert_int_equal(y->out[0].shape.dim[0], -2);
	assert_int_equal(y->out[0].shape.dim[1], 6);
	ht_arena_release(&a);
}

static void loops_calls_and_state(void **state)
{
	static const struct test_case cases[] = {
		{ X("[2,3]") "%e = Enter(%x) {T=f32, frame_name=\"f\"} %y = Merge(%e, %n) {T=f32, N=2} "
			     "%n = NextIteration(%y) {T=f32}",
			"f32[*] i32[]" },
		{ X("[2,3]") "%b = Placeholder() {dtype=b1} %y = Switch(%x, %b) {T=f32}",
			"f32[2,3] f32[2,3]" },
		{ "%v = VarHandleOp() {dtype=f32, shape=shape[3,4]} %y = ReadVariableOp(%v) {dtype=f32}",
			"f32[3,4]" },
		{ "%y = VariableV2() {dtype=f32, shape=shape[3,4]}", "f32[3,4]" },
		{ X("[2]") "%y = PartitionedCall(%x) {Tin=[f32], Tout=[f32], f=@f{}} "
			   "function \"f\" { arg \"x\" = %x ret \"r\" = %r %x = _Arg() {T=f32, index=0} "
			   "%r = Const() {dtype=f32, value=tensor f32[2] {1.0, 2.0}} }",
			"f32[2]" },
		{ X("[2]") "%y = Unheard(%x) : f32[7]", "f32[7]" },
		{ "versions \"\\x08\\x15\" %y = Placeholder() {dtype=f32, shape=shape[]}",
			"f32[*]" },
		{ "versions \"\\x08\\x1b\" %y = Placeholder() {dtype=f32, shape=shape[]}",
			"f32[]" },
		{ "%y = Placeholder() {dtype=f32, shape=shape[?,2]} : f32[8,2]", "f32[8,2]" },
	};

	(void)state;
	check_all(cases, HT_COUNT(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elementwise),
		cmocka_unit_test(broadcasts),
		cmocka_unit_test(products),
		cmocka_unit_test(equations),
		cmocka_unit_test(windows),
		cmocka_unit_test(reductions),
		cmocka_unit_test(moves),
		cmocka_unit_test(slices),
		cmocka_unit_test(images),
		cmocka_unit_test(makers),
		cmocka_unit_test(shape_arithmetic),
		cmocka_unit_test(symbols_stay),
		cmocka_unit_test(loops_calls_and_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
