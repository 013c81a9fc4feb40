/* HTTP requests, with limits on everything: time, headers, bytes. */
#include "remote/remote.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	HANDLES = 16,              /* connections kept for the next request */
	RETRIES = 2,               /* after broken connections and 5xx replies */
	MAX_HEADERS = 1 << 16,     /* bytes */
	MAX_EXPLANATION = 1 << 14, /* bytes of the body of a reply without success */
	SLOW_BYTES = 8192,         /* a transfer of less in each second ... */
	SLOW_SECONDS = 5           /* ... for so many seconds is aborted */
};

struct ht_http {
	struct ht_http_options o;
	pthread_mutex_t lock;
	CURL *idle[HANDLES];
	int n;
};

/* A request in progress. */
struct transfer {
	const struct ht_http_call *call;
	CURL *curl;
	/* sent so far: all pieces before `piece`, and `offset` bytes of it */
	size_t piece, offset;
	/* bytes received: body, headers, body of a reply without success */
	size_t n, headers, rest;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started;

static void start(void)
{
	started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct ht_http *ht_http_new(const struct ht_http_options *o)
{
	struct ht_http *h;

	pthread_once(&once, start);
	if (started != CURLE_OK)
		return NULL;
	h = ht_sys_alloc(sizeof *h);
	if (!h)
		return NULL;
	h->o = *o;
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

void ht_http_free(struct ht_http *h)
{
	if (!h)
		return;
	while (h->n)
		curl_easy_cleanup(h->idle[--h->n]);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static CURL *take_handle(struct ht_http *h)
{
	CURL *curl = NULL;

	pthread_mutex_lock(&h->lock);
	if (h->n)
		curl = h->idle[--h->n];
	pthread_mutex_unlock(&h->lock);
	if (curl)
		curl_easy_reset(curl); /* keeps the connection */
	return curl ? curl : curl_easy_init();
}

static void give_back(struct ht_http *h, CURL *curl)
{
	pthread_mutex_lock(&h->lock);
	if (h->n < HANDLES) {
		h->idle[h->n++] = curl;
		curl = NULL;
	}
	pthread_mutex_unlock(&h->lock);
	curl_easy_cleanup(curl);
}

/* ---- callbacks of libcurl ---- */

static size_t send_piece(char *p, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t room = size * count, n = 0;

	while (n < room && t->piece < t->call->pieces) {
		const struct ht_str *s = &t->call->piece[t->piece];
		size_t left = s->n - t->offset, part = left < room - n ? left : room - n;

		memcpy(p + n, s->p + t->offset, part);
		n += part;
		t->offset += part;
		if (part == left) {
			t->piece++;
			t->offset = 0;
		}
	}
	return n;
}

/* libcurl only ever goes back to the start, to send everything again. */
static int seek_piece(void *arg, curl_off_t offset, int origin)
{
	struct transfer *t = arg;

	if (offset || origin != SEEK_SET)
		return CURL_SEEKFUNC_CANTSEEK;
	t->piece = t->offset = 0;
	return CURL_SEEKFUNC_OK;
}

static size_t receive(char *p, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t n = size * count;
	long status = 0;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	if (t->call->pieces || status != 200) {
		t->rest += n;
		return t->rest > MAX_EXPLANATION ? 0 : n;
	}
	if (n > t->call->cap - t->n)
		return 0;
	memcpy(t->call->into + t->n, p, n);
	t->n += n;
	return n;
}

static size_t receive_header(char *p, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;

	(void)p;
	t->headers += size * count;
	return t->headers > MAX_HEADERS ? 0 : size * count;
}

/* ---- requests ---- */

static bool set_credentials(
	const struct ht_http *h, CURL *curl, const char *token, struct curl_slist **headers)
{
	const struct ht_http_options *o = &h->o;
	char header[HT_TOKEN_BYTES + 32];
	struct curl_slist *more;

	if (o->url->user) {
		curl_easy_setopt(curl, CURLOPT_USERNAME, o->url->user);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, o->url->password);
	} else if (o->netrc && !token) {
		curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
		curl_easy_setopt(curl, CURLOPT_NETRC_FILE, o->netrc);
	}
	curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	if (!token)
		return true;
	snprintf(header, sizeof header, "Authorization: Bearer %s", token);
	more = curl_slist_append(*headers, header);
	explicit_bzero(header, sizeof header);
	*headers = more ? more : *headers;
	return more;
}

static void set_transfer(struct transfer *t)
{
	CURL *curl = t->curl;
	curl_off_t bytes = (curl_off_t)t->call->bytes;

	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, receive_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
	if (t->call->pieces) {
		curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, bytes);
		curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_piece);
		curl_easy_setopt(curl, CURLOPT_READDATA, t);
		curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, seek_piece);
		curl_easy_setopt(curl, CURLOPT_SEEKDATA, t);
	} else {
		/* A reply that announces more bytes is not read at all. */
		curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE,
			(curl_off_t)(t->call->cap > MAX_EXPLANATION ? t->call->cap
								    : MAX_EXPLANATION));
	}
}

