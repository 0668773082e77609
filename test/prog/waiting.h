/*
 * What the programs waiting_*.c share. Each of their scenarios is a legal program: a kernel runs until the
 * host writes a flag, and meanwhile the host makes calls that do not wait natively, so that it comes to write
 * the flag. A library that waits for the device in one of these calls hangs.
 *
 *   waiting_SUBJECT              prints the names of its scenarios
 *   waiting_SUBJECT SCENARIO...  the scenario and its arguments; prints steps, codes and no address
 *
 * The last line is "end". Where no line "end" comes, the last step names the place.
 */
#ifndef PROG_WAITING_H
#define PROG_WAITING_H

#include "calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define MIB ((size_t)1 << 20)

/*
 * A call that allocates beside the kernel, with `name` for the output. A library may keep freed memory that
 * it cannot give back while the device is busy, and refuse: then the program lets the kernel end, and the
 * call has to succeed. Prints "NAME: 0" or "NAME: 2, then 0".
 */
#define ATTEMPT(name, call)                                                                                  \
  do {                                                                                                       \
    waiting_step(name);                                                                                      \
    CUresult result_ = (call);                                                                               \
    bool is_refused_ = result_ == CUDA_ERROR_OUT_OF_MEMORY;                                                  \
    if (is_refused_) {                                                                                       \
      waiting_stop();                                                                                        \
      CALL(cuCtxSynchronize());                                                                              \
      result_ = (call);                                                                                      \
    }                                                                                                        \
    waiting_attempted(name, is_refused_, result_);                                                           \
  } while (0)

typedef struct waiting_scenario {
  const char *name;
  void (*run)(char **arguments);
  int count; /* of arguments */
} waiting_scenario_t;

extern CUcontext waiting_context; /* the primary one of device 0, current in the main thread */
extern CUstream waiting_work;     /* a non-blocking stream for work that ends */
extern CUmodule waiting_module;

void waiting_step(const char *what);
void waiting_attempted(const char *what, bool is_refused, CUresult result);

/*
 * Launches the kernel in a non-blocking stream of its own, or in another stream of the context of `module`.
 * stop: any thread, any number of times. again: all that were launched have ended; the next one waits.
 */
void waiting_start(void);
void waiting_start_in(CUmodule module, CUstream stream);
void waiting_stop(void);
void waiting_again(void);

/* Records the event behind the kernel of waiting_start. */
void waiting_record(CUevent event);

CUfunction waiting_function(const char *name);   /* a stand-in of the simulated driver */
void waiting_busy(CUstream stream, uint64_t ns); /* launches a kernel that runs so long */
CUdeviceptr waiting_take(size_t bytes);
void waiting_give(CUdeviceptr block);

/*
 * Memory that was freed: idle, after a synchronization of the context; deferred, behind work that ends; or,
 * as `how` says, "idle" or "deferred". The program may do this before the kernel starts only.
 */
void waiting_leave_idle(size_t bytes, int count);
void waiting_leave_deferred(size_t bytes, int count);
void waiting_leave(const char *how, size_t bytes, int count);

/* Device 0, its context, which becomes current, and the two streams. waiting_main does it. */
void waiting_setup(void);

/*
 * Sets up device 0, runs the scenario that argv names, stops the kernel, synchronizes. Prints the seconds
 * that the scenario took. For main to return.
 */
int waiting_main(int argc, char **argv, const waiting_scenario_t *scenarios, size_t count);

#endif
