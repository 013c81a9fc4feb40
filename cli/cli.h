/* cli: the halftone command line tool, over the public interface only. */
#ifndef HT_CLI_H
#define HT_CLI_H

#include <halftone/compare.h>
#include <halftone/halftone.h>
#include <halftone/tool.h>

#include <stdbool.h>

struct cli;
struct args;

/* ---- options.c: one table drives parsing and help ---- */

enum {
	RUN = 1,
	BENCH = 2,
	COMPILE = 4,
	OPT = 8,
	CONVERT = 16,
	EXPLAIN = 32,
	INSPECT = 64,
	LISTS = 128,
	HELP_VERB = 256,
	TUNE = 512,
	CONFIG = 1024,
	ATC = 2048,
	AOT = 4096,
	SIGN = 8192,
	DIFF_VERB = 16384,
	CACHE = 32768,
	VERSION_VERB = 65536,
	COMPLETION = 131072,
	COMPARE = 262144,
	TRAIN = 524288,
	OPS = 1048576,
	REPORT = 2097152,
	SEARCH = 4194304,
	POLICY = RUN | BENCH | COMPILE | AOT | OPT | CONVERT | EXPLAIN | CONFIG | CACHE | COMPARE |
		 TRAIN,
	ALL_MODEL = RUN | BENCH | COMPILE | AOT | OPT | CONVERT | EXPLAIN | INSPECT | CACHE |
		    COMPARE | OPS | SEARCH,
	CACHED = RUN | BENCH | COMPILE | AOT | CONVERT | EXPLAIN | CACHE | COMPARE | TRAIN | SEARCH,
	EVERY = 8388607
};

enum option {
#define OPTION(id, ...) OPTION_##id,
#include "cli/options.def"
#undef OPTION
	OPTION_END
};

struct option_row {
	const char *name;
	char letter;
	const char *arg; /* NULL: a flag */
	const char *env; /* NULL: none */
	unsigned verbs;
	const char *help;
};
extern const struct option_row option_rows[OPTION_END];

struct verb {
	const char *name;
	unsigned bit;
	const char *args; /* "MODEL" or "" */
	const char *help;
	enum ht_status (*run)(struct cli *c);
};
extern const struct verb verbs[]; /* ended by a row without a name */

struct setting {
	const char *name, *value;
	const char *path; /* the run configuration; NULL: the command line */
	long line;        /* 0: implied by it */
};

enum {
	MOST_OPEN = 8, /* dimensions of an input that may stay open */
	MOST_STATED = MOST_OPEN + HT_MOST_NAMED_SIZES /* open sizes of a program */
};

/* The command line. */
struct cli {
	const struct verb *verb;
	char **word; /* the words behind the tool's name */
	int words;
	const char *action;        /* of halftone cache */
	const char *model, *other; /* other: the second one of diff */
	const char **result;       /* of report and compare, which take any number */
	size_t results;
	struct {
		const char **value; /* in the order of the command line; "" for flags */
		size_t n;
	} option[OPTION_END];
	struct args *files; /* of @FILE */
	size_t file_count;
	struct setting *setting; /* options of the library (ht_option), in the order of the
				  * command line */
	size_t settings;
	struct ht_config **config; /* of --config */
	size_t configs;
	struct ht_diags *diags;
	char *vendor_dir; /* from op_compiler_cache_dir; NULL: it is not used */
	struct fed *fed;  /* of --input */
	size_t feds;
	long long fed_batch; /* the size that an array determined for an open first dimension; 0:
			      * none did */
	struct open_sizes {  /* by dimension: the open sizes that --input-shape states */
		bool stay;
		int64_t least, most; /* most 0: not stated */
		const char
			*name; /* of this dimension's own size, of so many characters; NULL: none */
		size_t letters;
	} open[MOST_OPEN];
	const char *entry_outputs; /* from compile --entry, instead of --outputs; NULL: none */
	bool configured;           /* load_configs() ran */
	bool opens_all; /* without --input-shape, dimensions that the graph leaves open stay open */
	char **made; /* memory of values of --input-shape that other options stated (dynamic.c) */
	size_t mades;
	struct ht_cache *cache; /* set when a model is opened for compiling; NULL: none */
};

