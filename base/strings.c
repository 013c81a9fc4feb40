/* The strings of a context (strings.h).  A hash table with open addressing and linear probing finds
 * them.  Strings are removed in the reverse order of adding, so no empty slot lies between a string
 * and the slot at which its search begins. */
#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = INT32_MAX };

struct ht_strings {
	uint64_t n, program; /* strings in all; strings of the program */
	uint64_t
		*end; /* by string: the offset behind its last byte, where the next string begins */
	uint64_t room;
	char *bytes;
	uint64_t bytes_room;
	uint32_t *place; /* number of a string + 1; 0: the slot is empty */
	uint64_t places; /* a power of 2 */
};

static uint64_t begin_of(const struct ht_strings *s, uint64_t i)
{
	return i ? s->end[i - 1] : 0;
}

static struct ht_str text_of(const struct ht_strings *s, uint64_t i)
{
	return (struct ht_str){ s->bytes + begin_of(s, i), (size_t)(s->end[i] - begin_of(s, i)) };
}

/* The slot of a string, or the empty slot where it belongs. */
static uint32_t *place_of(const struct ht_strings *s, struct ht_str text)
{
	uint64_t at = ht_hash_bytes(text.p, text.n).lo & (s->places - 1);

	while (s->place[at] && !ht_str_eq(text_of(s, s->place[at] - 1), text))
		at = (at + 1) & (s->places - 1);
	return &s->place[at];
}

/* ---- memory ---- */

static uint64_t grown(uint64_t room, uint64_t needed)
{
	if (needed <= room)
		return room;
	return room * 2 > needed ? room * 2 : needed;
}

static bool grow(void **p, uint64_t *room, uint64_t needed, size_t each)
{
	uint64_t more = grown(*room, needed);
	void *larger;

	if (needed <= *room)
		return true;
	if (more > SIZE_MAX / each || !(larger = realloc(*p, (size_t)more * each)))
		return false;
	*p = larger;
	*room = more;
	return true;
}

static bool place_anew(struct ht_strings *s, uint64_t places)
{
	uint32_t *place = ht_sys_alloc((size_t)places * sizeof *place);

	if (!place)
		return false;
	free(s->place);
	s->place = place;
	s->places = places;
	for (uint64_t i = 0; i < s->n; i++)
		*place_of(s, text_of(s, i)) = (uint32_t)i + 1;
	return true;
}

/* Makes room for one more string of so many bytes. */
static bool make_room(struct ht_strings *s, uint64_t bytes)
{
	uint64_t used = begin_of(s, s->n);
	void *end = s->end, *text = s->bytes;
	bool enough = bytes <= UINT64_MAX / 4 - used &&
		      grow(&end, &s->room, s->n + 1, sizeof *s->end) &&
		      grow(&text, &s->bytes_room, used + bytes, 1);

	s->end = end;
	s->bytes = text;
	return enough && (2 * (s->n + 1) <= s->places || place_anew(s, 2 * s->places));
}

/* ---- strings of a run ---- */

void ht_strings_forget(struct ht_strings *s)
{
	while (s->n > s->program) {
		uint32_t *place = place_of(s, text_of(s, s->n - 1));

		*place = 0;
		s->n--;
	}
}

static int64_t add(struct ht_strings *s, struct ht_str text)
{
	uint64_t at = begin_of(s, s->n);

	if (s->n >= MOST || !make_room(s, text.n))
		return -1;
	*place_of(s, text) = (uint32_t)s->n + 1;
	if (text.n)
		memcpy(s->bytes + at, text.p, text.n);
	s->end[s->n] = at + text.n;
	return (int64_t)s->n++;
}

int64_t ht_strings_find(const struct ht_strings *s, struct ht_str text)
{
	return (int64_t)*place_of(s, text) - 1;
}

uint64_t ht_strings_count(const struct ht_strings *s)
{
	return s->n;
}

uint64_t ht_strings_bytes(const struct ht_strings *s, uint64_t more)
{
	uint64_t places = 2 * (s->n + 1) <= s->places ? s->places : 2 * s->places;

	return grown(s->bytes_room, begin_of(s, s->n) + more) +
	       grown(s->room, s->n + 1) * sizeof *s->end + places * sizeof *s->place;
}

int64_t ht_strings_number(struct ht_strings *s, struct ht_str text)
{
	uint32_t known = *place_of(s, text);

	return known ? (int64_t)known - 1 : add(s, text);
}

bool ht_strings_text(const struct ht_strings *s, int64_t number, struct ht_str *out)
{
	if (number < 0 || (uint64_t)number >= s->n)
		return false;
	*out = text_of(s, (uint64_t)number);
	return true;
}

/* ---- strings of a program ---- */

static uint64_t places_for(uint64_t n)
{
	uint64_t places = 16;

	while (places < 2 * n)
		places *= 2;
	return places;
}

static bool fill(struct ht_strings *s, const void *end, uint64_t n, const char *bytes)
{
	s->end = malloc((size_t)n * sizeof *s->end);
	if (!s->end)
		return false;
	memcpy(s->end, end, (size_t)n * sizeof *s->end);
	s->room = s->n = s->program = n;
	s->bytes_room = begin_of(s, n) + 1;
	s->bytes = malloc((size_t)s->bytes_room);
	if (!s->bytes)
		return false;
	if (s->bytes_room > 1)
		memcpy(s->bytes, bytes, (size_t)s->bytes_room - 1);
	return place_anew(s, places_for(n));
}

struct ht_strings *ht_strings_new(const void *end, uint64_t n, const char *bytes)
{
	struct ht_strings *s = ht_sys_alloc(sizeof *s);

	if (!s || fill(s, end, n, bytes))
		return s;
	ht_strings_free(s);
	return NULL;
}

void ht_strings_free(struct ht_strings *s)
{
	if (!s)
		return;
	free(s->end);
	free(s->bytes);
	free(s->place);
	free(s);
}
