/* Values of a model's variables, for the pass that freezes them. */
#include "api/api.h"

#include "frontend/frontend.h"

/* The model's checkpoint, opened when the first variable is asked for. */
struct variables {
	struct ht_arena *arena;
	struct ht_graph *graph; /* as imported: its saver has the keys of variables */
	struct ht_checkpoint *checkpoint;
	const struct ht_input_file *files; /* the files that were hashed; NULL: hashes were not
					    * asked for */
	bool wide;                         /* values become float64 */
};

static enum ht_status read_variable(void *self, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out)
{
	struct variables *v = self;

	if (!v->checkpoint) {
		HT_TRY(ht_checkpoint_open(
			v->arena, v->graph->checkpoint, v->files, d, &v->checkpoint));
		ht_checkpoint_follow(v->checkpoint, v->graph);
	}
	HT_TRY(ht_checkpoint_read(v->checkpoint, name, a, d, out));
	if (v->wide && (ht_is_low((*out)->dtype) || (*out)->dtype == HT_F32))
		*out = ht_widen_tensor(*out, HT_F64, a);
	return HT_OK;
}

const struct ht_variable_source *ht_variables_of(const struct ht_model *m, struct ht_work *w)
{
	struct variables *v = HT_NEW(&w->arena, struct variables);
	struct ht_variable_source *source = HT_NEW(&w->arena, struct ht_variable_source);

	*v = (struct variables){
		.arena = &w->arena, .graph = m->graph, .files = ht_content_files(m), .wide = m->wide
	};
	*source = (struct ht_variable_source){ read_variable, v };
	return v->graph->checkpoint ? source : NULL;
}

/* ---- zeros, for calls that only look at a graph without values ---- */

static const struct ht_node *variable_named(const struct ht_graph *g, struct ht_str name)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_VARIABLE) && ht_str_eq(ht_variable_name(n), name))
			return n;
	return NULL;
}

static struct ht_type stated_type(const struct ht_node *n)
{
	const struct ht_attr *shape = n ? ht_attr_find(n, "shape") : NULL;

	return (struct ht_type){ n ? ht_attr_type(n, "dtype", HT_INVALID) : HT_INVALID,
		shape && shape->value.kind == HT_ATTR_SHAPE ? shape->value.shape.shape
							    : HT_SHAPE_UNKNOWN };
}

static enum ht_status zeros(void *self, struct ht_str name, struct ht_arena *a, struct ht_diags *d,
	struct ht_tensor **out)
{
	const struct variables *v = self;
	struct ht_type t = stated_type(variable_named(v->graph, name));
	size_t bytes = t.dtype == HT_INVALID ? 0 : ht_dtype_info(t.dtype)->bytes;
	int64_t n = ht_shape_known(t.shape) ? ht_shape_count(t.shape) : -1;

	if (!bytes || n < 0 || n > INT64_MAX / 16)
		return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE,
			"the variable '%.*s' has no value, and states no shape", HT_STR_ARG(name));
	*out = ht_tensor_sharing(a, t.dtype, t.shape, ht_blob_in(a, (size_t)n * bytes));
	return HT_OK;
}

const struct ht_variable_source *ht_variables_or_zeros(const struct ht_model *m, struct ht_work *w)
{
	const struct ht_variable_source *known = ht_variables_of(m, w);
	struct ht_variable_source *source = HT_NEW(&w->arena, struct ht_variable_source);
	struct variables *v = HT_NEW(&w->arena, struct variables);

	*v = (struct variables){ .arena = &w->arena, .graph = m->graph };
	*source = (struct ht_variable_source){ zeros, v };
	return known ? known : source;
}
