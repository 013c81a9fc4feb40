/* Options and results of programs that were built against another version of the headers. */
#include "api/api.h"

#include <string.h>

/* Above every version of every struct: a larger struct_size was never set. */
#define MOST_BYTES 4096

static bool any_set(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return true;
	return false;
}

enum ht_status ht_caller_options(
	const void *caller, const char *name, void *out, size_t size, struct ht_diags *d)
{
	size_t theirs;

	if (!caller)
		return HT_OK;
	memcpy(&theirs, caller, sizeof theirs);
	if (theirs < sizeof theirs || theirs > MOST_BYTES)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s: struct_size is %zu; the initialiser beside the struct sets it", name,
			theirs);
	if (theirs > size && any_set((const char *)caller + size, theirs - size))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s: the program sets members that this library, version %s, does not have",
			name, ht_version());
	memcpy(out, caller, theirs < size ? theirs : size);
	memcpy(out, &size, sizeof size);
	return HT_OK;
}

void ht_caller_result(void *caller, const void *from, size_t size)
{
	size_t theirs, n;

	memcpy(&theirs, caller, sizeof theirs);
	n = theirs < size ? theirs : size;
	if (n > sizeof theirs)
		memcpy((char *)caller + sizeof theirs, (const char *)from + sizeof theirs,
			n - sizeof theirs);
}
