/*
 * Returns nanoseconds of CLOCK_MONOTONIC, computed from the processor's time stamp counter if that is
 * invariant (7 ns a call instead of 16). Never goes backwards, also between threads. Reads the system's clock
 * for the first tenth of a second, while it measures the counter's rate.
 */
#ifndef GP_INTERPOSE_CLOCK_H
#define GP_INTERPOSE_CLOCK_H

#include <stdint.h>

uint64_t gp_clock_now_ns(void);

#endif
