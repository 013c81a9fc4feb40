/* The remote store: an entry is a blob under its SHA-256; the ActionResult under the key names the
 * blob. */
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_FAILURES = 3,
	MAX_ACTION = 1 << 16, /* bytes of an ActionResult */
	PATH_BYTES = 80       /* "/cas/", 64 digits, and a NUL */
};

/* The token has no option, since everybody can read command lines. */
#define TOKEN_VARIABLE "HALFTONE_REMOTE_TOKEN"

struct ht_remote {
	struct ht_arena arena; /* for the strings below */
	struct ht_remote_url url;
	struct ht_http *http;
	const char *token_file, *token;
	size_t max_bytes;
	bool write;
	/* Counted apart: a server that refuses writes may still answer reads. */
	atomic_int failures, write_failures;
	atomic_long waited_ms; /* the time that it took to answer that it has nothing */
	long patience_ms;
	atomic_flag said;
};

/* Reports a failure, and counts it in `failures`.  `status`: of the reply that states it; 0:
 * none. */
static bool failed(
	struct ht_remote *r, atomic_int *failures, struct ht_diags *d, long status, const char *why)
{
	const char *what = failures == &r->write_failures ? "write" : "read or write";
	char code[32] = "";

	atomic_fetch_add(failures, 1);
	if (atomic_flag_test_and_set(&r->said))
		return false;
	if (status)
		snprintf(code, sizeof code, " (HTTP status %ld)", status);
	ht_warn(d, HT_NOWHERE,
		"remote cache %s: cannot %s: %s%s; going on without (it is not asked again after "
		"%d failures)",
		r->url.shown, what, why, code, MAX_FAILURES);
	return false;
}

/* Whether the server is no longer asked: it failed too often, or costs more time than it can
 * save. */
static bool is_off(struct ht_remote *r, struct ht_diags *d)
{
	if (atomic_load(&r->failures) >= MAX_FAILURES)
		return true;
	if (atomic_load(&r->waited_ms) <= r->patience_ms)
		return false;
	atomic_fetch_add(&r->failures, MAX_FAILURES);
	failed(r, &r->failures, d, 0, "it takes too long to say that it has nothing");
	return true;
}

/* A text for a status that is neither a success nor a miss. */
static const char *refusal(long status)
{
	if (status >= 300 && status < 400)
		return "it redirects, which is not followed: configure the URL that it leads to";
	switch (status) {
	case 401:
	case 403:
		return "it wants other credentials";
	case 405:
		return "it does not allow that";
	case 413:
	case 507:
		return "it has no room";
	default:
		return status >= 500 ? "it failed" : "it refused";
	}
}

/* ---- credentials ---- */

/* Reads the token from its file into `out`, each time again since tokens expire.  False: there is
 * none. */
static bool read_token(const char *path, char out[HT_TOKEN_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, out, HT_TOKEN_BYTES - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0 || n == HT_TOKEN_BYTES - 1)
		return false;
	out[n] = 0;
	out[strcspn(out, "\r\n")] = 0;
	return true;
}

/* Whether the token has only printable characters, so that it cannot end a header. */
static bool token_valid(const char *s)
{
	if (!*s || strlen(s) >= HT_TOKEN_BYTES)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

static bool call(struct ht_remote *r, const struct ht_http_call *c, struct ht_http_reply *out)
{
	char token[HT_TOKEN_BYTES];

	if (!r->token_file) {
		ht_http_call(r->http, c, r->token, out);
	} else if (read_token(r->token_file, token) && token_valid(token)) {
		ht_http_call(r->http, c, token, out);
		explicit_bzero(token, sizeof token);
	} else {
		*out = (struct ht_http_reply){ .why = "the file of the token holds none" };
	}
	return out->status != 0;
}

static enum ht_status check_credentials(
	const struct ht_remote *r, const struct ht_remote_options *o, struct ht_diags *d)
{
	if (r->token && !token_valid(r->token))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"the token for the remote cache is too long or holds a space or a control character");
	if ((r->token || r->token_file) && r->url.user)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"a token and a user in the URL of the remote cache at the same time");
	if ((r->token || r->token_file || r->url.user) && !r->url.secret)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"remote cache %s: credentials go over https:// only", r->url.shown);
	if (o->ca_file && access(o->ca_file, R_OK))
		return ht_error(d, HT_E_ENVIRONMENT,
			(struct ht_where){ .path = o->ca_file, .offset = -1 },
			"cannot read the certificates for the remote cache: %s", strerror(errno));
	return HT_OK;
}

