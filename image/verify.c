/* Verifies that bytes are an image.  Each number is checked against the table that it refers to,
 * and each buffer against the bytes that a step touches.  The code is not recursive and
 * allocates nothing. */
#include "image/stop.h"
#include "image/verify.h"

#include "base/object.h"
#include "base/philox.h"
#include "image/execute.h"

#include <string.h>

enum { MAX_RANK = 64 };
/* Bytes of the head of an image without open sizes. */
#define HEAD offsetof(struct ht_image, table[HT_IMAGE_FIXED_TABLES])

/* A procedure, and the step of it that is being verified. */
struct place {
	const struct ht_image *x;
	const struct ht_image_procedure *p;
	const struct ht_image_buffer *buffer; /* the procedure's first, like all that follow */
	const uint32_t *arg;
	const struct ht_image_step *step;
	uint32_t at;
	uint32_t makes;       /* 1 + the derived buffer that the step helps to make; 0: none */
	uint32_t beside;      /* so many steps from this one on are calls side by side; */
	uint32_t beside_args; /* arguments of those before, */
	const struct ht_image_step *first; /* which begin with this one */
};

static bool in_table(const struct ht_image *x, enum ht_image_table t, uint32_t first, uint32_t n)
{
	return ht_inside(first, n, ht_image_count(x, t));
}

/* All texts end with a zero, since the last byte of the table must be one. */
static bool is_text(const struct ht_image *x, uint32_t at)
{
	return at < ht_image_count(x, HT_IMAGE_TEXTS);
}

/* ---- the head ---- */

static const uint32_t item_bytes[HT_IMAGE_TABLES] = { sizeof(struct ht_image_procedure),
	sizeof(struct ht_image_step), sizeof(struct ht_image_note), sizeof(struct ht_image_buffer),
	sizeof(uint32_t), sizeof(uint32_t), sizeof(int64_t), sizeof(struct ht_image_kernel),
	sizeof(struct ht_image_touch), sizeof(uint64_t), sizeof(struct ht_image_stream),
	sizeof(struct ht_image_variable), sizeof(struct ht_image_entry),
	sizeof(struct ht_image_port), sizeof(struct ht_image_words), sizeof(int64_t), 1, 1,
	sizeof(struct ht_image_size), sizeof(struct ht_image_expression),
	sizeof(struct ht_image_derivation), sizeof(struct ht_image_derived),
	sizeof(struct ht_image_source), sizeof(struct ht_image_object),
	sizeof(struct ht_image_place_of), sizeof(struct ht_image_reach) };

static const char *check_tables(const struct ht_image *x)
{
	uint64_t end = ht_image_head(x);

	if (x->bytes < end)
		return "it has no program image";
	for (uint32_t t = 0; t < ht_image_tables(x); t++) {
		uint64_t bytes = (uint64_t)x->table[t].count * item_bytes[t];

		if (x->table[t].offset < end || x->table[t].offset % 8 ||
			!ht_inside(x->table[t].offset, bytes, x->bytes))
			return "a table is outside of the program image";
		end = x->table[t].offset + bytes;
	}
	if (x->table[HT_IMAGE_DATA].offset % HT_IMAGE_ALIGN)
		return "a table is outside of the program image";
	return NULL;
}

static const char *check_head(struct ht_str bytes)
{
	const struct ht_image *x = (const void *)bytes.p;

	if (bytes.n < HEAD || memcmp(x->magic, HT_IMAGE_MAGIC, sizeof x->magic) != 0)
		return "it has no program image";
	if (x->version != HT_IMAGE_VERSION)
		return "its program image is of another version";
	if (x->features & ~(uint64_t)HT_IMAGE_FEATURES)
		return "its program image needs a feature that this version of Halftone lacks";
	if (x->bytes != bytes.n || x->bytes % HT_IMAGE_ALIGN)
		return "the program image has another size than it says";
	return check_tables(x);
}

/* ---- numbers in steps ---- */

static bool good_kernel(const struct ht_image *x, const struct ht_image_kernel *k)
{
	const struct ht_image_touch *touch = ht_image_touches(x) + k->touch;

	if (!is_text(x, k->name) || !in_table(x, HT_IMAGE_TOUCHES, k->touch, k->args) ||
		k->scratch_bytes > HT_IMAGE_MOST_BYTES)
		return false;
	for (uint32_t i = 0; i < k->args; i++)
		if (touch[i].written > HT_IMAGE_USES)
			return false;
		else if (touch[i].written == HT_IMAGE_USES &&
			 (touch[i].bytes > UINT32_MAX || !is_text(x, (uint32_t)touch[i].bytes) ||
				 touch[i].sized))
			return false;
	return true;
}

/* ---- objects ---- */

static bool good_object(const struct ht_image *x, const struct ht_image_object *o)
{
	if (!is_text(x, o->name) || !is_text(x, o->kind) || o->owner >= HT_IMAGE_OWNERS ||
		(o->owner == HT_IMAGE_OF_CONTEXT) !=
			!strcmp(ht_image_text(x, o->kind), HT_STRINGS_KIND) ||
		o->constants > HT_OBJECT_PARTS ||
		!in_table(x, HT_IMAGE_ARGS, o->constant, o->constants) ||
		!in_table(x, HT_IMAGE_PARAMS, o->param, o->params))
		return false;
	for (uint32_t i = 0; i < o->constants; i++)
		if (ht_image_args(x)[o->constant + i] >= ht_image_count(x, HT_IMAGE_CONSTANTS))
			return false;
	return true;
}

/* A session has one object of each name, and so has an image. */
static bool is_named_once(const struct ht_image *x, uint32_t object)
{
	const char *name = ht_image_text(x, ht_image_objects(x)[object].name);

	for (uint32_t i = 0; i < object; i++)
		if (!strcmp(name, ht_image_text(x, ht_image_objects(x)[i].name)))
			return false;
	return true;
}

/* A context has one object of strings, or none. */
static uint32_t objects_of_context(const struct ht_image *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_OBJECTS); i++)
		n += ht_image_objects(x)[i].owner == HT_IMAGE_OF_CONTEXT;
	return n;
}

