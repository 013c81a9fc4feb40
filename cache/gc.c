/* Evicts the least recently used entries of a store that exceeds its size.
 *
 * The file `size` has a line with the bytes of each process's puts; its first line is the size that
 * the last gc left.  Their sum is a cheap estimate; only if it exceeds the limit are all entries
 * listed. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT ((size_t)64 << 10) /* of the file `size` */
#define LEFT_BEHIND_SECONDS 3600

struct sweep {
	struct ht_store *s;
	enum ht_cache_kind kind;
	char part[32];
	time_t now;
	size_t removed;
};

static void remove_temporary(void *self, const char *name)
{
	struct sweep *w = self;
	struct ht_path path = ht_store_file(w->s, "%s%s", w->part, name);
	struct stat st;

	if (*name == '.' && !w->s->files->lstat(path.s, &st) &&
		w->now - st.st_mtim.tv_sec > LEFT_BEHIND_SECONDS)
		w->removed += !w->s->files->unlink(path.s);
}

static void sweep_part(void *self, const char *name)
{
	struct sweep *w = self;

	if (strlen(name) != 2)
		return;
	snprintf(w->part, sizeof w->part, "%s/%s/", ht_cache_kind_name(w->kind), name);
	ht_store_each(w->s, ht_store_file(w->s, "%s", w->part).s, remove_temporary, w);
}

/* Removes unfinished files of writers that were killed. */
static size_t sweep(struct ht_store *s)
{
	static const char *const other[] = { "../", "", "stats/", "pins/" };
	struct sweep w = { .s = s, .now = time(NULL) };

	for (size_t i = 0; i < HT_COUNT(other); i++) {
		snprintf(w.part, sizeof w.part, "%s", other[i]);
		ht_store_each(s, ht_store_file(s, "%s", w.part).s, remove_temporary, &w);
	}
	for (int kind = 0; kind < HT_CACHE_KINDS; kind++) {
		w.kind = (enum ht_cache_kind)kind;
		ht_store_each(
			s, ht_store_file(s, "%s", ht_cache_kind_name(w.kind)).s, sweep_part, &w);
	}
	return w.removed;
}

static int by_use(const void *a, const void *b)
{
	const struct ht_listed_entry *x = a, *y = b;

	if (x->used_ns != y->used_ns)
		return x->used_ns < y->used_ns ? -1 : 1;
	return memcmp(&x->find, &y->find, sizeof x->find);
}

/* Which entries to evict. */
struct limits {
	uint64_t above, to;     /* bytes: evict only above `above`, until `to` are left */
	int64_t recent_seconds; /* entries that were used within this time stay */
};

static void evict(
	struct ht_store *s, struct ht_entry_list *l, const struct limits *limits, struct ht_gc *out)
{
	int64_t oldest = ((int64_t)time(NULL) - limits->recent_seconds) * 1000000000;

	out->entries = l->n;
	out->bytes = l->bytes;
	if (l->bytes < limits->above)
		return;
	if (l->n)
		qsort(l->entry, l->n, sizeof *l->entry, by_use);
	for (size_t i = 0; i < l->n && out->bytes > limits->to; i++) {
		if (limits->recent_seconds && l->entry[i].used_ns > oldest)
			break;
		if (l->entry[i].pinned || !ht_store_remove(s, &l->entry[i]))
			continue;
		out->entries--;
		out->bytes -= l->entry[i].bytes;
		out->evicted++;
		out->evicted_bytes += l->entry[i].bytes;
	}
	ht_store_count(s, HT_COUNTER_evicted, out->evicted);
	ht_store_count(s, HT_COUNTER_evicted_bytes, out->evicted_bytes);
}

static void note_size(struct ht_store *s, uint64_t bytes)
{
	char text[32];
	struct ht_str piece = { text, 0 };

	piece.n = (size_t)snprintf(text, sizeof text, "%llu\n", (unsigned long long)bytes);
	ht_store_publish(s, ht_store_file(s, "size").s, &piece, 1);
}

