/* Compiling ahead of time: programs as an object, libraries and a header (docs/aot.md). */
#include "api/aot.h"
#include "aot/runner.h"
#include "kernel/library_net.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct call {
	const struct ht_program *const *program;
	size_t programs;
	struct ht_aot_options opt;
	const char *dir;
	enum ht_format format;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_bytes *out;
};

/* ---- what can be a net ---- */

static bool same_values(
	const struct ht_value_info *a, const struct ht_value_info *b, size_t n, size_t others)
{
	if (n != others)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) != 0 || a[i].dtype != b[i].dtype ||
			a[i].rank != b[i].rank || a[i].bytes != b[i].bytes ||
			(a[i].rank && memcmp(a[i].dim, b[i].dim,
					      (size_t)a[i].rank * sizeof *a[i].dim) != 0))
			return false;
	return true;
}

/* Whether both have the same sizes: the numbers of those that a run computes are known to the caller. */
static bool same_sizes(const struct ht_program *a, const struct ht_program *b)
{
	const struct ht_image *x = a->rt.image, *y = b->rt.image;
	uint32_t n = ht_image_count(x, HT_IMAGE_SIZES);

	if (ht_image_count(y, HT_IMAGE_SIZES) != n)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct ht_image_size *s = &ht_image_sizes(x)[i], *t = &ht_image_sizes(y)[i];

		if (s->kind != t->kind || s->least != t->least || s->most != t->most)
			return false;
	}
	return true;
}

static struct ht_size_expr extent_of(const struct ht_program *p, size_t output, int32_t axis)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_entry *e = ht_image_entries(x);
	const struct ht_image_port *port = &ht_image_ports(x)[e->port + e->inputs + output];
	int64_t n = ht_image_dims(x)[port->dim + (uint32_t)axis];

	return n < 0 ? ht_image_expression_of(x, (uint32_t)(-1 - n)) : ht_size_number(n);
}

/* Whether the extents of output `i` are the same expressions of sizes. */
static bool same_extents(const struct ht_program *a, const struct ht_program *b, size_t i)
{
	for (int32_t k = 0; k < a->output[i].rank; k++)
		if (!ht_size_equal(extent_of(a, i, k), extent_of(b, i, k)))
			return false;
	return true;
}

/* Whether one header describes the inputs, outputs and sizes of both. */
static bool same_header(const struct ht_program *a, const struct ht_program *b)
{
	if (!same_values(a->input, b->input, ht_program_inputs(a), ht_program_inputs(b)) ||
		!same_values(a->output, b->output, ht_program_outputs(a), ht_program_outputs(b)) ||
		!same_sizes(a, b))
		return false;
	for (size_t i = 0; i < ht_program_outputs(a); i++)
		if (!same_extents(a, b, i))
			return false;
	return true;
}

/* ---- memory that a net keeps from run to run: its programs have different targets, so their
 * derived buffers may differ ---- */

bool ht_aot_derives(const struct ht_aot *a)
{
	for (size_t i = 0; i < a->programs; i++)
		if (ht_image_count(a->program[i]->rt.image, HT_IMAGE_DERIVED_BUFFERS))
			return true;
	return false;
}

bool ht_aot_keeps(const struct ht_aot *a)
{
	return ht_program_variables(a->program[0]) || ht_aot_derives(a);
}

uint64_t ht_aot_kept_bytes(const struct ht_aot *a)
{
	uint64_t most = 0;

	for (size_t i = 0; i < a->programs; i++) {
		struct ht_aot_level level;

		ht_aot_place_kept(a->program[i]->rt.image, &level);
		most = level.kept > most ? level.kept : most;
	}
	return most;
}

void ht_aot_place_kept(const struct ht_image *x, struct ht_aot_level *level)
{
	uint64_t derived = ht_image_derived_bytes(x), words = derived ? ht_image_versions(x) : 0;

	level->version = ht_image_variable_bytes(x);
	level->made = level->version + words * sizeof(uint64_t);
	words = ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS);
	level->derived = level->made + words * sizeof(uint64_t);
	level->derived = (level->derived + HT_IMAGE_ALIGN - 1) / HT_IMAGE_ALIGN * HT_IMAGE_ALIGN;
	/* Vector loads may go past the end of a buffer; their excess elements are not used. */
	level->kept = level->derived + (derived ? derived + HT_IMAGE_ALIGN : 0);
}

bool ht_aot_is_steady(const struct ht_aot *a, size_t input)
{
	for (size_t i = 0; i < a->programs; i++) {
		const struct ht_image *x = a->program[i]->rt.image;

		for (uint32_t k = 0; k < ht_image_count(x, HT_IMAGE_SOURCES); k++)
			if (ht_image_sources(x)[k].kind == HT_IMAGE_PARAM &&
				ht_image_sources(x)[k].number == input)
				return true;
	}
	return false;
}

