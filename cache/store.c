/* The store: reads and writes entries. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Smaller entries are read, since mapping them costs more. */
#define SMALL ((size_t)64 << 10)
#define LARGEST ((uint64_t)64 << 30)
/* Size of the part at the begin of an entry that contains its key. */
#define KEY_LIMIT ((size_t)64 << 10)
/* An entry is marked as used again only after so many seconds. */
#define TOUCH_SECONDS 60

static struct ht_where at_path(const char *path)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	return at;
}

void ht_store_count(struct ht_store *s, enum ht_cache_counter c, uint64_t n)
{
	s->counter[c] += n;
}

void ht_store_cannot_read(struct ht_store *s, const char *path, const char *why, struct ht_diags *d)
{
	ht_store_count(s, HT_COUNTER_unreadable, 1);
	if (!s->said_read)
		ht_warn(d, at_path(path), "the cache cannot read: %s; this counts as a miss", why);
	s->said_read = true;
}

void ht_store_cannot_write(struct ht_store *s, int why, struct ht_diags *d)
{
	ht_store_count(s, HT_COUNTER_unwritable, 1);
	if (!s->said_write)
		ht_warn(d, at_path(s->dir), "the cache cannot write: %s; nothing more is kept",
			strerror(why));
	s->said_write = true;
	s->opt.mode = HT_CACHE_RO;
}

/* ---- opening ---- */

static void name_maker(struct ht_store *s)
{
	char host[65] = "";

	if (gethostname(host, sizeof host - 1))
		snprintf(host, sizeof host, "host");
	for (char *p = host; *p; p++)
		if (*p == '/')
			*p = '_';
	snprintf(s->maker, sizeof s->maker, "%s-%ld", host, (long)getpid());
}

enum ht_status ht_store_open(
	const struct ht_store_options *opt, struct ht_diags *d, struct ht_store **out)
{
	struct ht_store *s = ht_sys_alloc(sizeof *s);
	int n;
	enum ht_status st;

	*out = NULL;
	if (!s)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	s->opt = *opt;
	snprintf(s->given, sizeof s->given, "%s", opt->dir);
	s->opt.dir = s->given;
	s->files = opt->files ? opt->files : &ht_files_system;
	name_maker(s);
	n = snprintf(s->dir, sizeof s->dir, "%s/" HT_STORE_LAYOUT, opt->dir);
	if (getauxval(AT_SECURE))
		st = ht_error(d, HT_E_ENVIRONMENT, at_path(opt->dir),
			"a program with its owner's rights has no cache");
	else if (n < 0 || (size_t)n >= sizeof s->dir)
		st = ht_error(d, HT_E_ENVIRONMENT, at_path(opt->dir),
			"the name of the cache's directory is too long");
	else
		st = ht_store_open_directory(s, d);
	if (st == HT_OK)
		*out = s;
	else
		free(s);
	return st;
}

const char *ht_store_dir(const struct ht_store *s)
{
	return s->opt.dir;
}

uint64_t ht_store_limit(const struct ht_store *s)
{
	return s->opt.max_bytes;
}

void ht_store_close(struct ht_store *s, struct ht_diags *d)
{
	if (!s)
		return;
	if (s->opt.mode == HT_CACHE_RW || s->said_write) {
		ht_store_grow(s, d);
		ht_store_stats_write(s);
	}
	free(s);
}

/* ---- reading ---- */

void ht_cached_release(struct ht_cached *c)
{
	if (c->files)
		c->files->munmap((void *)(uintptr_t)c->bytes.p, c->bytes.n);
	else
		free((void *)(uintptr_t)c->bytes.p);
	*c = (struct ht_cached){ 0 };
}

/* Maps large entries on a local file system, so that processes share them; nobody changes a file
 * with the name of an entry.  On other file systems a mapped file may disappear. */
static bool take_bytes(struct ht_store *s, int fd, size_t n, struct ht_cached *out)
{
	const struct ht_files *f = s->files;
	void *p = MAP_FAILED;

	*out = (struct ht_cached){ 0 };
	if (s->local && n >= SMALL)
		p = f->mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p != MAP_FAILED) {
		*out = (struct ht_cached){ .bytes = { p, n }, .files = f };
		return true;
	}
	p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
	if (!p) {
		errno = ENOMEM;
		return false;
	}
	if (ht_read_all(f, fd, p, n)) {
		out->bytes = (struct ht_str){ p, n };
		return true;
	}
	n = (size_t)errno;
	free(p);
	errno = (int)n;
	return false;
}

static bool is_trusted(const struct ht_store *s, const struct stat *st)
{
	return s->opt.shared || st->st_uid == geteuid() || st->st_uid == 0;
}

static void touch(struct ht_store *s, int fd, const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (s->opt.mode == HT_CACHE_RW && now.tv_sec - st->st_mtim.tv_sec >= TOUCH_SECONDS)
		s->files->utimens(fd, NULL);
}

/* An open file of an entry.  No other file can get its inode number while it is open. */
struct open_file {
	int fd;
	struct stat st;
};

/* Opens an entry.  NULL: the file is open; otherwise the reason, and *gone says that it does not
 * exist. */
static const char *open_entry(struct ht_store *s, const char *path, struct ht_cached *out,
	struct open_file *file, bool *gone)
{
	const struct ht_files *f = s->files;
	int fd = f->open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), why = 0;

	*gone = false;
	file->fd = fd;
	if (fd < 0) {
		*gone = errno == ENOENT || errno == ESTALE;
		return strerror(errno);
	}
	if (f->fstat(fd, &file->st))
		why = errno;
	else if (!S_ISREG(file->st.st_mode) || !is_trusted(s, &file->st))
		why = EPERM;
	else if ((uint64_t)file->st.st_size > LARGEST)
		why = EFBIG;
	else if (!take_bytes(s, fd, (size_t)file->st.st_size, out))
		why = errno;
	if (!why)
		return NULL;
	f->close(fd);
	return strerror(why);
}

