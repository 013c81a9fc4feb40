/* preset: published rules of other systems, applied to this compiler's units.
 *
 * A preset is data (data/NAME.preset): a class for each listed op type, and one for all others.
 * One walk in topological order gives each node that is float32 in the graph the low type or
 * float32; nodes with other types keep them.  The rules were made for other systems' graphs;
 * docs/system-rules.md lists the differences on TensorFlow's. */
#ifndef HT_PRESET_H
#define HT_PRESET_H

#include "precision/precision.h"

enum ht_preset_class {
	HT_PRESET_LOW,     /* becomes low */
	HT_PRESET_FLOAT32, /* stays float32 */
	HT_PRESET_FOLLOW,  /* low if all its float operands are low, or can be at no cost */
	HT_PRESET_WIDEST,  /* takes the widest type of its operands; scalars do not count */
	HT_PRESET_FIRST,   /* takes the type of its first float operand */
	HT_PRESET_SPREAD,  /* low, unless a node kept in float32 reaches it */
	HT_PRESET_TAIL     /* low, unless no LOW op lies between it and an output */
};

struct ht_preset_row {
	const char *type; /* TensorFlow's */
	enum ht_preset_class class;
	const char *list; /* the other system's list, and its name of the op */
};

struct ht_preset {
	const struct ht_preset_row *row; /* sorted by type */
	size_t rows;
	enum ht_preset_class otherwise; /* of a type without a row */
	float smallest,
		largest; /* the range of magnitudes of constants in the low type; largest 0: any */
};

/* The system: the mode of a policy's kind. */
enum ht_preset_mode {
	HT_PRESET_KERAS,
	HT_PRESET_ONNX,
	HT_PRESET_OPENVINO_BF16,
	HT_PRESET_OPENVINO_FP16,
	HT_PRESET_PYTORCH,
	HT_PRESET_TVM
};

/* The `decide` of a policy. */
void ht_preset_decide(struct ht_precision *p);
/* Its `finish`: clamps constants that were cast to the low type to the preset's magnitudes. */
void ht_preset_finish(struct ht_precision *p);
/* Clamps constants that were cast to c->type to its magnitudes. */
void ht_clamp_constants(struct ht_precision *p, const struct ht_clamp *c);

/* NULL: the type has no row. */
const struct ht_preset_row *ht_preset_row_of(const struct ht_preset *s, struct ht_str type);
enum ht_preset_class ht_preset_class_of(const struct ht_preset *s, const struct ht_node *n);

/* kept.c: by node id, why a node stays float32 whatever its operands are, or NULL. */
const struct ht_dtype_reason **ht_preset_kept(struct ht_precision *p, const struct ht_preset *s);

#endif
