/* What the files of the workloads share. */
#ifndef GP_BENCH_WORKLOAD_PARTS_H
#define GP_BENCH_WORKLOAD_PARTS_H

#include "workloads.h"

#define WORKLOAD_BATCH      64
#define WORKLOAD_PAIR_BYTES 1024

/* The best of the rounds, in ns of a pair: the machine may be shared. */
typedef void (*workload_body_fn)(void *arg, long pairs);
double workload_measure(workload_body_fn body, void *arg, const workload_effort_t *effort);

double workload_now_ns(void);
double workload_resident_bytes(void); /* of the process */

/* Of workload_threads.c: ns of a pair, and bytes of the host for each of so many threads. */
double workload_hand_off(const workload_effort_t *effort);
double workload_threads(long threads, const workload_effort_t *effort);
double workload_thread_bytes(long threads);

#endif
