/* The text files of a net, for people and build systems: metadata, example, package files. */
#include "api/aot.h"

/* ---- metadata ---- */

void ht_aot_put_shape(struct ht_buf *b, const struct ht_value_info *v)
{
	for (int32_t k = 0; k < v->rank; k++)
		ht_printf(b, "%s%lld", k ? ", " : "", (long long)v->dim[k]);
}

static void put_values(struct ht_buf *b, const char *name, const struct ht_value_info *v, size_t n)
{
	ht_printf(b, ",\n \"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		ht_printf(b, "%s\n  {\"name\": ", i ? "," : "");
		ht_put_json(b, ht_str(v[i].name));
		ht_printf(b, ", \"dtype\": \"%s\", \"shape\": [", ht_dtype_name(v[i].dtype));
		ht_aot_put_shape(b, &v[i]);
		ht_puts(b, "]}");
	}
	ht_puts(b, "]");
}

static void put_variables(struct ht_buf *b, const struct ht_aot *a)
{
	const struct ht_program *p = a->program[0];
	size_t n = ht_program_variables(p);
	struct ht_value_info *v = HT_NEW_ARRAY(a->arena, struct ht_value_info, n);

	for (size_t i = 0; i < n; i++)
		ht_program_variable(p, i, &v[i]);
	ht_printf(b, ",\n \"variable_bytes\": %llu", (unsigned long long)ht_aot_kept_bytes(a));
	put_values(b, "variables", v, n);
}

struct ht_str ht_aot_metadata(const struct ht_aot *a)
{
	const struct ht_program *p = a->program[0];
	const struct ht_image *x = p->rt.image;
	struct ht_buf b;

	ht_buf_init(&b, a->arena);
	ht_printf(&b,
		"{\"schema\": \"halftone.aot/1\",\n \"halftone\": \"%s\",\n \"name\": \"%s\",\n"
		" \"prefix\": \"%s\",\n \"policy\": ",
		ht_version(), a->name, a->prefix);
	ht_put_json(&b, ht_str(p->info.policy));
	ht_puts(&b, ",\n \"targets\": [");
	for (size_t i = 0; i < a->programs; i++) {
		const struct ht_program_info *t = &a->program[i]->info;

		ht_printf(&b,
			"%s\n  {\"target\": \"%s\", \"steps\": %zu, \"kernels\": %zu, "
			"\"code_bytes\": %zu, \"weight_bytes\": %zu, \"arena_bytes\": %zu}",
			i ? "," : "", t->target, t->steps, t->kernels, t->code_bytes,
			t->weight_bytes, t->arena_bytes);
	}
	ht_printf(&b,
		"],\n \"code_bytes\": %llu,\n \"weight_bytes\": %llu,\n \"weights\": \"%s\",\n"
		" \"arena_bytes\": %llu,\n \"thread_bytes\": %llu",
		(unsigned long long)a->code_bytes, (unsigned long long)a->weight_bytes,
		a->external ? "file" : "inside", (unsigned long long)a->arena_bytes,
		(unsigned long long)a->thread_bytes);
	for (uint32_t i = 0; i < ht_image_stated(x); i++)
		ht_printf(&b, ",\n \"%s\": {\"least\": %lld, \"most\": %lld}",
			ht_image_text(x, ht_image_sizes(x)[i].name),
			(long long)ht_image_sizes(x)[i].least,
			(long long)ht_image_sizes(x)[i].most);
	if (ht_aot_keeps(a))
		put_variables(&b, a);
	put_values(&b, "inputs", p->input, ht_program_inputs(p));
	put_values(&b, "outputs", p->output, ht_program_outputs(p));
	ht_puts(&b, "}\n");
	return ht_buf_str(&b);
}

/* ---- an example ---- */

static const char EXAMPLE_WEIGHTS[] =
	"static const void *map_weights(const char *path)\n{\n"
	"\tint fd = open(path, O_RDONLY);\n\tvoid *p = MAP_FAILED;\n\n"
	"\tif (fd >= 0 && lseek(fd, 0, SEEK_END) == (off_t)@U_WEIGHTS_BYTES)\n"
	"\t\tp = mmap(NULL, @U_WEIGHTS_BYTES, PROT_READ, MAP_SHARED, fd, 0);\n"
	"\tif (fd >= 0)\n\t\tclose(fd);\n\treturn p == MAP_FAILED ? NULL : p;\n}\n\n";

