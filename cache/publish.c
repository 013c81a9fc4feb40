/* Writes files that appear whole or not at all, also to other hosts: each is written under a unique
 * name in its directory, and then renamed. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct ht_path ht_store_file(const struct ht_store *s, const char *fmt, ...)
{
	struct ht_path p;
	size_t n = (size_t)snprintf(p.s, sizeof p.s, "%s/", s->dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p.s + n, sizeof p.s - n, fmt, ap);
	va_end(ap);
	return p;
}

struct ht_path ht_store_entry_file(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find)
{
	char name[HT_KEY_NAME];

	ht_key_name(find, name);
	return ht_store_file(s, "%s/%.2s/%s", ht_cache_kind_name(kind), name, name + 2);
}

static bool make_directory(struct ht_store *s, const char *path)
{
	if (s->files->mkdir(path, s->directory_mode))
		return false;
	if (s->shares)
		chmod(path, s->directory_mode);
	return true;
}

bool ht_make_directories(struct ht_store *s, const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof part) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		struct stat st;

		if (path[i] && path[i] != '/')
			continue;
		part[i] = 0;
		/* A directory that exists is no error, even if this process may not create it. */
		if (!make_directory(s, part) && errno != EEXIST &&
			(path[i] == 0 || stat(part, &st) || !S_ISDIR(st.st_mode)))
			return false;
		part[i] = path[i];
	}
	return true;
}

int ht_store_create(struct ht_store *s, const char *path, int flags)
{
	int fd = s->files->open(path, flags | O_CREAT | O_CLOEXEC, s->file_mode);

	/* A file of another user has the permissions that this user set. */
	if (fd >= 0 && s->shares)
		fchmod(fd, s->file_mode);
	return fd;
}

static int open_temporary(struct ht_store *s, const char *path, struct ht_path *temporary)
{
	const char *slash = strrchr(path, '/');
	uint64_t random = 0;

	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)(uintptr_t)&random;
	snprintf(temporary->s, sizeof temporary->s, "%.*s/" HT_STORE_TEMPORARY "%s-%d-%016llx",
		(int)(slash - path), path, s->maker, (int)gettid(), (unsigned long long)random);
	return ht_store_create(s, temporary->s, O_WRONLY | O_EXCL);
}

static bool write_all(const struct ht_files *f, int fd, struct ht_str s)
{
	while (s.n) {
		ssize_t n = f->write(fd, s.p, s.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : ENOSPC;
			return false;
		}
		s.p += n;
		s.n -= (size_t)n;
	}
	return true;
}

/* Writes the directory, and so the name of the file, to the disk. */
static bool sync_directory(struct ht_store *s, const char *path)
{
	struct ht_path directory;
	int fd, failed;

	snprintf(directory.s, sizeof directory.s, "%.*s", (int)(strrchr(path, '/') - path), path);
	fd = s->files->open(directory.s, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	failed = s->files->fsync(fd) ? errno : 0;
	s->files->close(fd);
	errno = failed;
	return !failed;
}

static bool fill(struct ht_store *s, int fd, const struct ht_str *piece, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!write_all(s->files, fd, piece[i]))
			return false;
	return !s->opt.sync || s->files->fsync(fd) == 0;
}

bool ht_store_publish(struct ht_store *s, const char *path, const struct ht_str *piece, size_t n)
{
	const struct ht_files *f = s->files;
	struct ht_path temporary;
	int fd = open_temporary(s, path, &temporary), why;

	if (fd < 0 && errno == ENOENT) {
		struct ht_path directory;

		snprintf(directory.s, sizeof directory.s, "%.*s", (int)(strrchr(path, '/') - path),
			path);
		if (!ht_make_directories(s, directory.s))
			return false;
		fd = open_temporary(s, path, &temporary);
	}
	if (fd < 0)
		return false;
	why = fill(s, fd, piece, n) ? 0 : errno;
	/* A network file system may report a failed write only now. */
	if (f->close(fd) && !why)
		why = errno;
	if (!why && f->rename(temporary.s, path))
		why = errno;
	if (!why) {
		if (s->opt.sync)
			sync_directory(s, path);
		return true;
	}
	f->unlink(temporary.s);
	errno = why;
	return false;
}

bool ht_read_all(const struct ht_files *f, int fd, void *p, size_t n)
{
	char *to = p;

	while (n) {
		ssize_t got = f->read(fd, to, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got ? errno : EIO;
			return false;
		}
		to += got;
		n -= (size_t)got;
	}
	return true;
}

bool ht_store_load(
	struct ht_store *s, const char *path, size_t limit, struct ht_arena *a, struct ht_str *out)
{
	const struct ht_files *f = s->files;
	int fd = f->open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	struct stat st;
	bool ok = false;
	char *p;

	if (fd < 0)
		return false;
	if (!f->fstat(fd, &st)) {
		if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > limit) {
			errno = EFBIG;
		} else {
			p = ht_alloc(a, (size_t)st.st_size + 1);
			ok = ht_read_all(f, fd, p, (size_t)st.st_size);
			*out = (struct ht_str){ p, (size_t)st.st_size };
		}
	}
	f->close(fd);
	return ok;
}

bool ht_store_each(struct ht_store *s, const char *path, void (*each)(void *self, const char *name),
	void *self)
{
	DIR *dir = s->files->opendir(path);
	struct dirent *e;
	int why;

	if (!dir)
		return errno == ENOENT;
	while (errno = 0, (e = s->files->readdir(dir)))
		if (e->d_name[0] != '.' ||
			!strncmp(e->d_name, HT_STORE_TEMPORARY, strlen(HT_STORE_TEMPORARY)))
			each(self, e->d_name);
	why = errno;
	s->files->closedir(dir);
	errno = why;
	return !why;
}
