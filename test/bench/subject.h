/*
 * What the workloads measure: something that hands out memory. Each program of this folder is workloads.c and
 * main.c with one subject_*.c (or .cc), so that all do the same work, with direct calls.
 */
#ifndef GP_BENCH_SUBJECT_H
#define GP_BENCH_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of mixed workloads, in bytes, are 512 to this. A heap of the host's memory cannot hold 50,000 blocks
 * of a device's sizes. */
extern const uint32_t subject_largest;

/* The clock of the library is slower until it has learnt its rate, so long after the first request. */
#define SUBJECT_CLOCK_LEARNS_NS 150000000

/* Once, before all others. is_counted: instructions are counted and no time is taken, so that each run has to
 * be the same. */
void subject_start(bool is_counted);

/* Bytes to an address, which give() ends. Both end the program on an error. Any thread. */
uint64_t subject_take(uint64_t bytes);
void subject_give(uint64_t address);

/* The device has finished: nothing, for a heap of the host. */
void subject_synchronize(void);

#ifdef __cplusplus
}
#endif

#endif
