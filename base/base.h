/* base: what every other folder stands on.  Uses libc and xxHash only.
 *
 * Memory.  All memory comes from arenas; an arena hands out zeroed memory and never NULL.  When the
 * system has no more, the allocation unwinds (longjmp) to the public function that set up the
 * arena's `ht_unwind`, which returns HT_E_ENVIRONMENT.  Anything that is not arena memory (a file
 * map, a foreign object) is tied to an arena with ht_arena_defer(), so that unwinding leaks nothing.
 *
 * Errors.  The user's input is wrong: a diagnostic and a status up the stack.  The environment
 * failed: likewise, with HT_E_ENVIRONMENT.  We are wrong: HT_CHECK, which aborts in every build. */
#ifndef HT_BASE_H
#define HT_BASE_H

#include <halftone/types.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define HT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define HT_NORETURN __attribute__((noreturn))
#else
#define HT_PRINTF(fmt, args)
#define HT_NORETURN
#endif

#define HT_COUNT(array) (sizeof(array) / sizeof *(array))

/* Our invariant is broken: prints and aborts, in every build.  Never for input. */
#define HT_CHECK(cond) ((cond) ? (void)0 : ht_check_failed(#cond, __FILE__, __LINE__))
HT_NORETURN void ht_check_failed(const char *cond, const char *file, int line);

/* Passes a failure on. */
#define HT_TRY(call)                                                                               \
	do {                                                                                       \
		enum ht_status ht_try_ = (call);                                                   \
		if (ht_try_ != HT_OK)                                                              \
			return ht_try_;                                                            \
	} while (0)

/* ---- checked sizes ---- */

/* False when the result does not fit; *r is then undefined. */
static inline bool ht_mul_size(size_t a, size_t b, size_t *r)
{
	return !__builtin_mul_overflow(a, b, r);
}
static inline bool ht_add_size(size_t a, size_t b, size_t *r)
{
	return !__builtin_add_overflow(a, b, r);
}
/* Whether `n` bytes at `offset` lie in `all`. */
static inline bool ht_inside(uint64_t offset, uint64_t n, uint64_t all)
{
	return offset <= all && n <= all - offset;
}
/* a / b rounded up; b is positive. */
static inline int64_t ht_ceil_div(int64_t a, int64_t b)
{
	return a / b + (a % b > 0);
}

/* ---- arena.c ---- */

/* Where an allocation that fails returns to: `if (setjmp(u.env)) return HT_E_ENVIRONMENT;` */
struct ht_unwind {
	jmp_buf env;
};

struct ht_arena {
	struct ht_arena_block *block;
	struct ht_arena_defer *defers;
	struct ht_unwind *unwind; /* not owned; must outlive every allocation */
	size_t bytes;             /* taken from the system */
};

/* Sets the flag that cancels work of this thread (NULL: none), and returns the previous one.  While *flag is not zero, arenas of the
 * thread that have an unwind point return to it instead of growing.  So a call that allocates memory ends soon after another
 * thread or a signal handler has set the flag. */
const int32_t *ht_cancel_by(const int32_t *flag);
/* Whether this thread's flag is set. */
bool ht_is_cancelled(void);

/* `a` is the caller's; to be ended with ht_arena_release(). */
void ht_arena_init(struct ht_arena *a, struct ht_unwind *u);
/* Runs the deferred calls, newest first, and returns all memory; the arena is then as after init. */
void ht_arena_release(struct ht_arena *a);
/* An arena that is released with `a` at the latest, also where an allocation fails; for what a call
 * needs on its way and releases itself. */
struct ht_arena *ht_arena_within(struct ht_arena *a);
/* Zeroed, aligned to 8 bytes.  n == 0 gives a valid pointer. */
void *ht_alloc(struct ht_arena *a, size_t n);
/* Zeroed array of `count` elements of `size` bytes; an overflow unwinds. */
void *ht_alloc_array(struct ht_arena *a, size_t count, size_t size);
/* `fn(arg)` runs when the arena is released, or at once when there is no memory to note it. */
void ht_arena_defer(struct ht_arena *a, void (*fn)(void *), void *arg);
/* Gives up: returns to the arena's unwind point. */
HT_NORETURN void ht_arena_fail(struct ht_arena *a);

/* Memory from the system that is not an arena's: zeroed, for free(); NULL when there is none. */
void *ht_sys_alloc(size_t n);
/* For tests: behind `n` more allocations from the system this thread gets none; -1: no such end. */
void ht_fail_alloc_after(long n);
/* Counts an allocation; true when it is to fail.  For code that calls mmap() and the like. */
bool ht_alloc_may_fail(void);

