/* aot: shared by the files that compile ahead of time. */
#ifndef HT_API_AOT_H
#define HT_API_AOT_H

#include "aot/object.h"
#include "api/api.h"

/* A net: programs of one model, each for another target; the best one comes first. */
struct ht_aot {
	const struct ht_program **program;
	size_t programs;
	const char *name, *prefix;
	const char *upper; /* the prefix in capitals */
	bool external;     /* weights are in a file */
	bool keep_subnormals;
	uint64_t iterations; /* the most iterations that a loop may have */
	struct ht_arena *arena;
	struct ht_diags *diags;
	struct ht_obj obj;
	uint64_t code_bytes, weight_bytes;  /* bytes that programs share count once */
	uint64_t arena_bytes, thread_bytes; /* of the net; thread_bytes: in addition for each
					     * thread */
	struct ht_str metadata;
};

/* aot_net.c: the object from the programs. */
uint64_t ht_aot_needs(
	const char *target); /* as in struct ht_aot_level: a higher level is better.  The target
			      * is a known one. */
enum ht_status ht_aot_make(struct ht_aot *a);

/* The memory of a run, which has room for what the run leaves behind if it stops.  False: it takes more memory than there can be. */
bool ht_aot_memory(const struct ht_image *x, struct ht_exec_needs *memory);

/* aot_status.c: the return values of the net's functions: `enum net_status` of the header, and the texts in the net, which are like
 * ht_fault_texts. */
void ht_aot_put_status(const struct ht_aot *a, struct ht_buf *out);
void ht_aot_put_texts(const struct ht_aot *a, struct ht_buf *out);

/* aot.c: whether a run needs memory that keeps its content (ht_aot_level.kept), and how much;
 * whether derived buffers are part of it; whether some derived buffers are made from this input.
 * ht_aot_place_kept() sets the places of the kept memory from the image of a level. */
struct ht_aot_level;
void ht_aot_place_kept(const struct ht_image *x, struct ht_aot_level *level);
bool ht_aot_keeps(const struct ht_aot *a);
uint64_t ht_aot_kept_bytes(const struct ht_aot *a);
bool ht_aot_derives(const struct ht_aot *a);
bool ht_aot_is_steady(const struct ht_aot *a, size_t input);

/* aot_text.c and aot_header.c: the files for people and for build systems. */
struct ht_str ht_aot_metadata(const struct ht_aot *a);
/* The names of the open sizes, each behind `before`, with commas between: "rows, dim1". */
const char *ht_aot_sizes(const struct ht_aot *a, const char *before);
void ht_aot_put_shape(struct ht_buf *out, const struct ht_value_info *v); /* "1, 4" */
void ht_aot_header(const struct ht_aot *a, struct ht_buf *out);
/* aot_places.c: the function that tells how much of the arena runs with given sizes use; nothing where that is all of it. */
void ht_aot_put_arena(const struct ht_aot *a, struct ht_buf *out);
/* aot_header.c: size `i` of an image as a C expression of the sizes that the caller states, a size that the run computes as the most that it
 * can be; for ht_size_print(). */
void ht_aot_put_size(const void *image, int32_t i, struct ht_buf *out);
/* Whether the run computes sizes, and the open sizes are followed by all others in the caller's memory. */
bool ht_aot_computes(const struct ht_aot *a);
/* The arguments of the macro for the room of a value with open extents: "_FOR(rows)", with `before` in front of each size; "": it has none, since
 * the caller states no size. */
const char *ht_aot_for(const struct ht_aot *a, const char *before);
void ht_aot_example(const struct ht_aot *a, struct ht_buf *out);
void ht_aot_pkg_config(const struct ht_aot *a, struct ht_buf *out);
void ht_aot_cmake(const struct ht_aot *a, struct ht_buf *out);

#endif
