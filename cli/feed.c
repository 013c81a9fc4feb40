/* The inputs of a run: from files, the graph's defaults, or random. */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void arrays_free(struct array *a, size_t n)
{
	for (size_t i = 0; a && i < n; i++)
		array_free(&a[i]);
	free(a);
}

/* ---- files ---- */

enum ht_status load_file(enum option o, const char *spec, struct array *out)
{
	const char *path = spec + 1, *hash;
	struct npz *z;
	char *copy;
	enum ht_status st;

	if (!*path)
		return fail(HT_E_USAGE, "--%s: '%s' names no file", option_rows[o].name, spec);
	hash = strrchr(path, '#');
	if (!hash && strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".npz"))
		return fail(HT_E_USAGE, "--%s: which array of %s? @%s#KEY says it",
			option_rows[o].name, path, path);
	if (!hash || hash - path < 4 || strncmp(hash - 4, ".npz", 4))
		return npy_load(path, out);
	copy = strndup(path, (size_t)(hash - path));
	st = npz_open(copy, &z);
	if (st == HT_OK) {
		st = npz_load(z, hash + 1, out);
		npz_close(z);
	}
	free(copy);
	return st;
}

static enum ht_status no_input(
	const struct cli *c, const char *name, const char *const *names, size_t known)
{
	const char *near = near_name(name, names, known);

	return refuse(c, "the model has no input '%s'%s%s%s", name,
		near    ? "; did you mean '"
		: known ? "; its first is '"
			: "",
		near    ? near
		: known ? names[0]
			: "",
		near    ? "'?"
		: known ? "'"
			: "");
}

/* Fills by_input, by input of the program, with the values of --input.  Notes inputs of the
 * model that no output needs. */
static enum ht_status find_fed(
	struct cli *c, const struct ht_model *m, const struct ht_program *p, struct fed **by_input)
{
	const char *names[256];
	struct ht_value_info in;
	size_t known = 0, at;

	while (known < 256 && ht_program_input(p, known, &in))
		names[known++] = in.name;
	for (size_t i = 0; i < c->feds; i++) {
		struct fed *f = &c->fed[i];
		enum ht_status st = HT_OK;

		if (f->ignored)
			continue;
		if (!ht_program_input_named(p, f->name, &at)) {
			if (m)
				note(c, "input '%s' is not needed for the outputs", f->name);
			else
				st = no_input(c, f->name, names, known);
		} else if (by_input[at]) {
			ht_program_input(p, at, &in);
			st = fail(HT_E_USAGE, "--input: '%s' is given twice", in.name);
		} else {
			by_input[at] = f;
		}
		if (st != HT_OK)
			return st;
	}
	return HT_OK;
}

static enum ht_status take_file(struct fed *f, const struct ht_value_info *v, struct array *out)
{
	enum ht_status st = fed_load(f);

	if (st != HT_OK)
		return st;
	*out = f->array;
	f->array.a.data = NULL;
	if (out->raw16 && v->dtype == HT_BF16)
		out->a.dtype = HT_BF16;
	return HT_OK;
}

/* One note covers all inputs with random values; it names the first few. */
enum { MOST_NAMED = 3 };
enum { MOST_AXES = 254 };

struct made_up {
	struct text named;
	size_t n;
};

static void add_made_up(struct made_up *m, const struct ht_value_info *v)
{
	char shape[256];

	if (++m->n <= MOST_NAMED)
		text_printf(&m->named, "%s'%s' %s", m->n > 1 ? ", " : "", v->name,
			input_text(v, shape, sizeof shape));
}

static void note_made_up(const struct cli *c, struct made_up *m, long long seed)
{
	text_unnamed(&m->named, m->n, MOST_NAMED);
	if (m->n)
		note(c, "input%s %s %s random, seed %lld", m->n > 1 ? "s" : "", m->named.p,
			m->n > 1 ? "are" : "is", seed);
}

