/* save: shared by the files that write artefacts and those that make plans of programs. */
#ifndef HT_API_SAVE_H
#define HT_API_SAVE_H

#include "api/api.h"

/* Kernels and weights of all programs of a file; equal ones are stored once. */
struct ht_saving {
	struct ht_arena *arena;
	struct ht_buf code;
	struct ht_map kernel; /* offset in the code, by SHA-256 */
	struct ht_map weight; /* number, by hash and size */
	struct ht_str *bytes; /* bytes of each weight, which belong to its program */
	size_t weights, weight_room;
};
void ht_saving_init(struct ht_saving *s, struct ht_arena *a);
/* The number of a weight; equal weights have one number. */
size_t ht_saving_weight(struct ht_saving *s, struct ht_str bytes);
struct ht_program_plan ht_saving_plan(struct ht_saving *s, const struct ht_program *p);

#endif
