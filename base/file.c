/* Files of the user's, mapped read-only. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A process may have about a thousand descriptors.  If a model has very many files, the last ones
 * are not kept open; they are found again by their names. */
#define WATCHED_FDS 512

/* Half of what the process may have stays for others. */
static bool may_be_kept(int fd)
{
	struct rlimit limit;

	return fd < WATCHED_FDS &&
	       (getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd < limit.rlim_cur / 2);
}

static struct ht_where at_path(const char *path)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	return at;
}

static enum ht_status cannot_read(struct ht_diags *d, const char *path, int why)
{
	return ht_error(d, HT_E_ENVIRONMENT, at_path(path), "cannot read: %s", strerror(why));
}

static enum ht_status check_size(
	const char *path, const struct stat *s, size_t limit, struct ht_diags *d)
{
	if (S_ISDIR(s->st_mode))
		return cannot_read(d, path, EISDIR);
	if (!S_ISREG(s->st_mode))
		return ht_error(
			d, HT_E_ENVIRONMENT, at_path(path), "cannot read: not a regular file");
	if ((uintmax_t)s->st_size < limit)
		return HT_OK;
	return ht_error(d, HT_E_LIMIT, at_path(path), "%lld bytes; a file must have less than %zu",
		(long long)s->st_size, limit);
}

static struct ht_file *new_file(const char *path, size_t n)
{
	size_t length = strlen(path);
	struct ht_file *f = ht_sys_alloc(sizeof *f + length + 1);

	if (!f)
		return NULL;
	f->path = memcpy(f + 1, path, length);
	f->refs = 1;
	f->n = n;
	f->fd = -1;
	return f;
}

static enum ht_status map_open(
	int fd, const char *path, size_t limit, struct ht_diags *d, struct ht_file **out)
{
	struct ht_file *f;
	struct stat s;
	void *p;

	if (fstat(fd, &s))
		return cannot_read(d, path, errno);
	HT_TRY(check_size(path, &s, limit, d));
	f = new_file(path, (size_t)s.st_size);
	if (!f)
		return cannot_read(d, path, ENOMEM);
	*out = f;
	f->stamp = ht_file_stamp_of(fd);
	f->p = (const uint8_t *)"";
	if (!f->n)
		return HT_OK;
	p = ht_alloc_may_fail() ? MAP_FAILED : mmap(NULL, f->n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED) {
		int why = errno ? errno : ENOMEM;

		free(f);
		*out = NULL;
		return cannot_read(d, path, why);
	}
	f->p = p;
	f->mapped = ht_mapped_new(f->path, p, f->n);
	if (f->mapped)
		return HT_OK;
	ht_file_unref(f);
	*out = NULL;
	return cannot_read(d, path, ENOMEM);
}

static enum ht_status map(
	const char *path, size_t limit, bool watched, struct ht_diags *d, struct ht_file **out)
{
	enum ht_status st;
	int fd;

	*out = NULL;
	/* O_NONBLOCK: opening a FIFO without a writer must not block. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return cannot_read(d, path, errno);
	st = map_open(fd, path, limit, d, out);
	if (st == HT_OK && watched && may_be_kept(fd))
		(*out)->fd = fd;
	else
		close(fd);
	return st;
}

enum ht_status ht_file_map(const char *path, size_t limit, struct ht_diags *d, struct ht_file **out)
{
	return map(path, limit, false, d, out);
}

enum ht_status ht_file_map_watched(
	const char *path, size_t limit, struct ht_diags *d, struct ht_file **out)
{
	return map(path, limit, true, d, out);
}

bool ht_file_changed(const struct ht_file *f)
{
	const struct ht_file_stamp *then = &f->stamp;
	struct ht_file_stamp now = f->fd >= 0 ? ht_file_stamp_of(f->fd) : ht_file_stamp(f->path);

	return then->device != now.device || then->inode != now.inode || then->bytes != now.bytes ||
	       then->modified_ns != now.modified_ns;
}

struct ht_file *ht_file_ref(struct ht_file *f)
{
	__atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
	return f;
}

void ht_file_unref(struct ht_file *f)
{
	if (!f || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (f->mapped)
		ht_mapped_free(f->mapped);
	if (f->n)
		munmap((void *)(uintptr_t)f->p, f->n);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}
