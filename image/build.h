/* build: writes an image.  Procedures are written one at a time, callees before their callers. */
#ifndef HT_IMAGE_BUILD_H
#define HT_IMAGE_BUILD_H

#include "base/base.h"
#include "base/size_math.h"
#include "base/words.h"
#include "image/image.h"

struct ht_image_builder {
	struct ht_arena *arena;
	struct ht_buf table[HT_IMAGE_TABLES];
	struct ht_map text;                     /* offset + 1 */
	struct ht_image_procedure procedure;    /* the current one */
	uint32_t loop;                          /* innermost open loop: its step + 1 */
	uint64_t variable_bytes, derived_bytes; /* of all so far */
	bool sized, computed, strings,
		besides; /* something has HT_IMAGE_SIZED, HT_IMAGE_COMPUTED, HT_IMAGE_STRINGS, HT_IMAGE_BESIDES */
};

void ht_image_begin(struct ht_image_builder *b, struct ht_arena *a);
/* Ends the image, which is in the builder's arena, at a multiple of HT_IMAGE_ALIGN. */
struct ht_str ht_image_end(struct ht_image_builder *b);

uint32_t ht_image_put_text(struct ht_image_builder *b, struct ht_str s);
/* `name`: the name of a library kernel; "": generated code. */
uint32_t ht_image_put_kernel(struct ht_image_builder *b, const char *name,
	const struct ht_image_touch *touch, size_t args, size_t params, uint64_t scratch_bytes);
uint32_t ht_image_put_constant(struct ht_image_builder *b, uint64_t bytes);
uint32_t ht_image_put_stream(struct ht_image_builder *b, const struct ht_image_stream *s);
struct ht_image_variable_text {
	struct ht_str name;
	enum ht_dtype dtype;
	struct ht_shape shape;
	uint64_t bytes;
	uint32_t constant, use; /* as in struct ht_image_variable */
};
uint32_t ht_image_put_variable(struct ht_image_builder *b, const struct ht_image_variable_text *v);

/* Adds a derived buffer that steps make from these sources. */
uint32_t ht_image_put_derived(struct ht_image_builder *b, uint64_t bytes,
	const struct ht_image_source *source, size_t sources);

struct ht_image_object_text {
	struct ht_str name;
	const char *kind;
	enum ht_image_owner owner;
	const uint32_t *constant; /* numbers of constants */
	size_t constants;
	const int64_t *param;
	size_t params;
};
uint32_t ht_image_put_object(struct ht_image_builder *b, const struct ht_image_object_text *o);
/* The declaration that a kernel's argument is an object of this kind. */
struct ht_image_touch ht_image_object_touch(struct ht_image_builder *b, const char *kind);

/* Adds a size that the host states for each run, or a number that depends on it.  Returns its
 * number. */
uint32_t ht_image_put_size(
	struct ht_image_builder *b, struct ht_str name, int64_t least, int64_t most);
/* Adds a size, from 0 to `most`, that a step of the run computes and kernels read. */
uint32_t ht_image_put_computed_size(struct ht_image_builder *b, struct ht_str name, int64_t most);
/* Adds a size that follows from another one, which was put before, by factor, add and divisor. */
uint32_t ht_image_put_derived_size(struct ht_image_builder *b, struct ht_str name, int64_t least,
	int64_t most, const struct ht_size_expr *from);
/* times * floor(size / divisor).  Two expressions that are put one after the other have
 * consecutive numbers. */
uint32_t ht_image_put_expression(struct ht_image_builder *b, const struct ht_size_expr *e);
/* The product of a number and at least one size.  An equal product that was put before is used
 * again. */
uint32_t ht_image_put_product(struct ht_image_builder *b, const struct ht_size_expr *e);

/* Bytes that depend on sizes: `add` more than a product of sizes, or `add` alone if `of` has no sizes. */
struct ht_reach {
	uint64_t add;
	struct ht_size_expr of;
};
struct ht_image_reach ht_image_reach_of(struct ht_image_builder *b, const struct ht_reach *r);
/* How far the arguments of the kernel that was put last reach.  Only for an image with places: of each of its kernels. */
void ht_image_put_reaches(struct ht_image_builder *b, const struct ht_image_reach *r, size_t n);
/* A place for temporary buffers of the entry's procedure: in the order of struct ht_image_place_of. */
void ht_image_put_place(struct ht_image_builder *b, const struct ht_image_place_of *p);

/* ---- a procedure ---- */

void ht_image_begin_procedure(struct ht_image_builder *b, struct ht_str name);
/* Ends the procedure and returns its number. */
uint32_t ht_image_end_procedure(struct ht_image_builder *b, uint64_t frame_bytes);
/* Returns the buffer's number in the procedure; parameters come first.  The offset of a derived
 * buffer counts from where it begins. */
uint32_t ht_image_put_buffer(struct ht_image_builder *b, struct ht_image_buffer buffer);

struct ht_image_note_text {
	struct ht_str node, method;
	const struct ht_words *words;
	size_t words_count;
};
/* Takes op, `to` and `count` from `s`; returns the step's number in the procedure.  A LOOP must use a
 * counter that no loop around it uses; for AGAIN call ht_image_put_again(). */
uint32_t ht_image_put_step(struct ht_image_builder *b, struct ht_image_step s, const uint32_t *arg,
	size_t args, const int64_t *param, size_t params, const struct ht_image_note_text *note);
/* Ends an iteration of the innermost loop. */
uint32_t ht_image_put_again(struct ht_image_builder *b, const struct ht_image_note_text *note);
/* Makes the next step the target of the JUMP or UNLESS `step`. */
void ht_image_land(struct ht_image_builder *b, uint32_t step);

/* ---- an entry ---- */

struct ht_image_port_text {
	struct ht_str name, alias;
	enum ht_dtype dtype;
	struct ht_shape shape;
	uint64_t bytes;
	const void *value; /* an input's default; NULL: none */
};
uint32_t ht_image_put_entry(struct ht_image_builder *b, struct ht_str name, uint32_t procedure,
	const struct ht_image_port_text *input, size_t inputs,
	const struct ht_image_port_text *output, size_t outputs);

#endif
