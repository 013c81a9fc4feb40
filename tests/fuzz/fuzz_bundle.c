/* Checkpoints: the input is the index, its one data shard has 256 bytes.  Every tensor is read.
 * Checksums are ignored, since no mutation would pass them. */
#include "tests/fuzz/fuzz.h"
#include "frontend/bundle.h"
#include "frontend/frontend.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[40], prefix[64], index_path[80], data_path[96];

static void remove_files(void)
{
	unlink(index_path);
	unlink(data_path);
	rmdir(folder);
}

static void write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	HT_CHECK(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static void prepare(void)
{
	unsigned char data[256];

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)(i * 37 & 0x7f);
	/* A file for each run; in memory this is fourteen times as fast. */
	snprintf(folder, sizeof folder, "/dev/shm/fuzz_bundle.XXXXXX");
	if (!mkdtemp(folder)) {
		snprintf(folder, sizeof folder, "/tmp/fuzz_bundle.XXXXXX");
		HT_CHECK(mkdtemp(folder));
	}
	snprintf(prefix, sizeof prefix, "%s/x", folder);
	snprintf(index_path, sizeof index_path, "%s.index", prefix);
	snprintf(data_path, sizeof data_path, "%s.data-00000-of-00001", prefix);
	write_file(data_path, data, sizeof data);
	atexit(remove_files);
}

static void read_all(struct ht_arena *a, struct ht_diags *d)
{
	struct ht_checkpoint *c;
	struct ht_tensor *t;

	if (ht_checkpoint_open_unchecked(a, prefix, d, &c) != HT_OK) {
		HT_CHECK(d->errors);
		return;
	}
	for (size_t i = 0; i < ht_checkpoint_count(c) && i < 100; i++)
		if (ht_checkpoint_read(c, ht_checkpoint_key(c, i), a, d, &t) == HT_OK)
			HT_CHECK(t->blob || t->strings);
	ht_checkpoint_read(c, HT_STR("no such variable"), a, d, &t);
	HT_CHECK(!t);
	/* The corpus has an index with slices of this tensor: as a whole, and other slices. */
	if (ht_checkpoint_read(c, HT_STR("v"), a, d, &t) == HT_OK)
		HT_CHECK(t->blob || t->strings);
	if (ht_checkpoint_read(c, HT_STR("v 5 3 1,3:1,2"), a, d, &t) == HT_OK)
		HT_CHECK(t->blob && t->blob->n == 6 * ht_dtype_info(t->dtype)->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_diags d;

	if (!prefix[0])
		prepare();
	write_file(index_path, data, size);
	ht_diags_init(&d);
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		read_all(&a, &d);
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}
