/* A library for LD_PRELOAD: the process's k-th file operation fails, or kills the process.
 *
 * SHIM_AT=k        the number of the operation, from 1; 0: none
 * SHIM_ERROR=n     the errno; 0: the process is killed instead
 * SHIM_FOR_EVER=1  all later operations fail, too
 * SHIM_COUNT=FILE  the file that gets the number of operations */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls, at, error, for_ever;
static const char *count_file;

static long number(const char *name)
{
	const char *s = getenv(name);

	return s ? strtol(s, NULL, 10) : 0;
}

__attribute__((constructor)) static void start(void)
{
	at = number("SHIM_AT");
	error = number("SHIM_ERROR");
	for_ever = number("SHIM_FOR_EVER");
	count_file = getenv("SHIM_COUNT");
}

__attribute__((destructor)) static void end(void)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", calls);
	long fd;

	if (!count_file)
		return;
	fd = syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	syscall(SYS_write, fd, text, (size_t)n);
}

static int fails(void)
{
	long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

	if (!at || (for_ever ? call < at : call != at))
		return 0;
	if (!error)
		raise(SIGKILL);
	errno = (int)error;
	return 1;
}

#define REAL(type, name, parameters)                                                               \
	static type(*real) parameters;                                                             \
	if (!real)                                                                                 \
	*(void **)&real = dlsym(RTLD_NEXT, #name)

/* Defines a function of this name that fails when its turn has come. */
#define SHIM(type, name, failure, parameters, arguments)                                           \
	type name parameters;                                                                      \
	type name parameters                                                                       \
	{                                                                                          \
		REAL(type, name, parameters);                                                      \
		return fails() ? (failure) : real arguments;                                       \
	}

SHIM(ssize_t, read, -1, (int fd, void *p, size_t n), (fd, p, n))
SHIM(ssize_t, write, -1, (int fd, const void *p, size_t n), (fd, p, n))
SHIM(ssize_t, pread, -1, (int fd, void *p, size_t n, off_t o), (fd, p, n, o))
SHIM(ssize_t, pwrite, -1, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
SHIM(int, fsync, -1, (int fd), (fd))
SHIM(int, ftruncate, -1, (int fd, off_t n), (fd, n))
SHIM(int, rename, -1, (const char *from, const char *to), (from, to))
SHIM(int, unlink, -1, (const char *path), (path))
SHIM(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
SHIM(int, rmdir, -1, (const char *path), (path))
SHIM(int, access, -1, (const char *path, int mode), (path, mode))
SHIM(int, flock, -1, (int fd, int operation), (fd, operation))
SHIM(int, futimens, -1, (int fd, const struct timespec t[2]), (fd, t))
SHIM(int, fchmod, -1, (int fd, mode_t mode), (fd, mode))
SHIM(int, stat, -1, (const char *path, struct stat *s), (path, s))
SHIM(int, lstat, -1, (const char *path, struct stat *s), (path, s))
SHIM(int, fstat, -1, (int fd, struct stat *s), (fd, s))
SHIM(DIR *, opendir, NULL, (const char *path), (path))
SHIM(struct dirent *, readdir, NULL, (DIR * d), (d))
SHIM(void *, mmap, MAP_FAILED, (void *p, size_t n, int prot, int flags, int fd, off_t o),
	(p, n, prot, flags, fd, o))
SHIM(int, mprotect, -1, (void *p, size_t n, int prot), (p, n, prot))

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	REAL(int, open, (const char *, int, ...));
	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return fails() ? -1 : real(path, flags, mode);
}

/* A failed close() closes the descriptor all the same, as on Linux. */
int close(int fd)
{
	int bad, n;

	REAL(int, close, (int));
	bad = fails();
	n = real(fd);
	if (bad)
		errno = (int)error;
	return bad ? -1 : n;
}
