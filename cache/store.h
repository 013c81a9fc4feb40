/* Declarations that the source files of the store share. */
#ifndef HT_CACHE_STORE_H
#define HT_CACHE_STORE_H

#include "cache/cache.h"

#include <limits.h>

/* All files are in DIR/v1: KIND/2 digits/30 digits (entries), pins/32 digits (empty files),
 * stats/…, `size` (a line with the bytes of each put since the last gc) and `lock` (held by gc). */
#define HT_STORE_LAYOUT "v1"
#define HT_STORE_TEMPORARY ".tmp-" /* prefix of the names of unfinished files */

struct ht_store {
	char dir[PATH_MAX - 256];   /* the directory with HT_STORE_LAYOUT */
	char given[PATH_MAX - 256]; /* the directory as in the options */
	struct ht_store_options opt;
	const struct ht_files *files;
	char maker[128]; /* host, process and thread, for names of temporary files */
	mode_t directory_mode, file_mode; /* permissions of new directories and files */
	bool shares;                      /* permissions are set regardless of the umask */
	bool local;                 /* on a local file system, so that entries may be mapped */
	bool said_read, said_write; /* a read or write failure was reported */
	uint64_t counter[HT_COUNTERS];
};

struct ht_path {
	char s[PATH_MAX];
};
/* The path DIR/v1/… with the rest in printf's format. */
struct ht_path ht_store_file(const struct ht_store *s, const char *fmt, ...) HT_PRINTF(2, 3);
struct ht_path ht_store_entry_file(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find);

/* publish.c: writes a file that becomes visible as a whole.  False on failure, with errno. */
bool ht_store_publish(struct ht_store *s, const char *path, const struct ht_str *piece, size_t n);
/* Creates a directory and its parents. */
bool ht_make_directories(struct ht_store *s, const char *path);
/* open() with O_CREAT; in a shared store the file gets the store's permissions regardless of the
 * umask. */
int ht_store_create(struct ht_store *s, const char *path, int flags);
/* Reads a whole file of at most `limit` bytes.  False on failure, with errno. */
bool ht_store_load(
	struct ht_store *s, const char *path, size_t limit, struct ht_arena *a, struct ht_str *out);
bool ht_read_all(const struct ht_files *f, int fd, void *p, size_t n);

/* directory.c */
enum ht_status ht_store_open_directory(struct ht_store *s, struct ht_diags *d);

/* lock.c: takes a lock file, which one process holds at a time, and returns its descriptor.  -1
 * with errno: EWOULDBLOCK if another process holds it, at once or, with `wait`, after some
 * seconds. */
int ht_store_lock_file(struct ht_store *s, const char *path, bool wait);
int ht_store_lock(struct ht_store *s, bool wait); /* the lock of gc */
void ht_store_unlock(struct ht_store *s, int fd);

/* Calls `each` for every name in a directory of the store; hidden names only if they are those of
 * unfinished files. */
bool ht_store_each(struct ht_store *s, const char *path, void (*each)(void *self, const char *name),
	void *self);

/* stats.c */
void ht_store_stats_write(struct ht_store *s);
void ht_store_stats_merge(struct ht_store *s); /* the caller holds the lock of gc */

/* gc.c: adds the bytes of a put to `size`, and evicts if the limit is exceeded. */
void ht_store_grow(struct ht_store *s, struct ht_diags *d);

void ht_store_cannot_read(
	struct ht_store *s, const char *path, const char *why, struct ht_diags *d);
void ht_store_cannot_write(struct ht_store *s, int why, struct ht_diags *d);

#endif
