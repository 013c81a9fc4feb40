/* An ELF file that describes code in memory: symbols, and DWARF 4 for lines and frames, with
 * absolute addresses. */
#include "debug/debug.h"

#include <elf.h>
#include <string.h>

enum { TEXT = 1, INFO, ABBREV, LINE, FRAME, SYMTAB, STRTAB, SHSTRTAB, SECTIONS };

static const char *const section_name[SECTIONS] = { "", ".text", ".debug_info", ".debug_abbrev",
	".debug_line", ".debug_frame", ".symtab", ".strtab", ".shstrtab" };

struct file {
	const struct ht_debug_code *c;
	struct ht_arena *arena;
	struct ht_buf section[SECTIONS];
	uint64_t begin, end; /* of all code */
};

/* Constants of DWARF. */
enum {
	TAG_COMPILE_UNIT = 0x11,
	TAG_SUBPROGRAM = 0x2e,
	AT_NAME = 0x03,
	AT_STMT_LIST = 0x10,
	AT_LOW_PC = 0x11,
	AT_HIGH_PC = 0x12,
	AT_LANGUAGE = 0x13,
	AT_PRODUCER = 0x25,
	AT_DECL_FILE = 0x3a,
	AT_DECL_LINE = 0x3b,
	FORM_ADDR = 0x01,
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07,
	FORM_STRING = 0x08,
	FORM_DATA1 = 0x0b,
	FORM_SEC_OFFSET = 0x17,
	LANGUAGE_C99 = 0x0c,
	LNS_COPY = 1,
	LNS_ADVANCE_PC = 2,
	LNS_ADVANCE_LINE = 3,
	LNE_END_SEQUENCE = 1,
	LNE_SET_ADDRESS = 2,
	SPECIAL = 13, /* the first special opcode: there are 12 standard ones */
};

static void put8(struct ht_buf *b, uint8_t v)
{
	ht_put(b, &v, 1);
}

static void put16(struct ht_buf *b, uint16_t v)
{
	ht_put(b, &v, 2);
}

static void put32(struct ht_buf *b, uint32_t v)
{
	ht_put(b, &v, 4);
}

static void put64(struct ht_buf *b, uint64_t v)
{
	ht_put(b, &v, 8);
}

