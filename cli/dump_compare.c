/* halftone compare A B: compares two dumps, or a dump with arrays of another system, tensor by
 * tensor. */
#include "cli/dump.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of a dump.  Several executions of a node in one run, as in a loop, have the same name
 * and different `time`. */
struct tensor_file {
	char *path, *key; /* key: RUN/NAME.output.0 */
	int side;         /* in a vendor's file: DUMP_INPUT or DUMP_OUTPUT; -1: a .npy file */
	size_t index;     /* there */
	long long task, time;
};

struct tensor_files {
	struct tensor_file *file;
	size_t n, cap;
};

struct difference {
	double rel, rms, cos, abs;      /* as in docs/compare.md */
	size_t elements, nan, infinite; /* nan, infinite: elements that are so only in the first
					 * tensor */
	bool fits;
};

static void free_files(struct tensor_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->file[i].path);
		free(f->file[i].key);
	}
	free(f->file);
}

/* ---- names ---- */

static bool is_number(const char *s, size_t n)
{
	return n && strspn(s, "0123456789") >= n;
}

/* The parts of a name between its dots, without ".npy". */
enum { MOST_PARTS = 16 };

static int split_name(char *name, char **part)
{
	int n = 0;

	for (char *at = strtok(name, "."); at && n < MOST_PARTS; at = strtok(NULL, "."))
		part[n++] = at;
	return n && !strcmp(part[n - 1], "npy") ? n - 1 : 0;
}

/* Parses TYPE.NAME.TASK.STREAM.TIME.output.INDEX of a dump; NAME.INDEX.TIME, NAME.INDEX or NAME
 * of others. */
static bool read_name(const char *run, const char *file, struct tensor_file *out)
{
	char *copy = strdup(file), *part[MOST_PARTS];
	int n = copy ? split_name(copy, part) : 0;
	struct text key = { 0 };

	if (n == 7 && is_number(part[2], strlen(part[2])) && is_number(part[4], strlen(part[4]))) {
		text_printf(&key, "%s/%s.%s.%s", run, part[1], part[5], part[6]);
		out->task = strtoll(part[2], NULL, 10);
		out->time = strtoll(part[4], NULL, 10);
	} else if (n >= 1 && n <= 3) {
		text_printf(&key, "%s/", run);
		dump_plain(&key, part[0]);
		text_printf(&key, ".output.%s",
			n > 1 && is_number(part[1], strlen(part[1])) ? part[1] : "0");
	}
	free(copy);
	out->key = key.p;
	return key.p != NULL;
}

/* Parses TYPE.NAME.TASK.STREAM.TIME, the name of a file with all tensors of a node: the length
 * of TYPE, and where TASK begins; 0: it is another name. */
enum { TIME_DIGITS = 16 };

static size_t message_task(const char *file)
{
	size_t dot[5], dots = 0, n = strlen(file);

	for (size_t i = 0; i < n && dots < 5; i++)
		if (file[i] == '.')
			dot[dots++] = i;
	return dots == 4 && dot[0] && n - dot[3] - 1 == TIME_DIGITS &&
			       is_number(file + dot[1] + 1, dot[2] - dot[1] - 1) &&
			       is_number(file + dot[3] + 1, TIME_DIGITS)
		       ? dot[1] + 1
		       : 0;
}

/* The original of a name of digits, from mapping.csv; NULL: it is not there.  The caller frees
 * it. */
static char *mapped_name(const char *folder, const char *file)
{
	struct text path = { 0 };
	char *line = NULL, *name = NULL;
	size_t cap = 0, n = strlen(file);
	ssize_t got;
	FILE *f;

	text_printf(&path, "%s/mapping.csv", folder);
	f = fopen(path.p, "re");
	free(path.p);
	while (f && !name && (got = getline(&line, &cap, f)) > 0) {
		line[strcspn(line, "\r\n")] = 0;
		if ((size_t)got > n + 1 && !strncmp(line, file, n) && line[n] == ',')
			name = strdup(line + n + 1);
	}
	free(line);
	if (f)
		fclose(f);
	return name;
}

/* ---- folders ---- */

static void make_room(struct tensor_files *to)
{
	struct tensor_file *file;

	if (to->n < to->cap)
		return;
	to->cap = to->cap ? 2 * to->cap : 64;
	file = realloc(to->file, to->cap * sizeof *file);
	if (!file)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	to->file = file;
}

static void add(struct tensor_files *to, struct tensor_file f, const char *path)
{
	f.path = strdup(path);
	make_room(to);
	to->file[to->n++] = f;
}