static const char EXAMPLE_MAIN[] =
	"static void *memory(size_t n)\n{\n"
	"\tvoid *p = aligned_alloc(64, (n + 64) / 64 * 64);\n\n\tif (!p)\n\t\texit(5);\n"
	"\treturn memset(p, 0, n);\n}\n\n"
	"/* Bytes of `path`, or zeros without one. */\n"
	"static void *load(const char *path, size_t n)\n{\n"
	"\tvoid *p = memory(n);\n\tFILE *f = path ? fopen(path, \"rb\") : NULL;\n\n"
	"\tif (path && (!f || fread(p, 1, n, f) != n)) {\n"
	"\t\tfprintf(stderr, \"%s: cannot read %zu bytes\\n\", path, n);\n\t\texit(3);\n\t}\n"
	"\tif (f)\n\t\tfclose(f);\n\treturn p;\n}\n\n";

/* Writes `text` with the prefix for @p and the prefix in capitals for @U. */
static void put_template(struct ht_buf *b, const struct ht_aot *a, const char *text)
{
	for (; *text; text++) {
		if (*text != '@') {
			ht_putc(b, *text);
			continue;
		}
		text++;
		ht_puts(b, *text == 'U' ? a->upper : *text == 'p' ? a->prefix : a->name);
	}
}

/* The suffix of the macro for a value's bytes. */
static const char *for_sizes(const struct ht_aot *a, const struct ht_value_info *v)
{
	return ht_shape_known((struct ht_shape){ v->rank, v->dim }) ? ""
								    : ht_aot_for(a, "size_of.");
}

/* The suffix of the macro for the bytes that a run has written. */
static const char *of_sizes(const struct ht_aot *a, const struct ht_value_info *v)
{
	if (!ht_aot_computes(a) || ht_shape_known((struct ht_shape){ v->rank, v->dim }))
		return for_sizes(a, v);
	return "_OF((const int64_t *)&size_of)";
}

static bool has_example_sizes(const struct ht_aot *a)
{
	return ht_aot_computes(a) || ht_image_stated(a->program[0]->rt.image);
}

/* The open sizes, which the example reads from its command line, behind the first `number`
 * arguments. */
static void put_example_sizes(const struct ht_aot *a, struct ht_buf *b, size_t number)
{
	const struct ht_image *x = a->program[0]->rt.image;
	uint32_t sizes = ht_image_stated(x), all = ht_image_count(x, HT_IMAGE_SIZES);

	if (!has_example_sizes(a))
		return;
	ht_puts(b, "\tstruct {\n");
	if (sizes)
		ht_printf(b, "\t\tint64_t %s;\n", ht_aot_sizes(a, ""));
	if (ht_aot_computes(a))
		ht_printf(b, "\t\tint64_t others[%u];\n", all - sizes);
	ht_puts(b, "\t} size_of = {\n");
	for (uint32_t i = 0; i < sizes; i++)
		ht_printf(b, "\t\targc > %zu ? atoll(argv[%zu]) : %lld,\n", number + i, number + i,
			(long long)(ht_image_sizes(x)[i].least ? ht_image_sizes(x)[i].least : 1));
	ht_puts(b, ht_aot_computes(a) ? "\t\t{ 0 }\n\t};\n" : "\t};\n");
}