#define HT_NEW(arena, type) ((type *)ht_alloc((arena), sizeof(type)))
#define HT_NEW_ARRAY(arena, type, count) ((type *)ht_alloc_array((arena), (count), sizeof(type)))

/* Makes room for one more element in an arena-backed array: `items` grows by doubling when
 * `count` has reached `cap`.  Returns the (possibly moved) array; *cap is updated. */
void *ht_grow(struct ht_arena *a, void *items, size_t count, size_t *cap, size_t size);

/* ---- str.c: strings with a length; bytes, not necessarily UTF-8 ---- */

struct ht_str {
	const char *p; /* when made by this library: followed by a NUL that is not counted */
	size_t n;
};

#define HT_STR(literal) ((struct ht_str){ "" literal, sizeof(literal) - 1 })
#define HT_STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

struct ht_str ht_str(const char *zero_terminated);
struct ht_str ht_str_copy(struct ht_arena *a, struct ht_str s);
/* A copy of the struct `s` in the arena; its bytes are not copied and must live as long. */
const struct ht_str *ht_str_kept(struct ht_arena *a, struct ht_str s);
struct ht_str ht_str_printf(struct ht_arena *a, const char *fmt, ...) HT_PRINTF(2, 3);
bool ht_str_eq(struct ht_str a, struct ht_str b);
bool ht_str_is(struct ht_str a, const char *zero_terminated);
int ht_str_cmp(struct ht_str a, struct ht_str b);
bool ht_str_starts(struct ht_str s, const char *prefix);
bool ht_str_ends(struct ht_str s, const char *suffix);
bool ht_utf8_valid(struct ht_str s);
/* Bytes of the well-formed UTF-8 sequence that `p` begins with; 0 when there is none. */
size_t ht_utf8_length(const char *p, size_t n);
/* Up to 3 of `words` (n of them) that are within edit distance 2 of `s` (less for very short ones),
 * the nearest first; for "did you mean".  Returns how many. */
int ht_near_names(struct ht_str s, const struct ht_str *words, size_t n, struct ht_str near[3]);

/* ---- buf.c: a growing byte buffer in an arena ---- */

struct ht_buf {
	struct ht_arena *arena;
	char *p;
	size_t n, cap;
};

void ht_buf_init(struct ht_buf *b, struct ht_arena *a);
/* Room for `n` more bytes, without growing by doubling on the way. */
void ht_buf_reserve(struct ht_buf *b, size_t n);
void ht_put(struct ht_buf *b, const void *p, size_t n);
void ht_puts(struct ht_buf *b, const char *s);
void ht_put_str(struct ht_buf *b, struct ht_str s);
void ht_putc(struct ht_buf *b, char c);
void ht_put_int(struct ht_buf *b, int64_t v); /* decimal */
void ht_printf(struct ht_buf *b, const char *fmt, ...) HT_PRINTF(2, 3);
/* As a JSON string with quotes; bytes that are not UTF-8 become \ufffd. */
void ht_put_json(struct ht_buf *b, struct ht_str s);
void ht_put_member(struct ht_buf *b, const char *key, struct ht_str value); /* , "key": "value" */
/* What was written so far; a NUL follows it. */
struct ht_str ht_buf_str(struct ht_buf *b);

/* ---- number.c: numbers as text, with a point in every locale.  Print doubles with these, never
 * with "%g". ---- */

/* The fewest digits that read back as the same number; "inf", "-inf", "nan". */
void ht_put_double(struct ht_buf *b, double v);
void ht_put_float(struct ht_buf *b, float v);
/* "%.*f"; at most 40 decimals. */
void ht_put_fixed(struct ht_buf *b, double v, int decimals);
/* All of `s` must be the number: decimal, hexadecimal, "inf" or "nan".  Too large gives infinity. */
bool ht_parse_double(struct ht_str s, double *out);
/* Decimal, with a sign if it likes; false when it does not fit. */
bool ht_parse_int(struct ht_str s, int64_t *out);

/* ---- map.c: hash table from strings to pointers, insertion-ordered ---- */

struct ht_map_entry {
	struct ht_str key;
	void *value;
};

struct ht_map {
	struct ht_arena *arena;
	struct ht_map_entry *entries; /* in the order of insertion */
	size_t count, cap;
	struct ht_map_slot *slots;
	size_t slot_count;
};

