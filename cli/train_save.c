/* The checkpoints of a training in a folder: ckpt-STEP.index and its shard, and "checkpoint", which names the latest, as
 * TensorFlow's tf.train.latest_checkpoint() reads it. */
#include "cli/train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

enum ht_status save_make_dir(const char *dir)
{
	struct stat s;

	if (!mkdir(dir, 0777))
		return HT_OK;
	if (errno == EEXIST && !stat(dir, &s) && S_ISDIR(s.st_mode))
		return HT_OK;
	return fail(
		HT_E_ENVIRONMENT, "--save %s: cannot make the folder: %s", dir, strerror(errno));
}

/* model_checkpoint_path: "NAME", relative to the folder; *line: its value with quotes. */
static char *read_named(const char *dir, FILE *f)
{
	static const char key[] = "model_checkpoint_path:";
	char line[MOST_PATH], *quote, *end, *path;

	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, key, sizeof key - 1) != 0)
			continue;
		quote = strchr(line, '"');
		end = quote ? strchr(quote + 1, '"') : NULL;
		if (!end)
			return NULL;
		*end = 0;
		path = must_alloc(MOST_PATH);
		snprintf(path, MOST_PATH, "%s%s%s", quote[1] == '/' ? "" : dir,
			quote[1] == '/' ? "" : "/", quote + 1);
		return path;
	}
	return NULL;
}

enum ht_status save_find(const char *dir, char **prefix)
{
	char path[MOST_PATH];
	FILE *f;

	*prefix = NULL;
	snprintf(path, sizeof path, "%s/checkpoint", dir);
	f = fopen(path, "r");
	if (!f)
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
	*prefix = read_named(dir, f);
	fclose(f);
	return *prefix ? HT_OK : fail(HT_E_INPUT, "%s: it names no checkpoint", path);
}

static void remove_step(const char *dir, long long step)
{
	static const char *const suffix[] = { "index", "data-00000-of-00001" };
	char path[MOST_PATH];

	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/ckpt-%lld.%s", dir, step, suffix[i]);
		unlink(path);
	}
}

/* Names the new checkpoint first, then removes old ones. */
static enum ht_status name_latest(struct cli *c, const char *dir, const struct saved_at *at)
{
	struct text t = { 0 };
	char path[MOST_PATH];
	enum ht_status st;

	text_printf(&t, "model_checkpoint_path: \"ckpt-%lld\"\n", at->step[at->n - 1]);
	for (size_t i = 0; i < at->n; i++)
		text_printf(&t, "all_model_checkpoint_paths: \"ckpt-%lld\"\n", at->step[i]);
	snprintf(path, sizeof path, "%s/checkpoint", dir);
	st = ht_file_write(path, t.p, t.n, c->diags);
	free(t.p);
	return st;
}

static void add_step(struct saved_at *at, long long step)
{
	long long *grown = realloc(at->step, (at->n + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	at->step = grown;
	at->step[at->n++] = step;
}

enum ht_status save_step(
	struct cli *c, struct ht_session *s, const char *dir, long long step, struct saved_at *at)
{
	char prefix[MOST_PATH];
	long long gone = -1;
	enum ht_status st;

	snprintf(prefix, sizeof prefix, "%s/ckpt-%lld", dir, step);
	st = ht_session_save(s, prefix, c->diags);
	if (st != HT_OK)
		return st;
	add_step(at, step);
	if (at->keep && at->n > at->keep) {
		gone = at->step[0];
		memmove(at->step, at->step + 1, --at->n * sizeof *at->step);
	}
	st = name_latest(c, dir, at);
	if (st == HT_OK && gone >= 0)
		remove_step(dir, gone);
	return st;
}
