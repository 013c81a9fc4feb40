/* The header of a net, in which the model's names become names of C. */
#include "api/aot.h"
#include "aot/teller.h"
#include "image/verify.h"

#include <ctype.h>
#include <string.h>

/* ---- names ---- */

static bool is_keyword(const char *s)
{
	/* Keywords of C and C++, except those that begin with '_' and those that are macros. */
	static const char words[] =
		" alignas alignof and and_eq asm auto bitand bitor bool break case catch char class "
		"compl concept const const_cast consteval constexpr constinit continue co_await "
		"co_return co_yield decltype default delete do double dynamic_cast else enum "
		"explicit export extern false final float for friend goto if inline int long mutable "
		"namespace new noexcept not not_eq nullptr operator or or_eq override private "
		"protected public register reinterpret_cast requires restrict return short signed "
		"sizeof static static_assert static_cast struct switch template this thread_local "
		"throw true try typedef typeid typename typeof union unsigned using virtual void "
		"volatile wchar_t while xor xor_eq linux unix ";
	const char *at = words;
	size_t n = strlen(s);

	while ((at = strstr(at, s))) {
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
		at++;
	}
	return false;
}

/* Distinct C names for values. */
static const char **members(struct ht_arena *a, const struct ht_value_info *v, size_t n)
{
	const char **list = HT_NEW_ARRAY(a, const char *, n);
	struct ht_map seen;

	ht_map_init(&seen, a);
	for (size_t i = 0; i < n; i++) {
		struct ht_str s = ht_str_printf(
			a, "%s%s", isdigit((unsigned char)v[i].name[0]) ? "_" : "", v[i].name);
		struct ht_map_entry *e;

		for (char *c = (char *)(uintptr_t)s.p; *c; c++)
			if (!isascii((unsigned char)*c) || !isalnum((unsigned char)*c))
				*c = '_';
		if (!s.n || is_keyword(s.p))
			s = ht_str_printf(a, "%s_", s.p);
		for (e = ht_map_at(&seen, s); e->value; e = ht_map_at(&seen, s))
			s = ht_str_printf(a, "%s_%zu", s.p, i);
		e->value = e;
		list[i] = s.p;
	}
	return list;
}

static const char *c_type(enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
		return "float";
	case HT_F64:
		return "double";
	case HT_I8:
		return "int8_t";
	case HT_I16:
		return "int16_t";
	case HT_I32:
		return "int32_t";
	case HT_I64:
		return "int64_t";
	case HT_U16:
	case HT_F16:
	case HT_BF16:
		return "uint16_t";
	case HT_U32:
		return "uint32_t";
	case HT_U64:
		return "uint64_t";
	default:
		return "uint8_t";
	}
}

/* ---- the header ---- */

/* Text for a comment or a string, without characters that would end it. */
static void put_plain(struct ht_buf *b, const char *s)
{
	for (; *s; s++)
		ht_putc(b, isascii((unsigned char)*s) && isprint((unsigned char)*s) && *s != '"' &&
					   *s != '\\' && *s != '*'
				   ? *s
				   : '?');
}

static bool has_sizes(const struct ht_aot *a)
{
	return ht_image_stated(a->program[0]->rt.image) > 0;
}

bool ht_aot_computes(const struct ht_aot *a)
{
	return a->program[0]->rt.image->features & HT_IMAGE_COMPUTED;
}

const char *ht_aot_sizes(const struct ht_aot *a, const char *before)
{
	const struct ht_image *x = a->program[0]->rt.image;
	struct ht_buf b;

	ht_buf_init(&b, a->arena);
	for (uint32_t i = 0; i < ht_image_stated(x); i++)
		ht_printf(&b, "%s%s%s", i ? ", " : "", before,
			ht_image_text(x, ht_image_sizes(x)[i].name));
	ht_putc(&b, 0);
	return b.p;
}

const char *ht_aot_for(const struct ht_aot *a, const char *before)
{
	return has_sizes(a) ? ht_str_printf(a->arena, "_FOR(%s)", ht_aot_sizes(a, before)).p : "";
}

