/* cache: what was compiled, kept by content.
 *
 * A key is a text of tagged fields, which says everything that the result depends on.  Its XXH3-128
 * names the entry's file; an entry holds its key's text and ends with the SHA-256 of all before it,
 * and is a hit only where both are right: damage and collisions are misses.  An entry is one file that
 * appears whole by a rename and never changes; nobody takes a lock to read or write one.
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
	HT_CACHE_READS,  /* the names of the options that were read while a graph was compiled */
	HT_CACHE_KINDS
};

struct ht_cache_key {
	enum ht_cache_kind kind;
	struct ht_str text;
	struct ht_hash find; /* XXH3-128 of the text */
	uint8_t sha256[32];  /* of the text */
};

/* A key in the making; lives in the buffer's arena.  Equal fields in equal order give equal keys, and
 * different ones different texts: each field has its length. */
struct ht_key_text {
	enum ht_cache_kind kind;
	struct ht_buf text;
};
void ht_key_begin(struct ht_key_text *k, enum ht_cache_kind kind, struct ht_arena *a);
void ht_key_field(struct ht_key_text *k, const char *name, struct ht_str value);
struct ht_cache_key ht_key_end(struct ht_key_text *k);
/* The next field of a key's text, from *at = 0 on; false: there is none. */
bool ht_key_next(struct ht_str text, size_t *at, struct ht_str *name, struct ht_str *value);
/* 32 digits of `find`, which name the entry, and a NUL. */
void ht_key_name(const struct ht_cache_key *k, char name[33]);

/* ---- entry.c: the bytes of an entry, in a file and on a server ---- */

/* Spans of memory whose concatenation is the entry. */
struct ht_cache_entry {
	struct ht_str *piece; /* the caller's payload between a head and a tail, which are ours */
	size_t pieces;
	size_t bytes;       /* of all */
	uint8_t sha256[32]; /* of all bytes: what a content-addressed server calls it */
};
struct ht_cache_entry ht_entry_make(struct ht_arena *a, const struct ht_cache_key *k,
	const struct ht_str *payload, size_t pieces);
/* NULL, with the payload within `bytes`; or what is wrong with them as the entry of `k`.  Without a key
 * (NULL): as an entry of any. */
const char *ht_entry_check(
	struct ht_str bytes, const struct ht_cache_key *k, struct ht_str *payload);
/* The key's text of an entry that ht_entry_check() accepted. */
struct ht_str ht_entry_key_text(struct ht_str bytes, enum ht_cache_kind *kind);

/* ---- store.c: entries in a directory ---- */

enum ht_cache_mode { HT_CACHE_OFF, HT_CACHE_RO, HT_CACHE_RW };

struct ht_store_options {
	const char *dir; /* made where it is missing, but for its parents' parents */
	enum ht_cache_mode mode;
	bool sync;          /* fsync before an entry appears */
	bool shared;        /* the directory may be another user's and writable by others */
	uint64_t max_bytes; /* 0: no limit */
	const struct ht_files *files; /* NULL: the system's */
};
struct ht_store;
/* HT_E_ENVIRONMENT: it cannot be made, is no cache, or others may write to it. */
enum ht_status ht_store_open(
	const struct ht_store_options *opt, struct ht_diags *d, struct ht_store **out);
/* Writes the statistics; evicts what is too much. */
void ht_store_close(struct ht_store *s, struct ht_diags *d);

/* A verified entry, in memory or mapped. */
struct ht_cached {
	struct ht_str payload; /* begins at a multiple of 4096 in `bytes` */
	struct ht_str bytes;
	const struct ht_files *files; /* mapped with these; NULL: from malloc */
};
void ht_cached_release(struct ht_cached *c);

/* False: a miss.  Damaged entries are told of and removed. */
bool ht_store_get(struct ht_store *s, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
/* False: not kept, which is told of once.  What is there already is replaced. */
bool ht_store_put(struct ht_store *s, const struct ht_cache_key *k, const struct ht_cache_entry *e,
	struct ht_diags *d);

/* ---- cache.c: the store, then the remote one ---- */

struct ht_remote_module; /* cache/remote.h */
struct ht_remote_options;

struct ht_cache_options {
	struct ht_store_options store;         /* mode HT_CACHE_OFF: only the remote one, if any */
	const struct ht_remote_module *remote; /* NULL: none */
	const struct ht_remote_options *remote_options;
};
/* Threads may share a cache. */
struct ht_cache;
enum ht_status ht_cache_open(
	const struct ht_cache_options *opt, struct ht_diags *d, struct ht_cache **out);
void ht_cache_close(struct ht_cache *c, struct ht_diags *d);
/* What the remote one has is kept in the store too. */
bool ht_cache_get(struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d,
	struct ht_cached *out);
void ht_cache_put(struct ht_cache *c, const struct ht_cache_key *k, const struct ht_str *payload,
	size_t pieces, struct ht_diags *d);

#endif
