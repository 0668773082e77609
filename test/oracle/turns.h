/*
 * Threads that take their turns: a step is handed to its thread, and the thread that hands it over waits
 * until it is done. One of them may hand over further steps in the middle of its own: while it is inside a
 * driver call. If the thread that was handed a step waits for that very call (it yields the processor), it
 * gives its turn back, and both run until its step is done.
 */
#ifndef ORACLE_TURNS_H
#define ORACLE_TURNS_H

#include <stdbool.h>

#define TURN_THREADS 3

/* Takes step `index`. */
typedef void turn_fn(int index);

/* As many threads (at most TURN_THREADS) as are needed begin with their first step. fn: what all of them
 * call. */
void turns_begin(turn_fn *fn);
/* Thread `thread` takes the step; the caller waits. False: the thread has given its turn back. Before it
 * takes another step it ends this one, for which the caller would wait in vain if it is in a driver call. */
bool turns_take(int thread, int index);
/* Waits for the ends of all steps. */
void turns_await(void);
/* The thread ends; its next step is taken by a new one. */
void turns_end_thread(int thread);
/* All threads end. */
void turns_end(void);
/* All threads but the caller's run fn(0), fn(1), ... at once: number i gets i; the caller waits for them. */
void turns_all(int count);

#endif
