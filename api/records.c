/* Files of records: reading examples, writing events. */
#include <halftone/records.h>

#include "api/api.h"
#include "frontend/records.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of a call about either kind of file. */
struct records_call {
	struct ht_arena *a;
	const char *path, *name;
	int64_t i, elements;
	enum ht_dtype dtype;
	void *to;
	const struct ht_event_scalar *scalar;
	size_t scalars;
	struct ht_record_file *file;
	struct ht_event_writer *writer;
	struct ht_feature_list feature;
	struct ht_diags *d;
};

static enum ht_status guarded(
	struct ht_arena *a, enum ht_status (*body)(void *arg), struct records_call *x)
{
	struct ht_unwind unwind;
	enum ht_status st;

	a->unwind = &unwind;
	x->a = a;
	st = ht_guarded(&unwind, body, x, x->d);
	a->unwind = NULL;
	return st;
}

/* ---- examples ---- */

struct ht_records {
	struct ht_arena arena;
	struct ht_record_file *file;
};

static enum ht_status open_records(void *arg)
{
	struct records_call *x = arg;

	return ht_record_file_open(x->a, x->path, x->d, &x->file);
}

enum ht_status ht_records_open(const char *path, struct ht_diags *d, struct ht_records **out)
{
	struct records_call x = { .path = path, .d = d };
	struct ht_records *r = ht_sys_alloc(sizeof *r);
	enum ht_status st;

	*out = NULL;
	if (!r)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&r->arena, NULL);
	st = guarded(&r->arena, open_records, &x);
	r->file = x.file;
	if (st == HT_OK)
		*out = r;
	else
		ht_records_free(r);
	return st;
}

void ht_records_free(struct ht_records *r)
{
	if (!r)
		return;
	ht_arena_release(&r->arena);
	free(r);
}

int64_t ht_records_count(const struct ht_records *r)
{
	return ht_record_file_count(r->file);
}

static enum ht_status check_record(const struct ht_records *r, int64_t i, struct ht_diags *d)
{
	if (i >= 0 && i < ht_records_count(r))
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "record %lld of %lld", (long long)i,
		(long long)ht_records_count(r));
}

static enum ht_status describe(void *arg)
{
	struct records_call *x = arg;

	return ht_example_feature(x->file, x->i, ht_str(x->name), x->d, &x->feature);
}

enum ht_status ht_records_feature(struct ht_records *r, int64_t i, const char *name,
	struct ht_diags *d, struct ht_feature *out)
{
	static const enum ht_feature_kind kinds[] = { [HT_LIST_BYTES] = HT_FEATURE_BYTES,
		[HT_LIST_FLOAT] = HT_FEATURE_FLOAT,
		[HT_LIST_INT64] = HT_FEATURE_INT64 };
	struct records_call x = { .file = r->file, .i = i, .name = name, .d = d };
	struct ht_feature all;

	HT_TRY(check_record(r, i, d));
	HT_TRY(guarded(&r->arena, describe, &x));
	memset(&all, 0, sizeof all); /* also what is between members */
	all.kind = kinds[x.feature.kind];
	all.elements = x.feature.elements;
	all.bytes = x.feature.bytes;
	return ht_caller_result(out, "ht_feature", &all, sizeof all, d);
}

static enum ht_status read_feature(void *arg)
{
	struct records_call *x = arg;

	return ht_example_read(x->file, x->i, ht_str(x->name), x->dtype, x->elements, x->to, x->d);
}

enum ht_status ht_records_read(struct ht_records *r, int64_t i, const char *name,
	enum ht_dtype dtype, int64_t elements, void *to, struct ht_diags *d)
{
	struct records_call x = { .file = r->file,
		.i = i,
		.name = name,
		.dtype = dtype,
		.elements = elements,
		.to = to,
		.d = d };

	HT_TRY(check_record(r, i, d));
	return guarded(&r->arena, read_feature, &x);
}

/* ---- events ---- */

struct ht_event_file {
	struct ht_arena arena;
	struct ht_event_writer *writer;
	bool incomplete; /* memory for an event ran out */
};

static enum ht_status open_events(void *arg)
{
	struct records_call *x = arg;

	return ht_event_writer_open(x->a, x->path, x->i, x->d, &x->writer);
}

static void free_events(struct ht_event_file *e)
{
	ht_arena_release(&e->arena);
	free(e);
}

enum ht_status ht_event_file_open(
	const char *dir, int64_t first, struct ht_diags *d, struct ht_event_file **out)
{
	struct records_call x = { .path = dir, .i = first, .d = d };
	struct ht_event_file *e = ht_sys_alloc(sizeof *e);
	enum ht_status st;

	*out = NULL;
	if (!e)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&e->arena, NULL);
	st = guarded(&e->arena, open_events, &x);
	e->writer = x.writer;
	if (st == HT_OK)
		*out = e;
	else
		free_events(e);
	return st;
}

static enum ht_status put_scalars(void *arg)
{
	struct records_call *x = arg;

	ht_event_writer_begin(x->writer, x->i);
	for (size_t i = 0; i < x->scalars; i++)
		ht_event_writer_scalar(
			x->writer, x->scalar[i].tag, x->scalar[i].value, x->scalar[i].description);
	ht_event_writer_end(x->writer);
	return HT_OK;
}

void ht_event_file_scalars(
	struct ht_event_file *e, int64_t step, const struct ht_event_scalar *scalar, size_t n)
{
	struct records_call x = { .writer = e->writer, .i = step, .scalar = scalar, .scalars = n };

	if (guarded(&e->arena, put_scalars, &x) != HT_OK)
		e->incomplete = true;
}

enum ht_status ht_event_file_close(struct ht_event_file *e, struct ht_diags *d)
{
	enum ht_status st;

	if (!e)
		return HT_OK;
	st = ht_event_writer_close(e->writer, d);
	if (st == HT_OK && e->incomplete)
		st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"no memory for an event, which the file of events lacks");
	free_events(e);
	return st;
}