/* The option's value: the last one on the command line, else the environment's, else `fallback`. */
const char *option(const struct cli *c, enum option o, const char *fallback);
bool option_on(const struct cli *c, enum option o);
/* The option as a whole number in [low, high]; HT_E_USAGE if it is not. */
enum ht_status option_number(const struct cli *c, enum option o, long long fallback, long long low,
	long long high, long long *out);
enum ht_status option_json(const struct cli *c, enum ht_format *out);
enum ht_status parse_command(int argc, char **argv, struct cli *c);
bool takes_settings(const struct verb *v);        /* whether it takes options of the library
						   * (ht_option) */
enum ht_status show_options(const struct cli *c); /* --show-options */
void cli_release(struct cli *c);

void add_setting(struct cli *c, struct setting s);
void add_value(struct cli *c, int o, const char *value); /* the last value of option `o` */

/* ---- config.c ---- */

/* Adds the settings of the --config files that neither the command line nor the environment
 * states.  A setting that is an option of the verb becomes the option's value.  A second call
 * does nothing. */
enum ht_status load_configs(struct cli *c);
/* The value of a setting, after load_configs(); NULL: it is not stated. */
const char *setting_value(const struct cli *c, const char *name);
/* Checks that all settings are legal, may be combined and are supported; load_configs() calls it
 * at its end. */
enum ht_status check_settings(const struct cli *c);
bool states_mode(const struct cli *c); /* whether a setting is a precision mode */

/* ---- args.c: files of arguments ---- */

/* Words separated by blanks; quotes and backslashes have the meaning they have in a shell; #
 * begins a comment. */
struct args {
	char *text, **word;
	size_t n;
};
enum ht_status args_of_file(const char *path, struct args *out);
void args_free(struct args *a);
void args_print_word(const char *s); /* to standard output, in a form that can be read back */

/* ---- help.c ---- */

void print_help(const struct verb *v); /* NULL: help of the tool */
#define MODEL_FORMS                                                                                \
	"MODEL is a GraphDef (.pb, .pbtxt), a TF.js graph model (model.json), a SavedModel "       \
	"directory,\na MetaGraphDef (.meta) or a .hir file."
struct exit_code {
	int code;
	const char *help;
};
extern const struct exit_code exit_codes[]; /* ended by a row without help */

/* ---- manual.c ---- */

enum ht_status print_manual(const struct verb *v); /* in man(7) macros; NULL: page of the tool */

/* ---- compile_shown.c ---- */

/* ht_compile(), which shows its progress on a terminal if it takes longer than a second. */
enum ht_status compile_shown(const struct cli *c, const struct ht_model *m,
	struct ht_compile_options *opt, struct ht_program **out);

/* ---- report.c: streams ---- */

