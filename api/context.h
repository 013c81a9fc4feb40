/* The members of a context, for the files that make, run and read contexts. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include "api/device.h"
#include "api/tee.h"
#include "api/texts.h"

/* Memory of an output until its size is known. */
struct kept_output {
	void *memory; /* NULL: none yet */
	size_t bytes;
	bool used; /* in the current run */
};

struct ht_context {
	const struct ht_program *program;
	struct ht_rt_pool *pool; /* NULL: it uses another context's */
	struct ht_rt_context *rt;
	struct ht_seeing *seeing;  /* or NULL */
	struct ht_page_pool pages; /* memory of its own variables, in large pages */
	const void **in;
	void **out;
	char **variable; /* the caller's variables, or those in large pages; NULL: its own in
			  * normal pages */
	void (*allocate)(void *arg, size_t output, const int64_t *dim, size_t bytes, void **memory);
	void *allocate_arg;
	struct kept_output *kept; /* by output; NULL: no output is allocated by the caller's
				   * function */
	struct ht_texts *texts;   /* NULL: no input or output is of strings */
	bool keep_subnormals;
	struct ht_exec_limits limits;
	size_t memory_bytes;               /* of the caller's memory; 0: what any run needs */
	uint64_t seed;                     /* of random ops that have none */
	bool ran;                          /* the last run succeeded */
	int64_t size[HT_IMAGE_MOST_SIZES]; /* of the current run */
};

#endif
