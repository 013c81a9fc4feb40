/* Internal: shared by the files of halftone train. */
#ifndef HT_CLI_TRAIN_H
#define HT_CLI_TRAIN_H

#include "cli/cli.h"

#include <halftone/train.h>
#include <stdio.h>

/* ---- train_data.c: rows of arrays in files, in an order that a seed gives ---- */

/* The rows of one tensor: a mapped file, a member of an archive, or a feature of records. */
struct rows {
	enum option of;            /* --data or --eval */
	const char *option, *spec; /* the option's name, and its value on the command line */
	char *name;                /* of the tensor */
	struct array loaded;       /* from an archive */
	void *map;                 /* mapping of a file; NULL: none */
	size_t mapped;
	struct record_files *records; /* NULL: the rows are no records */
	char *feature;                /* name of the feature, of records; else NULL */
	const char *data;
	enum ht_dtype dtype;
	int32_t rank; /* including the first dimension */
	int64_t dim[32];
	size_t row_bytes;
};
struct data {
	struct rows *rows;
	size_t n;
	int64_t count; /* rows of each */
};
/* Opens the files that `o` (--data or --eval) lists.  All must have the same number of rows. */
enum ht_status data_open(const struct cli *c, enum option o, struct data *d);
void data_close(struct data *d);

/* Copies row `row` to `to`. */
enum ht_status rows_copy(const struct cli *c, const struct rows *r, int64_t row, void *to);

/* ---- train_records.c ---- */

/* Whether `spec` names a file of records: FILE.tfrecord#FEATURE, or a name such as FILE.tfrecord-00000-of-00008. */
bool is_records(const char *spec);
/* Opens the files that `spec` names.  records_fit() finds the type and shape of the rows.  Tensors of `d` whose rows come from the
 * same files share the open files. */
enum ht_status records_open(const struct cli *c, struct data *d, struct rows *r, const char *spec);
void records_close(struct rows *r);
/* Gives the rows the type and shape of the input, and where the graph leaves these open, those of the first record; reads that. */
enum ht_status records_fit(const struct cli *c, struct rows *r, const struct ht_value_info *v);
enum ht_status records_read(const struct cli *c, const struct rows *r, int64_t row, void *to);

/* ---- train_data.c: the order of rows ---- */

/* A place in the endless sequence of epochs, each of which has every row once. */
struct order {
	uint64_t seed;
	bool shuffles;
	int64_t count;
	int64_t epoch; /* of the permutation; -1: none yet */
	uint32_t *permutation;
};
enum ht_status order_begin(struct order *o, int64_t count, uint64_t seed, bool shuffles);
int64_t order_row(struct order *o, int64_t position);
void order_end(struct order *o);

/* ---- train_entry.c: an entry of the session with its arrays ---- */

/* The source of an input's elements. */
struct source {
	const struct rows *rows; /* or else */
	struct array value;      /* one value, or with `schedule` one for each step */
	bool schedule;
	struct array array; /* the array for the run */
};
struct entry {
	const char *name;
	const struct ht_program *program;
	struct source *in;
	struct ht_array *in_view, *out_view;
	struct array *out;
	size_t ins, outs;
	int64_t batch;
};
/* Compiles `outputs` of the model for `batch` rows; the inputs are those of `d` and of the option `feeds`.  Without a model it takes entry
 * `stored` of the artefact, which has to have these outputs, in this order. */
struct entry_wanted {
	const char *name, *stored;
	const char *const *output;
	size_t outputs;
	const struct data *data;
	enum option feeds;
	int64_t batch, steps; /* steps: the length of a schedule; 0: there is none */
};
enum ht_status entry_open(struct cli *c, struct ht_session *s, struct ht_model *m,
	struct ht_compile_options *opt, const struct entry_wanted *w, struct entry *e);
/* Takes the artefact's entry for training into the session: its variant of this policy (NULL:
 * that of the first variant). */
enum ht_status entry_load(struct cli *c, struct ht_session *s, const char *policy,
	const struct entry_wanted *w, struct entry *e);
