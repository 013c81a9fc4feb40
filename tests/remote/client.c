/* client [OPTION VALUE]... URL COMMAND...: uses a remote cache like the compile cache does.
 *
 * Commands, executed in order: put KEY FILE, get KEY FILE (which writes the answer to the file).
 * It prints a line for each on standard output; diagnostics go to standard error. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

static struct ht_diags diags;
static const struct ht_remote_module *module;

static void print_diags(void)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_buf out;

	ht_arena_init(&a, &unwind);
	HT_CHECK(!setjmp(unwind.env));
	ht_buf_init(&out, &a);
	for (const struct ht_diag *d = diags.first; d; d = d->next) {
		ht_diag_print(d, &out);
		ht_putc(&out, '\n');
	}
	fwrite(out.p, 1, out.n, stderr);
	ht_arena_release(&a);
}

static struct ht_cache_key key_of(const char *text)
{
	struct ht_cache_key k = { .kind = HT_CACHE_GRAPH, .text = ht_str(text) };

	k.find = ht_hash_bytes(k.text.p, k.text.n);
	ht_sha256(k.text.p, k.text.n, k.sha256);
	return k;
}

static void put(struct ht_remote *r, const char *key, const char *path)
{
	struct ht_cache_key k = key_of(key);
	struct ht_file *f;

	HT_CHECK(ht_file_map(path, (size_t)1 << 40, &diags, &f) == HT_OK);
	/* In three pieces, like an entry's header, payload and trailer. */
	struct ht_str piece[3] = { { (const char *)f->p, f->n / 3 }, { NULL, f->n / 2 },
		{ NULL, 0 } };
	struct ht_cache_entry e = { .piece = piece, .pieces = 3, .bytes = f->n };

	piece[1].p = piece[0].p + piece[0].n;
	piece[2] = (struct ht_str){ piece[1].p + piece[1].n, f->n - piece[0].n - piece[1].n };
	puts(module->put(r, &k, &e, &diags) ? "kept" : "not kept");
	ht_file_unref(f);
}

static void get(struct ht_remote *r, const char *key, const char *path)
{
	struct ht_cache_key k = key_of(key);
	struct ht_str bytes;
	FILE *f;

	if (!module->get(r, &k, &diags, &bytes)) {
		puts("miss");
		return;
	}
	puts("hit");
	f = fopen(path, "wb");
	HT_CHECK(f && fwrite(bytes.p, 1, bytes.n, f) == bytes.n && !fclose(f));
	free((void *)(uintptr_t)bytes.p);
}

static bool set(struct ht_remote_options *o, const char *name, const char *value)
{
	const struct {
		const char *name, **text;
		long *ms;
	} option[] = { { "--token-file", &o->token_file, NULL }, { "--token", &o->token, NULL },
		{ "--netrc", &o->netrc, NULL }, { "--ca", &o->ca_file, NULL },
		{ "--connect-ms", NULL, &o->connect_ms }, { "--total-ms", NULL, &o->total_ms } };

	if (!strcmp(name, "--write"))
		return o->write = *value == '1', true;
	if (!strcmp(name, "--max-bytes"))
		return o->max_bytes = strtoull(value, NULL, 10), true;
	for (size_t i = 0; i < HT_COUNT(option); i++) {
		if (strcmp(name, option[i].name))
			continue;
		if (option[i].text)
			*option[i].text = value;
		else
			*option[i].ms = strtol(value, NULL, 10);
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct ht_remote_options o = { .write = false };
	struct ht_remote *r;
	enum ht_status st;
	int i = 1;

	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2)
		HT_CHECK(set(&o, argv[i], argv[i + 1]));
	HT_CHECK(i < argc);
	o.url = argv[i++];
	ht_diags_init(&diags);
	st = ht_remote_load(&diags, &module);
	if (st == HT_OK)
		st = module->open(&o, &diags, &r);
	for (; st == HT_OK && i + 2 < argc; i += 3)
		(strcmp(argv[i], "put") ? get : put)(r, argv[i + 1], argv[i + 2]);
	if (st == HT_OK)
		module->close(r);
	print_diags();
	ht_diags_release(&diags);
	return (int)st;
}