static const char *check_objects(const struct ht_image *x)
{
	if (ht_image_count(x, HT_IMAGE_OBJECTS) > HT_IMAGE_MOST_OBJECTS)
		return "it has more objects than an image can have";
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_OBJECTS); i++)
		if (!good_object(x, &ht_image_objects(x)[i]) || !is_named_once(x, i))
			return "an object is not described";
	return objects_of_context(x) != ((x->features & HT_IMAGE_STRINGS) != 0)
		       ? "it does not have one object of strings where it says that it has strings"
		       : NULL;
}

/* ---- sizes ---- */

/* Stores the largest value of all sizes, or the least. */
static void get_bounds(const struct ht_image *x, bool most, int64_t at[HT_IMAGE_MOST_SIZES])
{
	const struct ht_image_size *s = ht_image_sizes(x);

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SIZES); i++)
		at[i] = most ? s[i].most : s[i].least;
}

static bool is_bound(const struct ht_image *x, const struct ht_size_expr *e, bool most, int64_t n)
{
	int64_t at[HT_IMAGE_MOST_SIZES], value;

	get_bounds(x, most, at);
	return ht_size_checked(e, at, &value) && value == n;
}

/* Whether the size follows from one that the host states or that is derived itself, and its
 * bounds follow from the bounds of that size. */
static bool good_derivation(const struct ht_image *x, const struct ht_image_derivation *d)
{
	const struct ht_image_size *size = &ht_image_sizes(x)[d->size];
	struct ht_size_expr e;

	if (d->of >= d->size || d->factor < 1 || d->factor > INT32_MAX || d->divisor < 1 ||
		d->add > INT32_MAX || d->add < INT32_MIN ||
		ht_image_sizes(x)[d->of].kind == HT_IMAGE_BY_STEP)
		return false;
	e = ht_image_derivation_of(d);
	return is_bound(x, &e, false, size->least) && is_bound(x, &e, true, size->most);
}

/* Whether there is one derivation for each derived size, in the order of these. */
static bool good_derivations(const struct ht_image *x)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SIZES); i++) {
		if (ht_image_sizes(x)[i].kind != HT_IMAGE_BY_SIZE)
			continue;
		if (n == ht_image_count(x, HT_IMAGE_DERIVATIONS) ||
			ht_image_derivations(x)[n].size != i ||
			!good_derivation(x, &ht_image_derivations(x)[n++]))
			return false;
	}
	return n == ht_image_count(x, HT_IMAGE_DERIVATIONS);
}

/* Whether item i is a number times a quotient or, together with the items behind it, a product
 * of sizes in the proper form. */
static bool good_expression(const struct ht_image *x, uint32_t i)
{
	const struct ht_image_expression *e = &ht_image_expressions(x)[i];
	struct ht_size_expr others, all;

	if (e->size >= ht_image_count(x, HT_IMAGE_SIZES) || e->factor < 0 ||
		e->factor > (int64_t)HT_IMAGE_MOST_BYTES || e->divisor < 1 || e->times > i)
		return false;
	if (!e->times)
		return true;
	others = ht_image_expression_of(x, e->times - 1);
	all = ht_size_product(ht_image_item_of(e), others);
	return ht_size_count(&others) < HT_SIZE_FACTORS && !ht_size_is_none(&all);
}

static const char *check_sizes(const struct ht_image *x)
{
	if (ht_image_count(x, HT_IMAGE_SIZES) > HT_IMAGE_MOST_SIZES)
		return "it has more sizes than an image can have";
	if ((ht_image_count(x, HT_IMAGE_SIZES) && !(x->features & HT_IMAGE_OPEN)) ||
		(ht_image_count(x, HT_IMAGE_DERIVATIONS) && !(x->features & HT_IMAGE_DERIVED)))
		return "it has sizes without saying so";
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SIZES); i++) {
		const struct ht_image_size *s = &ht_image_sizes(x)[i];

		if (!is_text(x, s->name) || s->least < 0 || s->most < s->least ||
			s->most > INT32_MAX || s->kind >= HT_IMAGE_SIZE_KINDS)
			return "a size is not described";
		if (s->kind == HT_IMAGE_BY_STEP && !(x->features & HT_IMAGE_COMPUTED))
			return "it computes sizes without saying so";
	}
	if (!good_derivations(x))
		return "a size does not follow from another as it says";
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_EXPRESSIONS); i++) {
		if (!good_expression(x, i))
			return "an expression has a size that is not there";
		if (ht_image_expressions(x)[i].times && !(x->features & HT_IMAGE_SIZED))
			return "it has products of sizes without saying so";
	}
	return NULL;
}

static bool is_expression(const struct ht_image *x, uint32_t i)
{
	return i < ht_image_count(x, HT_IMAGE_EXPRESSIONS);
}

/* The value for the largest sizes, or for the least; UINT64_MAX if it is too large. */
static uint64_t extreme_of(const struct ht_image *x, uint32_t i, bool most)
{
	const struct ht_size_expr e = ht_image_expression_of(x, i);
	int64_t at[HT_IMAGE_MOST_SIZES], value;

	get_bounds(x, most, at);
	return ht_size_checked(&e, at, &value) ? (uint64_t)value : UINT64_MAX;
}

static uint64_t most_of(const struct ht_image *x, uint32_t i)
{
	return extreme_of(x, i, true);
}

static uint64_t least_of(const struct ht_image *x, uint32_t i)
{
	return extreme_of(x, i, false);
}

/* NONE: the number is not an extent. */
static struct ht_size_expr extent_of(const struct ht_image *x, int64_t extent)
{
	if (extent >= 0)
		return ht_size_number(extent);
	if (-1 - extent > UINT32_MAX || !is_expression(x, (uint32_t)(-1 - extent)))
		return HT_SIZE_NONE;
	return ht_image_expression_of(x, (uint32_t)(-1 - extent));
}

/* Whether one product is at most the other for all sizes. */
static bool is_inside(struct ht_size_expr a, struct ht_size_expr of)
{
	a = ht_size_canonical(a);
	of = ht_size_canonical(of);
	return ht_size_is_product(&a) && ht_size_is_product(&of) &&
	       ((ht_size_same_sizes(&a, &of) && a.times <= of.times) || a.times == 0);
}

