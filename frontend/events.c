/* TensorBoard's event files: records of tensorflow.Event, each a step with scalars by tag. */
#include "frontend/records.h"

#include "frontend/bundle.h"
#include "frontend/pb.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_SECONDS 2.0

struct ht_event_writer {
	struct ht_crc32c crc;
	struct ht_pb_writer w;
	struct ht_pb_open_message summary; /* of the event that is being written */
	const char *path;
	FILE *file; /* NULL: closed */
	double flushed;
	int failed; /* the errno of the first write that failed */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- records ---- */

static void store(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void write_bytes(struct ht_event_writer *w, const void *p, size_t n)
{
	if (fwrite(p, 1, n, w->file) != n && !w->failed)
		w->failed = errno ? errno : EIO;
}

/* Writes the message that w->w holds as one record. */
static void end_record(struct ht_event_writer *w)
{
	const struct ht_buf *b = &w->w.buf;
	uint8_t head[HT_RECORD_HEAD], tail[HT_RECORD_TAIL];

	store(head, b->n, 8);
	store(head + 8, ht_crc32c_mask(ht_crc32c(&w->crc, 0, head, 8)), 4);
	store(tail, ht_crc32c_mask(ht_crc32c(&w->crc, 0, b->p, b->n)), 4);
	write_bytes(w, head, sizeof head);
	write_bytes(w, b->p, b->n);
	write_bytes(w, tail, sizeof tail);
}

static void flush(struct ht_event_writer *w)
{
	if (fflush(w->file) && !w->failed)
		w->failed = errno;
	w->flushed = now();
}

/* ---- events ---- */

static void begin_event(struct ht_event_writer *w, int64_t step)
{
	ht_pb_writer_clear(&w->w);
	ht_pb_put_double(&w->w, 1, now());
	if (step)
		ht_pb_put_varint(&w->w, 2, (uint64_t)step);
}

static void put_version(struct ht_event_writer *w)
{
	begin_event(w, 0);
	ht_pb_put_bytes(&w->w, 3, HT_STR("brain.Event:2"));
	end_record(w);
}

/* Writes a SessionLog: TensorBoard then drops the events of earlier files from this step on. */
static void put_start(struct ht_event_writer *w, int64_t step)
{
	struct ht_pb_open_message m;

	begin_event(w, step);
	m = ht_pb_begin(&w->w, 7);
	ht_pb_put_varint(&w->w, 1, 1); /* START */
	ht_pb_end(&w->w, m);
	end_record(w);
}

/* Writes SummaryMetadata: the description, and the name of TensorBoard's plugin that shows the value. */
static void put_description(struct ht_pb_writer *w, const char *text)
{
	struct ht_pb_open_message metadata = ht_pb_begin(w, 9), plugin = ht_pb_begin(w, 1);

	ht_pb_put_bytes(w, 1, HT_STR("scalars"));
	ht_pb_end(w, plugin);
	ht_pb_put_bytes(w, 3, ht_str(text));
	ht_pb_end(w, metadata);
}

void ht_event_writer_begin(struct ht_event_writer *w, int64_t step)
{
	begin_event(w, step);
	w->summary = ht_pb_begin(&w->w, 5);
}

void ht_event_writer_scalar(
	struct ht_event_writer *w, const char *tag, double value, const char *description)
{
	struct ht_pb_open_message m = ht_pb_begin(&w->w, 1);

	ht_pb_put_bytes(&w->w, 1, ht_str(tag));
	ht_pb_put_float(&w->w, 2, (float)value);
	if (description)
		put_description(&w->w, description);
	ht_pb_end(&w->w, m);
}

void ht_event_writer_end(struct ht_event_writer *w)
{
	ht_pb_end(&w->w, w->summary);
	end_record(w);
	if (now() - w->flushed >= FLUSH_SECONDS)
		flush(w);
}

/* ---- files ---- */

static enum ht_status cannot(struct ht_diags *d, const char *path, const char *what, int why)
{
	return ht_error(d, HT_E_ENVIRONMENT, (struct ht_where){ .path = path, .offset = -1 },
		"cannot %s: %s", what, strerror(why));
}

/* Makes the folder and its missing parent folders. */
static enum ht_status make_folder(struct ht_arena *a, const char *dir, struct ht_diags *d)
{
	char *path = memcpy(ht_alloc(a, strlen(dir) + 1), dir, strlen(dir) + 1);
	struct stat s;

	for (char *p = path + 1; *path && *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0777) && errno != EEXIST)
			return cannot(d, dir, "make the folder", errno);
		*p = '/';
	}
	if (mkdir(path, 0777) && errno != EEXIST)
		return cannot(d, dir, "make the folder", errno);
	if (stat(path, &s) || !S_ISDIR(s.st_mode))
		return cannot(d, dir, "make the folder", ENOTDIR);
	return HT_OK;
}

/* TensorBoard reads the files of a folder in the order of their names, so seconds have ten digits. */
static const char *file_name(struct ht_arena *a, const char *dir)
{
	static int number;
	char host[256] = "";

	gethostname(host, sizeof host - 1);
	return ht_str_printf(a, "%s/events.out.tfevents.%010lld.%s.%ld.%d", dir, (long long)now(),
		*host ? host : "localhost", (long)getpid(),
		__atomic_fetch_add(&number, 1, __ATOMIC_RELAXED))
		.p;
}

static void close_file(void *writer)
{
	struct ht_event_writer *w = writer;

	if (w->file)
		fclose(w->file);
	w->file = NULL;
}

enum ht_status ht_event_writer_open(struct ht_arena *a, const char *dir, int64_t first,
	struct ht_diags *d, struct ht_event_writer **out)
{
	struct ht_event_writer *w = HT_NEW(a, struct ht_event_writer);

	HT_TRY(make_folder(a, dir, d));
	ht_crc32c_init(&w->crc);
	ht_pb_writer_init(&w->w, a);
	w->path = file_name(a, dir);
	w->file = fopen(w->path, "wxe");
	if (!w->file)
		return cannot(d, w->path, "write", errno);
	ht_arena_defer(a, close_file, w);
	put_version(w);
	if (first)
		put_start(w, first + 1);
	flush(w);
	*out = w;
	return HT_OK;
}

enum ht_status ht_event_writer_close(struct ht_event_writer *w, struct ht_diags *d)
{
	FILE *file = w->file;

	flush(w);
	w->file = NULL;
	if (fclose(file) && !w->failed)
		w->failed = errno;
	return w->failed ? cannot(d, w->path, "write", w->failed) : HT_OK;
}
