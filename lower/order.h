/* order: the order of the axes of a tensor in memory. */
#ifndef HT_LOWER_ORDER_H
#define HT_LOWER_ORDER_H

#include "lower/inside.h"

/* `view` is dense memory for result `v`.  Gives it strides by which the elements that a run has lie together, if the kernel that stores
 * the result and all nodes that read it are as fast in this order. */
void lower_order_axes(const struct lower *l, struct ht_value v, struct view *view);

#endif
