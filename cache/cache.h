/* cache: the compile cache, which keeps results under keys made of everything they depend on.
 *
 * A key is a text of tagged fields.  Its XXH3-128 hash names the entry's file.  An entry holds the
 * text of its key and ends with a SHA-256 of all bytes before it (weights count by their XXH3-128).
 * A lookup is a hit only if key and digest are right, so damage and hash collisions are misses.  An
 * entry is one file that a rename makes visible as a whole and that never changes afterwards;
 * reading or writing one takes no lock.
 *
 * A cache is a store (a directory) and optionally a remote store behind it with the same keys and
 * bytes.  A failure of either never fails a compilation: the compilation goes on without it and
 * reports that once. */
#ifndef HT_CACHE_H
#define HT_CACHE_H

#include "base/base.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* ---- files.c: the system calls of the store ---- */

/* Each member behaves as the POSIX function of its name: on failure it returns -1 (or NULL, MAP_FAILED)
 * and sets errno.  Tests replace members to inject failures. */
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
	HT_CACHE_READS,  /* the names of the options that were read while a graph was compiled */
	HT_CACHE_INPUT,  /* SHA-256 of a file on this machine */
	HT_CACHE_RATES,  /* the measured rates of this machine */
	HT_CACHE_KINDS
};
const char *ht_cache_kind_name(enum ht_cache_kind kind);
/* Whether entries describe only this machine: they are never sent to a server or archived. */
bool ht_cache_kind_is_local(enum ht_cache_kind kind);

struct ht_cache_key {
	enum ht_cache_kind kind;
	struct ht_str text;
	struct ht_hash find; /* XXH3-128 of the text */
	uint8_t sha256[32];  /* of the text; names the entry on a server */
};

/* A key under construction; its text lives in the arena.  Equal fields in equal order give equal texts and
 * all others give different texts, because each field is stored with its length.  The kind and
 * HT_ENTRY_VERSION come first, so that two versions never use one file name for different entries. */
struct ht_key_text {
	enum ht_cache_kind kind;
	struct ht_buf text;
};
void ht_key_begin(struct ht_key_text *k, enum ht_cache_kind kind, struct ht_arena *a);
void ht_key_field(struct ht_key_text *k, const char *name, struct ht_str value);
struct ht_cache_key ht_key_end(struct ht_key_text *k);
/* Reads the next field of a key's text; *at is 0 before the first call.  False: there is no further
 * field. */
bool ht_key_next(struct ht_str text, size_t *at, struct ht_str *name, struct ht_str *value);
/* The 32 hexadecimal digits of an entry's name, and a NUL. */
#define HT_KEY_NAME 33
void ht_key_name(struct ht_hash find, char name[HT_KEY_NAME]);
bool ht_key_named(struct ht_str name, struct ht_hash *find);

/* ---- entry.c: the bytes of an entry, in a file and on a server ---- */

#define HT_ENTRY_VERSION 2

/* The bytes that an entry keeps: the concatenation of the pieces.  Pieces from `bulk` up to `bulk_end`
 * are weights, which are checked by a faster hash than code and plan (entry.c). */
struct ht_payload {
	const struct ht_str *piece;
	size_t pieces, bulk, bulk_end;
};

/* An entry as spans of memory to be concatenated: the caller's payload between a header and a trailer. */
struct ht_cache_entry {
	struct ht_str *piece;
	size_t pieces;
	size_t bytes; /* the sum over all pieces */
};
struct ht_cache_entry ht_entry_make(
	struct ht_arena *a, const struct ht_cache_key *k, const struct ht_payload *payload);

/* Views of an entry's bytes. */
struct ht_opened {
	enum ht_cache_kind kind;
	struct ht_str key, payload; /* the payload of a graph begins at a multiple of 4096 bytes */
	struct ht_hash find;        /* of the key's text */
};
/* Checks an entry's bytes against key `k` (NULL: against the key that the entry states).  Returns
 * NULL if they are right, otherwise the reason.  An entry of another key with the same `find` (a
 * collision) passes: the caller compares the texts. */
const char *ht_entry_check(
	struct ht_str bytes, const struct ht_cache_key *k, struct ht_opened *out);
/* Whether the bytes begin like an entry of another version, which has other file names and another
 * layout. */
bool ht_entry_is_foreign(struct ht_str bytes);
/* Whether the bytes contain a key of this version that belongs in the file called `name`, whatever the
 * header says. */
