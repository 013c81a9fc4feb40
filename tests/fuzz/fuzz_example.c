/* Records of tf.train.Example: the input is one record, whose frame has correct checksums.  Every
 * kind of read is tried. */
#include "tests/fuzz/fuzz.h"

#include "frontend/bundle.h"
#include "frontend/records.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void remove_file(void)
{
	unlink(path);
}

static void prepare(void)
{
	int fd;

	snprintf(path, sizeof path, "/dev/shm/fuzz_example.XXXXXX");
	fd = mkstemp(path);
	if (fd < 0) {
		snprintf(path, sizeof path, "/tmp/fuzz_example.XXXXXX");
		fd = mkstemp(path);
	}
	HT_CHECK(fd >= 0 && !close(fd));
	atexit(remove_file);
}

static void write_record(const void *p, size_t n)
{
	static struct ht_crc32c crc;
	uint64_t length = n;
	uint32_t sum;
	FILE *f = fopen(path, "wb");

	ht_crc32c_init(&crc);
	sum = ht_crc32c_mask(ht_crc32c(&crc, 0, &length, sizeof length));
	HT_CHECK(f && fwrite(&length, 1, 8, f) == 8 && fwrite(&sum, 1, 4, f) == 4);
	sum = ht_crc32c_mask(ht_crc32c(&crc, 0, p, n));
	HT_CHECK(fwrite(p, 1, n, f) == n && fwrite(&sum, 1, 4, f) == 4 && !fclose(f));
}

static void read_as(struct ht_record_file *f, const struct ht_feature_list *has, struct ht_str name,
	enum ht_dtype t, struct ht_diags *d)
{
	size_t size = ht_dtype_info(t)->bytes;
	int64_t elements = has->kind == HT_LIST_BYTES ? has->bytes / (int64_t)size : has->elements;
	char *to = malloc((size_t)elements * size + 1);

	HT_CHECK(to);
	if (ht_example_read(f, 0, name, t, elements, to, d) != HT_OK)
		HT_CHECK(d->errors);
	free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ht_str names[] = { { "x", 1 }, { "", 0 }, { "label", 5 } };
	static const enum ht_dtype types[] = { HT_F32, HT_I32, HT_BOOL, HT_U8, HT_I64 };
	struct ht_record_file *f;
	struct ht_feature_list has;
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_diags d;

	if (!path[0])
		prepare();
	write_record(data, size);
	ht_diags_init(&d);
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env) && ht_record_file_open(&a, path, &d, &f) == HT_OK)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (ht_example_feature(f, 0, names[i], &d, &has) == HT_OK)
				for (size_t k = 0; k < sizeof types / sizeof *types; k++)
					read_as(f, &has, names[i], types[k], &d);
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}
