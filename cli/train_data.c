/* Data of a training: rows of arrays, and the order in which they are taken. */
#include "cli/train.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *option_of(const struct rows *r)
{
	return r->option;
}

/* ---- files ---- */

static enum ht_status cannot_read(const char *path)
{
	return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
}

static enum ht_status map_file(struct rows *r, const char *path)
{
	struct stat s;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &s)) {
		enum ht_status st = cannot_read(path);
		if (fd >= 0)
			close(fd);
		return st;
	}
	r->mapped = (size_t)s.st_size;
	r->map = r->mapped ? mmap(NULL, r->mapped, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	if (r->map != MAP_FAILED)
		return HT_OK;
	r->map = NULL;
	return r->mapped ? cannot_read(path) : fail(HT_E_INPUT, "%s: the file is empty", path);
}

/* A .npy file is mapped, since it may be larger than memory. */
static enum ht_status open_npy(struct rows *r, const char *path)
{
	struct npy_head h;
	size_t elements = 1;
	enum ht_status st = npy_head_of(path, &h);

	if (st == HT_OK && h.fortran && h.rank > 1)
		return fail(HT_E_INPUT,
			"%s: its elements are in Fortran order, in which rows do not lie together; save "
			"numpy.ascontiguousarray(…)",
			path);
	if (st == HT_OK && h.dtype == HT_STRING)
		return fail(HT_E_UNSUPPORTED,
			"%s: its elements are strings, which rows of training do not have", path);
	if (st == HT_OK)
		st = map_file(r, path);
	if (st != HT_OK)
		return st;
	for (int32_t i = 0; i < h.rank; i++)
		if (__builtin_mul_overflow(elements, (size_t)h.dim[i], &elements))
			elements = SIZE_MAX;
	if (elements > (r->mapped - h.start) / ht_dtype_bytes(h.dtype))
		return fail(HT_E_INPUT, "%s: the file is shorter than its header says", path);
	r->dtype = h.dtype;
	r->rank = h.rank;
	memcpy(r->dim, h.dim, sizeof r->dim);
	r->data = (const char *)r->map + h.start;
	return HT_OK;
}

static enum ht_status open_member(struct rows *r, const char *spec)
{
	enum ht_status st = load_file(r->of, spec, &r->loaded);

	if (st != HT_OK)
		return st;
	r->dtype = r->loaded.a.dtype;
	r->rank = r->loaded.a.rank;
	memcpy(r->dim, r->loaded.shape, sizeof r->dim);
	r->data = r->loaded.a.data;
	return HT_OK;
}

/* Opens NAME=@FILE. */
static enum ht_status open_rows(const struct cli *c, struct data *d, struct rows *r)
{
	const char *equals = strchr(r->spec, '=');
	size_t n;
	enum ht_status st;

	if (!equals || equals == r->spec || equals[1] != '@' || !equals[2])
		return fail(HT_E_USAGE,
			"--%s: '%s' is not NAME=@FILE.npy, NAME=@FILE.npz#KEY or "
			"NAME=@FILE.tfrecord#FEATURE",
			option_of(r), r->spec);
	r->name = strndup(r->spec, (size_t)(equals - r->spec));
	if (!r->name)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	n = strlen(equals);
	if (n > 4 && !strcmp(equals + n - 4, ".npy"))
		st = open_npy(r, equals + 2);
	else if (is_records(equals + 2))
		st = records_open(c, d, r, equals + 2);
	else
		st = open_member(r, equals + 1);
	if (st != HT_OK)
		return st;
	if (r->rank < 1 || !r->dim[0])
		return fail(HT_E_INPUT, "--%s %s: there are no rows", option_of(r), r->spec);
	r->row_bytes = ht_dtype_bytes(r->dtype);
	for (int32_t i = 1; i < r->rank; i++)
		r->row_bytes *= (size_t)r->dim[i];
	return HT_OK;
}

enum ht_status data_open(const struct cli *c, enum option o, struct data *d)
{
	enum ht_status st = HT_OK;

	d->rows = must_alloc((c->option[o].n + 1) * sizeof *d->rows);
	for (; d->n < c->option[o].n && st == HT_OK; d->n++) {
		struct rows *r = &d->rows[d->n];

		r->of = o;
		r->option = option_rows[o].name;
		r->spec = c->option[o].value[d->n];
		st = open_rows(c, d, r);
		if (st == HT_OK && !d->n)
			d->count = r->dim[0];
		if (st == HT_OK && r->dim[0] != d->count)
			st = fail(HT_E_INPUT, "--%s %s: %lld rows, where '%s' has %lld", r->option,
				r->spec, (long long)r->dim[0], d->rows[0].name,
				(long long)d->count);
	}
	return st;
}

enum ht_status rows_copy(const struct cli *c, const struct rows *r, int64_t row, void *to)
{
	if (r->records)
		return records_read(c, r, row, to);
	memcpy(to, r->data + (size_t)row * r->row_bytes, r->row_bytes);
	return HT_OK;
}

void data_close(struct data *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->rows[i].name);
		array_free(&d->rows[i].loaded);
		records_close(&d->rows[i]);
		if (d->rows[i].map)
			munmap(d->rows[i].map, d->rows[i].mapped);
	}
	free(d->rows);
	*d = (struct data){ 0 };
}

/* ---- order ---- */

enum ht_status order_begin(struct order *o, int64_t count, uint64_t seed, bool shuffles)
{
	*o = (struct order){ seed, shuffles, count, -1, NULL };
	if (shuffles && count > UINT32_MAX)
		return fail(HT_E_LIMIT, "%lld rows; at most %lld are shuffled, use --no-shuffle",
			(long long)count, (long long)UINT32_MAX);
	if (shuffles)
		o->permutation = must_alloc((size_t)count * sizeof *o->permutation);
	return HT_OK;
}

/* Fisher and Yates; an epoch's permutation depends only on the seed and the epoch. */
static void shuffle(struct order *o, int64_t epoch)
{
	uint64_t state = o->seed;

	state = random_next(&state) ^ (uint64_t)epoch;
	for (int64_t i = 0; i < o->count; i++)
		o->permutation[i] = (uint32_t)i;
	for (int64_t i = o->count - 1; i > 0; i--) {
		uint64_t j = (random_next(&state) >> 32) * (uint64_t)(i + 1) >> 32;
		uint32_t swapped = o->permutation[i];

		o->permutation[i] = o->permutation[j];
		o->permutation[j] = swapped;
	}
	o->epoch = epoch;
}

int64_t order_row(struct order *o, int64_t position)
{
	int64_t epoch = position / o->count, at = position % o->count;

	if (!o->shuffles)
		return at;
	if (o->epoch != epoch)
		shuffle(o, epoch);
	return o->permutation[at];
}

void order_end(struct order *o)
{
	free(o->permutation);
	o->permutation = NULL;
}
