/* The function of a net's header that tells how much of the arena runs with given sizes use.  It computes what ht_exec_place_buffers()
 * computes in such a run, in statements for each place: which places end before which is known when the net is made. */
#include "api/aot.h"

struct places {
	const struct ht_aot *net;
	const struct ht_image *image;
	const struct ht_image_place_of *all;
	uint32_t n;
	struct ht_buf *out;
};

static uint64_t end_of(const struct ht_image_place_of *p)
{
	return p->offset + p->bytes;
}

static void put_reach(const struct places *p, const struct ht_image_reach *r)
{
	struct ht_size_expr e;

	ht_printf(p->out, "(size_t)%llu", (unsigned long long)r->add);
	if (!r->sized)
		return;
	e = ht_image_expression_of(p->image, r->sized - 1);
	ht_puts(p->out, " + ");
	ht_size_print(&e, ht_aot_put_size, p->image, p->out);
}

static void put_place(const struct places *p, uint32_t i)
{
	ht_printf(p->out, "\tend[%u] = %s_arena_end(from, ", i, p->net->prefix);
	put_reach(p, &p->all[i].reach);
	ht_printf(p->out, ", %lluu);\n\tframe = end[%u] > frame ? end[%u] : frame;\n",
		(unsigned long long)p->all[i].bytes, i, i);
}

static void put_places(const struct places *p)
{
	uint32_t ended = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		for (; end_of(&p->all[p->all[ended].ends]) <= p->all[i].offset; ended++)
			ht_printf(p->out, "\tfrom = end[%u] > from ? end[%u] : from;\n",
				p->all[ended].ends, p->all[ended].ends);
		put_place(p, i);
	}
}

/* Statements that make `most` no less than the bytes of a run of one program. */
static void put_program(const struct ht_aot *a, const struct ht_program *program, struct ht_buf *b)
{
	const struct ht_image *x = program->rt.image;
	struct places p = { a, x, ht_image_places(x), ht_image_count(x, HT_IMAGE_PLACES), b };
	struct ht_exec_needs needs;
	uint64_t placed =
		p.n ? ht_image_procedures(x)[ht_image_entries(x)->procedure].frame_bytes : 0;

	HT_CHECK(ht_aot_memory(x, &needs));
	ht_printf(b, "\n\t/* %s */\n\tfrom = frame = 0;\n", program->info.target);
	put_places(&p);
	ht_printf(b,
		"\tframe += (size_t)%llu + (size_t)%llu * (size_t)threads - (size_t)%llu;\n"
		"\tmost = frame > most ? frame : most;\n",
		(unsigned long long)ht_exec_common_bytes(&needs),
		(unsigned long long)ht_exec_thread_bytes(&needs), (unsigned long long)placed);
}

static uint32_t most_places(const struct ht_aot *a)
{
	uint32_t most = 1;

	for (size_t i = 0; i < a->programs; i++) {
		uint32_t n = ht_image_count(a->program[i]->rt.image, HT_IMAGE_PLACES);

		most = n > most ? n : most;
	}
	return most;
}

static void put_unused(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_image *x = a->program[0]->rt.image;

	for (uint32_t i = 0; i < ht_image_stated(x); i++)
		ht_printf(b, "\t(void)%s;\n", ht_image_text(x, ht_image_sizes(x)[i].name));
}

void ht_aot_put_arena(const struct ht_aot *a, struct ht_buf *b)
{
	if (!ht_image_stated(a->program[0]->rt.image))
		return;
	ht_printf(b,
		"/* Where memory of `bytes` bytes ends that begins at `from`; it has no more than `most`. */\n"
		"static inline size_t %s_arena_end(size_t from, size_t bytes, size_t most)\n{\n"
		"\treturn from + ((bytes < most ? bytes : most) + 63) / 64 * 64;\n}\n\n"
		"/* How many bytes of the arena, from its begin, a run with these sizes uses: no more than\n"
		" * %s_ARENA_BYTES_FOR(threads).  An arena of so many bytes suffices for it. */\n"
		"static inline size_t %s_arena_bytes(int threads, %s)\n{\n"
		"\tsize_t most = 0, from, frame, end[%u];\n\n",
		a->prefix, a->upper, a->prefix, ht_aot_sizes(a, "int64_t "), most_places(a));
	put_unused(a, b);
	ht_puts(b, "\t(void)end;\n\t(void)from;\n");
	for (size_t i = 0; i < a->programs; i++)
		put_program(a, a->program[i], b);
	ht_puts(b, "\treturn most;\n}\n\n");
}
