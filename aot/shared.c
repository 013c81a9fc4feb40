/* Writes the shared library.  It has nothing to relocate: references are distances, which are known
 * once each place has its address, which is also its offset in the file. */
#include "aot/object.h"

#include <elf.h>
#include <string.h>

enum { PAGE = 4096 };
/* The sections; the places of the net are between those of the dynamic linker. */
enum { HASH = 1, DYNSYM, DYNSTR, TEXT, PLAN, WEIGHTS, DYNAMIC, STATE, NAMES, SECTIONS };
enum { READ, EXECUTE, DATA, WRITE, TABLE, STACK, SEGMENTS };

struct shared {
	const struct ht_obj *o;
	struct ht_buf hash, symbols, strings, names;
	Elf64_Dyn dynamic[8];
	Elf64_Ehdr file_header;
	Elf64_Phdr segment[SEGMENTS];
	Elf64_Shdr header[SECTIONS];
	struct ht_obj_bytes file;
};

static const int section_of[HT_OBJ_PLACES] = { TEXT, PLAN, WEIGHTS, STATE };

/* The hash function of the System V ABI. */
static uint32_t hash_of(const char *name)
{
	uint32_t h = 0, g;

	for (; *name; name++) {
		h = (h << 4) + (uint8_t)*name;
		g = h & 0xf0000000;
		h ^= g >> 24;
		h &= ~g;
	}
	return h;
}

/* Makes a hash table with one bucket for each symbol. */
static void make_hash(struct shared *s, uint32_t *hash, uint32_t n)
{
	uint32_t *word = HT_NEW_ARRAY(s->hash.arena, uint32_t, 2 + n + n), *bucket = word + 2,
		 *chain = bucket + n;

	word[0] = word[1] = n;
	for (uint32_t i = 1; i < n; i++) {
		chain[i] = bucket[hash[i] % n];
		bucket[hash[i] % n] = i;
	}
	ht_put(&s->hash, word, (2 + n + n) * sizeof *word);
}

/* Makes the symbols without their addresses, which are added later. */
static void make_symbols(struct shared *s)
{
	uint32_t *hash = HT_NEW_ARRAY(s->hash.arena, uint32_t, s->o->symbols + 1), n = 1;
	Elf64_Sym e = { .st_name = 0 };

	ht_putc(&s->strings, 0);
	ht_put(&s->symbols, &e, sizeof e);
	for (size_t i = 0; i < s->o->symbols; i++) {
		const struct ht_obj_symbol *from = &s->o->symbol[i];

		if (!from->global)
			continue;
		e.st_name = ht_obj_name(&s->strings, from->name);
		e.st_info = ELF64_ST_INFO(STB_GLOBAL, from->function ? STT_FUNC : STT_OBJECT);
		e.st_shndx = (Elf64_Half)section_of[from->place];
		e.st_value = from->offset;
		e.st_size = from->bytes;
		ht_put(&s->symbols, &e, sizeof e);
		hash[n++] = hash_of(from->name);
	}
	make_hash(s, hash, n);
}

static void section(struct shared *s, int number, uint32_t type, uint64_t flags, uint64_t align,
	struct ht_str bytes)
{
	ht_obj_bytes_pad(&s->file, align);
	s->header[number] = (Elf64_Shdr){ .sh_type = type,
		.sh_flags = flags,
		.sh_addralign = align,
		.sh_offset = s->file.bytes,
		.sh_addr = flags & SHF_ALLOC ? s->file.bytes : 0,
		.sh_size = bytes.n };
	ht_obj_bytes_add(&s->file, bytes.p, bytes.n);
}

/* Makes a segment from section `first` to section `last`. */
static void segment(struct shared *s, int number, uint32_t flags, int first, int last)
{
	const Elf64_Shdr *a = &s->header[first], *b = &s->header[last];
	uint64_t begin = number == READ ? 0 : a->sh_offset, end = b->sh_offset + b->sh_size,
		 stored = b->sh_type == SHT_NOBITS ? b->sh_offset : end;

	s->segment[number] = (Elf64_Phdr){ .p_type = PT_LOAD,
		.p_flags = flags,
		.p_offset = begin,
		.p_vaddr = begin,
		.p_paddr = begin,
		.p_filesz = stored - begin,
		.p_memsz = end - begin,
		.p_align = PAGE };
}

static void put_places(struct shared *s, struct ht_str text, struct ht_str plan)
{
	section(s, HASH, SHT_HASH, SHF_ALLOC, 8, ht_buf_str(&s->hash));
	section(s, DYNSYM, SHT_DYNSYM, SHF_ALLOC, 8, ht_buf_str(&s->symbols));
	section(s, DYNSTR, SHT_STRTAB, SHF_ALLOC, 1, ht_buf_str(&s->strings));
	section(s, TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PAGE, text);
	section(s, PLAN, SHT_PROGBITS, SHF_ALLOC, PAGE, plan);
	section(s, WEIGHTS, SHT_PROGBITS, SHF_ALLOC, HT_OBJ_ALIGN, HT_STR(""));
	s->header[WEIGHTS].sh_size = s->o->weights.bytes;
	for (size_t i = 0; i < s->o->weights.n; i++)
		ht_obj_bytes_add(&s->file, s->o->weights.piece[i].p, s->o->weights.piece[i].n);
	section(s, DYNAMIC, SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, PAGE,
		(struct ht_str){ (const char *)s->dynamic, sizeof s->dynamic });
	section(s, STATE, SHT_NOBITS, SHF_ALLOC | SHF_WRITE, HT_OBJ_ALIGN, HT_STR(""));
	s->header[STATE].sh_size = s->o->state_bytes;
}