void ht_map_init(struct ht_map *m, struct ht_arena *a);
/* Makes room for `n` keys in an empty map, exactly. */
void ht_map_reserve(struct ht_map *m, size_t n);
/* NULL when absent. */
void *ht_map_get(const struct ht_map *m, struct ht_str key);
/* The entry of `key`, made with value NULL when it is absent.  The key's bytes are not copied.
 * The pointer is valid until the next call. */
struct ht_map_entry *ht_map_at(struct ht_map *m, struct ht_str key);

/* ---- diag.c ---- */

/* Where in the user's input; every field is optional (NULL, 0, or -1 for `offset`). */
struct ht_where {
	const char *path;
	long line, column;
	int64_t offset; /* bytes from the start of the file; -1: none */
	struct ht_str node, op;
};

#define HT_NOWHERE ((struct ht_where){ .offset = -1 })

struct ht_diag {
	enum ht_severity severity;
	enum ht_status status;
	struct ht_where where; /* copied */
	struct ht_str text;
	struct ht_diag *next;
};

/* Diagnostics in the order they came.  Not thread-safe.  At most HT_MAX_DIAGS are kept; further
 * ones are counted only. */
struct ht_diags {
	struct ht_arena arena;
	struct ht_diag *first, *last;
	size_t count;            /* kept */
	size_t errors, warnings; /* kept or not */
	size_t dropped;          /* not kept */
};

#define HT_MAX_DIAGS 1000

void ht_diags_init(struct ht_diags *d);
void ht_diags_release(struct ht_diags *d);
/* Takes back what was recorded since `*before` was a copy of `*d`. */
void ht_diags_restore(struct ht_diags *d, const struct ht_diags *before);
/* Records an error and returns `st`; `d` may be NULL. */
enum ht_status ht_error(struct ht_diags *d, enum ht_status st, struct ht_where at, const char *fmt,
	...) HT_PRINTF(4, 5);
/* ht_error() at HT_NOWHERE, which takes less code where it is called. */
enum ht_status ht_refuse(struct ht_diags *d, enum ht_status st, const char *fmt, ...)
	HT_PRINTF(3, 4);
void ht_warn(struct ht_diags *d, struct ht_where at, const char *fmt, ...) HT_PRINTF(3, 4);
void ht_note(struct ht_diags *d, struct ht_where at, const char *fmt, ...) HT_PRINTF(3, 4);
/* `path:line:col: error: node 'a/b' (MatMul): text` or `path: byte 17: error: text`. */
void ht_diag_print(const struct ht_diag *d, struct ht_buf *out);

/* ---- dtype.c ---- */

enum ht_kind {
	HT_KIND_NONE,
	HT_KIND_FLOAT,
	HT_KIND_INT,
	HT_KIND_UINT,
	HT_KIND_BOOL,
	HT_KIND_COMPLEX,
	HT_KIND_OTHER
};

struct ht_dtype_info {
	/* In place, and not pointers, so that the table takes no relocations. */
	char name[20];  /* TensorFlow's Python name: "float32", "bfloat16", "int32" */
	char tag[14];   /* short name in the text form: "f32", "bf16", "i32" */
	char proto[22]; /* enumerator in GraphDef text: "DT_FLOAT" */
	size_t bytes;   /* 0: not a fixed size */
	enum ht_kind kind;
	int exponent, mantissa; /* bits, for floats */
};

/* For any value below HT_DTYPE_END, reference types included (the flag is taken off); never NULL. */
const struct ht_dtype_info *ht_dtype_info(enum ht_dtype t);
/* By any of the three names; HT_INVALID when there is none. */
enum ht_dtype ht_dtype_named(struct ht_str name);
static inline bool ht_is_float(enum ht_dtype t)
{
	return ht_dtype_info(t)->kind == HT_KIND_FLOAT;
}
/* Whether `t` is float16 or bfloat16. */
static inline bool ht_is_low(enum ht_dtype t)
{
	return t == HT_F16 || t == HT_BF16;
}
/* Whether kernels compute `t` in float32: float32 itself, and the low types, which are widened. */
static inline bool ht_is_f32_or_low(enum ht_dtype t)
{
	return t == HT_F32 || ht_is_low(t);
}
/* Whether kernels read and write `t` as floating-point numbers.  They do not support float8. */
static inline bool ht_is_kernel_float(enum ht_dtype t)
{
	return ht_is_f32_or_low(t) || t == HT_F64;
}
/* The smallest positive normal number; 0: `t` is no floating-point type. */
double ht_least_normal(enum ht_dtype t);

