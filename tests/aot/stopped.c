/* What the net "nested" tells of runs that stopped: the record in the arena, the sentence in memory of any size, and nothing of arenas in which
 * no run stopped, whatever is in them. */
#include "nested.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { ROOM = 400 };
static const float good[] = { 0, 0.01F, 0.02F, 0.03F }, bad[] = { 2, 1.5F, 0.1F, 3 };

/* Runs on one arena; the memory of the inputs is gone afterwards, as that of a function that returned. */
static int run(const float *x, void *arena)
{
	float in[4], out[4];
	const void *inputs[NESTED_INPUTS + 1] = { in };
	void *outputs[NESTED_OUTPUTS + 1] = { out };
	int status;

	memcpy(in, x, sizeof in);
	status = nested_run(inputs, outputs, arena);
	memset(in, -1, sizeof in);
	return status;
}

static void *new_arena(void)
{
	void *arena = aligned_alloc(NESTED_ARENA_ALIGN, NESTED_ARENA_BYTES);

	CHECK(arena);
	memset(arena, -1, NESTED_ARENA_BYTES);
	return arena;
}

static void check_record(const void *arena)
{
	struct nested_stop stop;

	nested_stopped(NESTED_E_ASSERTION, arena, &stop);
	CHECK(stop.status == NESTED_E_ASSERTION && stop.places == 2);
	CHECK(!strcmp(stop.node, "check"));
	CHECK(!strcmp(stop.message, "[[32 24][1.6 48]] [1]"));
	CHECK(!strcmp(stop.place[0].node, "inner") && stop.place[0].iteration == 2);
	CHECK(!strcmp(stop.place[1].node, "outer") && stop.place[1].iteration == 2);
}

/* The arena has no record of a run that returned `status`. */
static void check_none(int status, const void *arena)
{
	char text[ROOM];
	struct nested_stop stop;
	size_t n = nested_stop_text(status, arena, text, sizeof text);

	CHECK(n == strlen(text) && !strcmp(text, nested_status_text(status)));
	nested_stopped(status, arena, &stop);
	CHECK(stop.status == status && !stop.node && !stop.message && !stop.places);
}

static void check_rooms(const void *arena)
{
	char whole[ROOM], part[ROOM];
	size_t n = nested_stop_text(NESTED_E_ASSERTION, arena, whole, sizeof whole);

	CHECK(n == strlen(whole) && n < sizeof whole);
	CHECK(nested_stop_text(NESTED_E_ASSERTION, arena, NULL, 0) == n);
	for (size_t room = 1; room <= n + 1; room++) {
		memset(part, '*', sizeof part);
		CHECK(nested_stop_text(NESTED_E_ASSERTION, arena, part, room) == n);
		CHECK(strlen(part) == room - 1 && part[room] == '*');
		CHECK(room > n || room < 5 || !strcmp(part + room - 4, "..."));
		CHECK(!strncmp(part, whole, room > 4 ? room - 4 : 0));
	}
}

/* Bytes of the record change at random: what is read of it stays within the net and the arena. */
static void check_damage(const char *arena)
{
	char *copy = (char *)new_arena(), text[1 << 14];
	struct nested_stop stop;
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		memcpy(copy, arena, NESTED_ARENA_BYTES);
		for (int k = 0; k <= i % 3; k++) {
			seed = seed * 1103515245U + 12345U;
			copy[128 + (seed >> 8) % (i & 1 ? 80 : 1500)] = (char)(seed >> 24);
		}
		if (nested_stop_text(NESTED_E_ASSERTION, copy, text, sizeof text) >= sizeof text)
			continue;
		nested_stopped(NESTED_E_ASSERTION, copy, &stop);
		CHECK(stop.places >= 0 && stop.places <= 24);
		for (int k = 0; k < stop.places; k++)
			CHECK(strlen(stop.place[k].node) < 1000);
	}
	free(copy);
}

int main(void)
{
	char *one = (char *)new_arena(), *two = (char *)new_arena();

	/* Before any run; also with bytes that are no status. */
	for (int status = -1; status < 70; status++) {
		check_none(status, one);
		check_none(status, NULL);
	}
	CHECK(!strcmp(nested_status_text(NESTED_OK), "done"));
	CHECK(!strcmp(nested_status_text(99), "unknown fault"));
	CHECK(run(bad, one) == NESTED_E_ASSERTION);
	check_record(one);
	check_rooms(one);
	check_damage(one);
	/* Each arena has its own. */
	CHECK(run(good, two) == NESTED_OK);
	check_none(NESTED_E_ASSERTION, two);
	check_record(one);
	/* Errors of the caller leave the record of an earlier run, which is not theirs. */
	check_none(NESTED_E_ARENA, one);
	check_none(NESTED_E_INDEX, one);
	check_none(NESTED_E_ASSERTION, one + 1);
	/* The next run takes it away. */
	CHECK(run(good, one) == NESTED_OK);
	check_none(NESTED_E_ASSERTION, one);
	check_none(NESTED_OK, one);
	CHECK(run(bad, one) == NESTED_E_ASSERTION);
	check_record(one);
	free(one);
	free(two);
	return 0;
}
