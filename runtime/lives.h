/* lives: live ranges of the temporary buffers of a frame.
 *
 * Under AddressSanitizer (HT_POISONS) memory of a frame is poisoned while no buffer in it is in use, so
 * kernels in C and readers of the frame fail there.  A buffer is filled with 0xff first, a NaN in every
 * float type, which generated code then computes with.  Other builds do not call this. */
#ifndef HT_RUNTIME_LIVES_H
#define HT_RUNTIME_LIVES_H

#include "base/base.h"
#include "base/poison.h"
#include "image/execute.h"

struct ht_lives;
struct ht_lives *ht_lives_new(const struct ht_image *x); /* NULL: out of memory */
void ht_lives_free(struct ht_lives *l);
/* Called when a procedure begins: nothing of its frame is in use.  If the procedure has
 * branches, loops, calls or copies, all of its frame counts as used. */
void ht_lives_enter(const struct ht_lives *l, const struct ht_exec_frame *f);
/* Before step `step` of the image, when all steps before it are done.  `size`: those of the run. */
void ht_lives_step(const struct ht_lives *l, const struct ht_exec_frame *f, uint32_t step,
	const int64_t *size);
/* Makes this memory readable again. */
void ht_lives_end(char *temps, size_t bytes);

#endif
