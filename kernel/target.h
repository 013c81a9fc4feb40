/* target: the machine for which kernels are scheduled, priced and emitted.
 *
 * A machine is data: its capabilities (what code may use), its rates (how fast that is) and its
 * caches.  Schedules, methods, prices and emission ask for those, never for an instruction set.
 * Only target.c, host.c and base/cpu.h know names of instruction sets; names of single
 * instructions are in the files that emit or run them.  A new machine is a row in target.c, and
 * a file in backend/ if it has instructions of a new form. */
#ifndef HT_TARGET_H
#define HT_TARGET_H

#include "base/base.h"

/* The rates of one core of a microarchitecture. */
struct ht_rates {
	const char *name;  /* GCC's and LLVM's: "znver4" */
	bool measured;     /* or stated by the user; otherwise estimated from the vendor's data */
	int rows, vectors; /* of a register tile, at most; registers limit them too */
#define HT_RATE(member, meaning) double member;
#include "kernel/target.def"
};

/* Everything about the machine that generated code depends on: equal descriptions give equal
 * code. */
struct ht_target {
	const char *name;     /* "x86-64-v4+bf16", "znver4" */
	const char *level;    /* the name of the level whose code it runs */
	const char *cpu;      /* LLVM's name of the level */
	const char *features; /* LLVM feature string */
	unsigned extensions;  /* what not every machine of the level has: enum ht_cpu_extension */
#define HT_CAPABILITY(member, meaning) int member;
#include "kernel/target.def"
	int64_t l1, l2, l3; /* bytes of data cache: the first two of a core, the third shared */
	int64_t streams;    /* bytes that the last cache is assumed to hold */
	const struct ht_rates *rates;
};

/* The target named "host", a level ("x86-64-v4") or a microarchitecture ("znver4"); NULL:
 * unknown. */
const struct ht_target *ht_target_named(const char *name);
/* All levels, each running the code of those before it, then each level with extensions, then all microarchitectures, ended by
 * NULL. */
const struct ht_target *const *ht_targets(void);

/* The value of `streams` for an l3.  Levels do not determine the machine's cache, so they have
 * the least value. */
#define HT_STREAMS(l3) ((l3) > 32 << 20 ? (l3) : 32 << 20)

/* The index of t's level in ht_targets(). */
int ht_target_level(const struct ht_target *t);

/* What a machine of this level (by number in ht_targets()) with these extensions runs, whatever its microarchitecture: the level, or
 * the level with the extensions. */
const struct ht_target *ht_target_of_cpu(int level, unsigned extensions);

/* Float32 lanes of the widest vector. */
static inline int ht_target_lanes(const struct ht_target *t)
{
	return t->vector_bytes / 4;
}

/* Products that one instruction adds to each sum, of operands of this type: 1 where that is a
 * multiply-add, 2 where it is a dot product of pairs or a step of a product of matrices of pairs. */
int ht_target_group(const struct ht_target *t, enum ht_dtype operands);
/* The type in which operands of this type are multiplied: F32 for floats of 16 bits if the
 * machine has no products of them. short_sums: short runs of products of F16 may be summed in
 * F16. */
enum ht_dtype ht_target_multiplied(
	const struct ht_target *t, enum ht_dtype operands, bool short_sums);
/* Products a cycle and lane of operands of this type. */
double ht_target_products(const struct ht_target *t, enum ht_dtype operands);
/* The most that products of matrices of BF16 can be; 0: there are none. */
double ht_target_matrix_products(const struct ht_target *t);

/* The value of one row of target.def for a machine; a whole number for a capability. */
struct ht_target_fact {
	const char *name;
	double value;
};
/* Capability or rate number i; false: there are no more. */
bool ht_target_capability(const struct ht_target *t, size_t i, struct ht_target_fact *out);
bool ht_target_rate(const struct ht_target *t, size_t i, struct ht_target_fact *out);

/* Removes those products of 16 bits from the capabilities that are slower than multiplying as
 * float32. */
void ht_target_drop_slow(struct ht_target *t);

/* ---- rates.c ---- */

/* Sets the rate of this name; false: there is none. */
bool ht_rate_set(struct ht_rates *r, struct ht_str name, double value);
/* The target with these rates.  It has only those products of its level that are fast by these
 * rates. */
const struct ht_target *ht_target_with_rates(
	const struct ht_target *t, const struct ht_rates *rates, struct ht_arena *a);

/* ---- host.c ---- */

/* What a processor says of itself: the first four letters of its vendor's name as a number, its family and its model, each with the
 * extended field. */
struct ht_processor {
	unsigned vendor, family, model;
};
/* The name of the target that has the rates of this processor where it runs code of this level.  A virtual machine may hide the features
 * of the processor, so the family or the model decides where host.c knows it, otherwise the level; of an unknown vendor it is the level's
 * own name. */
const char *ht_target_microarchitecture(struct ht_processor p, const struct ht_target *level);

/* The best level that this machine (CPU and OS) can run, with the extensions that it has, its caches and rates.  The variable
 * HALFTONE_HOST names a target that it counts as instead.  Asks the kernel for the state of extensions, for the whole process. */
const struct ht_target *ht_target_host(void);
/* The value of HALFTONE_HOST if it does not name a target that this machine runs; NULL: it does,
 * or is not set. */
const char *ht_target_host_refused(void);
/* Whether this machine runs code for the target of this name. */
bool ht_target_runs(const char *name);

#endif
