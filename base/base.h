/* base: memory, strings, diagnostics, element types, files and hashes, which every other folder
 * uses.  It uses libc, xxHash and libmd only.
 *
 * Memory.  All memory comes from arenas; an arena hands out zeroed memory and never NULL.  When the
 * system has no more memory, the allocation unwinds (longjmp) to the public function that set up
 * the arena's `ht_unwind`, which returns HT_E_ENVIRONMENT.  A resource that is not arena memory (a
 * file map, a foreign object) is tied to an arena with ht_arena_defer(), so unwinding leaks
 * nothing.
 *
 * Errors.  If the user's input is wrong, a function records a diagnostic and returns a status.  If
 * the environment fails, it does the same with HT_E_ENVIRONMENT.  If this library is wrong,
 * HT_CHECK aborts in every build. */
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

/* Prints and aborts, in every build, if an invariant of this library does not hold.  Never used for
 * input. */
#define HT_CHECK(cond) ((cond) ? (void)0 : ht_check_failed(#cond, __FILE__, __LINE__))
HT_NORETURN void ht_check_failed(const char *cond, const char *file, int line);

/* Returns the status of a call that fails from the calling function. */
#define HT_TRY(call)                                                                               \
	do {                                                                                       \
		enum ht_status ht_try_ = (call);                                                   \
		if (ht_try_ != HT_OK)                                                              \
			return ht_try_;                                                            \
	} while (0)

/* ---- checked sizes ---- */

/* False if the result does not fit; *r is then undefined. */
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

/* The point to which an allocation that fails returns: `if (setjmp(u.env)) return
 * HT_E_ENVIRONMENT;` */
struct ht_unwind {
	jmp_buf env;
};

struct ht_arena {
	struct ht_arena_block *block;
	struct ht_arena_defer *defers;
	struct ht_unwind *unwind; /* not owned; must outlive every allocation */
	size_t bytes;             /* from the system */
};

/* Sets the flag that cancels the work of this thread (NULL: none), and returns the previous one.
 * While *flag is not zero, an arena of the thread that has an unwind point returns to it instead of
 * growing.  So a call that allocates memory ends soon after another thread or a signal handler has
 * set the flag. */
const int32_t *ht_cancel_by(const int32_t *flag);
/* Whether this thread's flag is set. */
bool ht_is_cancelled(void);

/* The caller owns `a` and ends it with ht_arena_release(). */
void ht_arena_init(struct ht_arena *a, struct ht_unwind *u);
/* Runs the deferred calls, the newest first, and releases all memory; the arena is then as after
 * ht_arena_init(). */
void ht_arena_release(struct ht_arena *a);
/* A new arena for temporary memory of a call.  The call releases it, or else it is released with
 * `a`, also if an allocation fails. */
struct ht_arena *ht_arena_within(struct ht_arena *a);
/* Zeroed, aligned to 8 bytes.  n == 0 gives a valid pointer. */
void *ht_alloc(struct ht_arena *a, size_t n);
/* Zeroed array of `count` elements of `size` bytes; an overflow unwinds. */
void *ht_alloc_array(struct ht_arena *a, size_t count, size_t size);
/* Calls `fn(arg)` when the arena is released, or at once if there is no memory to record the
 * call. */
void ht_arena_defer(struct ht_arena *a, void (*fn)(void *), void *arg);
/* Returns to the arena's unwind point, as an allocation that fails does. */
HT_NORETURN void ht_arena_fail(struct ht_arena *a);

/* Zeroed memory from the system for free(), outside of all arenas; NULL: out of memory. */
void *ht_sys_alloc(size_t n);
/* For tests: after `n` more allocations from the system, all allocations of this thread fail; -1:
 * none does. */
void ht_fail_alloc_after(long n);
/* Counts an allocation; true if it must fail.  For code that calls mmap() and the like. */
bool ht_alloc_may_fail(void);

#define HT_NEW(arena, type) ((type *)ht_alloc((arena), sizeof(type)))
#define HT_NEW_ARRAY(arena, type, count) ((type *)ht_alloc_array((arena), (count), sizeof(type)))

/* Makes room for one more element in an array in an arena: doubles its capacity if `count` has
 * reached *cap, and updates *cap.  Returns the array, which may have moved. */
