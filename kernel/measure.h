/* measure: measures the rates of this machine that decide between kernels, in a tenth of a
 * second.
 *
 * On a shared host, absolute rates vary by a factor of two within minutes, so everything is
 * measured relative to a float32 multiply-add: the loops take turns, and the lower quartile of
 * each counts.  The result is the described rate times a power of two.  Descriptions are either
 * right within a factor of 1.4, or wrong by a factor of two or more because a machine has more
 * units or ports.  So two measurements agree even if each of them is disturbed. */
#ifndef HT_MEASURE_H
#define HT_MEASURE_H

#include "kernel/target.h"

/* Relative to a multiply-add of the widest vector of float32. */
struct ht_measured {
	double dot_bf16, product_f16; /* time of one instruction on such a vector; 0: the machine
				       * has none */
	double convert; /* time to convert such a vector to float16 or back; 0: the machine has
			 * no instruction */
	double copied,
		read; /* bytes in that time: copied beyond the second level, counting reads and
		       * writes; read from memory */
};

/* Takes at most 0.5 s; on a loaded machine it repeats less.  `host` is this machine, and must be
 * able to run its level.  False: out of memory. */
bool ht_measure(const struct ht_target *host, struct ht_measured *out);

/* The rates of `host`, as far as they were measured; each is the described rate times a power of
 * two. */
void ht_measured_rates(
	const struct ht_target *host, const struct ht_measured *m, struct ht_rates *out);

#endif