/* Fills the inputs with the rows `row`, as many as the batch has, and values of step `step`, and runs the entry. */
enum ht_status entry_run(
	struct cli *c, struct ht_session *s, struct entry *e, const int64_t *row, int64_t step);
/* The mean of the elements of output `i`. */
double entry_mean(const struct entry *e, size_t i);
/* The sum of the squares of the elements of output `i`. */
double entry_squares(const struct entry *e, size_t i);
void entry_close(struct entry *e);

/* ---- train_save.c: a folder of checkpoints ---- */

struct saved_at {
	long long *step; /* the steps of existing checkpoints, the latest last */
	size_t n, keep;  /* keep 0: all are kept */
};
/* The PREFIX of the latest checkpoint, which the file "checkpoint" in the folder names, as
 * TensorFlow's does. */
enum ht_status save_find(const char *dir, char **prefix);
enum ht_status save_make_dir(const char *dir);
enum ht_status save_step(
	struct cli *c, struct ht_session *s, const char *dir, long long step, struct saved_at *at);

/* ---- train_phase.c ---- */

/* A range of steps in one precision, and its results in this run. */
struct phase {
	enum ht_phase_kind kind;
	long long steps, skipped;
	double seconds;     /* of all its steps */
	double loss, scale; /* after its last step */
};
/* The value of --accelerate-train-mode. */
struct phases {
	bool on;
	struct ht_train_phases *plan;
	struct phase *phase; /* in order; a single one without the option */
	size_t n;
	bool used[HT_PHASE_KINDS];             /* a phase has this kind */
	struct ht_policy *low[HT_PHASE_KINDS]; /* the policy of this kind; NULL: the user's */
};
/* Whether the policies of phases are those of precision_mode_v2. */
bool phases_are_v2(const struct cli *c);
/* `own`: the user's policy; NULL: none, so types stay unchanged.  `loop`: the steps of a loop. */
enum ht_status phases_read(struct cli *c, const struct ht_policy *own, long long steps,
	long long loop, struct phases *p);
struct phase *phases_next(struct phases *p); /* the phase of the next step, which becomes current */
struct phase *phases_current(const struct phases *p);
void phases_free(struct phases *p);

/* ---- train_board.c: event files for TensorBoard ---- */

/* The events of one run, in a folder of its own. */
struct board {
	struct ht_event_file *file; /* NULL: no --tensorboard */
	const struct cli *c;
};
/* Opens the folder of --tensorboard, or `run` in it; NULL: there is only one run. */
enum ht_status board_open(struct board *b, const struct cli *c, const char *run, long long first);
/* The scalars of a loop of steps.  NAN: there is no such value. */
struct board_steps {
	long long last;                     /* number of the last step, counted from 1 */
	double loss, mean_loss, norm, rate; /* rate: steps a second */
	const struct ht_loss_scale *scale;  /* NULL: the loss is not scaled */
	const enum ht_phase_kind *phase;    /* NULL: there are no phases */
};
void board_steps(struct board *b, const struct board_steps *s);
void board_evaluation(
	struct board *b, long long step, const char *const *name, const double *value, size_t n);
enum ht_status board_close(struct board *b);

/* ---- train_log.c ---- */

struct train_log {
	const struct cli *c;
	const char *path;
	FILE *file;             /* NULL: no --log */
	long long steps, first; /* of the training; `first` were done before this run */
	long long loop;         /* --iterations-per-loop; above 1, each line is about a loop */
	double begun, told;     /* times in seconds: of the start, of the last line of progress */
	const char *phase;      /* name of the current phase; NULL: there are no phases */
	bool terminal, shown;
};
enum ht_status log_open(struct train_log *l, const struct cli *c, long long first, long long steps);
/* What is logged after a loop of steps (--iterations-per-loop). */
struct logged_loop {
	long long last, steps;         /* its last step, counted from 1, and its number of steps */
	double loss, mean_loss, epoch; /* loss: of the last step */
	const struct ht_loss_scale *scale; /* NULL: the loss is not scaled */
};
void log_loop(struct train_log *l, const struct logged_loop *loop);
/* A line of names and values: of an evaluation, or the end. */
void log_values(struct train_log *l, const char *event, long long step, const char *const *name,
	const double *value, size_t n);
