/* A program's constants: matrices are packed on several threads, all into one blob; other
 * constants stay in place.
 *
 * Each matrix has its place before packing begins, so that the bytes do not depend on the number
 * of threads.  A source matrix is freed after its last reader, so that a model's weights are not
 * in memory twice.
 *
 * If other programs' constants may be read, each packed matrix is a blob of its own, and one that another program has is freed at once. */
#include "api/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A matrix to pack. */
struct job {
	struct ht_plan_buffer *buffer;
	int32_t source;  /* the first job that reads the same source */
	atomic_int left; /* in the first job of a source: how many jobs have not read it yet */
	bool stays;      /* in the first job of a source: it is also a constant in place */
	struct ht_blob elsewhere; /* if the packed matrix is another program's: its bytes */
};

struct packing {
	struct ht_program *p;
	struct ht_graph *g;
	struct ht_plan *plan;
	const struct ht_constants *constants; /* of other programs */
	struct ht_diags *d;
	struct job *job;
	int32_t jobs;
	atomic_int next;
	atomic_bool failed;    /* memory ran out */
	pthread_mutex_t graph; /* held while a constant of the graph is dropped */
};

static void unref(void *blob)
{
	ht_blob_unref(blob);
}

/* The program holds `blob` as long as it lives, and takes over the caller's reference. */
static void keep(struct ht_program *p, struct ht_blob *blob)
{
	ht_arena_defer(&p->arena, unref, blob);
}

static enum ht_status no_memory(struct packing *w, size_t bytes)
{
	return ht_error(
		w->d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for %zu bytes of weights", bytes);
}

/* ---- places ---- */

static size_t packed_bytes(const struct ht_plan_buffer *buf)
{
	return buf->kind == HT_PLAN_CONST && buf->pack && !buf->same ? (buf->bytes + 63) / 64 * 64
								     : 0;
}

/* All packed weights are one blob. */
static enum ht_status place_packed(struct packing *w)
{
	struct ht_plan *plan = w->plan;
	struct ht_blob *all;
	size_t n = 0;

