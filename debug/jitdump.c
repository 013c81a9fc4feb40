/* perf's jitdump.  Every record is written completely or not at all: perf stops reading at the
 * first malformed one. */
#include "debug/debug.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x4A695444, VERSION = 1, CODE_LOAD = 0, CODE_DEBUG_INFO = 2 };

struct header {
	uint32_t magic, version, total_size, machine, pad, pid;
	uint64_t timestamp, flags;
};

struct prefix {
	uint32_t id, total_size;
	uint64_t timestamp;
};

struct code_load {
	struct prefix prefix;
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
};

struct debug_info {
	struct prefix prefix;
	uint64_t address, entries;
};

struct entry {
	uint64_t address;
	int32_t line, discriminator;
};

/* A file that this process or its parent writes. */
struct dump {
	char *dir;
	pid_t pid;
	int fd;
	uint64_t functions;
	struct dump *next;
};

static struct dump *dumps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t); /* the clock that perf record -k 1 uses */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* False: errno says why, and the file is unchanged. */
static bool append(int fd, const void *p, size_t n)
{
	const off_t before = lseek(fd, 0, SEEK_END);
	const char *at = p;

	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			const int why = done ? errno : ENOSPC;

			if (ftruncate(fd, before))
				return errno = why, false;
			return errno = why, false;
		}
		at += done;
		n -= (size_t)done;
	}
	return true;
}

/* perf finds the file because an executable mapping of it exists. */
static bool mark(int fd)
{
	void *p = mmap(
		NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	return p != MAP_FAILED;
}

static bool begin(struct dump *u, const char *path)
{
	const struct header h = { MAGIC, VERSION, sizeof h, EM_X86_64, 0, (uint32_t)u->pid, now(),
		0 };

	u->fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
	return u->fd >= 0 && append(u->fd, &h, sizeof h) && mark(u->fd);
}

static void forget(struct dump *u)
{
	if (u && u->fd >= 0)
		close(u->fd);
	if (u)
		free(u->dir);
	free(u);
}

/* This process' file in the folder; NULL: errno says why there is none. */
static struct dump *dump_in(const char *dir, const char *path)
{
	struct dump *u;

	for (u = dumps; u; u = u->next)
		if (u->pid == getpid() && !strcmp(u->dir, dir))
			return u;
	u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	*u = (struct dump){ .dir = strdup(dir), .pid = getpid(), .fd = -1, .next = dumps };
	if (!u->dir || !begin(u, path)) {
		const int why = errno;

		forget(u);
		errno = why;
		return NULL;
	}
	return dumps = u;
}

/* ---- records ---- */

static void put_lines(
	struct ht_buf *b, const struct ht_debug_function *f, const char *source, uint64_t time)
{
	struct debug_info r = { { CODE_DEBUG_INFO, 0, time }, (uintptr_t)f->code.p, 0 };
	const size_t at = b->n, name = strlen(source) + 1;

	ht_put(b, &r, sizeof r);
	for (size_t i = 0; i < f->lines.lines; i++) {
		const struct ht_line_at *l = &f->lines.line[i];
		const struct entry e = { (uintptr_t)f->code.p + l->at,
			(int32_t)(f->first_line + l->line - 1), 0 };

		if (!l->line)
			continue;
		ht_put(b, &e, sizeof e);
		ht_put(b, source, name);
		r.entries++;
	}
	r.prefix.total_size = (uint32_t)(b->n - at);
	memcpy(b->p + at, &r, sizeof r);
}

static void put_function(
	struct ht_buf *b, const struct dump *u, const struct ht_debug_function *f, uint64_t time)
{
	const size_t name = strlen(f->name) + 1;
	const uint64_t address = (uintptr_t)f->code.p;
	const struct code_load r = {
		{ CODE_LOAD, (uint32_t)(sizeof r + name + f->code.n), time },
		(uint32_t)u->pid,
		(uint32_t)syscall(SYS_gettid),
		address,
		address,
		f->code.n,
		u->functions,
	};

	ht_put(b, &r, sizeof r);
	ht_put(b, f->name, name);
	ht_put_str(b, f->code);
}

static bool add(struct dump *u, const struct ht_debug_code *c, struct ht_arena *a)
{
	for (size_t i = 0; i < c->n; i++) {
		const uint64_t time = now();
		struct ht_buf b;

		ht_buf_init(&b, a);
		if (c->source && c->function[i].lines.lines)
			put_lines(&b, &c->function[i], c->source, time);
		put_function(&b, u, &c->function[i], time);
		if (!append(u->fd, b.p, b.n))
			return false;
		u->functions++;
	}
	return true;
}

enum ht_status ht_jitdump_add(const struct ht_debug_code *c, const char *dir, struct ht_diags *d)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_where at = HT_NOWHERE;
	struct dump *u;
	bool ok;
	int why;

	ht_arena_init(&a, &unwind);
	pthread_mutex_lock(&lock);
	if (setjmp(unwind.env)) {
		pthread_mutex_unlock(&lock);
		ht_arena_release(&a);
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	}
	at.path = ht_str_printf(&a, "%s/jit-%d.dump", dir, (int)getpid()).p;
	u = dump_in(dir, at.path);
	ok = u && add(u, c, &a);
	why = errno;
	pthread_mutex_unlock(&lock);
	if (!ok)
		ht_error(d, HT_E_ENVIRONMENT, at, "cannot write: %s", strerror(why));
	ht_arena_release(&a);
	return ok ? HT_OK : HT_E_ENVIRONMENT;
}