/* A net has its own variables, with their values. */
static enum ht_status check_variables(const struct ht_program *p, struct ht_diags *d)
{
	const struct ht_image *x = p->rt.image;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_VARIABLES); i++)
		if (ht_image_variables(x)[i].constant == HT_IMAGE_NO_VALUE)
			return ht_error(d, HT_E_UNSUPPORTED,
				(struct ht_where){ .node = ht_str(ht_image_text(
							   x, ht_image_variables(x)[i].name)),
					.offset = -1 },
				"cannot be compiled ahead of time: %s%s%sthe variable is shared by the "
				"entries of a session, and a net has one entry with variables of its own; run "
				"the artefact (compile --entry … -o FILE.htx) with libhalftone-rt",
				p->info.entry && *p->info.entry ? "in entry '" : "",
				p->info.entry ? p->info.entry : "",
				p->info.entry && *p->info.entry ? "' " : "");
	return HT_OK;
}

/* Whether a step runs a function of the library that nets cannot have. */
static bool needs_library(const struct ht_program *p, const struct ht_image_step *s)
{
	uint64_t entry;

	return s->op == HT_IMAGE_KERNEL && ht_program_library(p, s->to)[0] &&
	       !ht_library_net_code(ht_program_library(p, s->to), &entry).n;
}

/* The message names all nodes whose kernels nets cannot have. */
static enum ht_status check_kernels(const struct ht_program *p, struct ht_diags *d)
{
	const struct ht_image *x = p->rt.image;
	enum ht_status st = HT_OK;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_STEPS); i++) {
		const struct ht_image_step *s = &ht_image_steps(x)[i];

		if (needs_library(p, s))
			st = ht_error(d, HT_E_UNSUPPORTED,
				(struct ht_where){
					.node = ht_str(ht_image_text(x, ht_image_notes(x)[i].node)),
					.offset = -1 },
				"cannot be compiled ahead of time: its kernel, %s, is a part of the "
				"library; run it from an artefact (compile -o FILE.htx) with "
				"libhalftone-rt",
				ht_program_library(p, s->to));
	}
	return st;
}

/* The library numbers strings; a net does not have it. */
static enum ht_status check_strings(const struct ht_program *p, struct ht_diags *d)
{
	for (size_t i = 0; i < p->inputs + p->outputs; i++) {
		const struct ht_value_info *v =
			i < p->inputs ? &p->input[i] : &p->output[i - p->inputs];

		if (v->dtype == HT_STRING)
			return ht_error(d, HT_E_UNSUPPORTED,
				(struct ht_where){ .node = ht_str(v->name), .offset = -1 },
				"cannot be compiled ahead of time: it is %s of strings, which the "
				"library numbers; run it from an artefact (compile -o FILE.htx) with "
				"libhalftone-rt",
				i < p->inputs ? "an input" : "an output");
	}
	return HT_OK;
}

/* Weights of an artefact are verified when they are first used. */
static enum ht_status check_weights(const struct ht_program *p, struct ht_diags *d)
{
	uint32_t n = ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS);

	for (uint32_t i = 0; p->rt.is_whole && i < n; i++)
		if (!p->rt.is_whole(p->rt.is_whole_arg, i, 0, 1))
			return ht_artefact_refuse(&p->artefact, d, "its weights are damaged");
	return HT_OK;
}

static enum ht_status check_programs(const struct call *c)
{
	const struct ht_program *first = c->program[0];

	for (size_t i = 0; i < c->programs; i++) {
		const struct ht_program *p = c->program[i];

		if (!ht_target_named(p->info.target))
			return ht_error(c->d, HT_E_UNSUPPORTED, HT_NOWHERE,
				"target %s is not known here", p->info.target);
		HT_TRY(check_weights(p, c->d));
		HT_TRY(check_variables(p, c->d));
		if (p->probes || p->tees)
			return ht_error(c->d, HT_E_USAGE, HT_NOWHERE,
				"a program with %s cannot be compiled ahead of time",
				p->probes ? "numerics" : "tee");
		if (!same_header(p, first))
			return ht_error(c->d, HT_E_USAGE, HT_NOWHERE,
				"the programs have different inputs or outputs");
	}
	HT_TRY(check_strings(first, c->d));
	return check_kernels(first, c->d);
}

