/*
 * The program that runs (execute.c), and what its steps do (perform.c, perform_memory.c).
 */
#ifndef ORACLE_PERFORM_H
#define ORACLE_PERFORM_H

#include "driver.h"
#include "program.h"

#include <pthread.h>

#define BYTES (WORDS * 8u)

extern const program_t *program;
extern outcome_t *outcome; /* under outcome_lock */
extern pthread_mutex_t outcome_lock;

/* By their numbers in the program */
extern CUdeviceptr mems[MAX_MEMS];
extern bool mem_live[MAX_MEMS], refused[MAX_MEMS]; /* refused: the allocation was */
extern CUstream lanes[LANES];
extern CUcontext ctxs[CTXS];
extern uint64_t ctx_numbers[CTXS]; /* of incarnations; 0: there is none */
extern CUfunction fills[CTXS], expects[CTXS], busies[CTXS], waits[CTXS], meets[CTXS], empties[CTXS];
extern uint32_t host_flags[MAX_WAITS]; /* that kernels wait for */
extern CUgraphExec graphs[MAX_GRAPHS];

/* ---- execute.c ---- */

/* Keeps the first failure in words; the caller holds outcome_lock. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
CUresult enter_ctx(const driver_t *driver, int c);
CUresult create_ctx(const driver_t *driver, int c);
CUresult destroy_ctx(const driver_t *driver, int c);
int ctx_of(int lane);
bool is_alone(int index); /* no other step is taken while this one is */

/* ---- perform.c ---- */

CUresult perform(const driver_t *driver, const step_t *step, int index);
CUresult launch_with(const driver_t *driver, const step_t *step, const CUfunction *functions, void **params);

/* The memory that copies of a context go to is the context's, which is new. */
void forget_places(int c);

/* ---- perform_memory.c ---- */

CUresult perform_alloc(const driver_t *driver, const step_t *step, int index);
CUresult perform_alloc_async(const driver_t *driver, const step_t *step, int index);
CUresult perform_free(const driver_t *driver, int m);
CUresult perform_free_async(const driver_t *driver, const step_t *step);
CUresult perform_trim(const driver_t *driver, const step_t *step);
CUresult perform_in_capture(const driver_t *driver, const step_t *step);

#endif