/* The next pseudo-random number (splitmix64).  *state is the seed at first; each call changes it. */
uint64_t ht_random(uint64_t *state);

/* ---- half.c: conversions of single numbers; round to nearest even.
 * float16 keeps subnormals and overflows to infinity; bfloat16 conversions flush subnormals to
 * zero of the same sign, in both directions, as processors do that multiply pairs of it. ---- */

float ht_f16_to_f32(uint16_t h);
uint16_t ht_f32_to_f16(float f);
uint16_t ht_f64_to_f16(double d);
float ht_bf16_to_f32(uint16_t h);
/* Rounded to 10 bits of fraction, as accelerators multiply float32: 19 bits in all. */
float ht_f32_to_hf32(float f);
uint16_t ht_f32_to_bf16(float f);
uint16_t ht_f64_to_bf16(double d);

/* ---- shape.c ---- */

/* A dimension: n >= 0 is a size; HT_DIM_UNKNOWN; below that, expression number -2 - n of the
 * graph's table of symbolic dimensions (ir/ir.h). */
#define HT_DIM_UNKNOWN ((int64_t)-1)
#define HT_MAX_RANK 254 /* TensorFlow's limit */

struct ht_shape {
	int32_t rank; /* -1: unknown */
	const int64_t *dim;
};

#define HT_SHAPE_UNKNOWN ((struct ht_shape){ -1, NULL })
#define HT_SHAPE_SCALAR ((struct ht_shape){ 0, NULL })

struct ht_shape ht_shape_make(struct ht_arena *a, int32_t rank, const int64_t *dim); /* copies */
bool ht_shape_known(struct ht_shape s); /* rank and every dimension are sizes */
bool ht_shape_eq(struct ht_shape a, struct ht_shape b);
/* Elements of a known shape; -1 when unknown or when it does not fit int64_t. */
int64_t ht_shape_count(struct ht_shape s);
/* The stride of `axis` in a dense row-major tensor, in elements; the shape is known. */
int64_t ht_shape_stride(struct ht_shape s, int32_t axis);
/* "[1,224,224,3]", "[?,3]", "[]", "[*]" for unknown rank. */
void ht_shape_print(struct ht_shape s, struct ht_buf *out);

/* ---- elements at addresses of any alignment ---- */

/* Constants lie anywhere in a mapped file.  Whoever reads their elements uses these or memcpy();
 * for kernels and callers, who read elements in place, there is ht_blob_aligned(). */

#define HT_DEFINE_LOAD(name, type)                                                                 \
	static inline type ht_load_##name(const void *p, int64_t i)                                \
	{                                                                                          \
		type x;                                                                            \
		__builtin_memcpy(&x, (const char *)p + i * (int64_t)sizeof x, sizeof x);           \
		return x;                                                                          \
	}
HT_DEFINE_LOAD(f32, float)
HT_DEFINE_LOAD(f64, double)
HT_DEFINE_LOAD(u16, uint16_t)
HT_DEFINE_LOAD(i16, int16_t)
HT_DEFINE_LOAD(i32, int32_t)
HT_DEFINE_LOAD(i64, int64_t)
#undef HT_DEFINE_LOAD

/* ---- blob.c: bytes of constants ---- */

/* Reference-counted bytes: a span of a mapped file, or memory of their own.  Large constants are
 * held once; whoever needs the bytes no more says so, and their pages go back to the system. */
struct ht_blob {
	const void *p;
	size_t n;
	int refs;
	struct ht_file *file;  /* whose map holds the bytes, or NULL: memory from mmap or malloc */
	struct ht_blob *whole; /* of which the bytes are a part, or NULL */
	size_t mapped;         /* bytes from mmap; 0: malloc */
};

/* `n` writable zeroed bytes, aligned to 64; on huge pages where they fill some.  NULL when the system
 * has none. */
struct ht_blob *ht_blob_new(size_t n);
/* A blob with a copy of `n` bytes, aligned for any type of element.  NULL when out of memory. */
struct ht_blob *ht_blob_copy(const void *p, size_t n);
/* ht_blob_new(), but the arena releases this reference, and unwinds when memory runs out. */
struct ht_blob *ht_blob_in(struct ht_arena *a, size_t n);
/* `n` bytes of `whole`, which it keeps.  NULL when out of memory. */
struct ht_blob *ht_blob_part(struct ht_blob *whole, size_t offset, size_t n);
/* A span of a mapped file; keeps the file.  NULL when out of memory. */
struct ht_blob *ht_blob_of_file(struct ht_file *f, size_t offset, size_t n);
/* Whether the bytes are in a mapped file: those of ht_blob_of_file(), and parts of them. */
bool ht_blob_in_file(const struct ht_blob *b);
struct ht_blob *ht_blob_ref(struct ht_blob *b);
/* One more reference to `b` where its bytes are aligned to `align`, else a copy that is, made on up to
 * `threads` threads (the pages of a file's span are dropped).  NULL when out of memory. */
