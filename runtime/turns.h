/* Internal: taking turns (struct ht_rt_turns of runtime.h). */
#ifndef HT_RUNTIME_TURNS_H
#define HT_RUNTIME_TURNS_H

#include "runtime/runtime.h"

enum ht_turn { HT_TURN_TAKEN, HT_TURN_LATE, HT_TURN_CANCELLED };
/* Waits for a turn until the clock (ht_now_ns()) reaches `until` or *cancel is not 0; `cancel`
 * may be NULL. */
enum ht_turn ht_turn_take(struct ht_rt_turns *t, int64_t until, const int32_t *cancel);
void ht_turn_give(struct ht_rt_turns *t);
/* How many runs wait. */
size_t ht_turns_waiting(struct ht_rt_turns *t);

#endif
