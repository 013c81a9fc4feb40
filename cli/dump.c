/* Tensors of runs as files, in the vendor's folders and by its names. */
#include "cli/dump.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* ---- which tensors are dumped ---- */

static const char *stated(const struct cli *c, const char *member)
{
	char name[64];

	snprintf(name, sizeof name, "dump_config.%s", member);
	return setting_value(c, name);
}

static bool is_true(const char *value)
{
	return value && (!strcmp(value, "true") || !strcmp(value, "1"));
}

static bool states(const struct cli *c, const char *member, const char *value)
{
	const char *is = stated(c, member);

	return is && !strcmp(is, value);
}

static struct dump_wish wish_of(const struct cli *c)
{
	const char *exception = setting_value(c, "enable_exception_dump");
	struct dump_wish w = { .tensors = option_on(c, OPTION_DUMP) ||
					  is_true(stated(c, "enable_dump")),
		.overflows = is_true(stated(c, "enable_dump_debug")) &&
			     !states(c, "dump_debug_mode", "atomic_overflow"),
		.faults = exception && strcmp(exception, "0") != 0 };

	w.inputs = states(c, "dump_mode", "input") || states(c, "dump_mode", "all");
	w.outputs = !states(c, "dump_mode", "input");
	w.statistics = states(c, "dump_data", "stats");
	w.messages = !strcmp(option(c, OPTION_DUMP_FORMAT, "npy"), "dumpdata");
	w.keeps = w.overflows || w.faults;
	return w;
}

int dump_tee(const struct cli *c)
{
	struct dump_wish w = wish_of(c);

	if (w.keeps || (w.tensors && w.inputs))
		return HT_TEE_CONSTANTS;
	return w.tensors ? HT_TEE_RESULTS : HT_TEE_NOTHING;
}

/* Whether dump_step, such as "0|3-5" (already checked), contains this step. */
static bool has_step(const char *steps, unsigned long long step)
{
	if (!steps || !*steps)
		return true;
	for (char *at = (char *)(uintptr_t)steps; *at; at += *at == '|') {
		unsigned long long first = strtoull(at, &at, 10),
				   last = *at == '-' ? strtoull(at + 1, &at, 10) : first;

		if (first <= step && step <= last)
			return true;
	}
	return false;
}

/* Whether dump_layer, names separated by single blanks, contains this node. */
static bool has_layer(const char *layers, const char *node)
{
	size_t n = strlen(node);

	if (!layers || !*layers)
		return true;
	for (const char *at = layers, *blank; at; at = blank ? blank + 1 : NULL) {
		blank = strchr(at, ' ');
		if (!strncmp(at, node, n) && (at[n] == ' ' || !at[n]))
			return true;
	}
	return false;
}

/* ---- folders ---- */

static enum ht_status make_folder(const char *path)
{
	struct stat about;
	int why;

	if (mkdir(path, 0777) == 0)
		return HT_OK;
	why = errno;
	if (why == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode))
		return HT_OK;
	return fail(HT_E_ENVIRONMENT, "%s: this folder cannot be made: %s", path,
		strerror(why == EEXIST ? ENOTDIR : why));
}

/* Makes missing folders. */
enum ht_status dump_folders(const char *path)
{
	struct text at = { 0 };
	enum ht_status st = HT_OK;

	text_printf(&at, "%s", path);
	for (char *p = at.p + 1; st == HT_OK; p++) {
		char was = *p;

		if (was && was != '/')
			continue;
		*p = 0;
		st = make_folder(at.p);
		*p = was;
		if (!was)
			break;
	}
	if (st == HT_OK && access(path, W_OK | X_OK) != 0)
		st = fail(HT_E_ENVIRONMENT, "%s: cannot write to this folder: %s", path,
			strerror(errno));
	free(at.p);
	return st;
}

/* Makes FOLDER/YYYYMMDDHHMMSS, which no other dump has. */
static enum ht_status make_time_folder(const char *folder, struct text *out)
{
	for (time_t now = time(NULL);; now++) {
		char stamp[32];
		struct tm tm;

		localtime_r(&now, &tm);
		strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &tm);
		out->n = 0;
		text_printf(out, "%s/%s", folder, stamp);
		if (mkdir(out->p, 0777) == 0)
			return HT_OK;
		if (errno != EEXIST)
			return fail(HT_E_ENVIRONMENT, "%s: this folder cannot be made: %s", out->p,
				strerror(errno));
	}
}

/* Writes the name as the vendor's file names have it. */
void dump_plain(struct text *t, const char *name)
{
	for (; *name; name++) {
		bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
			     (*name >= '0' && *name <= '9') || *name == '-';

		text_printf(t, "%c", plain ? *name : '_');
	}
}