/* The largest value of an extent; UINT64_MAX: it is not an extent. */
static uint64_t most_extent(const struct ht_image *x, int64_t extent)
{
	if (extent >= 0)
		return (uint64_t)extent;
	if (-1 - extent > UINT32_MAX || !is_expression(x, (uint32_t)(-1 - extent)))
		return UINT64_MAX;
	return most_of(x, (uint32_t)(-1 - extent));
}

/* Whether so many bytes hold the elements of a type at the largest sizes. */
static bool good_type(
	const struct ht_image *x, uint32_t dtype, uint32_t dim, uint32_t rank, uint64_t bytes)
{
	uint64_t n;

	if (dtype >= HT_REF || rank > MAX_RANK || !in_table(x, HT_IMAGE_DIMS, dim, rank))
		return false;
	n = ht_exec_element_bytes(dtype);
	for (uint32_t i = 0; i < rank; i++) {
		uint64_t most = most_extent(x, ht_image_dims(x)[dim + i]);

		if (most == UINT64_MAX || __builtin_mul_overflow(n, most, &n))
			return false;
	}
	return n == bytes;
}

static bool has_open(const struct ht_image *x, uint32_t dim, uint32_t rank)
{
	for (uint32_t i = 0; i < rank && in_table(x, HT_IMAGE_DIMS, dim, rank); i++)
		if (ht_image_dims(x)[dim + i] < 0)
			return true;
	return false;
}

static bool good_begin(const struct ht_image *x, const struct ht_image_variable *v)
{
	if (v->constant == HT_IMAGE_NO_VALUE)
		return true;
	return v->constant < ht_image_count(x, HT_IMAGE_CONSTANTS) &&
	       ht_image_constants(x)[v->constant] == v->bytes;
}

/* Variables follow each other without gaps, and each has either a constant of its size as its
 * first value or none. */
static const char *check_variables(const struct ht_image *x)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_VARIABLES); i++) {
		const struct ht_image_variable *v = &ht_image_variables(x)[i];

		if (!is_text(x, v->name) || has_open(x, v->dim, v->rank) || v->dtype == HT_STRING ||
			!good_type(x, v->dtype, v->dim, v->rank, v->bytes) || !good_begin(x, v) ||
			v->use > (HT_IMAGE_NEEDS | HT_IMAGE_ASSIGNS))
			return "a variable is not described";
		if (v->offset < end || v->offset % HT_IMAGE_ALIGN ||
			!ht_inside(v->offset, v->bytes, HT_IMAGE_MOST_BYTES))
			return "a variable is outside of its memory";
		end = v->offset + v->bytes;
	}
	return NULL;
}

/* ---- derived buffers ---- */

static bool good_source(const struct ht_image *x, const struct ht_image_source *s)
{
	if (s->kind == HT_IMAGE_VARIABLE)
		return s->number < ht_image_count(x, HT_IMAGE_VARIABLES);
	return s->kind == HT_IMAGE_PARAM && ht_image_count(x, HT_IMAGE_ENTRIES) == 1 &&
	       s->number < ht_image_entries(x)->inputs;
}

/* Derived buffers follow each other without gaps, and so do their sources. */
static const char *check_derived(const struct ht_image *x)
{
	uint64_t end = 0;
	uint32_t sources = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS); i++) {
		const struct ht_image_derived *d = &ht_image_deriveds(x)[i];

		if (d->source != sources || !d->sources ||
			!in_table(x, HT_IMAGE_SOURCES, d->source, d->sources))
			return "a derived buffer has no sources";
		if (d->offset != end || d->bytes % HT_IMAGE_ALIGN ||
			!ht_inside(d->offset, d->bytes, HT_IMAGE_MOST_BYTES))
			return "a derived buffer is outside of its memory";
		sources += d->sources;
		end += d->bytes;
	}
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SOURCES); i++)
		if (!good_source(x, &ht_image_sources(x)[i]))
			return "a derived buffer is made from what is neither a variable nor an "
			       "input";
	return NULL;
}

static bool is_source_among(const struct ht_image *x, uint32_t first, uint32_t n,
	enum ht_image_kind kind, uint32_t number)
{
	const struct ht_image_source *s = ht_image_sources(x) + first;

	for (uint32_t i = 0; i < n; i++)
		if (s[i].kind == kind && s[i].number == number)
			return true;
	return false;
}

/* ---- places of temporary buffers ---- */

static bool good_reach(const struct ht_image *x, const struct ht_image_reach *r)
{
	return r->add <= HT_IMAGE_MOST_BYTES &&
	       (!r->sized || (is_expression(x, r->sized - 1) &&
				     most_of(x, r->sized - 1) <= HT_IMAGE_MOST_BYTES));
}

/* Whatever the sizes are. */
static uint64_t least_reach(const struct ht_image *x, const struct ht_image_reach *r)
{
	return r->add + (r->sized ? least_of(x, r->sized - 1) : 0);
}

/* Whether one is no more than the other, whatever the sizes are. */
static bool reaches_inside(
	const struct ht_image *x, const struct ht_image_reach *r, const struct ht_image_reach *of)
{
	return r->add <= of->add &&
	       (!r->sized || (of->sized && is_inside(ht_image_expression_of(x, r->sized - 1),
						   ht_image_expression_of(x, of->sized - 1))));
}

static uint64_t end_of(const struct ht_image_place_of *p)
{
	return p->offset + p->bytes;
}

/* Sorted, and so are the numbers of them by where they end: then each is among these once. */
static bool good_place(const struct ht_image *x, uint32_t i)
{
	const struct ht_image_place_of *all = ht_image_places(x), *p = &all[i];
	uint64_t before, end;

	if (!p->bytes || p->offset % HT_IMAGE_ALIGN ||
		!ht_inside(p->offset, p->bytes, HT_IMAGE_MOST_BYTES) || !good_reach(x, &p->reach) ||
		p->ends >= ht_image_count(x, HT_IMAGE_PLACES))
		return false;
	if (!i)
		return true;
	before = end_of(&all[p[-1].ends]);
	end = end_of(&all[p->ends]);
	return p[-1].offset <= p->offset &&
	       (before < end || (before == end && p[-1].ends < p->ends));
}

