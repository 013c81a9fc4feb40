/* Hashes of a model's files, for keys and provenance. */
#include "api/api.h"

#include "frontend/frontend.h"

#include <stdlib.h>

/* It is immutable once it is attached to a model, so that threads may share the model. */
struct ht_content {
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_str text;
	struct ht_input_file *checkpoint;
};

void ht_put_digest(struct ht_buf *b, const uint8_t digest[32])
{
	for (size_t i = 0; i < 32; i++)
		ht_printf(b, "%02x", digest[i]);
	ht_putc(b, '\n');
}

static void put_files(struct ht_buf *b, const struct ht_model *m, const struct ht_input_file *first,
	struct ht_diags *d)
{
	struct timespec now;
	uint8_t digest[32];

	for (const struct ht_input_file *i = first; i; i = i->next) {
		clock_gettime(CLOCK_REALTIME, &now);
		ht_cache_digest(m->cache, i->file, now.tv_sec * INT64_C(1000000000) + now.tv_nsec,
			d, digest);
		ht_put_digest(b, digest);
	}
}

struct hashing {
	const struct ht_model *m;
	struct ht_content *c;
	struct ht_diags *d;
};

static enum ht_status hash(void *arg)
{
	struct hashing *h = arg;
	struct ht_buf b;

	ht_buf_init(&b, &h->c->arena);
	if (h->m->graph->checkpoint)
		HT_TRY(ht_checkpoint_files(
			&h->c->arena, h->m->graph->checkpoint, h->d, &h->c->checkpoint));
	put_files(&b, h->m, h->m->graph->inputs, h->d);
	put_files(&b, h->m, h->c->checkpoint, h->d);
	h->c->text = ht_buf_str(&b);
	return HT_OK;
}

void ht_content_free(struct ht_content *c)
{
	if (c)
		ht_arena_release(&c->arena);
	free(c);
}

static const struct ht_content *known(const struct ht_model *m)
{
	return __atomic_load_n(&m->content, __ATOMIC_ACQUIRE);
}

/* Files are hashed once, however often the model is compiled. */
enum ht_status ht_content_of(const struct ht_model *m, struct ht_diags *d, struct ht_str *out)
{
	struct ht_model *model = (struct ht_model *)(uintptr_t)m;
	struct hashing h = { m, NULL, d };
	struct ht_content *none = NULL;
	enum ht_status st;

	if (!known(m)) {
		h.c = ht_sys_alloc(sizeof *h.c);
		if (!h.c)
			return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
		ht_arena_init(&h.c->arena, &h.c->unwind);
		st = ht_guarded(&h.c->unwind, hash, &h, d);
		/* Another thread may have computed it at the same time. */
		if (st != HT_OK || !__atomic_compare_exchange_n(&model->content, &none, h.c, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			ht_content_free(h.c);
		HT_TRY(st);
	}
	*out = known(m)->text;
	return HT_OK;
}

struct ht_str ht_content_known(const struct ht_model *m)
{
	return known(m)->text;
}

const struct ht_input_file *ht_content_files(const struct ht_model *m)
{
	return known(m) ? known(m)->checkpoint : NULL;
}

static enum ht_status check_files(const struct ht_input_file *first, struct ht_diags *d)
{
	for (const struct ht_input_file *i = first; i; i = i->next)
		HT_TRY(ht_mapped_check(i->file->p, d));
	return HT_OK;
}

/* Checks the files of a checkpoint. */
static enum ht_status check_values(const struct ht_graph *g, struct ht_diags *d)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *t = ht_variable_value(n);

		if (t)
			HT_TRY(ht_mapped_check(t->blob->p, d));
	}
	return HT_OK;
}

enum ht_status ht_content_check(const struct ht_model *m, struct ht_diags *d)
{
	if (!ht_mapped_lost())
		return HT_OK;
	HT_TRY(check_files(m->graph->inputs, d));
	return check_values(m->graph, d);
}

static bool any_changed(const struct ht_input_file *first)
{
	for (const struct ht_input_file *i = first; i; i = i->next)
		if (ht_file_changed(i->file))
			return true;
	return false;
}

bool ht_content_changed(const struct ht_model *m)
{
	return any_changed(m->graph->inputs) || any_changed(ht_content_files(m));
}
