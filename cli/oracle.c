/* --reference tensorflow: a Python process computes the outputs of each sample with TensorFlow
 * (python/halftone/_tensorflow.py, which is embedded in the tool and describes the protocol). */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct oracle {
	const struct ht_program *program;
	pid_t pid; /* 0: not started */
	FILE *to, *from;
	char *folder, *graph; /* temporary; NULL: none */
	struct array *out;    /* of the last sample */
	struct ht_array *view;
	size_t outs;
};

/* ---- the model ---- */

static bool is_saved_model(const char *path)
{
	struct text file = { 0 };
	bool is;

	text_printf(&file, "%s/saved_model.pb", path);
	is = access(file.p, F_OK) == 0;
	free(file.p);
	return is;
}

static void remove_graph(struct oracle *o)
{
	if (o->graph)
		unlink(o->graph);
	if (o->folder)
		rmdir(o->folder);
	free(o->graph);
	free(o->folder);
	o->graph = o->folder = NULL;
}

/* TensorFlow loads SavedModels with their variables.  All other formats are converted to a GraphDef. */
static enum ht_status write_graph(
	struct cli *c, struct oracle *o, const struct ht_model *m, const char **path)
{
	const char *tmp = getenv("TMPDIR");
	struct text folder = { 0 }, graph = { 0 };

	*path = c->model;
	if (is_saved_model(c->model))
		return HT_OK;
	text_printf(&folder, "%s/halftone-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder.p)) {
		free(folder.p);
		return fail(HT_E_ENVIRONMENT,
			"--reference tensorflow: cannot make a temporary folder: %s",
			strerror(errno));
	}
	o->folder = folder.p;
	text_printf(&graph, "%s/graph.pb", o->folder);
	*path = o->graph = graph.p;
	return ht_convert(m, NULL, o->graph, c->diags);
}

/* ---- the process ---- */

struct words {
	char **word;
	size_t n;
};

static void add_word(struct words *w, const char *s)
{
	w->word[w->n] = strdup(s);
	if (!w->word[w->n++])
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
}

static void add_number(struct words *w, size_t n)
{
	char s[32];

	snprintf(s, sizeof s, "%zu", n);
	add_word(w, s);
}

static struct words command(const struct oracle *o, const char *python, const char *model)
{
	size_t ins = ht_program_inputs(o->program);
	struct words w = { must_alloc((ins + o->outs + 8) * sizeof *w.word), 0 };
	struct ht_value_info v;

	add_word(&w, python);
	add_word(&w, "-c");
	add_word(&w, oracle_script);
	add_word(&w, model);
	add_number(&w, ins);
	add_number(&w, o->outs);
	for (size_t i = 0; i < ins; i++) {
		ht_program_input(o->program, i, &v);
		add_word(&w, v.name);
	}
	for (size_t i = 0; i < o->outs; i++) {
		ht_program_output(o->program, i, &v);
		add_word(&w, v.name);
	}
	return w;
}