static bool good_places(const struct ht_image *x)
{
	uint32_t reaches = ht_image_count(x, HT_IMAGE_REACHES);
	bool good = !(x->features & HT_IMAGE_PLACED) ||
		    (ht_image_count(x, HT_IMAGE_PLACES) &&
			    reaches == ht_image_count(x, HT_IMAGE_TOUCHES) &&
			    ht_image_count(x, HT_IMAGE_ENTRIES) == 1);

	for (uint32_t i = 0; i < reaches && good; i++)
		good = good_reach(x, &ht_image_reaches(x)[i]);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_PLACES) && good; i++)
		good = good_place(x, i);
	return good;
}

static const char *check_things(const struct ht_image *x)
{
	const char *text = ht_image_texts(x);
	uint32_t n = ht_image_count(x, HT_IMAGE_TEXTS);

	if (!n || text[0] || text[n - 1])
		return "its texts do not end";
	if (ht_image_count(x, HT_IMAGE_NOTES) != ht_image_count(x, HT_IMAGE_STEPS))
		return "it has not one note a step";
	if (!ht_image_count(x, HT_IMAGE_ENTRIES))
		return "it has no entry";
	if (ht_image_count(x, HT_IMAGE_RANDOM) && !(x->features & HT_IMAGE_STREAMS))
		return "it has random streams without saying so";
	if (ht_image_count(x, HT_IMAGE_VARIABLES) && !(x->features & HT_IMAGE_HAS_VARIABLES))
		return "it has variables without saying so";
	if (ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS) && !(x->features & HT_IMAGE_DERIVES))
		return "it has derived buffers without saying so";
	if (check_sizes(x))
		return check_sizes(x);
	if (check_objects(x))
		return check_objects(x);
	if (!good_places(x))
		return "a buffer is outside of its memory";
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		if (!good_kernel(x, &ht_image_kernels(x)[i]))
			return "a kernel is not described";
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_CONSTANTS); i++)
		if (ht_image_constants(x)[i] > HT_IMAGE_MOST_BYTES)
			return "a constant is larger than any can be";
	return check_variables(x) ? check_variables(x) : check_derived(x);
}

/* ---- buffers ---- */

/* The place of a temporary buffer, which has as much room as it needs. */
static bool good_place_of(const struct place *a, const struct ht_image_buffer *b)
{
	const struct ht_image_place_of *p = ht_image_places(a->x) + b->number;

	return !ht_image_is_placed(a->x, a->p) ||
	       (b->number < ht_image_count(a->x, HT_IMAGE_PLACES) &&
		       (!b->bytes || (p->offset == b->offset && p->bytes == b->bytes)));
}

static bool good_buffer(const struct place *a, uint32_t i)
{
	const struct ht_image_buffer *b = &a->buffer[i];

	if ((b->kind == HT_IMAGE_PARAM) != (i < a->p->params))
		return false;
	if (b->sized && (b->kind != HT_IMAGE_PARAM || !is_expression(a->x, b->sized - 1) ||
				most_of(a->x, b->sized - 1) != b->bytes))
		return false;
	switch (b->kind) {
	case HT_IMAGE_PARAM:
		return b->number == i && b->bytes <= HT_IMAGE_MOST_BYTES;
	case HT_IMAGE_TEMP:
		return b->offset % HT_IMAGE_ALIGN == 0 &&
		       ht_inside(b->offset, b->bytes, a->p->frame_bytes) && good_place_of(a, b);
	case HT_IMAGE_CONST:
		return b->number < ht_image_count(a->x, HT_IMAGE_CONSTANTS) &&
		       b->bytes <= ht_image_constants(a->x)[b->number];
	case HT_IMAGE_STREAM:
		return b->number < ht_image_count(a->x, HT_IMAGE_RANDOM) &&
		       b->bytes == sizeof(struct ht_philox);
	case HT_IMAGE_VARIABLE:
		return b->number < ht_image_count(a->x, HT_IMAGE_VARIABLES) &&
		       b->bytes <= ht_image_variables(a->x)[b->number].bytes;
	case HT_IMAGE_DERIVED_BUFFER:
		return b->number < ht_image_count(a->x, HT_IMAGE_DERIVED_BUFFERS) &&
		       b->offset % HT_IMAGE_ALIGN == 0 &&
		       b->offset >= ht_image_deriveds(a->x)[b->number].offset &&
		       ht_inside(b->offset - ht_image_deriveds(a->x)[b->number].offset, b->bytes,
			       ht_image_deriveds(a->x)[b->number].bytes);
	case HT_IMAGE_OBJECT:
		return b->number < ht_image_count(a->x, HT_IMAGE_OBJECTS) && !b->bytes;
	default:
		return false;
	}
}

/* Whether the patched arguments are exactly those that are parameters. */
static bool good_patches(const struct place *a)
{
	const uint32_t *patch = ht_image_patches(a->x) + a->p->patch;
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->p->args; i++) {
		if (a->arg[i] >= a->p->params)
			continue;
		if (n == a->p->patches || patch[n++] != i)
			return false;
	}
	return n == a->p->patches;
}

/* ---- steps ---- */

static const struct ht_image_buffer *argument(const struct place *a, uint32_t i)
{
	return &a->buffer[a->arg[a->step->arg + i]];
}

/* Bytes of an argument that exist for all sizes. */
static uint64_t bytes_of(const struct place *a, uint32_t i)
{
	const struct ht_image_buffer *b = argument(a, i);
	uint64_t least = b->bytes;

	if (b->sized)
		least = least_of(a->x, b->sized - 1);
	else if (b->kind == HT_IMAGE_TEMP && ht_image_is_placed(a->x, a->p))
		least = least_reach(a->x, &ht_image_places(a->x)[b->number].reach);
	return least < b->bytes ? least : b->bytes;
}

/* Steps that make a derived buffer may write to it and to temporary memory.  No step may write
 * to a source of derived buffers. */
static bool may_write(const struct place *a, const struct ht_image_buffer *b)
{
	switch (b->kind) {
	case HT_IMAGE_PARAM:
		return b->written && !a->makes;
	case HT_IMAGE_CONST:
	case HT_IMAGE_OBJECT:
		return false;
	case HT_IMAGE_DERIVED_BUFFER:
		return a->makes == b->number + 1;
	case HT_IMAGE_VARIABLE:
		return !is_source_among(a->x, 0, ht_image_count(a->x, HT_IMAGE_SOURCES),
			HT_IMAGE_VARIABLE, b->number);
	default:
		return true;
	}
}