static void put_uleb(struct ht_buf *b, uint64_t v)
{
	do {
		put8(b, (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
		v >>= 7;
	} while (v);
}

static void put_sleb(struct ht_buf *b, int64_t v)
{
	bool more = true;

	while (more) {
		const uint8_t low = (uint8_t)(v & 0x7f);

		v = v >= 0 ? v / 128 : -((127 - v) / 128);
		more = !((v == 0 && !(low & 0x40)) || (v == -1 && (low & 0x40)));
		put8(b, (uint8_t)(low | (more ? 0x80 : 0)));
	}
}

static void put_text(struct ht_buf *b, const char *s)
{
	ht_put(b, s, strlen(s) + 1);
}

/* Reserves a length, which patch_length() fills in with the bytes that follow it. */
static size_t put_length(struct ht_buf *b)
{
	put32(b, 0);
	return b->n;
}

static void patch_length(struct ht_buf *b, size_t from)
{
	const uint32_t n = (uint32_t)(b->n - from);

	memcpy(b->p + from - sizeof n, &n, sizeof n);
}

/* ---- symbols ---- */

static void put_symbols(struct file *f)
{
	struct ht_buf *b = &f->section[SYMTAB], *names = &f->section[STRTAB];
	Elf64_Sym s = { 0 };

	put8(names, 0);
	ht_put(b, &s, sizeof s);
	for (size_t i = 0; i < f->c->n; i++) {
		const struct ht_debug_function *one = &f->c->function[i];

		s = (Elf64_Sym){ .st_name = (Elf64_Word)names->n,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = TEXT,
			.st_value = (uintptr_t)one->code.p,
			.st_size = one->code.n };
		put_text(names, one->name);
		ht_put(b, &s, sizeof s);
	}
}

/* ---- DWARF ---- */

static void put_abbreviations(struct ht_buf *b)
{
	static const uint8_t bytes[] = { 1, TAG_COMPILE_UNIT, 1, AT_PRODUCER, FORM_STRING,
		AT_LANGUAGE, FORM_DATA2, AT_NAME, FORM_STRING, AT_STMT_LIST, FORM_SEC_OFFSET,
		AT_LOW_PC, FORM_ADDR, AT_HIGH_PC, FORM_DATA8, 0, 0, 2, TAG_SUBPROGRAM, 0, AT_NAME,
		FORM_STRING, AT_DECL_FILE, FORM_DATA1, AT_DECL_LINE, FORM_DATA4, AT_LOW_PC,
		FORM_ADDR, AT_HIGH_PC, FORM_DATA8, 0, 0, 0 };

	ht_put(b, bytes, sizeof bytes);
}

static void put_info(struct file *f)
{
	struct ht_buf *b = &f->section[INFO];
	const size_t from = put_length(b);

	put16(b, 4);
	put32(b, 0); /* abbreviations */
	put8(b, 8);  /* bytes of an address */
	put8(b, 1);
	put_text(b, "halftone");
	put16(b, LANGUAGE_C99);
	put_text(b, f->c->source);
	put32(b, 0); /* lines */
	put64(b, f->begin);
	put64(b, f->end - f->begin);
	for (size_t i = 0; i < f->c->n; i++) {
		const struct ht_debug_function *one = &f->c->function[i];

		if (!one->lines.lines)
			continue;
		put8(b, 2);
		put_text(b, one->name);
		put8(b, 1);
		put32(b, one->first_line);
		put64(b, (uintptr_t)one->code.p);
		put64(b, one->code.n);
	}
	put8(b, 0);
	patch_length(b, from);
}

static void put_function_lines(struct ht_buf *b, const struct ht_debug_function *f)
{
	uint64_t at = 0;
	int64_t line = 1;

	put8(b, 0);
	put_uleb(b, 9);
	put8(b, LNE_SET_ADDRESS);
	put64(b, (uintptr_t)f->code.p);
	for (size_t i = 0; i < f->lines.lines; i++) {
		const struct ht_line_at *l = &f->lines.line[i];
		/* Code without a line gets the kernel's first line: gdb takes line 0 for the
		 * end. */
		const int64_t now = (int64_t)f->first_line + (l->line ? l->line - 1 : 0);

		if (i + 1 == f->lines.lines && !l->line)
			break;
		put8(b, LNS_ADVANCE_PC);
		put_uleb(b, l->at - at);
		put8(b, LNS_ADVANCE_LINE);
		put_sleb(b, now - line);
		put8(b, LNS_COPY);
		at = l->at;
		line = now;
	}
	put8(b, LNS_ADVANCE_PC);
	put_uleb(b, f->code.n - at);
	put8(b, 0);
	put_uleb(b, 1);
	put8(b, LNE_END_SEQUENCE);
}

static void put_lines(struct file *f)
{
	/* One byte per instruction and operation; rows are statements; special opcodes, which
	 * are not used. */
	static const uint8_t sizes[] = { 1, 1, 1, (uint8_t)-5, 14, SPECIAL },
			     operands[SPECIAL - 1] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	struct ht_buf *b = &f->section[LINE];
	const size_t from = put_length(b);
	size_t header;

	put16(b, 4);
	header = put_length(b);
	ht_put(b, sizes, sizeof sizes);
	ht_put(b, operands, sizeof operands);
	put8(b, 0); /* there are no folders */
	put_text(b, f->c->source);
	put8(b, 0); /* its folder, */
	put8(b, 0); /* time */
	put8(b, 0); /* and length */
	put8(b, 0); /* there is no other file */
	patch_length(b, header);
	for (size_t i = 0; i < f->c->n; i++)
		if (f->c->function[i].lines.lines)
			put_function_lines(b, &f->c->function[i]);
	patch_length(b, from);
}

/* Writes both entries of a function, with the values that relocations would fill in: the offset
 * of the first entry, to which the second refers, and the function's address. */
static void put_frame(struct ht_buf *b, const struct ht_debug_function *f)
{
	const uint32_t cie = (uint32_t)b->n;
	const uint64_t address = (uintptr_t)f->code.p;
	uint32_t first, id;

	if (f->lines.frame.n < sizeof first)
		return;
	memcpy(&first, f->lines.frame.p, sizeof first);
	first += (uint32_t)sizeof first; /* bytes of the first entry, including its length */
	if (first > f->lines.frame.n || f->lines.frame.n - first < 2 * sizeof id + sizeof address)
		return;
	memcpy(&id, f->lines.frame.p + sizeof first, sizeof id);
	if (id != UINT32_MAX)
		return;
	ht_put_str(b, f->lines.frame);
	memcpy(b->p + cie + first + 4, &cie, sizeof cie);
	memcpy(b->p + cie + first + 8, &address, sizeof address);
}

static void put_dwarf(struct file *f)
{
	put_abbreviations(&f->section[ABBREV]);
	put_info(f);
	put_lines(f);
	for (size_t i = 0; i < f->c->n; i++)
		put_frame(&f->section[FRAME], &f->c->function[i]);
}

/* ---- the file ---- */

static Elf64_Shdr header_of(struct file *f, int i, uint64_t at)
{
	Elf64_Shdr h = { .sh_name = (Elf64_Word)f->section[SHSTRTAB].n,
		.sh_type = i >= SYMTAB ? SHT_STRTAB : SHT_PROGBITS,
		.sh_offset = at,
		.sh_size = f->section[i].n,
		.sh_addralign = 1 };

	put_text(&f->section[SHSTRTAB], section_name[i]);
	if (!i) {
		h = (Elf64_Shdr){ 0 };
	} else if (i == TEXT) {
		h.sh_type = SHT_NOBITS;
		h.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
		h.sh_addr = f->begin;
		h.sh_size = f->end - f->begin;
		h.sh_addralign = 64;
	} else if (i == SYMTAB) {
		h.sh_type = SHT_SYMTAB;
		h.sh_link = STRTAB;
		h.sh_info = 1;
		h.sh_entsize = sizeof(Elf64_Sym);
		h.sh_addralign = 8;
	}
	return h;
}

static struct ht_str put_file(struct file *f)
{
	Elf64_Ehdr eh = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				  EV_CURRENT, ELFOSABI_SYSV },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof eh,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SHSTRTAB };
	Elf64_Shdr sh[SECTIONS];
	struct ht_buf b;

	ht_buf_init(&b, f->arena);
	ht_put(&b, &eh, sizeof eh);
	for (int i = 0; i < SECTIONS; i++) {
		while (b.n % 8)
			put8(&b, 0);
		sh[i] = header_of(f, i, b.n);
		if (i == SHSTRTAB)
			sh[i].sh_size = f->section[i].n;
		ht_put(&b, f->section[i].p, f->section[i].n);
	}
	while (b.n % 8)
		put8(&b, 0);
	eh.e_shoff = b.n;
	ht_put(&b, sh, sizeof sh);
	memcpy(b.p, &eh, sizeof eh);
	return ht_buf_str(&b);
}

struct ht_str ht_debug_elf(const struct ht_debug_code *c, struct ht_arena *a)
{
	struct file f = { .c = c, .arena = a, .begin = UINT64_MAX };

	for (int i = 0; i < SECTIONS; i++)
		ht_buf_init(&f.section[i], a);
	for (size_t i = 0; i < c->n; i++) {
		const uint64_t at = (uintptr_t)c->function[i].code.p;

		f.begin = at < f.begin ? at : f.begin;
		f.end = at + c->function[i].code.n > f.end ? at + c->function[i].code.n : f.end;
	}
	put_symbols(&f);
	if (c->source)
		put_dwarf(&f);
	return put_file(&f);
}