struct ht_blob *ht_blob_aligned(struct ht_blob *b, size_t align, int threads);
/* The last reference frees memory.  The pages of a file's span are dropped by each: they come back
 * from the file when they are read again. */
void ht_blob_unref(struct ht_blob *b);

/* ---- pages.c ---- */

/* `n` zeroed bytes, a multiple of the system's pages, for munmap(); on huge pages where they fill some and the system has
 * them of itself.  NULL: out of memory. */
void *ht_map_usual(size_t n);
/* Maps `n` zeroed bytes in pages of 1 << log_page bytes that are set apart; NULL: there are too few.  Tests set another one. */
extern void *(*ht_map_reserved)(size_t n, int log_page);

/* Memory that is given out in pieces and freed as a whole.  Set `pages` alone. */
struct ht_page_pool {
	enum ht_pages pages; /* not HT_PAGES_USUAL */
	size_t least;        /* the smallest size of pages that it got; 0: usual ones */
	struct ht_page_area *area;
};
/* `n` zeroed bytes at a multiple of 64; NULL: the system has no such pages, which ht_page_pool_refused() reports. */
void *ht_page_pool_take(struct ht_page_pool *pool, size_t n);
void ht_page_pool_free(struct ht_page_pool *pool);
enum ht_status ht_page_pool_refused(
	const struct ht_page_pool *pool, const char *what, size_t n, struct ht_diags *d);
/* Warns where pages are smaller than those that were asked for. */
void ht_page_pool_tell(const struct ht_page_pool *pool, const char *what, struct ht_diags *d);

/* ---- mapped.c ---- */

/* Maps of files, so that what a file loses while it is mapped is an error and not the end of the process.  Any thread.
 * The system's limit is that of its SIGBUS: a file that is written to without becoming shorter is not noticed. */
struct ht_mapped;

/* `n` bytes, not 0, at `p`, mapped from `path`, which stays until ht_mapped_free().  NULL: no memory. */
struct ht_mapped *ht_mapped_new(const char *path, const void *p, size_t n);
void ht_mapped_free(struct ht_mapped *m);
/* Handles SIGBUS from now on: pages that are gone from a map become zeros.  All other signals go where they went. */
void ht_mapped_guard(void);
/* Maps that have lost pages since the process began. */
unsigned ht_mapped_lost(void);
/* HT_E_INPUT, and says so: the map that contains `p` has lost pages. */
enum ht_status ht_mapped_check(const void *p, struct ht_diags *d);
/* Likewise: a map has lost pages since ht_mapped_lost() was `number`, and is still there. */
enum ht_status ht_mapped_check_since(unsigned number, struct ht_diags *d);

/* ---- file.c ---- */

/* While a file's stamp is the same, the system runs, and the file was not changed in the last moment, the
 * file is the same and so are its bytes. */
struct ht_file_stamp {
	uint64_t mount;  /* one number for ever; 0: nothing is promised of this file system */
	uint64_t device; /* beside the mount: of one, each Btrfs subvolume numbers its files */
	uint64_t inode, bytes;
	int64_t modified_ns, changed_ns;
};
/* The stamp of the file that `path` names now; all zeros: there is no such file. */
struct ht_file_stamp ht_file_stamp(const char *path);
struct ht_file_stamp ht_file_stamp_of(int fd);

/* A whole file, mapped read-only.  Reference-counted. */
struct ht_file {
	const char *path;
	const uint8_t *p;
	size_t n;
	int refs;
	struct ht_file_stamp stamp; /* when it was mapped */
	int fd;                     /* of one that is watched; else -1 */
	struct ht_mapped *mapped;   /* NULL: it is empty */
};

/* Files of `limit` bytes and more are refused with HT_E_LIMIT.  For files that become shorter while they are
 * mapped see mapped.c. */
enum ht_status ht_file_map(
	const char *path, size_t limit, struct ht_diags *d, struct ht_file **out);
