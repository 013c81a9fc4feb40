/* remote: the remote store.  Bazel's HTTP cache protocol through libcurl: entries are blobs,
 * PREFIX/cas/SHA-256, and PREFIX/ac/KEY is an ActionResult that names the blob.  The only folder that
 * links libcurl; built as a module of its own that is loaded when a URL is configured.
 *
 * Nothing that a server sends is trusted to be as long, as true or as quick as it ought to be. */
#ifndef HT_REMOTE_H
#define HT_REMOTE_H

#include "cache/remote.h"

/* ---- action.c: the one kind of ActionResult that we write and accept ---- */

/* The result of an action with one output file, our entry. */
struct ht_action {
	uint8_t sha256[32];
	uint64_t bytes;
};
enum { HT_ACTION_BYTES = 128 }; /* at most */
struct ht_str ht_action_write(const struct ht_action *a, char out[HT_ACTION_BYTES]);
/* NULL, or what is wrong with the bytes. */
const char *ht_action_read(struct ht_str bytes, struct ht_action *out);

/* ---- url.c ---- */

struct ht_remote_url {
	const char *base;            /* without user and without '/' at its end */
	const char *shown;           /* as messages have it: the user masked */
	const char *user, *password; /* NULL: none */
	const char *socket;          /* unix:/SOCKET; NULL: none */
	bool direct;                 /* it stays on this machine; no proxy */
	bool secret;                 /* nobody on the way can read along: TLS, or direct */
};
enum ht_status ht_remote_url_read(
	const char *text, struct ht_arena *a, struct ht_diags *d, struct ht_remote_url *out);

/* ---- http.c ---- */

struct ht_http_options {
	const struct ht_remote_url *url;
	const char *netrc, *ca_file; /* NULL: none */
	long connect_ms, total_ms;
};

enum { HT_TOKEN_BYTES = 1 << 14 }; /* of a token, with a NUL, at most */

/* PUT of pieces, or GET into memory of the caller's. */
struct ht_http_call {
	const char *path; /* below the URL */
	const struct ht_str *piece;
	size_t pieces, bytes; /* pieces 0: GET */
	char *into;
	size_t cap;
};

struct ht_http_reply {
	long status; /* 0: none came, and `why` says why not */
	size_t n;    /* bytes at `into` */
	long ms;     /* it took */
	const char *why;
};

/* Threads may share it. */
struct ht_http;
struct ht_http *ht_http_new(const struct ht_http_options *o); /* NULL: no memory */
void ht_http_free(struct ht_http *h);
/* `token`: NULL: none. */
void ht_http_call(struct ht_http *h, const struct ht_http_call *c, const char *token,
	struct ht_http_reply *out);

#endif
