/* The modules that the compiler loads. */
#include "api/api.h"

static struct ht_module backend = { "the code generator", "halftone/halftone-backend.so",
	"HALFTONE_BACKEND", "ht_backend", HT_BACKEND_ABI, NULL };
static struct ht_module remote = { "what speaks to the remote cache", "halftone/halftone-remote.so",
	"HALFTONE_REMOTE", "ht_remote", HT_REMOTE_ABI, NULL };

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
