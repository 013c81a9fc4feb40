/* The compile cache keeps compiled kernels and graphs, addressed by content, in a directory and
 * optionally on a server.
 *
 * When a cache fails, the compilation continues without it and warns once.  Anyone who can write
 * to the directory or to the server can put code into the programs of everyone who reads it. */
#ifndef HALFTONE_CACHE_H
#define HALFTONE_CACHE_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open cache.  It belongs to one thread at a time.  Other processes may use the same directory. */
struct ht_cache;

struct ht_cache_settings {
	size_t struct_size;
	const char
		*dir; /* NULL: $HALFTONE_CACHE_DIR, $XDG_CACHE_HOME/halftone or ~/.cache/halftone */
	enum ht_cache_mode mode; /* HT_CACHE_OFF: only the remote cache, if any */
	uint64_t max_bytes;      /* 0: 5 GiB, but at most a tenth of the file system */
	int sync;                /* entries are written to the disk before they appear */
	int shared;   /* another user may own the directory, and trusted users may write to it */
	int must_hit; /* a graph that is not in the cache is HT_E_VERDICT and is not compiled */
	int remote_write;   /* compiled entries are sent to the remote cache */
	int no_kernels;     /* only graphs are looked for and kept, not the code of kernels */
	const char *remote; /* URL; NULL: none */
	const char *remote_token_file; /* file; NULL: none (also for the next two) */
	const char *remote_netrc, *remote_ca_file;
	const char *graph_key; /* 1 to 128 letters, digits, _ and -: graphs are found through the
				* file graph_key.idx of the directory; NULL: by content alone */
};
#define HT_CACHE_SETTINGS_INIT                                                                     \
	{ sizeof(struct ht_cache_settings), NULL, HT_CACHE_RW, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, \
		NULL, NULL }

/* Opens a cache.  HT_E_ENVIRONMENT: another user owns the directory or may write to it.
 * HT_E_USAGE: no directory is given or known, or the URL is malformed. */
HT_API enum ht_status ht_cache_open(
	const struct ht_cache_settings *s, struct ht_diags *d, struct ht_cache **out);
/* Returns 0 when the text is not a valid graph_key. */
HT_API int ht_cache_graph_key_check(const char *graph_key);
/* Closes a cache, which may be NULL.  When the directory exceeds its limit, entries are evicted. */
HT_API void ht_cache_close(struct ht_cache *c, struct ht_diags *d);
/* The directory of the cache; "": it has none. */
HT_API const char *ht_cache_dir(const struct ht_cache *c);

/* From now on compilations of this model look in the cache and keep their results there.  The
 * cache must outlive the model.  NULL removes the cache from the model. */
HT_API void ht_model_set_cache(struct ht_model *m, struct ht_cache *c);

/* ---- inspection; HT_E_ENVIRONMENT: the directory cannot be read ---- */

/* Gives the counters of all processes that have ended, and the current content of the directory. */
HT_API enum ht_status ht_cache_stats(
	struct ht_cache *c, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
HT_API enum ht_status ht_cache_stats_reset(struct ht_cache *c, struct ht_diags *d);

struct ht_cache_cleaned {
	size_t entries, removed, temporary; /* entries left; entries removed; stale temporary files
					     * of writers that were removed */
	uint64_t bytes, removed_bytes;      /* of the entries left and of those removed */
	size_t foreign; /* entries left that other versions wrote; they were not read */
};
/* Reads and checks every entry.  A damaged entry is removed with a warning.  HT_E_VERDICT: an
 * entry was damaged, or could not be read or removed.  Entries of other versions are left as they
 * are. */
HT_API enum ht_status ht_cache_verify(
	struct ht_cache *c, struct ht_diags *d, struct ht_cache_cleaned *out);
/* Evicts the least recently used entries until at most `max_bytes` are left.  Pinned entries stay. */
HT_API enum ht_status ht_cache_gc(
	struct ht_cache *c, uint64_t max_bytes, struct ht_diags *d, struct ht_cache_cleaned *out);

/* Does nothing below `above_bytes`.  Else evicts like ht_cache_gc() until at most `to_bytes` are
 * left. Entries that were used in the last `recent_seconds` stay. */
HT_API enum ht_status ht_cache_age(struct ht_cache *c, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_cache_cleaned *out);

/* Gives the name of the entry that a compilation looks for.  With non-zero `kernels` it gives the
 * names of the entries of its kernels.  A name is 32 digits on a line. */
HT_API enum ht_status ht_cache_key_of(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, int kernels, struct ht_diags *d,
	struct ht_bytes *out);
/* Explains why a compilation would miss the cache: compares its key with the key of the most
 * similar entry and gives the first part that differs.  HT_E_VERDICT: the compilation would miss. */
HT_API enum ht_status ht_cache_why_miss(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, enum ht_format format, struct ht_diags *d,
	struct ht_bytes *out);
/* Pin an entry (or unpin it when `pinned` is 0), and give the path of its file.  `digits` are the
 * first digits of its name.  HT_E_USAGE: no entry or several entries begin with them. */
HT_API enum ht_status ht_cache_pin(
	struct ht_cache *c, const char *digits, int pinned, struct ht_diags *d);
HT_API enum ht_status ht_cache_entry_path(
	struct ht_cache *c, const char *digits, struct ht_diags *d, struct ht_bytes *out);

/* Write all entries to one file, and add all entries of such a file to the cache.  Import checks
 * each entry; a damaged one is HT_E_INPUT. */
HT_API enum ht_status ht_cache_export(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out);
HT_API enum ht_status ht_cache_import(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out);

#ifdef __cplusplus
}
#endif
#endif
