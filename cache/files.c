/* The system's own file operations. */
#include "cache/cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

/* The third argument of open() is optional, so a pointer to open() does not fit. */
static int open_file(const char *path, int flags, mode_t mode)
{
	return open(path, flags, mode);
}

const struct ht_files ht_files_system = {
	.open = open_file,
	.close = close,
	.fstat = fstat,
	.lstat = lstat,
	.read = read,
	.write = write,
	.fsync = fsync,
	.mmap = mmap,
	.munmap = munmap,
	.rename = rename,
	.unlink = unlink,
	.mkdir = mkdir,
	.rmdir = rmdir,
	.utimens = futimens,
	.flock = flock,
	.opendir = opendir,
	.readdir = readdir,
	.closedir = closedir,
};
