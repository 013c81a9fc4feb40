/* cache: what was compiled, kept by content.
 *
 * A key is a text of tagged fields, which says everything that the result depends on.  Its XXH3-128
 * names the entry's file; an entry holds its key's text and ends with the SHA-256 of all before it
 * (of weights, their XXH3-128), and is a hit only where both are right: damage and collisions are
 * misses.  An entry is one file that appears whole by a rename and never changes; nobody takes a lock
 * to read or write one.
 *
 * A cache is a store (a directory) and perhaps a remote one behind it, with the same keys and bytes.
 * Nothing that goes wrong with either fails a compilation: it goes on without, and says so once. */
#ifndef HT_CACHE_H
#define HT_CACHE_H

#include "base/base.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* ---- files.c: what the store asks of the system ---- */

/* As the functions of those names: -1 (or NULL, MAP_FAILED) with errno.  A test may put others in
 * their place. */
struct ht_files {
	int (*open)(const char *path, int flags, mode_t mode);
	int (*close)(int fd);
	int (*fstat)(int fd, struct stat *out);
	int (*lstat)(const char *path, struct stat *out);
	ssize_t (*read)(int fd, void *p, size_t n);
	ssize_t (*write)(int fd, const void *p, size_t n);
	int (*fsync)(int fd);
	void *(*mmap)(void *at, size_t n, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *p, size_t n);
	int (*rename)(const char *from, const char *to);
	int (*unlink)(const char *path);
	int (*mkdir)(const char *path, mode_t mode);
	int (*rmdir)(const char *path);
	int (*utimens)(int fd, const struct timespec times[2]); /* futimens() */
	int (*flock)(int fd, int operation);
	DIR *(*opendir)(const char *path);
	struct dirent *(*readdir)(DIR *d);
	int (*closedir)(DIR *d);
};
extern const struct ht_files ht_files_system;

/* ---- key.c ---- */

enum ht_cache_kind {
	HT_CACHE_KERNEL, /* object code of one kernel */
	HT_CACHE_GRAPH,  /* an artefact */
	HT_CACHE_READS,  /* which options were read while a graph was compiled */
	HT_CACHE_INPUT,  /* SHA-256 of a file of this machine; no server gets it, no archive */
	HT_CACHE_KINDS
};
const char *ht_cache_kind_name(enum ht_cache_kind kind);

struct ht_cache_key {
	enum ht_cache_kind kind;
	struct ht_str text;
	struct ht_hash find; /* XXH3-128 of the text */
	uint8_t sha256[32];  /* of the text: what a server calls it */
};

/* A key in the making; its text lives in the arena.  Equal fields in equal order give equal keys, and
 * different ones different texts: each field has its length.  The first ones are the kind and the
 * version of entries, so that no two versions give two different files one name. */
struct ht_key_text {
	enum ht_cache_kind kind;
	struct ht_buf text;
};
void ht_key_begin(struct ht_key_text *k, enum ht_cache_kind kind, struct ht_arena *a);
void ht_key_field(struct ht_key_text *k, const char *name, struct ht_str value);
struct ht_cache_key ht_key_end(struct ht_key_text *k);
/* The next field of a key's text, from *at = 0 on; false: there is none. */
bool ht_key_next(struct ht_str text, size_t *at, struct ht_str *name, struct ht_str *value);
/* The 32 digits that name an entry, and a NUL. */
#define HT_KEY_NAME 33
void ht_key_name(struct ht_hash find, char name[HT_KEY_NAME]);
bool ht_key_named(struct ht_str name, struct ht_hash *find);

/* ---- entry.c: the bytes of an entry, in a file and on a server ---- */

#define HT_ENTRY_VERSION 2

/* What is to be kept: the concatenation of the pieces.  Those from `bulk` to `bulk_end` are weights,
 * numbers that nothing follows; reading them costs less than code and its plan, see entry.c. */
struct ht_payload {
	const struct ht_str *piece;
	size_t pieces, bulk, bulk_end;
};

/* Spans of memory whose concatenation is the entry: the caller's payload between a head and a tail. */
struct ht_cache_entry {
	struct ht_str *piece;
	size_t pieces;
	size_t bytes; /* of all */
};
struct ht_cache_entry ht_entry_make(
	struct ht_arena *a, const struct ht_cache_key *k, const struct ht_payload *payload);

/* Views of an entry's bytes. */
struct ht_opened {
	enum ht_cache_kind kind;
	struct ht_str key, payload; /* that of a graph begins at a multiple of 4096 */
	struct ht_hash find;        /* of the key's text */
};
/* NULL, or what is wrong with the bytes as an entry of `k` (NULL: of any key).  Of a collision, another
 * key that has the same `find`, nothing is wrong: compare the texts. */
