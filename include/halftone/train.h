/* Sessions: several programs over one set of variables, for training (docs/train.md).  Errors and threads: as in
 * halftone.h. */
#ifndef HALFTONE_TRAIN_H
#define HALFTONE_TRAIN_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles the model's inputs and outputs as they are set (ht_model_set_outputs(), ht_model_set_inputs(),
 * ht_model_set_batch(), …) as entry `name`, under opt->policy.  An output may be an op without results, such as that of a
 * training step, which the entry then runs.  Variables that the entry takes are those of the session, by name, and are
 * made where the session has none of that name.  *out is the entry's program, for its inputs and outputs; it lives as long
 * as the session.  The model may be changed and freed afterwards; no other thread may use it during the call.
 * HT_E_USAGE: there is an entry with that name.  HT_E_INPUT: a variable has another type or shape in another entry.
 * HT_E_UNSUPPORTED: as of ht_compile(), and where a variable's shape is not known. */
HT_API enum ht_status ht_session_add(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, const struct ht_program **out);
/* The name of the op that runs a training step, from a MetaGraphDef's collection "train_op"; NULL: it has none, or several.
 * The string lives as long as the model. */
HT_API const char *ht_model_train_op(const struct ht_model *m);

/* The names of the tensors that a step that runs `op` takes as gradients of `loss`: *n strings, which live as long as the model.  These are operands
 * of optimiser ops, and tensors from which updates in elementary ops are computed: as they leave backpropagation, without a learning rate or
 * another factor, behind clipping.  Updates in elementary ops are left out if the gradient of one of them is not found, such as one that comes from
 * a loop, or where `loss` is NULL.  Does not find gradients in functions.  HT_E_USAGE: the graph has no such op. */
HT_API enum ht_status ht_model_gradients(struct ht_model *m, const char *loss, const char *op,
	struct ht_diags *d, const char *const **names, size_t *n);

/* Whether a step that runs `op` (NULL: that computes the loss alone, as a signature of TensorFlow 2 that trains) can change `loss`.
 * HT_E_USAGE: the graph lacks one of the two, or the step changes no variable that the loss depends on; a message names the op. */
HT_API enum ht_status ht_model_check_step(
	struct ht_model *m, const char *loss, const char *op, struct ht_diags *d);

/* Gives variables without a value that of the model's checkpoint (the one in a SavedModel), and where that has none runs
 * the op that initialises them, which a MetaGraphDef names or which is called as TensorFlow calls it.  Other variables of the
 * model get values likewise, so that a saved checkpoint has all of them.  `init`, where it is not NULL, is one op that
 * initialises, which is run first; it replaces values of the model's checkpoint, but none if the caller restored one.  HT_E_UNSUPPORTED: a variable that an entry takes is left without a value; a message
 * names it. */
HT_API enum ht_status ht_session_initialise(struct ht_session *s, struct ht_model *m,
	const char *init, const struct ht_compile_options *opt, struct ht_diags *d);

/* ---- phases: the precision of each step, as the vendor's accelerate_train_mode has it (docs/train.md) ---- */

/* Original precision is that of the caller's own policy, fast a mix with float16, fast1 one with bfloat16. */
enum ht_phase_kind { HT_PHASE_ORIGINAL, HT_PHASE_FAST, HT_PHASE_FAST1, HT_PHASE_KINDS };
/* "original", "fast", "fast1". */
HT_API const char *ht_phase_name(enum ht_phase_kind kind);
/* The name of the policy of such phases, from the family of precision_mode_v2 where `v2` is not 0; NULL: the caller's own. */
HT_API const char *ht_phase_policy(enum ht_phase_kind kind, int v2);

/* Which phase each step of a training belongs to.  Belongs to one thread at a time. */
struct ht_train_phases;
struct ht_train_phases_options {
	size_t struct_size;
	const char *
		mode; /* "fast1|step|0.9", "phases=fast1:100,original", …; NULL: original precision in all steps */
	const struct ht_policy *
		policy; /* the caller's own, which has to be one that keeps the model's types; NULL: none */
	int64_t steps;       /* of the whole training */
	int64_t loop;        /* steps of a loop (iterations_per_loop); 0: 1 */
	int has_target_loss; /* non-zero: of phases by loss, `target_loss` is given */
	int environment; /* non-zero: reads STEP_NOW, TOTAL_STEP, LOSS_NOW and TARGET_LOSS, where they are set */
	double target_loss;
};
#define HT_TRAIN_PHASES_OPTIONS_INIT                                                               \
	{ sizeof(struct ht_train_phases_options), NULL, NULL, 0, 0, 0, 0, 0 }