	for (int32_t i = 0; i < plan->buffers; i++)
		n += packed_bytes(&plan->buffer[i]);
	all = ht_blob_new(n);
	if (!all)
		return no_memory(w, n);
	keep(w->p, all);
	w->p->packed = (struct ht_str){ all->p, all->mapped };
	n = 0;
	for (int32_t i = 0; i < plan->buffers; i++) {
		struct ht_plan_buffer *buf = &plan->buffer[i];

		if (!packed_bytes(buf))
			continue;
		buf->blob = ht_blob_part(all, n, buf->bytes);
		if (!buf->blob)
			return no_memory(w, buf->bytes);
		keep(w->p, buf->blob);
		n += packed_bytes(buf);
	}
	return HT_OK;
}

/* Another program's bytes, which outlive the program: nobody releases them. */
static struct ht_blob elsewhere(const void *at, size_t n)
{
	return (struct ht_blob){ .p = at, .n = n, .refs = 1 };
}

static bool is_elsewhere(struct packing *w, struct ht_plan_buffer *buf)
{
	const void *at = ht_constants_find(w->constants, buf->blob->p, buf->blob->n);

	if (!at)
		return false;
	buf->blob = HT_NEW(&w->p->arena, struct ht_blob);
	*buf->blob = elsewhere(at, buf->bytes);
	return true;
}

static enum ht_status place_others(struct packing *w, int threads)
{
	for (int32_t i = 0; i < w->plan->buffers; i++) {
		struct ht_plan_buffer *buf = &w->plan->buffer[i];

		if (buf->kind != HT_PLAN_CONST || buf->pack || is_elsewhere(w, buf))
			continue;
		buf->blob = ht_blob_aligned(buf->blob, ht_dtype_info(buf->dtype)->bytes, threads);
		if (!buf->blob)
			return no_memory(w, buf->bytes);
		keep(w->p, buf->blob);
	}
	return HT_OK;
}

/* ---- packing ---- */

static bool in_place(const struct ht_plan *plan, const struct ht_blob *blob)
{
	for (int32_t i = 0; i < plan->buffers; i++)
		if (plan->buffer[i].kind == HT_PLAN_CONST && !plan->buffer[i].pack &&
			plan->buffer[i].blob == blob)
			return true;
	return false;
}

static void list_jobs(struct packing *w)
{
	w->job = HT_NEW_ARRAY(&w->p->arena, struct job, (size_t)w->plan->buffers);
	for (int32_t i = 0; i < w->plan->buffers; i++) {
		struct ht_plan_buffer *buf = &w->plan->buffer[i];
		struct job *j = &w->job[w->jobs];

		if (buf->kind != HT_PLAN_CONST || !buf->pack || buf->same)
			continue;
		j->buffer = buf;
		while (w->job[j->source].buffer->packed_from != buf->packed_from)
			j->source++;
		if (j->source == w->jobs)
			j->stays = in_place(w->plan, buf->packed_from);
		atomic_fetch_add_explicit(&w->job[j->source].left, 1, memory_order_relaxed);
		w->jobs++;
	}
}

static void drop_source(struct packing *w, const struct ht_blob *from)
{
	pthread_mutex_lock(&w->graph);
	for (struct ht_node *n = w->g->first; n; n = n->next) {
		const struct ht_tensor *t =
			ht_is(n, HT_CONSTANT) ? ht_const_tensor(ht_out(n, 0)) : NULL;

		if (t && t->blob == from)
			ht_const_drop(n);
	}
	pthread_mutex_unlock(&w->graph);
}

static void pack(const struct ht_plan_buffer *buf)
{
	const struct ht_pack *k = buf->pack;
	size_t from = ht_dtype_info(k->src_dtype)->bytes;
	size_t to = (size_t)ht_packed_count(k) * ht_dtype_info(k->dst_dtype)->bytes;
	const char *src = (const char *)buf->packed_from->p + (size_t)buf->pack_first * from;

	for (size_t i = 0; i < buf->pack_count; i++)
		ht_pack_b(k, src + i * (size_t)buf->pack_stride * from,
			(char *)(uintptr_t)buf->blob->p + i * to);
}

/* Packs into a blob of the matrix's own, unless another program has it. */
static void pack_apart(struct packing *w, struct job *j)
{
	struct ht_plan_buffer *buf = j->buffer;
	struct ht_blob *own = ht_blob_new(buf->bytes);
	const void *at;

	if (!own) {
		w->failed = true;
		return;
	}
	buf->blob = own;
	pack(buf);
	at = ht_constants_find(w->constants, own->p, own->n);
	if (!at)
		return;
	j->elsewhere = elsewhere(at, own->n);
	buf->blob = &j->elsewhere;
	ht_blob_unref(own);
}

static enum ht_status keep_apart(struct packing *w)
{
	for (int32_t i = 0; i < w->jobs; i++)
		if (w->job[i].buffer->blob && w->job[i].buffer->blob != &w->job[i].elsewhere)
			keep(w->p, w->job[i].buffer->blob);
	return w->failed ? no_memory(w, w->p->info.weight_bytes) : HT_OK;
}

static void pack_some(void *arg, int worker)
{
	struct packing *w = arg;
	int32_t i;

	(void)worker;
	while ((i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->jobs) {
		struct job *source = &w->job[w->job[i].source];

		if (w->constants)
			pack_apart(w, &w->job[i]);
		else
			pack(w->job[i].buffer);
		if (atomic_fetch_sub_explicit(&source->left, 1, memory_order_acq_rel) == 1 &&
			!source->stays)
			drop_source(w, w->job[i].buffer->packed_from);
	}
}

enum ht_status ht_program_weights(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_make *how, struct ht_diags *d)
{
	struct packing w = { .p = p,
		.g = g,
		.plan = plan,
		.constants = how->constants,
		.d = d,
		.graph = PTHREAD_MUTEX_INITIALIZER };

	for (int32_t i = 0; i < plan->buffers; i++)
		if (plan->buffer[i].kind == HT_PLAN_CONST && !plan->buffer[i].same)
			p->info.weight_bytes += plan->buffer[i].bytes;
	if (!w.constants)
		HT_TRY(place_packed(&w));
	list_jobs(&w);
	HT_TRY(place_others(&w, how->threads));
	ht_on_threads(ht_thread_limit(how->threads, w.jobs), pack_some, &w);
	return w.constants ? keep_apart(&w) : HT_OK;
}
