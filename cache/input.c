/* Digests of large input files, kept under the file's stamp, as git's index does: reading a large
 * model takes longer than finding the program that was compiled from it.
 *
 * The key consists of the boot, the mount, the inode, the size, and the times of modification and
 * change.  The time of change cannot be set, and each change of a file sets it, except the second
 * of two changes in one tick of the file system's clock, and changes of a page of a shared map that
 * is already dirty.  So a digest is kept only if the last change of the file is longer ago than a
 * page stays dirty.  File systems that guarantee less have no mount number here (ht_file_stamp).
 * Such entries describe only this machine: no server gets them. */
#include "cache/cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 1 << 20, SETTLED_SECONDS = 60, DIGEST = 32 };

/* Reads a file of the kernel with one line; false: it cannot be read. */
static bool read_line(const char *path, char *text, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, text, n - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	return got > 0;
}

/* A setting in hundredths of a second; -1: unknown. */
static long centiseconds(const char *path)
{
	char text[24];

	return read_line(path, text, sizeof text) ? strtol(text, NULL, 10) : -1;
}

/* Whether dirty pages are written back well within SETTLED_SECONDS: Linux's defaults are 30 s and 5
 * s. */
static bool writes_back_in_time(void)
{
	long age = centiseconds("/proc/sys/vm/dirty_expire_centisecs"),
	     wake = centiseconds("/proc/sys/vm/dirty_writeback_centisecs");

	return age >= 0 && wake > 0 && age + wake <= 100 * SETTLED_SECONDS * 3 / 5;
}

static void put_number(struct ht_key_text *k, const char *name, int64_t n, struct ht_arena *a)
{
	ht_key_field(k, name, ht_str_printf(a, "%lld", (long long)n));
}

static bool key_of(const struct ht_file_stamp *s, struct ht_arena *a, struct ht_cache_key *out)
{
	struct ht_key_text k;
	char boot[64];

	/* Numbers of mounts are unique only since the system started. */
	if (!s->mount || !read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot))
		return false;
	ht_key_begin(&k, HT_CACHE_INPUT, a);
	ht_key_field(&k, "boot", ht_str(boot));
	put_number(&k, "mount", (int64_t)s->mount, a);
	put_number(&k, "device", (int64_t)s->device, a);
	put_number(&k, "inode", (int64_t)s->inode, a);
	put_number(&k, "bytes", (int64_t)s->bytes, a);
	put_number(&k, "modified", s->modified_ns, a);
	put_number(&k, "changed", s->changed_ns, a);
	*out = ht_key_end(&k);
	return true;
}

static bool recall(struct ht_cache *c, const struct ht_cache_key *k, struct ht_diags *d,
	uint8_t digest[DIGEST])
{
	struct ht_cached found;
	bool hit = ht_cache_get(c, k, d, &found);

	if (!hit)
		return false;
	hit = found.payload.n == DIGEST;
	if (hit)
		memcpy(digest, found.payload.p, DIGEST);
	ht_cached_release(&found);
	return hit;
}

static void find(struct ht_cache *c, const struct ht_file *f, int64_t now_ns, struct ht_arena *a,
	struct ht_diags *d, uint8_t digest[DIGEST])
{
	struct ht_str piece = { (const char *)digest, DIGEST };
	struct ht_cache_key k;
	bool known = key_of(&f->stamp, a, &k);

	if (known && recall(c, &k, d, digest))
		return;
	ht_sha256(f->p, f->n, digest);
	if (known && writes_back_in_time() &&
		now_ns - f->stamp.changed_ns >= SETTLED_SECONDS * INT64_C(1000000000))
		ht_cache_put(c, &k, &(struct ht_payload){ &piece, 1, 0, 0 }, d);
}

void ht_cache_digest(struct ht_cache *c, const struct ht_file *f, int64_t now_ns,
	struct ht_diags *d, uint8_t digest[32])
{
	struct ht_unwind unwind;
	struct ht_arena a;

	ht_arena_init(&a, &unwind);
	if (setjmp(unwind.env))
		c = NULL;
	if (!c || f->n < SMALL)
		ht_sha256(f->p, f->n, digest);
	else
		find(c, f, now_ns, &a, d, digest);
	ht_arena_release(&a);
}