/* A step without parameters passes the sizes of the run. */
static bool good_params(const struct place *a, const struct ht_image_kernel *k)
{
	return a->step->params == k->params ||
	       (!a->step->params && a->x->features & HT_IMAGE_SIZED &&
		       k->params <= ht_image_count(a->x, HT_IMAGE_SIZES));
}

/* Whether a buffer is an object of the kind that the text says. */
static bool is_object(const struct ht_image *x, const struct ht_image_buffer *b, uint32_t kind)
{
	return b->kind == HT_IMAGE_OBJECT &&
	       !strcmp(ht_image_text(x, ht_image_objects(x)[b->number].kind),
		       ht_image_text(x, kind));
}

/* A temporary buffer that a run places has what the kernel reaches at the sizes of the run. */
static bool good_reach_of(const struct place *a, uint32_t i, const struct ht_image_touch *touch)
{
	const struct ht_image_buffer *b = argument(a, i);

	if (b->kind != HT_IMAGE_TEMP || !ht_image_is_placed(a->x, a->p) ||
		touch->bytes <= bytes_of(a, i))
		return true;
	return !a->step->params &&
	       reaches_inside(a->x, &ht_image_reaches(a->x)[touch - ht_image_touches(a->x)],
		       &ht_image_places(a->x)[b->number].reach);
}

static bool good_touch(const struct place *a, uint32_t i, const struct ht_image_touch *touch)
{
	const struct ht_image_buffer *b = argument(a, i);
	uint64_t most;

	if (touch->written == HT_IMAGE_USES || b->kind == HT_IMAGE_OBJECT)
		return touch->written == HT_IMAGE_USES &&
		       is_object(a->x, b, (uint32_t)touch->bytes);
	if (touch->sized &&
		(!(a->x->features & HT_IMAGE_SIZED) || !is_expression(a->x, touch->sized - 1)))
		return false;
	if (touch->sized && b->sized)
		return is_inside(ht_image_expression_of(a->x, touch->sized - 1),
			ht_image_expression_of(a->x, b->sized - 1));
	most = touch->sized ? most_of(a->x, touch->sized - 1) : touch->bytes;
	return b->kind == HT_IMAGE_TEMP ? most <= b->bytes && good_reach_of(a, i, touch)
					: most <= bytes_of(a, i);
}

static const char *check_kernel(const struct place *a)
{
	const struct ht_image_kernel *k;
	const struct ht_image_touch *touch;

	if (a->step->to >= ht_image_count(a->x, HT_IMAGE_KERNELS))
		return "a step has a kernel that is not there";
	k = &ht_image_kernels(a->x)[a->step->to];
	touch = ht_image_touches(a->x) + k->touch;
	if (a->step->args != k->args || !good_params(a, k))
		return "a step gives its kernel other arguments than it takes";
	if (a->step->count < 1 || a->step->count > INT32_MAX)
		return "a step has no tile, or more than there can be";
	for (uint32_t i = 0; i < k->args; i++)
		if (!good_touch(a, i, &touch[i]) ||
			(touch[i].written && touch[i].written != HT_IMAGE_USES &&
				!may_write(a, argument(a, i))))
			return "a kernel touches more than its buffer";
	return NULL;
}

static bool good_copy(const struct place *a)
{
	int64_t n;

	if (a->step->args != 2 || a->step->params != 1)
		return false;
	n = ht_image_params(a->x)[a->step->param];
	return n >= 0 && (uint64_t)n <= bytes_of(a, 0) && (uint64_t)n <= bytes_of(a, 1) &&
	       may_write(a, argument(a, 0));
}

/* Whether parameter `to` of a callee fits into argument i, when instances are `stride` bytes
 * apart.  Instances that run at the same time must not write to the same memory. */
static bool good_pass(const struct place *a, uint32_t i, const struct ht_image_buffer *to,
	int64_t stride, uint32_t instances)
{
	uint64_t all;

	if (stride < 0 || to->sized ||
		__builtin_mul_overflow((uint64_t)stride, instances - 1, &all) ||
		!ht_inside(all, to->bytes, bytes_of(a, i)))
		return false;
	return !to->written ||
	       (may_write(a, argument(a, i)) && (instances == 1 || (uint64_t)stride >= to->bytes));
}

/* Whether all instances of a spread step stay inside an argument.  There are f * (size / d) instances and the
 * argument has F bytes for each unit of the size, so f * stride <= F * d has to hold. */
static bool good_spread_pass(
	const struct place *a, uint32_t i, const struct ht_image_buffer *to, int64_t stride)
{
	const struct ht_image_buffer *b = argument(a, i);
	struct ht_size_expr end, all;
	uint64_t taken, given;

	if (to->sized || stride < 0)
		return false;
	if (!b->sized)
		return stride == 0 && to->bytes <= b->bytes && !to->written;
	end = ht_image_expression_of(a->x, a->step->count + 1);
	all = ht_image_expression_of(a->x, b->sized - 1);
	if (__builtin_mul_overflow((uint64_t)end.times, (uint64_t)stride, &taken) ||
		__builtin_mul_overflow((uint64_t)all.times, (uint64_t)end.divisor, &given))
		return false;
	return ht_size_same_sizes(&all, &end) && ht_size_count(&all) == 1 && all.divisor == 1 &&
	       to->bytes <= (uint64_t)stride && taken <= given && (!to->written || may_write(a, b));
}

static bool good_instances(const struct place *a)
{
	const struct ht_image_step *s = a->step;

	if (s->op == HT_IMAGE_FORK)
		return s->count && s->count <= INT32_MAX;
	return s->op != HT_IMAGE_SPREAD ||
	       (s->count < UINT32_MAX && is_expression(a->x, s->count + 1) &&
		       most_of(a->x, s->count) <= INT32_MAX &&
		       most_of(a->x, s->count + 1) <= INT32_MAX);
}

