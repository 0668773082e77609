/*
 * Cancellation of threads (pthread_cancel) and this library.
 *
 * A thread with a pending cancellation ends at the next cancellation point that it reaches (pthreads(7) lists
 * them: open, write, close, pthread_cond_wait ...), whichever library calls it. In this library that would
 * leave a lock held, or a change half made.
 *
 * - A function of this library that reaches a cancellation point, or calls the driver for the library's own
 *   purposes, does so between gp_cancel_hold and gp_cancel_restore. A hit of the pool does neither, so it has
 *   no extra cost.
 * - The driver call that the program requested runs with the program's own cancel state: a thread that would
 *   end there without the library ends there with the library, too. If the library has half made a change by
 *   then, GP_CANCEL_UNDO specifies the function that completes or undoes the change.
 * - A thread with the asynchronous cancel type may end at any instruction. That type is for code that calls
 *   no library at all (pthread_setcanceltype(3)); nothing here helps such a thread.
 */
#ifndef GP_BASE_CANCEL_H
#define GP_BASE_CANCEL_H

#include <pthread.h>

/* The functions that pthread_cleanup_push and pthread_cleanup_pop call. musl has other functions for them,
 * and there the library does without. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#define __pthread_register_cancel(buffer)                                                                    \
  (__pthread_register_cancel ? __pthread_register_cancel(buffer) : (void)0)
#define __pthread_unregister_cancel(buffer)                                                                  \
  (__pthread_unregister_cancel ? __pthread_unregister_cancel(buffer) : (void)0)

/* Prevents the cancellation of the calling thread until gp_cancel_restore gets the returned value. Pairs
 * may be nested. */
static inline int gp_cancel_hold(void)
{
  int state;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* a legal state */
  return state;
}

static inline void gp_cancel_restore(int state)
{
  (void)pthread_setcancelstate(state, NULL); /* the state before gp_cancel_hold */
}

/* For functions with GP_CANCEL_UNDO that would otherwise be inlined together with others: gcc warns about
 * what setjmp might do to their variables. */
#define GP_CANCEL_NOINLINE __attribute__((noinline))

/*
 * Evaluates result = call. If the thread ends in the call (a cancellation, pthread_exit), undo(arg) runs
 * while the caller's stack frame still exists. The caller holds no lock. The macro has a cost (setjmp), so it
 * is only for calls that reach the driver.
 */
#define GP_CANCEL_UNDO(result, call, undo, arg)                                                              \
  do {                                                                                                       \
    pthread_cleanup_push(undo, arg);                                                                         \
    (result) = (call);                                                                                       \
    pthread_cleanup_pop(0);                                                                                  \
  } while (0)

#endif
