/* Status codes and element types, shared by every part of the library. */
#ifndef HALFTONE_TYPES_H
#define HALFTONE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a call that can fail.  The values are the exit codes of the command line tool. */
enum ht_status {
	HT_OK = 0,
	HT_E_VERDICT = 1,     /* done, but the answer is negative: a tolerance was exceeded */
	HT_E_USAGE = 2,       /* an argument or option is invalid */
	HT_E_INPUT = 3,       /* the model, data or list file is invalid */
	HT_E_UNSUPPORTED = 4, /* the input is valid, but not supported here */
	HT_E_ENVIRONMENT = 5, /* reading, writing or allocating failed */
	HT_E_LIMIT = 6,       /* a limit was reached */
	HT_E_INTERNAL = 70    /* a defect of Halftone */
};

enum ht_severity { HT_ERROR, HT_WARNING, HT_NOTE };

/* Element types.  The values are TensorFlow's DataType numbers, so that graphs keep also the types
 * that Halftone cannot compute with. */
enum ht_dtype {
	HT_INVALID = 0,
	HT_F32 = 1,
	HT_F64 = 2,
	HT_I32 = 3,
	HT_U8 = 4,
	HT_I16 = 5,
	HT_I8 = 6,
	HT_STRING = 7,
	HT_C64 = 8,
	HT_I64 = 9,
	HT_BOOL = 10,
	HT_QI8 = 11,
	HT_QU8 = 12,
	HT_QI32 = 13,
	HT_BF16 = 14,
	HT_QI16 = 15,
	HT_QU16 = 16,
	HT_U16 = 17,
	HT_C128 = 18,
	HT_F16 = 19,
	HT_RESOURCE = 20,
	HT_VARIANT = 21,
	HT_U32 = 22,
	HT_U64 = 23,
	HT_F8E5M2 = 24,
	HT_F8E4M3FN = 25,
	HT_F8E4M3FNUZ = 26,
	HT_F8E4M3B11FNUZ = 27,
	HT_F8E5M2FNUZ = 28,
	HT_I4 = 29,
	HT_U4 = 30,
	HT_I2 = 31,
	HT_U2 = 32,
	HT_F4E2M1FN = 33,
	HT_DTYPE_END = 34,
	HT_REF = 100 /* added to a type: a reference to a variable of that type */
};

/* Pages of memory.  An administrator may set pages of 1 GB and of 2 MB apart (/sys/kernel/mm/hugepages), which programs have to ask
 * for. */
enum ht_pages {
	HT_PAGES_USUAL, /* what the system gives of itself: 4 kB, and 2 MB where memory is large */
	HT_PAGES_1G,    /* pages of 1 GB; an error where too few are free */
	HT_PAGES_1G_OR_LESS, /* likewise, else pages of 2 MB, else the usual ones; a warning tells */
};

/* The name of the size of first dimensions that are open, unless it has another one (struct ht_size_info). */
#define HT_SIZE_OF_ROWS "rows"

/* No cache; read from the cache only; read and write. */
enum ht_cache_mode { HT_CACHE_OFF, HT_CACHE_RO, HT_CACHE_RW };

#ifdef __cplusplus
}
#endif
#endif