static int best_first(const void *x, const void *y)
{
	const struct ht_program *const *p = x, *const *q = y;
	uint64_t a = ht_aot_needs((*p)->info.target), b = ht_aot_needs((*q)->info.target);

	return a < b ? 1 : -(a > b);
}

/* Keeps the first of the programs that run on the same machines, and sorts them so that the best
 * one comes first. */
static void choose_programs(const struct call *c, struct ht_aot *a)
{
	a->program = HT_NEW_ARRAY(a->arena, const struct ht_program *, c->programs);
	for (size_t i = 0; i < c->programs; i++) {
		const char *target = c->program[i]->info.target;
		size_t k = 0;

		while (k < a->programs &&
			ht_aot_needs(a->program[k]->info.target) != ht_aot_needs(target))
			k++;
		if (k < a->programs)
			ht_warn(c->d, HT_NOWHERE,
				"code for %s and for %s runs on the same machines: the net has that for %s",
				a->program[k]->info.target, target, a->program[k]->info.target);
		else
			a->program[a->programs++] = c->program[i];
	}
	qsort(a->program, a->programs, sizeof *a->program, best_first);
}

/* ---- names ---- */

static bool is_name(const char *s, const char *more, bool digits_first)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	if (!*s || (!digits_first && *s >= '0' && *s <= '9'))
		return false;
	for (; *s; s++)
		if (!strchr(letters, *s) && !strchr(more, *s))
			return false;
	return true;
}

static const char *prefix_of(struct ht_arena *a, const char *name)
{
	struct ht_str s = ht_str_printf(a, "%s%s", *name >= '0' && *name <= '9' ? "_" : "", name);

	for (char *c = (char *)(uintptr_t)s.p; *c; c++)
		if (strchr("+-.", *c))
			*c = '_';
	return s.p;
}