/* ---- names ---- */

static void put_path(char out[PATH_BYTES], const char *folder, const uint8_t sha256[32])
{
	char *p = out + snprintf(out, PATH_BYTES, "/%s/", folder);

	for (int i = 0; i < 32; i++)
		p += snprintf(p, 3, "%02x", sha256[i]);
}

/* Separates keys of different kinds, and all keys from those of other programs. */
static void action_path(char out[PATH_BYTES], const struct ht_cache_key *k)
{
	static const char tag[16] = "halftone/1";
	uint8_t text[sizeof tag + 1 + sizeof k->sha256], name[32];

	memcpy(text, tag, sizeof tag);
	text[sizeof tag] = (uint8_t)k->kind;
	memcpy(text + sizeof tag + 1, k->sha256, sizeof k->sha256);
	ht_sha256(text, sizeof text, name);
	put_path(out, "ac", name);
}

/* ---- get ---- */

/* 1: the bytes are at c->into; 0: the server has no such blob; -1: failure. */
static int get(struct ht_remote *r, const char *path, char *into, size_t cap, size_t *n,
	struct ht_diags *d)
{
	struct ht_http_call c = { .path = path, .into = into, .cap = cap };
	struct ht_http_reply reply;

	if (!call(r, &c, &reply)) {
		failed(r, &r->failures, d, 0, reply.why);
		return -1;
	}
	*n = reply.n;
	if (reply.status == 200)
		return 1;
	if (reply.status == 404 || reply.status == 204) {
		atomic_fetch_add(&r->waited_ms, reply.ms);
		return 0;
	}
	failed(r, &r->failures, d, reply.status, refusal(reply.status));
	return -1;
}

static bool get_action(struct ht_remote *r, const struct ht_cache_key *k, struct ht_action *out,
	struct ht_diags *d)
{
	char path[PATH_BYTES], bytes[MAX_ACTION];
	const char *wrong;
	size_t n = 0;

	action_path(path, k);
	if (get(r, path, bytes, sizeof bytes, &n, d) <= 0)
		return false;
	wrong = ht_action_read((struct ht_str){ bytes, n }, out);
	if (wrong) {
		char why[128];

		snprintf(why, sizeof why, "its answer is no ActionResult of ours: %s", wrong);
		return failed(r, &r->failures, d, 0, why);
	}
	if (!out->bytes || out->bytes > r->max_bytes)
		return failed(
			r, &r->failures, d, 0, "it names an entry larger than entries may be");
	return true;
}

static bool remote_get(
	struct ht_remote *r, const struct ht_cache_key *k, struct ht_diags *d, struct ht_str *out)
{
	struct ht_action action;
	char path[PATH_BYTES], *bytes;
	uint8_t sha256[32];
	size_t n = 0;

	*out = (struct ht_str){ NULL, 0 };
	if (is_off(r, d) || !get_action(r, k, &action, d))
		return false;
	/* Pages that nobody writes to cost nothing, whatever size the server claims. */
	bytes = malloc(action.bytes);
	if (!bytes)
		return false;
	put_path(path, "cas", action.sha256);
	if (get(r, path, bytes, action.bytes, &n, d) <= 0)
		goto miss;
	ht_sha256(bytes, n, sha256);
	if (n != action.bytes || memcmp(sha256, action.sha256, sizeof sha256)) {
		failed(r, &r->failures, d, 0, "it sent other bytes than were asked for");
		goto miss;
	}
	*out = (struct ht_str){ bytes, n };
	return true;
miss:
	free(bytes);
	return false;
}

static void remote_reject(struct ht_remote *r, const char *why, struct ht_diags *d)
{
	char text[128];

	snprintf(text, sizeof text, "it sent what is no entry of the cache: %s", why);
	failed(r, &r->failures, d, 0, text);
}

/* ---- put ---- */

