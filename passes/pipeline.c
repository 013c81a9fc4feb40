/* The standard pipeline, as text. */
#include "passes/passes.h"

/* Runs the folding passes twice: folded values may be shapes that were unknown before. */
#define FOLD "fold,infer,identity,fold,branches,prune,identity,scopes,simplify,cse,"
#define FUSE                                                                                       \
	"layer_norm,rms_norm,gelu,swish,hard_swish,softmax,activation,concat_split,matmul,"        \
	"batch_norm,simplify,cse,prune,infer"

/* The nodes that the entry needs are inlined and frozen; then prune removes all others. */
const char ht_pipeline_cleanup[] =
	"feeds,float_status,split_fused,tables,prune,inline,pivots,branches,prune,references,loop_handles,freeze,split_fused,versions,rare,categorical,cells,segments,prune,loss_seed,sizes,infer,identity," FOLD
	"momentum,adam," FUSE;

#define MERGE "casts,cse,prune,infer"
const char ht_pipeline_precision[] = "precision," MERGE;
const char ht_pipeline_painted[] = MERGE;

/* Pass transposes makes neighbours of the nodes that fold_pad and dilate match, so these come
 * last. */
#define LAYOUT                                                                                             \
	"split_batch_norm,training,volumes,einsum,layout,transposes,fold_width,selects,fold,simplify,cse," \
	"identity,fold_pad,dilate,casts,cse,prune,infer,recompute,early_updates"
const char ht_pipeline_layout[] =
	"strings,loss_scale,tensor_arrays,prune,cases,functional,bodies,carried,recurrent,infer," LAYOUT;
/* For a body, whose dtypes are decided already. */
const char ht_pipeline_body[] = "split_fused,rare,infer,stated,identity," FOLD FUSE
				",gates,bodies,carried,recurrent,infer," LAYOUT;
/* For the branches that pass recurrent makes of loops whose bodies are ready. */
const char ht_pipeline_divided[] = "recurrent,infer," LAYOUT;