static const char *upper_of(struct ht_arena *a, const char *s)
{
	struct ht_str copy = ht_str_copy(a, ht_str(s));

	for (char *c = (char *)(uintptr_t)copy.p; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return copy.p;
}

static enum ht_status choose_names(const struct call *c, struct ht_aot *a)
{
	a->name = c->opt.name ? c->opt.name : "net";
	if (!is_name(a->name, "+-.", true) || *a->name == '-' || *a->name == '.' ||
		strlen(a->name) > 200)
		return ht_error(c->d, HT_E_USAGE, HT_NOWHERE,
			"'%s' is no name of a net: letters, digits and _ + - . make one", a->name);
	a->prefix = c->opt.prefix ? c->opt.prefix : prefix_of(a->arena, a->name);
	if (!is_name(a->prefix, "", false) || strlen(a->prefix) > 200)
		return ht_error(c->d, HT_E_USAGE, HT_NOWHERE,
			"'%s' is no prefix of C names: letters, digits and _ make one", a->prefix);
	a->upper = upper_of(a->arena, a->prefix);
	return HT_OK;
}

/* ---- files ---- */

struct file {
	const char *path;
	struct ht_obj_bytes bytes;
};

static void add_file(const struct call *c, struct file *f, size_t *n, struct ht_obj_bytes bytes,
	const char *format, const char *name)
{
	struct ht_arena *a = &c->w->arena;
	struct ht_buf path;

	ht_buf_init(&path, a);
	ht_printf(&path, "%s/", c->dir);
	for (; *format; format++)
		if (*format == '@')
			ht_puts(&path, name);
		else
			ht_putc(&path, *format);
	f[(*n)++] = (struct file){ ht_buf_str(&path).p, bytes };
}

static void add_text(const struct call *c, const struct ht_aot *a, struct file *f, size_t *n,
	void (*print)(const struct ht_aot *, struct ht_buf *), const char *format)
{
	struct ht_obj_bytes p;
	struct ht_buf text;

	ht_buf_init(&text, a->arena);
	print(a, &text);
	ht_obj_bytes_init(&p, a->arena);
	ht_obj_bytes_add(&p, text.p, text.n);
	add_file(c, f, n, p, format, a->name);
}

/* Makes the folder, and the one around it if that is missing. */
static enum ht_status make_folder(const char *dir, struct ht_diags *d, bool *made)
{
	struct stat s;
	int why = mkdir(dir, 0777) == 0 ? 0 : errno;

	*made = !why;
	if ((!why || why == EEXIST) && stat(dir, &s) == 0 && S_ISDIR(s.st_mode))
		return HT_OK;
	return ht_error(d, HT_E_ENVIRONMENT, (struct ht_where){ .path = dir, .offset = -1 },
		"cannot make this folder: %s", why == EEXIST ? "a file is there" : strerror(why));
}

/* If a file cannot be written, the folder that was made for it is removed too. */
static enum ht_status put_files(const struct call *c, const struct file *f, size_t n)
{
	enum ht_status st;
	size_t i = 0;
	bool made;

	HT_TRY(make_folder(c->dir, c->d, &made));
	do
		st = ht_obj_bytes_write(&f[i].bytes, f[i].path, c->d);
	while (st == HT_OK && ++i < n);
	if (st == HT_OK || !made)
		return st;
	while (i-- > 0)
		unlink(f[i].path);
	rmdir(c->dir);
	return st;
}

static void put_json(const struct ht_aot *a, const struct file *f, size_t n, struct ht_buf *out)
{
	ht_puts(out, "{\"schema\": \"halftone.aot_files/1\",\n \"files\": [");
	for (size_t i = 0; i < n; i++) {
		ht_printf(out, "%s\n  {\"path\": ", i ? "," : "");
		ht_put_json(out, ht_str(f[i].path));
		ht_printf(out, ", \"bytes\": %llu}", (unsigned long long)f[i].bytes.bytes);
	}
	ht_printf(out, "],\n \"net\": %.*s}\n", (int)a->metadata.n - 1, a->metadata.p);
}

static void put_text(const struct ht_aot *a, const struct file *f, size_t n, struct ht_buf *out)
{
	for (size_t i = 0; i < n; i++)
		ht_printf(out, "%12llu  %s\n", (unsigned long long)f[i].bytes.bytes, f[i].path);
	ht_printf(out, "%s:", a->name);
	for (size_t i = 0; i < a->programs; i++)
		ht_printf(out, "%s %s", i ? "," : "", a->program[i]->info.target);
	ht_printf(out,
		"; %llu bytes of code, %llu of weights, %llu of arena and %llu more a thread\n",
		(unsigned long long)a->code_bytes, (unsigned long long)a->weight_bytes,
		(unsigned long long)a->arena_bytes, (unsigned long long)a->thread_bytes);
}

static enum ht_status write_files(const struct call *c, struct ht_aot *a)
{
	const char *soname = ht_str_printf(a->arena, "lib%s.so", a->name).p;
	struct file file[9];
	struct ht_obj_bytes weights = a->obj.weights;
	struct ht_buf out;
	size_t n = 0;

	if (a->external)
		ht_obj_bytes_init(&a->obj.weights, a->arena);
	add_file(c, file, &n, ht_obj_file(&a->obj, a->arena), "@.o", a->name);
	add_file(c, file, &n, ht_obj_archive(&a->obj, a->arena), "lib@.a", a->name);
	add_file(c, file, &n, ht_obj_shared(&a->obj, soname, a->arena), "lib@.so", a->name);
	a->obj.weights = weights;
	if (a->external)
		add_file(c, file, &n, weights, "@.weights", a->name);
	add_text(c, a, file, &n, ht_aot_header, "@.h");
	add_text(c, a, file, &n, ht_aot_pkg_config, "@.pc");
	add_text(c, a, file, &n, ht_aot_cmake, "@Config.cmake");
	add_text(c, a, file, &n, ht_aot_example, "@_main.c");
	HT_TRY(put_files(c, file, n));
	ht_buf_init(&out, a->arena);
	if (c->format == HT_FORMAT_JSON)
		put_json(a, file, n, &out);
	else
		put_text(a, file, n, &out);
	return ht_bytes_of(ht_buf_str(&out), c->out);
}

/* ---- from the programs to the files ---- */

static enum ht_status compile(void *arg)
{
	struct call *c = arg;
	struct ht_aot a = { .arena = &c->w->arena,
		.diags = c->d,
		.external = c->opt.external_weights != 0,
		.keep_subnormals = c->opt.keep_subnormals != 0,
		.iterations = c->opt.max_iterations ? c->opt.max_iterations : UINT64_MAX };

	HT_TRY(choose_names(c, &a));
	HT_TRY(check_programs(c));
	choose_programs(c, &a);
	HT_TRY(ht_aot_make(&a));
	return write_files(c, &a);
}

enum ht_status ht_aot_write(const struct ht_program *const *p, size_t n,
	const struct ht_aot_options *opt, const char *dir, enum ht_format format,
	struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct call c = { .opt = HT_AOT_OPTIONS_INIT,
		.program = p,
		.programs = n,
		.dir = dir,
		.format = format,
		.w = &w,
		.d = d,
		.out = out };

	*out = (struct ht_bytes){ 0 };
	HT_TRY(ht_caller_options(opt, "ht_aot_options", &c.opt, sizeof c.opt, d));
	if (n == 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "ht_aot_write: no program");
	return ht_work_run(&w, compile, &c, d);
}