static enum ht_status collect(struct ht_store *s, struct ht_arena *a, const struct limits *limits,
	struct ht_diags *d, struct ht_gc *out)
{
	struct ht_entry_list list;

	out->temporary = sweep(s);
	HT_TRY(ht_store_list(s, a, d, &list));
	evict(s, &list, limits, out);
	note_size(s, out->bytes);
	ht_store_stats_merge(s);
	return HT_OK;
}

static enum ht_status locked_gc(
	struct ht_store *s, const struct limits *limits, struct ht_diags *d, struct ht_gc *out)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	enum ht_status st;

	ht_arena_init(&a, &unwind);
	if (setjmp(unwind.env))
		st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	else
		st = collect(s, &a, limits, d, out);
	ht_arena_release(&a);
	return st;
}

enum ht_status ht_store_gc(
	struct ht_store *s, uint64_t max_bytes, struct ht_diags *d, struct ht_gc *out)
{
	return ht_store_age(s, 0, max_bytes, 0, d, out);
}

enum ht_status ht_store_age(struct ht_store *s, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_gc *out)
{
	struct limits limits = { above_bytes, to_bytes, recent_seconds };
	struct ht_where at = { .path = s->dir, .offset = -1 };
	enum ht_status st;
	int lock;

	*out = (struct ht_gc){ 0 };
	if (!ht_store_writes(s))
		return above_bytes ? HT_OK
				   : ht_error(d, HT_E_ENVIRONMENT, at,
					     "the cache cannot be cleaned up: it is read only");
	lock = ht_store_lock(s, above_bytes == 0);
	if (lock < 0 && errno == EWOULDBLOCK && above_bytes)
		return HT_OK;
	if (lock < 0)
		return ht_error(d, HT_E_ENVIRONMENT, at, "the cache cannot be cleaned up: %s",
			errno == EWOULDBLOCK ? "another process is at it" : strerror(errno));
	st = locked_gc(s, &limits, d, out);
	ht_store_unlock(s, lock);
	return st;
}

/* ---- after each put ---- */

static uint64_t sum_lines(struct ht_str text)
{
	uint64_t sum = 0;

	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		const char *line = memchr(p, '\n', (size_t)(end - p));
		int64_t n;

		if (!line)
			break;
		if (ht_parse_int((struct ht_str){ p, (size_t)(line - p) }, &n) && n > 0)
			sum += (uint64_t)n;
		p = line + 1;
	}
	return sum;
}

/* Sums the lines of `size`.  False: they are unknown, or too many. */
static bool estimate(struct ht_store *s, uint64_t *bytes)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_str text;
	volatile bool ok = false;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env)) {
		ok = ht_store_load(s, ht_store_file(s, "size").s, SIZE_LIMIT, &a, &text);
		*bytes = ok ? sum_lines(text) : 0;
	}
	ht_arena_release(&a);
	return ok;
}

static void append_size(struct ht_store *s, uint64_t bytes)
{
	const struct ht_files *f = s->files;
	char line[32];
	int n = snprintf(line, sizeof line, "%llu\n", (unsigned long long)bytes);
	int fd = ht_store_create(s, ht_store_file(s, "size").s, O_WRONLY | O_APPEND | O_NOFOLLOW);

	if (fd < 0)
		return;
	/* A lost line makes the estimate too low until the next gc. */
	if (f->write(fd, line, (size_t)n) != n)
		ht_store_count(s, HT_COUNTER_unwritable, 1);
	f->close(fd);
}

void ht_store_grow(struct ht_store *s, struct ht_diags *d)
{
	uint64_t bytes, put = s->counter[HT_COUNTER_put_bytes], max = s->opt.max_bytes;
	struct ht_gc done;
	int lock;

	if (!put)
		return;
	append_size(s, put);
	if (!max || (estimate(s, &bytes) && bytes <= max))
		return;
	/* If another process is collecting, this one need not. */
	lock = ht_store_lock(s, false);
	if (lock < 0)
		return;
	locked_gc(s, &(struct limits){ .to = max - max / 10 }, d, &done);
	ht_store_unlock(s, lock);
}