/* The library has the default, and uses it if there is no data.  Strings cannot be random. */
static enum ht_status default_strings(const struct ht_value_info *v, struct array *out)
{
	enum ht_status st;

	memset(out, 0, sizeof *out);
	if (!v->value)
		return fail(HT_E_USAGE,
			"input '%s' is of strings, which are not made up; give them with --input "
			"%s=@FILE.npy",
			v->name, v->name);
	st = array_make(out, v->dtype, v->rank, v->dim);
	array_free(out);
	return st;
}

static enum ht_status one(const struct ht_value_info *v, struct fed *f, long long seed,
	size_t number, struct array *out, struct made_up *made_up)
{
	enum ht_status st;

	if (f && is_random_spec(f->spec))
		return random_array(f->spec, v, out);
	if (f)
		return *f->spec == '@' ? take_file(f, v, out)
				       : literal_array(OPTION_INPUT, f->spec, v, out);
	if (v->dtype == HT_STRING)
		return default_strings(v, out);
	st = array_make(out, v->dtype, v->rank, v->dim);
	if (st != HT_OK)
		return st;
	if (v->value) {
		memcpy(out->a.data, v->value, v->bytes);
		return HT_OK;
	}
	fill_random(out, (uint64_t)seed * 1000003 + number);
	add_made_up(made_up, v);
	return HT_OK;
}

static bool has_open(const struct ht_value_info *v)
{
	for (int32_t i = 0; i < v->rank; i++)
		if (v->dim[i] < 0)
			return true;
	return false;
}

/* The size of a dimension, if it is open, and one of those that programs of this library can have. */
static bool open_size(const struct session *s, size_t input, int axis, struct ht_size_info *size)
{
	return ht_program_open_size(s->program, input, axis, size) && size->number < MOST_STATED;
}

/* Whether the size is that of open first dimensions. */
static bool are_rows(const struct ht_size_info *size)
{
	return !strcmp(size->name, HT_SIZE_OF_ROWS);
}

/* An open size if no array determines it: that of --batch for first dimensions; otherwise a likely one, which is 1 row, or the most for other
 * dimensions. */
static int64_t likely_size(const struct ht_size_info *size, long long batch)
{
	if (!are_rows(size))
		return size->most;
	return batch ? batch : size->least ? size->least : 1;
}

static enum ht_status take_sizes(struct cli *c, struct session *s, struct fed *f, size_t input)
{
	struct ht_value_info v;
	enum ht_status st;

	ht_program_input(s->program, input, &v);
	if (!f || !has_open(&v))
		return HT_OK;
	st = fed_load(f);
	if (st != HT_OK || !f->shaped || f->array.a.rank != v.rank)
		return st;
	for (int k = 0; k < v.rank && k < MOST_OPEN; k++) {
		struct ht_size_info size;

		if (!open_size(s, input, k, &size))
			continue;
		s->size[size.number] = f->array.shape[k];
		if (are_rows(&size))
			c->fed_batch = f->array.shape[k];
	}
	return HT_OK;
}

/* Chooses the open sizes of this run: those of the arrays that are fed, or likely ones. */
static enum ht_status choose_sizes(struct cli *c, struct session *s, struct fed **by_input)
{
	long long batch;
	struct ht_size_info size;
	enum ht_status st = option_number(c, OPTION_BATCH, 0, 1, INT_MAX, &batch);

	for (size_t i = 0; i < s->ins; i++)
		for (int k = 0; k < MOST_OPEN; k++)
			if (open_size(s, i, k, &size)) {
				s->open = true;
				s->size[size.number] = likely_size(&size, batch);
			}
	for (size_t i = 0; i < s->ins && st == HT_OK; i++)
		st = take_sizes(c, s, by_input[i], i);
	return st;
}