void *ht_grow(struct ht_arena *a, void *items, size_t count, size_t *cap, size_t size);

/* ---- str.c: strings with a length; bytes, not necessarily UTF-8 ---- */

struct ht_str {
	const char *p; /* followed by a NUL that is not counted, if this library made the string */
	size_t n;
};

#define HT_STR(literal) ((struct ht_str){ "" literal, sizeof(literal) - 1 })
#define HT_STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

struct ht_str ht_str(const char *zero_terminated);
struct ht_str ht_str_copy(struct ht_arena *a, struct ht_str s);
/* A copy of the struct `s` in the arena.  Its bytes are not copied and must live as long as the
 * arena. */
const struct ht_str *ht_str_kept(struct ht_arena *a, struct ht_str s);
struct ht_str ht_str_printf(struct ht_arena *a, const char *fmt, ...) HT_PRINTF(2, 3);
bool ht_str_eq(struct ht_str a, struct ht_str b);
bool ht_str_is(struct ht_str a, const char *zero_terminated);
int ht_str_cmp(struct ht_str a, struct ht_str b);
bool ht_str_starts(struct ht_str s, const char *prefix);
bool ht_str_ends(struct ht_str s, const char *suffix);
bool ht_utf8_valid(struct ht_str s);
/* The number of bytes of the well-formed UTF-8 sequence at the start of `p`; 0: there is none. */
size_t ht_utf8_length(const char *p, size_t n);
/* Finds up to 3 of the `n` words that are within edit distance 2 of `s` (a smaller distance for
 * very short ones), the nearest first; for "did you mean".  Returns their number. */
int ht_near_names(struct ht_str s, const struct ht_str *words, size_t n, struct ht_str near[3]);

/* ---- buf.c: a growing byte buffer in an arena ---- */

struct ht_buf {
	struct ht_arena *arena;
	char *p;
	size_t n, cap;
};

void ht_buf_init(struct ht_buf *b, struct ht_arena *a);
/* Makes room for exactly `n` more bytes at once, instead of doubling repeatedly. */
void ht_buf_reserve(struct ht_buf *b, size_t n);
void ht_put(struct ht_buf *b, const void *p, size_t n);
void ht_puts(struct ht_buf *b, const char *s);
void ht_put_str(struct ht_buf *b, struct ht_str s);
void ht_putc(struct ht_buf *b, char c);
void ht_put_int(struct ht_buf *b, int64_t v); /* decimal */
void ht_printf(struct ht_buf *b, const char *fmt, ...) HT_PRINTF(2, 3);
/* Writes `s` as a JSON string with quotes; bytes that are not UTF-8 become \ufffd. */
void ht_put_json(struct ht_buf *b, struct ht_str s);
void ht_put_member(struct ht_buf *b, const char *key, struct ht_str value); /* , "key": "value" */
/* The bytes written so far, followed by a NUL. */
struct ht_str ht_buf_str(struct ht_buf *b);

/* ---- number.c: numbers as text, with a decimal point in every locale.  Print doubles with these,
 * never with "%g". ---- */

/* Writes the fewest digits that are read back as the same number; "inf", "-inf", "nan". */
void ht_put_double(struct ht_buf *b, double v);
void ht_put_float(struct ht_buf *b, float v);
/* Writes "%.*f"; at most 40 decimals. */
void ht_put_fixed(struct ht_buf *b, double v, int decimals);
/* Reads a decimal or hexadecimal number, "inf" or "nan", which must be all of `s`.  A number that
 * is too large gives infinity. */
bool ht_parse_double(struct ht_str s, double *out);
/* Reads a decimal number with an optional sign; false: it is none, or does not fit. */
bool ht_parse_int(struct ht_str s, int64_t *out);

/* ---- map.c: hash table from strings to pointers, which keeps the order of insertion ---- */

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
/* Makes room for exactly `n` keys in an empty map. */
void ht_map_reserve(struct ht_map *m, size_t n);
/* NULL: there is no such key. */
void *ht_map_get(const struct ht_map *m, struct ht_str key);
/* The entry of `key`, added with value NULL if there is none.  The key's bytes are not copied. The
 * pointer is valid until the next call. */