/* Messages are printed in order: those of the library before the next one of the tool. */
void report_begin(const struct cli *c);
/* Prints "error: " and a text with printf's format; returns `st`. */
enum ht_status fail(enum ht_status st, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note(const struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void warn(const struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Reports a setting without effect: an error, or with --lenient a warning that is counted. */
enum ht_status refuse(const struct cli *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
size_t ignored_settings(void);
void print_diags(void);
/* The text of the last error that was printed, with its place in a file if it has one; "": none
 * was.  Valid until the next message. */
const char *last_error(void);
/* Prints all messages of another list. */
void print_messages(const struct ht_diags *d);
/* Writes all bytes to standard output, or fails. */
enum ht_status print_bytes(const struct ht_bytes *b);
/* A growing text.  If memory runs out, the tool exits with HT_E_ENVIRONMENT. */
struct text {
	char *p;
	size_t n, cap;
};
/* Appends how many of `n` things were not named, if the first `named` were. */
void text_unnamed(struct text *t, size_t n, size_t named);
void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_json(struct text *t, const char *s); /* a string of JSON, with quotes */
/* A number of JSON; numbers that are not finite become strings. */
void text_number(struct text *t, double x);
/* The member "without_effect" of a program's report. */
void text_without_effect(struct text *t, const struct ht_program_info *info);
enum ht_status text_print(struct text *t); /* to standard output; frees */
void *must_alloc(size_t n);                /* zeroed */
/* The nearest name, at a distance of at most 2, or NULL. */
const char *near_name(const char *s, const char *const *names, size_t n);

/* ---- model.c: options that every verb with a model has ---- */

enum ht_status open_model(struct cli *c, struct ht_model **out);
/* Likewise with set of shapes `set`, and with this batch (0: none) instead of the option's. */
enum ht_status open_shaped_model(struct cli *c, size_t set, long long batch, struct ht_model **out);
enum ht_status open_policy(struct cli *c, struct ht_policy **out); /* NULL if none is named */
/* Opens a policy other than that of --policy, with all other settings.  Call load_configs()
 * first. */
enum ht_status open_named_policy(struct cli *c, const char *name, struct ht_policy **out);

/* ---- compile.c ---- */

/* A list in --policy, --target or --batch; `n` 0: the option was not stated. */
enum { MOST_LISTED = 256 };
struct option_list {
	char *text, *item[MOST_LISTED]; /* the caller frees `text` */
	size_t n;
};
enum ht_status option_list(const struct cli *c, enum option o, struct option_list *out);
/* 0, 1 or 2: from the option, or from the vendor's setting. */
enum ht_status external_weight(const struct cli *c, int *out);

/* ---- compile_entries.c ---- */

/* The programs of --entry, which share the variables of one session; the session also determines
 * their first values. */
struct entries {
	struct ht_session *session; /* NULL: the option was not stated */
	char *name;                 /* of the current entry */
	size_t n;                   /* programs so far, of all entries */
};
enum ht_status entries_open(struct cli *c, struct entries *e);
/* Begins value `i` of the option: models that are opened afterwards have its outputs. */
enum ht_status entries_begin(struct cli *c, struct entries *e, size_t i);
/* Compiles a variant of the current entry, and adds it to the artefact; `w` NULL: no artefact is
 * written. */
enum ht_status entries_add(struct cli *c, struct entries *e, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_artefact_writer *w,
	const struct ht_program **p);
/* Initialises the variables, and adds their values to the artefact. */
enum ht_status entries_end(struct cli *c, struct entries *e, const struct ht_compile_options *opt,
	struct ht_artefact_writer *w);
void entries_close(struct cli *c, struct entries *e);

/* ---- verbs.c ---- */

/* Writes its result for the model to `path`, or to `out` if that is NULL. */
typedef enum ht_status put_model_fn(const struct cli *c, const struct ht_model *m,
	const struct ht_compile_options *opt, const char *path, struct ht_bytes *out);
/* Calls `put` with the policy of the options, and writes the result to --output or prints it. */
enum ht_status put_model(struct cli *c, struct ht_compile_options *opt, put_model_fn *put);

/* ---- artefact.c ---- */

/* Opens the variant that the options and the shapes of the inputs select. */
enum ht_status open_artefact(struct cli *c, struct ht_program **out);
/* Opens the variants for a net, for the targets of --target. */
enum ht_status open_variants(struct cli *c, const struct option_list *targets,
	struct ht_program **out, size_t room, size_t *n);
enum ht_status artefact_trust(const struct cli *c, struct ht_artefact_options *opt);

/* ---- shapes.c ---- */

/* Parses "1,224,-1,3", up to `end`, at most 31 numbers; false if it is not a list of numbers. */
bool parse_dims(const char *s, const char *end, int64_t *dim, int32_t *rank);
/* Likewise, but "?" or "1..64" are permitted, and a name in front of them, "length=1..64"; these become -1, and `open` gets their bounds and
 * names, which lie in `s`. */
bool parse_open_dims(const char *s, const char *end, int64_t *dim, int32_t *rank,
	struct open_sizes open[MOST_OPEN]);
/* atc_shapes.c: writes --input_shape with profile p[0..n) of `option` in place of its dimensions
 * -1. */
enum ht_status atc_fill_shape(
	const char *option, const char *shape, const char *p, size_t n, struct text *t);
/* dynamic.c: turns the vendor's options for open sizes and for several sets of shapes into values of --input-shape. */
enum ht_status take_dynamic(struct cli *c);
/* Writes `ranges`, "NAME:[1~8,-1];NAME:[3]", in the syntax of --input-shape; errors name `option`. */
enum ht_status put_open_shapes(struct text *t, const char *option, const char *ranges);
/* gears.c: chooses the set of shapes that matches the arrays of --input; ALL_SHAPES if there is
 * nothing to choose. */
enum ht_status choose_set(struct cli *c, size_t *set);
/* How many sets of shapes --input-shape states; 1 if it states none. */
size_t shape_sets(const struct cli *c);
#define ALL_SHAPES SIZE_MAX /* all values as one set, in which each input may occur once */
enum ht_status set_shapes(struct cli *c, struct ht_model *m, size_t set);
/* The set consists of values `first` to `end` - 1 of --input-shape. */
void set_bounds(const struct cli *c, size_t set, size_t *first, size_t *end);
/* The length of NAME in "NAME", "NAME:0", "NAME:1,2" or "NAME:0:1,2". */
size_t shape_name_length(const char *s, size_t n);

/* ---- cache.c ---- */

/* c->cache as the options say; NULL when it is off. */
enum ht_status open_cache(struct cli *c);
enum ht_status use_cache(struct cli *c, struct ht_model *m);

/* ---- vendor_cache.c ---- */

struct ht_cache_settings;
/* Applies the vendor's options to the cache: first to its settings, then to the cache that is open. */
enum ht_status vendor_cache_settings(struct cli *c, struct ht_cache_settings *s);
void vendor_cache_begin(struct cli *c);

/* ---- npy.c, npz.c: NumPy's files ---- */

struct array {
	struct ht_array a; /* data from malloc, dim = shape */
	int64_t shape[32];
	bool raw16; /* two bytes of unknown meaning ('V2', or '<u2'): may be bfloat16 */
};
void array_free(struct array *a);
/* Fills the dimensions and makes zeroed data.  Of strings all are empty. */
enum ht_status array_make(struct array *a, enum ht_dtype t, int32_t rank, const int64_t *dim);
enum ht_status npy_parse(const char *name, const void *p, size_t n, struct array *out);
/* What is in front of the elements, of the shape that `a` has: its bytes; 0: its type has no form in .npy. */
enum { NPY_HEAD = 1300 };
size_t npy_begin(const struct ht_array *a, bool widen, char out[NPY_HEAD]);
/* Header and elements. */
enum ht_status npy_print(const struct ht_array *a, bool widen, struct ht_bytes *out);
enum ht_status npy_load(const char *path, struct array *out);
/* The header of a .npy file: its elements, and where they begin. */
struct npy_head {
	char descr[16];
	bool fortran, raw16; /* raw16: as in struct array */
	enum ht_dtype dtype;
	size_t width; /* bytes of each string in the file */
	int32_t rank;
	int64_t dim[32];
	size_t start;
};
/* Reads up to `n` further bytes; fewer at the end or if reading fails. */
typedef size_t npy_read_fn(void *from, void *to, size_t n);
enum ht_status npy_head(const char *name, npy_read_fn *read, void *from, struct npy_head *h);
/* Makes the header of a file of version 1 with elements of NumPy's type `descr`; returns its
 * bytes. */
size_t npy_header(const struct ht_array *a, const char *descr, char out[NPY_HEAD]);

/* ---- npy_strings.c: NumPy's strings, all of which have as many bytes as the longest ---- */

/* Whether NumPy's type is one of the supported string types, with *width bytes for each. */
bool npy_is_string(const char *descr, size_t *width);
/* Fills an array of `count` strings that array_make() made from the elements of a file. */
enum ht_status npy_strings(
	const char *name, const struct npy_head *h, const char *p, size_t count, struct array *out);
/* Makes a complete file. */
enum ht_status npy_print_strings(const struct ht_array *a, struct ht_bytes *out);
/* String i of an array; *n becomes its length in bytes. */
const char *array_string(const struct ht_array *a, size_t i, size_t *n);
size_t array_count(const struct ht_array *a);

struct npz;
enum ht_status npz_open(const char *path, struct npz **out);
void npz_close(struct npz *z);
size_t npz_members(const struct npz *z);
const char *npz_name(const struct npz *z, size_t i); /* without ".npy" */
enum ht_status npz_load(struct npz *z, const char *key, struct array *out);
/* Opens a member that is read once from beginning to end; several may be open at the same time. */
enum ht_status npz_stream(struct npz *z, size_t i, void **out);
npy_read_fn npz_read;
void npz_stream_close(void *stream);
/* Writes n arrays to one .npz file; name[i] is the member of array i. */
enum ht_status npz_save(struct cli *c, const char *path, const char *const *name,
	const struct ht_array *a, size_t n, bool widen);

/* ---- sample_set.c: samples that are read one after the other ---- */

/* Arrays with the names and shapes of some tensors, for one run after the other.  For each
 * tensor, a file has one array of its shape (one run), several stacked along a new first
 * dimension, or several concatenated along its first dimension. */
struct sample_set;
struct wanted {
	const char *option; /* "--samples", for messages */
	const struct ht_value_info *v;
	size_t n;
	/* Finds the tensor of a member; false: there is none. */
	bool (*named)(const struct ht_program *p, const char *name, size_t *i);
	const struct ht_program *program;
	bool any_float; /* floats may have another float type than the tensor */
};
/* `value`: a folder, files separated by commas, or N or N:SEED random samples.  Counts the runs
 * and checks every file's header. */
enum ht_status sample_set_open(const struct wanted *w, const char *value, struct sample_set **out);
size_t sample_set_runs(const struct sample_set *s);
/* The arrays of the next run, which are valid until the next call; data NULL: the tensor has a
 * default and the file has no array for it.  *where becomes the file. */
enum ht_status sample_set_next(
	struct sample_set *s, const struct ht_array **out, const char **where);
void sample_set_close(struct sample_set *s);
bool is_sample_count(const char *s);                                /* N or N:SEED */
enum ht_status npy_head_of(const char *path, struct npy_head *out); /* reads the header of a .npy
								     * file */

/* ---- oracle.c: --reference tensorflow ---- */

struct oracle;
extern const char oracle_script[]; /* python/halftone/_tensorflow.py, embedded by the build */
/* Starts TensorFlow with the model, whose program is `p`. The caller closes *out, also after an
 * error.  HT_E_ENVIRONMENT: there is no Python, or it has no TensorFlow.  HT_E_UNSUPPORTED:
 * TensorFlow refuses the model. */
enum ht_status oracle_open(
	struct cli *c, const struct ht_model *m, const struct ht_program *p, struct oracle **out);
/* Computes the outputs of a sample; they live until the next call. */
enum ht_status oracle_run(
	struct oracle *o, const struct ht_array *in, const struct ht_array **expected);
void oracle_close(struct oracle *o);

/* ---- labelled_set.c: --samples with --reference and --labels ---- */

struct labelled_set {
	struct cli *c;
	const struct ht_model *model;
	const struct ht_program *program;
	size_t rows; /* rows of a sample that a run takes */
	struct ht_value_info *in, *out, label;
	int64_t label_dim[32];
	struct sample_set *samples, *reference, *labels; /* NULL: not stated */
	struct oracle *oracle;                           /* NULL: TensorFlow is not the reference */
	size_t taken;
	char *where;
	bool again; /* it was opened before */
};
struct labelled_sample {
	const struct ht_array *in, *expected, *label; /* NULL: there is none */
	size_t ins, expecteds;
	const char *where; /* the current file; valid until the next sample */
};
/* Checks that --reference and --labels are usable. */
enum ht_status labelled_set_check(const struct cli *c);
bool labelled_set_is_random(const struct cli *c); /* no files have the samples */
enum ht_status labelled_set_open(struct cli *c, const struct ht_model *m,
	const struct ht_program *p, size_t rows, struct labelled_set *k);
/* Starts again at the first sample. */
enum ht_status labelled_set_rewind(struct labelled_set *k);
/* Opens only the samples a second time. */
enum ht_status labelled_set_samples(const struct labelled_set *k, struct sample_set **out);
enum ht_status labelled_set_next(struct labelled_set *k, struct labelled_sample *out);
void labelled_set_close(struct labelled_set *k);
/* The options of a comparison, including `threads`. */
struct comparison_setting {
	struct ht_compile_options compile;
	struct ht_comparison_options options; /* refers to `compile` and to the command line */
};
void comparison_settings(const struct cli *c, long long threads, struct comparison_setting *s);
/* Appends the command line in a form that a shell can read. */
void text_command(struct text *t, const struct cli *c);
/* Appends a blank and a word, quoted for a shell if necessary. */
void text_word(struct text *t, const char *s);

/* ---- progress.c ---- */

/* A line on standard error that shows progress: after a second, only on a terminal, and not with
 * --quiet. */
struct progress {
	const struct cli *c;
	const char *what;
	long long begun_ms, shown_ms;
	bool shown;
};
void progress_begin(struct progress *p, const struct cli *c, const char *what);
void progress_at(struct progress *p, size_t done, size_t all); /* all 0: unknown */
void progress_end(struct progress *p);

/* ---- samples.c: calibration samples ---- */

/* Takes the value of the option samples: files, or a number of random ones. */
enum ht_status set_samples(struct cli *c, struct ht_policy *p, const char *value);

/* ---- literal.c: inputs as text on the command line ---- */

void fill_random(struct array *a, uint64_t seed); /* floats in [-1, 1), integers 0 or 1 */
bool is_random_spec(const char *s);
enum ht_status random_array(const char *spec, const struct ht_value_info *v, struct array *out);
const char *input_text(const struct ht_value_info *v, char *s, size_t size); /* "float32[1,4]" */
/* The next random number of splitmix64, whose state is *state. */
uint64_t random_next(uint64_t *state);
/* Parses a literal of the type and shape of `v`. */
enum ht_status literal_array(
	enum option o, const char *spec, const struct ht_value_info *v, struct array *out);
/* Parses only the type and shape, without elements. */
enum ht_status literal_shape(enum option o, const char *spec, struct array *out);

/* ---- fed.c: inputs of --input, and the shapes of their arrays ---- */

struct fed {
	char *name;         /* as on the command line */
	const char *spec;   /* behind the '=' */
	struct array array; /* once loaded; has no data if the values are on the command line */
	bool shaped;        /* its type and shape are stated */
	bool ignored;       /* --lenient: the tensor does not exist, or nothing needs it */
};
/* Parses --input into c->fed. */
enum ht_status fed_parse(struct cli *c);
void fed_free(struct cli *c);
enum ht_status fed_load(struct fed *f);
/* Makes the tensors that --inputs and --input name inputs, if they are not inputs already. */
enum ht_status fed_set_inputs(struct cli *c, struct ht_model *m);
/* Leaves inputs whose default the graph computes to the program, unless --inputs, --input or --input-shape names them. */
enum ht_status fed_compute_defaults(struct cli *c, struct ht_model *m);
/* Loads the arrays of a model's inputs and takes the sizes of open dimensions from them.
 * `graph` and `stated` are by input: the shape in the graph, and with --input-shape. */
enum ht_status fed_set_shapes(struct cli *c, struct ht_model *m, const struct ht_value_info *graph,
	const struct ht_value_info *stated);

/* ---- feed.c: inputs ---- */

/* @FILE.npy or @FILE.npz#KEY */
enum ht_status load_file(enum option o, const char *spec, struct array *out);

size_t parse_size(const char *s); /* "500M", "2G"; 0: malformed */

void arrays_free(struct array *a, size_t n);
/* A program with its inputs and memory for its outputs. */
struct session {
	struct ht_model *model;
	struct ht_program *program;
	struct ht_context_options context_options;
	struct ht_context *context;
	struct array *in, *out;
	struct ht_array *in_view, *out_view;
	size_t ins, outs;
	struct dump *dump;       /* or NULL */
	unsigned long long runs; /* runs that were begun */
	const size_t *steady;    /* inputs that stay unchanged, and how many these are (steady.c) */
	size_t steadies;
	bool open; /* the program has open sizes, */
	int64_t size
		[MOST_STATED]; /* with these values in the run, by number (struct ht_size_info) */
};
enum ht_status session_open(struct cli *c, struct session *s);
enum ht_status session_run(struct cli *c, struct session *s);
void session_close(struct session *s);
/* Makes a session of another session's program, with the same inputs, to run at the same time.
 * The other session must outlive it. */
enum ht_status session_join(struct cli *c, const struct session *with, struct session *s);
void session_leave(struct session *s);

/* ---- steady.c: inputs named by --steady ---- */

/* Programs of the model keep what they derive from these inputs. */
enum ht_status steady_set(struct cli *c, struct ht_model *m);
/* Finds the inputs in the session's program, and declares them unchanged for the next run. */
enum ht_status steady_find(struct cli *c, struct session *s);
enum ht_status steady_tell(struct cli *c, struct session *s);

/* ---- crowd.c ---- */

/* Calls fn for `n` sessions at the same time; the first is `s`, in the calling thread.  The
 * arguments of the sessions are `stride` bytes apart. */
typedef enum ht_status crowd_fn(struct cli *c, struct session *s, void *arg);
enum ht_status crowd_run(
	struct cli *c, struct session *s, size_t n, crowd_fn *fn, void *arg, size_t stride);
/* Appends a member of JSON with the seed of random ops, if there are any. */
void text_seed(struct text *t, const struct session *s);

/* ---- step_memory.c ---- */

/* The memory of a run of a program that changes variables: a text, or members of a JSON object. */
enum ht_status text_step_memory(
	struct text *t, const struct cli *c, const struct ht_program *p, bool json);
struct ht_step_memory;
void put_step_memory(struct text *t, const struct ht_step_memory *m, bool json);

/* ---- memory.c ---- */

/* Checks that --max-memory, or the machine's free memory, is enough for a run. */
enum ht_status check_memory(const struct cli *c, const struct session *s, long long threads);

/* ---- device.c ---- */

/* Confines the process to the cores of the chosen device, and its memory near them. */
enum ht_status use_device(const struct cli *c);
/* Reads the time limits that the vendor's options state. */
void read_limits(const struct cli *c, struct ht_context_options *out);
enum ht_pages pages_wanted(const struct cli *c); /* for constants and variables, from
						  * memory_config */

/* ---- dump.c: tensors of runs as files, for --dump and the vendor's options ---- */

struct dump;
int dump_tee(const struct cli *c); /* enum ht_tee_what: the tensors that the program must show */
/* Sets *out if a dump is asked for. */
enum ht_status dump_begin(struct cli *c, struct dump **out);
/* Adds a program, of which runs in this context are dumped.  Programs are numbered from 0 in the
 * order in which they are added. */
enum ht_status dump_program(struct dump *d, const struct ht_program *p, struct ht_context *c);
/* Called before and after run `run` of a program. */
void dump_run_begin(struct dump *d, size_t program, unsigned long long run);
void dump_run_end(struct dump *d, enum ht_status st);
/* Prints where the dump is; fails if not all was written. */
enum ht_status dump_end(const struct dump *d);
void dump_free(struct dump *d);
/* dump_compare.c: compares the folders c->model and c->other. */
enum ht_status compare_dumps(struct cli *c);
/* Whether two paths are compared as dumps: one is a folder without a model's file, and so is the
 * other, unless it does not exist. */
bool are_dumps(const char *a, const char *b);

/* ---- profile.c: --trace, --profile-table and the vendor's profiling options ---- */

bool profile_wanted(const struct cli *c);
/* Whether programs must know which kernels compute each node. */
bool profile_nodes(const struct cli *c);
/* Warns of options that have no effect without a profile. */
void profile_warn(struct cli *c);
/* Starts recording runs. */
enum ht_status profile_begin(struct cli *c, struct ht_context *context);
/* A context whose runs are recorded. */
struct profiled {
	const char *name; /* NULL: there is only one */
	struct ht_context *context;
};
/* Writes the files; the tables go to `out`, in JSON as a member of an object. */
enum ht_status profile_end(struct cli *c, const struct profiled *of, size_t n, struct text *out,
	enum ht_format format);

/* ---- announce.c: --jitdump, --perf-map and --gdb ---- */

bool announce_lines(const struct cli *c); /* whether programs keep their lines */
enum ht_status announce(const struct cli *c, const struct ht_program *p);

/* ---- summary.c: statistics of arrays ---- */

struct summary {
	double min, max, mean;
	size_t at; /* index of the largest element */
	size_t n, nan, infinite;
};
struct summary *summarise_outputs(
	const struct session *s); /* of each output; the caller frees it */
double array_number(const struct ht_array *a, size_t i);
/* Warns of each output with NaN or infinities, if no input and no constant has any. */
void warn_not_finite(const struct cli *c, const struct session *s, const struct summary *of);

/* ---- expect.c: comparing with a reference ---- */

bool have_same_shape(const struct ht_array *a, const struct ht_array *b);
struct verdict {
	const char *output;
	double error, tol; /* max|a-b| / max|b| */
	bool ok;
};
enum ht_status expect(struct cli *c, const struct session *s, struct verdict **out);

/* ---- verbs ---- */

enum ht_status verb_run(struct cli *c);
enum ht_status verb_bench(struct cli *c);
enum ht_status verb_cache(struct cli *c);
enum ht_status verb_compile(struct cli *c);
enum ht_status verb_aot(struct cli *c);
enum ht_status verb_opt(struct cli *c);
enum ht_status verb_convert(struct cli *c);
enum ht_status verb_explain(struct cli *c);
enum ht_status verb_inspect(struct cli *c);
enum ht_status verb_tune(struct cli *c);
enum ht_status verb_list(struct cli *c);
enum ht_status verb_ops(struct cli *c);
enum ht_status verb_config(struct cli *c);
enum ht_status verb_atc(struct cli *c);
enum ht_status verb_sign(struct cli *c);
enum ht_status verb_diff(struct cli *c);
enum ht_status verb_help(struct cli *c);
enum ht_status verb_version(struct cli *c);
enum ht_status verb_completion(struct cli *c);
enum ht_status verb_compare(struct cli *c);
enum ht_status verb_search(struct cli *c);
enum ht_status verb_train(struct cli *c);
enum ht_status verb_report(struct cli *c);

#endif
