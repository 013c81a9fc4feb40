/* From an object file with debug information: the line of each piece of its only function, and
 * how to unwind it.  Reads the line number program of DWARF 2 to 5 in the form that LLVM writes:
 * one sequence, addresses from the beginning of the code. */
#include "backend/emit.h"

#include <elf.h>
#include <string.h>

struct reader {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t number(struct reader *r, size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < bytes) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	memcpy(&v, r->p, bytes);
	r->p += bytes;
	return v;
}

static uint64_t uleb(struct reader *r)
{
	uint64_t v = 0, byte = 0x80;

	for (unsigned shift = 0; (byte & 0x80) && shift < 64; shift += 7) {
		byte = number(r, 1);
		v |= (byte & 0x7f) << shift;
	}
	return v;
}

static int64_t sleb(struct reader *r)
{
	uint64_t v = 0, byte = 0x80;
	unsigned shift = 0;

	for (; (byte & 0x80) && shift < 64; shift += 7) {
		byte = number(r, 1);
		v |= (byte & 0x7f) << shift;
	}
	if (shift < 64 && (byte & 0x40))
		v |= UINT64_MAX << shift;
	return (int64_t)v;
}

/* ---- the line number program ---- */

struct program {
	struct reader r;
	uint8_t step, base_op, range; /* of instructions; the first special opcode; of lines */
	int8_t base;
	const uint8_t *lengths; /* of standard opcodes, from 1 */
	uint64_t at, line;
	bool ended;
	struct ht_line_at *out;
	size_t n, cap;
	struct ht_arena *arena;
};

static void row(struct program *p, uint64_t line)
{
	struct ht_line_at *more;

	if (p->n && p->out[p->n - 1].at == p->at) {
		p->out[p->n - 1].line = (uint32_t)line;
		return;
	}
	if (p->n && p->out[p->n - 1].line == line)
		return;
	if (p->n == p->cap) {
		p->cap = 2 * p->cap + 64;
		more = HT_NEW_ARRAY(p->arena, struct ht_line_at, p->cap);
		if (p->n)
			memcpy(more, p->out, p->n * sizeof *more);
		p->out = more;
	}
	p->out[p->n++] = (struct ht_line_at){ (uint32_t)p->at, (uint32_t)line };
}

static void extended(struct program *p)
{
	uint64_t n = uleb(&p->r);
	const uint8_t *after = p->r.p + n;

	if (!n || n > (uint64_t)(p->r.end - p->r.p)) {
		p->r.bad = true;
		return;
	}
	if (number(&p->r, 1) == 1) { /* DW_LNE_end_sequence */
		row(p, 0);
		p->ended = true;
	}
	p->r.p = after; /* addresses count from 0 before relocation */
}

static void standard(struct program *p, uint8_t op)
{
	switch (op) {
	case 1: /* DW_LNS_copy */
		row(p, p->line);
		break;
	case 2: /* DW_LNS_advance_pc */
		p->at += uleb(&p->r) * p->step;
		break;
	case 3: /* DW_LNS_advance_line */
		p->line += (uint64_t)sleb(&p->r);
		break;
	case 8: /* DW_LNS_const_add_pc */
		p->at += (uint64_t)((255 - p->base_op) / p->range) * p->step;
		break;
	case 9: /* DW_LNS_fixed_advance_pc */
		p->at += number(&p->r, 2);
		break;
	default:
		for (int i = 0; i < p->lengths[op - 1]; i++)
			uleb(&p->r);
	}
}

static void run(struct program *p)
{
	p->line = 1;
	while (p->r.p < p->r.end && !p->r.bad && !p->ended) {
		uint8_t op = (uint8_t)number(&p->r, 1);

		if (op >= p->base_op) {
			op = (uint8_t)(op - p->base_op);
			p->at += (uint64_t)(op / p->range) * p->step;
			p->line += (uint64_t)(p->base + op % p->range);
			row(p, p->line);
		} else if (op) {
			standard(p, op);
		} else {
			extended(p);
		}
	}
}

static const char *read_program(struct program *p, const uint8_t *section, size_t n)
{
	struct reader *r = &p->r;
	uint64_t length, header;
	unsigned version;

	*r = (struct reader){ section, section + n, false };
	length = number(r, 4);
	if (length > (uint64_t)(r->end - r->p))
		return "a table of lines that is cut off";
	r->end = r->p + length;
	version = (unsigned)number(r, 2);
	if (version < 2 || version > 5)
		return "a table of lines of an unknown version";
	if (version == 5)
		number(r, 2); /* sizes of addresses and segments */
	header = number(r, 4);
	if (header > (uint64_t)(r->end - r->p))
		return "a table of lines without a program";
	section = r->p + header;
	p->step = (uint8_t)number(r, 1);
	number(r,
		version >= 4 ? 2 : 1); /* operations per instruction; whether rows are statements */
	p->base = (int8_t)number(r, 1);
	p->range = (uint8_t)number(r, 1);
	p->base_op = (uint8_t)number(r, 1);
	p->lengths = r->p;
	if (!p->range || !p->base_op || r->p + p->base_op > section || r->bad)
		return "a table of lines that makes no sense";
	r->p = section;
	run(p);
	return r->bad || !p->ended ? "a table of lines without an end" : NULL;
}

/* ---- the file, whose tables ht_object_link() has checked ---- */

static const Elf64_Shdr *section_named(struct ht_object o, const char *name)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(const void *)o.p;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(const void *)(o.p + eh->e_shoff);

	if (eh->e_shstrndx >= eh->e_shnum)
		return NULL;
	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Shdr *names = &sh[eh->e_shstrndx];

		if (sh[i].sh_name < names->sh_size &&
			!strcmp((const char *)o.p + names->sh_offset + sh[i].sh_name, name))
			return &sh[i];
	}
	return NULL;
}

const char *ht_object_lines(
	struct ht_object o, size_t entry, struct ht_arena *a, struct ht_code_lines *out)
{
	const Elf64_Shdr *lines = section_named(o, ".debug_line"),
			 *frame = section_named(o, ".debug_frame");
	struct program p = { .arena = a };
	const char *wrong;

	*out = (struct ht_code_lines){ 0 };
	if (!lines)
		return "no table of lines";
	wrong = read_program(&p, o.p + lines->sh_offset, lines->sh_size);
	if (wrong)
		return wrong;
	for (size_t i = 0; i < p.n; i++)
		p.out[i].at += (uint32_t)entry;
	out->line = p.out;
	out->lines = p.n;
	if (frame)
		out->frame = ht_str_copy(
			a, (struct ht_str){ (const char *)o.p + frame->sh_offset, frame->sh_size });
	return NULL;
}