struct ht_map_entry *ht_map_at(struct ht_map *m, struct ht_str key);

/* ---- diag.c ---- */

/* A place in the user's input; every field is optional (NULL, 0, or -1 for `offset`). */
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

/* Diagnostics in the order in which they were recorded.  Not thread-safe.  At most HT_MAX_DIAGS are
 * kept; further ones are only counted. */
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
/* ht_error() at HT_NOWHERE; a call of it takes less code. */
enum ht_status ht_refuse(struct ht_diags *d, enum ht_status st, const char *fmt, ...)
	HT_PRINTF(3, 4);
void ht_warn(struct ht_diags *d, struct ht_where at, const char *fmt, ...) HT_PRINTF(3, 4);
void ht_note(struct ht_diags *d, struct ht_where at, const char *fmt, ...) HT_PRINTF(3, 4);
/* Prints `path:line:col: error: node 'a/b' (MatMul): text` or `path: byte 17: error: text`. */
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
	/* Arrays instead of pointers, so that the table needs no relocations. */
	char name[20];  /* TensorFlow's Python name: "float32", "bfloat16", "int32" */
	char tag[14];   /* short name in the text form: "f32", "bf16", "i32" */
	char proto[22]; /* enumerator in GraphDef text: "DT_FLOAT" */
	size_t bytes;   /* 0: elements have no fixed size */
	enum ht_kind kind;
	int exponent, mantissa; /* bits, for floats */
};

/* The row of any value below HT_DTYPE_END; for a reference type, of the type that it refers to.
 * Never NULL. */
const struct ht_dtype_info *ht_dtype_info(enum ht_dtype t);
/* The type with any of the three names; HT_INVALID: there is none. */
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
/* Whether `t` is a dtype of indices, shapes and sizes: int32 or int64. */
static inline bool ht_is_index(enum ht_dtype t)
{
	return t == HT_I32 || t == HT_I64;
}
/* Whether kernels read and write `t` as floating-point numbers.  They do not support float8. */
static inline bool ht_is_kernel_float(enum ht_dtype t)
{
	return ht_is_f32_or_low(t) || t == HT_F64;
}
/* Bytes of an element as ht_dtype_info() says, of all types whose elements have at least one, without a
 * table: for code of nets. */
static inline size_t ht_element_bytes(enum ht_dtype t)
{
	if (t == HT_C128)
		return 16;
	if (t == HT_F64 || t == HT_I64 || t == HT_U64 || t == HT_C64)
		return 8;
	if (t == HT_F32 || t == HT_I32 || t == HT_U32 || t == HT_QI32)
		return 4;
	return ht_is_low(t) || t == HT_I16 || t == HT_U16 || t == HT_QI16 || t == HT_QU16 ? 2 : 1;
}
/* The bits of infinity in an element of one of the four types that kernels read as floating-point numbers (IEEE 754 and bfloat16): all
 * bits of the exponent and no others.  Without a table, too. */
static inline uint64_t ht_infinity_bits(enum ht_dtype t)
{
	if (t == HT_F64)
		return UINT64_C(0x7ff) << 52;
	if (t == HT_F16)
		return UINT64_C(0x1f) << 10;
	return UINT64_C(0xff) << (t == HT_BF16 ? 7 : 23);
}
/* The smallest positive normal number; 0: `t` is no floating-point type. */
double ht_least_normal(enum ht_dtype t);

/* The next pseudo-random number (splitmix64).  *state is the seed at first; each call changes
 * it. */
uint64_t ht_random(uint64_t *state);

/* ---- half.c: conversions of single numbers, which round to nearest even. float16 keeps subnormals
 * and overflows to infinity.  bfloat16 conversions flush subnormals to zero of the same sign, in
 * both directions, like processors' instructions that multiply pairs of bfloat16. ---- */

float ht_f16_to_f32(uint16_t h);
uint16_t ht_f32_to_f16(float f);
uint16_t ht_f64_to_f16(double d);
float ht_bf16_to_f32(uint16_t h);
/* `f` rounded to 10 bits of fraction, 19 bits in all, as accelerators do with float32 operands of
 * products. */