/* The same; the caller can then ask whether the file has changed since. */
enum ht_status ht_file_map_watched(
	const char *path, size_t limit, struct ht_diags *d, struct ht_file **out);
/* Whether a watched file was written to since it was mapped.  Another one that took its name, a new
 * name and a removal change no byte that is mapped. */
bool ht_file_changed(const struct ht_file *f);
struct ht_file *ht_file_ref(struct ht_file *f);
void ht_file_unref(struct ht_file *f);
/* Output that appears whole or not at all: written to a temporary file beside `path` that is
 * renamed by ht_output_commit().  "-" is stdout.  Temporary files of this process are removed when
 * a signal ends it (ht_output_install_signals, for the tool only). */
struct ht_output;
enum ht_status ht_output_open(const char *path, struct ht_diags *d, struct ht_output **out);
enum ht_status ht_output_write(struct ht_output *o, const void *p, size_t n);
/* Hands everything to the system, so that committing cannot fail for want of space any more. */
enum ht_status ht_output_flush(struct ht_output *o);
enum ht_status ht_output_commit(struct ht_output *o); /* frees o */
void ht_output_abort(struct ht_output *o);            /* frees o; NULL is fine */
/* Whether a file that may be written to has these bytes already; then it only becomes new, and those
 * who use it go on sharing its pages.  (To replace a file some file systems first write all of the new
 * one to the disk.) */
bool ht_output_is_there(const char *path, struct ht_str bytes);
void ht_output_install_signals(void);

/* ---- spill.c ---- */

/* Bytes that would take too much memory, in a file without a name beside the output `path`, or in
 * $TMPDIR where that is no regular file. */
struct ht_spill;
enum ht_status ht_spill_open(const char *path, struct ht_diags *d, struct ht_spill **out);
void ht_spill_free(struct ht_spill *s); /* and what was put away; NULL is fine */
/* Writes each piece and lets it point to what was written, at a multiple of 64.  HT_E_ENVIRONMENT: they
 * are as they were. */
enum ht_status ht_spill_pieces(
	struct ht_spill *s, struct ht_str *piece, size_t n, struct ht_diags *d);
/* Whether everything is still what was written. */
enum ht_status ht_spill_check(const struct ht_spill *s, struct ht_diags *d);

/* ---- thread.c ---- */

/* One thread's share of some work; `worker` is below the number of threads. */
typedef void ht_thread_fn(void *arg, int worker);
/* Calls fn on up to `threads` threads at once, of which the caller is worker 0; returns when all
 * have.  Where the system has fewer threads some workers are missing: what there is to do must be
 * shared out as it is done. */
void ht_on_threads(int threads, ht_thread_fn *fn, void *arg);
/* The number of threads to use: at most `threads`, `pieces`, and what the library allows. */
int ht_thread_limit(int threads, int32_t pieces);
/* Calls fn for all of [0, n), in pieces of `piece`, of which up to `threads` threads do some at once. */
typedef void ht_range_fn(void *arg, size_t begin, size_t end);
void ht_on_ranges(int threads, size_t n, size_t piece, ht_range_fn *fn, void *arg);

/* ---- hash.c ---- */

struct ht_hash {
	uint64_t lo, hi;
};

/* XXH3-128. */
struct ht_hash ht_hash_bytes(const void *p, size_t n);
struct ht_hash ht_hash_pieces(const struct ht_str *piece, size_t n); /* of their concatenation */
bool ht_hash_eq(struct ht_hash a, struct ht_hash b);

/* ---- module.c: modules that are loaded when they are needed ---- */

struct ht_module {
	const char *what, *file, *variable,
		*symbol; /* variable: environment's, with another path */
	int abi;         /* the symbol begins with it */
	/* Whether the module goes with this library, beyond its ABI; NULL: it does. */
	bool (*fits)(const void *symbol);
	const void *loaded; /* the symbol */
};
/* *out: the symbol.  `path` NULL: beside the library that this code is in. */
enum ht_status ht_module_load(
	struct ht_module *m, const char *path, struct ht_diags *d, const void **out);

/* ---- sha256.c: of what has to be what it was made as ---- */

void ht_sha256(const void *p, size_t n, uint8_t digest[32]);
/* The digest of bytes that come in pieces. */
struct ht_sha256 {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t rest[64];
};
void ht_sha256_begin(struct ht_sha256 *s);
void ht_sha256_add(struct ht_sha256 *s, const void *p, size_t n);
void ht_sha256_end(struct ht_sha256 *s, uint8_t digest[32]);

#endif