static char *model_name(const struct cli *c)
{
	size_t n = strlen(c->model);
	const char *end = c->model + n, *from, *dot;
	struct text t = { 0 };
	char *word;

	while (end > c->model + 1 && end[-1] == '/')
		end--;
	for (from = end; from > c->model && from[-1] != '/'; from--)
		;
	for (dot = end; dot > from && *dot != '.'; dot--)
		;
	word = strndup(from, (size_t)((dot > from ? dot : end) - from));
	text_printf(&t, "%s", "");
	dump_plain(&t, word ? word : "model");
	free(word);
	return t.p;
}

static enum ht_status begin_folder(struct dump *d)
{
	struct cli *c = d->cli;
	const char *device = setting_value(c, "session_device_id");
	struct text at = { 0 };
	char *name;
	enum ht_status st;

	if (!d->wish.tensors && !d->wish.overflows)
		return HT_OK;
	st = dump_folders(d->path);
	if (st != HT_OK)
		return st;
	name = model_name(c);
	st = make_time_folder(d->path, &at);
	text_printf(&at, "/%d/%s", device ? atoi(device) > 0 ? atoi(device) : 0 : 0,
		*name ? name : "model");
	d->folder = at.p;
	free(name);
	return st;
}

/* ---- names ---- */

static int64_t now_us(void)
{
	struct timeval t;

	gettimeofday(&t, NULL);
	return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

enum { MOST_NAME = 255 };

/* A name that is too long is replaced by digits; mapping.csv has the original. */
static void shorten(struct dump *d, const char *folder, struct text *name, const char *ending)
{
	uint64_t hash = 14695981039346656037u;
	struct text path = { 0 };
	FILE *f;

	for (const char *p = name->p; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	text_printf(&path, "%s/mapping.csv", folder);
	f = fopen(path.p, "ae");
	if (f) {
		fprintf(f, "%020llu%s,%s\n", (unsigned long long)hash, ending, name->p);
		if (fclose(f) != 0)
			f = NULL;
	}
	if (!f)
		dump_failed(d, path.p);
	name->n = 0;
	text_printf(name, "%020llu%s", (unsigned long long)hash, ending);
	free(path.p);
}

/* Writes TYPE.NAME.TASK.STREAM.TIME for the node of tensor `by`. */
static void put_node(struct dump *d, struct text *t, size_t by, uint64_t execution)
{
	const struct ht_tensor_info *i = &d->at->info[by];

	text_printf(t, "%s", "");
	dump_plain(t, i->op);
	text_printf(t, ".");
	if (*i->body) {
		dump_plain(t, i->body);
		text_printf(t, "_");
	}
	dump_plain(t, i->node);
	text_printf(t, ".%zu.0.%016lld", by, (long long)d->stamp + (long long)execution);
}

static const char *ending_of(const struct dump *d)
{
	return d->wish.statistics ? ".csv" : d->wish.messages ? "" : ".npy";
}

/* The file of result or operand `index` of a node.  Statistics, and tensors in the vendor's
 * format, share one file. */
static char *path_of(struct dump *d, const char *folder, size_t by, const char *what, size_t index,
	uint64_t execution)
{
	const char *ending = ending_of(d);
	struct text name = { 0 }, path = { 0 };

	put_node(d, &name, by, execution);
	if (!d->wish.statistics && !d->wish.messages)
		text_printf(&name, ".%s.%zu", what, index);
	text_printf(&name, "%s", ending);
	if (name.n > MOST_NAME)
		shorten(d, folder, &name, ending);
	text_printf(&path, "%s/%s", folder, name.p);
	free(name.p);
	return path.p;
}

/* ---- files ---- */

/* Stops dumping; the run continues, since its results are correct. */
void dump_failed(struct dump *d, const char *path)
{
	if (d->status == HT_OK)
		d->status = fail(HT_E_ENVIRONMENT,
			"%s: cannot write: %s; the dump is not whole, the results of the run are",
			path, strerror(errno ? errno : EIO));
}

static bool put_elements(FILE *f, const struct ht_array *a)
{
	const uint16_t *from = a->data;
	float wide[512];

	if (a->dtype != HT_BF16)
		return fwrite(a->data, 1, a->bytes, f) == a->bytes;
	for (size_t done = 0, n, all = a->bytes / 2; done < all; done += n) {
		n = all - done < 512 ? all - done : 512;
		ht_widen(from + done, HT_BF16, wide, n);
		if (fwrite(wide, sizeof *wide, n, f) != n)
			return false;
	}
	return true;
}

/* The parts of a batch arrive one after the other. */
static void put_array(
	struct dump *d, const char *path, const struct ht_tensor_info *i, const struct ht_seen *s)
{
	const struct ht_array whole = { .dtype = i->dtype, .rank = i->rank, .dim = i->dim };
	char head[NPY_HEAD];
	size_t n = npy_begin(&whole, true, head);
	bool good;
	FILE *f;

	errno = 0;
	f = fopen(path, s->part ? "abe" : "wbe");
	good = f && (s->part || fwrite(head, 1, n, f) == n) && put_elements(f, &s->array);
	if (f && fclose(f) != 0)
		good = false;
	if (good)
		return;
	dump_failed(d, path);
	unlink(path);
}

static void put_message(struct dump *d, const char *path, size_t by, const char *what, size_t index,
	const struct ht_seen *s)
{
	const int side = strcmp(what, "input") ? DUMP_OUTPUT : DUMP_INPUT;
	const uint64_t time = (uint64_t)d->stamp + s->execution;

	errno = 0;
	if (dump_file_put(
		    path, d->at->info[by].node, time, side, index, &d->at->info[s->tensor], s))
		return;
	dump_failed(d, path);
	unlink(path);
}

static void write_one(struct dump *d, const char *folder, size_t by, const char *what, size_t index,
	const struct ht_seen *s)
{
	char *path = path_of(d, folder, by, what, index, s->execution);

	if (d->wish.statistics)
		dump_statistics(d, path, what, index, s);
	else if (d->wish.messages)
		put_message(d, path, by, what, index, s);
	else
		put_array(d, path, &d->at->info[s->tensor], s);
	free(path);
}

/* ---- in a run ---- */

static void write_uses(struct dump *d, const struct ht_seen *s)
{
	const struct ht_tensor_info *i = &d->at->info[s->tensor];

	for (size_t k = 0; k < i->uses && d->status == HT_OK; k++) {
		size_t by = i->use[k].by;

		if (d->at->info[by].imported && has_layer(d->layers, d->at->info[by].node))
			write_one(d, d->step_folder, by, "input", i->use[k].operand, s);
	}
}

/* If layers are named, inputs of the graph are dumped with the layer that reads them. */
static bool is_of_layer(const struct dump *d, const struct ht_tensor_info *i)
{
	if (i->kind != HT_TENSOR_INPUT)
		return i->kind == HT_TENSOR_COMPUTED && has_layer(d->layers, i->node);
	for (size_t k = 0; d->layers && *d->layers && k < i->uses; k++)
		if (has_layer(d->layers, d->at->info[i->use[k].by].node))
			return true;
	return false;
}

/* The tensor that is result 0 of the node of this tensor. */
static size_t node_of(const struct dump *d, size_t tensor)
{
	size_t back = d->at->info[tensor].result;

	for (size_t i = tensor; back && i-- > 0;)
		if (!d->at->info[i].result &&
			!strcmp(d->at->info[i].node, d->at->info[tensor].node) &&
			!strcmp(d->at->info[i].body, d->at->info[tensor].body))
			return i;
	return tensor;
}

static void see(void *arg, const struct ht_seen *s)
{
	struct dump *d = arg;
	const struct ht_tensor_info *i = &d->at->info[s->tensor];

	if (d->status != HT_OK)
		return;
	if (d->wish.statistics)
		dump_count(d, s);
	if (d->wish.keeps)
		dump_keep(d, s);
	if (!d->wish.tensors || !d->chosen)
		return;
	if (d->wish.outputs && i->imported && is_of_layer(d, i))
		write_one(d, d->step_folder, node_of(d, s->tensor), "output", i->result, s);
	if (d->wish.inputs)
		write_uses(d, s);
}

void dump_operands(struct dump *d, const char *folder, size_t by)
{
	for (size_t t = 0; t < d->at->tensors && d->status == HT_OK; t++)
		for (size_t k = 0; k < d->at->info[t].uses && d->at->kept[t].seen.array.data; k++)
			if (d->at->info[t].use[k].by == by)
				write_one(d, folder, by, "input", d->at->info[t].use[k].operand,
					&d->at->kept[t].seen);
}

void dump_overflow(struct dump *d, const struct ht_seen *s)
{
	d->status = dump_folders(d->step_folder);
	dump_operands(d, d->step_folder, node_of(d, s->tensor));
	if (d->status == HT_OK)
		write_one(d, d->step_folder, node_of(d, s->tensor), "output",
			d->at->info[s->tensor].result, s);
}

/* ---- faults ---- */

/* The node that the last error concerns; d->at->tensors: it has no tensor. */
static size_t failed_node(const struct dump *d)
{
	size_t n = ht_diags_count(d->cli->diags);
	struct ht_message m = { .severity = HT_NOTE };

	while (n && m.severity == HT_NOTE)
		ht_diags_get(d->cli->diags, --n, &m);
	if (!m.node)
		return d->at->tensors;
	for (size_t i = 0; i < d->at->tensors; i++)
		if (!strcmp(d->at->info[i].node, m.node) &&
			d->at->info[i].kind == HT_TENSOR_COMPUTED)
			return i;
	return d->at->tensors;
}

/* Writes the vendor's folder with the operands of an op that failed. */
static void dump_fault(struct dump *d)
{
	const char *device = setting_value(d->cli, "session_device_id");
	size_t by = failed_node(d);
	struct text at = { 0 };

	if (by == d->at->tensors || d->status != HT_OK)
		return;
	text_printf(&at, "%s/extra-info/data-dump/%s", d->path,
		device && *device != '-' ? device : "0");
	d->status = dump_folders(at.p);
	if (d->status == HT_OK)
		dump_operands(d, at.p, by);
	if (d->status == HT_OK)
		note(d->cli, "the operands of '%s' are in %s", d->at->info[by].node, at.p);
	free(at.p);
}

/* ---- from run to run ---- */

static enum ht_status check_format(const struct cli *c, const struct dump_wish *w)
{
	const char *format = option(c, OPTION_DUMP_FORMAT, "npy");

	if (strcmp(format, "npy") != 0 && strcmp(format, "dumpdata") != 0)
		return fail(HT_E_USAGE, "--dump-format: '%s' is none of npy, dumpdata", format);
	if (!option_on(c, OPTION_DUMP_FORMAT))
		return HT_OK;
	if (!w->tensors && !w->keeps)
		return fail(HT_E_USAGE, "--dump-format has no effect without a dump");
	if (w->statistics)
		return fail(HT_E_USAGE,
			"--dump-format is about elements, and dump_data=stats writes none");
	return HT_OK;
}

enum ht_status dump_begin(struct cli *c, struct dump **out)
{
	struct dump_wish w = wish_of(c);
	struct dump *d;
	enum ht_status st = check_format(c, &w);

	if (st != HT_OK || (!w.tensors && !w.keeps))
		return st;
	d = *out = must_alloc(sizeof *d);
	d->cli = c;
	d->wish = w;
	d->layers = stated(c, "dump_layer");
	d->path = option(c, OPTION_DUMP, stated(c, "dump_path"));
	if (!d->path)
		d->path = ".";
	return begin_folder(d);
}

enum ht_status dump_program(struct dump *d, const struct ht_program *p, struct ht_context *c)
{
	struct dumped *at = &d->program[d->programs++];

	while (ht_program_tensor(p, at->tensors, &(struct ht_tensor_info){ 0 }))
		at->tensors++;
	at->info = must_alloc((at->tensors + 1) * sizeof *at->info);
	at->kept = must_alloc((at->tensors + 1) * sizeof *at->kept);
	at->moments = must_alloc((at->tensors + 1) * sizeof *at->moments);
	for (size_t i = 0; i < at->tensors; i++)
		ht_program_tensor(p, i, &at->info[i]);
	return at->tensors ? ht_context_see(c, see, d, d->cli->diags) : HT_OK;
}

void dump_run_begin(struct dump *d, size_t program, unsigned long long run)
{
	struct text at = { 0 };

	d->at = &d->program[program];
	d->all++;
	d->stamp = now_us();
	d->chosen = has_step(stated(d->cli, "dump_step"), run);
	free(d->step_folder);
	d->step_folder = NULL;
	if (!d->folder)
		return;
	text_printf(&at, "%s/%zu/%llu", d->folder, program + 1, run);
	d->step_folder = at.p;
	if (d->chosen && d->wish.tensors && d->status == HT_OK)
		d->status = dump_folders(at.p);
	d->runs += d->chosen;
}

void dump_run_end(struct dump *d, enum ht_status st)
{
	if (st != HT_OK && d->wish.faults)
		dump_fault(d);
	dump_forget(d->at);
}

enum ht_status dump_end(const struct dump *d)
{
	if (!d)
		return HT_OK;
	if (d->status == HT_OK && d->wish.tensors && d->folder)
		note(d->cli, "the tensors of %llu of %llu runs are in %s", d->runs, d->all,
			d->folder);
	if (d->wish.overflows)
		note(d->cli, "%zu nodes overflowed%s%s", d->overflowed,
			d->overflowed ? "; their tensors are in " : "",
			d->overflowed ? d->folder : "");
	return d->status;
}

void dump_free(struct dump *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->programs; i++) {
		dump_forget(&d->program[i]);
		free(d->program[i].info);
		free(d->program[i].kept);
		free(d->program[i].moments);
	}
	free(d->folder);
	free(d->step_folder);
	free(d);
}