const char *ht_entry_check(
	struct ht_str bytes, const struct ht_cache_key *k, struct ht_opened *out);
/* Whether the bytes begin as an entry of another version does: it has a name and a form of its own. */
bool ht_entry_is_foreign(struct ht_str bytes);
/* Whether they have a key of this version whose file has this name, whatever their head says. */
bool ht_entry_is_own(struct ht_str bytes, struct ht_hash name);
/* The key's text in the first bytes of an entry, not verified; false: it is not in them. */
bool ht_entry_key(struct ht_str begin, struct ht_str *out);
/* Bytes of the entry that `bytes` begin with, as its head says; 0: they begin with none. */
size_t ht_entry_bytes(struct ht_str bytes);

/* ---- stats.c: what happened, summed over processes ---- */

#define HT_CACHE_COUNTERS(X)                                                                       \
	X(graph_hits)                                                                              \
	X(graph_misses)                                                                            \
	X(kernel_hits)                                                                             \
	X(kernel_misses)                                                                           \
	X(remote_hits) /* of those above: what the store did not have */                           \
	X(hit_bytes)   /* of entries that were read */                                             \
	X(puts)        /* entries written */                                                       \
	X(put_bytes)                                                                               \
	X(damaged)    /* entries that were found damaged and removed */                            \
	X(unreadable) /* times that something could not be read */                                 \
	X(unwritable) /* or written */                                                             \
	X(evicted)                                                                                 \
	X(evicted_bytes)

enum ht_cache_counter {
#define X(name) HT_COUNTER_##name,
	HT_CACHE_COUNTERS(X)
#undef X
		HT_COUNTERS
};
const char *ht_counter_name(enum ht_cache_counter c);

/* ---- store.c: entries in a directory ---- */

struct ht_store_options {
	const char *dir; /* made where it is missing */
	enum ht_cache_mode mode;
	bool sync;          /* entries are on the disk before they appear */
	bool shared;        /* the directory may be another's, and others may write to it */
	uint64_t max_bytes; /* 0: 5 GiB, at most a tenth of the file system */
	const struct ht_files *files; /* NULL: the system's */
};
struct ht_store;
/* HT_E_ENVIRONMENT: it is no directory, is another's, or others may write to it.  Where it cannot be
 * written to it is read only, with a warning. */
enum ht_status ht_store_open(
	const struct ht_store_options *opt, struct ht_diags *d, struct ht_store **out);
const char *ht_store_dir(const struct ht_store *s); /* as it was given */
uint64_t ht_store_limit(const struct ht_store *s);
/* Writes the statistics; evicts what is too much. */
void ht_store_close(struct ht_store *s, struct ht_diags *d);

/* A verified entry, mapped or in memory. */
struct ht_cached {
	struct ht_str payload, bytes;
	const struct ht_files *files; /* mapped with these; NULL: from malloc */
};
void ht_cached_release(struct ht_cached *c);

