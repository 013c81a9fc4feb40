/* The remote store: a module of its own, loaded when a URL is configured.  Same keys, same bytes. */
#ifndef HT_CACHE_REMOTE_H
#define HT_CACHE_REMOTE_H

#include "cache/cache.h"

struct ht_remote_options {
	const char *url;
	bool write;
};
struct ht_remote;

/* The module's one exported symbol, `ht_remote`. */
struct ht_remote_module {
	int abi; /* HT_REMOTE_ABI */
	enum ht_status (*open)(
		const struct ht_remote_options *opt, struct ht_diags *d, struct ht_remote **out);
	/* False: a miss.  *out: a whole entry from malloc, which the caller checks (ht_entry_check)
	 * and frees. */
	bool (*get)(struct ht_remote *r, const struct ht_cache_key *k, struct ht_diags *d,
		struct ht_str *out);
	/* False: not kept. */
	bool (*put)(struct ht_remote *r, const struct ht_cache_key *k, const struct ht_entry *e,
		struct ht_diags *d);
	void (*close)(struct ht_remote *r); /* NULL is fine */
};

#define HT_REMOTE_ABI 1

#endif
