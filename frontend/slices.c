/* Slices of tensors in checkpoints: their keys, and the elements that two slices share.
 *
 * TensorFlow stores a slice under a key that sorts in front of all names: numbers and the name as OrderedCode of
 * tensorflow/core/lib/strings/ordered_code.cc writes them. */
#include "frontend/slices.h"

#include <string.h>

/* ---- keys as text ---- */

/* Cuts *s behind the first `end`, and returns what was in front of it; all of *s if there is none. */
static struct ht_str word(struct ht_str *s, char end)
{
	const char *at = s->n ? memchr(s->p, end, s->n) : NULL;
	struct ht_str w = { s->p, at ? (size_t)(at - s->p) : s->n };
	size_t used = w.n + (at ? 1 : 0);

	*s = (struct ht_str){ s->n ? s->p + used : s->p, s->n - used };
	return w;
}

enum { MOST_BYTES = 8 };                             /* of a number that is stored */
#define EXTENTS ((int64_t)1 << (7 * MOST_BYTES - 1)) /* it is less than this */

static bool is_inside(const struct ht_slice *s)
{
	for (int32_t i = 0; i < s->rank; i++)
		if (s->full[i] < 0 || s->full[i] >= EXTENTS || s->start[i] < 0 ||
			s->length[i] < 0 || s->start[i] > s->full[i] ||
			s->length[i] > s->full[i] - s->start[i])
			return false;
	return true;
}

/* Extents, then for each axis "start,length", or "-" for all of it. */
bool ht_slice_of_spec(struct ht_str name, struct ht_str spec, struct ht_slice *s)
{
	s->name = name;
	s->rank = 0;
	while (spec.n && memchr(spec.p, ' ', spec.n)) {
		struct ht_str w = word(&spec, ' ');

		if (s->rank == HT_MAX_RANK || !ht_parse_int(w, &s->full[s->rank++]))
			return false;
	}
	for (int32_t i = 0; i < s->rank; i++) {
		struct ht_str axis = word(&spec, ':');

		if (ht_str_is(axis, "-")) {
			s->start[i] = 0;
			s->length[i] = s->full[i];
			continue;
		}
		if (!ht_parse_int(word(&axis, ','), &s->start[i]) ||
			!ht_parse_int(axis, &s->length[i]))
			return false;
	}
	return s->rank && !spec.n && is_inside(s);
}

bool ht_slice_of_key(struct ht_str key, struct ht_slice *s)
{
	struct ht_str spec = key, name = word(&spec, ' ');

	return spec.n && ht_slice_of_spec(name, spec, s);
}

static bool is_whole(const struct ht_slice *s)
{
	for (int32_t i = 0; i < s->rank; i++)
		if (s->length[i] != s->full[i])
			return false;
	return true;
}

struct ht_str ht_slice_key(struct ht_arena *a, const struct ht_slice *s)
{
	struct ht_buf key;

	if (is_whole(s))
		return ht_str_copy(a, s->name);
	ht_buf_init(&key, a);
	ht_put_str(&key, s->name);
	for (int32_t i = 0; i < s->rank; i++) {
		ht_putc(&key, ' ');
		ht_put_int(&key, s->full[i]);
	}
	for (int32_t i = 0; i < s->rank; i++) {
		ht_putc(&key, i ? ':' : ' ');
		ht_put_int(&key, s->start[i]);
		ht_putc(&key, ',');
		ht_put_int(&key, s->length[i]);
	}
	return ht_buf_str(&key);
}

/* ---- keys as TensorFlow stores them ---- */

/* The bits that a number of so many bytes begins with. */
static uint64_t header(int bytes)
{
	return (uint64_t)(0xff00 >> bytes & 0xff) << 8 * (bytes - 1);
}

static void put_signed(struct ht_buf *b, int64_t x)
{
	uint64_t size = x < 0 ? ~(uint64_t)x : (uint64_t)x, bits = (uint64_t)x;
	int bytes = 1;

	while (bytes < MOST_BYTES && size >> (7 * bytes - 1))
		bytes++;
	bits ^= header(bytes);
	for (int i = bytes; i-- > 0;)
		ht_putc(b, (char)(bits >> 8 * i & 0xff));
}

static bool take_signed(const uint8_t **p, const uint8_t *end, int64_t *x)
{
	uint64_t sign = *p < end && !(**p & 0x80) ? ~(uint64_t)0 : 0, bits = sign;
	int bytes = 1;

	if (*p == end)
		return false;
	for (uint8_t ones = (uint8_t)(**p ^ sign); bytes < MOST_BYTES && ones >> (7 - bytes) & 1;)
		bytes++;
	if (end - *p < bytes)
		return false;
	for (int i = 0; i < bytes; i++)
		bits = bits << 8 | *(*p)++;
	*x = (int64_t)(bits ^ header(bytes));
	return true;
}

bool ht_is_slice_record(struct ht_str key)
{
	return key.n && !key.p[0];
}

