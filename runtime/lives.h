/* lives: when the buffers in a program's arena are in use.
 *
 * Under AddressSanitizer (HT_POISONS) memory is poisoned while none of its buffers is in use, which kernels
 * in C and readers of the arena then end by; a buffer begins as 0xff, a NaN in every float type,
 * which generated code then computes with.  Otherwise nobody calls this. */
#ifndef HT_RUNTIME_LIVES_H
#define HT_RUNTIME_LIVES_H

#include "base/poison.h"
#include "runtime/runtime.h"

struct ht_lives;
struct ht_lives *ht_lives_new(const struct ht_rt_program *p); /* NULL: out of memory */
void ht_lives_free(struct ht_lives *l);
/* Before a run: nothing is in use. */
void ht_lives_begin(const struct ht_lives *l, char *arena);
/* Between steps i - 1 and i, neither of which runs. */
void ht_lives_step(const struct ht_lives *l, char *arena, int32_t i);
/* Behind a run: what is in the arena may be read. */
void ht_lives_end(const struct ht_lives *l, char *arena);

#endif
