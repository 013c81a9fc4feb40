/* Internal: the objects of a context's runs. */
#ifndef HT_RUNTIME_OBJECTS_H
#define HT_RUNTIME_OBJECTS_H

#include "runtime/runtime.h"

/* Around each run of an image that has objects.  Makes those that belong to a run.  False: one cannot be made, *fault says which, and none is left. */
bool ht_objects_begin(struct ht_rt_context *c, struct ht_rt_fault *fault);
/* Releases the objects of the run. */
void ht_objects_end(struct ht_rt_context *c);
/* Releases all objects of the context. */
void ht_objects_free(struct ht_rt_context *c);

#endif
