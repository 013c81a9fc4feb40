/* remote: the remote store.  It speaks Bazel's HTTP cache protocol through libcurl: entries are
 * blobs, PREFIX/cas/SHA-256, and PREFIX/ac/KEY is an ActionResult that names the blob.  This is the
 * only folder that links libcurl; it is a module of its own that is loaded if a URL is configured.
 *
 * A server is not trusted: its answers may be too long, wrong, or slow. */
#ifndef HT_REMOTE_H
#define HT_REMOTE_H

#include "cache/remote.h"

/* ---- action.c: the one form of ActionResult that is written and accepted ---- */

/* The result of an action with one output file, which is the entry. */
struct ht_action {
	uint8_t sha256[32];
	uint64_t bytes;
};
enum { HT_ACTION_BYTES = 128 }; /* upper bound of the bytes of an ActionResult */
struct ht_str ht_action_write(const struct ht_action *a, char out[HT_ACTION_BYTES]);
/* Parses an ActionResult.  NULL, or the error in the bytes. */
const char *ht_action_read(struct ht_str bytes, struct ht_action *out);

/* ---- url.c ---- */

struct ht_remote_url {
	const char *base;            /* without the user, and without '/' at the end */
	const char *shown;           /* for messages: with the user masked */
	const char *user, *password; /* NULL: none */
	const char *socket;          /* unix:/SOCKET; NULL: none */
	bool direct;                 /* it does not leave this machine, so no proxy is used */
	bool secret;                 /* nobody can read the connection: it uses TLS, or is direct */
};
enum ht_status ht_remote_url_read(
	const char *text, struct ht_arena *a, struct ht_diags *d, struct ht_remote_url *out);

/* ---- http.c ---- */

struct ht_http_options {
	const struct ht_remote_url *url;
	const char *netrc, *ca_file; /* NULL: none */
	long connect_ms, total_ms;
};

enum { HT_TOKEN_BYTES = 1 << 14 }; /* upper bound of the bytes of a token with its NUL */

/* A PUT of pieces, or a GET into memory of the caller. */
struct ht_http_call {
	const char *path; /* of the resource, below the URL */
	const struct ht_str *piece;
	size_t pieces, bytes; /* pieces 0: a GET */
	char *into;
	size_t cap;
};

struct ht_http_reply {
	long status; /* 0: no reply came, and `why` says why */
	size_t n;    /* bytes written to `into` */
	long ms;     /* duration */
	const char *why;
};

/* Threads may share it. */
struct ht_http;
struct ht_http *ht_http_new(const struct ht_http_options *o); /* NULL: out of memory */
void ht_http_free(struct ht_http *h);
/* Sends one request, with retries, and fills in *out.  `token` NULL: none. */
void ht_http_call(struct ht_http *h, const struct ht_http_call *c, const char *token,
	struct ht_http_reply *out);

#endif
