/*
 * Nanoseconds of CLOCK_MONOTONIC, read from the processor's time stamp counter where that is invariant (7
 * ns instead of 16). Never goes backwards, the same for all threads. It learns the counter's rate during
 * the first tenth of a second, and reads the system's clock until then.
 */
#ifndef GP_INTERPOSE_CLOCK_H
#define GP_INTERPOSE_CLOCK_H

#include <stdint.h>

uint64_t gp_clock_now_ns(void);

#endif
