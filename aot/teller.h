/* teller: what a net tells of a run that stopped.  Like the runner, it is one piece of code that each net contains and that refers to
 * nothing outside of itself; it is apart because a run that succeeds does not need it.
 *
 * A run that stops leaves a record in its arena, in place of the control memory of the first thread, which is at the arena's begin.
 * The record has no addresses, and the functions that read it check every number, so they may be given any memory. */
#ifndef HT_AOT_TELLER_H
#define HT_AOT_TELLER_H

#include "aot/runner.h"
#include "image/stop.h"

enum {
	HT_AOT_RECORD = 128, /* offset of the record in the arena */
	HT_AOT_WORDS = 1024  /* of the message of a step, with its final zero */
};
#define HT_AOT_MARK UINT64_C(0x706f747374656e01)

struct ht_aot_record {
	int32_t code;  /* 0: the last run did not stop, whatever follows */
	uint32_t node; /* text of the image: the node at which the run stopped */
	uint64_t mark; /* HT_AOT_MARK */
	struct ht_stop_places places;
	char words[]; /* HT_AOT_WORDS, in the nets in which a step has a message */
};

/* Bytes from the arena's begin to the record's end, a multiple of 64. */
static inline uint64_t ht_aot_record_end(const struct ht_image *x)
{
	uint64_t n = HT_AOT_RECORD + sizeof(struct ht_aot_record) +
		     (x->table[HT_IMAGE_WORDS].count ? HT_AOT_WORDS : 0);

	return (n + 63) & ~(uint64_t)63;
}

/* `struct net_stop` of a net's header, which says what the members mean. */
struct ht_aot_stop {
	int status, places;
	const char *node, *message;
	struct {
		const char *node;
		int64_t iteration;
	} place[HT_STOP_MOST];
};

/* Writes the record of a run that has stopped. */
typedef void ht_aot_record_fn(const struct ht_exec *x);
ht_aot_record_fn ht_aot_record;

/* The functions of a net; its header says what they do. */
const char *ht_aot_status_text(int status, const struct ht_aot_plan *plan);
void ht_aot_stopped(
	int status, const void *arena, struct ht_aot_stop *stop, const struct ht_aot_plan *plan);
size_t ht_aot_stop_text(
	int status, const void *arena, char *text, size_t bytes, const struct ht_aot_plan *plan);

/* The address of that code in this process. */
extern const char ht_aot_teller_begin[] __asm__("__start_ht_aot_teller")
	__attribute__((visibility("hidden")));
extern const char ht_aot_teller_end[] __asm__("__stop_ht_aot_teller")
	__attribute__((visibility("hidden")));

#endif
