/* Calibration samples: files of arrays for the option samples. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

bool is_sample_count(const char *s)
{
	size_t n = strspn(s, "0123456789");

	if (n && s[n] == ':')
		n += 1 + strspn(s + n + 1, "0123456789");
	return n && !s[n];
}

static enum ht_status add(struct cli *c, struct ht_policy *p, const char *path,
	const char *const *name, struct array *in, size_t n)
{
	struct ht_array *view = must_alloc((n + 1) * sizeof *view);
	enum ht_status st;

	for (size_t i = 0; i < n; i++) {
		view[i] = in[i].a;
		view[i].dim = in[i].shape;
	}
	st = ht_policy_add_sample(p, path, name, view, n, c->diags);
	free(view);
	return st;
}

/* Adds the sample of one .npz file, whose members are the inputs. */
static enum ht_status add_npz(struct cli *c, struct ht_policy *p, const char *path)
{
	const char **name;
	struct array *in;
	struct npz *z;
	size_t n;
	enum ht_status st = npz_open(path, &z);

	if (st != HT_OK)
		return st;
	n = npz_members(z);
	name = must_alloc((n + 1) * sizeof *name);
	in = must_alloc((n + 1) * sizeof *in);
	if (!n)
		st = fail(HT_E_INPUT, "%s has no arrays", path);
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		name[i] = npz_name(z, i);
		st = npz_load(z, name[i], &in[i]);
	}
	if (st == HT_OK)
		st = add(c, p, path, name, in, n);
	arrays_free(in, n);
	free(name);
	npz_close(z);
	return st;
}

/* Adds a sample for the model's only input. */
static enum ht_status add_npy(struct cli *c, struct ht_policy *p, const char *path)
{
	const char *name = "";
	struct array in = { 0 };
	enum ht_status st = npy_load(path, &in);

	if (st == HT_OK)
		st = add(c, p, path, &name, &in, 1);
	array_free(&in);
	return st;
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);

	return n > k && !strcmp(s + n - k, suffix);
}

static enum ht_status add_file(struct cli *c, struct ht_policy *p, const char *path)
{
	if (has_suffix(path, ".npz"))
		return add_npz(c, p, path);
	if (has_suffix(path, ".npy"))
		return add_npy(c, p, path);
	return fail(HT_E_USAGE,
		"--samples: '%s' is no .npz or .npy file, and no number of random samples", path);
}

enum ht_status set_samples(struct cli *c, struct ht_policy *p, const char *value)
{
	enum ht_status st = HT_OK;
	char *copy, *at;

	if (is_sample_count(value))
		return ht_policy_set(p, "samples", value, c->diags);
	copy = at = strdup(value);
	if (!copy)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	for (char *path; st == HT_OK && (path = strsep(&at, ","));)
		st = *path ? add_file(c, p, path)
			   : fail(HT_E_USAGE, "--samples: a file is missing in '%s'", value);
	free(copy);
	return st;
}
