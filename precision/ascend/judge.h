/* judge: the judgement of one node by the vendor's modes, and the strategies for its tensors. */
#ifndef HT_JUDGE_H
#define HT_JUDGE_H

#include "precision/precision.h"

struct judge {
	struct ht_precision *p;
	struct ht_node *n;
	struct ht_choice *c;
	enum ht_mode mode;
	enum ht_dtype low;      /* the low type of the mixed modes and of ALLOW_FP16 */
	bool keeps;             /* a rule says that the node keeps its dtypes, if a kernel has
				 * them */
	struct ht_tensor_of at; /* the current tensor */
	bool matched;           /* some tensor has narrowed the columns */
	bool reduced;           /* under ALLOW_FP16, a float32 tensor had to become low */
};

/* Keeps only the columns in which tensor j->at is a `t`. False, without a change: there are
 * none. */
bool ht_judge_narrow(struct judge *j, enum ht_dtype t);

/* strategies.c: functions for tensor j->at, whose dtype in the graph is `d`. */
typedef void strategy(struct judge *j, enum ht_dtype d);
strategy ht_strategy_keep, ht_strategy_allow_fp16, ht_strategy_allow_bf16, ht_strategy_force_fp16,
	ht_strategy_allow_fp16_marked, ht_strategy_force_fp32, ht_strategy_mix;
/* Takes the dtype in which operand `v` arrives. */
void ht_strategy_follow(struct judge *j, struct ht_value v, enum ht_dtype d);

#endif
