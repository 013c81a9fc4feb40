/* Values of a model's variables, for the pass that freezes them. */
#include "api/api.h"

#include "frontend/frontend.h"

/* The model's checkpoint, opened when the first variable is asked for. */
struct variables {
	struct ht_arena *arena;
	struct ht_graph *graph; /* as imported: its saver tells variables from each other */
	struct ht_checkpoint *checkpoint;
	const struct ht_input_file *files; /* as hashed; NULL: nobody asked for hashes */
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
	return ht_checkpoint_read(v->checkpoint, name, a, d, out);
}

const struct ht_variable_source *ht_variables_of(const struct ht_model *m, struct ht_work *w)
{
	struct variables *v = HT_NEW(&w->arena, struct variables);
	struct ht_variable_source *source = HT_NEW(&w->arena, struct ht_variable_source);

	*v = (struct variables){
		.arena = &w->arena, .graph = m->graph, .files = ht_content_files(m)
	};
	*source = (struct ht_variable_source){ read_variable, v };
	return v->graph->checkpoint ? source : NULL;
}
