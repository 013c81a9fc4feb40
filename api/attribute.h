/* Attribution: where a policy's program loses accuracy, tensor by tensor (docs/compare.md#nodes).
 *
 * Four programs run on each sample:
 *   reference  the model as it is, whose tensors are kept,
 *   policy     the policy's program as it is: what its tensors differ in is their error,
 *   alone      each node of it by itself, on operands of the reference, rounded to their types: its own error,
 *   wide       likewise, computed in float32 and rounded once at the end: the error that is expected of it.
 * Tensors are kept for a wave of nodes at a time, so that memory is bounded; the programs run once for each wave. */
#ifndef HT_API_ATTRIBUTE_H
#define HT_API_ATTRIBUTE_H

#include "api/compare.h"
#include "api/tee.h"

/* A sum over elements a of a tensor and b of the reference. */
struct ht_distance_sum {
	double squares; /* of a - b; infinite where only one of them is finite, or they are infinities of different signs */
	double most; /* max|a-b| */
};

struct ht_node_error {
	struct ht_tensor_info
		info; /* as of the program `alone`; its strings live as long as the comparison */
	bool wide;    /* inside of its kernel it is not rounded to its type */
	uint64_t elements;
	double squares, most; /* of the reference: sum of b^2, max|b| */
	struct ht_distance_sum error, own, expected;
	/* Of the policy's program, and the first sample with any. */
	uint64_t count[HT_NUMERICS];
	size_t sample[HT_NUMERICS];
	uint64_t order; /* of computation */
	size_t depth;   /* of compared tensors that it is computed from, one by one, at most */
};

/* Of all samples: sqrt(sum (a-b)^2 / sum b^2). */
double ht_node_rms(const struct ht_node_error *e, const struct ht_distance_sum *s);
/* How many times its expected error a node's own error is; 1: as much. */
double ht_node_excess(const struct ht_node_error *e);
/* attribute_forms.c: what came along with its operands, as far as errors are independent: sqrt(error^2 - own^2). */
double ht_node_inherited(const struct ht_node_error *e);
/* The nodes by ht_rank_compare(). */
const struct ht_node_error **ht_nodes_ranked(const struct ht_node_errors *n, struct ht_arena *a);
/* The first node, in the order of computation, with any; NULL: none has. */
const struct ht_node_error *ht_nodes_first(const struct ht_node_errors *n, enum ht_numeric what);
extern const char *const ht_numeric_names[HT_NUMERICS];

/* attribute_sums.c: one tensor more; `want` has `n` elements of type `from`. */
struct ht_elements {
	const void *at;
	enum ht_dtype dtype;
};
void ht_distance_add(struct ht_distance_sum *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t n);
void ht_reference_add(struct ht_node_error *e, struct ht_elements want, size_t n);
/* Counts the elements by their exponents: struct ht_node_errors. */
void ht_exponents_add(uint64_t exponent[HT_EXPONENTS], struct ht_elements want, size_t n);
/* Counts what became of finite elements of the reference in a tensor of type `t`. */
void ht_numerics_add(struct ht_node_error *e, enum ht_dtype t, struct ht_elements got,
	struct ht_elements want, size_t n, size_t sample);
/* The elements in another type, rounded to `rounded_to` on the way; types are floating-point. */
void ht_elements_convert(
	struct ht_elements from, enum ht_dtype rounded_to, enum ht_dtype to, void *out, size_t n);

/* ---- the four programs ---- */

enum ht_looked_at {
	HT_LOOKED_REFERENCE,
	HT_LOOKED_POLICY,
	HT_LOOKED_ALONE,
	HT_LOOKED_WIDE,
	HT_LOOKED
};

struct ht_looked {
	struct ht_attribution *of;
	struct ht_program *program; /* of the reference: the comparison's */
	struct ht_context *context;
	struct ht_array *in, *out;
	void **room;          /* by input: one of 16 bits as float32; NULL: it is passed as given */
	int32_t *tensor;      /* by place: number of the tensor; -1: it is none */
	uint64_t *executions; /* by place, in this run */
	uint64_t seen;        /* places, in this run */
};

/* A tensor of the reference, in the type that held it there. */
struct ht_kept {
	bool wanted;         /* in this wave */
	size_t wave;         /* the last one that wanted it, from 1 */
	size_t count, bytes; /* of an execution */
	char **execution;
	size_t executions, cap;
};

/* A tensor of the program `alone` that the reference has. */
struct ht_attributed {
	int32_t kept;  /* place in the reference */
	int32_t place; /* in `alone` */
	int32_t *operand;
	size_t operands;          /* tensors that its node reads */
	struct ht_node_error *of; /* NULL: it has no numbers of a floating-point type */
};

struct ht_attribution {
	struct ht_arena arena; /* allocated from in guarded calls of the comparison */
	struct ht_comparison *c;
	struct ht_compared *row;
	struct ht_looked looked[HT_LOOKED];
	struct ht_kept *kept; /* by place of the reference */
	struct ht_attributed *tensor;
	size_t tensors;
	size_t *end, waves; /* tensors of a wave: up to these, from where the wave before ended */
	size_t first, last; /* those of this wave */
	size_t budget;      /* bytes of a wave */
	void *room[2];      /* for the elements of the largest place, twice */
	bool failed;        /* there was no memory for a tensor */
};

/* attribute.c: `fault` as in struct ht_teeing, for tests. */
struct ht_attribution_of {
	struct ht_compared *row;
	const struct ht_policy *policy; /* its policy; NULL: the model as it is */
	size_t memory; /* for tensors of the reference; 0: as much as its program takes, 64 MiB at least */
	struct ht_str fault;
	double fault_by;
};
enum ht_status ht_attribution_new(struct ht_comparison *c, const struct ht_attribution_of *of,
	struct ht_diags *d, struct ht_attribution **out);
void ht_attribution_free(struct ht_attribution *a);
/* attribute_run.c */
void ht_attribution_forget(struct ht_attribution *a); /* the reference's tensors */
enum ht_status ht_attribution_sample(struct ht_attribution *a, const char *where,
	const struct ht_array *in, size_t ins, struct ht_diags *d);

#endif