/* Adds all tensors of the vendor's file with this name. */
static enum ht_status add_message(
	struct tensor_files *to, const char *path, const char *run, const char *name, size_t task)
{
	const char *node = strchr(name, '.') + 1;
	struct dump_file file;
	enum ht_status st = dump_file_read(path, &file);

	for (int side = DUMP_INPUT; st == HT_OK && side <= DUMP_OUTPUT; side++)
		for (size_t i = 0; i < file.of[side].n; i++) {
			struct tensor_file f = { .side = side,
				.index = i,
				.task = strtoll(name + task, NULL, 10),
				.time = strtoll(strrchr(name, '.') + 1, NULL, 10) };
			struct text key = { 0 };

			if (file.of[side].tensor[i].dtype == HT_INVALID)
				continue;
			text_printf(&key, "%s/%.*s.%s.%zu", run, (int)(name + task - 1 - node),
				node, side == DUMP_INPUT ? "input" : "output", i);
			f.key = key.p;
			add(to, f, path);
		}
	if (st == HT_OK)
		dump_file_free(&file);
	return st;
}

static enum ht_status add_file(
	struct tensor_files *to, const char *folder, const char *run, const char *name)
{
	struct tensor_file f = { .side = -1 };
	char *mapped = is_number(name, strcspn(name, ".")) ? mapped_name(folder, name) : NULL;
	const char *full = mapped ? mapped : name;
	const size_t task = message_task(full);
	struct text path = { 0 };
	enum ht_status st = HT_OK;

	text_printf(&path, "%s/%s", folder, name);
	if (task)
		st = add_message(to, path.p, run, full, task);
	else if (read_name(run, full, &f))
		add(to, f, path.p);
	free(path.p);
	free(mapped);
	return st;
}

static bool is_time(const char *name)
{
	return strlen(name) == 14 && is_number(name, 14);
}

enum { DEEPEST = 8 /* limit of nested folders, above those of a dump */ };

/* If a folder has several dumps, the last one is read. */
static enum ht_status read_folder(
	struct tensor_files *to, const char *folder, const char *run, int depth)
{
	struct dirent **entry;
	int n = scandir(folder, &entry, NULL, alphasort), last = -1;
	enum ht_status st = HT_OK;

	if (n < 0)
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", folder, strerror(errno));
	for (int i = 0; i < n; i++)
		last = is_time(entry[i]->d_name) ? i : last;
	for (int i = 0; i < n; i++) {
		const char *name = entry[i]->d_name;
		const size_t len = strlen(name);
		struct text path = { 0 };
		struct stat about;

		text_printf(&path, "%s/%s", folder, name);
		if (*name == '.' || stat(path.p, &about) != 0 || (is_time(name) && i != last)) {
		} else if (S_ISDIR(about.st_mode) && depth < DEEPEST && st == HT_OK) {
			st = read_folder(to, path.p, is_number(name, len) && len < 14 ? name : run,
				depth + 1);
		} else if (S_ISREG(about.st_mode) && st == HT_OK) {
			st = add_file(to, folder, run, name);
		}
		free(path.p);
		free(entry[i]);
	}
	free(entry);
	return st;
}

static int same_key(const void *a, const void *b)
{
	return strcmp(((const struct tensor_file *)a)->key, ((const struct tensor_file *)b)->key);
}

static int by_key(const void *a, const void *b)
{
	const struct tensor_file *x = a, *y = b;
	int keys = strcmp(x->key, y->key);

	return keys ? keys : (x->time > y->time) - (x->time < y->time);
}

/* Numbers executions of the same node, and sorts the files by their keys. */
static void number_executions(struct tensor_files *f)
{
	struct text key;
	size_t same = 0;

	qsort(f->file, f->n, sizeof *f->file, by_key);
	for (size_t i = 1; i < f->n; i++) {
		size_t plain = strlen(f->file[i - 1 - same].key);

		if (strncmp(f->file[i].key, f->file[i - 1 - same].key, plain + 1) != 0) {
			same = 0;
			continue;
		}
		same++;
		key = (struct text){ 0 };
		text_printf(&key, "%s#%zu", f->file[i].key, same);
		free(f->file[i].key);
		f->file[i].key = key.p;
	}
	qsort(f->file, f->n, sizeof *f->file, same_key);
}

static enum ht_status read_dump(const char *folder, struct tensor_files *out)
{
	enum ht_status st = read_folder(out, folder, "0", 0);

	if (st == HT_OK && !out->n)
		st = fail(HT_E_INPUT,
			"%s: there are no tensors in this folder, as .npy or in the vendor's files",
			folder);
	if (st == HT_OK)
		number_executions(out);
	return st;
}

/* ---- two tensors ---- */

