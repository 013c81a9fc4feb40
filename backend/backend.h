/* backend: tile programs → LLVM IR → position-independent machine code.  The only folder that
 * links LLVM; it is a module of its own, which api/ loads on demand. */
#ifndef HT_BACKEND_H
#define HT_BACKEND_H

#include "base/base.h"
#include "base/watch.h"
#include "kernel/kernel.h"

/* Machine code of several kernels, in read-execute memory.  Immutable; shared by threads. */
struct ht_code;

enum ht_emit { HT_EMIT_LLVM, HT_EMIT_ASM, HT_EMIT_OBJ };

/* Options for generating code.  All false: optimised, without line information. */
struct ht_code_how {
	bool lines; /* adds struct ht_code_lines; the code stays the same */
	bool plain; /* without LLVM's optimisations */
};

/* The module's one exported symbol, `ht_backend`. */
struct ht_backend {
	int abi; /* HT_BACKEND_ABI */
	/* Compiles `n` kernels on up to `threads` threads, watched by `watch` (base/watch.h; may
	 * be NULL). how[i] has the options for kernel i. (*entry)[i] becomes kernel i's code,
	 * NULL for a library kernel; the array lives as long as the code. */
	enum ht_status (*compile)(const struct ht_kernel *const *kernel, int32_t n,
		const struct ht_target *target, const struct ht_code_how *how, int threads,
		const struct ht_watch *watch, struct ht_diags *d, struct ht_code **out,
		ht_kernel_fn ***entry);
	void (*free)(struct ht_code *c); /* NULL is fine */
	/* Kernel i's code, which runs at any address that is a multiple of 64; *entry is the
	 * offset where it begins to run.  Empty for a library kernel. */
	struct ht_str (*kernel_code)(const struct ht_code *c, int32_t i, size_t *entry);
	/* To which lines of the kernel's text its code belongs (kernel/lines.h), packed; empty
	 * without how.lines. */
	struct ht_str (*kernel_lines)(const struct ht_code *c, int32_t i);
	/* Appends one kernel's LLVM IR, assembly or object file.  `source` is the name of the file that has the kernel's text, for
	 * how.lines. */
	enum ht_status (*emit)(const struct ht_kernel *kernel, const char *symbol,
		const struct ht_target *target, struct ht_code_how how, const char *source,
		enum ht_emit form, struct ht_diags *d, struct ht_buf *out);
	const char *(*llvm_version)(void);
	/* Identifies the code generator, for cache keys: with equal ids, a kernel gets equal
	 * code. */
	const char *(*id)(void);
};

#define HT_BACKEND_ABI 5

#endif
