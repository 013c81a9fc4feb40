/* Lowering of the ops that check data, CheckNumerics and Assert: a check that fails stops the run with
 * the op's message. */
#include "lower/index.h"
#include "lower/library.h"

#include <math.h>
#include <string.h>

/* ---- CheckNumerics: part of the kernel that makes its operand ---- */

/* x, with fault f raised where `good` is false at an element that this kernel must compute. */
static int32_t checked(
	struct ht_xb *b, const struct space *s, int32_t x, int32_t good, enum ht_fault f)
{
	if (s->guard >= 0)
		good = ht_xor(b, good, ht_xnot(b, s->guard));
	return ht_xcheck(b, x, good, f);
}

/* An operand in float16 or bfloat16 is checked after it was rounded to its dtype. */
static int32_t pull_check_numerics(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = n->out[out].dtype, as = compute_type(t);
	int32_t x = ht_xcvt(b, as, ht_xcvt(b, t, kb_operand(k, n, 0, s)));
	int32_t top = ht_xk(b, as, INFINITY), bottom = ht_xk(b, as, -INFINITY);

	x = checked(b, s, x, ht_xeq(b, x, x), HT_FAULT_NAN);
	x = checked(b, s, x, ht_xne(b, x, top), HT_FAULT_PLUS_INFINITY);
	return checked(b, s, x, ht_xne(b, x, bottom), HT_FAULT_MINUS_INFINITY);
}

const struct lower_op lower_check_numerics = {
	.family = FAMILY_MAP, .aligned = true, .checks = true, .pull = pull_check_numerics
};

static const char *text_of(struct ht_arena *a, struct ht_str s)
{
	return ht_str_printf(a, "%.*s", HT_STR_ARG(s)).p;
}

void lower_words(struct lower *l, const struct ht_node *sink, const struct ht_node *node)
{
	struct ht_words *w;

	if (!sink || l->owner[node->id] != sink || !lower_op_of(sink)->checks)
		return;
	w = HT_NEW(l->arena, struct ht_words);
	w->text = text_of(l->arena, ht_attr_str(sink, "message", ""));
	plan_words(l, w, 1);
	l->plan->step[l->plan->steps - 1].node = sink->name;
}

/* ---- Assert ---- */

/* The library kernel reads its first argument, the condition.  The data tensors are arguments too, so
 * that their memory still holds them when the message is made. */
enum { MOST_OPERANDS = 60 };

struct saying {
	struct lower *l;
	struct ht_words *words;
	size_t n;
	struct ht_buf text; /* of the next piece, as far as it has been built */
	uint64_t most;
};

/* Appends `s` escaped as in a string of C. */
static void put_escaped(struct ht_buf *b, struct ht_str s)
{
	static const char from[] = "\n\r\t\"'\\", to[] = "nrt\"'\\";

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		const char *known = c ? strchr(from, c) : NULL;

		if (known)
			ht_printf(b, "\\%c", to[known - from]);
		else if (c < ' ' || c >= 127)
			ht_printf(b, "\\%03o", c);
		else
			ht_putc(b, (char)c);
	}
}

static void say_strings(struct saying *s, const struct ht_tensor *t)
{
	uint64_t all = (uint64_t)ht_shape_count(t->shape), n = s->most < all ? s->most : all;

	for (uint64_t i = 0; i < n && t->values; i++) {
		if (i)
			ht_putc(&s->text, ' ');
		put_escaped(&s->text, t->strings[i < t->values ? i : t->values - 1]);
	}
	if (n < all)
		ht_puts(&s->text, "...");
}

static void end_piece(struct saying *s)
{
	s->words[s->n++].text = text_of(s->l->arena, ht_buf_str(&s->text));
	ht_buf_init(&s->text, s->l->scratch);
}

static void say_elements(struct saying *s, struct ht_type t, int32_t arg)
{
	struct ht_words *w = &s->words[s->n];

	if (!ht_shape_count(t.shape))
		return;
	*w = (struct ht_words){ .arg = (uint64_t)arg + 1,
		.dtype = t.dtype,
		.most = s->most,
		.rank = (size_t)t.shape.rank,
		.dim = HT_NEW_ARRAY(s->l->arena, int64_t, (size_t)t.shape.rank) };
	for (int32_t i = 0; i < t.shape.rank; i++)
		w->dim[i] = t.shape.dim[i];
	end_piece(s);
}

static struct saying begin_saying(struct lower *l, const struct ht_node *n)
{
	int64_t most = ht_attr_int(n, "summarize", 3);
	struct saying s = { .l = l,
		.words = HT_NEW_ARRAY(l->arena, struct ht_words, (size_t)n->ins + 1),
		.most = most < 0 ? UINT64_MAX : (uint64_t)most };

	ht_buf_init(&s.text, l->scratch);
	return s;
}

static bool is_text(const struct ht_node *n, int32_t i)
{
	return ht_type_of(n->in[i])->dtype == HT_STRING;
}

static enum ht_status emit_assertion(struct lower *l, struct ht_node *n)
{
	struct saying s = begin_saying(l, n);
	int32_t *buffer = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)n->ins);
	struct kernel_build k;

	for (int32_t i = 0; i < n->ins; i++)
		buffer[i] = is_text(n, i) ? -1 : dense_operand(l, n, i);
	library_kernel(&k, l, "assert", 1, 0);
	kb_arg(&k, buffer[0], HT_BUFFER_IN);
	for (int32_t i = 1; i < n->ins; i++) {
		ht_puts(&s.text, i > 1 ? " [" : "[");
		if (is_text(n, i))
			say_strings(&s, ht_const_text(n->in[i]));
		else
			say_elements(
				&s, *ht_type_of(n->in[i]), kb_arg(&k, buffer[i], HT_BUFFER_IN));
		ht_putc(&s.text, ']');
	}
	end_piece(&s);
	kb_finish(&k, n);
	plan_words(l, s.words, s.n);
	return HT_OK;
}

static const char *refuse_assertion(const struct ht_node *n)
{
	if (ht_shape_count(ht_type_of(n->in[0])->shape) != 1)
		return "has a condition that is not one truth value";
	return n->ins > MOST_OPERANDS ? "has more operands than a kernel takes" : NULL;
}

const struct lower_op lower_assertion = { .family = FAMILY_ROOT,
	.alone = true,
	.takes_text = true,
	.emit = emit_assertion,
	.refuse = refuse_assertion };