static struct difference differ(const struct ht_array *a, const struct ht_array *b)
{
	size_t size = ht_dtype_bytes(b->dtype), n = size ? b->bytes / size : 0;
	double top = 0, squares = 0, own = 0, others = 0, product = 0;
	struct difference d = { .elements = n, .fits = have_same_shape(a, b) };

	for (size_t i = 0; d.fits && i < n; i++) {
		double x = array_number(a, i), y = array_number(b, i), far = fabs(x - y);

		d.nan += isnan(x) && !isnan(y);
		d.infinite += isinf(x) && isfinite(y);
		if (x == y || (isnan(x) && isnan(y)))
			far = 0;
		else if (!isfinite(far))
			far = INFINITY;
		d.abs = far > d.abs ? far : d.abs;
		top = isfinite(y) && fabs(y) > top ? fabs(y) : top;
		squares += far * far;
		if (!isfinite(x) || !isfinite(y))
			continue;
		own += y * y;
		others += x * x;
		product += x * y;
	}
	d.rel = d.abs > 0 ? d.abs / top : 0;
	d.rms = squares > 0 ? sqrt(squares / own) : 0;
	d.cos = own > 0 && others > 0 ? product / sqrt(own * others) : own == others;
	return d;
}

static enum ht_status load_tensor(const struct tensor_file *f, struct array *out)
{
	const struct dump_tensor *t;
	struct dump_file file;
	enum ht_status st;

	if (f->side < 0)
		return npy_load(f->path, out);
	st = dump_file_read(f->path, &file);
	if (st != HT_OK)
		return st;
	t = dump_file_tensor(&file, f->side, f->index);
	st = array_make(out, t->dtype, t->rank, t->dim);
	if (st == HT_OK && out->a.bytes == t->bytes)
		memcpy(out->a.data, t->data, t->bytes);
	dump_file_free(&file);
	return st;
}

static enum ht_status differ_files(
	const struct tensor_file *a, const struct tensor_file *b, struct difference *out)
{
	struct array x = { 0 }, y = { 0 };
	enum ht_status st = load_tensor(a, &x);

	if (st == HT_OK)
		st = load_tensor(b, &y);
	x.a.dim = x.shape;
	y.a.dim = y.shape;
	if (st == HT_OK)
		*out = differ(&x.a, &y.a);
	array_free(&x);
	array_free(&y);
	return st;
}

/* ---- the report ---- */

struct comparing_dumps {
	struct cli *c;
	struct tensor_files a, b;
	struct text out;
	const char *format;
	double tol;
	bool bounded;
	size_t pairs, above, alone;
	char *first; /* the first that exceeds the tolerance, or that differs */
};

static void put_number(struct text *t, const char *name, double x)
{
	text_printf(t, ", \"%s\": ", name);
	text_number(t, x);
}

static void put_pair(struct comparing_dumps *k, const char *key, const struct difference *d)
{
	if (!strcmp(k->format, "json")) {
		text_printf(&k->out, k->pairs ? ",\n  {\"tensor\": " : "\n  {\"tensor\": ");
		text_json(&k->out, key);
		text_printf(&k->out, ", \"elements\": %zu, \"same_shape\": %s", d->elements,
			d->fits ? "true" : "false");
		put_number(&k->out, "rel", d->rel);
		put_number(&k->out, "rms", d->rms);
		put_number(&k->out, "cos", d->cos);
		put_number(&k->out, "abs", d->abs);
		text_printf(&k->out, ", \"nan\": %zu, \"infinite\": %zu}", d->nan, d->infinite);
	} else if (!strcmp(k->format, "csv")) {
		text_printf(&k->out, "%s,%zu,%d,%.9g,%.9g,%.9g,%.9g,%zu,%zu\n", key, d->elements,
			d->fits, d->rel, d->rms, d->cos, d->abs, d->nan, d->infinite);
	} else if (!d->fits) {
		text_printf(&k->out, "%-44s %s\n", "has another shape", key);
	} else {
		text_printf(&k->out, "%10.3g %10.3g %10.6f %5zu %5zu  %s\n", d->rel, d->rms, d->cos,
			d->nan, d->infinite, key);
	}
}

static void take_pair(
	struct comparing_dumps *k, const struct tensor_file *a, const struct difference *d)
{
	bool above = !d->fits || !(d->rel <= (k->bounded ? k->tol : 0));

	put_pair(k, a->key, d);
	k->pairs++;
	k->above += above;
	if (above && !k->first)
		k->first = strdup(a->key);
}

static int by_task(const void *a, const void *b)
{
	const struct tensor_file *x = a, *y = b;

	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	return by_key(a, b);
}

/* Compares in the order in which the first dump's run computed the tensors. */
static enum ht_status compare_pairs(struct comparing_dumps *k)
{
	enum ht_status st = HT_OK;

