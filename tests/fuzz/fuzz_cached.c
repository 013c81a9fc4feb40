/* Files of a cache about a model: each look-up is a hit, or a miss with a report.
 *
 * The first byte selects the file that gets the rest: the graph's entry, from its head on, with
 * corrected hashes; its payload; the messages after its artefact; the list of options that were
 * read; the index of a named graph; an archive. */
#include "api/api.h"
#include "tests/fuzz/fuzz.h"

#include <halftone/cache.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char text[] = "hir 1\n"
			   "entry \"\" {\n"
			   "  input \"x\" = %x\n"
			   "  output \"y\" = %y\n"
			   "}\n"
			   "%x = Placeholder() {dtype=f32, shape=shape[?,4]}\n"
			   "%c = Const() {dtype=f32, value=tensor f32[4] {1.0, 2.0, 3.0, 4.0}}\n"
			   "%y = Mul(%x, %c) {T=f32}\n";

static char folder[] = "/tmp/halftone-fuzz-XXXXXX";
static struct ht_unwind unwind;
static struct ht_arena kept;
static struct ht_cache *cache[2]; /* one by content, and one by a name as well */
static struct ht_model *model[2];
static const char *path[HT_CACHE_KINDS], *index_path, *model_path; /* paths of the entries */
static struct ht_str entry[HT_CACHE_KINDS];

/* ---- a cache with a graph in it ---- */

static void write_file(const char *name, const void *p, size_t n)
{
	FILE *f = fopen(name, "wb");

	HT_CHECK(f);
	HT_CHECK(fwrite(p, 1, n, f) == n);
	HT_CHECK(!fclose(f));
}

static enum ht_status compile(int which)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_program *p;
	enum ht_status st;

	opt.target = "x86-64";
	st = ht_compile(model[which], &opt, d, &p);
	HT_CHECK((st == HT_OK) == (p != NULL));
	ht_program_free(p);
	ht_diags_free(d);
	return st;
}

static void open_cache(int which, bool must_hit)
{
	struct ht_cache_settings s = HT_CACHE_SETTINGS_INIT;

	s.dir = ht_str_printf(&kept, "%s/cache", folder).p;
	s.must_hit = must_hit;
	s.graph_key = which ? "net" : NULL;
	HT_CHECK(ht_cache_open(&s, NULL, &cache[which]) == HT_OK);
	HT_CHECK(ht_model_load(model_path, NULL, NULL, &model[which]) == HT_OK);
	ht_model_set_cache(model[which], cache[which]);
}

static void close_cache(int which)
{
	ht_model_free(model[which]);
	ht_cache_close(cache[which], NULL);
}

static void keep_entries(void)
{
	struct ht_store *s = ht_cache_store(cache[1]);
	struct ht_entry_list list;
	struct ht_file *f;

	HT_CHECK(ht_store_list(s, &kept, NULL, &list) == HT_OK);
	for (size_t i = 0; i < list.n; i++) {
		enum ht_cache_kind k = list.entry[i].kind;

		path[k] = ht_store_path(s, k, list.entry[i].find, &kept).p;
		HT_CHECK(ht_file_map(path[k], SIZE_MAX, NULL, &f) == HT_OK);
		entry[k] = ht_str_copy(&kept, (struct ht_str){ (const char *)f->p, f->n });
		ht_file_unref(f);
	}
	HT_CHECK(path[HT_CACHE_GRAPH] && path[HT_CACHE_READS]);
	index_path = ht_store_index_path(s, "net", &kept).p;
}

static void clean_up(void)
{
	char command[128];

	close_cache(0);
	close_cache(1);
	ht_arena_release(&kept);
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	HT_CHECK(!system(command));
}

static void set_up(void)
{
	HT_CHECK(mkdtemp(folder));
	ht_arena_init(&kept, &unwind);
	HT_CHECK(!setjmp(unwind.env));
	model_path = ht_str_printf(&kept, "%s/m.hir", folder).p;
	write_file(model_path, text, sizeof text - 1);
	open_cache(1, false);
	HT_CHECK(compile(1) == HT_OK);
	keep_entries();
	close_cache(1);
	open_cache(0, true);
	open_cache(1, true);
	HT_CHECK(compile(0) == HT_OK && compile(1) == HT_OK);
	atexit(clean_up);
}

