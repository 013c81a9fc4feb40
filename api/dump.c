/* Writes the graph after each pass to a folder, for people: NNN-PASS.hir, .pbtxt and .dot.
 *
 * Constants of more than SMALL elements are left out of the .pbtxt, whose Const then has no
 * value.  The .hir refers to a weights file beside it, if the weights have at most MAX_WEIGHTS
 * bytes.  Above that it can only be read by people, since every pass would write another copy of
 * the weights. */
#include "api/report.h"
#include "frontend/frontend.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { SMALL = 64 };
#define MAX_WEIGHTS ((size_t)16 << 20)

struct ht_dump {
	const char *folder;
	struct ht_arena arena; /* of one dump */
	struct ht_diags *diags;
	int count;
};

static bool is_large(const struct ht_node *n, size_t *bytes)
{
	const struct ht_tensor *t = ht_const_tensor(ht_out((struct ht_node *)(uintptr_t)n, 0));

	*bytes = t && t->blob ? t->blob->n : 0;
	return ht_is(n, HT_CONSTANT) && t && ht_shape_count(t->shape) > SMALL;
}

static const char *path_of(struct ht_dump *d, const char *pass, const char *ending)
{
	return ht_str_printf(&d->arena, "%s/%03d-%s.%s", d->folder, d->count, pass, ending).p;
}

static enum ht_status dump_hir(struct ht_dump *d, const struct ht_graph *g, const char *pass)
{
	const char *path = path_of(d, pass, "hir");
	struct ht_text_options opt = { .weights_inline = false };
	size_t weights = 0, bytes;
	struct ht_buf text, unwanted;

	for (const struct ht_node *n = g->first; n; n = n->next)
		weights += is_large(n, &bytes) ? bytes : 0;
	if (weights <= MAX_WEIGHTS)
		return ht_put_text(g, path, &d->arena, d->diags, NULL);
	ht_buf_init(&text, &d->arena);
	ht_buf_init(&unwanted, &d->arena);
	ht_text_print(g, &opt, &text, &unwanted);
	return ht_put_bytes(ht_buf_str(&text), path, d->diags, NULL);
}

static enum ht_status dump_pbtxt(struct ht_dump *d, const struct ht_graph *g, const char *pass)
{
	struct ht_graph *copy = ht_graph_clone(g, &d->arena);
	struct ht_buf b;
	size_t bytes;

	for (struct ht_node *n = copy->first; n; n = n->next)
		if (is_large(n, &bytes))
			ht_attr_remove(n, "value");
	ht_buf_init(&b, &d->arena);
	HT_TRY(ht_export_graphdef(copy, HT_EXPORT_TEXT, d->diags, &b));
	return ht_put_bytes(ht_buf_str(&b), path_of(d, pass, "pbtxt"), d->diags, NULL);
}

static enum ht_status dump_dot(struct ht_dump *d, const struct ht_graph *g, const char *pass)
{
	struct ht_buf b;

	ht_buf_init(&b, &d->arena);
	ht_graph_dot(g, ht_str(pass), &b);
	return ht_put_bytes(ht_buf_str(&b), path_of(d, pass, "dot"), d->diags, NULL);
}

static enum ht_status dump(void *self, const struct ht_graph *g, const char *pass)
{
	struct ht_dump *d = self;
	struct ht_unwind *unwind = d->arena.unwind;
	enum ht_status st = dump_hir(d, g, pass);

	if (st == HT_OK)
		st = dump_pbtxt(d, g, pass);
	if (st == HT_OK)
		st = dump_dot(d, g, pass);
	d->count++;
	ht_arena_release(&d->arena);
	ht_arena_init(&d->arena, unwind);
	return st;
}

static void release(void *dump)
{
	ht_arena_release(&((struct ht_dump *)dump)->arena);
}

enum ht_status ht_dump_graphs(
	const struct ht_policy *p, struct ht_work *w, struct ht_pass_context *c)
{
	const char *folder = p->dump_graphs;
	struct ht_where at = HT_NOWHERE;
	struct ht_dump *d;

	if (!folder)
		return HT_OK;
	at.path = folder;
	if (mkdir(folder, 0777) && errno != EEXIST)
		return ht_error(c->diags, HT_E_ENVIRONMENT, at, "cannot make this folder: %s",
			strerror(errno));
	d = HT_NEW(&w->arena, struct ht_dump);
	*d = (struct ht_dump){ .folder = folder, .diags = c->diags };
	ht_arena_init(&d->arena, &w->unwind);
	ht_arena_defer(&w->arena, release, d);
	c->after = dump;
	c->after_self = d;
	return HT_OK;
}
