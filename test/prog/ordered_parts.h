/*
 * What the scenarios of `ordered` are made of: calls that must succeed, what has to hold, blocks and streams.
 */
#ifndef PROG_ORDERED_PARTS_H
#define PROG_ORDERED_PARTS_H

#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB     ((size_t)1 << 20)
#define BLOCK   (8 * MIB)
#define LITTLE  (2 * MIB) /* a trim may leave it */
#define STREAMS 4

extern const char *scenario; /* that runs, for messages */
extern int failures;         /* of checks, so far */
extern cudaStream_t streams[STREAMS];

/* Counts and prints what is not so. */
void check(const char *what, bool is_true);
#define CHECK(condition) check(#condition, condition)

/* Prints the result, and takes it from the thread's last error. */
void answer(const char *what, cudaError_t code);
#define ANSWER(call) answer(#call, call)

uint64_t get(cudaMemPool_t pool, enum cudaMemPoolAttr attribute);
void set(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, uint64_t value);
void set_flag(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, int value);
cudaMemPool_t default_pool(int device);

/* What holds at any time; held: what the program has of the pool, in bytes. */
void expect(cudaMemPool_t pool, size_t held);

/* Ends a scenario: nothing is held, and the pool is as it was. */
void expect_nothing(cudaMemPool_t pool);
void reset_high_marks(cudaMemPool_t pool);
void trim(cudaMemPool_t pool); /* behind a synchronization of the device */

/* Of memory, in the stream of that number. Values are of bytes, in blocks of BLOCK; the first and the last
 * are looked at, behind a synchronization of the stream. */
void *take(size_t bytes, int stream);
void give(void *memory, int stream);
void fill(void *memory, int value, int stream);
void expect_value(const void *memory, int value, int stream);

/* Later work in `after` comes behind all work in `before`. */
void order(int before, int after);

#endif
