/* The locks of garbage collection and of indices. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

/* Attempts, a millisecond apart.  A lock is held briefly; the limit keeps a process that hangs from
 * blocking others for ever. */
#define TRIES 10000

int ht_store_lock_file(struct ht_store *s, const char *path, bool wait)
{
	const struct timespec pause = { 0, 1000000 }; /* ns */
	int fd = ht_store_create(s, path, O_RDWR | O_NOFOLLOW);
	int why, tries = 0;

	while (fd >= 0 && s->files->flock(fd, LOCK_EX | LOCK_NB)) {
		if ((errno == EINTR || (wait && errno == EWOULDBLOCK)) && tries++ < TRIES) {
			nanosleep(&pause, NULL);
			continue;
		}
		why = errno;
		s->files->close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

int ht_store_lock(struct ht_store *s, bool wait)
{
	return ht_store_lock_file(s, ht_store_file(s, "lock").s, wait);
}

void ht_store_unlock(struct ht_store *s, int fd)
{
	s->files->close(fd);
}