float ht_f32_to_hf32(float f);
uint16_t ht_f32_to_bf16(float f);
uint16_t ht_f64_to_bf16(double d);

/* ---- shape.c ---- */

/* A dimension: n >= 0 is a size; HT_DIM_UNKNOWN: unknown; n below that is expression number -2 - n
 * in the graph's table of symbolic dimensions (ir/ir.h). */
#define HT_DIM_UNKNOWN ((int64_t)-1)
#define HT_MAX_RANK 254 /* TensorFlow's limit */

struct ht_shape {
	int32_t rank; /* -1: unknown */
	const int64_t *dim;
};

#define HT_SHAPE_UNKNOWN ((struct ht_shape){ -1, NULL })
#define HT_SHAPE_SCALAR ((struct ht_shape){ 0, NULL })

struct ht_shape ht_shape_make(
	struct ht_arena *a, int32_t rank, const int64_t *dim); /* copies `dim` */
bool ht_shape_known(struct ht_shape s); /* rank and all dimensions are sizes */
bool ht_shape_eq(struct ht_shape a, struct ht_shape b);
/* The number of elements of a known shape; -1: the shape is unknown, or the number does not fit. */
int64_t ht_shape_count(struct ht_shape s);
/* The stride of `axis` in a dense row-major tensor, in elements; the shape must be known. */
int64_t ht_shape_stride(struct ht_shape s, int32_t axis);
/* Prints "[1,224,224,3]", "[?,3]", "[]"; "[*]" if the rank is unknown. */
void ht_shape_print(struct ht_shape s, struct ht_buf *out);

/* ---- elements at addresses of any alignment ---- */

/* Constants may lie at any address of a mapped file.  Code that reads single elements uses these
 * functions or memcpy(); kernels and callers read elements in place and need ht_blob_aligned(). */

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

/* Reference-counted bytes: a span of a mapped file, or memory of its own.  A large constant is in
 * memory once.  An owner that needs the bytes no more drops its reference, and the pages go back to
 * the system. */
struct ht_blob {
	const void *p;
	size_t n;
	int refs;
	struct ht_file
		*file; /* the file whose map holds the bytes; NULL: memory from mmap or malloc */
	struct ht_blob *whole; /* the blob that contains these bytes; NULL: none */
	size_t mapped;         /* size of the memory from mmap in bytes; 0: memory from malloc */
};

/* `n` writable zeroed bytes, aligned to 64; on huge pages if they fill some.  NULL: out of
 * memory. */
struct ht_blob *ht_blob_new(size_t n);
/* A blob with a copy of `n` bytes, aligned for every type of element.  NULL: out of memory. */
struct ht_blob *ht_blob_copy(const void *p, size_t n);
/* As ht_blob_new(), but the arena releases this reference, and an allocation that fails unwinds. */
struct ht_blob *ht_blob_in(struct ht_arena *a, size_t n);
/* `n` bytes of `whole`, to which the part holds a reference.  NULL: out of memory. */
struct ht_blob *ht_blob_part(struct ht_blob *whole, size_t offset, size_t n);
/* A span of a mapped file, to which the blob holds a reference.  NULL: out of memory. */
struct ht_blob *ht_blob_of_file(struct ht_file *f, size_t offset, size_t n);
/* Whether the bytes are in a mapped file: blobs from ht_blob_of_file(), and parts of them. */
bool ht_blob_in_file(const struct ht_blob *b);
struct ht_blob *ht_blob_ref(struct ht_blob *b);
/* One more reference to `b` if its bytes are aligned to `align`.  Otherwise an aligned copy, made
 * on up to `threads` threads; the pages of a file's span are then dropped.  NULL: out of memory. */
struct ht_blob *ht_blob_aligned(struct ht_blob *b, size_t align, int threads);
/* Drops a reference; the last one frees the memory.  Each call also drops the resident pages of a
 * file's span: a later read loads them from the file again. */
void ht_blob_unref(struct ht_blob *b);

/* ---- pages.c ---- */

/* `n` zeroed bytes, a multiple of the system's page size, to be freed with munmap().  They are on
 * huge pages if they fill some and the system provides them by itself.  NULL: out of memory. */
