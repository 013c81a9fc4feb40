/* lives: when the temporary buffers of a frame are in use.
 *
 * Under AddressSanitizer (HT_POISONS) the memory of a frame is poisoned while none of its buffers is in use, which kernels
 * in C and readers of the frame then end by; a buffer begins as 0xff, a NaN in every float type,
 * which generated code then computes with.  Otherwise nobody calls this. */
#ifndef HT_RUNTIME_LIVES_H
#define HT_RUNTIME_LIVES_H

#include "base/base.h"
#include "base/poison.h"
#include "image/execute.h"

struct ht_lives;
struct ht_lives *ht_lives_new(const struct ht_image *x); /* NULL: out of memory */
void ht_lives_free(struct ht_lives *l);
/* A procedure begins: nothing of its frame is in use.  Of one with branches, loops, calls or copies all of
 * it counts as used. */
void ht_lives_enter(const struct ht_lives *l, const struct ht_exec_frame *f);
/* Before step `step` of the image, when all steps before it are done. */
void ht_lives_step(const struct ht_lives *l, const struct ht_exec_frame *f, uint32_t step);
/* What is in this memory may be read. */
void ht_lives_end(char *temps, size_t bytes);

#endif