/* The input with its sizes in this run, which are stored in `dim`. */
static struct ht_value_info closed(
	const struct session *s, size_t input, struct ht_value_info v, int64_t *dim)
{
	struct ht_size_info size;

	if (v.rank > MOST_AXES || !has_open(&v))
		return v;
	memcpy(dim, v.dim, (size_t)v.rank * sizeof *dim);
	v.dim = dim;
	v.bytes = ht_dtype_bytes(v.dtype);
	for (int32_t i = 0; i < v.rank; i++) {
		if (dim[i] < 0)
			dim[i] = open_size(s, input, i, &size) ? s->size[size.number] : 1;
		v.bytes *= (size_t)dim[i];
	}
	return v;
}

/* One array for each input of the program: from --input, its default, or random. */
static enum ht_status feed(struct cli *c, struct session *s)
{
	struct fed **by_input;
	struct made_up made_up = { 0 };
	struct ht_value_info v;
	int64_t dim[MOST_AXES];
	long long seed;
	enum ht_status st = option_number(c, OPTION_SEED, 1, 0, INT64_MAX, &seed);

	s->ins = ht_program_inputs(s->program);
	s->in = must_alloc(s->ins * sizeof *s->in);
	by_input = must_alloc(s->ins * sizeof(struct fed *));
	if (st == HT_OK)
		st = find_fed(c, s->model, s->program, by_input);
	if (st == HT_OK)
		st = choose_sizes(c, s, by_input);
	for (size_t i = 0; i < s->ins && st == HT_OK; i++) {
		ht_program_input(s->program, i, &v);
		v = closed(s, i, v, dim);
		st = one(&v, by_input[i], seed, i, &s->in[i], &made_up);
	}
	note_made_up(c, &made_up, seed);
	free(made_up.named.p);
	/* The arrays moved with their structs, which contain the dimensions. */
	for (size_t i = 0; i < s->ins; i++)
		s->in[i].a.dim = s->in[i].shape;
	free(by_input);
	return st;
}

/* ---- sessions ---- */

static enum ht_status compile(struct cli *c, struct session *s, long long threads)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *policy;
	enum ht_status st = open_policy(c, &policy);

	if (st != HT_OK)
		return st;
	opt.policy = policy;
	opt.target = option(c, OPTION_TARGET, NULL);
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.numerics = option_on(c, OPTION_NUMERICS);
	opt.threads = (int)threads;
	opt.tee = dump_tee(c);
	opt.lines = announce_lines(c);
	opt.nodes = profile_nodes(c);
	st = compile_shown(c, s->model, &opt, &s->program);
	ht_policy_free(policy);
	return st;
}

/* Sets the array that a run gets for an output; strings stay in the context. */
static void set_output(struct session *s, size_t i, size_t bytes)
{
	s->out[i].a.bytes = bytes;
	s->out_view[i] = s->out[i].a;
	if (s->out[i].a.dtype == HT_STRING)
		s->out_view[i].data = NULL;
}

static enum ht_status make_outputs(struct cli *c, struct session *s)
{
	struct ht_value_info v;
	int64_t dim[MOST_AXES];
	size_t bytes;
	enum ht_status st = HT_OK;

	s->outs = ht_program_outputs(s->program);
	s->out = must_alloc(s->outs * sizeof *s->out);
	s->in_view = must_alloc(s->ins * sizeof *s->in_view);
	s->out_view = must_alloc(s->outs * sizeof *s->out_view);
	for (size_t i = 0; i < s->ins; i++)
		s->in_view[i] = s->in[i].a;
	for (size_t i = 0; i < s->outs && st == HT_OK; i++) {
		ht_program_output(s->program, i, &v);
		s->open |= has_open(&v);
		if (s->open)
			st = ht_program_output_for(
				s->program, s->in_view, s->ins, i, dim, &bytes, c->diags);
		if (st == HT_OK)
			st = array_make(&s->out[i], v.dtype, v.rank, s->open ? dim : v.dim);
		set_output(s, i, s->out[i].a.bytes);
	}
	return st;
}

