/* Internal: LLVM's part of compiling one kernel.  Each thread has its own machine. */
#ifndef HT_BACKEND_MACHINE_H
#define HT_BACKEND_MACHINE_H

#include "backend/backend.h"

#include <llvm-c/TargetMachine.h>

struct ht_machine {
	const struct ht_target *target;
	struct ht_code_how how;
	LLVMTargetMachineRef tm;
	struct ht_str wrong; /* LLVM's last error; valid until the next call */
	char text[256];
};

/* False with m->wrong set. */
bool ht_machine_init(struct ht_machine *m, const struct ht_target *t, struct ht_code_how how);
void ht_machine_release(struct ht_machine *m);
/* The names of a kernel: its function, and for m->how.lines the file with its text. */
struct ht_machine_names {
	const char *symbol, *source;
};
/* Compiles kernel `k`: appends LLVM IR or assembly to `out`, or the object
 * file.  `scratch` is for emission.  False with m->wrong set. */
bool ht_machine_compile(struct ht_machine *m, const struct ht_kernel *k,
	struct ht_machine_names names, enum ht_emit form, struct ht_arena *scratch,
	struct ht_buf *out);

#endif