static const char *check_call(const struct place *a)
{
	const struct ht_image_procedure *to;
	const int64_t *stride = ht_image_params(a->x) + a->step->param;
	bool forks = a->step->op != HT_IMAGE_CALL;

	if (a->step->to >= ht_image_count(a->x, HT_IMAGE_PROCEDURES))
		return "a step calls a procedure that is not there";
	to = &ht_image_procedures(a->x)[a->step->to];
	if ((to->steps && ht_image_steps(a->x)[to->step].op == HT_IMAGE_FRESH) ||
		ht_image_is_placed(a->x, to))
		return "a step calls a procedure that only an entry may have";
	if (a->step->args != to->params || a->step->params != (forks ? to->params : 0) ||
		!good_instances(a))
		return "a call has other arguments than its procedure has parameters";
	for (uint32_t i = 0; i < to->params; i++) {
		const struct ht_image_buffer *param = &ht_image_buffers(a->x)[to->buffer + i];

		if (!(a->step->op == HT_IMAGE_SPREAD ? good_spread_pass(a, i, param, stride[i])
						     : good_pass(a, i, param, forks ? stride[i] : 0,
							       forks ? a->step->count : 1)))
			return "an argument of a call is smaller than the parameter";
	}
	return NULL;
}

/* ---- calls side by side ---- */

