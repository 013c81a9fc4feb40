/* Writes the object file, and the archive around it. */
#include "aot/object.h"

#include <elf.h>
#include <string.h>

/* Weights of this size and above go to sections for large data, which a linker places behind all
 * other data. */
#define LARGE ((uint64_t)512 << 20)
#ifndef SHF_X86_64_LARGE
#define SHF_X86_64_LARGE 0x10000000
#endif

/* ---- pieces ---- */

void ht_obj_bytes_init(struct ht_obj_bytes *p, struct ht_arena *a)
{
	*p = (struct ht_obj_bytes){ .arena = a };
}

void ht_obj_bytes_add(struct ht_obj_bytes *p, const void *bytes, size_t n)
{
	p->piece = ht_grow(p->arena, p->piece, p->n, &p->cap, sizeof *p->piece);
	p->piece[p->n++] = (struct ht_str){ bytes, n };
	p->bytes += n;
}

void ht_obj_bytes_pad(struct ht_obj_bytes *p, uint64_t align)
{
	static const char zeros[4096];

	ht_obj_bytes_add(p, zeros, (size_t)((align - p->bytes % align) % align));
}

enum ht_status ht_obj_bytes_write(
	const struct ht_obj_bytes *p, const char *path, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

	HT_TRY(ht_output_open(path, d, &o));
	st = HT_OK;
	for (size_t i = 0; i < p->n && st == HT_OK; i++)
		st = ht_output_write(o, p->piece[i].p, p->piece[i].n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

static void add_pieces(struct ht_obj_bytes *p, const struct ht_obj_bytes *more)
{
	for (size_t i = 0; i < more->n; i++)
		ht_obj_bytes_add(p, more->piece[i].p, more->piece[i].n);
}

/* ---- contents of a net ---- */

void ht_obj_init(struct ht_obj *o, struct ht_arena *a)
{
	*o = (struct ht_obj){ 0 };
	ht_buf_init(&o->text, a);
	ht_buf_init(&o->plan, a);
	ht_obj_bytes_init(&o->weights, a);
}

void ht_obj_symbol(struct ht_obj *o, struct ht_obj_symbol s)
{
	o->symbol =
		ht_grow(o->text.arena, o->symbol, o->symbols, &o->symbol_cap, sizeof *o->symbol);
	o->symbol[o->symbols++] = s;
}

void ht_obj_refer(struct ht_obj *o, struct ht_obj_reference r)
{
	o->reference = ht_grow(o->text.arena, o->reference, o->references, &o->reference_cap,
		sizeof *o->reference);
	o->reference[o->references++] = r;
}

/* ---- the object file ---- */

/* The first four are in the order of enum ht_obj_place, from 1 on. */
enum {
	TEXT = 1,
	PLAN,
	WEIGHTS,
	STATE,
	RELA_TEXT,
	RELA_PLAN,
	STACK,
	SYMTAB,
	STRTAB,
	NAMES,
	SECTIONS
};

struct writer {
	const struct ht_obj *o;
	struct ht_buf relocation[2], symbols, strings, names;
	Elf64_Shdr header[SECTIONS];
	size_t locals;
	struct ht_obj_bytes file;
};

uint32_t ht_obj_name(struct ht_buf *b, const char *name)
{
	uint32_t at = (uint32_t)b->n;

	ht_put(b, name, strlen(name) + 1);
	return at;
}

static void put_symbols(struct writer *w, bool global)
{
	for (size_t i = 0; i < w->o->symbols; i++) {
		const struct ht_obj_symbol *s = &w->o->symbol[i];
		Elf64_Sym e = { .st_name = 0 };

		if (s->global != global)
			continue;
		e.st_name = ht_obj_name(&w->strings, s->name);
		e.st_info = ELF64_ST_INFO(
			global ? STB_GLOBAL : STB_LOCAL, s->function ? STT_FUNC : STT_OBJECT);
		e.st_shndx = (Elf64_Half)(s->place + TEXT);
		e.st_value = s->offset;
		e.st_size = s->bytes;
		ht_put(&w->symbols, &e, sizeof e);
	}
}

static void make_symbols(struct writer *w)
{
	Elf64_Sym e = { .st_name = 0 };

	ht_putc(&w->strings, 0);
	ht_put(&w->symbols, &e, sizeof e);
	e.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
	for (int i = 0; i < HT_OBJ_PLACES; i++) {
		e.st_shndx = (Elf64_Half)(i + TEXT);
		ht_put(&w->symbols, &e, sizeof e);
	}
	put_symbols(w, false);
	w->locals = w->symbols.n / sizeof e;
	put_symbols(w, true);
}

static void make_relocations(struct writer *w)
{
	for (size_t i = 0; i < w->o->references; i++) {
		const struct ht_obj_reference *r = &w->o->reference[i];
		Elf64_Rela e = { .r_offset = r->offset,
			.r_info = ELF64_R_INFO(
				(uint64_t)r->to + 1, r->wide ? R_X86_64_PC64 : R_X86_64_PC32),
			.r_addend = r->addend };

		HT_CHECK(r->in == HT_OBJ_TEXT || r->in == HT_OBJ_PLAN);
		ht_put(&w->relocation[r->in], &e, sizeof e);
	}
}

/* Places a section at the end of the file so far. */
static void section(struct writer *w, int number, Elf64_Shdr h, struct ht_str bytes)
{
	ht_obj_bytes_pad(&w->file, h.sh_addralign);
	h.sh_offset = w->file.bytes;
	if (h.sh_type != SHT_NOBITS) {
		h.sh_size = bytes.n;
		ht_obj_bytes_add(&w->file, bytes.p, bytes.n);
	}
	w->header[number] = h;
}

static void put_places(struct writer *w)
{
	const struct ht_obj *o = w->o;
	bool large = o->weights.bytes >= LARGE;

	section(w, TEXT,
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			.sh_addralign = HT_OBJ_ALIGN },
		(struct ht_str){ o->text.p, o->text.n });
	section(w, PLAN,
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC,
			.sh_addralign = HT_OBJ_ALIGN },
		(struct ht_str){ o->plan.p, o->plan.n });
	section(w, WEIGHTS,
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC | (large ? SHF_X86_64_LARGE : 0),
			.sh_addralign = HT_OBJ_ALIGN },
		HT_STR(""));
	w->header[WEIGHTS].sh_size = o->weights.bytes;
	add_pieces(&w->file, &o->weights);
	section(w, STATE,
		(Elf64_Shdr){ .sh_type = SHT_NOBITS,
			.sh_flags = SHF_ALLOC | SHF_WRITE,
			.sh_size = o->state_bytes,
			.sh_addralign = HT_OBJ_ALIGN },
		HT_STR(""));
}