/* ---- files from the fuzzer ---- */

/* By the layout in cache/entry.c. */
static void make_hashes_right(char *p, size_t n)
{
	uint64_t at, bulk;
	struct ht_sha256 s;
	struct ht_hash h;

	memcpy(&at, p + 48, sizeof at);
	memcpy(&bulk, p + 56, sizeof bulk);
	if (at > n - 32 || bulk > n - 32 - at)
		return;
	h = ht_hash_bytes(p + at, bulk);
	if (at >= 80)
		memcpy(p + 64, &h, sizeof h);
	ht_sha256_begin(&s);
	ht_sha256_add(&s, p, at);
	ht_sha256_add(&s, p + at + bulk, n - 32 - at - bulk);
	ht_sha256_end(&s, (uint8_t *)p + n - 32);
}

static void put_head(struct ht_arena *a, struct ht_str data)
{
	struct ht_str e = ht_str_copy(a, entry[HT_CACHE_GRAPH]);
	char *p = (char *)(uintptr_t)e.p;

	memcpy(p, data.p, data.n < e.n ? data.n : e.n);
	make_hashes_right(p, e.n);
	write_file(path[HT_CACHE_GRAPH], p, e.n);
}

static void put_payload(struct ht_arena *a, enum ht_cache_kind kind, struct ht_str data)
{
	struct ht_cache_key k = { .kind = kind };
	struct ht_cache_entry e;
	struct ht_buf all;

	HT_CHECK(ht_entry_key(entry[kind], &k.text));
	k.find = ht_hash_bytes(k.text.p, k.text.n);
	e = ht_entry_make(a, &k, &(struct ht_payload){ &data, 1, 0, 0 });
	ht_buf_init(&all, a);
	for (size_t i = 0; i < e.pieces; i++)
		ht_put_str(&all, e.piece[i]);
	write_file(path[kind], all.p, all.n);
}

static void put_messages(struct ht_arena *a, struct ht_str data)
{
	struct ht_opened o;
	struct ht_buf payload;
	uint64_t n;

	HT_CHECK(!ht_entry_check(entry[HT_CACHE_GRAPH], NULL, &o));
	memcpy(&n, o.payload.p + o.payload.n - sizeof n, sizeof n);
	ht_buf_init(&payload, a);
	ht_put(&payload, o.payload.p, (size_t)n);
	ht_put_str(&payload, data);
	ht_put(&payload, &n, sizeof n);
	put_payload(a, HT_CACHE_GRAPH, ht_buf_str(&payload));
}

static void import(struct ht_str data)
{
	struct ht_cache_cleaned n;
	char name[64];
	int fd = memfd_create("archive", MFD_CLOEXEC);

	HT_CHECK(fd >= 0 && write(fd, data.p, data.n) == (ssize_t)data.n);
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ht_cache_import(cache[0], name, NULL, &n);
	close(fd);
}

static void put(struct ht_arena *a, unsigned what, struct ht_str data)
{
	switch (what % 6) {
	case 0:
		put_head(a, data);
		break;
	case 1:
		put_payload(a, HT_CACHE_GRAPH, data);
		break;
	case 2:
		put_messages(a, data);
		break;
	case 3:
		put_payload(a, HT_CACHE_READS, data);
		break;
	case 4:
		write_file(index_path, data.p, data.n);
		break;
	default:
		import(data);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ht_str index;
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_file *f;

	if (!index.n) {
		set_up();
		HT_CHECK(ht_file_map(index_path, SIZE_MAX, NULL, &f) == HT_OK);
		index = ht_str_copy(&kept, (struct ht_str){ (const char *)f->p, f->n });
		ht_file_unref(f);
	}
	if (!size)
		return 0;
	for (int k = HT_CACHE_GRAPH; k <= HT_CACHE_READS; k++)
		write_file(path[k], entry[k].p, entry[k].n);
	write_file(index_path, index.p, index.n);
	ht_arena_init(&a, &u);
	if (!setjmp(u.env))
		put(&a, data[0], (struct ht_str){ (const char *)data + 1, size - 1 });
	for (int i = 0; i < 2; i++) {
		enum ht_status st = compile(i);

		HT_CHECK(st == HT_OK || st == HT_E_VERDICT);
	}
	ht_arena_release(&a);
	return 0;
}
