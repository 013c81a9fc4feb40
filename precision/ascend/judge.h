/* judge: one node in the judgement of the vendor's modes, and the strategies for its tensors. */
#ifndef HT_JUDGE_H
#define HT_JUDGE_H

#include "precision/precision.h"

struct judge {
	struct ht_precision *p;
	struct ht_node *n;
	struct ht_choice *c;
	enum ht_mode mode;
	enum ht_dtype low;      /* of the mixed modes and of ALLOW_ */
	bool keeps;             /* stated for the node: its dtypes stay where a kernel has them */
	struct ht_tensor_of at; /* the tensor in question */
	bool matched;           /* some tensor has narrowed the columns */
	bool reduced;           /* under ALLOW_FP16 a float32 tensor had to go low */
};

/* Narrows the columns to those whose tensor j->at is a `t`, or changes nothing and says no. */
bool ht_judge_narrow(struct judge *j, enum ht_dtype t);

/* strategies.c: the tensor j->at, of dtype `d` in the graph. */
typedef void strategy(struct judge *j, enum ht_dtype d);
strategy ht_strategy_keep, ht_strategy_allow_fp16, ht_strategy_allow_bf16, ht_strategy_force_fp16,
	ht_strategy_allow_fp16_marked, ht_strategy_force_fp32, ht_strategy_mix;
/* Takes the dtype that operand `v` arrives in. */
void ht_strategy_follow(struct judge *j, struct ht_value v, enum ht_dtype d);

#endif
