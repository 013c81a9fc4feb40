/* The inside of the store, for its files. */
#ifndef HT_CACHE_STORE_H
#define HT_CACHE_STORE_H

#include "cache/cache.h"

#include <limits.h>

/* DIR/v1 holds everything: KIND/2 digits/30 digits (entries), pins/32 digits (empty files),
 * stats/…, `size` (bytes put since the last gc, a line each) and `lock` (of gc). */
#define HT_STORE_LAYOUT "v1"
#define HT_STORE_TEMPORARY ".tmp-" /* that names of unfinished files begin with */

struct ht_store {
	char dir[PATH_MAX - 256]; /* with the layout */
	char given[PATH_MAX - 256];
	struct ht_store_options opt;
	const struct ht_files *files;
	char maker[128]; /* host, process and thread, for names of temporary files */
	mode_t directory_mode, file_mode; /* of what is made */
	bool shares;                      /* whatever the umask */
	bool local; /* on a file system of this machine: entries may be mapped */
	bool said_read, said_write;
	uint64_t counter[HT_COUNTERS];
};

struct ht_path {
	char s[PATH_MAX];
};
/* DIR/v1/… by printf's format. */
struct ht_path ht_store_file(const struct ht_store *s, const char *fmt, ...) HT_PRINTF(2, 3);
struct ht_path ht_store_entry_file(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find);

/* publish.c: a file that appears whole.  False with errno. */
bool ht_store_publish(struct ht_store *s, const char *path, const struct ht_str *piece, size_t n);
/* Makes the directory and those above it. */
bool ht_make_directories(struct ht_store *s, const char *path);
/* open(), which makes the file; in a shared store with rights for all who share it, whatever the umask. */
int ht_store_create(struct ht_store *s, const char *path, int flags);
/* All of a small file, of at most `limit` bytes; false with errno. */
bool ht_store_load(
	struct ht_store *s, const char *path, size_t limit, struct ht_arena *a, struct ht_str *out);
bool ht_read_all(const struct ht_files *f, int fd, void *p, size_t n);

/* directory.c */
enum ht_status ht_store_open_directory(struct ht_store *s, struct ht_diags *d);

/* lock.c: a file that one process holds at a time; -1 with errno, EWOULDBLOCK: another has it, after some
 * seconds where this one is to wait. */
int ht_store_lock_file(struct ht_store *s, const char *path, bool wait);
int ht_store_lock(struct ht_store *s, bool wait); /* that of gc */
void ht_store_unlock(struct ht_store *s, int fd);

/* Every name in a directory of the store, but those that begin with a dot and no HT_STORE_TEMPORARY. */
bool ht_store_each(struct ht_store *s, const char *path, void (*each)(void *self, const char *name),
	void *self);

/* stats.c */
void ht_store_stats_write(struct ht_store *s);
void ht_store_stats_merge(struct ht_store *s); /* the lock is held */

/* gc.c: notes what was put, and evicts when that is too much. */
void ht_store_grow(struct ht_store *s, struct ht_diags *d);

void ht_store_cannot_read(
	struct ht_store *s, const char *path, const char *why, struct ht_diags *d);
void ht_store_cannot_write(struct ht_store *s, int why, struct ht_diags *d);

#endif
