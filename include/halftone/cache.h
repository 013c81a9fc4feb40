/* The compile cache: what was compiled, kept by content, in a directory and perhaps on a server.
 *
 * Whatever goes wrong with a cache, a compilation goes on without it and warns once.  Whoever can write
 * to the directory or to the server can put code into the programs of those who read it. */
#ifndef HALFTONE_CACHE_H
#define HALFTONE_CACHE_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Belongs to one thread at a time; other processes may use the same directory. */
struct ht_cache;

struct ht_cache_settings {
	size_t struct_size;
	const char
		*dir; /* NULL: $HALFTONE_CACHE_DIR, $XDG_CACHE_HOME/halftone or ~/.cache/halftone */
	enum ht_cache_mode mode; /* HT_CACHE_OFF: only the remote one, if any */
	uint64_t max_bytes;      /* 0: 5 GiB, but no more than a tenth of the file system */
	int sync;                /* entries are on the disk before they appear */
	int shared;   /* the directory may be another's, and writable by those who are trusted */
	int must_hit; /* a graph that is not there is HT_E_VERDICT, and is not compiled */
	int remote_write;   /* what was compiled is sent to the remote cache */
	int no_kernels;     /* graphs alone are looked for and kept, not the code of a kernel */
	const char *remote; /* URL; NULL: none */
	const char *remote_token_file; /* NULL: none; likewise the others */
	const char *remote_netrc, *remote_ca_file;
	const char *graph_key; /* 1 to 128 letters, digits, _ and -: graphs are found by the index
				* graph_key.idx of the directory; NULL: by their content alone */
};
#define HT_CACHE_SETTINGS_INIT                                                                     \
	{ sizeof(struct ht_cache_settings), NULL, HT_CACHE_RW, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, \
		NULL, NULL }

/* HT_E_ENVIRONMENT: the directory is another's or others may write to it; HT_E_USAGE: there is no
 * place for it, or the URL makes no sense. */
HT_API enum ht_status ht_cache_open(
	const struct ht_cache_settings *s, struct ht_diags *d, struct ht_cache **out);
/* 0: it cannot be a graph_key. */
HT_API int ht_cache_graph_key_check(const char *graph_key);
/* Cleans up behind itself where there is too much.  NULL is fine. */
HT_API void ht_cache_close(struct ht_cache *c, struct ht_diags *d);
/* "": there is no directory. */
HT_API const char *ht_cache_dir(const struct ht_cache *c);

/* From now on what is compiled of this model is looked for in the cache, and kept there.  The cache
 * has to outlive the model; NULL: none any more. */
HT_API void ht_model_set_cache(struct ht_model *m, struct ht_cache *c);

/* ---- looking inside; HT_E_ENVIRONMENT where the directory cannot be read ---- */

/* What happened so far in all processes that have ended, and what is there. */
HT_API enum ht_status ht_cache_stats(
	struct ht_cache *c, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
HT_API enum ht_status ht_cache_stats_reset(struct ht_cache *c, struct ht_diags *d);

struct ht_cache_cleaned {
	size_t entries, removed, temporary; /* left; removed; left behind by writers, removed */
	uint64_t bytes, removed_bytes;
	size_t foreign; /* of those that are left, of other versions: not read */
};
/* Reads everything; damaged entries are removed, with a warning each, and HT_E_VERDICT; likewise where
 * some cannot be read or removed.  Entries of other versions are left to those. */
HT_API enum ht_status ht_cache_verify(
	struct ht_cache *c, struct ht_diags *d, struct ht_cache_cleaned *out);
/* Evicts the least recently used entries until so many bytes are left; pinned ones stay. */
HT_API enum ht_status ht_cache_gc(
	struct ht_cache *c, uint64_t max_bytes, struct ht_diags *d, struct ht_cache_cleaned *out);

/* Likewise, to `to_bytes`, where there are `above_bytes` or more; entries that were used in the last
 * `recent_seconds` stay. */
HT_API enum ht_status ht_cache_age(struct ht_cache *c, uint64_t above_bytes, uint64_t to_bytes,
	int64_t recent_seconds, struct ht_diags *d, struct ht_cache_cleaned *out);

/* The name of the entry that a compilation looks for, or those of its kernels with `kernels`: 32
 * digits, a line each. */
HT_API enum ht_status ht_cache_key_of(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, int kernels, struct ht_diags *d,
	struct ht_bytes *out);
/* Why a compilation would miss: the first part of its key that differs from that of the entry which
 * differs least.  HT_E_VERDICT where it would. */
HT_API enum ht_status ht_cache_why_miss(struct ht_cache *c, const struct ht_model *m,
	const struct ht_compile_options *opt, enum ht_format format, struct ht_diags *d,
	struct ht_bytes *out);
/* An entry by its digits, as many as tell it from others: HT_E_USAGE when there is none or several. */
HT_API enum ht_status ht_cache_pin(
	struct ht_cache *c, const char *digits, int pinned, struct ht_diags *d);
HT_API enum ht_status ht_cache_entry_path(
	struct ht_cache *c, const char *digits, struct ht_diags *d, struct ht_bytes *out);

/* All entries in one file; and back, where each is checked: a damaged one is HT_E_INPUT. */
HT_API enum ht_status ht_cache_export(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out);
HT_API enum ht_status ht_cache_import(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out);

#ifdef __cplusplus
}
#endif
#endif
