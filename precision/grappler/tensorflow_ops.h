/* What TensorFlow's own graph passes know about an op. generate/ops.c makes the rows from
 * data/tensorflow.ops and data/grappler.lists.  In contrast, ir/ops.def has what this compiler
 * knows about an op. */
#ifndef HT_TENSORFLOW_OPS_H
#define HT_TENSORFLOW_OPS_H

#include "base/base.h"

struct ht_tf_arg {
	const char *name;   /* of a result */
	const char *number; /* the attribute with the number of tensors; NULL: one, or as many as a
			 * list attribute has */
	int8_t number_default; /* -1: none */
	int8_t attr;           /* index into the op's type attributes; -1: `fixed` */
	uint8_t fixed;         /* enum ht_dtype */
	bool ref;
};

struct ht_tf_attr {
	const char *name;
	bool list;
	bool f16, bf16;   /* allowed by the op's definition */
	uint8_t fallback; /* the definition's default, enum ht_dtype */
};

/* A kernel's condition on an attribute: the dtype of a type attribute, or the value of a string. */
struct ht_tf_need {
	int8_t attr;    /* index into the type attributes; -1: attribute `name` must have one of the
		      * values of `text` */
	uint64_t types; /* bit set over enum ht_dtype */
	const char *name;
	const char *text; /* "A|B" */
};

enum { HT_TF_CPU = 1, HT_TF_GPU = 2 };

struct ht_tf_kernel {
	uint8_t devices; /* HT_TF_CPU, HT_TF_GPU or both */
	uint8_t needs;
	const struct ht_tf_need *need;
};

/* The four lists of auto_mixed_precision. */
enum ht_paint_list {
	HT_LIST_NONE,
	HT_LIST_ALLOW,
	HT_LIST_INFER,
	HT_LIST_DENY,
	HT_LIST_CLEAR,
	HT_LIST_END
};

struct ht_tf_op {
	const char *name;
	const struct ht_tf_arg *arg, *result;
	const struct ht_tf_attr *attr; /* the type attributes */
	const struct ht_tf_kernel *kernel;
	uint8_t args, results, attrs, kernels;
	bool known; /* false: only a list names the op */
	bool stateful;
	bool functions; /* an attribute names functions whose signatures have the op's types */
	uint8_t fp16_list, bf16_list; /* enum ht_paint_list */
};

/* Sorted by name. */
extern const struct ht_tf_op ht_tf_ops[];
extern const size_t ht_tf_op_count;
enum { HT_TF_MAX_OPS = 2048 };

/* NULL if TensorFlow has no such op. */
const struct ht_tf_op *ht_tf_op_named(struct ht_str name);

#endif