static bool overlap(const struct ht_image_buffer *a, const struct ht_image_buffer *b)
{
	if (a->kind != HT_IMAGE_TEMP || b->kind != HT_IMAGE_TEMP)
		return a->kind == b->kind && a->number == b->number;
	return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool is_written(const struct place *a, const struct ht_image_step *call, uint32_t i)
{
	return ht_image_buffers(a->x)[ht_image_procedures(a->x)[call->to].buffer + i].written;
}

/* Whether none of two calls writes to memory that is given to the other one. */
static bool are_apart(
	const struct place *a, const struct ht_image_step *one, const struct ht_image_step *other)
{
	for (uint32_t i = 0; i < one->args; i++)
		for (uint32_t k = 0; k < other->args; k++)
			if ((is_written(a, one, i) || is_written(a, other, k)) &&
				overlap(&a->buffer[a->arg[one->arg + i]],
					&a->buffer[a->arg[other->arg + k]]))
				return false;
	return true;
}

/* The step follows a step BESIDE, as those before it from a->first on, and is good as they are. */
static bool good_one_beside(struct place *a)
{
	a->beside_args +=
		a->step->args + 1; /* few, so that to compare each with each takes little time */
	if (a->step->op != HT_IMAGE_CALL || a->beside_args > HT_IMAGE_MOST_BESIDE)
		return false;
	for (const struct ht_image_step *s = a->first; s < a->step; s++)
		if (!are_apart(a, s, a->step))
			return false;
	return true;
}

/* Whether the step may begin calls side by side, or be one of those that began. */
static bool good_beside(struct place *a)
{
	if (a->beside) {
		a->beside--;
		return good_one_beside(a);
	}
	if (a->step->op != HT_IMAGE_BESIDE)
		return true;
	a->beside = a->step->count;
	a->first = a->step + 1;
	a->beside_args = 0;
	return a->x->features & HT_IMAGE_BESIDES && a->beside >= 2;
}

/* A jump goes forward, and into no loop. */
static bool good_target(const struct place *a)
{
	const struct ht_image_step *s = a->step - a->at;
	uint32_t to = a->step->to, within = a->step->loop;

	if (to <= a->at || to > a->p->steps)
		return false;
	if (to == a->p->steps || !s[to].loop)
		return true;
	while (within && within != s[to].loop)
		within = s[within - 1].loop;
	return within;
}

static bool good_again(const struct place *a)
{
	const struct ht_image_step *s = a->step - a->at;

	return a->step->loop && a->step->to == a->step->loop - 1 &&
	       a->step->count == s[a->step->to].count;
}

static bool good_control(const struct place *a)
{
	const struct ht_image_step *s = a->step;

	if (s->params || s->args != (s->op == HT_IMAGE_UNLESS))
		return false;
	switch (s->op) {
	case HT_IMAGE_UNLESS:
		return (s->count == 1 || s->count == 4 || s->count == 8) &&
		       bytes_of(a, 0) >= s->count && good_target(a);
	case HT_IMAGE_JUMP:
		return good_target(a);
	case HT_IMAGE_LOOP:
		return s->count < a->p->loops;
	case HT_IMAGE_AGAIN:
		return good_again(a);
	default:
		return s->op == HT_IMAGE_FAIL && s->count >= 1 && s->count <= 15;
	}
}

static bool good_size(const struct place *a)
{
	const struct ht_image_step *s = a->step;

	return s->to < ht_image_count(a->x, HT_IMAGE_SIZES) &&
	       ht_image_sizes(a->x)[s->to].kind == HT_IMAGE_BY_STEP && s->args == 1 && !s->params &&
	       bytes_of(a, 0) >= sizeof(int64_t);
}

/* Whether a derived buffer may be made from this memory: its sources, constants, itself, or
 * temporary memory. */
static bool good_ingredient(const struct place *a, const struct ht_image_buffer *b)
{
	const struct ht_image_derived *d = &ht_image_deriveds(a->x)[a->makes - 1];

	if (b->kind == HT_IMAGE_PARAM || b->kind == HT_IMAGE_VARIABLE)
		return is_source_among(
			a->x, d->source, d->sources, (enum ht_image_kind)b->kind, b->number);
	return b->kind == HT_IMAGE_TEMP || b->kind == HT_IMAGE_CONST ||
	       (b->kind == HT_IMAGE_DERIVED_BUFFER && b->number == a->makes - 1);
}

static bool good_making(const struct place *a)
{
	if (a->step->op != HT_IMAGE_KERNEL && a->step->op != HT_IMAGE_COPY)
		return false;
	for (uint32_t i = 0; i < a->step->args; i++)
		if (!good_ingredient(a, argument(a, i)))
			return false;
	return true;
}

/* Whether the steps that make derived buffers are the procedure's first, in the order of the
 * buffers. */
static bool good_fresh(const struct place *a)
{
	const struct ht_image_step *s = a->step;
	uint32_t n = ht_image_count(a->x, HT_IMAGE_DERIVED_BUFFERS);

	return !s->args && !s->params && s->count < n && s->to > a->at + 1 &&
	       s->to <= a->p->steps && s[s->to - a->at - 1].op == HT_IMAGE_MADE &&
	       s[s->to - a->at - 1].count == s->count &&
	       (a->at ? s[-1].op == HT_IMAGE_MADE && s[-1].count + 1 == s->count : !s->count);
}

static bool good_made(const struct place *a)
{
	return !a->step->args && !a->step->params && a->makes == a->step->count + 1;
}

static const char *check_step(const struct place *a)
{
	if (!ht_inside(a->step->arg, a->step->args, a->p->args) ||
		!in_table(a->x, HT_IMAGE_PARAMS, a->step->param, a->step->params))
		return "a step has arguments that are not there";
	switch (a->step->op) {
	case HT_IMAGE_KERNEL:
		return check_kernel(a);
	case HT_IMAGE_COPY:
		return good_copy(a) ? NULL : "a copy is larger than its buffers";
	case HT_IMAGE_CALL:
	case HT_IMAGE_FORK:
	case HT_IMAGE_SPREAD:
		return check_call(a);
	case HT_IMAGE_SIZE:
		return good_size(a) ? NULL : "a step computes a size that is none";
	case HT_IMAGE_FRESH:
		return good_fresh(a) ? NULL : "a derived buffer is not made where a run begins";
	case HT_IMAGE_MADE:
		return good_made(a) ? NULL : "a derived buffer is not made where a run begins";
	case HT_IMAGE_BESIDE:
		return NULL; /* see good_beside() */
	default:
		return good_control(a) ? NULL : "a branch or loop goes where it may not";
	}
}

/* Whether loops are nested properly and each step names its innermost loop. */
static bool good_loops(const struct place *a)
{
	const struct ht_image_step *s = a->step;
	uint32_t open[HT_IMAGE_NESTING + 1] = { 0 }, depth = 0;

	for (uint32_t i = 0; i < a->p->steps; i++) {
		if (s[i].loop != open[depth])
			return false;
		if (s[i].op == HT_IMAGE_LOOP) {
			if (depth == HT_IMAGE_NESTING)
				return false;
			for (uint32_t k = 1; k <= depth; k++)
				if (s[open[k] - 1].count == s[i].count)
					return false;
			open[++depth] = i + 1;
		} else if (s[i].op == HT_IMAGE_AGAIN && depth-- == 0) {
			return false;
		}
	}
	return depth == 0;
}

/* ---- messages ---- */

static uint64_t bytes_of_argument(const void *arg, size_t i)
{
	return bytes_of(arg, (uint32_t)i);
}

static bool good_words(const struct place *a, uint32_t i)
{
	const struct ht_image_words *w = &ht_image_words_of(a->x)[i];
	struct ht_words words;

	if (!is_text(a->x, w->text) || !in_table(a->x, HT_IMAGE_DIMS, w->dim, w->rank))
		return false;
	words = ht_image_words_at(a->x, i);
	return ht_words_fit(&words, a->step->args, bytes_of_argument, a);
}

static bool good_note(const struct place *a)
{
	const struct ht_image_note *n = &ht_image_notes(a->x)[a->p->step + a->at];

	if (!is_text(a->x, n->node) || !is_text(a->x, n->method) ||
		!in_table(a->x, HT_IMAGE_WORDS, n->words, n->words_count))
		return false;
	for (uint32_t i = 0; i < n->words_count; i++)
		if (!good_words(a, n->words + i))
			return false;
	return true;
}

/* ---- procedures ---- */

static bool has_its_parts(const struct ht_image *x, const struct ht_image_procedure *p)
{
	return is_text(x, p->name) && in_table(x, HT_IMAGE_STEPS, p->step, p->steps) &&
	       in_table(x, HT_IMAGE_BUFFERS, p->buffer, p->buffers) &&
	       in_table(x, HT_IMAGE_ARGS, p->arg, p->args) &&
	       in_table(x, HT_IMAGE_PATCHES, p->patch, p->patches) && p->params <= p->buffers &&
	       p->loops <= p->steps && p->frame_bytes <= HT_IMAGE_MOST_BYTES &&
	       p->frame_bytes % HT_IMAGE_ALIGN == 0;
}

/* A run counts the bytes of its frame from all places, also from those that no buffer has. */
static bool places_are_in_frame(const struct place *a)
{
	const struct ht_image_place_of *p = ht_image_places(a->x);
	uint32_t n = ht_image_is_placed(a->x, a->p) ? ht_image_count(a->x, HT_IMAGE_PLACES) : 0;

	while (n && ht_inside(p[n - 1].offset, p[n - 1].bytes, a->p->frame_bytes))
		n--;
	return !n;
}

static const char *check_memory(const struct place *a)
{
	for (uint32_t i = 0; i < a->p->buffers; i++)
		if (!good_buffer(a, i))
			return "a buffer is outside of its memory";
	if (!places_are_in_frame(a))
		return "a place is outside of its frame";
	for (uint32_t i = 0; i < a->p->args; i++)
		if (a->arg[i] >= a->p->buffers)
			return "a step has a buffer that is not there";
	return good_patches(a) ? NULL : "a parameter is not where its procedure says";
}

static const char *check_steps(struct place *a)
{
	static const char besides[] = "steps side by side are not independent calls";
	const struct ht_image_step *first = a->step;
	const char *wrong;

	if (!good_loops(a))
		return "its loops do not lie within each other";
	for (a->at = 0; a->at < a->p->steps; a->at++) {
		a->step = first + a->at;
		wrong = check_step(a);
		if (wrong)
			return wrong;
		if (!good_note(a))
			return "a step's message is about elements that are not there";
		if (a->step->op == HT_IMAGE_MADE)
			a->makes = 0;
		if (a->makes && !good_making(a))
			return "a derived buffer is made from what is none of its sources";
		if (a->step->op == HT_IMAGE_FRESH)
			a->makes = a->step->count + 1;
		if (!good_beside(a))
			return besides;
	}
	return a->beside ? besides : NULL;
}

static struct place place_of(const struct ht_image *x, const struct ht_image_procedure *p)
{
	return (struct place){ .x = x,
		.p = p,
		.buffer = ht_image_buffers(x) + p->buffer,
		.arg = ht_image_args(x) + p->arg,
		.step = ht_image_steps(x) + p->step };
}

/* The memory of all procedures is verified first, since calls need to know that of their
 * callees. */
static const char *check_procedures(const struct ht_image *x)
{
	const struct ht_image_procedure *p = ht_image_procedures(x);
	uint32_t n = ht_image_count(x, HT_IMAGE_PROCEDURES);
	const char *wrong = NULL;

	for (uint32_t i = 0; i < n && !wrong; i++) {
		struct place a;

		if (!has_its_parts(x, &p[i]))
			return "a procedure is outside of the tables";
		a = place_of(x, &p[i]);
		wrong = check_memory(&a);
	}
	for (uint32_t i = 0; i < n && !wrong; i++) {
		struct place a = place_of(x, &p[i]);

		wrong = check_steps(&a);
	}
	return wrong;
}

/* ---- entries ---- */

static struct ht_shape shape_at(const struct ht_image *x, uint32_t dim, uint32_t rank)
{
	return (struct ht_shape){ .rank = (int32_t)rank,
		.dim = (int64_t *)(uintptr_t)(ht_image_dims(x) + dim) };
}

struct ht_shape ht_image_shape_of(const struct ht_image *x, const struct ht_image_port *p)
{
	return shape_at(x, p->dim, p->rank);
}

struct ht_shape ht_image_variable_shape(const struct ht_image *x, const struct ht_image_variable *v)
{
	return shape_at(x, v->dim, v->rank);
}

struct ht_size_expr ht_image_bytes_of(const struct ht_image *x, const struct ht_image_port *p)
{
	struct ht_size_expr n = ht_size_number((int64_t)ht_exec_element_bytes(p->dtype));

	for (uint32_t i = 0; i < p->rank; i++)
		n = ht_size_product(n, extent_of(x, ht_image_dims(x)[p->dim + i]));
	return n;
}

/* Whether a port has as many bytes as the parameter, for all sizes. */
static bool good_bytes(const struct ht_image *x, const struct ht_image_port *p,
	const struct ht_image_buffer *param, bool input)
{
	if (!has_open(x, p->dim, p->rank))
		return !param->sized && param->bytes <= p->bytes;
	if (!param->sized ||
		!is_inside(ht_image_expression_of(x, param->sized - 1), ht_image_bytes_of(x, p)))
		return false;
	return !input || p->value == HT_IMAGE_NO_VALUE;
}

/* Whether each open extent of an input is a size that the host states, none of them twice. */
static bool good_extents(const struct ht_image *x, const struct ht_image_port *p)
{
	for (uint32_t i = 0; i < p->rank; i++) {
		int64_t n = ht_image_dims(x)[p->dim + i];
		struct ht_size_expr e = extent_of(x, n);

		if (n < 0 && (!ht_size_is_product(&e) || e.times != 1 || ht_size_count(&e) != 1 ||
				     ht_image_sizes(x)[e.size[0] - 1].kind != HT_IMAGE_STATED))
			return false;
	}
	return true;
}

static bool good_port(const struct ht_image *x, const struct ht_image_port *p,
	const struct ht_image_buffer *param, bool input)
{
	if (!is_text(x, p->name) || !is_text(x, p->alias) ||
		(p->dtype == HT_STRING && !(x->features & HT_IMAGE_STRINGS)) ||
		!good_type(x, p->dtype, p->dim, p->rank, p->bytes) ||
		!good_bytes(x, p, param, input) ||
		(input && (param->written || !good_extents(x, p))))
		return false;
	return p->value == HT_IMAGE_NO_VALUE ||
	       (input && p->value % HT_IMAGE_ALIGN == 0 &&
		       ht_inside(p->value, p->bytes, ht_image_count(x, HT_IMAGE_DATA)));
}

static bool states(const struct ht_image *x, const struct ht_image_port *p, uint32_t size)
{
	for (uint32_t i = 0; i < p->rank; i++) {
		int64_t n = ht_image_dims(x)[p->dim + i];

		if (n < 0 && ht_image_size_of_extent(x, n) == size)
			return true;
	}
	return false;
}

/* Whether the extents of inputs determine all sizes that the host states. */
static bool good_sizes(const struct ht_image *x, const struct ht_image_entry *e)
{
	for (uint32_t size = 0; size < ht_image_count(x, HT_IMAGE_SIZES); size++) {
		uint32_t i = 0;

		if (ht_image_sizes(x)[size].kind != HT_IMAGE_STATED)
			continue;
		while (i < e->inputs && !states(x, &ht_image_ports(x)[e->port + i], size))
			i++;
		if (i == e->inputs)
			return false;
	}
	return true;
}

/* Whether the entry makes all derived buffers.  Its procedure has been verified, so it makes
 * them in order. */
static bool makes_all(const struct ht_image *x, const struct ht_image_entry *e)
{
	const struct ht_image_procedure *p = &ht_image_procedures(x)[e->procedure];
	const struct ht_image_step *s = ht_image_steps(x) + p->step;
	uint32_t made = 0;

	for (uint32_t at = 0; at < p->steps && s[at].op == HT_IMAGE_FRESH; at = s[at].to)
		made++;
	return made == ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS);
}

