/* Internal: the objects of a context's runs. */
#ifndef HT_RUNTIME_OBJECTS_H
#define HT_RUNTIME_OBJECTS_H

#include "runtime/runtime.h"

/* Called around each run of an image that has objects.  The first makes the objects that belong
 * to a run.  False: one could not be made; *fault says which, and those made before are
 * released. */
bool ht_objects_begin(struct ht_rt_context *c, struct ht_rt_fault *fault);
/* Releases the objects of the run. */
void ht_objects_end(struct ht_rt_context *c);
/* Gives the session's objects that runs change, if they are the context's, what they began with. */
void ht_objects_reset(struct ht_rt_context *c);
/* Releases all objects of the context. */
void ht_objects_free(struct ht_rt_context *c);

#endif
