/* Modules are loaded on first use: LLVM takes milliseconds and 40 MB, and most programs need
 * neither libcurl nor libcrypto.  A loaded module stays until the process ends, even if it does not
 * match, since LLVM cannot be unloaded. */
#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Opens the module beside the library that contains this code, in LIB/halftone/….  In the build
 * tree, and if the library is linked into the program, it is in BUILD/lib/halftone/…. */
static void *open_beside(const char *file, char *path, size_t size)
{
	static const char *const place[] = { "", "lib/", "../lib/" };
	Dl_info self;
	char *slash, real[4096];
	void *so = NULL;

	if (!dladdr((void *)&lock, &self) || !self.dli_fname || !realpath(self.dli_fname, real))
		return NULL;
	slash = strrchr(real, '/');
	if (!slash)
		return NULL;
	slash[1] = 0;
	for (size_t i = 0; i < HT_COUNT(place) && !so; i++) {
		snprintf(path, size, "%.3000s%s%s", real, place[i], file);
		so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return so;
}

static enum ht_status load(struct ht_module *m, const char *path, struct ht_diags *d)
{
	const char *given = path ? path : getenv(m->variable);
	char beside[4200] = "";
	const void *symbol;
	void *so;

	so = given && *given ? dlopen(given, RTLD_NOW | RTLD_LOCAL)
			     : open_beside(m->file, beside, sizeof beside);
	if (!so)
		return ht_error(
			d, HT_E_ENVIRONMENT, HT_NOWHERE, "cannot load %s: %s", m->what, dlerror());
	symbol = dlsym(so, m->symbol);
	if (!symbol || *(const int *)symbol != m->abi || (m->fits && !m->fits(symbol)))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "%s is not %s of this version",
			given && *given ? given : beside, m->what);
	m->loaded = symbol;
	return HT_OK;
}

enum ht_status ht_module_load(
	struct ht_module *m, const char *path, struct ht_diags *d, const void **out)
{
	enum ht_status st = HT_OK;

	pthread_mutex_lock(&lock);
	if (!m->loaded)
		st = load(m, path, d);
	*out = m->loaded;
	pthread_mutex_unlock(&lock);
	return st;
}