	qsort(k->a.file, k->a.n, sizeof *k->a.file, by_task);
	for (size_t i = 0; i < k->a.n && st == HT_OK; i++) {
		const struct tensor_file *b =
			bsearch(&(struct tensor_file){ .key = k->a.file[i].key }, k->b.file, k->b.n,
				sizeof *k->b.file, same_key);
		struct difference d;

		k->alone += !b;
		if (!b)
			continue;
		st = differ_files(&k->a.file[i], b, &d);
		if (st == HT_OK)
			take_pair(k, &k->a.file[i], &d);
	}
	return st;
}

static void put_begin(struct comparing_dumps *k)
{
	if (!strcmp(k->format, "json"))
		text_printf(&k->out, "{\"schema\": \"halftone.dumps/1\",\n \"tensors\": [");
	else if (!strcmp(k->format, "csv"))
		text_printf(&k->out, "tensor,elements,same_shape,rel,rms,cos,abs,nan,infinite\n");
	else
		text_printf(&k->out, "%10s %10s %10s %5s %5s  tensor\n", "rel", "rms", "cos", "nan",
			"inf");
}

static void put_end(struct comparing_dumps *k)
{
	const char *what = k->bounded ? "above the tolerance" : "different";

	if (!strcmp(k->format, "json")) {
		text_printf(&k->out,
			"],\n \"compared\": %zu, \"above\": %zu, \"alone\": %zu, \"first\": ",
			k->pairs, k->above, k->alone);
		if (k->first)
			text_json(&k->out, k->first);
		else
			text_printf(&k->out, "null");
		text_printf(&k->out, "}\n");
	} else if (!strcmp(k->format, "text")) {
		text_printf(&k->out,
			"%zu tensors compared, %zu %s%s%s; %zu are in the first alone\n", k->pairs,
			k->above, what, k->first ? ", the first is " : "", k->first ? k->first : "",
			k->alone);
	}
}

static enum ht_status read_options(struct comparing_dumps *k)
{
	const char *tol = option(k->c, OPTION_TOL, NULL);
	char *end = NULL;

	k->format = option(k->c, OPTION_FORMAT, "text");
	k->bounded = tol != NULL;
	if (tol)
		k->tol = strtod(tol, &end);
	if (tol && (end == tol || *end || !(k->tol >= 0)))
		return fail(HT_E_USAGE,
			"--tol: '%s' is no number; of dumps it bounds max|a-b| / max|b|", tol);
	if (strcmp(k->format, "text") && strcmp(k->format, "json") && strcmp(k->format, "csv"))
		return fail(HT_E_USAGE,
			"--format: '%s' is none of text, json, csv, which dumps have", k->format);
	return HT_OK;
}

static enum ht_status compare_all(struct comparing_dumps *k)
{
	enum ht_status st = read_options(k);

	if (st == HT_OK)
		st = read_dump(k->c->result[0], &k->a);
	if (st == HT_OK)
		st = read_dump(k->c->result[1], &k->b);
	if (st != HT_OK)
		return st;
	put_begin(k);
	st = compare_pairs(k);
	if (st == HT_OK && !k->pairs)
		st = fail(HT_E_INPUT, "%s and %s have no tensor of one name", k->c->result[0],
			k->c->result[1]);
	put_end(k);
	if (st == HT_OK)
		st = text_print(&k->out);
	return st == HT_OK && k->bounded && k->above ? HT_E_VERDICT : st;
}

enum place { NOTHING, DUMP, OTHER };

static enum place place_of(const char *path)
{
	static const char *const models[] = { "saved_model.pb", "saved_model.pbtxt", "model.json" };
	struct stat about;
	enum place is = DUMP;

	if (stat(path, &about) != 0)
		return errno == ENOENT ? NOTHING : OTHER;
	if (!S_ISDIR(about.st_mode))
		return OTHER;
	for (size_t i = 0; is == DUMP && i < sizeof models / sizeof *models; i++) {
		struct text file = { 0 };
		text_printf(&file, "%s/%s", path, models[i]);
		is = access(file.p, F_OK) == 0 ? OTHER : DUMP;
		free(file.p);
	}
	return is;
}

bool are_dumps(const char *a, const char *b)
{
	enum place of_a = place_of(a), of_b = place_of(b);

	return of_a != OTHER && of_b != OTHER && (of_a == DUMP || of_b == DUMP);
}

enum ht_status compare_dumps(struct cli *c)
{
	struct comparing_dumps k = { .c = c };
	enum ht_status st = compare_all(&k);

	free_files(&k.a);
	free_files(&k.b);
	free(k.first);
	return st;
}
