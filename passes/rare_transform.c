/* Images under projective maps, for pass rare: the place in the source of each pixel, then the nearest pixel there, or four with their
 * weights.  Places are computed in float32, as TensorFlow does. */
#include "passes/rare.h"

/* Operands of the op. */
enum { IMAGES, TRANSFORMS, SIZE, FILL };

/* The places in the source along an axis of images, of each pixel of the result: [images, rows, columns]. */
struct along_axis {
	struct ht_value at, length; /* the length in float64 */
};

struct transformed {
	struct ht_value images; /* their number */
	struct along_axis y, x;
	struct ht_value is_somewhere, fill;
};

/* ---- numbers ---- */

static struct ht_value plus_f32(struct maker *f, struct ht_value a, struct ht_value b)
{
	return rounded(f, sum(f, a, b));
}

static struct ht_value minus_f32(struct maker *f, struct ht_value a, struct ht_value b)
{
	return rounded(f, difference(f, a, b));
}

static struct ht_value times_f32(struct maker *f, struct ht_value a, struct ht_value b)
{
	return rounded(f, product(f, a, b));
}

/* How often `by` is contained in a number that is not below zero. */
static struct ht_value times_in(struct maker *f, struct ht_value x, struct ht_value by)
{
	return unary(f, HT_OP_Floor, rounded(f, binary(f, HT_OP_RealDiv, x, by)));
}

static struct ht_value wide_number(struct maker *f, double x)
{
	return real(f, HT_F64, x);
}

static struct ht_value if_less(struct maker *f, struct ht_value a, struct ht_value b,
	struct ht_value then, struct ht_value otherwise)
{
	return of_rank(f, chosen(f, binary(f, HT_OP_Less, a, b), then, otherwise), 3);
}

/* Half away from zero. */
static struct ht_value nearest(struct maker *f, struct ht_value x)
{
	struct ht_value size = sum(f, unary(f, HT_OP_Abs, x), wide_number(f, .5));

	return product(f, unary(f, HT_OP_Floor, size), unary(f, HT_OP_Sign, x));
}

/* ---- places ---- */

/* Number `i` of each transform: [transforms, 1, 1]. */
static struct ht_value coefficient(struct maker *f, int64_t i)
{
	struct ht_value v = column(f, f->at->in[TRANSFORMS], i);

	return cast_to(f, with_axis(f, with_axis(f, v, -1), -1), HT_F64);
}

/* Numbers from, from + 1 and from + 2 of a transform, times x, y and one. */
static struct ht_value mapped(
	struct maker *f, int64_t from, struct ht_value x, struct ht_value y, struct ht_value last)
{
	x = times_f32(f, coefficient(f, from), x);
	y = times_f32(f, coefficient(f, from + 1), y);
	return of_rank(f, plus_f32(f, plus_f32(f, x, y), last), 3);
}

static struct ht_value limited_to(struct maker *f, struct ht_value x, struct ht_value last)
{
	return binary(f, HT_OP_Minimum, binary(f, HT_OP_Maximum, x, wide_number(f, 0)), last);
}

/* Behind the edge comes the mirrored image, edge included. */
static struct ht_value reflected(struct maker *f, struct ht_value x, struct ht_value length)
{
	struct ht_value twice = product(f, length, wide_number(f, 2)), one = wide_number(f, 1),
			below, above, v;
	struct ht_value minus = unary(f, HT_OP_Neg, x);

	below = plus_f32(f, product(f, twice, times_in(f, minus, twice)), x);
	below = if_less(f, below, unary(f, HT_OP_Neg, length), plus_f32(f, below, twice),
		minus_f32(f, unary(f, HT_OP_Neg, below), one));
	above = minus_f32(f, x, product(f, twice, times_in(f, x, twice)));
	v = minus_f32(f, minus_f32(f, twice, above), one);
	above = if_less(f, above, length, above, v);
	above = if_less(f, difference(f, length, one), x, above, x);
	return if_less(f, x, wide_number(f, 0), below, above);
}

/* Behind the edge comes the image again. */
static struct ht_value wrapped(struct maker *f, struct ht_value x, struct ht_value length)
{
	struct ht_value one = wide_number(f, 1), last = difference(f, length, one), below, above;
	struct ht_value period = binary(f, HT_OP_Maximum, last, one);

	below = times_in(f, unary(f, HT_OP_Neg, x), period);
	below = plus_f32(f, x, product(f, length, sum(f, below, one)));
	above = minus_f32(f, x, product(f, length, times_in(f, x, period)));
	above = if_less(f, last, x, above, x);
	return if_less(f, x, wide_number(f, 0), below, above);
}

/* Where the pixel is that a place behind the edge gets; outside for mode CONSTANT. */
static struct ht_value filled(struct maker *f, struct ht_value x, struct ht_value length)
{
	struct ht_str mode = ht_attr_str(f->at, "fill_mode", "CONSTANT");

	if (ht_str_is(mode, "REFLECT"))
		x = reflected(f, x, length);
	else if (ht_str_is(mode, "WRAP"))
		x = wrapped(f, x, length);
	else if (!ht_str_is(mode, "NEAREST"))
		return x;
	return limited_to(f, x, difference(f, length, wide_number(f, 1)));
}