void *ht_map_usual(size_t n);
/* Maps `n` zeroed bytes in reserved huge pages of 1 << log_page bytes; NULL: there are too few.
 * Tests replace the function. */
extern void *(*ht_map_reserved)(size_t n, int log_page);

/* Memory that is handed out in pieces and freed as a whole.  The caller sets `pages`; all other
 * members begin as zeros. */
struct ht_page_pool {
	enum ht_pages pages; /* not HT_PAGES_USUAL */
	size_t least;        /* the smallest page size that it got, in bytes; 0: usual pages */
	struct ht_page_area *area;
};
/* `n` zeroed bytes at a multiple of 64; NULL: the system has no such pages, and
 * ht_page_pool_refused() reports that. */
void *ht_page_pool_take(struct ht_page_pool *pool, size_t n);
void ht_page_pool_free(struct ht_page_pool *pool);
enum ht_status ht_page_pool_refused(
	const struct ht_page_pool *pool, const char *what, size_t n, struct ht_diags *d);
/* Warns if the pages are smaller than the requested ones. */
void ht_page_pool_tell(const struct ht_page_pool *pool, const char *what, struct ht_diags *d);

/* ---- mapped.c ---- */

/* Registered maps of files.  If a file loses bytes while it is mapped, the result is an error and
 * not the end of the process.  Any thread may call these functions.  SIGBUS is the only sign that
 * they have: a change of a file that does not shorten it goes unnoticed. */
struct ht_mapped;

/* Registers the map of `n` bytes (not 0) of file `path` at `p`.  The caller keeps `path` until
 * ht_mapped_free().  NULL: out of memory. */
struct ht_mapped *ht_mapped_new(const char *path, const void *p, size_t n);
void ht_mapped_free(struct ht_mapped *m);
/* Handles SIGBUS from now on: lost pages of a registered map become zeros.  All other signals go to
 * the handlers that they had. */
void ht_mapped_guard(void);
/* The number of maps that have lost pages since the process began. */
unsigned ht_mapped_lost(void);
/* HT_E_INPUT, with a diagnostic: the map that contains `p` has lost pages. */
enum ht_status ht_mapped_check(const void *p, struct ht_diags *d);
/* Likewise: a map that still exists has lost pages since ht_mapped_lost() was `number`. */
enum ht_status ht_mapped_check_since(unsigned number, struct ht_diags *d);

/* ---- file.c ---- */

/* Two equal stamps mean the same file with the same bytes, while the system runs and if the file
 * was not changed in the last moment. */
struct ht_file_stamp {
	uint64_t
		mount; /* a number that is never reused; 0: the file system does not guarantee this */
	uint64_t
		device; /* beside the mount, since each Btrfs subvolume of one mount numbers its own files */
	uint64_t inode, bytes;
	int64_t modified_ns, changed_ns;
};
/* The present stamp of the file at `path`; all zeros: there is no such file. */
struct ht_file_stamp ht_file_stamp(const char *path);
struct ht_file_stamp ht_file_stamp_of(int fd);

/* A whole file, mapped read-only.  Reference-counted. */
struct ht_file {
	const char *path;
	const uint8_t *p;
	size_t n;
	int refs;
	struct ht_file_stamp stamp; /* from the time of mapping */
	int fd;                     /* of a watched file; -1: the file is not watched */
	struct ht_mapped *mapped;   /* NULL: the file is empty */
};

/* Refuses files of `limit` bytes and more with HT_E_LIMIT.  mapped.c handles files that become
 * shorter while they are mapped. */
enum ht_status ht_file_map(
	const char *path, size_t limit, struct ht_diags *d, struct ht_file **out);
/* As ht_file_map(); the caller can later ask whether the file has changed. */
enum ht_status ht_file_map_watched(
	const char *path, size_t limit, struct ht_diags *d, struct ht_file **out);
/* Whether a watched file was written to since it was mapped.  Replacing it under its name, renaming
 * it and removing it change no mapped byte. */
bool ht_file_changed(const struct ht_file *f);
struct ht_file *ht_file_ref(struct ht_file *f);
void ht_file_unref(struct ht_file *f);
/* An output file that appears whole or not at all: a temporary file beside `path`, which
 * ht_output_commit() renames.  "-" is stdout.  If a signal ends the process, the process removes
 * its temporary files (ht_output_install_signals(), for the tool only). */