void ht_aot_put_size(const void *image, int32_t i, struct ht_buf *b)
{
	const struct ht_image *x = image;
	const struct ht_image_derivation *d = ht_image_derivations(x);
	const struct ht_image_size *s = &ht_image_sizes(x)[i];
	struct ht_size_expr e;

	if (s->kind == HT_IMAGE_BY_STEP) {
		ht_printf(b, "(size_t)%lld", (long long)s->most);
		return;
	}
	if (s->kind == HT_IMAGE_STATED) {
		ht_printf(b, "(size_t)(%s)", ht_image_text(x, s->name));
		return;
	}
	while (d->size != (uint32_t)i)
		d++;
	e = ht_image_derivation_of(d);
	ht_putc(b, '(');
	ht_size_print(&e, ht_aot_put_size, x, b);
	ht_putc(b, ')');
}

/* A size as one of the numbers of the run. */
static void put_number(const void *image, int32_t i, struct ht_buf *b)
{
	(void)image;
	ht_printf(b, "(size_t)(sizes)[%d]", (int)i);
}

static void put_bytes(struct ht_buf *b, const struct ht_image *x, const struct ht_image_port *port,
	ht_size_name *name)
{
	const struct ht_size_expr e = ht_image_bytes_of(x, port);

	ht_puts(b, "((size_t)");
	ht_size_print(&e, name, x, b);
	ht_puts(b, ")\n");
}

/* What a value has in a run that has computed its sizes. */
static void put_results(const struct ht_aot *a, struct ht_buf *b, const char *what, size_t i,
	const struct ht_image_port *port)
{
	const struct ht_image *x = a->program[0]->rt.image;

	ht_printf(b, "#define %s_%s_%zu_BYTES_OF(sizes) ", a->upper, what, i);
	put_bytes(b, x, port, put_number);
	ht_printf(b, "#define %s_%s_%zu_SHAPE_OF(sizes) { ", a->upper, what, i);
	for (uint32_t k = 0; k < port->rank; k++) {
		int64_t n = ht_image_dims(x)[port->dim + k];

		ht_puts(b, k ? ", " : "");
		if (n < 0) {
			const struct ht_size_expr e = ht_image_expression_of(x, (uint32_t)(-1 - n));

			ht_puts(b, "(int64_t)(");
			ht_size_print(&e, put_number, x, b);
			ht_puts(b, ")");
		} else {
			ht_printf(b, "%lld", (long long)n);
		}
	}
	ht_puts(b, " }\n");
}

/* Macros of value i of the inputs or outputs; `port` describes the value. */
static void put_value_macros(const struct ht_aot *a, struct ht_buf *b, const char *what, size_t i,
	const struct ht_value_info *v, const struct ht_image_port *port)
{
	const char *up = a->upper;

	ht_printf(b, "#define %s_%s_%zu_NAME \"", up, what, i);
	put_plain(b, v->name);
	ht_printf(b, "\"\n#define %s_%s_%zu_DTYPE \"%s\"\n", up, what, i, ht_dtype_name(v->dtype));
	if (ht_shape_known((struct ht_shape){ v->rank, v->dim }))
		ht_printf(b, "#define %s_%s_%zu_BYTES ((size_t)%zu)\n", up, what, i, v->bytes);
	else {
		ht_printf(b, "#define %s_%s_%zu_BYTES%s ", up, what, i, ht_aot_for(a, ""));
		put_bytes(b, a->program[0]->rt.image, port, ht_aot_put_size);
		if (ht_aot_computes(a))
			put_results(a, b, what, i, port);
	}
	ht_printf(b, "#define %s_%s_%zu_RANK %d\n", up, what, i, (int)v->rank);
	if (v->rank) {
		ht_printf(b, "#define %s_%s_%zu_SHAPE { ", up, what, i);
		ht_aot_put_shape(b, v);
		ht_puts(b, " }\n");
	}
}

static void put_struct(struct ht_buf *b, struct ht_arena *arena, const char *prefix,
	const char *what, const struct ht_value_info *v, size_t n, bool input)
{
	const char **name = members(arena, v, n);

	ht_printf(b, "struct %s_%s {\n", prefix, what);
	for (size_t i = 0; i < n; i++) {
		ht_printf(b, "\t%s%s *%s; /* ", input ? "const " : "", c_type(v[i].dtype), name[i]);
		put_plain(b, v[i].name);
		ht_printf(b, ": %s[", ht_dtype_name(v[i].dtype));
		ht_aot_put_shape(b, &v[i]);
		ht_printf(b, "]%s */\n", v[i].value ? "; NULL: its default" : "");
	}
	ht_printf(b, "%s};\n", n ? "" : "\tvoid *none;\n");
}