/* False: a miss.  Damaged entries are told of and removed. */
bool ht_store_get(struct ht_store *s, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
/* False: not kept, which is told of once.  What is there already is replaced. */
bool ht_store_put(struct ht_store *s, const struct ht_cache_key *k, const struct ht_cache_entry *e,
	struct ht_diags *d);
void ht_store_count(struct ht_store *s, enum ht_cache_counter c, uint64_t n);

/* ---- walk.c, gc.c: all entries ---- */

struct ht_listed_entry {
	enum ht_cache_kind kind;
	struct ht_hash find;
	uint64_t bytes;
	int64_t used_ns; /* when it was read last, to a minute */
	bool pinned;
};
/* In no order, in `a`. */
struct ht_entry_list {
	struct ht_listed_entry *entry;
	size_t n;
	uint64_t bytes;
	size_t temporary; /* files that writers left behind, or are writing */
};
enum ht_status ht_store_list(
	struct ht_store *s, struct ht_arena *a, struct ht_diags *d, struct ht_entry_list *out);
enum ht_entry_state {
	HT_ENTRY_GOOD,
	HT_ENTRY_GONE, /* another process has removed it, or replaced it while it was read */
	HT_ENTRY_UNREADABLE,
	HT_ENTRY_FOREIGN, /* of another version, which may have use for it */
	HT_ENTRY_DAMAGED
};
/* An entry of the list, in *out where it is good; *why: what else it is.  One that is damaged is removed,
 * and *removed is whether it could be; NULL: it stays. */
enum ht_entry_state ht_store_read(struct ht_store *s, const struct ht_listed_entry *e,
	struct ht_cached *out, const char **why, bool *removed);
/* The text of its key, which nobody vouches for: for looking at. */
bool ht_store_read_key(struct ht_store *s, const struct ht_listed_entry *e, struct ht_arena *a,
	struct ht_str *out);
/* False: it is gone, or the store is read only. */
bool ht_store_remove(struct ht_store *s, const struct ht_listed_entry *e);
/* Kept by gc and clear. */
enum ht_status ht_store_pin(
	struct ht_store *s, const struct ht_listed_entry *e, bool pinned, struct ht_diags *d);
/* The path of an entry's file. */
struct ht_str ht_store_path(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find, struct ht_arena *a);

struct ht_gc {
	size_t entries, evicted, temporary; /* left; removed */
	uint64_t bytes, evicted_bytes;
};
/* Removes what writers left behind an hour ago and, the least recently used first, entries until
 * max_bytes are left; only one process at a time, others wait for it. */
enum ht_status ht_store_gc(
	struct ht_store *s, uint64_t max_bytes, struct ht_diags *d, struct ht_gc *out);

/* Likewise, but nothing happens below `above_bytes`, and entries that were used in the last
 * `recent_seconds` stay; nothing happens in a store that is read only, and where another process is at
 * it, that one does it. */
enum ht_status ht_store_age(struct ht_store *s, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_gc *out);

/* Sums of all processes that have ended. */
enum ht_status ht_store_stats(
	struct ht_store *s, struct ht_diags *d, uint64_t counter[HT_COUNTERS]);
enum ht_status ht_store_stats_reset(struct ht_store *s, struct ht_diags *d);

/* ---- index.c: which entries there are of a graph that has a name ---- */

#define HT_GRAPH_NAME 128                      /* characters at most */
bool ht_graph_name_is_legal(const char *name); /* letters, digits, _ and -; not empty */
struct ht_str ht_store_index_path(const struct ht_store *s, const char *name, struct ht_arena *a);
#define HT_INDEX_BYTES ((size_t)1 << 20) /* of one that is loaded, at most */
/* False with errno. */
bool ht_store_index_load(
	struct ht_store *s, const char *name, struct ht_arena *a, struct ht_str *out);
bool ht_store_index_save(
	struct ht_store *s, const char *name, struct ht_str text, struct ht_arena *a);
/* From before an index is loaded until it is saved; -1 with errno. */
int ht_store_index_lock(struct ht_store *s, const char *name, struct ht_arena *a);
void ht_store_index_unlock(struct ht_store *s, int fd);
bool ht_store_writes(const struct ht_store *s); /* false: it is read only */

/* ---- cache.c: the store, then the remote one ---- */

struct ht_remote_module; /* cache/remote.h */
struct ht_remote_options;

struct ht_cache_options {
	struct ht_store_options store;         /* mode HT_CACHE_OFF: only the remote one, if any */
	const struct ht_remote_module *remote; /* NULL: none */
	const struct ht_remote_options *remote_options;
	bool must_hit;          /* for those who ask: ht_cache_must_hit() */
	bool no_kernels;        /* there are none of them, and none are kept */
	const char *graph_name; /* likewise; NULL: none */
};
/* Belongs to one thread at a time. */
struct ht_cache;
enum ht_status ht_cache_start(
	const struct ht_cache_options *opt, struct ht_diags *d, struct ht_cache **out);
void ht_cache_end(struct ht_cache *c, struct ht_diags *d); /* NULL is fine */
struct ht_store *ht_cache_store(const struct ht_cache *c); /* NULL: none */
bool ht_cache_must_hit(const struct ht_cache *c);
const char *ht_cache_graph_name(const struct ht_cache *c); /* NULL: none, or there is no store */
void ht_cache_count(struct ht_cache *c, enum ht_cache_counter what, uint64_t n);
/* What the remote one has is kept in the store too. */
bool ht_cache_get(struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
void ht_cache_put(struct ht_cache *c, const struct ht_cache_key *k,
	const struct ht_payload *payload, struct ht_diags *d);

/* ---- input.c ---- */

/* SHA-256 of a file, which is remembered when it is large.  `now_ns`: CLOCK_REALTIME.  `c` NULL: only
 * found. */
void ht_cache_digest(struct ht_cache *c, const struct ht_file *f, int64_t now_ns,
	struct ht_diags *d, uint8_t digest[32]);

#endif
