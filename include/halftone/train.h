/* Sessions: several programs over one set of variables, for training (docs/train.md).  Errors and threads: as in
 * halftone.h. */
#ifndef HALFTONE_TRAIN_H
#define HALFTONE_TRAIN_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The variables of a model, and entries: programs that compute some of its tensors and run some of its ops, such as a
 * training step and an evaluation.  Belongs to one thread at a time. */
struct ht_session;

struct ht_session_options {
	size_t struct_size;
	int threads;           /* of each run; 0: 1.  Results do not depend on it */
	int keep_subnormals;   /* as in struct ht_context_options */
	int seeded;            /* non-zero: random ops without seeds draw by `seed` */
	uint64_t seed;         /* else by one of the system's */
	const int32_t *cancel; /* as in struct ht_context_options */
};
#define HT_SESSION_OPTIONS_INIT { sizeof(struct ht_session_options), 0, 0, 0, 0, NULL }

/* Makes a session without variables and entries. */
HT_API enum ht_status ht_session_new(
	const struct ht_session_options *opt, struct ht_diags *d, struct ht_session **out);
HT_API void ht_session_free(struct ht_session *s);
/* Compiles the model's inputs and outputs as they are set (ht_model_set_outputs(), ht_model_set_inputs(),
 * ht_model_set_batch(), …) as entry `name`, under opt->policy.  An output may be an op without results, such as that of a
 * training step, which the entry then runs.  Variables that the entry takes are those of the session, by name, and are
 * made where the session has none of that name.  *out is the entry's program, for its inputs and outputs; it lives as long
 * as the session.  The model may be changed and freed afterwards; no other thread may use it during the call.
 * HT_E_USAGE: there is an entry with that name.  HT_E_INPUT: a variable has another type or shape in another entry.
 * HT_E_UNSUPPORTED: as of ht_compile(), and where a variable's shape is not known. */
HT_API enum ht_status ht_session_add(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, const struct ht_program **out);
/* The entry's program; NULL: there is none. */
HT_API const struct ht_program *ht_session_program(const struct ht_session *s, const char *name);

/* Scales the gradients of the output `loss`, so that small gradients do not become zero in low precision.  Applies to
 * entries that are added afterwards, have this output and assign variables.  Such an entry multiplies the constant from
 * which its gradients begin by the scale, and divides the gradients by the scale where they are used.  If an element of a
 * divided gradient is not finite, the run skips every assignment that depends on a gradient.  `how` has the form of the
 * option --loss-scale (docs/train.md): "fixed:1024" (the vendor's FixedLossScaleManager), "dynamic" (its
 * ExponentialUpdateLossScaleManager) or "none".  Checkpoints store the scale and its counters.  HT_E_USAGE: `how` is
 * malformed, or an entry of the session is scaled already.  ht_session_add() returns HT_E_UNSUPPORTED if the entry's graph
 * has no gradients that can be scaled. */
HT_API enum ht_status ht_session_scale_loss(
	struct ht_session *s, const char *loss, const char *how, struct ht_diags *d);

struct ht_loss_scale {
	size_t struct_size;
	double scale; /* of the next run */
	int64_t good; /* runs with finite gradients since the scale last changed or a run overflowed */
	int64_t bad;     /* runs whose gradients overflowed since the scale last changed */
	int64_t runs;    /* runs of scaled entries */
	int64_t skipped; /* those of them whose gradients were not finite */
	int finite;      /* the gradients of the last run were finite */
	int diverges;    /* the last 100 runs or more were skipped, and the scale is fixed or 1 */
};
#define HT_LOSS_SCALE_INIT { sizeof(struct ht_loss_scale), 0, 0, 0, 0, 0, 0, 0 }
/* Returns 0, and leaves *out as it is, if the session scales no loss. */
HT_API int ht_session_loss_scale(const struct ht_session *s, struct ht_loss_scale *out);

/* The name of the op that runs a training step, from a MetaGraphDef's collection "train_op"; NULL: it has none, or several.
 * The string lives as long as the model. */
HT_API const char *ht_model_train_op(const struct ht_model *m);

/* The names of the tensors that optimiser ops take as gradients, for the optimiser ops that run with `op`: *n strings, which
 * live as long as the model.  Does not find the gradients of updates that consist of elementary ops or are in functions.
 * HT_E_USAGE: the graph has no such op. */
HT_API enum ht_status ht_model_gradients(struct ht_model *m, const char *op, struct ht_diags *d,
	const char *const **names, size_t *n);

/* Gives variables without a value that of the model's checkpoint (the one in a SavedModel), and where that has none runs
 * the op that initialises them, which a MetaGraphDef names or which is called as TensorFlow calls it.  Other variables of the
 * model get values likewise, so that a saved checkpoint has all of them.  `init`, where it is not NULL, is one op that
 * initialises, which is run first.  HT_E_UNSUPPORTED: a variable that an entry takes is left without a value; a message
 * names it. */
HT_API enum ht_status ht_session_initialise(struct ht_session *s, struct ht_model *m,
	const char *init, const struct ht_compile_options *opt, struct ht_diags *d);
/* Runs an entry once, as ht_context_run().  HT_E_USAGE: there is no such entry.  HT_E_INPUT: a variable that it reads has
 * no value. */
HT_API enum ht_status ht_session_run(struct ht_session *s, const char *name,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d);

/* The variables: their number, and variable `i`, whose `value` is its memory, NULL where it has no value.  Returns 0 when
 * there is no `i`. */
HT_API size_t ht_session_variables(const struct ht_session *s);
HT_API int ht_session_variable(const struct ht_session *s, size_t i, struct ht_value_info *out);
/* Gives variable `i` a value of its type and shape. */
HT_API enum ht_status ht_session_assign(
	struct ht_session *s, size_t i, const struct ht_array *a, struct ht_diags *d);

/* Numbers of the caller's that are saved with the variables, such as how many steps were done: `n` of them as `name`. */
HT_API enum ht_status ht_session_note(
	struct ht_session *s, const char *name, const int64_t *value, size_t n, struct ht_diags *d);
/* Those that were noted or restored; *n is 0 where there are none.  They live until the next call about the session. */
HT_API const int64_t *ht_session_noted(const struct ht_session *s, const char *name, size_t *n);

/* Writes a checkpoint that TensorFlow restores: PREFIX.index and PREFIX.data-00000-of-00001, with all variables, the other
 * tensors of the checkpoint that was restored last, and under keys that begin with "_HALFTONE/" what was noted and where
 * random ops draw from.  Both files are written whole before they get their names: on failure there is neither. */
HT_API enum ht_status ht_session_save(struct ht_session *s, const char *prefix, struct ht_diags *d);
/* Gives variables the values of a checkpoint.  `m` (NULL: none) tells by its saver which tensor each variable has; others have
 * their own names.  Checksums are verified first, and on failure nothing has changed.  Where the checkpoint was saved by a
 * session with the same entries, runs go on with the same bits.  Variables that the checkpoint does not have keep their
 * values; *missing (may be NULL) becomes their number, and a note names the first.  HT_E_INPUT: a tensor is damaged, or has another
 * type or shape than its variable. */
HT_API enum ht_status ht_session_restore(struct ht_session *s, struct ht_model *m,
	const char *prefix, size_t *missing, struct ht_diags *d);

#ifdef __cplusplus
}
#endif
#endif
