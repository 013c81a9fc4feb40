/* image: a compiled program as flat bytes (docs/image.md).
 *
 * An image describes procedures of steps and the memory that they use.  It has offsets and indices in
 * place of addresses, so the same bytes serve the library, artefacts, the cache and the read-only data of
 * ahead-of-time nets.  Code and constants lie outside of the image; its owner says where (struct
 * ht_exec_links). */
#ifndef HT_IMAGE_H
#define HT_IMAGE_H

#include "base/size.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HT_IMAGE_MAGIC "htimage\n"
enum { HT_IMAGE_VERSION = 1, HT_IMAGE_ALIGN = 64 /* of temporary buffers and default values */ };
/* The most bytes that one buffer, a frame or all of a run may have: half of the addresses of a process. */
#define HT_IMAGE_MOST_BYTES ((uint64_t)1 << 46)

/* An executor that does not know a bit of ht_image.features refuses the image. */
enum ht_image_feature {
	HT_IMAGE_STREAMS = 1,       /* buffers of kind HT_IMAGE_STREAM */
	HT_IMAGE_HAS_VARIABLES = 2, /* buffers of kind HT_IMAGE_VARIABLE */
	HT_IMAGE_OPEN =
		4, /* sizes that a host states for each run: the tables behind HT_IMAGE_FIXED_TABLES */
	HT_IMAGE_SIZED = 8,         /* kernels that take the sizes of the run, products of sizes */
	HT_IMAGE_COMPUTED = 16,     /* sizes that a step of the run sets */
	HT_IMAGE_DERIVED = 32,      /* sizes that follow from others: one more table */
	HT_IMAGE_DERIVES = 64,      /* buffers of kind HT_IMAGE_DERIVED_BUFFER: two more tables */
	HT_IMAGE_HAS_OBJECTS = 128, /* buffers of kind HT_IMAGE_OBJECT: one more table */
	HT_IMAGE_STRINGS = 256,     /* an object of a context; inputs and outputs of strings */
	HT_IMAGE_BESIDES = 512,     /* steps of op HT_IMAGE_BESIDE */
	HT_IMAGE_PLACED =
		1024 /* temporary buffers that a run places by its sizes: the last tables */
};

/* The tables of an image, each an array of one type.  A number in one table refers to another table. */
enum ht_image_table {
	HT_IMAGE_PROCEDURES,      /* struct ht_image_procedure */
	HT_IMAGE_STEPS,           /* struct ht_image_step */
	HT_IMAGE_NOTES,           /* struct ht_image_note, one a step */
	HT_IMAGE_BUFFERS,         /* struct ht_image_buffer */
	HT_IMAGE_ARGS,            /* uint32_t: a buffer, counted from its procedure's first */
	HT_IMAGE_PATCHES,         /* uint32_t: an argument, counted from its procedure's first */
	HT_IMAGE_PARAMS,          /* int64_t */
	HT_IMAGE_KERNELS,         /* struct ht_image_kernel */
	HT_IMAGE_TOUCHES,         /* struct ht_image_touch */
	HT_IMAGE_CONSTANTS,       /* uint64_t: bytes */
	HT_IMAGE_RANDOM,          /* struct ht_image_stream */
	HT_IMAGE_VARIABLES,       /* struct ht_image_variable */
	HT_IMAGE_ENTRIES,         /* struct ht_image_entry */
	HT_IMAGE_PORTS,           /* struct ht_image_port */
	HT_IMAGE_WORDS,           /* struct ht_image_words */
	HT_IMAGE_DIMS,            /* int64_t */
	HT_IMAGE_TEXTS,           /* char; texts end with a zero; the text at 0 is empty */
	HT_IMAGE_DATA,            /* char: default values, each at a multiple of HT_IMAGE_ALIGN */
	HT_IMAGE_SIZES,           /* struct ht_image_size */
	HT_IMAGE_EXPRESSIONS,     /* struct ht_image_expression */
	HT_IMAGE_DERIVATIONS,     /* struct ht_image_derivation, by size */
	HT_IMAGE_DERIVED_BUFFERS, /* struct ht_image_derived */
	HT_IMAGE_SOURCES,         /* struct ht_image_source */
	HT_IMAGE_OBJECTS,         /* struct ht_image_object */
	HT_IMAGE_PLACES,          /* struct ht_image_place_of */
	HT_IMAGE_REACHES,         /* struct ht_image_reach, one for each item of TOUCHES */
	HT_IMAGE_TABLES
};