/* Logs a step of one of several trainings side by side; `norm` NAN: the gradient norm is
 * unknown. */
void log_side(struct train_log *l, long long step, long long seed, const char *policy, double loss,
	double norm);
void log_saved(struct train_log *l, long long step, const char *dir);
enum ht_status log_close(struct train_log *l);
double log_seconds(const struct train_log *l);

/* A training.  With several policies, each has a copy with its own policy, session and entries. */
struct training {
	struct cli *c;
	struct ht_model *model;
	struct ht_policy *policy;
	struct ht_session *session;
	struct ht_compile_options compile;
	struct data data, eval_data;
	struct order order;
	struct entry step[HT_PHASE_KINDS]; /* programs of a step, by kind of phase */
	struct entry eval, rest;           /* evaluation of a full batch, and of the last rows */
	struct phases phases;
	const char *loss;
	const char *train_op;
	const char *step_tensor; /* counts steps for phases, or NULL */
	const char **output;     /* of a step: the loss, other outputs, the train op */
	size_t outputs;
	const char **measured; /* outputs of an evaluation */
	size_t measures;
	double *value; /* by output: the mean over the rows of the last evaluation */
	bool evaluated;
	long long evaluated_at;
	char *eval_names;
	long long batch, steps, first, loop, seed, eval_every, save_every;
	double save_seconds; /* interval of saves; 0: save_every steps */
	double saved_at;     /* time of the last save */
	const char *save;
	struct saved_at saved;
	int64_t *row;
	struct train_log log;
	struct board board;
	double last_loss;
	struct ht_loss_scale scale; /* after the last step */
	bool scaled;
	struct dump *dump; /* of steps; or NULL */
	/* What dumps and profiles observe: a program for each kind of phase, in the order of the phases. */
	struct profiled watched[HT_PHASE_KINDS];
	size_t watches;
	size_t watch[HT_PHASE_KINDS]; /* by kind: its number among them */
};

/* ---- train_watch.c: dumps and profiles of steps ---- */

enum ht_status train_watch_begin(struct training *t);
/* Runs step `step`, which is counted from 0, in a kind of phase. */
enum ht_status train_watched_step(struct training *t, enum ht_phase_kind kind, long long step);

/* ---- train_open.c ---- */

enum ht_status train_open_model(struct training *t); /* also the policy and the phases */
enum ht_status train_open_session(struct training *t);
enum ht_status train_open_steps(struct training *t); /* the programs of a step alone */
enum ht_status train_open_entries(struct training *t);
/* Any program of a step: those of all phases have the same inputs and outputs. */
const struct entry *train_a_step(const struct training *t);

/* ---- train_progress.c ---- */

enum ht_status train_begin(struct training *t); /* restores or initialises the variables */
/* Notes in the session, for its next checkpoint, how far the training is. */
enum ht_status train_note_progress(struct training *t, long long step);
/* Likewise the last number of --step-tensor, if there is one. */
enum ht_status train_note_step_now(struct training *t);
/* Reads the number of --step-tensor after a step. */
enum ht_status train_read_step_tensor(struct training *t, const struct entry *e);

/* ---- train_steps.c ---- */

/* Evaluates; t->value gets the means over all rows. */
enum ht_status train_measure(struct training *t, long long step);
/* Runs the steps from t->first to t->steps, or until a signal arrives; t->steps becomes how many there are then. */
enum ht_status train_run_steps(struct training *t);

/* ---- train_report.c ---- */

enum ht_status train_report(struct training *t, bool json);

/* ---- train.c ---- */

enum ht_status train_open_order(struct training *t);
void train_set_outputs(struct training *t, const char *const *others, size_t n);
void train_release_run(struct training *t);
bool train_is_stopped(void); /* whether a signal has arrived */

/* ---- train_sides.c: several policies side by side ---- */

bool sides_wanted(const struct cli *c);
/* Runs the trainings and prints the report.  `t` has read its options and opened its data. */
enum ht_status sides_run(struct training *t, bool json);

#endif