static void put_tables(struct writer *w)
{
	for (int i = 0; i < 2; i++)
		section(w, RELA_TEXT + i,
			(Elf64_Shdr){ .sh_type = SHT_RELA,
				.sh_flags = SHF_INFO_LINK,
				.sh_addralign = 8,
				.sh_entsize = sizeof(Elf64_Rela),
				.sh_link = SYMTAB,
				.sh_info = (uint32_t)(TEXT + i) },
			ht_buf_str(&w->relocation[i]));
	/* States that nothing needs an executable stack. */
	section(w, STACK, (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_addralign = 1 }, HT_STR(""));
	section(w, SYMTAB,
		(Elf64_Shdr){ .sh_type = SHT_SYMTAB,
			.sh_addralign = 8,
			.sh_entsize = sizeof(Elf64_Sym),
			.sh_link = STRTAB,
			.sh_info = (uint32_t)w->locals },
		ht_buf_str(&w->symbols));
	section(w, STRTAB, (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 },
		ht_buf_str(&w->strings));
}

static void name_sections(struct writer *w)
{
	static const char *const names[SECTIONS] = { "", ".text", ".rodata", ".rodata.weights",
		".bss", ".rela.text", ".rela.rodata", ".note.GNU-stack", ".symtab", ".strtab",
		".shstrtab" };
	uint32_t at[SECTIONS];

	for (int i = 0; i < SECTIONS; i++)
		at[i] = ht_obj_name(&w->names,
			i == WEIGHTS && w->o->weights.bytes >= LARGE ? ".lrodata" : names[i]);
	section(w, NAMES, (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 },
		ht_buf_str(&w->names));
	for (int i = 0; i < SECTIONS; i++)
		w->header[i].sh_name = at[i];
}

struct ht_obj_bytes ht_obj_file(const struct ht_obj *o, struct ht_arena *a)
{
	struct writer *w = HT_NEW(a, struct writer);
	Elf64_Ehdr *h = HT_NEW(a, Elf64_Ehdr);

	w->o = o;
	ht_buf_init(&w->relocation[0], a);
	ht_buf_init(&w->relocation[1], a);
	ht_buf_init(&w->symbols, a);
	ht_buf_init(&w->strings, a);
	ht_buf_init(&w->names, a);
	ht_obj_bytes_init(&w->file, a);
	make_symbols(w);
	make_relocations(w);
	ht_obj_bytes_add(&w->file, h, sizeof *h);
	put_places(w);
	put_tables(w);
	name_sections(w);
	ht_obj_bytes_pad(&w->file, 8);
	*h = (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				   EV_CURRENT },
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = w->file.bytes,
		.e_ehsize = sizeof *h,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = NAMES };
	ht_obj_bytes_add(&w->file, w->header, sizeof w->header);
	return w->file;
}

/* ---- the archive ---- */

static void put_big(struct ht_buf *b, uint32_t v)
{
	for (int i = 24; i >= 0; i -= 8)
		ht_putc(b, (char)(v >> i));
}

static void put_member(struct ht_buf *b, const char *name, uint64_t bytes)
{
	ht_printf(b, "%-16s%-12d%-6d%-6d%-8s%-10llu`\n", name, 0, 0, 0, "100644",
		(unsigned long long)bytes);
}

struct ht_obj_bytes ht_obj_archive(const struct ht_obj *o, struct ht_arena *a)
{
	struct ht_obj_bytes object = ht_obj_file(o, a), file;
	struct ht_buf names, head;
	uint32_t globals = 0;

	ht_buf_init(&names, a);
	ht_buf_init(&head, a);
	for (size_t i = 0; i < o->symbols; i++)
		if (o->symbol[i].global) {
			ht_obj_name(&names, o->symbol[i].name);
			globals++;
		}
	if (names.n % 2)
		ht_putc(&names, 0);
	ht_puts(&head, "!<arch>\n");
	put_member(&head, "/", 4 + 4 * (uint64_t)globals + names.n);
	put_big(&head, globals);
	for (uint32_t i = 0; i < globals; i++)
		put_big(&head, (uint32_t)(8 + 60 + 4 + 4 * globals + names.n));
	ht_put_str(&head, ht_buf_str(&names));
	put_member(&head, "net.o/", object.bytes);
	ht_obj_bytes_init(&file, a);
	ht_obj_bytes_add(&file, head.p, head.n);
	add_pieces(&file, &object);
	return file;
}
