/* The remote store: a module of its own, loaded when a URL is configured.  Same keys, same bytes. */
#ifndef HT_CACHE_REMOTE_H
#define HT_CACHE_REMOTE_H

#include "cache/cache.h"

/* Strings are not kept.  NULL and 0: none, or the default. */
struct ht_remote_options {
	const char *url; /* http://, https:// or unix:/SOCKET, perhaps with USER:PASSWORD@ */
	bool write;      /* entries are sent too */
	const char
		*token_file; /* read before each request: what it begins with is the bearer token */
	const char *token;   /* the same as text; NULL: $HALFTONE_REMOTE_TOKEN */
	const char *netrc;   /* file with user names and passwords of hosts */
	const char *ca_file; /* certificates (PEM) that are trusted instead of the system's */
	long connect_ms;     /* to reach the server; 3,000 */
	long total_ms;       /* for one request with its retries; 60,000 */
	size_t max_bytes;    /* of an entry; 1 GiB */
};
struct ht_remote;

/* The module's one exported symbol, `ht_remote`.  Threads may share a remote store.
 *
 * Whatever the server does costs a bounded time and is a miss at worst.  The first failure of a
 * remote store is a warning; behind the third, or when it is slow to say that it has nothing, it is not
 * asked any more. */
struct ht_remote_module {
	int abi; /* HT_REMOTE_ABI */
	/* HT_E_USAGE: the URL or what goes with it makes no sense.  Nothing is sent yet. */
	enum ht_status (*open)(
		const struct ht_remote_options *opt, struct ht_diags *d, struct ht_remote **out);
	/* False: a miss.  *out: bytes from malloc, which are those that the server's answer for the
	 * key named by their SHA-256.  The caller checks that they are an entry of the key
	 * (ht_entry_check) and frees them. */
	bool (*get)(struct ht_remote *r, const struct ht_cache_key *k, struct ht_diags *d,
		struct ht_str *out);
	/* What get() gave is no entry of the key: a failure. */
	void (*reject)(struct ht_remote *r, const char *why, struct ht_diags *d);
	/* False: not kept. */
	bool (*put)(struct ht_remote *r, const struct ht_cache_key *k,
		const struct ht_cache_entry *e, struct ht_diags *d);
	void (*close)(struct ht_remote *r); /* NULL is fine */
};

#define HT_REMOTE_ABI 2

#endif
