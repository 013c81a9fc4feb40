/* TF.js graph models: the input is model.json; its folder has shards a.bin (64 bytes) and b.bin
 * (10). */
#include "tests/fuzz/fuzz.h"
#include "frontend/graphdef.h"
#include "tests/fuzz/import.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/fuzz_tfjs.XXXXXX", dir[sizeof folder + 1];

static void remove_shards(void)
{
	char path[64];

	snprintf(path, sizeof path, "%sa.bin", dir);
	unlink(path);
	snprintf(path, sizeof path, "%sb.bin", dir);
	unlink(path);
	rmdir(folder);
}

static void write_shard(const char *name, size_t n)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "%s%s", dir, name);
	f = fopen(path, "wb");
	HT_CHECK(f);
	for (size_t i = 0; i < n; i++)
		fputc((int)(i * 37 & 0xff), f);
	fclose(f);
}

static void write_shards(void)
{
	HT_CHECK(mkdtemp(folder));
	snprintf(dir, sizeof dir, "%s/", folder);
	write_shard("a.bin", 64);
	write_shard("b.bin", 10);
	atexit(remove_shards);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	struct ht_importer im;
	struct ht_unwind unwind;
	struct ht_graph *g;
	struct ht_arena a;
	struct ht_diags d;
	enum ht_status st;

	if (!ready) {
		write_shards();
		ready = true;
	}
	ht_diags_init(&d);
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env)) {
		ht_importer_init(&im, &a, &fuzz_limits, &d);
		g = ht_graph_new(&a);
		st = ht_import_tfjs(
			&im, (struct ht_str){ (const char *)data, size }, "model.json", dir, g);
		HT_CHECK(st == HT_OK || d.errors);
	}
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}
