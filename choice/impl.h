/* Implementation modes: how a kernel computes, besides its dtypes (op_precision_mode).
 *
 * A node carries its mode as an attribute, so passes, text forms and exports keep it. */
#ifndef HT_CHOICE_IMPL_H
#define HT_CHOICE_IMPL_H

#include "base/base.h"

enum ht_impl {
	HT_IMPL_NONE,
	HT_IMPL_HIGH_PERFORMANCE,
	HT_IMPL_HIGH_PRECISION,
	HT_IMPL_SUPER_PERFORMANCE,
	HT_IMPL_KEEP_FP16,
	HT_IMPL_OUT_OF_BOUND,
	HT_IMPL_FLOAT_32,
	HT_IMPL_HI_FLOAT_32,
	HT_IMPL_NORM_CLASS,
	HT_IMPL_END
};

/* The vendor's name of a mode; "" for HT_IMPL_NONE. */
const char *ht_impl_name(enum ht_impl i);
/* HT_IMPL_NONE: no mode has this name. */
enum ht_impl ht_impl_named(struct ht_str name);

/* The attribute in which a node carries its mode by name. */
extern const char ht_mode_attribute[];

#endif
