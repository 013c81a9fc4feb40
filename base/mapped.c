/* Maps of files that another process may shorten.  A read behind the new end of a mapped file
 * raises SIGBUS.  If the process enabled it, the lost pages become zeros instead, and the code that
 * used them learns of the loss afterwards. */
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = 64 };

/* Taken and released under the lock.  The signal handler reads without the lock at any time, so
 * `begin` is set last and cleared first. */
struct ht_mapped {
	uintptr_t begin, end; /* whole pages, atomic; begin 0: the slot is free */
	unsigned
		lost; /* its ordinal number among the maps that lost pages, atomic; 0: it lost none */
	const char *path;
};

/* A list that grows at its end and is never freed. */
static struct chunk {
	struct ht_mapped map[CHUNK];
	struct chunk *next; /* atomic */
} first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned lost; /* the number of maps that lost pages, atomic */
static uintptr_t page;
static struct sigaction before;

static struct ht_mapped *find(bool (*is)(const struct ht_mapped *m, uintptr_t arg), uintptr_t arg)
{
	for (struct chunk *c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (int i = 0; i < CHUNK; i++)
			if (is(&c->map[i], arg))
				return &c->map[i];
	return NULL;
}

static bool contains(const struct ht_mapped *m, uintptr_t at)
{
	uintptr_t begin = __atomic_load_n(&m->begin, __ATOMIC_ACQUIRE),
		  end = __atomic_load_n(&m->end, __ATOMIC_ACQUIRE);

	return begin && begin <= at && at < end &&
	       begin == __atomic_load_n(&m->begin, __ATOMIC_ACQUIRE);
}

static bool is_free(const struct ht_mapped *m, uintptr_t arg)
{
	(void)arg;
	return !m->begin;
}

static bool was_lost_after(const struct ht_mapped *m, uintptr_t number)
{
	return m->begin && __atomic_load_n(&m->lost, __ATOMIC_ACQUIRE) > number;
}

/* ---- the signal ---- */

/* Maps zeros from the page of `at` to the end of the map that contains it; false: no map does. */
static bool fill(uintptr_t at)
{
	struct ht_mapped *m = find(contains, at);
	uintptr_t from = at - at % page;
	int saved = errno;
	bool good;

	if (!m)
		return false;
	good = mmap((void *)from, m->end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0) != MAP_FAILED;
	errno = saved;
	if (good && !__atomic_load_n(&m->lost, __ATOMIC_ACQUIRE))
		__atomic_store_n(
			&m->lost, __atomic_add_fetch(&lost, 1, __ATOMIC_ACQ_REL), __ATOMIC_RELEASE);
	return good;
}

/* A signal that does not concern a map goes to the previous handler.  Without one the instruction
 * is repeated, and the system ends the process. */
static void handle(int signal, siginfo_t *info, void *machine)
{
	if (info->si_code == BUS_ADRERR && fill((uintptr_t)info->si_addr))
		return;
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signal, info, machine);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(signal);
	else
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

static void install(void)
{
	struct sigaction ours = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&ours.sa_mask);
	sigaction(SIGBUS, &ours, &before);
}

void ht_mapped_guard(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

/* ---- the maps ---- */

static struct ht_mapped *room(void)
{
	struct ht_mapped *m = find(is_free, 0);
	struct chunk *last = &first;

	if (m)
		return m;
	while (last->next)
		last = last->next;
	m = NULL;
	__atomic_store_n(&last->next, ht_sys_alloc(sizeof *last), __ATOMIC_RELEASE);
	if (last->next)
		m = last->next->map;
	return m;
}

struct ht_mapped *ht_mapped_new(const char *path, const void *p, size_t n)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)p;
	struct ht_mapped *m;

	pthread_mutex_lock(&lock);
	m = room();
	if (m) {
		m->path = path;
		__atomic_store_n(&m->lost, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&m->end, begin + (n + size - 1) / size * size, __ATOMIC_RELEASE);
		__atomic_store_n(&m->begin, begin, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return m;
}

void ht_mapped_free(struct ht_mapped *m)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&m->begin, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

/* ---- lost pages ---- */

unsigned ht_mapped_lost(void)
{
	return __atomic_load_n(&lost, __ATOMIC_ACQUIRE);
}

static enum ht_status tell(const struct ht_mapped *m, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;

	if (!m || !__atomic_load_n(&m->lost, __ATOMIC_ACQUIRE))
		return HT_OK;
	at.path = m->path;
	return ht_error(
		d, HT_E_INPUT, at, "the file became shorter while it was in use; load it again");
}

enum ht_status ht_mapped_check(const void *p, struct ht_diags *d)
{
	enum ht_status st;

	if (!ht_mapped_lost())
		return HT_OK;
	pthread_mutex_lock(&lock);
	st = tell(find(contains, (uintptr_t)p), d);
	pthread_mutex_unlock(&lock);
	return st;
}

enum ht_status ht_mapped_check_since(unsigned number, struct ht_diags *d)
{
	enum ht_status st;

	if (ht_mapped_lost() == number)
		return HT_OK;
	pthread_mutex_lock(&lock);
	st = tell(find(was_lost_after, number), d);
	pthread_mutex_unlock(&lock);
	return st;
}