void ht_aot_example(const struct ht_aot *a, struct ht_buf *b)
{
	const struct ht_program *p = a->program[0];
	size_t ins = ht_program_inputs(p), outs = ht_program_outputs(p);
	size_t sizes = ht_image_stated(p->rt.image);
	size_t number = a->external ? 2 : 1, first = number + sizes;

	put_template(b, a,
		sizes ? "/* Runs @n once: the arguments are the open sizes and files of raw inputs, in order;\n"
			" * without files inputs are zeros.\n"
		      : "/* Runs @n once: the arguments are files of raw inputs, in order; without them inputs are zeros.\n");
	put_template(
		b, a, " * Writes the raw outputs to standard output. */\n#include \"@n.h\"\n\n");
	if (a->external)
		ht_puts(b, "#include <fcntl.h>\n");
	ht_puts(b, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
	ht_puts(b, a->external ? "#include <sys/mman.h>\n#include <unistd.h>\n\n" : "\n");
	if (a->external)
		put_template(b, a, EXAMPLE_WEIGHTS);
	ht_puts(b, EXAMPLE_MAIN);
	put_template(b, a,
		"int main(int argc, char **argv)\n{\n"
		"\tconst void *inputs[@U_INPUTS + 1] = { 0 };\n"
		"\tvoid *outputs[@U_OUTPUTS + 1] = { 0 };\n"
		"\tvoid *arena = memory(@U_ARENA_BYTES);\n");
	if (a->external)
		put_template(b, a,
			"\tconst void *weights = map_weights(argc > 1 ? argv[1] : @U_WEIGHTS_FILE);\n");
	put_example_sizes(a, b, number);
	ht_puts(b, "\tint status;\n\n");
	if (has_example_sizes(a))
		put_template(b, a, "\tinputs[@U_INPUTS] = &size_of;\n");
	for (size_t i = 0; i < ins; i++)
		put_template(b, a,
			ht_str_printf(a->arena,
				"\tinputs[%zu] = load(argc > %zu ? argv[%zu] : NULL, "
				"@U_INPUT_%zu_BYTES%s);\n",
				i, i + first, i + first, i, for_sizes(a, &p->input[i]))
				.p);
	for (size_t i = 0; i < outs; i++)
		put_template(b, a,
			ht_str_printf(a->arena, "\toutputs[%zu] = memory(@U_OUTPUT_%zu_BYTES%s);\n",
				i, i, for_sizes(a, &p->output[i]))
				.p);
	if (ht_aot_keeps(a))
		put_template(b, a,
			ht_str_printf(a->arena,
				"\toutputs[@U_OUTPUTS] = memory(@U_VARIABLES_BYTES);\n"
				"\tstatus = @p_begin(outputs[@U_OUTPUTS]%s);\n"
				"\tif (status == @U_OK)\n\t",
				a->external ? ", weights" : "")
				.p);
	put_template(b, a,
		a->external ? "\tstatus = @p_run(inputs, outputs, arena, weights);\n"
			    : "\tstatus = @p_run(inputs, outputs, arena);\n");
	put_template(b, a,
		"\tif (status != @U_OK) {\n\t\tchar why[2000];\n\n"
		"\t\t@p_stop_text(status, arena, why, sizeof why);\n"
		"\t\tfprintf(stderr, \"@n: %s\\n\", why);\n\t\treturn 4;\n\t}\n");
	for (size_t i = 0; i < outs; i++)
		put_template(b, a,
			ht_str_printf(a->arena,
				"\tfwrite(outputs[%zu], 1, @U_OUTPUT_%zu_BYTES%s, stdout);\n", i, i,
				of_sizes(a, &p->output[i]))
				.p);
	ht_puts(b, "\t(void)argc;\n\t(void)argv;\n\treturn 0;\n}\n");
}

/* ---- packages: all files lie in one folder, wherever that is ---- */

void ht_aot_pkg_config(const struct ht_aot *a, struct ht_buf *b)
{
	ht_printf(b,
		"libdir=${pcfiledir}\nincludedir=${pcfiledir}\n\nName: %s\n"
		"Description: A net, compiled ahead of time by halftone %s\nVersion: 1.0\n"
		"Cflags: -I${includedir}\nLibs: -L${libdir} -l%s\n",
		a->name, ht_version(), a->name);
}

void ht_aot_cmake(const struct ht_aot *a, struct ht_buf *b)
{
	put_template(b, a,
		"# find_package(@n): the targets @n::@n (shared) and @n::static.\n"
		"if(NOT TARGET @n::@n)\n"
		"\tadd_library(@n::@n SHARED IMPORTED)\n"
		"\tset_target_properties(@n::@n PROPERTIES\n"
		"\t\tIMPORTED_LOCATION \"${CMAKE_CURRENT_LIST_DIR}/lib@n.so\"\n"
		"\t\tIMPORTED_SONAME lib@n.so\n"
		"\t\tINTERFACE_INCLUDE_DIRECTORIES \"${CMAKE_CURRENT_LIST_DIR}\")\n"
		"\tadd_library(@n::static STATIC IMPORTED)\n"
		"\tset_target_properties(@n::static PROPERTIES\n"
		"\t\tIMPORTED_LOCATION \"${CMAKE_CURRENT_LIST_DIR}/lib@n.a\"\n"
		"\t\tIMPORTED_LINK_INTERFACE_LANGUAGES C\n"
		"\t\tINTERFACE_INCLUDE_DIRECTORIES \"${CMAKE_CURRENT_LIST_DIR}\")\n"
		"endif()\n");
}
