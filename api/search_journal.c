/* The journal of a search: a file with a line for each trial.
 *
 *     KEY pass STATISTIC SIGN BOUND VALUE OUTPUT
 *     KEY fail STATISTIC SIGN BOUND VALUE OUTPUT
 *     KEY error TEXT
 *
 * KEY is a hash of all that the result of the trial depends on, so a later search finds the line again if it makes the same
 * trial.  A last line without an end of line was cut off, and is ignored. */
#include "api/search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "halftone.trials/1\n"
enum { KEY = 64, MOST_BYTES = 64 << 20 };

static struct ht_where in_journal(const struct ht_search *s)
{
	return (struct ht_where){ .path = s->journal, .offset = -1 };
}

static enum ht_status write_line(
	const struct ht_search *s, int flags, struct ht_str line, struct ht_diags *d)
{
	int fd = open(s->journal, flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	bool ok = fd >= 0 && write(fd, line.p, line.n) == (ssize_t)line.n && !fsync(fd);
	int error = errno;

	if (fd >= 0 && close(fd) && ok) {
		error = errno;
		ok = false;
	}
	return ok ? HT_OK
		  : ht_error(d, HT_E_ENVIRONMENT, in_journal(s), "cannot write the journal: %s",
			    strerror(error));
}

static bool is_key(struct ht_str line)
{
	if (line.n < KEY + 2 || line.p[KEY] != ' ')
		return false;
	for (size_t i = 0; i < KEY; i++)
		if (!strchr("0123456789abcdef", line.p[i]))
			return false;
	return true;
}

static void take_lines(struct ht_search *s, struct ht_str text)
{
	const char *end;

	for (; (end = memchr(text.p, '\n', text.n)); text.p = end + 1) {
		struct ht_str line = { text.p, (size_t)(end - text.p) };

		text.n -= line.n + 1;
		if (is_key(line))
			ht_map_at(&s->known, (struct ht_str){ line.p, KEY })->value =
				(void *)(uintptr_t)ht_str_kept(&s->arena,
					(struct ht_str){ line.p + KEY + 1, line.n - KEY - 1 });
	}
}

static enum ht_status read_lines(struct ht_search *s, int fd, struct ht_diags *d, size_t *whole)
{
	struct stat info;
	struct ht_str text = { 0 };
	const char *end;
	ssize_t n;
	char *to;

	if (fstat(fd, &info) || !S_ISREG(info.st_mode) || info.st_size > MOST_BYTES)
		return ht_error(d, HT_E_INPUT, in_journal(s), "this is no journal of a search");
	text.p = to = ht_alloc(&s->arena, (size_t)info.st_size);
	while (text.n < (size_t)info.st_size &&
		(n = read(fd, to + text.n, (size_t)info.st_size - text.n)) > 0)
		text.n += (size_t)n;
	if (text.n && !ht_str_starts(text, HEAD))
		return ht_error(d, HT_E_INPUT, in_journal(s), "this is no journal of a search");
	end = memrchr(text.p, '\n', text.n);
	text.n = end ? (size_t)(end - text.p) + 1 : 0;
	*whole = text.n;
	take_lines(s, text);
	return HT_OK;
}

/* Reads the journal, and removes a last line that was cut off, so that the next trial begins a line. */
static enum ht_status resume(struct ht_search *s, int fd, struct ht_diags *d)
{
	size_t whole = 0;

	HT_TRY(read_lines(s, fd, d, &whole));
	if (whole && ftruncate(fd, (off_t)whole))
		return ht_error(d, HT_E_ENVIRONMENT, in_journal(s), "cannot write the journal: %s",
			strerror(errno));
	return whole ? HT_OK : write_line(s, O_TRUNC, HT_STR(HEAD), d);
}

enum ht_status ht_search_journal_open(struct ht_search *s, struct ht_diags *d)
{
	enum ht_status st;
	int fd;

	ht_map_init(&s->known, &s->arena);
	if (!s->journal)
		return HT_OK;
	fd = s->resume ? open(s->journal, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0 && s->resume && errno != ENOENT)
		return ht_error(d, HT_E_ENVIRONMENT, in_journal(s), "cannot read the journal: %s",
			strerror(errno));
	if (fd < 0)
		return write_line(s, O_TRUNC, HT_STR(HEAD), d);
	st = resume(s, fd, d);
	close(fd);
	return st;
}

/* ---- lines ---- */

static struct ht_str next_word(struct ht_str *rest)
{
	const char *blank = memchr(rest->p, ' ', rest->n);
	struct ht_str word = { rest->p, blank ? (size_t)(blank - rest->p) : rest->n };
	size_t passed = word.n + (blank != NULL);

	rest->p += passed;
	rest->n -= passed;
	return word;
}

static const char *copy(struct ht_search *s, struct ht_str text)
{
	return ht_str_copy(&s->arena, text).p;
}

/* Parses what follows the key.  False: the line is damaged, and the trial is run again. */
static bool read_values(struct ht_search *s, struct ht_str rest, struct ht_search_trial *out)
{
	struct ht_str word = next_word(&rest);

	out->passed = ht_str_is(word, "pass");
	if (ht_str_is(word, "error")) {
		out->failure = copy(s, rest);
		return true;
	}
	if (!out->passed && !ht_str_is(word, "fail"))
		return false;
	out->statistic = copy(s, next_word(&rest));
	word = next_word(&rest);
	out->sign = ht_str_is(word, ">=") ? ">=" : "<=";
	if (!ht_parse_double(next_word(&rest), &out->bound) ||
		!ht_parse_double(next_word(&rest), &out->value) || !rest.n)
		return false;
	out->output = copy(s, rest);
	return true;
}

/* The key without the end of line that ht_put_digest() writes. */
static struct ht_str hex(const uint8_t key[32], struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_digest(&b, key);
	return (struct ht_str){ ht_buf_str(&b).p, KEY };
}

bool ht_search_journal_find(struct ht_search *s, const uint8_t key[32], struct ht_search_trial *out)
{
	const struct ht_str *line = ht_map_get(&s->known, hex(key, &s->scratch));

	return line && read_values(s, *line, out);
}

static void put_values(struct ht_buf *b, const struct ht_search_trial *t)
{
	if (t->failure) {
		ht_puts(b, " error ");
		for (const char *p = t->failure; *p; p++)
			ht_putc(b, *p == '\n' ? ' ' : *p);
		return;
	}
	ht_printf(b, " %s %s %s ", t->passed ? "pass" : "fail", t->statistic, t->sign);
	ht_put_double(b, t->bound);
	ht_putc(b, ' ');
	ht_put_double(b, t->value);
	ht_printf(b, " %s", t->output);
}

enum ht_status ht_search_journal_add(struct ht_search *s, const uint8_t key[32],
	const struct ht_search_trial *t, struct ht_diags *d)
{
	struct ht_buf b;

	if (!s->journal)
		return HT_OK;
	ht_buf_init(&b, &s->scratch);
	ht_put_str(&b, hex(key, &s->scratch));
	put_values(&b, t);
	ht_putc(&b, '\n');
	return write_line(s, O_APPEND, ht_buf_str(&b), d);
}
