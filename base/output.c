/* Output files that appear whole or not at all.
 *
 * Bytes go to PATH.PID-NUMBER.tmp beside PATH, which commit renames.  An existing path that is no
 * regular file (/dev/null, a FIFO) is written in place.  The names of the temporary files are in a
 * fixed table that a signal handler may read at any time: a slot's name does not change while the
 * slot is in use. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 16, BUFFER = 1 << 16 };
enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_NAMED };

static struct slot {
	int state; /* atomic */
	char name[PATH_MAX];
} slots[SLOTS];

struct ht_output {
	const char *path; /* as the user gave it */
	struct ht_diags *diags;
	int fd;
	int failed;        /* errno of the first failure; nothing is written after it */
	bool said;         /* a diagnostic reports the failure */
	bool in_place;     /* without a temporary file */
	struct slot *slot; /* of the temporary file; NULL: written in place */
	char *target;      /* the path to which the temporary file is renamed */
	size_t n;
	char buffer[BUFFER];
};

static enum ht_status cannot_write(struct ht_diags *d, const char *path, int why)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	return ht_error(d, HT_E_ENVIRONMENT, at, "cannot write: %s", strerror(why));
}

static struct slot *take_slot(void)
{
	for (int i = 0; i < SLOTS; i++) {
		int expected = SLOT_FREE;

		if (__atomic_compare_exchange_n(&slots[i].state, &expected, SLOT_TAKEN, false,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &slots[i];
	}
	return NULL;
}

static void set_slot(struct slot *s, enum slot_state state)
{
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
}

/* Opens a new temporary file beside o->target; 0 or an errno. */
static int open_temporary(struct ht_output *o, mode_t mode)
{
	static unsigned counter;
	struct slot *s = take_slot();
	int n;

	if (!s)
		return EMFILE;
	for (int tries = 0; tries < 100; tries++) {
		n = snprintf(s->name, sizeof s->name, "%s.%ld-%u.tmp", o->target, (long)getpid(),
			__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
		if (n < 0 || (size_t)n >= sizeof s->name) {
			errno = ENAMETOOLONG;
			break;
		}
		/* The slot gets the name before the file exists, so a signal right after open()
		 * removes the file, too. */
		set_slot(s, SLOT_NAMED);
		o->fd = open(s->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (o->fd >= 0) {
			o->slot = s;
			return 0;
		}
		set_slot(s, SLOT_TAKEN);
		if (errno != EEXIST)
			break;
	}
	n = errno;
	set_slot(s, SLOT_FREE);
	return n;
}

static int open_in_place(struct ht_output *o)
{
	o->in_place = true;
	o->fd = open(o->path, O_WRONLY | O_CLOEXEC);
	return o->fd < 0 ? errno : 0;
}

/* Chooses how to write; 0 or an errno. */
static int open_target(struct ht_output *o)
{
	struct stat s;
	int why;

	if (!strcmp(o->path, "-")) {
		o->in_place = true;
		o->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(o->path, &s)) {
		if (errno != ENOENT)
			return errno;
		o->target = strdup(o->path);
		return o->target ? open_temporary(o, 0666) : ENOMEM;
	}
	if (S_ISDIR(s.st_mode))
		return EISDIR;
	if (!S_ISREG(s.st_mode))
		return open_in_place(o);
	/* If the path is a symbolic link, the file that it names is replaced, not the link. */
	if (access(o->path, W_OK))
		return errno;
	o->target = realpath(o->path, NULL);
	if (!o->target)
		return errno;
	why = open_temporary(o, 0666);
	if (!why && fchmod(o->fd, s.st_mode & 0777))
		why = errno;
	return why;
}

static void discard(struct ht_output *o)
{
	if (o->fd >= 0 && o->fd != STDOUT_FILENO)
		close(o->fd);
	if (o->slot) {
		unlink(o->slot->name);
		set_slot(o->slot, SLOT_FREE);
	}
	free(o->target);
	free(o);
}

enum ht_status ht_output_open(const char *path, struct ht_diags *d, struct ht_output **out)
{
	size_t length = strlen(path);
	struct ht_output *o = ht_sys_alloc(sizeof *o + length + 1);
	int why;

	*out = NULL;
	if (!o)
		return cannot_write(d, path, ENOMEM);
	o->path = memcpy(o + 1, path, length);
	o->diags = d;
	o->fd = -1;
	why = open_target(o);
	if (why) {
		discard(o);
		return cannot_write(d, path, why);
	}
	*out = o;
	return HT_OK;
}

static void write_all(struct ht_output *o, const char *p, size_t n)
{
	while (n && !o->failed) {
		ssize_t done = write(o->fd, p, n);

		if (done < 0 && errno != EINTR)
			o->failed = errno;
		if (done > 0) {
			p += done;
			n -= (size_t)done;
		}
	}
}

/* Reports a failure once. */
static enum ht_status status(struct ht_output *o)
{
	if (o->failed && !o->said)
		cannot_write(o->diags, o->path, o->failed);
	o->said = o->failed;
	return o->failed ? HT_E_ENVIRONMENT : HT_OK;
}

enum ht_status ht_output_flush(struct ht_output *o)
{
	write_all(o, o->buffer, o->n);
	o->n = 0;
	return status(o);
}

enum ht_status ht_output_write(struct ht_output *o, const void *p, size_t n)
{
	if (n > BUFFER - o->n)
		ht_output_flush(o);
	if (n >= BUFFER) {
		write_all(o, p, n);
	} else if (n) {
		memcpy(o->buffer + o->n, p, n);
		o->n += n;
	}
	return status(o);
}

enum ht_status ht_output_commit(struct ht_output *o)
{
	enum ht_status st;

	ht_output_flush(o);
	if (o->fd != STDOUT_FILENO) {
		if (close(o->fd) && !o->failed)
			o->failed = errno;
		o->fd = -1;
	}
	if (o->slot && !o->failed) {
		if (rename(o->slot->name, o->target)) {
			o->failed = errno;
		} else {
			set_slot(o->slot, SLOT_FREE);
			o->slot = NULL;
		}
	}
	st = status(o);
	discard(o);
	return st;
}

void ht_output_abort(struct ht_output *o)
{
	if (o)
		discard(o);
}

bool ht_output_is_there(const char *path, struct ht_str bytes)
{
	struct ht_file *f;
	bool same;

	if (!strcmp(path, "-") || access(path, W_OK) ||
		ht_file_map(path, SIZE_MAX, NULL, &f) != HT_OK)
		return false;
	same = f->n == bytes.n && !memcmp(f->p, bytes.p, bytes.n);
	ht_file_unref(f);
	return same && !utimensat(AT_FDCWD, path, NULL, 0);
}

/* ---- signals ---- */

static void remove_and_die(int signal)
{
	for (int i = 0; i < SLOTS; i++)
		if (__atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE) == SLOT_NAMED)
			unlink(slots[i].name);
	/* SA_RESETHAND restored the default action, so this ends the process as the signal does by
	 * default. */
	raise(signal);
}

void ht_output_install_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ };

	for (size_t i = 0; i < HT_COUNT(ending); i++) {
		struct sigaction now, ours = { .sa_handler = remove_and_die };

		/* Signals that the parent process set to be ignored (nohup, a background job) stay
		 * ignored. */
		if (sigaction(ending[i], NULL, &now) || now.sa_handler == SIG_IGN)
			continue;
		sigfillset(&ours.sa_mask);
		sigdelset(&ours.sa_mask, ending[i]);
		ours.sa_flags = (int)SA_RESETHAND | SA_NODEFER;
		sigaction(ending[i], &ours, NULL);
	}
}
