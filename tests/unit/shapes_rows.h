/* Random reductions, normalisations, elementwise chains and moves (see shapes.h). */
#ifndef HT_TEST_SHAPES_ROWS_H
#define HT_TEST_SHAPES_ROWS_H

#include "tests/unit/shapes.h"

static int random_dims(int64_t *dim, bool empty)
{
	static const int64_t sizes[] = { 1, 2, 3, 5, 8, 15, 16, 17, 33 };
	int rank = 1 + below(4);
	int64_t n = 1;

	for (int d = 0; d < rank; d++) {
		dim[d] = sizes[below(HT_COUNT(sizes))];
		n *= dim[d];
		if (n > 5000)
			dim[d] = 1 + below(2);
		if (empty && chance(10))
			dim[d] = 0;
	}
	return rank;
}

static void reduction(struct instance *k)
{
	static const char *const ops[] = { "Sum", "Mean", "Max", "Min" };
	int64_t dim[RANK], kept[RANK], axes[RANK], n;
	int rank = random_dims(dim, true), naxes = 0, left = 0, op = below(4);
	unsigned mask = rnd() % (1u << rank);
	bool keep = chance(50);
	struct tensor x = random_tensor(k, rank, dim), magnitude;

	for (int d = 0; d < rank; d++) {
		if (mask >> d & 1)
			axes[naxes++] = d;
		if (keep || !(mask >> d & 1))
			kept[left++] = mask >> d & 1 ? 1 : dim[d];
	}
	operand(k, "x", x, false);
	index_list(k, "s", naxes, axes);
	ht_printf(&k->nodes, "%%y = %s(%%x, %%s) {T=%s, Tidx=i32, keep_dims=%s}\n", ops[op],
		type_name(k->t), keep ? "true" : "false");
	result(k, left, kept);
	magnitude = tensor_of(k, left, kept);
	for (int64_t i = 0; i < count_of(&k->want); i++)
		k->want.v[i] = op == 2 ? -INFINITY : op == 3 ? INFINITY : 0;
	n = 1;
	for (int i = 0; i < naxes; i++)
		n *= dim[axes[i]];
	for (int64_t i = 0; i < count_of(&x); i++) {
		int64_t rest = i, to = 0, step = 1;

		for (int d = rank - 1; d >= 0; rest /= dim[d--])
			if (!(mask >> d & 1)) {
				to += rest % dim[d] * step;
				step *= dim[d];
			}
		magnitude.v[to] += fabs(x.v[i]);
		k->want.v[to] = op == 2   ? fmax(k->want.v[to], x.v[i])
				: op == 3 ? fmin(k->want.v[to], x.v[i])
					  : k->want.v[to] + x.v[i];
	}
	for (int64_t i = 0; i < count_of(&k->want); i++) {
		double scale = op == 1 ? 1 / (double)n : 1;

		if (n == 0) /* as in TensorFlow: the neutral element, or 0 / 0 */
			k->want.v[i] = op == 1 ? NAN : k->want.v[i];
		else if (op >= 2)
			computed(k, i, k->want.v[i], 0);
		else
			summed(k, i, k->want.v[i] * scale, magnitude.v[i] * scale, (double)n + 1);
	}
}

