/* Statistics: each process leaves a file of counters when it ends, so that none is lost however
 * many processes end at once.  Now and then a process sums them up in a new file, which names the
 * files that it replaces: if the process is killed before it removes these, they do not count
 * twice. */
#include "cache/store.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT ((size_t)1 << 20) /* largest size of a file */
#define MERGE_EVERY 64
#define TRIES 10

static const char *const names[HT_COUNTERS] = {
#define X(name) #name,
	HT_CACHE_COUNTERS(X)
#undef X
};

const char *ht_counter_name(enum ht_cache_counter c)
{
	return names[c];
}

struct files {
	struct ht_store *s;
	struct ht_arena *arena;
	struct ht_str *name;
	size_t n, cap;
	bool all_read;
};

static void note(void *self, const char *name)
{
	struct files *f = self;

	if (*name == '.')
		return;
	f->name = ht_grow(f->arena, f->name, f->n, &f->cap, sizeof *f->name);
	f->name[f->n++] = ht_str_copy(f->arena, ht_str(name));
}

struct sum {
	uint64_t counter[HT_COUNTERS];
	struct ht_map replaced; /* names of the replaced files */
};

static void add_line(struct sum *s, struct ht_str word, struct ht_str value)
{
	int64_t n;

	if (ht_str_is(word, "of"))
		ht_map_at(&s->replaced, value)->value = s;
	for (int c = 0; c < HT_COUNTERS; c++)
		if (ht_str_is(word, names[c]) && ht_parse_int(value, &n) && n > 0)
			s->counter[c] += (uint64_t)n;
}

static void add_text(struct sum *s, struct ht_str text, bool replaced_only)
{
	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		const char *line = memchr(p, '\n', (size_t)(end - p));
		const char *blank = line ? memchr(p, ' ', (size_t)(line - p)) : NULL;

		if (!line)
			return;
		if (blank && replaced_only == !strncmp(p, "of ", 3))
			add_line(s, (struct ht_str){ p, (size_t)(blank - p) },
				(struct ht_str){ blank + 1, (size_t)(line - blank - 1) });
		p = line + 1;
	}
}

static bool read_all(struct ht_store *s, struct ht_arena *a, struct files *f, struct sum *sum)
{
	struct ht_str *text;

	*f = (struct files){ .s = s, .arena = a, .all_read = true };
	memset(sum, 0, sizeof *sum);
	ht_map_init(&sum->replaced, a);
	if (!ht_store_each(s, ht_store_file(s, "stats").s, note, f))
		return false;
	text = HT_NEW_ARRAY(a, struct ht_str, f->n);
	for (size_t i = 0; i < f->n; i++)
		if (ht_store_load(
			    s, ht_store_file(s, "stats/%s", f->name[i].p).s, LIMIT, a, &text[i]))
			add_text(sum, text[i], true);
		else
			f->all_read = false;
	for (size_t i = 0; i < f->n; i++)
		if (text[i].p && !ht_map_get(&sum->replaced, f->name[i]))
			add_text(sum, text[i], false);
	return true;
}

static void look_for_sum(void *self, const char *name)
{
	struct files *f = self;

	if (strncmp(name, "sum-", 4) != 0)
		return;
	for (size_t i = 0; i < f->n; i++)
		if (ht_str_is(f->name[i], name))
			return;
	f->all_read = false;
}

/* Takes no lock, since a user who may only read can ask for statistics, too.  If a merge removed a
 * listed file in the meantime, its sum is there by now, and the files are listed again. */
static bool read_settled(struct ht_store *s, struct ht_arena *a, struct files *f, struct sum *sum)
{
	for (int i = 0; i < TRIES; i++) {
		if (!read_all(s, a, f, sum))
			return false;
		if (f->all_read && !ht_store_each(s, ht_store_file(s, "stats").s, look_for_sum, f))
			return false;
		if (f->all_read)
			return true;
	}
	return true;
}

static void put_counters(struct ht_buf *b, const uint64_t *counter)
{
	for (int c = 0; c < HT_COUNTERS; c++)
		if (counter[c])
			ht_printf(b, "%s %llu\n", names[c], (unsigned long long)counter[c]);
}

static bool publish(struct ht_store *s, struct ht_buf *b, const char *what)
{
	static unsigned number;
	struct ht_str piece = ht_buf_str(b);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ht_store_publish(s,
		ht_store_file(s, "stats/%s-%s-%llx-%u", what, s->maker,
			(unsigned long long)now.tv_sec * 1000000000u +
				(unsigned long long)now.tv_nsec,
			__atomic_fetch_add(&number, 1, __ATOMIC_RELAXED))
			.s,
		&piece, 1);
}

static void merge(struct ht_store *s, struct ht_arena *a)
{
	struct files f;
	struct sum sum;
	struct ht_buf b;

	if (!read_all(s, a, &f, &sum) || !f.all_read || f.n < 2)
		return;
	ht_buf_init(&b, a);
	put_counters(&b, sum.counter);
	for (size_t i = 0; i < f.n; i++)
		ht_printf(&b, "of %s\n", f.name[i].p);
	if (!publish(s, &b, "sum"))
		return;
	for (size_t i = 0; i < f.n; i++)
		s->files->unlink(ht_store_file(s, "stats/%s", f.name[i].p).s);
}

void ht_store_stats_merge(struct ht_store *s)
{
	struct ht_unwind unwind;
	struct ht_arena a;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		merge(s, &a);
	ht_arena_release(&a);
}

static bool write_own(struct ht_store *s)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_buf b;
	volatile bool ok = false;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env)) {
		ht_buf_init(&b, &a);
		put_counters(&b, s->counter);
		ok = b.n && publish(s, &b, "run");
	}
	ht_arena_release(&a);
	return ok;
}

void ht_store_stats_write(struct ht_store *s)
{
	struct timespec now;
	int lock;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!write_own(s) || now.tv_nsec / 1000 % MERGE_EVERY)
		return;
	lock = ht_store_lock(s, false);
	if (lock < 0)
		return;
	ht_store_stats_merge(s);
	ht_store_unlock(s, lock);
}

static struct ht_where at_dir(const struct ht_store *s)
{
	return (struct ht_where){ .path = s->dir, .offset = -1 };
}

static enum ht_status locked_out(struct ht_store *s, struct ht_diags *d)
{
	return ht_error(
		d, HT_E_ENVIRONMENT, at_dir(s), "the statistics of the cache cannot be read");
}

enum ht_status ht_store_stats(struct ht_store *s, struct ht_diags *d, uint64_t counter[HT_COUNTERS])
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct files f = { 0 };
	struct sum sum = { 0 };
	volatile bool ok = false;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		ok = read_settled(s, &a, &f, &sum);
	memcpy(counter, sum.counter, sizeof sum.counter);
	ht_arena_release(&a);
	if (ok && !f.all_read)
		ht_warn(d, at_dir(s),
			"the statistics of some processes cannot be read; the numbers are too low");
	return ok ? HT_OK : locked_out(s, d);
}

static void forget(void *self, const char *name)
{
	struct ht_store *s = self;

	s->files->unlink(ht_store_file(s, "stats/%s", name).s);
}

enum ht_status ht_store_stats_reset(struct ht_store *s, struct ht_diags *d)
{
	if (!ht_store_writes(s))
		return ht_error(d, HT_E_ENVIRONMENT, at_dir(s),
			"the statistics of the cache cannot be reset: it is read only");
	return ht_store_each(s, ht_store_file(s, "stats").s, forget, s) ? HT_OK : locked_out(s, d);
}
