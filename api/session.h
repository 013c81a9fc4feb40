/* Internal: the members of a session, for the files that make up its calls. */
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

/* Where the random op of this name draws from next, in whichever entry it runs, as in a session of TensorFlow. */
struct ht_session_stream {
	uint64_t name; /* as in struct ht_image_stream */
	struct ht_philox at;
	struct ht_session_stream *next;
};

/* An object (struct ht_image_object) that all entries which have one of this name share. */
struct ht_session_object {
	const struct ht_object_kind *kind;
	struct ht_hash contents; /* of what it is made of */
	void *object;            /* NULL: it could not be made */
};

struct ht_session_entry {
	const char *name;
	struct ht_program *program;
	struct ht_context *context;            /* NULL: the program is for another machine */
	struct ht_session_variable **variable; /* by variable of the program */
	char **memory;                         /* likewise: theirs */
	struct ht_rt_version **version;        /* likewise */
	struct ht_session_stream **stream;     /* by stream of the program */
	bool scaled;                           /* its program reads the loss scale */
	bool ready;                            /* all variables that it needs have values */
};

struct ht_session_note {
	int64_t *value;
	size_t n;
};

struct ht_session {
	struct ht_arena arena; /* allocated from in ht_session_guarded() only, as kept_arena */
	struct ht_session_options opt;
	struct ht_context_options limits;
	int32_t device; /* of `limits` */
	uint64_t seed;
	struct ht_rt_pool *pool;
	struct ht_page_pool pages; /* of variables, where opt.pages asks for large ones */
	struct ht_map variables, objects, entries, notes;
	struct ht_map
		keys; /* name of a variable → struct ht_str, as the model of the last checkpoint says */
	struct ht_session_stream *streams;
	struct ht_scaling scaling;
	const char *loss_scale; /* of ht_session_scale_loss(); NULL: none */
	/* Members of `scaling` as programs see them; they are not among `variables`. */
	struct ht_session_variable scale, finite;
	/* Of the checkpoint that was restored last: what is no variable. */
	struct ht_arena kept_arena;
	struct ht_checkpoint_item *kept;
	size_t kepts;
};

/* Runs `body(arg)` with the session's memory and that of the call, `w`, which is released behind it; an allocation that fails
 * becomes HT_E_ENVIRONMENT.  Such calls may nest. */
enum ht_status ht_session_guarded(struct ht_session *s, struct ht_work *w,
	enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d);
/* HT_E_USAGE: there is an entry with that name. */
enum ht_status ht_session_is_new(const struct ht_session *s, const char *name, struct ht_diags *d);
/* Makes an entry of a program, which is the entry's from now on, also when the call fails; the caller releases or keeps it. */
enum ht_status ht_session_bind(struct ht_session *s, const char *name, struct ht_program *p,
	struct ht_diags *d, struct ht_session_entry *e);
/* Has the session keep the entry, which is released when the call fails. */
enum ht_status ht_session_keep(
	struct ht_session *s, struct ht_session_entry *e, struct ht_diags *d);
/* Scales the loss as the artefact that the program is from says, unless the session does so already. */
enum ht_status ht_session_scale_as(
	struct ht_session *s, const struct ht_program *p, struct ht_diags *d);
/* Compiles the model as an entry, which the caller releases or keeps. */
enum ht_status ht_session_compile(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_session_entry *e);
enum ht_status ht_session_run_entry(struct ht_session *s, struct ht_session_entry *e,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d);
/* Gives a variable a value of its bytes. */
void ht_session_write(struct ht_session_variable *v, const void *value);
/* Behind a run of an entry that is scaled. */
void ht_session_update_scale(struct ht_session *s);
/* session_objects.c: in *out, which is in `a`, the session's objects by object of the program. */
enum ht_status ht_session_objects(struct ht_session *s, const struct ht_program *p,
	struct ht_arena *a, struct ht_diags *d, void *const **out);
void ht_session_release_objects(struct ht_session *s);
void ht_session_release_entry(struct ht_session_entry *e);
/* ht_session_restore() without a word on variables that the checkpoint does not have. */
enum ht_status ht_session_restore_quietly(
	struct ht_session *s, struct ht_model *m, const char *prefix, struct ht_diags *d);
/* The variable of the loss scale that has this name; NULL: none. */
struct ht_session_variable *ht_session_scale_variable(struct ht_session *s, struct ht_str name);
void ht_session_put_note(struct ht_session *s, struct ht_str name, const int64_t *value, size_t n);
/* Write the loss scale into the session's notes, which checkpoints store, and read it from them. */
void ht_session_note_scale(struct ht_session *s);
void ht_session_take_scale(struct ht_session *s);
/* The stream of that name, made as `first` where there is none. */
struct ht_session_stream *ht_session_stream_of(
	struct ht_session *s, uint64_t name, struct ht_philox first);

#endif