static void rows(struct instance *k)
{
	static const char *const ops[] = { "Softmax", "LogSoftmax", "LayerNorm" };
	int64_t dim[RANK], width, lines;
	int rank = random_dims(dim, true), op = below(3);
	struct tensor x, scale, offset;

	dim[rank - 1] = chance(5) ? 0 : 1 + below(chance(30) ? 300 : 40);
	width = dim[rank - 1];
	x = random_tensor(k, rank, dim);
	scale = random_tensor(k, 1, &width);
	offset = random_tensor(k, 1, &width);
	operand(k, "x", x, false);
	if (op == 2) {
		operand(k, "g", scale, true);
		operand(k, "o", offset, true);
		ht_printf(&k->nodes, "%%y = LayerNorm(%%x, %%g, %%o) {T=%s, epsilon=0.0625}\n",
			type_name(k->t));
	} else {
		ht_printf(&k->nodes, "%%y = %s(%%x) {T=%s}\n", ops[op], type_name(k->t));
	}
	result(k, rank, dim);
	lines = width ? count_of(&x) / width : 0;
	for (int64_t l = 0; l < lines; l++) {
		const double *r = x.v + l * width, u = k->eps, n = (double)width;
		double most = -INFINITY, total = 0, mean = 0, variance = 0, size = 0;

		for (int64_t i = 0; i < width; i++) {
			most = fmax(most, r[i]);
			mean += r[i] / n;
			size += fabs(r[i]) / n;
		}
		for (int64_t i = 0; i < width; i++) {
			total += exp(r[i] - most);
			variance += (r[i] - mean) * (r[i] - mean) / n;
		}
		for (int64_t i = 0; i < width; i++) {
			double d = r[i] - mean, root = 1 / sqrt(variance + 0.0625), dd, y, e;

			/* the mean's error shifts d; its square and the sum's error enter the
			 * root */
			dd = gamma_of(k, n + 2) * size + u * fabs(d);
			e = 0.5 *
				    (gamma_of(k, n + 6) * variance + 4 * dd * sqrt(variance) +
					    2 * dd * dd) /
				    (variance + 0.0625) +
			    4 * u;
			y = d * root * scale.v[i] + offset.v[i];
			e = fabs(scale.v[i]) * root * (dd + fabs(d) * e) +
			    6 * u * (fabs(y) + fabs(offset.v[i]));
			if (op == 2)
				computed(k, l * width + i, y, e);
			else if (op == 0) /* exp errs by a unit, and by its argument's error */
				computed(k, l * width + i, exp(r[i] - most) / total,
					gamma_of(k, n + 16) * exp(r[i] - most) / total);
			else
				computed(k, l * width + i, r[i] - most - log(total),
					gamma_of(k, n + 16) * (fabs(r[i] - most) + log(total) + 1));
		}
	}
}

/* Elements of y = relu(x * f + o), each operand broadcast along some dimensions. */
static void elementwise(struct instance *k)
{
	int64_t dim[RANK], one[3][RANK];
	int rank = random_dims(dim, true);
	struct tensor x[3];

	for (int i = 0; i < 3; i++) {
		for (int d = 0; d < rank; d++)
			one[i][d] = i && chance(30) ? 1 : dim[d];
		x[i] = random_tensor(k, rank, one[i]);
		operand(k, (const char *[]){ "x", "f", "o" }[i], x[i], i && chance(50));
	}
	ht_printf(&k->nodes, "%%m = Mul(%%x, %%f) {T=%s}\n%%a = AddV2(%%m, %%o) {T=%s}\n",
		type_name(k->t), type_name(k->t));
	ht_printf(&k->nodes, "%%y = Relu(%%a) {T=%s}\n", type_name(k->t));
	result(k, rank, dim);
	for (int64_t i = 0; i < count_of(&k->want); i++) {
		double v[3];

		for (int j = 0; j < 3; j++) {
			int64_t rest = i, at = 0, step = 1;

			for (int d = rank - 1; d >= 0; rest /= dim[d--]) {
				at += one[j][d] == 1 ? 0 : rest % dim[d] * step;
				step *= one[j][d];
			}
			v[j] = x[j].v[at];
		}
		computed(k, i, v[0] * v[1], k->eps * fabs(v[0] * v[1]));
		computed(k, i, v[0] * v[1] + v[2], k->err.v[i] + k->eps * 6);
		k->want.v[i] = fmax(k->want.v[i], 0);
	}
}