static bool put(struct ht_remote *r, const char *path, const struct ht_str *piece, size_t pieces,
	size_t bytes, struct ht_diags *d)
{
	struct ht_http_call c = { .path = path, .piece = piece, .pieces = pieces, .bytes = bytes };
	struct ht_http_reply reply;

	if (!call(r, &c, &reply))
		return failed(r, &r->failures, d, 0, reply.why);
	switch (reply.status) {
	case 200:
	case 201:
	case 202:
	case 204:
		return true;
	default:
		return failed(r, &r->write_failures, d, reply.status, refusal(reply.status));
	}
}

static bool remote_put(struct ht_remote *r, const struct ht_cache_key *k,
	const struct ht_cache_entry *e, struct ht_diags *d)
{
	struct ht_action action = { .bytes = e->bytes };
	char path[PATH_BYTES], bytes[HT_ACTION_BYTES];
	struct ht_sha256 whole;
	struct ht_str result;

	if (!r->write || e->bytes > r->max_bytes || is_off(r, d) ||
		atomic_load(&r->write_failures) >= MAX_FAILURES)
		return false;
	ht_sha256_begin(&whole);
	for (size_t i = 0; i < e->pieces; i++)
		ht_sha256_add(&whole, e->piece[i].p, e->piece[i].n);
	ht_sha256_end(&whole, action.sha256);
	put_path(path, "cas", action.sha256);
	if (!put(r, path, e->piece, e->pieces, e->bytes, d))
		return false;
	result = ht_action_write(&action, bytes);
	action_path(path, k);
	return put(r, path, &result, 1, result.n, d);
}

/* ---- open, close ---- */

static void remote_close(struct ht_remote *r)
{
	if (!r)
		return;
	ht_http_free(r->http);
	ht_arena_release(&r->arena);
	free(r);
}

static const char *copy(struct ht_arena *a, const char *s)
{
	return s && *s ? ht_str_copy(a, ht_str(s)).p : NULL;
}

static enum ht_status set_up(
	struct ht_remote *r, const struct ht_remote_options *o, struct ht_diags *d)
{
	struct ht_http_options http = {
		.url = &r->url,
		.ca_file = copy(&r->arena, o->ca_file),
		.connect_ms = o->connect_ms ? o->connect_ms : 3000,
		.total_ms = o->total_ms ? o->total_ms : 60000,
	};

	HT_TRY(ht_remote_url_read(o->url, &r->arena, d, &r->url));
	r->token_file = copy(&r->arena, o->token_file);
	if (!r->token_file)
		r->token = copy(&r->arena, o->token ? o->token : secure_getenv(TOKEN_VARIABLE));
	HT_TRY(check_credentials(r, o, d));
	/* The user's own netrc names many hosts; it is left out for connections that others can
	 * read. */
	http.netrc = r->url.secret ? copy(&r->arena, o->netrc) : NULL;
	r->write = o->write;
	r->patience_ms = 2 * http.total_ms;
	r->max_bytes = o->max_bytes ? o->max_bytes : (size_t)1 << 30;
	r->http = ht_http_new(&http);
	if (!r->http)
		ht_arena_fail(&r->arena);
	return HT_OK;
}

static enum ht_status remote_open(
	const struct ht_remote_options *opt, struct ht_diags *d, struct ht_remote **out)
{
	struct ht_remote *r = ht_sys_alloc(sizeof *r);
	struct ht_unwind unwind;
	enum ht_status st;

	*out = NULL;
	if (!r)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for a remote cache");
	atomic_flag_clear(&r->said);
	ht_arena_init(&r->arena, &unwind);
	if (setjmp(unwind.env))
		st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for a remote cache");
	else
		st = set_up(r, opt, d);
	r->arena.unwind = NULL; /* the arena is not used any more */
	if (st == HT_OK)
		*out = r;
	else
		remote_close(r);
	return st;
}

extern const struct ht_remote_module ht_remote;

__attribute__((visibility("default"))) const struct ht_remote_module ht_remote = {
	.abi = HT_REMOTE_ABI,
	.open = remote_open,
	.get = remote_get,
	.reject = remote_reject,
	.put = remote_put,
	.close = remote_close,
};