static bool good_entry(const struct ht_image *x, const struct ht_image_entry *e)
{
	const struct ht_image_procedure *p;

	if (!is_text(x, e->name) || e->procedure >= ht_image_count(x, HT_IMAGE_PROCEDURES))
		return false;
	p = &ht_image_procedures(x)[e->procedure];
	if (!ht_inside(e->inputs, e->outputs, p->params) || e->inputs + e->outputs != p->params ||
		!in_table(x, HT_IMAGE_PORTS, e->port, p->params))
		return false;
	for (uint32_t i = 0; i < p->params; i++)
		if (!good_port(x, &ht_image_ports(x)[e->port + i],
			    &ht_image_buffers(x)[p->buffer + i], i < e->inputs))
			return false;
	return good_sizes(x, e);
}

const char *ht_image_verify(struct ht_str bytes)
{
	const struct ht_image *x = (const void *)bytes.p;
	const char *wrong = check_head(bytes);

	if (!wrong)
		wrong = check_things(x);
	if (!wrong)
		wrong = check_procedures(x);
	for (uint32_t i = 0; !wrong && i < ht_image_count(x, HT_IMAGE_ENTRIES); i++)
		wrong = !good_entry(x, &ht_image_entries(x)[i])
				? "an input or output does not fit its procedure"
			: !makes_all(x, &ht_image_entries(x)[i])
				? "an entry does not make all derived buffers"
				: NULL;
	return wrong;
}
