/* The code generator: a module of its own, since loading libLLVM costs more than ten milliseconds.
 * Loaded on the first call that needs code, and kept until the process ends: LLVM does not survive
 * being unloaded. */
#include "api/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MODULE "halftone/halftone-backend.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ht_backend *loaded;

/* Beside the library that this code is in: LIB/halftone/…; in the build tree and where the library
 * is part of the program, BUILD/lib/halftone/…. */
static void *open_beside(char *path, size_t size)
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
		snprintf(path, size, "%.3000s%s%s", real, place[i], MODULE);
		so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return so;
}

static enum ht_status load(const char *path, struct ht_diags *d)
{
	const char *given = path ? path : getenv("HALFTONE_BACKEND");
	char beside[4200] = MODULE;
	const struct ht_backend *b;
	void *so;

	so = given && *given ? dlopen(given, RTLD_NOW | RTLD_LOCAL)
			     : open_beside(beside, sizeof beside);
	if (!so)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"cannot load the code generator: %s", dlerror());
	b = dlsym(so, "ht_backend");
	if (!b || b->abi != HT_BACKEND_ABI) {
		dlclose(so);
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"%s is not the code generator of this version",
			given && *given ? given : beside);
	}
	loaded = b;
	return HT_OK;
}

enum ht_status ht_backend_load(const char *path, struct ht_diags *d, const struct ht_backend **out)
{
	enum ht_status st = HT_OK;

	pthread_mutex_lock(&lock);
	if (!loaded)
		st = load(path, d);
	*out = loaded;
	pthread_mutex_unlock(&lock);
	return st;
}