size_t parse_size(const char *s)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned long long n = strtoull(s, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == s || *s == '-' || (*end && (!unit || end[1])))
		return 0;
	for (const char *u = units; unit && u <= unit; u++)
		if (__builtin_mul_overflow(n, 1024ull, &n))
			return 0;
	return n;
}

static enum ht_status read_guard(const struct cli *c, enum ht_guard *guard)
{
	const char *side = option(c, OPTION_GUARD, NULL);

	if (!side || !*side)
		*guard = HT_GUARD_NONE;
	else if (!strcmp(side, "behind"))
		*guard = HT_GUARD_BEHIND;
	else if (!strcmp(side, "before"))
		*guard = HT_GUARD_BEFORE;
	else
		return fail(HT_E_USAGE, "--guard: '%s' is neither 'behind' nor 'before'", side);
	return HT_OK;
}

/* Without --seed, the context has drawn its own seed. */
static enum ht_status set_seed(struct cli *c, struct session *s)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	long long seed;
	enum ht_status st = option_number(c, OPTION_SEED, 1, 0, INT64_MAX, &seed);

	if (st == HT_OK && option_on(c, OPTION_SEED))
		ht_context_set_seed(s->context, (uint64_t)seed);
	ht_program_about(s->program, &info);
	if (st == HT_OK && info.unseeded)
		note(c, "%zu random op%s without a seed draw%s by seed %llu", info.unseeded,
			info.unseeded > 1 ? "s" : "", info.unseeded > 1 ? "" : "s",
			(unsigned long long)ht_context_seed(s->context));
	return st;
}

void text_seed(struct text *t, const struct session *s)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;

	ht_program_about(s->program, &info);
	if (info.unseeded)
		text_printf(
			t, ",\n \"seed\": %llu", (unsigned long long)ht_context_seed(s->context));
}

static enum ht_status context_options(const struct cli *c, struct ht_context_options *out)
{
	long long threads, iterations = 0, depth = 0;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	*out = (struct ht_context_options)HT_CONTEXT_OPTIONS_INIT;
	if (st == HT_OK)
		st = option_number(c, OPTION_MAX_ITERATIONS, 0, 1, LLONG_MAX, &iterations);
	if (st == HT_OK)
		st = option_number(c, OPTION_MAX_DEPTH, 0, 1, UINT32_MAX, &depth);
	if (st == HT_OK)
		st = read_guard(c, &out->guard);
	out->threads = (int)threads;
	out->max_iterations = (uint64_t)iterations;
	out->max_depth = (uint64_t)depth;
	out->keep_subnormals = option_on(c, OPTION_KEEP_SUBNORMALS);
	read_limits(c, out);
	return st;
}

/* Behind an error of too little memory: what takes most of it. */
static enum ht_status with_memory(struct cli *c, const struct session *s, enum ht_status st)
{
	if (st == HT_E_LIMIT || st == HT_E_ENVIRONMENT)
		ht_program_tell_memory(s->program, c->diags);
	return st;
}

enum ht_status session_open(struct cli *c, struct session *s)
{
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	memset(s, 0, sizeof *s);
	if (st == HT_OK)
		st = fed_parse(c);
	if (st == HT_OK)
		st = load_configs(c);
	if (st == HT_OK)
		st = context_options(c, &s->context_options);
	if (st == HT_OK)
		st = use_device(c);
	if (st == HT_OK && ht_is_artefact(c->model)) {
		st = open_artefact(c, &s->program);
	} else if (st == HT_OK) {
		st = open_model(c, &s->model);
		if (st == HT_OK)
			st = compile(c, s, threads);
	}
	if (st == HT_OK)
		st = ht_program_use_pages(s->program, pages_wanted(c), c->diags);
	if (st == HT_OK)
		st = announce(c, s->program);
	if (st == HT_OK)
		st = with_memory(c, s, check_memory(c, s, threads));
	if (st == HT_OK)
		st = feed(c, s);
	if (st == HT_OK)
		st = make_outputs(c, s);
	if (st == HT_OK)
		st = steady_find(c, s);
	if (st == HT_OK)
		st = with_memory(c, s,
			ht_context_new(s->program, &s->context_options, c->diags, &s->context));
	if (st == HT_OK)
		st = dump_begin(c, &s->dump);
	if (st == HT_OK && s->dump)
		st = dump_program(s->dump, s->program, s->context);
	return st == HT_OK ? set_seed(c, s) : st;
}

