/* Internal: the members of a session, for the files that implement its calls. */
#ifndef HT_API_SESSION_H
#define HT_API_SESSION_H

#include <halftone/train.h>

#include "api/api.h"
#include "api/loss_scale.h"
#include "frontend/frontend.h"

struct ht_session_variable {
	struct ht_str name;
	struct ht_str key; /* in checkpoints */
	enum ht_dtype dtype;
	struct ht_shape shape;
	size_t bytes;
	char *memory;
	struct ht_rt_version version;
	bool set; /* it has a value */
};

/* The state of the random op of this name.  All entries continue it, as in a session of
 * TensorFlow. */
struct ht_session_stream {
	uint64_t name; /* as in struct ht_image_stream */
	struct ht_philox at;
	struct ht_session_stream *next;
};

/* An object (struct ht_image_object) that all entries with an object of this name share. */
struct ht_session_object {
	const struct ht_object_kind *kind;
	struct ht_hash contents; /* of the data that it is made from */
	void *object;            /* NULL: it could not be made */
};

struct ht_session_entry {
	const char *name;
	struct ht_program *program;
	struct ht_context *context;            /* NULL: the program is for another machine */
	struct ht_session_variable **variable; /* by variable of the program */
	char **memory;                         /* by variable of the program: its memory */
	struct ht_rt_version **version;        /* likewise */
	struct ht_session_stream **stream;     /* by stream of the program */
	bool scaled;                           /* its program reads the loss scale */
	bool ready;                            /* all variables that the entry needs have values */
};

struct ht_session_note {
	int64_t *value;
	size_t n;
};

struct ht_session {
	struct ht_arena arena; /* like kept_arena, allocated from only within
			        * ht_session_guarded() */
	struct ht_session_options opt;
	struct ht_context_options limits;
	int32_t device; /* of `limits` */
	uint64_t seed;
	struct ht_rt_pool *pool;
	struct ht_page_pool pages; /* of variables, if opt.pages asks for large pages */
	struct ht_map variables, objects, entries, notes;
	struct ht_map keys; /* name of a variable → struct ht_str: its key in checkpoints, from the
		       * model that came with the last checkpoint */
	struct ht_session_stream *streams;
	struct ht_scaling scaling;
	const char *loss_scale; /* of ht_session_scale_loss(); NULL: none */
	/* Members of `scaling` as variables of programs; they are not in `variables`. */
	struct ht_session_variable scale, finite;
	/* From the checkpoint that was restored last: values other than variables. */
	struct ht_arena kept_arena;
	struct ht_checkpoint_item *kept;
	size_t kepts;
	bool restored; /* there was such a checkpoint */
	bool chosen;   /* one of them was the caller's choice, and not the model's own */
};

/* Runs `body(arg)` with the session's memory and the memory `w` of the call, which is released
 * afterwards.  An allocation that fails becomes HT_E_ENVIRONMENT. Such calls may nest. */
enum ht_status ht_session_guarded(struct ht_session *s, struct ht_work *w,
	enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d);
/* HT_E_USAGE: there already is an entry with that name. */
enum ht_status ht_session_is_new(const struct ht_session *s, const char *name, struct ht_diags *d);
/* Makes an entry of a program.  The program belongs to the entry, even if the call fails.  The
 * caller releases the entry or passes it to ht_session_keep(). */
enum ht_status ht_session_bind(struct ht_session *s, const char *name, struct ht_program *p,
	struct ht_diags *d, struct ht_session_entry *e);
/* Adds the entry to the session; releases it if the call fails. */
enum ht_status ht_session_keep(
	struct ht_session *s, struct ht_session_entry *e, struct ht_diags *d);
/* Scales the loss as the program's artefact says, unless the session scales it already. */
enum ht_status ht_session_scale_as(
	struct ht_session *s, const struct ht_program *p, struct ht_diags *d);
/* Compiles the model as an entry, which the caller releases or passes to ht_session_keep(). */
enum ht_status ht_session_compile(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_session_entry *e);
enum ht_status ht_session_run_entry(struct ht_session *s, struct ht_session_entry *e,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d);
/* Copies a value, as bytes, to a variable. */
void ht_session_write(struct ht_session_variable *v, const void *value);
/* Called after a run of an entry with scaled loss. */
void ht_session_update_scale(struct ht_session *s);
/* session_objects.c: *out becomes an array, in `a`, of the session's objects by object of the
 * program. */
enum ht_status ht_session_objects(struct ht_session *s, const struct ht_program *p,
	struct ht_arena *a, struct ht_diags *d, void *const **out);
void ht_session_release_objects(struct ht_session *s);
void ht_session_release_entry(struct ht_session_entry *e);
/* Gives variables without a value that of the model's own checkpoint, as far as it has them, without messages about the others.  Of its other values
 * the session takes those that a checkpoint which the caller restored does not have. */
enum ht_status ht_session_restore_own(
	struct ht_session *s, struct ht_model *m, const char *prefix, struct ht_diags *d);
/* The variable of the loss scale with this name; NULL: none. */
struct ht_session_variable *ht_session_scale_variable(struct ht_session *s, struct ht_str name);
void ht_session_put_note(struct ht_session *s, struct ht_str name, const int64_t *value, size_t n);
/* Writes the loss scale to the session's notes, which checkpoints store.  The second function
 * reads it from them. */
void ht_session_note_scale(struct ht_session *s);
void ht_session_take_scale(struct ht_session *s);
/* The stream of that name.  If there is none yet, it is made with the state `first`. */
struct ht_session_stream *ht_session_stream_of(
	struct ht_session *s, uint64_t name, struct ht_philox first);

#endif
