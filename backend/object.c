/* From an object file to self-contained code: sections of code and constants next to each other,
 * with the relocations between them resolved.  Anything that would need a loader is refused. */
#include "backend/emit.h"

#include <elf.h>
#include <string.h>

struct linker {
	struct ht_object o;
	const Elf64_Ehdr *eh;
	const Elf64_Shdr *sh;
	const Elf64_Sym *sym;
	size_t syms;
	const char *names; /* of symbols */
	size_t *at;        /* offset of each section in the image, or SIZE_MAX */
	struct ht_buf *image;
};

static bool inside(const struct linker *l, uint64_t offset, uint64_t size)
{
	return offset <= l->o.n && size <= l->o.n - offset;
}

static const char *open_object(struct linker *l)
{
	l->eh = (const Elf64_Ehdr *)(const void *)l->o.p;
	if (!inside(l, 0, sizeof *l->eh) || memcmp(l->eh->e_ident, ELFMAG, SELFMAG) != 0 ||
		l->eh->e_ident[EI_CLASS] != ELFCLASS64 || l->eh->e_machine != EM_X86_64 ||
		l->eh->e_type != ET_REL)
		return "not an x86-64 object file";
	if (l->eh->e_shentsize != sizeof *l->sh ||
		!inside(l, l->eh->e_shoff, (uint64_t)l->eh->e_shnum * sizeof *l->sh))
		return "section headers outside of the file";
	l->sh = (const Elf64_Shdr *)(const void *)(l->o.p + l->eh->e_shoff);
	for (int i = 0; i < l->eh->e_shnum; i++) {
		const Elf64_Shdr *s = &l->sh[i];

		if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size))
			return "section outside of the file";
		if (s->sh_type != SHT_SYMTAB)
			continue;
		if (s->sh_link >= l->eh->e_shnum)
			return "symbol table without names";
		l->sym = (const Elf64_Sym *)(const void *)(l->o.p + s->sh_offset);
		l->syms = s->sh_size / sizeof *l->sym;
		l->names = (const char *)l->o.p + l->sh[s->sh_link].sh_offset;
	}
	return l->sym ? NULL : "no symbols";
}

static const char *place_sections(struct linker *l)
{
	static const uint8_t zero[64];

	l->at = HT_NEW_ARRAY(l->image->arena, size_t, (size_t)l->eh->e_shnum + 1);
	for (int i = 0; i < l->eh->e_shnum; i++) {
		const Elf64_Shdr *s = &l->sh[i];

		l->at[i] = SIZE_MAX;
		if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0)
			continue;
		if ((s->sh_flags & (SHF_WRITE | SHF_TLS)) || s->sh_type != SHT_PROGBITS)
			return "the code has data of its own";
		if (s->sh_addralign > 64)
			return "a section wants more alignment than 64";
		ht_put(l->image, zero, (64 - l->image->n % 64) % 64);
		l->at[i] = l->image->n;
		ht_put(l->image, l->o.p + s->sh_offset, s->sh_size);
	}
	return NULL;
}

static const char *relocate_one(struct linker *l, int section, const Elf64_Rela *r)
{
	size_t number = ELF64_R_SYM(r->r_info), place;
	const Elf64_Sym *s;
	int64_t value;
	int32_t v;

	if (ELF64_R_TYPE(r->r_info) != R_X86_64_PC32 && ELF64_R_TYPE(r->r_info) != R_X86_64_PLT32)
		return "a relocation that is not relative to the program counter";
	if (number >= l->syms)
		return "a relocation without a symbol";
	s = &l->sym[number];
	if (s->st_shndx == SHN_UNDEF || s->st_shndx >= l->eh->e_shnum ||
		l->at[s->st_shndx] == SIZE_MAX)
		return ht_str_printf(
			l->image->arena, "undefined symbol '%s'", l->names + s->st_name)
			.p;
	place = l->at[section] + r->r_offset;
	if (r->r_offset + 4 > l->sh[section].sh_size)
		return "a relocation outside of its section";
	value = (int64_t)(l->at[s->st_shndx] + s->st_value) + r->r_addend - (int64_t)place;
	v = (int32_t)value;
	if (v != value)
		return "code and constants too far apart";
	memcpy(l->image->p + place, &v, sizeof v);
	return NULL;
}

static const char *relocate(struct linker *l)
{
	const char *wrong;

	for (int i = 0; i < l->eh->e_shnum; i++) {
		const Elf64_Shdr *s = &l->sh[i];
		const Elf64_Rela *r = (const Elf64_Rela *)(const void *)(l->o.p + s->sh_offset);

		if (s->sh_type == SHT_REL)
			return "relocations without addends";
		if (s->sh_type != SHT_RELA || s->sh_info >= l->eh->e_shnum ||
			l->at[s->sh_info] == SIZE_MAX)
			continue;
		for (size_t k = 0; k < s->sh_size / sizeof *r; k++) {
			wrong = relocate_one(l, (int)s->sh_info, &r[k]);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

/* Reads every symbol, used or not: self-contained code has no undefined ones. */
static const char *find_symbols(struct linker *l, const char *symbol, size_t *entry)
{
	bool found = false;

	for (size_t i = 1; i < l->syms; i++) {
		const Elf64_Sym *s = &l->sym[i];
		const char *name = l->names + s->st_name;

		if (s->st_shndx == SHN_UNDEF)
			return ht_str_printf(l->image->arena, "undefined symbol '%s'", name).p;
		if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || strcmp(name, symbol) != 0)
			continue;
		*entry = l->at[s->st_shndx] + s->st_value;
		found = true;
	}
	return found ? NULL : "the function is missing";
}

const char *ht_object_link(
	struct ht_object o, const char *symbol, struct ht_buf *image, size_t *entry)
{
	struct linker l = { .o = o, .image = image };
	const char *wrong = open_object(&l);

	if (!wrong)
		wrong = place_sections(&l);
	if (!wrong)
		wrong = find_symbols(&l, symbol, entry);
	return wrong ? wrong : relocate(&l);
}
