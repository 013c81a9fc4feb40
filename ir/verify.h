/* Internals of the verifier. */
#ifndef HALFTONE_IR_VERIFY_H
#define HALFTONE_IR_VERIFY_H

#include "ir/ir.h"

/* verify_mark.c: a hash of everything that the verifier reads of one graph, never 0.  Strings, and
 * the nodes to which edges lead, are hashed by their address, so a copy has another mark. */
uint64_t ht_verify_mark(const struct ht_graph *g);

#endif
