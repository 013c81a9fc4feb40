/* A function that runs on a stack of its own, in the caller's thread, and may pause until the caller lets it go on.  One thread uses a
 * coroutine.  The function returns to its caller, and may unwind with longjmp() only to where it or what it calls has been; a stack that
 * overflows ends the process by SIGSEGV. */
#ifndef HT_API_COROUTINE_H
#define HT_API_COROUTINE_H

#include <stdbool.h>

struct ht_coroutine;
typedef void ht_coroutine_fn(void *arg);

/* NULL: no memory for its stack. */
struct ht_coroutine *ht_coroutine_new(void);
void ht_coroutine_free(struct ht_coroutine
		*c); /* its function has returned, or was never started; NULL: nothing */
/* Runs `fn` until it pauses or returns.  The function that was started before has returned. */
void ht_coroutine_start(struct ht_coroutine *c, ht_coroutine_fn *fn, void *arg);
/* Lets a function that paused go on until it pauses again or returns. */
void ht_coroutine_resume(struct ht_coroutine *c);
/* Called by the function: returns when it is resumed. */
void ht_coroutine_pause(struct ht_coroutine *c);
bool ht_coroutine_ended(const struct ht_coroutine *c);

#endif