/* How many tables the head of an image has places for.  A feature brings its tables and those above them, which may be empty. */
enum {
	HT_IMAGE_FIXED_TABLES = HT_IMAGE_SIZES,          /* without the features below */
	HT_IMAGE_OPEN_TABLES = HT_IMAGE_DERIVATIONS,     /* HT_IMAGE_OPEN */
	HT_IMAGE_SIZE_TABLES = HT_IMAGE_DERIVED_BUFFERS, /* HT_IMAGE_DERIVED */
	HT_IMAGE_DERIVED_TABLES = HT_IMAGE_OBJECTS,      /* HT_IMAGE_DERIVES */
	HT_IMAGE_OBJECT_TABLES =
		HT_IMAGE_PLACES /* HT_IMAGE_HAS_OBJECTS; with HT_IMAGE_PLACED: all */
};

struct ht_image_place {
	uint32_t offset; /* bytes from the begin of the image, a multiple of 8 (DATA: of 64) */
	uint32_t count;  /* items */
};

struct ht_image {
	char magic[8];
	uint32_t version;
	uint32_t bytes; /* of the whole image, a multiple of 64 */
	uint64_t features;
	struct ht_image_place table[HT_IMAGE_TABLES]; /* as many as ht_image_tables() says */
};

/* A net's runner defines the first as a function in the section of its code, and the second as one that is always inlined. */
#ifndef HT_IMAGE_CALLED
#define HT_IMAGE_CALLED static inline
#define HT_IMAGE_INLINED static inline
#endif
HT_IMAGE_CALLED uint32_t ht_image_tables(const struct ht_image *x)
{
	if (x->features & HT_IMAGE_PLACED)
		return HT_IMAGE_TABLES;
	if (x->features & (HT_IMAGE_HAS_OBJECTS | HT_IMAGE_DERIVES))
		return x->features & HT_IMAGE_HAS_OBJECTS ? HT_IMAGE_OBJECT_TABLES
							  : HT_IMAGE_DERIVED_TABLES;
	if (!(x->features & HT_IMAGE_OPEN))
		return HT_IMAGE_FIXED_TABLES;
	return x->features & HT_IMAGE_DERIVED ? HT_IMAGE_SIZE_TABLES : HT_IMAGE_OPEN_TABLES;
}

/* Bytes of the head. */
static inline uint32_t ht_image_head(const struct ht_image *x)
{
	return (uint32_t)(sizeof *x -
			  (HT_IMAGE_TABLES - ht_image_tables(x)) * sizeof(struct ht_image_place));
}

enum { HT_IMAGE_MOST_SIZES = 256 };
enum ht_image_size_kind {
	HT_IMAGE_STATED,  /* by the host, for each run */
	HT_IMAGE_BY_STEP, /* a step of the run computes it; until then it is the most */
	HT_IMAGE_BY_SIZE, /* it follows from another: struct ht_image_derivation */
	HT_IMAGE_SIZE_KINDS
};
/* A size of a run, within these bounds. */
struct ht_image_size {
	uint32_t name; /* text */
	uint32_t kind;
	int64_t least, most; /* 0 <= least <= most <= INT32_MAX */
};

/* Size `size` is (factor * size `of` + add) / divisor, rounded down.  `of` is the smaller number.  ht_image_derivation_of() reads
 * it. */
