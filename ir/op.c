/* The op table: rows of ops.def with their signatures parsed, and lookup by name. */
#include "ir/ir.h"
#include "ir/infer.h"

#include <string.h>
#include <threads.h>

static struct ht_op_info table[HT_OP_END] = {
	[HT_OP_OPAQUE] = { .op = HT_OP_OPAQUE,
		.name = { "", 0 },
		.signature = "",
		.effects = HT_READS | HT_WRITES | HT_ORDERED,
		.infer = ht_infer_unknown,
		.lower_name = "no_kernel",
		.prec = HT_PREC_NONE,
		.test = "import",
		.meaning = "a type that the table does not list" },
#define OP(NAME, SIGNATURE, EFFECTS, TRAITS, INFER, PREC, LOWER, TEST, MEANING)                    \
	[HT_OP_##NAME] = { .op = HT_OP_##NAME,                                                     \
		.name = { #NAME, sizeof #NAME - 1 },                                               \
		.signature = (SIGNATURE),                                                          \
		.effects = (EFFECTS),                                                              \
		.infer = ht_infer_##INFER,                                                         \
		.lower_name = #LOWER,                                                              \
		.prec = HT_PREC_##PREC,                                                            \
		.test = (TEST),                                                                    \
		.meaning = (MEANING) },
#include "ir/ops.def"
#undef OP
};

const uint64_t ht_op_traits[HT_OP_END] = {
#define OP(NAME, SIGNATURE, EFFECTS, TRAITS, INFER, PREC, LOWER, TEST, MEANING)                    \
	[HT_OP_##NAME] = (TRAITS),
#include "ir/ops.def"
#undef OP
};

/* Traits that require others: a row with incomplete traits does not compile. */
#define IMPLIES(TRAITS, TRAIT, OTHERS) (!((TRAITS) & (TRAIT)) || ((TRAITS) & (OTHERS)))
#define ONE_BIT(BITS) ((BITS) && !((BITS) & ((BITS) - 1)))
#define COMPUTES(TRAITS) ((TRAITS) & (HT_BASIC | HT_FUNCTION | HT_COMPOSED))
#define FITS(TRAITS)                                                                               \
	((!((TRAITS) & HT_ELEMENTWISE) || ONE_BIT(COMPUTES(TRAITS))) &&                            \
		IMPLIES(TRAITS, HT_SHORTENS, HT_FUNCTION | HT_COMPOSED) &&                         \
		IMPLIES(TRAITS, HT_CASTS | HT_ADDS, HT_ELEMENTWISE) &&                             \
		IMPLIES(TRAITS, HT_GATHERS, HT_MOVES) &&                                           \
		IMPLIES(TRAITS, HT_HAS_DEFAULT | HT_ARGUMENT, HT_FED) &&                           \
		IMPLIES(TRAITS, HT_SHARES, HT_ROWS) &&                                             \
		IMPLIES(TRAITS, HT_REDUCES | HT_FINDS | HT_CONSTANT_LIKE,                          \
			UINT64_C(7) << HT_NUMBER_BIT) &&                                           \
		(!((TRAITS) & HT_CONTRACTS) || ONE_BIT((TRAITS) & HT_CONTRACTS)))
#define OP(NAME, SIGNATURE, EFFECTS, TRAITS, INFER, PREC, LOWER, TEST, MEANING)                    \
	_Static_assert(FITS((uint64_t)(TRAITS)), "traits of " #NAME " do not go together");
#include "ir/ops.def"
#undef OP

_Static_assert(HT_AXES_END <= 32 && HT_NUMBER_HIGHEST < 8, "fields of traits have room");

const char *ht_op_prec_name(enum ht_op_prec prec)
{
	static const char *const names[] = { "NONE", "LOW", "FOLLOW", "KEEP" };

	return names[prec];
}

/* A hash table with open addressing; a slot has an op number or 0.  A power of two, at most half
 * full. */
#define SLOTS 2048
_Static_assert(HT_OP_END * 2 <= SLOTS, "the table of names is too small");
static uint16_t slots[SLOTS];
static once_flag once = ONCE_FLAG_INIT;

/* ---- signatures: they are part of this library, so any error in one is a defect of it ---- */

static const char *skip_spaces(const char *p)
{
	while (*p == ' ')
		p++;
	return p;
}

static const char *read_word(const char *p, struct ht_str *word)
{
	word->p = p;
	word->n = strcspn(p, " :*&.;{}=|");
	HT_CHECK(word->n);
	return p + word->n;
}

static enum ht_dtype read_dtype(struct ht_str word)
{
	enum ht_dtype t = ht_dtype_named(word);

	HT_CHECK(t != HT_INVALID);
	return t;
}

#define BIT(t) (UINT64_C(1) << (t))
#define FLOAT_SET (BIT(HT_F32) | BIT(HT_F64) | BIT(HT_F16) | BIT(HT_BF16))
#define INDEX_SET (BIT(HT_I32) | BIT(HT_I64))
#define REAL_SET                                                                                   \
	(FLOAT_SET | INDEX_SET | BIT(HT_U8) | BIT(HT_I16) | BIT(HT_I8) | BIT(HT_U16) |             \
		BIT(HT_U32) | BIT(HT_U64))
#define NUM_SET (REAL_SET | BIT(HT_C64) | BIT(HT_C128) | BIT(HT_QI8) | BIT(HT_QU8) | BIT(HT_QI32))
#define ANY_SET (~UINT64_C(1))

static uint64_t read_set_member(struct ht_str word)
{
	if (ht_str_is(word, "any"))
		return ANY_SET;
	if (ht_str_is(word, "num"))
		return NUM_SET;
	if (ht_str_is(word, "real"))
		return REAL_SET;
	if (ht_str_is(word, "float"))
		return FLOAT_SET;
	if (ht_str_is(word, "index"))
		return INDEX_SET;
	return BIT(read_dtype(word));
}

static const char *read_type_attr(const char *p, struct ht_op_type_attr *a)
{
	struct ht_str word;

	p = read_word(p, &a->name);
	HT_CHECK(*p == '{');
	do {
		p = read_word(p + 1, &word);
		a->allowed |= read_set_member(word);
	} while (*p == '|');
	HT_CHECK(*p++ == '}');
	if (*p != '=')
		return p;
	p = read_word(p + 1, &word);
	a->fallback = read_dtype(word);
	return p;
}

static int find_type_attr(const struct ht_op_info *o, struct ht_str name)
{
	for (int i = 0; i < o->type_attrs; i++)
		if (ht_str_eq(o->type_attr[i].name, name))
			return i;
	return -1;
}

/* Reads NAME:TYPE, where TYPE is as the head of ops.def says. */
static const char *read_arg(const char *p, const struct ht_op_info *o, struct ht_op_arg *a)
{
	struct ht_str word;

	p = read_word(p, &a->name);
	HT_CHECK(*p == ':');
	p = read_word(p + 1, &word);
	a->number_default = -1;
	if (*p == '=' && p[1] == '0' && p[2] == '*') {
		a->number_default = 0;
		p += 2;
	}
	if (*p == '*') {
		a->number_attr = word;
		p = read_word(p + 1, &word);
	}
	a->type_attr = (int8_t)find_type_attr(o, word);
	if (a->type_attr < 0)
		a->fixed = read_dtype(word);
	if (*p == '&') {
		a->ref = true;
		p++;
	}
	if (*p == '.') {
		HT_CHECK(!strncmp(p, "...", 3));
		a->type_list = 1;
		p += 3;
	}
	return p;
}

static const char *read_args(const char *p, const char *end, const struct ht_op_info *o,
	struct ht_op_arg *arg, int *count)
{
	for (p = skip_spaces(p); p < end && strncmp(p, "->", 2); p = skip_spaces(p)) {
		HT_CHECK(*count < HT_MAX_ARGS);
		p = read_arg(p, o, &arg[(*count)++]);
	}
	return p;
}

static void parse_signature(struct ht_op_info *o)
{
	const char *attrs = strchr(o->signature, ';');
	const char *end = attrs ? attrs : o->signature + strlen(o->signature);
	const char *p;

	for (p = skip_spaces(attrs ? attrs + 1 : ""); *p; p = skip_spaces(p)) {
		HT_CHECK(o->type_attrs < HT_MAX_TYPE_ATTRS);
		p = read_type_attr(p, &o->type_attr[o->type_attrs++]);
	}
	p = read_args(o->signature, end, o, o->arg, &o->args);
	HT_CHECK(!strncmp(p, "->", 2));
	read_args(p + 2, end, o, o->result, &o->results);
}

/* FNV-1a, since the names are few and known. */
static uint32_t name_hash(struct ht_str s)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * 16777619u;
	return h;
}

static void prepare(void)
{
	for (int op = 1; op < HT_OP_END; op++) {
		uint32_t slot = name_hash(table[op].name) % SLOTS;

		parse_signature(&table[op]);
		while (slots[slot])
			slot = (slot + 1) % SLOTS;
		slots[slot] = (uint16_t)op;
	}
}

const struct ht_op_info *ht_op_info(enum ht_op op)
{
	HT_CHECK((unsigned)op < HT_OP_END);
	call_once(&once, prepare);
	return &table[op];
}

enum ht_op ht_op_named(struct ht_str type)
{
	uint32_t slot = name_hash(type) % SLOTS;

	call_once(&once, prepare);
	for (; slots[slot]; slot = (slot + 1) % SLOTS)
		if (ht_str_eq(table[slots[slot]].name, type))
			return (enum ht_op)slots[slot];
	return HT_OP_OPAQUE;
}

bool ht_is_image(const struct ht_node *n, int32_t i)
{
	if (ht_is(n, HT_CONV_FILTER))
		return i != 1;
	if (ht_is(n, HT_UNPOOLS))
		return ht_type_of(n->in[i])->shape.rank == 4;
	return i == ht_data_operand(n);
}

int32_t ht_named_argument(enum ht_op op, const char *name)
{
	const struct ht_op_info *info = ht_op_info(op);

	for (int32_t i = 0; i < info->args; i++)
		if (ht_str_is(info->arg[i].name, name))
			return i;
	return -1;
}

int32_t ht_gradient_argument(enum ht_op op)
{
	static const char *const names[] = { "gradients", "dy", "grad", "grads", "out_backprop",
		"y_backprop", "input_grads" };
	const struct ht_op_info *info = ht_op_info(op);

	for (int32_t i = 0; op != HT_OP_OPAQUE && i < info->args; i++) {
		for (size_t k = 0; k < HT_COUNT(names); k++)
			if (ht_str_is(info->arg[i].name, names[k]))
				return i;
		/* Range also has a "delta", which is no gradient. */
		if ((info->effects & HT_WRITES) && ht_str_is(info->arg[i].name, "delta"))
			return i;
	}
	return -1;
}
