/* Stamps of files: numbers from the file system that change when a file changes. */
#include "base/base.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U /* Linux 6.8 */
#endif

/* Whether only the kernel sets the time of change, which it does also for writes through maps once
 * the page was written back. */
static bool keeps_times(int fd, const char *path)
{
	static const unsigned long known[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
		F2FS_SUPER_MAGIC };
	struct statfs fs;

	if (*path ? statfs(path, &fs) : fstatfs(fd, &fs))
		return false;
	for (size_t i = 0; i < HT_COUNT(known); i++)
		if ((unsigned long)fs.f_type == known[i])
			return true;
	return false;
}

static int64_t ns_of(struct statx_timestamp t)
{
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct ht_file_stamp stamp(int fd, const char *path, int flags)
{
	struct ht_file_stamp s = { 0 };
	struct statx x;

	if (statx(fd, path, flags, STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE, &x))
		return s;
	s = (struct ht_file_stamp){ 0, makedev(x.stx_dev_major, x.stx_dev_minor), x.stx_ino,
		x.stx_size, ns_of(x.stx_mtime), ns_of(x.stx_ctime) };
	if (x.stx_mask & STATX_MNT_ID_UNIQUE && keeps_times(fd, path))
		s.mount = x.stx_mnt_id;
	return s;
}

struct ht_file_stamp ht_file_stamp(const char *path)
{
	return stamp(AT_FDCWD, path, 0);
}

struct ht_file_stamp ht_file_stamp_of(int fd)
{
	return stamp(fd, "", AT_EMPTY_PATH);
}