struct ht_image_derivation {
	uint32_t size, of;
	int64_t factor, add, divisor; /* the first and the last are positive */
};

/* A number that depends on sizes: factor * (size / divisor), the quotient rounded down, times another expression.  Where there is
 * another one, all divisors are 1, and at most HT_SIZE_FACTORS follow each other.  ht_image_expression_of() reads it. */
struct ht_image_expression {
	uint32_t size;
	uint32_t times;          /* 1 + an expression with a smaller number; 0: none */
	int64_t factor, divisor; /* not negative; positive */
};

/* A procedure, the target of calls.  Its first `params` buffers are its parameters: memory of the caller.  A call of a
 * procedure with a smaller number cannot recurse; every other call may. */
struct ht_image_procedure {
	uint32_t name; /* text */
	uint32_t step, steps;
	uint32_t buffer, buffers;
	uint32_t arg, args;      /* the arguments of all its steps */
	uint32_t patch, patches; /* the arguments that are parameters, in order */
	uint32_t params;
	uint32_t loops; /* counters of iterations in a frame */
	uint32_t zero;
	uint64_t frame_bytes; /* of its temporary buffers, a multiple of 64 */
};

enum ht_image_op {
	HT_IMAGE_KERNEL, /* runs kernel `to` on `count` tiles, at least 1 */
	HT_IMAGE_COPY,   /* params[0] bytes of argument 1 go to argument 0 */
	HT_IMAGE_CALL,   /* runs procedure `to`, in a frame of its own */
	/* Runs `count` instances of procedure `to`, in any order or at once.  Parameter k of instance i is
	 * argument k plus i * params[k] bytes. */
	HT_IMAGE_FORK,
	HT_IMAGE_JUMP, /* goes on at step `to` of the procedure, which lies behind this one */
	HT_IMAGE_UNLESS, /* the same where argument 0, a scalar of `count` bytes (1, 4 or 8), is zero */
	HT_IMAGE_LOOP, /* begins a loop: counter `count` becomes zero */
	/* Ends an iteration of the loop of counter `count`, which begins at step `to`: goes on behind that
	 * step, unless the run was cancelled or the loop exceeds the limit of iterations. */
	HT_IMAGE_AGAIN,
	HT_IMAGE_FAIL, /* stops the run with fault `count`, 1 to 15 */
	/* As FORK, the instances from expression `count` to the next expression; none where that is no larger. */
	HT_IMAGE_SPREAD,
	/* Size `to`, which is computed, becomes argument 0, an int64_t; a fault if that is out of bounds. */
	HT_IMAGE_SIZE,
	/* Jumps to step `to`, which follows the next MADE, if derived buffer `count` is up to date: none of its sources has changed
	 * since it was computed.  The steps between FRESH and MADE compute it. */
	HT_IMAGE_FRESH,
	HT_IMAGE_MADE, /* records that derived buffer `count` is up to date */
	/* The next `count` steps, at least 2, are calls with at most HT_IMAGE_MOST_BESIDE arguments in all.  They run in any order or
	 * at once: none of them writes to memory that another one reads or writes.  `to` is 1 where each is to have one thread even
	 * if there are more threads than calls, because kernels are too short to be divided; else 0. */
	HT_IMAGE_BESIDE,
	HT_IMAGE_OPS
};

/* A step's `to` that is as large as the number of steps of its procedure is the procedure's end. */
struct ht_image_step {
	uint32_t op; /* enum ht_image_op */
	uint32_t to;
	uint32_t arg, args;     /* counted from the procedure's first argument */
	uint32_t param, params; /* in the table */
	uint32_t count;
	/* 1 + the number in the procedure of the LOOP that begins the innermost loop around this step; 0:
	 * none.  A loop does not contain its LOOP, but its AGAIN. */
	uint32_t loop;
};

enum { HT_IMAGE_NESTING = 32 /* loops of one procedure inside of each other */ };
enum { HT_IMAGE_MOST_BESIDE = 512 };

