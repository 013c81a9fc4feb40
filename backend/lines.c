/* Debug information of instructions: the line of the kernel's text to which each belongs. */
#include "backend/emit.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

static void flag(struct ht_e *e, const char *name, unsigned value)
{
	LLVMAddModuleFlag(e->mod, LLVMModuleFlagBehaviorWarning, name, strlen(name),
		LLVMValueAsMetadata(LLVMConstInt(e->i32, value, false)));
}

static LLVMMetadataRef file_of(LLVMDIBuilderRef d, const char *source)
{
	const char *slash = strrchr(source, '/'), *name = slash ? slash + 1 : source;

	return LLVMDIBuilderCreateFile(
		d, name, strlen(name), source, (size_t)(slash ? slash - source : 0));
}

void ht_e_lines_begin(struct ht_e *e, const char *source)
{
	LLVMDIBuilderRef d = LLVMCreateDIBuilder(e->mod);
	LLVMMetadataRef file = file_of(d, source), type;
	size_t n;
	const char *name = LLVMGetValueName2(e->fn, &n);

	flag(e, "Debug Info Version", LLVMDebugMetadataVersion());
	flag(e, "Dwarf Version", 4);
	LLVMDIBuilderCreateCompileUnit(d, LLVMDWARFSourceLanguageC99, file, "halftone", 8, true, "",
		0, 0, "", 0, LLVMDWARFEmissionLineTablesOnly, 0, false, false, "", 0, "", 0);
	type = LLVMDIBuilderCreateSubroutineType(d, file, NULL, 0, LLVMDIFlagZero);
	e->scope = LLVMDIBuilderCreateFunction(
		d, file, name, n, "", 0, file, 1, type, false, true, 1, LLVMDIFlagZero, true);
	LLVMSetSubprogram(e->fn, e->scope);
	LLVMDIBuilderFinalize(d);
	LLVMDisposeDIBuilder(d);
	ht_e_line(e, 1);
}

void ht_e_line(struct ht_e *e, int32_t line)
{
	e->line = line;
	if (e->scope)
		LLVMSetCurrentDebugLocation2(e->b,
			LLVMDIBuilderCreateDebugLocation(e->c, (unsigned)line, 0, e->scope, NULL));
}

int32_t ht_e_part(struct ht_e *e, enum ht_stage_part part, int32_t i)
{
	int32_t before = e->line;

	if (e->scope)
		ht_e_line(e, ht_kernel_line(e->k, e->stage, part, i));
	return before;
}