/* What the name of an open file now refers to: another process may have put a good file there, or
 * removed it. */
enum owner { OWNER_UNKNOWN, OWNER_FILE, OWNER_OTHER };

static enum owner owner_of(struct ht_store *s, const struct open_file *file, const char *path)
{
	struct stat now;

	if (s->files->lstat(path, &now))
		return errno == ENOENT || errno == ESTALE ? OWNER_OTHER : OWNER_UNKNOWN;
	return now.st_dev == file->st.st_dev && now.st_ino == file->st.st_ino ? OWNER_FILE
									      : OWNER_OTHER;
}

static bool drop(struct ht_store *s, const struct open_file *file, const char *path)
{
	return ht_store_writes(s) && owner_of(s, file, path) == OWNER_FILE &&
	       !s->files->unlink(path);
}

static void drop_damaged(struct ht_store *s, const struct open_file *file, const char *path,
	const char *wrong, struct ht_diags *d)
{
	bool removed = drop(s, file, path);

	ht_store_count(s, HT_COUNTER_damaged, 1);
	ht_warn(d, at_path(path), "this entry of the cache is damaged: %s; it counts as a miss%s",
		wrong, removed ? " and was removed" : "");
}

bool ht_store_get(
	struct ht_store *s, const struct ht_cache_key *k, struct ht_diags *d, struct ht_cached *out)
{
	struct ht_path path = ht_store_entry_file(s, k->kind, k->find);
	struct ht_opened opened;
	struct open_file file;
	const char *wrong;
	bool gone;

	*out = (struct ht_cached){ 0 };
	wrong = open_entry(s, path.s, out, &file, &gone);
	if (gone)
		return false;
	if (wrong) {
		ht_store_cannot_read(s, path.s, wrong, d);
		return false;
	}
	wrong = ht_entry_check(out->bytes, k, &opened);
	if (wrong)
		drop_damaged(s, &file, path.s, wrong, d);
	else
		touch(s, file.fd, &file.st);
	s->files->close(file.fd);
	if (wrong || !ht_str_eq(opened.key, k->text)) {
		ht_cached_release(out);
		return false;
	}
	out->payload = opened.payload;
	return true;
}

enum ht_entry_state ht_store_read(struct ht_store *s, const struct ht_listed_entry *e,
	struct ht_cached *out, const char **why, bool *removed)
{
	struct ht_path path = ht_store_entry_file(s, e->kind, e->find);
	enum ht_entry_state state = HT_ENTRY_DAMAGED;
	struct ht_opened opened;
	struct open_file file;
	bool gone;

	*out = (struct ht_cached){ 0 };
	*why = open_entry(s, path.s, out, &file, &gone);
	if (*why)
		return gone ? HT_ENTRY_GONE : HT_ENTRY_UNREADABLE;
	*why = ht_entry_check(out->bytes, NULL, &opened);
	if (!*why && (opened.kind != e->kind || !ht_hash_eq(opened.find, e->find)))
		*why = "it belongs elsewhere";
	if (!*why) {
		out->payload = opened.payload;
		state = HT_ENTRY_GOOD;
	} else if (ht_entry_is_foreign(out->bytes) && !ht_entry_is_own(out->bytes, e->find)) {
		state = HT_ENTRY_FOREIGN;
	}
	if (state == HT_ENTRY_DAMAGED && removed) {
		*removed = drop(s, &file, path.s);
		if (!*removed && owner_of(s, &file, path.s) == OWNER_OTHER)
			state = HT_ENTRY_GONE;
	}
	s->files->close(file.fd);
	if (state != HT_ENTRY_GOOD)
		ht_cached_release(out);
	return state;
}

bool ht_store_read_key(
	struct ht_store *s, const struct ht_listed_entry *e, struct ht_arena *a, struct ht_str *out)
{
	struct ht_path path = ht_store_entry_file(s, e->kind, e->find);
	size_t n = e->bytes < KEY_LIMIT ? (size_t)e->bytes : KEY_LIMIT;
	int fd = s->files->open(path.s, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	char *p;
	bool ok;

	if (fd < 0)
		return false;
	p = ht_alloc(a, n);
	ok = ht_read_all(s->files, fd, p, n);
	s->files->close(fd);
	return ok && ht_entry_key((struct ht_str){ p, n }, out);
}

/* ---- writing ---- */

bool ht_store_put(struct ht_store *s, const struct ht_cache_key *k, const struct ht_cache_entry *e,
	struct ht_diags *d)
{
	struct ht_path path = ht_store_entry_file(s, k->kind, k->find);

	if (s->opt.mode != HT_CACHE_RW)
		return false;
	if (!ht_store_publish(s, path.s, e->piece, e->pieces)) {
		ht_store_cannot_write(s, errno, d);
		return false;
	}
	ht_store_count(s, HT_COUNTER_puts, 1);
	ht_store_count(s, HT_COUNTER_put_bytes, e->bytes);
	return true;
}

struct ht_str ht_store_path(
	const struct ht_store *s, enum ht_cache_kind kind, struct ht_hash find, struct ht_arena *a)
{
	struct ht_path path = ht_store_entry_file(s, kind, find);

	return ht_str_copy(a, ht_str(path.s));
}