/* A step's node, method and message, for messages and reports. */
struct ht_image_note {
	uint32_t node, method; /* texts; method: may be empty */
	uint32_t words, words_count;
};

enum ht_image_kind {
	HT_IMAGE_PARAM,    /* memory of the caller: the procedure's parameter `number` */
	HT_IMAGE_TEMP,     /* memory of the frame, at `offset` */
	HT_IMAGE_CONST,    /* constant `number`; never written to */
	HT_IMAGE_STREAM,   /* the state of random stream `number`, a struct ht_philox */
	HT_IMAGE_VARIABLE, /* variable `number` of the session */
	HT_IMAGE_DERIVED_BUFFER, /* a part of derived buffer `number`, at `offset` in the memory of all derived buffers */
	HT_IMAGE_OBJECT /* object `number`; it has 0 bytes, and its address is the address of the object */
};

struct ht_image_buffer {
	uint32_t kind;   /* enum ht_image_kind */
	uint32_t number; /* TEMP: its place, in a procedure that a run places; 0 in others */
	uint64_t offset;
	uint64_t bytes;
	uint32_t written; /* PARAM: whether the procedure writes to it */
	uint32_t
		sized; /* PARAM: 1 + the expression of its bytes, of which `bytes` is the most; 0: none */
};

/* Machine code of a step: generated, or a function of the library by name.  A step that gives it no parameters, though
 * it takes some, gives it the sizes of the run. */
struct ht_image_kernel {
	uint32_t name;        /* text; empty: generated */
	uint32_t touch, args; /* by argument: the memory that it touches */
	uint32_t params;
	uint64_t scratch_bytes; /* of each thread that runs it */
};

/* What a kernel does with an argument. */
enum ht_image_access {
	HT_IMAGE_READS,
	HT_IMAGE_WRITES,
	HT_IMAGE_USES /* the argument is an object; `bytes` is then the position of the name of its kind among the texts */
};

struct ht_image_touch {
	uint64_t bytes;   /* from the argument's begin; the kernel reads and writes no others */
	uint32_t written; /* enum ht_image_access */
	uint32_t
		sized; /* 1 + the expression whose value is the number of bytes; 0: `bytes` is constant */
};

/* A number of bytes that depends on the sizes of a run: `add` more than expression `sized` - 1, or `add` alone where that is 0. */
struct ht_image_reach {
	uint64_t add;
	uint32_t sized;
	uint32_t zero;
};

/* A place for temporary buffers in the frame of the only entry's procedure.  At the largest sizes it is at `offset` and has `bytes`; in
 * a run it has as many as `reach` says, but no more than that.  ht_exec_bind() moves places down (docs/image-memory.md).  Places are sorted by offset. */
struct ht_image_place_of {
	uint64_t offset, bytes;
	struct ht_image_reach reach;
	uint32_t
		ends; /* of place i: the place that is number i if they are sorted by where they end */
	uint32_t zero;
};

/* A stream of random numbers, which continues from run to run of a session.  An op with seeds draws the
 * numbers that TensorFlow draws; an op without seeds uses the session's seed and its name. */
struct ht_image_stream {
	uint64_t seed, seed2; /* both 0: the op has none */
	uint64_t name;        /* a hash of the op's name */
};

#define HT_IMAGE_NO_VALUE UINT32_MAX
/* What an entry does with a variable. */
enum ht_image_use {
	HT_IMAGE_NEEDS = 1,  /* it may read the value that was there before */
	HT_IMAGE_ASSIGNS = 2 /* the variable has a value afterwards, whatever it had before */
};

/* A variable: memory that keeps its value from run to run of a session.  All variables of an image lie in
 * one piece of memory of the host, at multiples of HT_IMAGE_ALIGN, in order. */
