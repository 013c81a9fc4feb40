/* debug: tells profilers and debuggers which machine code belongs to which kernel, in three
 * forms: jitdump and map files of perf, and gdb's JIT interface.  It knows addresses, names and
 * lines, but no programs. */
#ifndef HT_DEBUG_H
#define HT_DEBUG_H

#include "base/base.h"
#include "kernel/lines.h"

/* A function of machine code in memory. */
struct ht_debug_function {
	const char *name;
	struct ht_str code;
	struct ht_code_lines lines; /* of the kernel's text; may be empty */
	uint32_t first_line;        /* of the kernel's text in the source file, from 1 */
};

/* Adjacent functions, in the order of their addresses. */
struct ht_debug_code {
	const struct ht_debug_function *function;
	size_t n;
	const char *source; /* the path of the file with the kernels' texts; NULL: there is none, so
			 * functions have no lines */
};

/* jitdump.c: appends the functions to the file jit-PID.dump in the folder `dir`, in the format
 * of perf's jitdump-specification.txt.  `perf record -k 1` records the file's name, and `perf
 * inject --jit` reads the file.  The file stays open until the process ends.  HT_E_ENVIRONMENT:
 * it cannot be written; it then ends with the last complete function. */
enum ht_status ht_jitdump_add(const struct ht_debug_code *c, const char *dir, struct ht_diags *d);

/* perf_map.c: appends the functions to /tmp/perf-PID.map, where perf looks up names of code that
 * is in no file. */
enum ht_status ht_perf_map_add(const struct ht_debug_code *c, struct ht_diags *d);

/* elf.c: an ELF file with their symbols, lines (DWARF 4) and frames, at their addresses. */
struct ht_str ht_debug_elf(const struct ht_debug_code *c, struct ht_arena *a);

/* gdb.c: registers that file with gdb.  `owner` is for ht_gdb_remove(), which unregisters all
 * files of an owner; the code must exist until then.  Any thread may call these. */
enum ht_status ht_gdb_add(const struct ht_debug_code *c, const void *owner, struct ht_diags *d);
void ht_gdb_remove(const void *owner);

#endif