static void describe(struct shared *s, uint32_t soname)
{
	const Elf64_Shdr *h = s->header;
	const Elf64_Dyn dynamic[8] = { { DT_SONAME, { soname } }, { DT_HASH, { h[HASH].sh_addr } },
		{ DT_STRTAB, { h[DYNSTR].sh_addr } }, { DT_SYMTAB, { h[DYNSYM].sh_addr } },
		{ DT_STRSZ, { h[DYNSTR].sh_size } }, { DT_SYMENT, { sizeof(Elf64_Sym) } },
		{ DT_NULL, { 0 } } };

	memcpy(s->dynamic, dynamic, sizeof dynamic);
	s->header[HASH].sh_link = DYNSYM;
	s->header[HASH].sh_entsize = 4;
	s->header[DYNSYM].sh_link = DYNSTR;
	s->header[DYNSYM].sh_info = 1;
	s->header[DYNSYM].sh_entsize = sizeof(Elf64_Sym);
	s->header[DYNAMIC].sh_link = DYNSTR;
	s->header[DYNAMIC].sh_entsize = sizeof(Elf64_Dyn);
	segment(s, READ, PF_R, HASH, DYNSTR);
	segment(s, EXECUTE, PF_R | PF_X, TEXT, TEXT);
	segment(s, DATA, PF_R, PLAN, WEIGHTS);
	segment(s, WRITE, PF_R | PF_W, DYNAMIC, STATE);
	segment(s, TABLE, PF_R | PF_W, DYNAMIC, DYNAMIC);
	s->segment[TABLE].p_type = PT_DYNAMIC;
	s->segment[TABLE].p_align = 8;
	s->segment[STACK] =
		(Elf64_Phdr){ .p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16 };
}

/* Fills in references and symbols, now that places have addresses. */
static void place(struct shared *s, char *text, char *plan)
{
	Elf64_Sym *e = (Elf64_Sym *)(void *)s->symbols.p;

	for (size_t i = 0; i < s->o->references; i++) {
		const struct ht_obj_reference *r = &s->o->reference[i];
		char *to = (r->in == HT_OBJ_TEXT ? text : plan) + r->offset;
		int64_t v = (int64_t)s->header[section_of[r->to]].sh_addr + r->addend -
			    (int64_t)(s->header[section_of[r->in]].sh_addr + r->offset);
		int32_t low = (int32_t)v;

		HT_CHECK(r->wide || low == v);
		if (r->wide)
			memcpy(to, &v, sizeof v);
		else
			memcpy(to, &low, sizeof low);
	}
	for (size_t i = 1; i < s->symbols.n / sizeof *e; i++)
		e[i].st_value += s->header[e[i].st_shndx].sh_addr;
}

static void name_sections(struct shared *s)
{
	static const char *const names[SECTIONS] = { "", ".hash", ".dynsym", ".dynstr", ".text",
		".rodata", ".rodata.weights", ".dynamic", ".bss", ".shstrtab" };
	uint32_t at[SECTIONS];

	for (int i = 0; i < SECTIONS; i++)
		at[i] = ht_obj_name(&s->names, names[i]);
	section(s, NAMES, SHT_STRTAB, 0, 1, ht_buf_str(&s->names));
	for (int i = 0; i < SECTIONS; i++)
		s->header[i].sh_name = at[i];
}

static char *copy(struct ht_arena *a, const struct ht_buf *b)
{
	return memcpy(ht_alloc(a, b->n), b->p, b->n);
}

struct ht_obj_bytes ht_obj_shared(const struct ht_obj *o, const char *soname, struct ht_arena *a)
{
	struct shared *s = HT_NEW(a, struct shared);
	char *text = copy(a, &o->text), *plan = copy(a, &o->plan);
	uint32_t name;

	s->o = o;
	ht_buf_init(&s->hash, a);
	ht_buf_init(&s->symbols, a);
	ht_buf_init(&s->strings, a);
	ht_buf_init(&s->names, a);
	ht_obj_bytes_init(&s->file, a);
	make_symbols(s);
	name = ht_obj_name(&s->strings, soname);
	ht_obj_bytes_add(&s->file, &s->file_header, sizeof s->file_header);
	ht_obj_bytes_add(&s->file, s->segment, sizeof s->segment);
	put_places(s, (struct ht_str){ text, o->text.n }, (struct ht_str){ plan, o->plan.n });
	describe(s, name);
	place(s, text, plan);
	name_sections(s);
	ht_obj_bytes_pad(&s->file, 8);
	s->file_header = (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					       ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof s->file_header,
		.e_shoff = s->file.bytes,
		.e_ehsize = sizeof s->file_header,
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = SEGMENTS,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = NAMES };
	ht_obj_bytes_add(&s->file, s->header, sizeof s->header);
	return s->file;
}
