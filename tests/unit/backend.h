/* Common to the tests of generated code: the module, and compiling one kernel for one target. */
#ifndef HT_TEST_BACKEND_H
#define HT_TEST_BACKEND_H

#include "backend/backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ht_backend *backend_open(void)
{
	const char *path = getenv("HALFTONE_BACKEND");
	void *so = dlopen(
		path ? path : "build/lib/halftone/halftone-backend.so", RTLD_NOW | RTLD_LOCAL);
	const struct ht_backend *b = so ? dlsym(so, "ht_backend") : NULL;

	if (!b)
		fprintf(stderr, "%s\n", dlerror());
	return b;
}

static inline bool backend_is_level(const struct ht_target *t)
{
	return t->level == t->name;
}

/* Whether t is a level, and this machine can run its code. */
static bool backend_runs(const struct ht_target *t)
{
	return backend_is_level(t) && ht_target_runs(t->name);
}

static ht_kernel_fn *backend_compile(const struct ht_backend *b, const struct ht_kernel *k,
	const struct ht_target *t, struct ht_code **code)
{
	struct ht_diags d;
	ht_kernel_fn **entry = NULL, *fn = NULL;

	ht_diags_init(&d);
	if (b->compile(&k, 1, t, &(struct ht_code_how){ 0 }, 1, NULL, &d, code, &entry) == HT_OK)
		fn = entry[0];
	for (const struct ht_diag *i = d.first; i; i = i->next)
		fprintf(stderr, "%s: %.*s\n", t->name, HT_STR_ARG(i->text));
	ht_diags_release(&d);
	return fn;
}

#endif