/* HT_E_USAGE: the mode is malformed, lacks a target loss or has no use for one, or does not go with the policy. */
HT_API enum ht_status ht_train_phases_new(const struct ht_train_phases_options *opt,
	struct ht_diags *d, struct ht_train_phases **out);
HT_API void ht_train_phases_free(struct ht_train_phases *p);
/* How many phases there are, at least one, and the kind of phase `i`. */
HT_API size_t ht_train_phases_count(const struct ht_train_phases *p);
HT_API enum ht_phase_kind ht_train_phases_kind(const struct ht_train_phases *p, size_t i);
/* The number of the phase that the next step belongs to. */
HT_API size_t ht_train_phases_next(struct ht_train_phases *p);
/* Counts a step that was done, with its loss (NAN: it is not known). */
HT_API void ht_train_phases_count_step(struct ht_train_phases *p, double loss);

/* The counters of the vendor's TellMeStepOrLossHook, on which phases by step or by loss depend. */
struct ht_phase_counters {
	size_t struct_size;
	int64_t step_now;   /* steps that are done, those of earlier trainings included */
	int64_t total_step; /* of the training; 0: those of the options */
	double loss_now;    /* of the last step; 0: it is not known */
	double target_loss;
};
#define HT_PHASE_COUNTERS_INIT { sizeof(struct ht_phase_counters), 0, 0, 0, 0 }
HT_API void ht_train_phases_counters(
	const struct ht_train_phases *p, struct ht_phase_counters *out);
/* Replaces all four; steps and losses go on from there.  HT_E_USAGE: a number of steps is negative, or the target not finite. */
HT_API enum ht_status ht_train_phases_set_counters(
	struct ht_train_phases *p, const struct ht_phase_counters *c, struct ht_diags *d);
/* Two numbers for a checkpoint (ht_session_note()): that of the current phase, and its steps so far. */
HT_API void ht_train_phases_state(const struct ht_train_phases *p, int64_t *state);
/* Goes on from there, behind `done` steps of which the last had the loss `loss` (NAN: it is not known). */
HT_API void ht_train_phases_go_on(
	struct ht_train_phases *p, const int64_t *state, int64_t done, double loss);

/* Steps that follow each other. */
struct ht_session_loop {
	size_t struct_size;
	/* Names of HT_PHASE_KINDS entries with the same inputs and outputs, by kind of phase; NULL: no phase has this kind. */
	const char *const *entry;
	struct ht_train_phases *phases; /* NULL: all steps are of the first entry */
	int64_t done; /* steps of the training that are done; the call adds 1 after each of its steps */
	int64_t steps; /* the number of steps that the call shall do */
	double loss; /* of the last step; the call sets it from the first output; NAN: it is not known */
	/* Called before a step, to fill the inputs, and after it, to read the outputs; `step` counts from 0.  May be NULL. */
	void (*before)(void *arg, int64_t step);
	void (*after)(void *arg, int64_t step, size_t phase);
	void *arg;
	const int32_t
		*stop; /* NULL, or what ends the call behind the current step once it is not 0 */
};
#define HT_SESSION_LOOP_INIT                                                                       \
	{ sizeof(struct ht_session_loop), NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL }
/* Runs a loop of steps (iterations_per_loop), each in the precision of its phase, which may change at any step.  The first
 * output is the loss.  The first step that fails ends the loop; l->done then tells how many steps succeeded.  The call reads all
 * members of *l before the first step, and sets `done` and `loss`.  HT_E_USAGE: as for ht_session_run(), or the first output is not a
 * single floating-point number, or no entry has the kind of a step's phase. */
HT_API enum ht_status ht_session_steps(struct ht_session *s, struct ht_session_loop *l,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d);

/* The memory of a run of a program that changes variables, in bytes, by what it is for (docs/train-memory.md). */
struct ht_step_memory {
	size_t struct_size;
	size_t variables; /* those that other nodes than updates read: the weights */
	size_t slots;     /* all other variables, such as slots of optimisers */
	/* Of gradients that updates take, of copies and of all other intermediate results, the most that are alive at once. Copies are
	 * computed from one variable alone, in another type or order; constants and what is kept from run to run count as such, too. */
	size_t gradients, copies, activations;
	size_t arena; /* of intermediate results, on one thread */
	size_t peak;  /* variables, slots, what is kept from run to run, and arena */
	size_t bound; /* variables + slots + gradients + copies + 1.15 times activations; `peak` is at most that */
};
#define HT_STEP_MEMORY_INIT { sizeof(struct ht_step_memory), 0, 0, 0, 0, 0, 0, 0, 0 }
/* HT_E_ENVIRONMENT: memory ran out.  HT_E_USAGE: out->struct_size is not set. */
HT_API enum ht_status ht_program_step_memory(
	const struct ht_program *p, struct ht_diags *d, struct ht_step_memory *out);

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