bool ht_entry_is_own(struct ht_str bytes, struct ht_hash name);
/* Finds the key's text in the first bytes of an entry without verifying it.  False: it is not
 * there. */
bool ht_entry_key(struct ht_str begin, struct ht_str *out);
/* The length in bytes that the header of the entry at the start of `bytes` states; 0: there is no
 * header. */
size_t ht_entry_bytes(struct ht_str bytes);

/* ---- stats.c: counters, summed over all processes ---- */

#define HT_CACHE_COUNTERS(X)                                                                       \
	X(graph_hits)                                                                              \
	X(graph_misses)                                                                            \
	X(kernel_hits)                                                                             \
	X(kernel_misses)                                                                           \
	X(remote_hits) /* the hits above that came from the remote store */                        \
	X(hit_bytes)   /* bytes of the entries read */                                             \
	X(puts)        /* entries written */                                                       \
	X(put_bytes)                                                                               \
	X(damaged)    /* entries found damaged, and removed */                                     \
	X(unreadable) /* failed reads */                                                           \
	X(unwritable) /* failed writes */                                                          \
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
	const char *dir; /* created if it is missing */
	enum ht_cache_mode mode;
	bool sync;                    /* an entry is on the disk before it becomes visible */
	bool shared;                  /* other users may own the directory and write to it */
	uint64_t max_bytes;           /* 0: 5 GiB, but at most a tenth of the file system */
	const struct ht_files *files; /* NULL: the system's */
};
struct ht_store;
/* Opens a store.  HT_E_ENVIRONMENT: `dir` is not a directory, belongs to another user, or others
 * may write to it.  A directory that cannot be written to gives a read-only store and a warning. */
enum ht_status ht_store_open(
	const struct ht_store_options *opt, struct ht_diags *d, struct ht_store **out);
const char *ht_store_dir(const struct ht_store *s); /* the directory, as in the options */
uint64_t ht_store_limit(const struct ht_store *s);
/* Writes the counters and evicts entries above the size limit.  Frees `s`. */
void ht_store_close(struct ht_store *s, struct ht_diags *d);

/* A verified entry, mapped or in memory. */
struct ht_cached {
	struct ht_str payload, bytes;
	/* the functions that mapped the bytes; NULL: the bytes are from malloc() */
	const struct ht_files *files;
};
void ht_cached_release(struct ht_cached *c);