static enum ht_status spawn(struct oracle *o, struct words *w)
{
	int to[2] = { -1, -1 }, from[2] = { -1, -1 }, error = 0;
	posix_spawn_file_actions_t actions;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return fail(HT_E_ENVIRONMENT, "--reference tensorflow: cannot make a pipe: %s",
			strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	error = posix_spawnp(&o->pid, w->word[0], &actions, NULL, w->word, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(from[1]);
	o->to = fdopen(to[1], "wb");
	o->from = fdopen(from[0], "rb");
	if (error) {
		o->pid = 0;
		return fail(HT_E_ENVIRONMENT,
			"--reference tensorflow: cannot run '%s': %s; HALFTONE_PYTHON names an interpreter that has "
			"TensorFlow",
			w->word[0], strerror(error));
	}
	return o->to && o->from ? HT_OK : fail(HT_E_ENVIRONMENT, "out of memory");
}

/* ---- the protocol ---- */

/* Reads a line without its line end; false at the end of the answers. */
static bool read_line(const struct oracle *o, char *line, size_t room)
{
	if (!fgets(line, (int)room, o->from))
		return false;
	line[strcspn(line, "\n")] = 0;
	return true;
}

static enum ht_status expect_ok(const struct oracle *o)
{
	char line[4096];

	if (!read_line(o, line, sizeof line))
		return fail(HT_E_ENVIRONMENT, "--reference tensorflow: the Python process ended");
	if (!strcmp(line, "ok"))
		return HT_OK;
	return fail(strstr(line, "is not installed") ? HT_E_ENVIRONMENT : HT_E_UNSUPPORTED,
		"--reference tensorflow: %s",
		strncmp(line, "error: ", 7) ? line : line + strlen("error: "));
}

/* If the pipe is closed, the missing answer shows it. */
static enum ht_status send(const struct oracle *o, const struct ht_array *in)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < ht_program_inputs(o->program) && st == HT_OK; i++) {
		struct ht_bytes b = { 0 };
		st = npy_print(&in[i], false, &b);
		if (st == HT_OK)
			fwrite(b.p, 1, b.n, o->to);
		free(b.p);
	}
	fflush(o->to);
	return st;
}

static enum ht_status receive(const struct oracle *o, struct array *out)
{
	char line[64], *end = line;
	size_t n = read_line(o, line, sizeof line) ? strtoull(line, &end, 10) : 0;
	char *p;
	enum ht_status st;

	if (end == line)
		return fail(HT_E_ENVIRONMENT, "--reference tensorflow: the Python process ended");
	p = malloc(n + 1);
	if (!p)
		return fail(HT_E_ENVIRONMENT, "no memory for %zu bytes", n);
	st = fread(p, 1, n, o->from) == n
		     ? npy_parse("the output of TensorFlow", p, n, out)
		     : fail(HT_E_ENVIRONMENT, "--reference tensorflow: the Python process ended");
	free(p);
	return st;
}

static void free_outputs(struct oracle *o)
{
	for (size_t i = 0; o->out && i < o->outs; i++)
		array_free(&o->out[i]);
}

enum ht_status oracle_run(
	struct oracle *o, const struct ht_array *in, const struct ht_array **expected)
{
	enum ht_status st;

	free_outputs(o);
	st = send(o, in);
	if (st == HT_OK)
		st = expect_ok(o);
	for (size_t i = 0; i < o->outs && st == HT_OK; i++) {
		st = receive(o, &o->out[i]);
		o->view[i] = o->out[i].a;
	}
	*expected = o->view;
	return st;
}

/* ---- opening ---- */

enum ht_status oracle_open(
	struct cli *c, const struct ht_model *m, const struct ht_program *p, struct oracle **out)
{
	struct oracle *o = *out = must_alloc(sizeof *o);
	const char *python = getenv("HALFTONE_PYTHON"), *path;
	struct words w = { 0 };
	enum ht_status st;

	o->program = p;
	o->outs = ht_program_outputs(p);
	o->out = must_alloc(o->outs * sizeof *o->out);
	o->view = must_alloc(o->outs * sizeof *o->view);
	signal(SIGPIPE, SIG_IGN);
	st = write_graph(c, o, m, &path);
	if (st == HT_OK) {
		w = command(o, python && *python ? python : "python3", path);
		st = spawn(o, &w);
	}
	if (st == HT_OK)
		st = expect_ok(o);
	remove_graph(o);
	for (size_t i = 0; i < w.n; i++)
		free(w.word[i]);
	free(w.word);
	return st;
}

void oracle_close(struct oracle *o)
{
	if (!o)
		return;
	if (o->to)
		fclose(o->to);
	if (o->from)
		fclose(o->from);
	if (o->pid)
		waitpid(o->pid, NULL, 0);
	remove_graph(o);
	free_outputs(o);
	free(o->out);
	free(o->view);
	free(o);
}
