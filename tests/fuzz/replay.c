/* replay [--shake N] PATH...: gives each file (for a folder: all its files) to a fuzz target, with
 * any compiler.  With --shake, each file is also given N times truncated and N times with one to
 * four changes, each a flipped bit or a copy of four bytes from another place of the file.  The
 * changes depend only on the file's length. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned shakes;
static size_t inputs;

/* A copy of the exact size, so that sanitizers see a read of the first byte behind it. */
static void give(const uint8_t *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, data, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
	inputs++;
}

static uint64_t next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15;
	uint64_t z = *state;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void change(uint8_t *data, size_t n, uint64_t *state)
{
	enum { WORD = 4 };
	uint64_t r = next(state);
	size_t words = n / WORD;

	if (r % 2 || words < 2)
		data[r / 16 % n] ^= (uint8_t)(1 << (r / 2) % 8);
	else
		memmove(data + r / 2 % words * WORD, data + next(state) % words * WORD, WORD);
}

static void shake(const uint8_t *data, size_t n)
{
	uint64_t state = n;
	uint8_t *changed = malloc(n + 1);

	if (!changed)
		abort();
	for (unsigned i = 0; n && i < shakes; i++) {
		give(data, next(&state) % n);
		memcpy(changed, data, n);
		for (unsigned k = 0; k <= i % 4; k++)
			change(changed, n, &state);
		give(changed, n);
	}
	free(changed);
}

static int replay_file(const char *path, size_t n)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(n + 1);
	size_t got;

	if (!f || !data) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	got = fread(data, 1, n, f);
	fclose(f);
	give(data, got);
	shake(data, got);
	free(data);
	return 0;
}

static int replay(const char *path);

static int replay_folder(const char *path)
{
	struct dirent **entry;
	int n = scandir(path, &entry, NULL, alphasort);
	int bad = n < 0;

	for (int i = 0; i < n; i++) {
		size_t size = strlen(path) + strlen(entry[i]->d_name) + 2;
		char *inside = malloc(size);

		if (!inside)
			abort();
		snprintf(inside, size, "%s/%s", path, entry[i]->d_name);
		if (entry[i]->d_name[0] != '.')
			bad |= replay(inside);
		free(inside);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	return bad;
}

static int replay(const char *path)
{
	struct stat s;

	if (stat(path, &s)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	return S_ISDIR(s.st_mode) ? replay_folder(path) : replay_file(path, (size_t)s.st_size);
}

int main(int argc, char **argv)
{
	int i = 1, bad = 0;

	if (argc > 2 && !strcmp(argv[1], "--shake")) {
		shakes = (unsigned)strtoul(argv[2], NULL, 10);
		i = 3;
	}
	give((const uint8_t *)"", 0);
	for (; i < argc; i++)
		bad |= replay(argv[i]);
	printf("%zu inputs\n", inputs);
	return bad;
}
