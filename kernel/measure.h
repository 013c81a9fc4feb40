/* measure: how fast this machine is at what decides between kernels, in a tenth of a second.
 *
 * On a shared host absolute rates differ by two within minutes, so everything is a multiple of what a float32
 * multiply-add took beside it: the loops take turns, and the lower quartile of each counts.  A rate is then that of the
 * description times a power of two.  Descriptions are right within a factor of 1.4 or wrong by whole units and
 * ports, so that two measurements agree although each of them is disturbed. */
#ifndef HT_MEASURE_H
#define HT_MEASURE_H

#include "kernel/target.h"

/* Beside a multiply-add of the widest vector of float32. */
struct ht_measured {
	double dot_bf16, product_f16; /* time of one of such a vector; 0: the machine has none */
	double convert; /* time to convert such a vector to float16 or back; 0: likewise */
	double copied,
		read; /* bytes in that time: copied beyond the second level, each counted twice; read from memory */
};

/* Takes 0.5 s at most, on a loaded machine with fewer repetitions.  `host` is this machine: its level is run.
 * False: there is no memory for it. */
bool ht_measure(const struct ht_target *host, struct ht_measured *out);

/* The rates of `host` as far as they were measured.  Every one is that of the description times a power of two. */
void ht_measured_rates(
	const struct ht_target *host, const struct ht_measured *m, struct ht_rates *out);

#endif