struct ht_image_variable {
	uint32_t name;      /* text */
	uint32_t dtype;     /* enum ht_dtype */
	uint32_t dim, rank; /* its extents in the table of dims */
	uint32_t
		constant; /* its value when the session begins; or NO_VALUE: the host gives it one */
	uint32_t use;     /* enum ht_image_use */
	uint64_t offset;  /* in that memory */
	uint64_t bytes;
};

/* A derived buffer: memory whose content lasts from run to run of a session.  Steps compute it from its sources, which are inputs
 * and variables that no step of the image writes to.  All derived buffers of an image lie in one piece of memory of the host.  The
 * procedure of each entry begins with FRESH 0, the steps that compute buffer 0, MADE 0, FRESH 1, and so on; no other steps write to
 * derived buffers.  If a run stops before MADE, the next run computes the buffer again. */
struct ht_image_derived {
	uint32_t source, sources; /* at least one */
	uint64_t offset, bytes;   /* in that memory; multiples of HT_IMAGE_ALIGN */
};

/* A source of derived buffers.  The host keeps a version of each source: a number that grows whenever its elements change. */
struct ht_image_source {
	uint32_t kind;   /* HT_IMAGE_VARIABLE, or HT_IMAGE_PARAM: an input of the only entry */
	uint32_t number; /* of the variable or input */
};

enum { HT_IMAGE_MOST_OBJECTS = 1024 };
enum ht_image_owner {
	HT_IMAGE_OF_RUN,     /* made when a run begins, released when it ends, however it ends */
	HT_IMAGE_OF_SESSION, /* made before the first run, released with the session's variables */
	/* Made before the first run, and released with the context, which shares it with nobody: one of kind HT_STRINGS_KIND. */
	HT_IMAGE_OF_CONTEXT,
	HT_IMAGE_OWNERS
};

/* An object: a value that functions of the library make and release, and that only kernels of the library read. */
struct ht_image_object {
	uint32_t name;  /* text; a session has one object of each name */
	uint32_t kind;  /* text: names the functions that make and release it */
	uint32_t owner; /* enum ht_image_owner */
	uint32_t constant,
		constants; /* its constants: so many numbers of constants, in the table of args from `constant` on */
	uint32_t param,
		params; /* its parameters: so many, in the table of params from `param` on */
	uint32_t zero;
};

/* A procedure that a host may run.  Its parameters are the inputs, followed by the outputs. */
struct ht_image_entry {
	uint32_t name; /* text */
	uint32_t procedure;
	uint32_t port; /* of its first parameter */
	uint32_t inputs, outputs;
	uint32_t zero;
};

/* Of a tensor of strings an element is a string's number (base/strings.h), an int64_t: the host has a number given to each string
 * of an input before the run, and finds those of outputs behind it. */
enum { HT_IMAGE_STRING_BYTES = 8 };

/* An extent below 0 is that of expression -1 - extent; `bytes` is the most then. */
struct ht_image_port {
	uint32_t name, alias; /* texts; alias: another name, may be empty */
	uint32_t dtype;       /* enum ht_dtype */
	uint32_t dim, rank;   /* its extents in the table of dims */
	uint32_t value;       /* in the table of data: an input's default value; or NO_VALUE */
	uint64_t bytes;
};

/* As struct ht_words. */
struct ht_image_words {
	uint32_t text, arg, dtype;
	uint32_t dim, rank;
	uint32_t zero;
	uint64_t most;
};

static inline const void *ht_image_at(const struct ht_image *x, enum ht_image_table t)
{
	return (const char *)x + x->table[t].offset;
}

#define HT_IMAGE_TABLE_OF(name, type, table_of)                                                    \
	static inline const type *name(const struct ht_image *x)                                   \
	{                                                                                          \
		return ht_image_at(x, table_of);                                                   \
	}