static struct ht_value places(struct maker *f, struct ht_value mapped_to,
	struct ht_value projection, struct ht_value length)
{
	struct ht_value x = rounded(f, binary(f, HT_OP_RealDiv, mapped_to, projection));

	return filled(f, of_rank(f, x, 3), length);
}

static struct ht_value numbered(struct maker *f, struct ht_value size, bool is_row)
{
	struct ht_value v = of_rank(f, cast_to(f, range_of(f, size), HT_F64), 1);

	return is_row ? with_axis(f, v, -1) : v;
}

static struct transformed find_places(struct maker *f)
{
	struct transformed t = { .y.length = cast_to(f, extent_of_operand(f, IMAGES, 4, 1), HT_F64),
		.x.length = cast_to(f, extent_of_operand(f, IMAGES, 4, 2), HT_F64) };
	struct ht_value y = numbered(f, entry_of(f, f->at->in[SIZE], 0), true);
	struct ht_value x = numbered(f, entry_of(f, f->at->in[SIZE], 1), false), projection;

	t.images = extent_of_operand(f, IMAGES, 4, 0);
	projection = mapped(f, 6, x, y, wide_number(f, 1));
	t.is_somewhere = binary(f, HT_OP_NotEqual, projection, wide_number(f, 0));
	t.x.at = places(f, mapped(f, 0, x, y, coefficient(f, 2)), projection, t.x.length);
	t.y.at = places(f, mapped(f, 3, x, y, coefficient(f, 5)), projection, t.y.length);
	t.fill = f->at->ins > FILL ? f->at->in[FILL] : real(f, HT_F32, 0);
	return t;
}

/* ---- pixels ---- */

static struct ht_value is_inside(struct maker *f, struct ht_value at, struct ht_value length)
{
	return both(f, binary(f, HT_OP_GreaterEqual, at, wide_number(f, 0)),
		binary(f, HT_OP_Less, at, length));
}

/* The pixels at whole places, as numbers of type `as`; the fill outside. */
static struct ht_value pixels(struct maker *f, const struct transformed *t, struct ht_value y,
	struct ht_value x, enum ht_dtype as)
{
	struct ht_value inside, in[3], at, v, zero, image = range_of(f, t->images);

	inside = both(f, is_inside(f, y, t->y.length), is_inside(f, x, t->x.length));
	inside = of_rank(f, both(f, inside, t->is_somewhere), 3);
	in[0] = with_axis(f, with_axis(f, image, -1), -1);
	in[1] = cast_to(f, of_rank(f, chosen(f, inside, y, wide_number(f, 0)), 3), HT_I64);
	in[2] = cast_to(f, of_rank(f, chosen(f, inside, x, wide_number(f, 0)), 3), HT_I64);
	zero = sum(
		f, sum(f, in[0], in[1]), in[2]); /* of the shape to which all three are broadcast */
	zero = difference(f, zero, zero);
	for (int i = 0; i < 3; i++)
		in[i] = of_rank(f, sum(f, in[i], zero), 3);
	at = node(f, HT_OP_Pack, in, 3, HT_I64, open_shape(f, 4));
	ht_attr_set_int(at.node, "axis", 3);
	v = of_rank(f, gathered_nd(f, f->at->in[IMAGES], at), 4);
	return of_rank(f,
		chosen(f, with_axis(f, inside, -1), cast_to(f, v, as), cast_to(f, t->fill, as)), 4);
}

/* How far a place is from the next one, and from the one before, as weights of pixels. */
static struct ht_value weight(struct maker *f, struct ht_value far, struct ht_value near)
{
	return with_axis(f, cast_to(f, difference(f, far, near), HT_F32), -1);
}

static struct ht_value mixed(struct maker *f, struct ht_value a, struct ht_value of_a,
	struct ht_value b, struct ht_value of_b)
{
	return sum(f, product(f, of_a, a), product(f, of_b, b));
}

static struct ht_value bilinear(struct maker *f, const struct transformed *t)
{
	struct ht_value at[2] = { t->y.at, t->x.at }, low[2], high[2], before[2], behind[2], row[2];

	for (int i = 0; i < 2; i++) {
		low[i] = unary(f, HT_OP_Floor, at[i]);
		high[i] = sum(f, low[i], wide_number(f, 1));
		before[i] = weight(f, high[i], at[i]);
		behind[i] = weight(f, at[i], low[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ht_value y = i ? high[0] : low[0];

		row[i] = mixed(f, pixels(f, t, y, low[1], HT_F32), before[1],
			pixels(f, t, y, high[1], HT_F32), behind[1]);
	}
	row[0] = mixed(f, row[0], before[0], row[1], behind[0]);
	return of_rank(f, chosen(f, with_axis(f, t->is_somewhere, -1), row[0], t->fill), 4);
}

void ht_rare_transform(struct maker *f)
{
	enum ht_dtype type = f->at->out[0].dtype;
	struct transformed t;
	struct ht_value v;

	if (ht_in_shape(f->at, IMAGES).rank != 4 || ht_in_shape(f->at, TRANSFORMS).rank != 2)
		return;
	t = find_places(f);
	if (ht_str_is(ht_attr_str(f->at, "interpolation", ""), "BILINEAR"))
		v = cast_to(f, bilinear(f, &t), type);
	else
		v = pixels(f, &t, nearest(f, t.y.at), nearest(f, t.x.at), type);
	ht_rw_take_place(f->r, f->at, v);
}