static void set_limits(const struct ht_http *h, CURL *curl, long ms)
{
	const struct ht_http_options *o = &h->o;

	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, o->connect_ms < ms ? o->connect_ms : ms);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SLOW_SECONDS);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (o->ca_file)
		curl_easy_setopt(curl, CURLOPT_CAINFO, o->ca_file);
	if (o->url->direct)
		curl_easy_setopt(curl, CURLOPT_PROXY, "");
	if (o->url->socket)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, o->url->socket);
}

/* Whether the connection broke, so that another one may work. */
static bool broke(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return true;
	default:
		return false;
	}
}

/* False: the request may be tried again. */
static bool try_once(struct ht_http *h, const struct ht_http_call *c, const char *token, long ms,
	struct ht_http_reply *out)
{
	struct transfer t = { .call = c, .curl = take_handle(h) };
	struct curl_slist *headers = t.curl ? curl_slist_append(NULL, "Expect:") : NULL;
	char url[4096];
	CURLcode code = CURLE_OUT_OF_MEMORY;
	int n = snprintf(url, sizeof url, "%s%s", h->o.url->base, c->path);

	*out = (struct ht_http_reply){ .why = "no memory, or the URL is too long" };
	if (headers && n > 0 && (size_t)n < sizeof url &&
		set_credentials(h, t.curl, token, &headers)) {
		curl_easy_setopt(t.curl, CURLOPT_URL, url);
		curl_easy_setopt(t.curl, CURLOPT_HTTPHEADER, headers);
		set_limits(h, t.curl, ms);
		set_transfer(&t);
		code = curl_easy_perform(t.curl);
		out->why = curl_easy_strerror(code);
		curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &out->status);
		/* A status without success is an answer, even if its body is incomplete. */
		if (code != CURLE_OK && out->status < 300)
			out->status = 0;
		if (code == CURLE_WRITE_ERROR || code == CURLE_FILESIZE_EXCEEDED)
			out->why = "more bytes than there ought to be";
		out->n = t.n;
	}
	curl_slist_free_all(headers);
	if (t.curl)
		give_back(h, t.curl);
	return out->status ? out->status < 500 : !broke(code);
}

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void ht_http_call(struct ht_http *h, const struct ht_http_call *c, const char *token,
	struct ht_http_reply *out)
{
	long long start = now_ms(), end = start + h->o.total_ms;
	bool done = false;
	long wait_ms = 50;

	for (int i = 0; i <= RETRIES && !done; i++) {
		long long left = end - now_ms();

		if (i && left <= wait_ms)
			break;
		if (i) {
			nanosleep(&(struct timespec){ .tv_nsec = wait_ms * 1000000 }, NULL);
			left -= wait_ms;
			wait_ms *= 4;
		}
		done = try_once(h, c, token, left > 0 ? (long)left : 1, out);
	}
	out->ms = (long)(now_ms() - start);
}