HT_IMAGE_TABLE_OF(ht_image_procedures, struct ht_image_procedure, HT_IMAGE_PROCEDURES)
HT_IMAGE_TABLE_OF(ht_image_steps, struct ht_image_step, HT_IMAGE_STEPS)
HT_IMAGE_TABLE_OF(ht_image_notes, struct ht_image_note, HT_IMAGE_NOTES)
HT_IMAGE_TABLE_OF(ht_image_buffers, struct ht_image_buffer, HT_IMAGE_BUFFERS)
HT_IMAGE_TABLE_OF(ht_image_args, uint32_t, HT_IMAGE_ARGS)
HT_IMAGE_TABLE_OF(ht_image_patches, uint32_t, HT_IMAGE_PATCHES)
HT_IMAGE_TABLE_OF(ht_image_params, int64_t, HT_IMAGE_PARAMS)
HT_IMAGE_TABLE_OF(ht_image_kernels, struct ht_image_kernel, HT_IMAGE_KERNELS)
HT_IMAGE_TABLE_OF(ht_image_touches, struct ht_image_touch, HT_IMAGE_TOUCHES)
HT_IMAGE_TABLE_OF(ht_image_constants, uint64_t, HT_IMAGE_CONSTANTS)
HT_IMAGE_TABLE_OF(ht_image_random, struct ht_image_stream, HT_IMAGE_RANDOM)
HT_IMAGE_TABLE_OF(ht_image_variables, struct ht_image_variable, HT_IMAGE_VARIABLES)
HT_IMAGE_TABLE_OF(ht_image_entries, struct ht_image_entry, HT_IMAGE_ENTRIES)
HT_IMAGE_TABLE_OF(ht_image_ports, struct ht_image_port, HT_IMAGE_PORTS)
HT_IMAGE_TABLE_OF(ht_image_words_of, struct ht_image_words, HT_IMAGE_WORDS)
HT_IMAGE_TABLE_OF(ht_image_dims, int64_t, HT_IMAGE_DIMS)
HT_IMAGE_TABLE_OF(ht_image_texts, char, HT_IMAGE_TEXTS)
HT_IMAGE_TABLE_OF(ht_image_data, char, HT_IMAGE_DATA)
HT_IMAGE_TABLE_OF(ht_image_sizes, struct ht_image_size, HT_IMAGE_SIZES)
HT_IMAGE_TABLE_OF(ht_image_expressions, struct ht_image_expression, HT_IMAGE_EXPRESSIONS)
HT_IMAGE_TABLE_OF(ht_image_derivations, struct ht_image_derivation, HT_IMAGE_DERIVATIONS)
HT_IMAGE_TABLE_OF(ht_image_deriveds, struct ht_image_derived, HT_IMAGE_DERIVED_BUFFERS)
HT_IMAGE_TABLE_OF(ht_image_sources, struct ht_image_source, HT_IMAGE_SOURCES)
HT_IMAGE_TABLE_OF(ht_image_objects, struct ht_image_object, HT_IMAGE_OBJECTS)
HT_IMAGE_TABLE_OF(ht_image_places, struct ht_image_place_of, HT_IMAGE_PLACES)
HT_IMAGE_TABLE_OF(ht_image_reaches, struct ht_image_reach, HT_IMAGE_REACHES)
#undef HT_IMAGE_TABLE_OF

static inline uint32_t ht_image_count(const struct ht_image *x, enum ht_image_table t)
{
	return t < ht_image_tables(x) ? x->table[t].count : 0;
}

/* The item alone, without those behind it. */
static inline struct ht_size_expr ht_image_item_of(const struct ht_image_expression *e)
{
	return (struct ht_size_expr){ .times = e->factor,
		.factor = 1,
		.divisor = e->divisor,
		.size = { (int32_t)e->size + 1 } };
}