/* False: a miss.  A damaged entry is reported and removed. */
bool ht_store_get(struct ht_store *s, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
/* Replaces an entry of the same key.  False: the entry could not be kept, which is reported once. */
bool ht_store_put(struct ht_store *s, const struct ht_cache_key *k, const struct ht_cache_entry *e,
	struct ht_diags *d);
void ht_store_count(struct ht_store *s, enum ht_cache_counter c, uint64_t n);

/* ---- walk.c, gc.c: all entries ---- */

struct ht_listed_entry {
	enum ht_cache_kind kind;
	struct ht_hash find;
	uint64_t bytes;
	int64_t used_ns; /* time of the last read, exact to a minute */
	bool pinned;
};
/* The entries in no particular order, in `a`. */
struct ht_entry_list {
	struct ht_listed_entry *entry;
	size_t n;
	uint64_t bytes;
	size_t temporary; /* number of unfinished files, whose writers are running or were killed */
};
enum ht_status ht_store_list(
	struct ht_store *s, struct ht_arena *a, struct ht_diags *d, struct ht_entry_list *out);
enum ht_entry_state {
	HT_ENTRY_GOOD,
	HT_ENTRY_GONE, /* another process removed or replaced it in the meantime */
	HT_ENTRY_UNREADABLE,
	HT_ENTRY_FOREIGN, /* of another version, whose processes may still use it */
	HT_ENTRY_DAMAGED
};
/* Reads an entry of the list.  HT_ENTRY_GOOD fills *out; every other state fills *why.  A damaged
 * entry is removed, and *removed says whether that succeeded; with `removed` NULL it stays. */
enum ht_entry_state ht_store_read(struct ht_store *s, const struct ht_listed_entry *e,
	struct ht_cached *out, const char **why, bool *removed);
/* The text of an entry's key, not verified: for display only. */
bool ht_store_read_key(struct ht_store *s, const struct ht_listed_entry *e, struct ht_arena *a,
	struct ht_str *out);
/* False: the entry is gone, or the store is read-only. */
bool ht_store_remove(struct ht_store *s, const struct ht_listed_entry *e);
/* Pinned entries survive gc and clear. */
enum ht_status ht_store_pin(
	struct ht_store *s, const struct ht_listed_entry *e, bool pinned, struct ht_diags *d);
/* The path of an entry's file. */
struct ht_str ht_store_path(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find, struct ht_arena *a);

struct ht_gc {
	size_t entries;            /* entries that are left */
	size_t evicted, temporary; /* removed entries, removed unfinished files */
	uint64_t bytes, evicted_bytes;
};
/* Removes unfinished files older than an hour, then entries in the order of their last use until at
 * most max_bytes are left.  One process does this at a time; others wait for it. */
enum ht_status ht_store_gc(
	struct ht_store *s, uint64_t max_bytes, struct ht_diags *d, struct ht_gc *out);

/* As ht_store_gc() down to `to_bytes`, but only if the store has more than `above_bytes`; entries
 * that were used within the last `recent_seconds` stay.  Does nothing in a read-only store, or if
 * another process is collecting already. */
enum ht_status ht_store_age(struct ht_store *s, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_gc *out);

/* The sums of the counters over all processes that have closed the store. */
enum ht_status ht_store_stats(
	struct ht_store *s, struct ht_diags *d, uint64_t counter[HT_COUNTERS]);
enum ht_status ht_store_stats_reset(struct ht_store *s, struct ht_diags *d);

/* ---- index.c: the entries that belong to a named graph ---- */

#define HT_GRAPH_NAME 128 /* characters at most */
/* whether it has only letters, digits, _ and -, and is not empty */
bool ht_graph_name_is_legal(const char *name);
struct ht_str ht_store_index_path(const struct ht_store *s, const char *name, struct ht_arena *a);
#define HT_INDEX_BYTES ((size_t)1 << 20) /* largest size of an index that is loaded */
/* Loads an index.  False on failure, with errno. */
bool ht_store_index_load(
	struct ht_store *s, const char *name, struct ht_arena *a, struct ht_str *out);
bool ht_store_index_save(
	struct ht_store *s, const char *name, struct ht_str text, struct ht_arena *a);
/* Locks an index before it is loaded.  Returns a descriptor for ht_store_index_unlock(), which the
 * caller calls after saving the index.  -1 with errno: failure. */
int ht_store_index_lock(struct ht_store *s, const char *name, struct ht_arena *a);
void ht_store_index_unlock(struct ht_store *s, int fd);
bool ht_store_writes(const struct ht_store *s); /* false: the store is read-only */

/* ---- cache.c: the store, and the remote store behind it ---- */

struct ht_remote_module; /* cache/remote.h */
struct ht_remote_options;

struct ht_cache_options {
	struct ht_store_options store; /* mode HT_CACHE_OFF: the remote store only, if any */
	const struct ht_remote_module *remote; /* NULL: none */
	const struct ht_remote_options *remote_options;
	bool must_hit;          /* the answer of ht_cache_must_hit(), not read here */
	bool no_kernels;        /* entries of kind HT_CACHE_KERNEL are neither found nor kept */
	const char *graph_name; /* the answer of ht_cache_graph_name(); NULL: none */
};
/* One thread uses a cache at a time. */
struct ht_cache;
enum ht_status ht_cache_start(
	const struct ht_cache_options *opt, struct ht_diags *d, struct ht_cache **out);
void ht_cache_end(struct ht_cache *c, struct ht_diags *d); /* NULL is fine */
struct ht_store *ht_cache_store(const struct ht_cache *c); /* NULL: none */
bool ht_cache_must_hit(const struct ht_cache *c);
const char *ht_cache_graph_name(const struct ht_cache *c); /* NULL: none, or there is no store */
void ht_cache_count(struct ht_cache *c, enum ht_cache_counter what, uint64_t n);
/* False: a miss.  An entry from the remote store is kept in the store as well. */
bool ht_cache_get(struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
void ht_cache_put(struct ht_cache *c, const struct ht_cache_key *k,
	const struct ht_payload *payload, struct ht_diags *d);

/* ---- input.c ---- */

/* The SHA-256 of a file.  That of a large file is kept in the cache (`c` NULL: it is not) and found again
 * by the file's stamp.  `now_ns`: the time of CLOCK_REALTIME. */
void ht_cache_digest(struct ht_cache *c, const struct ht_file *f, int64_t now_ns,
	struct ht_diags *d, uint8_t digest[32]);

#endif
