/* The modules that the compiler loads. */
#include "api/api.h"

#include <halftone-ids.h>
#include <string.h>

/* A code generator built from other sources may generate other code than this library expects,
 * so it is refused even if its interface fits. */
static bool has_our_sources(const void *symbol)
{
	const struct ht_backend *b = symbol;
	static const char ours[] = HT_CODE_ID " ";

	return !strncmp(b->id(), ours, sizeof ours - 1);
}

static struct ht_module backend = { .what = "the code generator",
	.file = "halftone/halftone-backend.so",
	.variable = "HALFTONE_BACKEND",
	.symbol = "ht_backend",
	.abi = HT_BACKEND_ABI,
	.fits = has_our_sources };
static struct ht_module remote = { .what = "what speaks to the remote cache",
	.file = "halftone/halftone-remote.so",
	.variable = "HALFTONE_REMOTE",
	.symbol = "ht_remote",
	.abi = HT_REMOTE_ABI };

enum ht_status ht_backend_load(const char *path, struct ht_diags *d, const struct ht_backend **out)
{
	const void *symbol;
	enum ht_status st = ht_module_load(&backend, path, d, &symbol);

	*out = symbol;
	return st;
}

enum ht_status ht_remote_load(struct ht_diags *d, const struct ht_remote_module **out)
{
	const void *symbol;
	enum ht_status st = ht_module_load(&remote, NULL, d, &symbol);

	*out = symbol;
	return st;
}
