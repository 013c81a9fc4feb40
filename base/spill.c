/* Bytes for which memory has no room, in a file without a name.
 *
 * No other process can open the file, and it disappears with the process, however that ends.  The
 * written bytes are mapped, so they are read like memory; the system decides how many of them stay
 * in memory. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_ALIGN = 64 };

/* The pieces that one call writes to the file. */
struct batch {
	struct batch *next;
	void *p;
	size_t bytes, pieces;
	struct written {
		size_t offset, bytes;
		struct ht_hash hash;
	} piece[];
};

struct ht_spill {
	int fd;
	uint64_t end; /* the end of the file, where a page begins */
	struct batch *batches;
	char path[]; /* the path of the output, for messages */
};

static enum ht_status failed(const char *path, struct ht_diags *d, int why)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	return ht_error(d, HT_E_ENVIRONMENT, at, "cannot write: %s", strerror(why));
}

/* ---- the file ---- */

/* A name for the file.  It is in the output's folder, which must have room for the output anyway;
 * if the output is no regular file, it is in $TMPDIR. */
static char *name_of(const char *path)
{
	bool is_regular = strcmp(path, "-") != 0;
	const char *dir = getenv("TMPDIR");
	char *real = NULL, *name;
	struct stat s;

	if (is_regular && !stat(path, &s)) {
		is_regular = S_ISREG(s.st_mode);
		real = is_regular ? realpath(path, NULL) : NULL;
	}
	if (asprintf(&name, "%s%s.XXXXXX.tmp",
		    real          ? real
		    : is_regular  ? path
		    : dir && *dir ? dir
				  : "/tmp",
		    is_regular ? "" : "/halftone") < 0)
		name = NULL;
	free(real);
	return name;
}

static int open_in(const char *name)
{
	char *copy = strdup(name);
	int fd = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

	free(copy);
	return fd;
}

/* A descriptor, or -1 and errno. */
static int open_unnamed(const char *path)
{
	char *name = name_of(path);
	int fd;

	if (!name) {
		errno = ENOMEM;
		return -1;
	}
	fd = open_in(name);
	if (fd < 0) { /* some file systems cannot create a file without a name */
		fd = mkostemps(name, 4, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	free(name);
	return fd;
}

enum ht_status ht_spill_open(const char *path, struct ht_diags *d, struct ht_spill **out)
{
	size_t n = strlen(path);
	struct ht_spill *s = ht_sys_alloc(sizeof *s + n + 1);

	*out = NULL;
	if (!s)
		return failed(path, d, ENOMEM);
	memcpy(s->path, path, n);
	s->fd = open_unnamed(path);
	if (s->fd < 0) {
		int why = errno;

		free(s);
		return failed(path, d, why);
	}
	*out = s;
	return HT_OK;
}

static void free_batch(struct batch *b)
{
	if (b->bytes)
		munmap(b->p, b->bytes);
	free(b);
}

void ht_spill_free(struct ht_spill *s)
{
	if (!s)
		return;
	for (struct batch *b = s->batches, *next; b; b = next) {
		next = b->next;
		free_batch(b);
	}
	close(s->fd);
	free(s);
}

/* ---- writing ---- */

/* 0 or an errno. */
static int write_at(int fd, const char *p, size_t n, uint64_t at)
{
	while (n) {
		ssize_t done = pwrite(fd, p, n, (off_t)at);

		if (done == 0)
			return EIO;
		if (done < 0 && errno != EINTR)
			return errno;
		if (done > 0) {
			p += done;
			at += (uint64_t)done;
			n -= (size_t)done;
		}
	}
	return 0;
}

static int write_batch(
	const struct ht_spill *s, struct batch *b, const struct ht_str *piece, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		int why = write_at(s->fd, piece[i].p, piece[i].n, s->end + end);

		if (why)
			return why;
		b->piece[i] =
			(struct written){ end, piece[i].n, ht_hash_bytes(piece[i].p, piece[i].n) };
		end = (end + piece[i].n + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
	}
	b->pieces = n;
	if (!end || ht_alloc_may_fail())
		return end ? ENOMEM : 0;
	b->p = mmap(NULL, end, PROT_READ, MAP_SHARED, s->fd, (off_t)s->end);
	if (b->p == MAP_FAILED)
		return errno;
	b->bytes = end;
	return 0;
}

enum ht_status ht_spill_pieces(
	struct ht_spill *s, struct ht_str *piece, size_t n, struct ht_diags *d)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct batch *b = ht_sys_alloc(sizeof *b + n * sizeof *b->piece);
	int why = b ? write_batch(s, b, piece, n) : ENOMEM;

	if (why) {
		if (b)
			free_batch(b);
		return failed(s->path, d, why);
	}
	for (size_t i = 0; b->bytes && i < n; i++)
		piece[i].p = (const char *)b->p + b->piece[i].offset;
	s->end = (s->end + b->bytes + page - 1) / page * page;
	b->next = s->batches;
	s->batches = b;
	return HT_OK;
}

/* Some file systems report a full disk only after write() returned. */
enum ht_status ht_spill_check(const struct ht_spill *s, struct ht_diags *d)
{
	for (const struct batch *b = s->batches; b; b = b->next)
		for (size_t i = 0; i < b->pieces; i++) {
			const struct written *w = &b->piece[i];
			const char *p = (const char *)b->p + w->offset;

			if (w->bytes && !ht_hash_eq(ht_hash_bytes(p, w->bytes), w->hash))
				return failed(s->path, d, EIO);
		}
	return HT_OK;
}