static void transpose(struct instance *k)
{
	int64_t dim[RANK], to[RANK], perm[RANK];
	int rank = random_dims(dim, true);
	struct tensor x;

	if (chance(50) && rank > 1) { /* squares that are transposed in registers */
		memset(dim, 0, sizeof dim);
		for (int d = 0; d < rank; d++)
			dim[d] = d < rank - 2 ? 1 + below(3) : 1 + below(70);
	}
	x = random_tensor(k, rank, dim);
	for (int d = 0; d < rank; d++)
		perm[d] = d;
	for (int d = rank - 1; d > 0; d--) {
		int other = below(d + 1);
		int64_t p = perm[d];

		perm[d] = perm[other];
		perm[other] = p;
	}
	for (int d = 0; d < rank; d++)
		to[d] = dim[perm[d]];
	operand(k, "x", x, false);
	index_list(k, "s", rank, perm);
	ht_printf(&k->nodes, "%%y = Transpose(%%x, %%s) {T=%s, Tperm=i32}\n", type_name(k->t));
	result(k, rank, to);
	for (int64_t i = 0; i < count_of(&x); i++) {
		int64_t coord[RANK], rest = i, at = 0;

		for (int d = rank - 1; d >= 0; rest /= dim[d--])
			coord[d] = rest % dim[d];
		for (int d = 0; d < rank; d++)
			at = at * to[d] + coord[perm[d]];
		k->want.v[at] = x.v[i];
	}
}

/* Copies `x` along the axis to position `before` of the result. */
static void put_part(
	struct instance *k, const struct tensor *x, int axis, int64_t before, bool magnitude)
{
	int64_t inner = 1, all = k->want.dim[axis];

	for (int d = axis + 1; d < x->rank; d++)
		inner *= x->dim[d];
	for (int64_t e = 0; e < count_of(x); e++) {
		int64_t width = x->dim[axis] * inner;
		int64_t at = (e / width * all + before) * inner + e % width;

		k->want.v[at] = magnitude ? fabs(x->v[e]) : x->v[e];
	}
}

/* Concatenates two to five parts, some without elements, in c; then c, the first part and c's
 * magnitudes. */
static void concat(struct instance *k)
{
	const char *t = type_name(k->t);
	int64_t dim[RANK], to[RANK], width = 0, before = 0;
	int rank = random_dims(dim, true), axis = below(rank), parts = 2 + below(4);
	bool again = chance(60);
	struct tensor x[5];
	char name[8];

	memcpy(to, dim, sizeof to);
	for (int i = 0; i < parts; i++) {
		snprintf(name, sizeof name, "x%d", i);
		dim[axis] = chance(20) ? 0 : 1 + below(20);
		width += dim[axis];
		x[i] = random_tensor(k, rank, dim);
		operand(k, name, x[i], chance(20));
	}
	index_scalar(k, "s", axis - (chance(50) ? rank : 0));
	ht_puts(&k->nodes, "%c = ConcatV2(");
	for (int i = 0; i < parts; i++)
		ht_printf(&k->nodes, "%%x%d, ", i);
	ht_printf(&k->nodes, "%%s) {T=%s, N=%d, Tidx=i32}\n%%a = Abs(%%c) {T=%s}\n", t, parts, t);
	if (again)
		ht_printf(&k->nodes,
			"%%d = ConcatV2(%%c, %%x0, %%s) {T=%s, N=2, Tidx=i32}\n"
			"%%y = ConcatV2(%%d, %%a, %%s) {T=%s, N=2, Tidx=i32}\n",
			t, t);
	else
		ht_printf(&k->nodes, "%%y = Identity(%%a) {T=%s}\n", t);
	to[axis] = again ? 2 * width + x[0].dim[axis] : width;
	result(k, rank, to);
	for (int i = 0; i < parts; before += x[i++].dim[axis]) {
		if (again)
			put_part(k, &x[i], axis, before, false);
		put_part(k, &x[i], axis, to[axis] - width + before, true);
	}
	if (again)
		put_part(k, &x[0], axis, width, false);
}

#endif
