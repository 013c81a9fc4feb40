/* The directory of a store: its owner, permissions and kind of file system. */
#include "cache/store.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

static struct ht_where at_path(const char *path)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	return at;
}

static bool is_local(const char *path)
{
	static const unsigned long elsewhere[] = { NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
		CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, CODA_SUPER_MAGIC, AFS_SUPER_MAGIC,
		FUSE_SUPER_MAGIC, V9FS_MAGIC, CEPH_SUPER_MAGIC, 0x0bd00bd0 /* Lustre */,
		0x47504653 /* GPFS */ };
	struct statfs fs;

	if (statfs(path, &fs))
		return false;
	for (size_t i = 0; i < HT_COUNT(elsewhere); i++)
		if ((unsigned long)fs.f_type == elsewhere[i])
			return false;
	return true;
}

static uint64_t default_limit(const char *path)
{
	const uint64_t most = (uint64_t)5 << 30;
	struct statfs fs;
	uint64_t tenth;

	if (statfs(path, &fs))
		return most;
	tenth = (uint64_t)fs.f_blocks / 10 * (uint64_t)fs.f_bsize;
	return tenth && tenth < most ? tenth : most;
}

/* Code in the cache runs with the rights of the user who reads it, so nobody else may write to
 * it. */
static enum ht_status check_owner(
	const char *dir, const struct stat *st, bool shared, struct ht_diags *d)
{
	struct ht_where at = at_path(dir);

	if (!S_ISDIR(st->st_mode))
		return ht_error(
			d, HT_E_ENVIRONMENT, at, "the cache cannot be here: this is no directory");
	if (shared)
		return HT_OK;
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return ht_error(d, HT_E_ENVIRONMENT, at,
			"the cache is another user's, who could put code into your programs; "
			"--cache-shared trusts everyone who may write to it");
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return ht_error(d, HT_E_ENVIRONMENT, at,
			"others may write to the cache (mode %03o), and so put code into your "
			"programs: chmod go-w it, or trust them with --cache-shared",
			(unsigned)st->st_mode & 0777);
	return HT_OK;
}

/* Backup programs skip directories with such a file. */
static void put_tag(struct ht_store *s, const char *dir)
{
	static const char text[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
				   "# This directory is a compile cache of halftone.\n";
	struct ht_str piece = { text, sizeof text - 1 };
	struct ht_path path;
	struct stat st;

	snprintf(path.s, sizeof path.s, "%s/CACHEDIR.TAG", dir);
	if (s->files->lstat(path.s, &st))
		ht_store_publish(s, path.s, &piece, 1);
}

/* Gives new files and directories the permissions of the store's directory, so that all its users may
 * write to each other's. */
static void share(struct ht_store *s, mode_t mode)
{
	s->shares = true;
	s->directory_mode = mode & 02777;
	s->file_mode = mode & 0666;
}

enum ht_status ht_store_open_directory(struct ht_store *s, struct ht_diags *d)
{
	const char *dir = s->opt.dir;
	struct stat st;
	bool made;
	int why;

	s->directory_mode = s->opt.shared ? 0755 : 0700;
	s->file_mode = 0600;
	made = s->opt.mode == HT_CACHE_RO || ht_make_directories(s, dir);
	why = errno;
	if (stat(dir, &st)) {
		/* A directory that cannot be created gives an empty store that stays empty. */
		if (s->opt.mode == HT_CACHE_RW)
			ht_store_cannot_write(s, made ? errno : why, d);
		return HT_OK;
	}
	HT_TRY(check_owner(dir, &st, s->opt.shared, d));
	if (s->opt.shared)
		share(s, st.st_mode);
	s->local = !s->opt.shared && is_local(dir);
	if (!s->opt.max_bytes)
		s->opt.max_bytes = default_limit(dir);
	if (s->opt.mode == HT_CACHE_RO)
		return HT_OK;
	if (!ht_make_directories(s, s->dir) || access(s->dir, W_OK)) {
		ht_store_cannot_write(s, errno, d);
		return HT_OK;
	}
	put_tag(s, dir);
	return HT_OK;
}
