/* flips N CACHE [ENTRY...] -- [ARTEFACT...]: flips a bit of a file, or truncates it, N times at
 * random.  Each time an entry must be a miss, and an artefact must be refused before its code reads
 * the damaged part or runs.  Finally it prints the damage that
 * was not noticed. */
#include <halftone/halftone.h>

#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>

static uint64_t state = 20261;

static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void write_file(const char *path, const char *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	HT_CHECK(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static struct ht_str read_file(const char *path)
{
	struct ht_str s;
	struct ht_file *f;
	char *p;

	HT_CHECK(ht_file_map(path, (size_t)1 << 40, NULL, &f) == HT_OK);
	p = malloc(f->n + 1);
	HT_CHECK(p);
	memcpy(p, f->p, f->n);
	s = (struct ht_str){ p, f->n };
	ht_file_unref(f);
	return s;
}

/* Whether the cache has an entry for the entry's own key. */
static bool hits(const char *cache, const struct ht_cache_key *k)
{
	struct ht_store_options opt = { .dir = cache, .mode = HT_CACHE_RW };
	struct ht_store *s;
	struct ht_cached c;
	bool hit;

	HT_CHECK(ht_store_open(&opt, NULL, &s) == HT_OK);
	hit = ht_store_get(s, k, NULL, &c);
	if (hit)
		ht_cached_release(&c);
	ht_store_close(s, NULL);
	return hit;
}

/* Arrays of zeros for the inputs or outputs. */
static struct ht_array *arrays(const struct ht_program *p, size_t n,
	int (*info)(const struct ht_program *, size_t, struct ht_value_info *))
{
	struct ht_array *a = calloc(n + 1, sizeof *a);

	HT_CHECK(a);
	for (size_t i = 0; i < n; i++) {
		struct ht_value_info v;

		HT_CHECK(info(p, i, &v));
		a[i] = (struct ht_array){ calloc(v.bytes + 1, 1), v.bytes, v.dtype, v.rank, v.dim };
	}
	return a;
}

static void free_arrays(struct ht_array *a, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(a[i].data);
	free(a);
}

/* Whether an artefact runs; its weights are checked when a step is about to read them. */
static bool runs(const char *path)
{
	struct ht_program *p;
	struct ht_context *c;
	bool ran;

	if (ht_program_load(path, NULL, NULL, &p) != HT_OK)
		return false;
	HT_CHECK(ht_context_new(p, NULL, NULL, &c) == HT_OK);
	size_t ins = ht_program_inputs(p), outs = ht_program_outputs(p);
	struct ht_array *in = arrays(p, ins, ht_program_input);
	struct ht_array *out = arrays(p, outs, ht_program_output);

	ran = ht_context_run(c, in, ins, out, outs, NULL) == HT_OK;
	free_arrays(in, ins);
	free_arrays(out, outs);
	ht_context_free(c);
	ht_program_free(p);
	return ran;
}

static bool accepted(const char *cache, const char *path, const struct ht_cache_key *k)
{
	return k ? hits(cache, k) : runs(path);
}

static long damage(long n, const char *cache, const char *path, const struct ht_cache_key *k,
	struct ht_str whole)
{
	char *bytes = (char *)(uintptr_t)whole.p;
	long unnoticed = 0;

	for (long i = 0; i < n; i++) {
		size_t bit = next() % (whole.n * 8);
		size_t end = i % 5 ? whole.n : next() % whole.n;

		if (end == whole.n)
			bytes[bit / 8] ^= (char)(1 << bit % 8);
		write_file(path, bytes, end);
		if (accepted(cache, path, k)) {
			printf("%s: not noticed: %s %zu\n", path, end == whole.n ? "bit" : "cut to",
				end == whole.n ? bit : end);
			unnoticed++;
		}
		if (end == whole.n)
			bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
	write_file(path, bytes, whole.n);
	HT_CHECK(accepted(cache, path, k));
	printf("%s: %ld damaged\n", path, n);
	return unnoticed;
}

static long damage_entry(long n, const char *cache, const char *path)
{
	struct ht_str whole = read_file(path);
	struct ht_opened opened;
	struct ht_cache_key k;
	struct ht_str key;
	long unnoticed;

	HT_CHECK(!ht_entry_check(whole, NULL, &opened));
	/* A copy, since the bytes are about to change. */
	key = (struct ht_str){ strndup(opened.key.p, opened.key.n), opened.key.n };
	k = (struct ht_cache_key){ .kind = opened.kind, .text = key, .find = opened.find };
	ht_sha256(key.p, key.n, k.sha256);
	unnoticed = damage(n, cache, path, &k, whole);
	free((void *)(uintptr_t)key.p);
	free((void *)(uintptr_t)whole.p);
	return unnoticed;
}

int main(int argc, char **argv)
{
	long n = argc > 3 ? strtol(argv[1], NULL, 10) : 0, unnoticed = 0;
	bool artefacts = false;

	HT_CHECK(n > 0);
	for (int i = 3; i < argc; i++) {
		struct ht_str whole;

		if (!strcmp(argv[i], "--")) {
			artefacts = true;
		} else if (artefacts) {
			whole = read_file(argv[i]);
			unnoticed += damage(n, argv[2], argv[i], NULL, whole);
			free((void *)(uintptr_t)whole.p);
		} else {
			unnoticed += damage_entry(n, argv[2], argv[i]);
		}
	}
	printf("%ld not noticed\n", unnoticed);
	return unnoticed ? 1 : 0;
}
