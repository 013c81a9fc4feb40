/* backend: tile programs → LLVM IR → position-independent machine code.  The only folder that
 * links LLVM; built as a module of its own that api/ loads when code is needed. */
#ifndef HT_BACKEND_H
#define HT_BACKEND_H

#include "base/base.h"
#include "base/watch.h"
#include "kernel/kernel.h"

/* Machine code of several kernels, in read-execute memory.  Immutable; shared by threads. */
struct ht_code;

enum ht_emit { HT_EMIT_LLVM, HT_EMIT_ASM, HT_EMIT_OBJ };

/* How code is made.  All false: optimised, without an account of its lines. */
struct ht_code_how {
	bool lines; /* with struct ht_code_lines; the code is the same */
	bool plain; /* without LLVM's optimisations */
};

/* The module's one exported symbol, `ht_backend`. */
struct ht_backend {
	int abi; /* HT_BACKEND_ABI */
	/* Compiles `n` kernels on up to `threads` threads, watched (base/watch.h) or not: NULL.  how[i] is about kernel i.  (*entry)[i] is kernel i's code, NULL for a
	 * library kernel; the array lives as long as the code. */
	enum ht_status (*compile)(const struct ht_kernel *const *kernel, int32_t n,
		const struct ht_target *target, const struct ht_code_how *how, int threads,
		const struct ht_watch *watch, struct ht_diags *d, struct ht_code **out,
		ht_kernel_fn ***entry);
	void (*free)(struct ht_code *c); /* NULL is fine */
	/* Kernel i's code, which runs wherever it is copied to at a multiple of 64; *entry: where in
	 * it.  Empty for a library kernel. */
	struct ht_str (*kernel_code)(const struct ht_code *c, int32_t i, size_t *entry);
	/* Which lines of the kernel's text its code is of (kernel/lines.h), packed; empty without how.lines. */
	struct ht_str (*kernel_lines)(const struct ht_code *c, int32_t i);
	/* Appends one kernel's LLVM IR, assembly or object file.  `source` is the name of the file that has the kernel's text, for
	 * how.lines. */
	enum ht_status (*emit)(const struct ht_kernel *kernel, const char *symbol,
		const struct ht_target *target, struct ht_code_how how, const char *source,
		enum ht_emit form, struct ht_diags *d, struct ht_buf *out);
	const char *(*llvm_version)(void);
	/* What makes the code, for the keys of the cache: equal ones make equal code of a kernel. */
	const char *(*id)(void);
};

#define HT_BACKEND_ABI 5

#endif