struct ht_output;
enum ht_status ht_output_open(const char *path, struct ht_diags *d, struct ht_output **out);
enum ht_status ht_output_write(struct ht_output *o, const void *p, size_t n);
/* Writes all buffered bytes to the file, so that ht_output_commit() cannot fail for lack of
 * space. */
enum ht_status ht_output_flush(struct ht_output *o);
enum ht_status ht_output_commit(struct ht_output *o); /* frees `o` */
void ht_output_abort(struct ht_output *o);            /* frees `o`; NULL does nothing */
/* Whether a writable file `path` has these bytes already.  If so, its times are updated, and the
 * processes that map it keep sharing its pages.  (When a file is replaced, some file systems first
 * write all of the new one to the disk.) */
bool ht_output_is_there(const char *path, struct ht_str bytes);
void ht_output_install_signals(void);

/* ---- spill.c ---- */

/* A file without a name for bytes that would take too much memory.  It is in the folder of the
 * output `path`, or in $TMPDIR if the output is no regular file. */
struct ht_spill;
enum ht_status ht_spill_open(const char *path, struct ht_diags *d, struct ht_spill **out);
void ht_spill_free(struct ht_spill *s); /* also unmaps the spilled bytes; NULL does nothing */
/* Writes each piece to the file and makes it point to the mapped copy, at a multiple of 64 bytes.
 * HT_E_ENVIRONMENT: the pieces are unchanged. */
enum ht_status ht_spill_pieces(
	struct ht_spill *s, struct ht_str *piece, size_t n, struct ht_diags *d);
/* HT_OK if all bytes in the file are as they were written. */
enum ht_status ht_spill_check(const struct ht_spill *s, struct ht_diags *d);

/* ---- thread.c ---- */

/* One thread's share of some work; 0 <= `worker` < the number of threads. */
typedef void ht_thread_fn(void *arg, int worker);
/* Calls fn on up to `threads` threads at once, of which the caller is worker 0; returns when all
 * have finished.  If the system has fewer threads, some workers are missing, so the workers must
 * take their pieces from a common list as they go. */
void ht_on_threads(int threads, ht_thread_fn *fn, void *arg);
/* The number of threads to use: at most `threads`, `pieces`, and the library's limit. */
int ht_thread_limit(int threads, int32_t pieces);
/* Calls fn for all of [0, n), in pieces of `piece` elements, on up to `threads` threads. */
typedef void ht_range_fn(void *arg, size_t begin, size_t end);
void ht_on_ranges(int threads, size_t n, size_t piece, ht_range_fn *fn, void *arg);

/* ---- hash.c ---- */

struct ht_hash {
	uint64_t lo, hi;
};

/* XXH3-128. */
struct ht_hash ht_hash_bytes(const void *p, size_t n);
struct ht_hash ht_hash_pieces(
	const struct ht_str *piece, size_t n); /* of the concatenated pieces */
bool ht_hash_eq(struct ht_hash a, struct ht_hash b);

/* ---- module.c: modules that are loaded on first use ---- */

struct ht_module {
	const char *what, *file, *variable,
		*symbol; /* the environment variable with another path of the module */
	int abi;         /* the number with which the symbol begins */
	/* Whether the module matches this library in more than its ABI number; NULL: it always
	 * does. */
	bool (*fits)(const void *symbol);
	const void *loaded; /* the symbol */
};
/* Loads the module at `path` (NULL: beside the library that contains this code); *out: its
 * symbol. */
enum ht_status ht_module_load(
	struct ht_module *m, const char *path, struct ht_diags *d, const void **out);

/* ---- sha256.c: digests that detect deliberate changes as well ---- */

void ht_sha256(const void *p, size_t n, uint8_t digest[32]);
/* A digest of bytes that arrive in pieces. */
struct ht_sha256 {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t rest[64];
};
void ht_sha256_begin(struct ht_sha256 *s);
void ht_sha256_add(struct ht_sha256 *s, const void *p, size_t n);
void ht_sha256_end(struct ht_sha256 *s, uint8_t digest[32]);

#endif