static void put_top(const struct ht_aot *a, struct ht_buf *b, const char *up)
{
	ht_printf(
		b, "/* %s: compiled ahead of time by halftone %s.  Policy ", a->name, ht_version());
	put_plain(b, a->program[0]->info.policy);
	ht_puts(b, "; code for");
	for (size_t i = 0; i < a->programs; i++)
		ht_printf(b, "%s %s", i ? "," : "", a->program[i]->info.target);
	ht_printf(b,
		".\n *\n"
		" * Inputs and outputs are the caller's memory: elements in row-major order without gaps,\n"
		" * aligned as their type (to 64 bytes is fastest); float16 and bfloat16 are uint16_t, bool is\n"
		" * uint8_t.  A run allocates nothing, keeps nothing and calls nothing outside of the net; any\n"
		" * number of threads may run it at once, each with an arena of its own. */\n"
		"#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
		"#ifndef __x86_64__\n#error \"%s is compiled for x86-64\"\n#endif\n\n"
		"#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
		up, up, a->name);
}

/* "ROWS" of size "rows". */
static const char *in_capitals(struct ht_arena *a, const char *s)
{
	char *to = (char *)(uintptr_t)ht_str_copy(a, ht_str(s)).p;

	for (char *c = to; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return to;
}

static void put_computed(const struct ht_aot *a, struct ht_buf *b)
{
	ht_printf(b,
		"/* A run computes sizes.  The element behind the inputs is the address of %s_SIZES numbers,\n"
		" * int64_t sizes[]: %s; the run sets the others, and one run at a time may\n"
		" * have them.  An output has room for its largest size, and is then the first\n"
		" * %s_OUTPUT_0_BYTES_OF(sizes) bytes of it, with the shape %s_OUTPUT_0_SHAPE_OF(sizes). */\n"
		"#define %s_SIZES %u\n\n",
		a->upper,
		has_sizes(a) ? "first the open sizes, which the caller states"
			     : "the caller need not set them",
		a->upper, a->upper, a->upper,
		ht_image_count(a->program[0]->rt.image, HT_IMAGE_SIZES));
}

static void put_bounds(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_image *x = a->program[0]->rt.image;
	uint32_t sizes = ht_image_stated(x);

	if (ht_aot_computes(a))
		put_computed(a, b);
	if (!sizes)
		return;
	ht_printf(b,
		"/* Sizes of inputs and outputs that are -1 in their shapes are open, and are these numbers in a\n"
		" * run: rows is that of first dimensions, dim1 that of second ones, and so on; others have the names\n"
		" * that were stated, behind dim_.  The element behind the inputs is the address of %s; %s_call() takes\n"
		" * them as arguments. */\n",
		ht_str_printf(a->arena,
			sizes > 1 ? "an int64_t for each, in the order %s" : "an int64_t, %s",
			ht_aot_sizes(a, ""))
			.p,
		a->prefix);
	for (uint32_t i = 0; i < sizes; i++) {
		const struct ht_image_size *s = &ht_image_sizes(x)[i];
		const char *name = in_capitals(a->arena, ht_image_text(x, s->name));

		ht_printf(b, "#define %s_%s_LEAST %lld\n#define %s_%s_MOST %lld\n", a->upper, name,
			(long long)s->least, a->upper, name, (long long)s->most);
	}
	ht_putc(b, '\n');
}

static void put_sizes(const struct ht_aot *a, struct ht_buf *b, const char *up)
{
	const struct ht_program *p = a->program[0];
	size_t ins = ht_program_inputs(p), outs = ht_program_outputs(p);
	const struct ht_image_port *port =
		ht_image_ports(p->rt.image) + ht_image_entries(p->rt.image)->port;

	ht_printf(b,
		"#define %s_INPUTS %zu\n#define %s_OUTPUTS %zu\n\n"
		"/* Memory for a run, on one thread or several%s; what is in it does not matter. */\n"
		"#define %s_ARENA_BYTES %s_ARENA_BYTES_FOR(1)\n"
		"#define %s_ARENA_BYTES_FOR(threads) ((size_t)%llu + (size_t)%llu * (size_t)(threads))\n"
		"#define %s_ARENA_ALIGN 64\n\n",
		up, ins, up, outs, has_sizes(a) ? ", with any sizes of inputs" : "", up, up, up,
		(unsigned long long)a->arena_bytes, (unsigned long long)a->thread_bytes, up);
	if (a->external)
		ht_printf(b,
			"/* The file %s.weights, whole and in memory at a multiple of 64: mmap() it. */\n"
			"#define %s_WEIGHTS_FILE \"%s.weights\"\n"
			"#define %s_WEIGHTS_BYTES ((size_t)%llu)\n\n",
			a->name, up, a->name, up, (unsigned long long)a->obj.weights.bytes);
	if (ht_aot_keeps(a))
		ht_printf(b,
			"/* Memory of the variables, which keep their values from run to run%s.  It is aligned as the\n"
			" * arena, is made ready by %s_begin(), and is the element behind the outputs.  One run at a\n"
			" * time may have it. */\n"
			"#define %s_VARIABLES_BYTES ((size_t)%llu)\n\n",
			ht_aot_derives(a) ? ", and of what is made of steady inputs" : "",
			a->prefix, up, (unsigned long long)ht_aot_kept_bytes(a));
	put_bounds(a, b);
	for (size_t i = 0; i < ins; i++)
		put_value_macros(a, b, "INPUT", i, &p->input[i], &port[i]);
	for (size_t i = 0; i < outs; i++)
		put_value_macros(a, b, "OUTPUT", i, &p->output[i], &port[ins + i]);
	ht_putc(b, '\n');
}

static void put_functions(const struct ht_aot *a, struct ht_buf *b)
{
	const char *p = a->prefix, *weights = a->external ? ", const void *weights" : "";

	if (ht_aot_keeps(a))
		ht_printf(b,
			"/* Gives the variables the values that they begin with; returns an enum %s_status. */\n"
			"int %s_begin(void *variables%s);\n\n",
			p, p, weights);
	ht_printf(b,
		"/* Runs once, on the caller's thread; returns an enum %s_status. */\n"
		"int %s_run(const void *const inputs[], void *const outputs[], void *arena%s);\n\n"
		"/* Threads that the caller provides: run() calls fn(arg, worker, workers) once on each of up to\n"
		" * `threads` threads at once, and returns when all have; barrier() waits until all are there.\n"
		" * libhalftone-rt has both: ht_threads_run, ht_threads_barrier.  The arena is one for so many\n"
		" * threads.  Results do not depend on the number. */\n"
		"struct %s_parallel {\n\tint threads;\n\tvoid *pool;\n"
		"\tvoid (*run)(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg);\n"
		"\tvoid (*barrier)(void *pool);\n};\n"
		"int %s_run_parallel(const void *const inputs[], void *const outputs[], void *arena%s,\n"
		"\tconst struct %s_parallel *parallel);\n\n"
		"/* What a status means.  The text is a part of the net. */\n"
		"const char *%s_status_text(int status);\n\n"
		"/* Where and why a run stopped that returned `status` and had `arena`, which nobody has changed\n"
		" * since.  Any number of threads may ask at once. */\n"
		"struct %s_stop {\n"
		"\t/* Names belong to the net, the message to the arena. */\n"
		"\tint status;\n"
		"\tint places; /* how many elements of place[] are set */\n"
		"\tconst char *node; /* at which it stopped; NULL: not known, as the status is no fault of a run */\n"
		"\tconst char *message; /* of an Assert or CheckNumerics, in the arena; \"\": none; NULL as node */\n"
		"\t/* The loops and calls around that node, from the inside out. */\n"
		"\tstruct {\n"
		"\t\tconst char *node; /* the loop's, or the call's */\n"
		"\t\tint64_t iteration; /* of a loop, from 1 on; 0: a call; -1: places that are left out */\n"
		"\t} place[%d];\n"
		"};\n"
		"void %s_stopped(int status, const void *arena, struct %s_stop *stop);\n"
		"/* Likewise as a sentence: \"node 'a': an index is out of range, in iteration 3 of 'b'\".  Writes at\n"
		" * most `bytes` bytes with the final zero; returns the length of the whole sentence. */\n"
		"size_t %s_stop_text(int status, const void *arena, char *text, size_t bytes);\n\n"
		"/* The target whose code runs on this machine; NULL: there is none. */\n"
		"const char *%s_target(void);\n"
		"/* All of the above, as JSON. */\n"
		"extern const char %s_metadata[];\n\n",
		p, p, weights, p, p, weights, p, p, p, HT_STOP_MOST, p, p, p, p, p);
}

/* For each input from which the net makes derived buffers. */
static void put_steady(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_program *p = a->program[0];
	unsigned long long at = ht_image_variable_bytes(p->rt.image) +
				sizeof(uint64_t) * ht_image_count(p->rt.image, HT_IMAGE_VARIABLES);
	const char **name = members(a->arena, p->input, ht_program_inputs(p));

	for (size_t i = 0; i < ht_program_inputs(p); i++, at += sizeof(uint64_t))
		if (ht_aot_is_steady(a, i))
			ht_printf(b,
				"/* Tells the next run that this input has the elements that it had in the last one. */\n"
				"static inline void %s_unchanged_%s(void *variables)\n{\n"
				"\t*(uint64_t *)(void *)((char *)variables + %llu) |= 1;\n}\n\n",
				a->prefix, name[i], at);
}

/* Statements that set the open sizes in the caller's memory. */
static void put_stated(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_image *x = a->program[0]->rt.image;

	for (uint32_t i = 0; i < ht_image_stated(x); i++)
		ht_printf(b, "\tsizes[%u] = %s;\n", i, ht_image_text(x, ht_image_sizes(x)[i].name));
}

/* The call with the caller's arrays by name. */
static void put_call(const struct ht_aot *a, struct ht_buf *b, const char *up)
{
	const struct ht_program *p = a->program[0];
	const char **in = members(a->arena, p->input, ht_program_inputs(p)),
		   **out = members(a->arena, p->output, ht_program_outputs(p));
	bool variables = ht_aot_keeps(a);

	ht_puts(b, "/* Likewise by name. */\n");
	put_struct(b, a->arena, a->prefix, "inputs", p->input, ht_program_inputs(p), true);
	put_struct(b, a->arena, a->prefix, "outputs", p->output, ht_program_outputs(p), false);
	ht_printf(b,
		"static inline int %s_call(const struct %s_inputs *in, const struct %s_outputs *out,\n"
		"\tvoid *arena%s%s%s%s%s)\n{\n\tconst void *inputs[%s_INPUTS + 1];\n"
		"\tvoid *outputs[%s_OUTPUTS + 1];\n",
		a->prefix, a->prefix, a->prefix, has_sizes(a) ? ", " : "",
		ht_aot_sizes(a, "int64_t "), ht_aot_computes(a) ? ", int64_t *sizes" : "",
		variables ? ", void *variables" : "", a->external ? ", const void *weights" : "",
		up, up);
	if (has_sizes(a) && !ht_aot_computes(a))
		ht_printf(b, "\tconst int64_t sizes[] = { %s };\n", ht_aot_sizes(a, ""));
	ht_puts(b, "\n\t(void)in;\n\t(void)out;\n");
	if (ht_aot_computes(a))
		put_stated(a, b);
	for (size_t i = 0; i < ht_program_inputs(p); i++)
		ht_printf(b, "\tinputs[%zu] = in->%s;\n", i, in[i]);
	for (size_t i = 0; i < ht_program_outputs(p); i++)
		ht_printf(b, "\toutputs[%zu] = out->%s;\n", i, out[i]);
	ht_printf(b,
		"\tinputs[%s_INPUTS] = %s;\n\toutputs[%s_OUTPUTS] = %s;\n"
		"\treturn %s_run(inputs, outputs, arena%s);\n}\n\n",
		up, has_sizes(a) || ht_aot_computes(a) ? "sizes" : "0", up,
		variables ? "variables" : "0", a->prefix, a->external ? ", weights" : "");
}

void ht_aot_header(const struct ht_aot *a, struct ht_buf *b)
{
	const char *up = a->upper;

	put_top(a, b, up);
	put_sizes(a, b, up);
	ht_aot_put_status(a, b);
	put_functions(a, b);
	ht_aot_put_arena(a, b);
	put_call(a, b, up);
	put_steady(a, b);
	ht_printf(b, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}