static inline struct ht_size_expr ht_image_expression_of(const struct ht_image *x, uint32_t i)
{
	struct ht_size_expr r = ht_image_item_of(ht_image_expressions(x) + i);
	int n = 1;

	while ((i = ht_image_expressions(x)[i].times) != 0 && n < HT_SIZE_FACTORS) {
		const struct ht_size_expr e = ht_image_item_of(ht_image_expressions(x) + --i);

		r.times *= e.times;
		r.divisor *= e.divisor;
		r.size[n++] = e.size[0];
	}
	return r;
}

/* The size that an extent of an input is; the extent is below 0. */
static inline uint32_t ht_image_size_of_extent(const struct ht_image *x, int64_t extent)
{
	return ht_image_expressions(x)[-1 - extent].size;
}

static inline int64_t ht_image_evaluate(
	const struct ht_image *x, uint32_t expression, const int64_t *size)
{
	int64_t n = 1;

	for (uint32_t i = expression + 1; i; i = ht_image_expressions(x)[i - 1].times) {
		const struct ht_size_expr e = ht_image_item_of(ht_image_expressions(x) + i - 1);

		n *= ht_size_scaled(&e, size[e.size[0] - 1]);
	}
	return n;
}

/* Whether a run places the temporary buffers of a procedure. */
static inline bool ht_image_is_placed(const struct ht_image *x, const struct ht_image_procedure *p)
{
	return (x->features & HT_IMAGE_PLACED) &&
	       p == ht_image_procedures(x) + ht_image_entries(x)->procedure;
}

/* How many sizes the host states.  They come before all others. */
static inline uint32_t ht_image_stated(const struct ht_image *x)
{
	uint32_t n = 0;

	while (n < ht_image_count(x, HT_IMAGE_SIZES) &&
		ht_image_sizes(x)[n].kind == HT_IMAGE_STATED)
		n++;
	return n;
}

static inline struct ht_size_expr ht_image_derivation_of(const struct ht_image_derivation *d)
{
	return (struct ht_size_expr){ .times = 1,
		.factor = d->factor,
		.add = d->add,
		.divisor = d->divisor,
		.size = { (int32_t)d->of + 1 } };
}

/* Sets all derived sizes, given the others. */
HT_IMAGE_INLINED void ht_image_derive_all(const struct ht_image *x, int64_t *size)
{
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_DERIVATIONS); i++) {
		const struct ht_image_derivation *d = &ht_image_derivations(x)[i];
		const struct ht_size_expr e = ht_image_derivation_of(d);

		size[d->size] = ht_size_scaled(&e, size[d->of]);
	}
}

/* Bytes of all variables of an image, a multiple of HT_IMAGE_ALIGN. */
static inline uint64_t ht_image_variable_bytes(const struct ht_image *x)
{
	uint32_t n = ht_image_count(x, HT_IMAGE_VARIABLES);
	const struct ht_image_variable *last = ht_image_variables(x) + n - 1;

	return n ? (last->offset + last->bytes + HT_IMAGE_ALIGN - 1) / HT_IMAGE_ALIGN *
			       HT_IMAGE_ALIGN
		 : 0;
}

/* Bytes of all derived buffers of an image, a multiple of HT_IMAGE_ALIGN. */
static inline uint64_t ht_image_derived_bytes(const struct ht_image *x)
{
	uint32_t n = ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS);
	const struct ht_image_derived *last = ht_image_deriveds(x) + n - 1;

	return n ? last->offset + last->bytes : 0;
}

/* Versions are numbered by variable, then by input of the entry. */
static inline uint32_t ht_image_version_of(
	const struct ht_image *x, const struct ht_image_source *s)
{
	return s->number + (s->kind == HT_IMAGE_PARAM ? x->table[HT_IMAGE_VARIABLES].count : 0);
}
static inline uint32_t ht_image_versions(const struct ht_image *x)
{
	return ht_image_count(x, HT_IMAGE_VARIABLES) + ht_image_entries(x)->inputs;
}

/* Text 0 is empty. */
static inline const char *ht_image_text(const struct ht_image *x, uint32_t at)
{
	return ht_image_texts(x) + at;
}

#endif
