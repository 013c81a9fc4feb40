/* Options and results of programs that were built with another version of the headers. */
#include "api/api.h"

#include <halftone/cache.h>
#include <halftone/compare.h>
#include <halftone/records.h>
#include <halftone/search.h>
#include <halftone/train.h>

#include <stddef.h>
#include <string.h>

/* Larger than every version of every struct: a struct_size above it was not initialised. */
#define MOST_BYTES 4096

/* It names a type: clang-tidy takes the sizeof of an expression that is a pointer for a mistake. */
#define SIZE_OF_MEMBER(type, member) sizeof(__typeof__(((struct type *)0)->member))

/* A new member must not lie where an older struct has padding, which an older program leaves unset. */
#define VERSIONED(type, initialiser, last)                                                         \
	_Static_assert(offsetof(struct type, struct_size) == 0, #type " begins with struct_size"); \
	_Static_assert(                                                                            \
		sizeof(struct type) == offsetof(struct type, last) + SIZE_OF_MEMBER(type, last),   \
		#type " has padding behind its last member");
#include <versioned_structs.def>
#undef VERSIONED

static bool any_set(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return true;
	return false;
}

static enum ht_status read_size(
	const void *caller, const char *name, struct ht_diags *d, size_t *size)
{
	memcpy(size, caller, sizeof *size);
	if (*size >= sizeof *size && *size <= MOST_BYTES)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"%s: struct_size is %zu; the initialiser beside the struct sets it", name, *size);
}

enum ht_status ht_caller_options(
	const void *caller, const char *name, void *out, size_t size, struct ht_diags *d)
{
	size_t theirs;

	if (!caller)
		return HT_OK;
	HT_TRY(read_size(caller, name, d, &theirs));
	if (theirs > size && any_set((const char *)caller + size, theirs - size))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s: the program sets members that this library, version %s, does not have",
			name, ht_version());
	memcpy(out, caller, theirs < size ? theirs : size);
	memcpy(out, &size, sizeof size);
	return HT_OK;
}

enum ht_status ht_caller_result(
	void *caller, const char *name, const void *from, size_t size, struct ht_diags *d)
{
	size_t theirs, n;

	HT_TRY(read_size(caller, name, d, &theirs));
	n = theirs < size ? theirs : size;
	if (n > sizeof theirs)
		memcpy((char *)caller + sizeof theirs, (const char *)from + sizeof theirs,
			n - sizeof theirs);
	return HT_OK;
}