struct ht_str ht_slice_record(struct ht_arena *a, const struct ht_slice *s)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_putc(&b, 0);
	for (size_t i = 0; i < s->name.n; i++) {
		ht_putc(&b, s->name.p[i]);
		if (s->name.p[i] == 0)
			ht_putc(&b, (char)0xff);
		else if ((uint8_t)s->name.p[i] == 0xff)
			ht_putc(&b, 0);
	}
	ht_putc(&b, 0);
	ht_putc(&b, 1);
	ht_putc(&b, 1);
	ht_putc(&b, (char)s->rank);
	for (int32_t i = 0; i < s->rank; i++) {
		put_signed(&b, s->start[i]);
		put_signed(&b, s->length[i]);
	}
	return ht_buf_str(&b);
}

/* The name, up to its end mark. */
static bool take_name(
	const uint8_t **p, const uint8_t *end, struct ht_arena *a, struct ht_str *name)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	while (end - *p >= 2) {
		uint8_t c = *(*p)++;

		if (c == 0 && **p == 1) {
			++*p;
			*name = ht_buf_str(&b);
			return true;
		}
		if ((c == 0 || c == 0xff) && (*(*p)++ ^ c) != 0xff)
			return false;
		ht_putc(&b, (char)c);
	}
	return false;
}

bool ht_slice_of_record(struct ht_str key, struct ht_arena *a, struct ht_slice *s)
{
	const uint8_t *p = (const uint8_t *)key.p, *end = p + key.n;

	*s = (struct ht_slice){ 0 };
	if (!ht_is_slice_record(key) || (p++, !take_name(&p, end, a, &s->name)) || end - p < 2 ||
		*p++ != 1 || !*p || *p > HT_MAX_RANK)
		return false;
	s->rank = *p++;
	for (int32_t i = 0; i < s->rank; i++)
		if (!take_signed(&p, end, &s->start[i]) || !take_signed(&p, end, &s->length[i]))
			return false;
	return p == end;
}

bool ht_slice_within(struct ht_slice *s, struct ht_shape whole)
{
	if (whole.rank != s->rank)
		return false;
	for (int32_t i = 0; i < s->rank; i++) {
		s->full[i] = whole.dim[i];
		if (s->length[i] < 0)
			s->length[i] = whole.dim[i];
	}
	return is_inside(s);
}

/* ---- elements ---- */

struct ht_shape ht_slice_shape(const struct ht_slice *s)
{
	return (struct ht_shape){ s->rank, s->length };
}

/* The elements of axis `i` that both have: the first one, and their number. */
static int64_t shared_axis(
	const struct ht_slice *a, const struct ht_slice *b, int32_t i, int64_t *first)
{
	int64_t end = a->start[i] + a->length[i], other = b->start[i] + b->length[i];

	*first = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
	end = other < end ? other : end;
	return end > *first ? end - *first : 0;
}

bool ht_slice_shared(const struct ht_slice *a, const struct ht_slice *b)
{
	int64_t first;

	for (int32_t i = 0; i < a->rank; i++)
		if (!shared_axis(a, b, i, &first))
			return false;
	return true;
}

/* The elements that two slices share, as runs along the last axis. */
struct runs {
	const struct ht_slice *to, *from;
	int32_t last; /* axis */
	int64_t first[HT_MAX_RANK], count[HT_MAX_RANK];
	int64_t at[HT_MAX_RANK]; /* where the present run begins */
};

/* Sets the first run; false: the slices share no elements. */
static bool begin_runs(struct runs *r, const struct ht_slice *to, const struct ht_slice *from)
{
	r->to = to;
	r->from = from;
	r->last = to->rank - 1;
	for (int32_t i = 0; i <= r->last; i++) {
		r->count[i] = shared_axis(to, from, i, &r->first[i]);
		r->at[i] = r->first[i];
		if (!r->count[i])
			return false;
	}
	return true;
}

/* False: there are no more runs. */
static bool next_run(struct runs *r)
{
	for (int32_t i = r->last - 1; i >= 0; i--) {
		if (++r->at[i] < r->first[i] + r->count[i])
			return true;
		r->at[i] = r->first[i];
	}
	return false;
}

/* How many elements of slice `s` are in front of the first one of the present run. */
static size_t run_in(const struct runs *r, const struct ht_slice *s)
{
	int64_t place = 0;

	for (int32_t i = 0; i < s->rank; i++)
		place = place * s->length[i] + r->at[i] - s->start[i];
	return (size_t)place;
}

int64_t ht_slice_mark(const struct ht_slice *to, uint8_t *seen, const struct ht_slice *from)
{
	struct runs r;
	int64_t shared = 0;

	for (bool more = begin_runs(&r, to, from); more; more = next_run(&r)) {
		uint8_t *run = seen + run_in(&r, to);

		if (memchr(run, 1, (size_t)r.count[r.last]))
			return -1;
		memset(run, 1, (size_t)r.count[r.last]);
		shared += r.count[r.last];
	}
	return shared;
}

void ht_slice_copy(const struct ht_slice *to, char *out, const struct ht_slice *from,
	const char *in, size_t size)
{
	struct runs r;

	for (bool more = begin_runs(&r, to, from); more; more = next_run(&r))
		memcpy(out + run_in(&r, to) * size, in + run_in(&r, from) * size,
			(size_t)r.count[r.last] * size);
}
