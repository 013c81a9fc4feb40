/* backend, inside: LLVM's side of compiling one kernel.  One machine per thread. */
#ifndef HT_BACKEND_MACHINE_H
#define HT_BACKEND_MACHINE_H

#include "backend/backend.h"

#include <llvm-c/TargetMachine.h>

struct ht_machine {
	const struct ht_target *target;
	struct ht_code_how how;
	LLVMTargetMachineRef tm;
	struct ht_str wrong; /* what LLVM said last; valid until the next call */
	char text[256];
};

/* False with m->wrong set. */
bool ht_machine_init(struct ht_machine *m, const struct ht_target *t, struct ht_code_how how);
void ht_machine_release(struct ht_machine *m);
/* What a kernel is called: its function, and for m->how.lines the file that has its text. */
struct ht_machine_names {
	const char *symbol, *source;
};
/* Compiles kernel `k`: appends LLVM IR or assembly to `out`, or the object
 * file.  `scratch` is for emission.  False with m->wrong set. */
bool ht_machine_compile(struct ht_machine *m, const struct ht_kernel *k,
	struct ht_machine_names names, enum ht_emit form, struct ht_arena *scratch,
	struct ht_buf *out);

#endif
