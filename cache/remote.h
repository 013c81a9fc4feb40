/* The interface of the remote store, a module that is loaded when a URL is configured.  A remote store has
 * the keys and bytes of the local one. */
#ifndef HT_CACHE_REMOTE_H
#define HT_CACHE_REMOTE_H

#include "cache/cache.h"

/* open() copies the strings.  NULL and 0 mean none or the default. */
struct ht_remote_options {
	const char *url;        /* http://, https:// or unix:/SOCKET, perhaps with USER:PASSWORD@ */
	bool write;             /* entries are also sent to the server */
	const char *token_file; /* read before each request; its first line is the bearer token */
	const char *token;      /* the bearer token; NULL: $HALFTONE_REMOTE_TOKEN */
	const char *netrc;      /* a file with the user names and passwords of hosts */
	const char *ca_file;    /* certificates (PEM) to trust in place of the system's */
	long connect_ms;        /* time limit for connecting; default 3,000 */
	long total_ms;          /* time limit for a request with its retries; default 60,000 */
	size_t max_bytes;       /* size limit of an entry; default 1 GiB */
};
struct ht_remote;

/* The type of the module's one exported symbol, `ht_remote`.  Threads may share a remote store.
 *
 * Whatever the server does, a call takes a bounded time and is a miss at worst.  The first failure is
 * reported as a warning.  After the third failure, or after a miss that took too long, the server is not
 * asked any more. */
struct ht_remote_module {
	int abi; /* HT_REMOTE_ABI */
	/* HT_E_USAGE: the URL or another option is invalid.  Sends nothing yet. */
	enum ht_status (*open)(
		const struct ht_remote_options *opt, struct ht_diags *d, struct ht_remote **out);
	/* False: a miss.  *out has the bytes of the answer, whose SHA-256 the server stated, in memory from
	 * malloc().  The caller checks that they are an entry of the key (ht_entry_check()) and frees
	 * them. */
	bool (*get)(struct ht_remote *r, const struct ht_cache_key *k, struct ht_diags *d,
		struct ht_str *out);
	/* Counts a failure: the bytes that get() returned are not an entry of the key. */
	void (*reject)(struct ht_remote *r, const char *why, struct ht_diags *d);
	/* False: the server did not keep the entry. */
	bool (*put)(struct ht_remote *r, const struct ht_cache_key *k,
		const struct ht_cache_entry *e, struct ht_diags *d);
	void (*close)(struct ht_remote *r); /* NULL is fine */
};

#define HT_REMOTE_ABI 2

#endif