/* Copies the strings of the run from the context. */
static enum ht_status copy_strings(struct session *s, size_t i)
{
	size_t bytes;
	const void *from = ht_context_strings(s->context, i, &bytes);
	void *to = realloc(s->out[i].a.data, bytes + 1);

	if (!to)
		return fail(HT_E_ENVIRONMENT, "no memory for strings of %zu bytes", bytes);
	memcpy(to, from, bytes);
	s->out[i].a.data = to;
	set_output(s, i, bytes);
	return HT_OK;
}

/* Before a run, outputs of computed size get their largest size. */
static enum ht_status enlarge_outputs(struct cli *c, struct session *s)
{
	enum ht_status st = HT_OK;
	size_t bytes;

	for (size_t i = 0; s->open && i < s->outs && st == HT_OK; i++) {
		st = ht_program_output_for(
			s->program, s->in_view, s->ins, i, s->out[i].shape, &bytes, c->diags);
		set_output(s, i, bytes);
	}
	return st;
}

/* After a run, they get their actual size. */
static enum ht_status fit_outputs(struct cli *c, struct session *s)
{
	enum ht_status st = HT_OK;
	size_t bytes;

	for (size_t i = 0; s->open && i < s->outs && st == HT_OK; i++) {
		st = ht_context_output(s->context, i, s->out[i].shape, &bytes, c->diags);
		set_output(s, i, bytes);
	}
	for (size_t i = 0; i < s->outs && st == HT_OK; i++)
		if (s->out[i].a.dtype == HT_STRING)
			st = copy_strings(s, i);
	return st;
}

enum ht_status session_run(struct cli *c, struct session *s)
{
	enum ht_status st = enlarge_outputs(c, s);

	if (st != HT_OK)
		return st;
	if (s->steadies && (st = steady_tell(c, s)) != HT_OK)
		return st;
	if (s->dump)
		dump_run_begin(s->dump, 0, s->runs++);
	st = ht_context_run(s->context, s->in_view, s->ins, s->out_view, s->outs, c->diags);
	if (s->dump)
		dump_run_end(s->dump, st);
	return st == HT_OK ? fit_outputs(c, s) : st;
}

/* The new session has its own context and outputs. */
enum ht_status session_join(struct cli *c, const struct session *with, struct session *s)
{
	enum ht_status st;

	*s = (struct session){ .program = with->program,
		.context_options = with->context_options,
		.in = with->in,
		.ins = with->ins,
		.steady = with->steady,
		.steadies = with->steadies,
		.open = with->open };
	memcpy(s->size, with->size, sizeof s->size);
	st = make_outputs(c, s);
	if (st == HT_OK)
		st = ht_context_new(s->program, &s->context_options, c->diags, &s->context);
	if (st == HT_OK)
		ht_context_set_seed(s->context, ht_context_seed(with->context));
	return st;
}

void session_leave(struct session *s)
{
	s->program = NULL;
	s->in = NULL;
	s->steady = NULL;
	session_close(s);
}

void session_close(struct session *s)
{
	dump_free(s->dump);
	free((void *)(uintptr_t)s->steady);
	ht_context_free(s->context);
	ht_program_free(s->program);
	ht_model_free(s->model);
	arrays_free(s->in, s->ins);
	arrays_free(s->out, s->outs);
	free(s->in_view);
	free(s->out_view);
}
