/* The remote store's URL: the part that libcurl gets, and the part that messages may show. */
#include "remote/remote.h"

#include <string.h>

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %40 for '@' and the like; NULL: the escapes are wrong. */
static const char *unescape(struct ht_str s, struct ht_arena *a)
{
	char *out = ht_alloc(a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '%') {
			int high = i + 2 < s.n ? digit(s.p[i + 1]) : -1;
			int low = high < 0 ? -1 : digit(s.p[i + 2]);

			if (low < 0)
				return NULL;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if ((unsigned char)c < 0x20 || c == 0x7f)
			return NULL;
		out[n++] = c;
	}
	return out;
}

static bool stays_here(struct ht_str host)
{
	return (ht_str_starts(host, "127.") && strspn(host.p, "0123456789.") >= host.n) ||
	       ht_str_is(host, "localhost") || ht_str_is(host, "[::1]");
}

static struct ht_str host_of(struct ht_str authority)
{
	const char *colon = memrchr(authority.p, ':', authority.n);

	if (colon && !memchr(colon, ']', authority.n - (size_t)(colon - authority.p)))
		authority.n = (size_t)(colon - authority.p);
	return authority;
}

/* Reads USER[:PASSWORD], escaped. */
static bool read_user(struct ht_str s, struct ht_arena *a, struct ht_remote_url *out)
{
	const char *colon = memchr(s.p, ':', s.n);
	size_t n = colon ? (size_t)(colon - s.p) : s.n;

	out->user = unescape((struct ht_str){ s.p, n }, a);
	out->password = colon ? unescape((struct ht_str){ colon + 1, s.n - n - 1 }, a) : "";
	/* libcurl takes both as one text with a colon between them, so the user has no colon. */
	return out->user && out->password && !strchr(out->user, ':');
}

/* A message shows no part of a URL that cannot be parsed, since any part may contain the secret. */
static enum ht_status refuse(struct ht_diags *d, const char *why)
{
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "the URL of the remote cache %s", why);
}

static enum ht_status read_socket(const char *path, struct ht_diags *d, struct ht_remote_url *out)
{
	if (*path != '/')
		return refuse(d, "does not name its socket from the root: unix:/PATH");
	out->socket = path;
	out->base = "http://localhost";
	out->shown = path - strlen("unix:");
	out->secret = out->direct = true;
	return HT_OK;
}

enum ht_status ht_remote_url_read(
	const char *text, struct ht_arena *a, struct ht_diags *d, struct ht_remote_url *out)
{
	struct ht_str s = ht_str_copy(a, ht_str(text)), scheme, authority;
	const char *at, *slash;

	*out = (struct ht_remote_url){ .secret = ht_str_starts(s, "https://") };
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] <= 0x20 || (unsigned char)s.p[i] >= 0x7f ||
			s.p[i] == '\\')
			return refuse(d, "holds a character that has to be escaped");
	if (ht_str_starts(s, "unix:"))
		return read_socket(s.p + strlen("unix:"), d, out);
	scheme = out->secret ? HT_STR("https://") : HT_STR("http://");
	if (!ht_str_starts(s, scheme.p))
		return refuse(d, "begins with none of https://, http:// and unix:/");
	if (memchr(s.p, '?', s.n) || memchr(s.p, '#', s.n))
		return refuse(d, "has a query or a fragment; it is a prefix of paths");
	while (s.n > scheme.n && s.p[s.n - 1] == '/')
		s.n--;
	s.p += scheme.n;
	s.n -= scheme.n;
	slash = memchr(s.p, '/', s.n);
	authority = (struct ht_str){ s.p, slash ? (size_t)(slash - s.p) : s.n };
	at = memrchr(authority.p, '@', authority.n);
	if (at) {
		size_t n = (size_t)(at - authority.p);

		if (!read_user((struct ht_str){ authority.p, n }, a, out))
			return refuse(d, "has a user or password that is not escaped as in URLs");
		s.p += n + 1;
		s.n -= n + 1;
		authority.p += n + 1;
		authority.n -= n + 1;
	}
	if (!authority.n)
		return refuse(d, "names no host");
	out->direct = stays_here(host_of(authority));
	out->secret = out->secret || out->direct;
	out->base = ht_str_printf(a, "%s%.*s", scheme.p, HT_STR_ARG(s)).p;
	out->shown = ht_str_printf(a, "%s%s%.*s", scheme.p, at ? "***@" : "", HT_STR_ARG(s)).p;
	return HT_OK;
}
