/* The standard pipeline, as text. */
#include "passes/passes.h"

/* What the entry needs is inlined and frozen; then that is all there is.
 * Twice over the shapes: what is folded may be the shape of what was not known. */
const char ht_pipeline_cleanup[] =
	"feeds,split_fused,prune,inline,branches,prune,freeze,split_fused,"
	"prune,infer,identity,fold,infer,identity,fold,"
	"branches,prune,identity,scopes,"
	"simplify,cse,momentum,adam,"
	"layer_norm,rms_norm,gelu,swish,hard_swish,"
	"softmax,activation,concat_split,matmul,batch_norm,"
	"simplify,cse,prune,infer";

#define MERGE "casts,cse,prune,infer"
const char ht_pipeline_precision[] = "precision," MERGE;
const char ht_pipeline_painted[] = MERGE;

/* Transposes meet before and behind what fold_pad and dilate look at, so those come last. */
const char ht_pipeline_layout[] = "split_batch_norm,einsum,layout,transposes,fold,simplify,cse,"
				  "identity,fold_pad,dilate,casts,cse,prune,infer";
