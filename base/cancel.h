/*
 * Protects the library's state from cancellation of threads (pthread_cancel).
 *
 * A thread with a pending cancellation ends at the next cancellation point that it reaches (pthreads(7) lists
 * them: open, write, close, pthread_cond_wait ...), whichever library calls it. If a thread ended inside this
 * library, a lock could stay held, or a change could stay incomplete.
 *
 * - A function of this library that reaches a cancellation point, or calls the driver for the library's own
 *   purposes, does so between gp_cancel_hold and gp_cancel_restore. An allocation served from the pool does
 *   neither, so it has no extra cost.
 * - A driver call that the program requested runs with the program's own cancel state. A thread that would
 *   end in that call without the library also ends there with the library. If the library's own change is
 *   incomplete at that moment, GP_CANCEL_UNDO specifies the function that completes or undoes it.
 * - A thread with the asynchronous cancel type may end at any instruction. That type is for code that calls
 *   no library at all (pthread_setcanceltype(3)); nothing here helps such a thread.
 */
#ifndef GP_BASE_CANCEL_H
#define GP_BASE_CANCEL_H

#include <pthread.h>

/* The functions that pthread_cleanup_push and pthread_cleanup_pop call in glibc. musl uses other functions,
 * so these two are weak and are called only if they exist. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#define __pthread_register_cancel(buffer)                                                                    \
  (__pthread_register_cancel ? __pthread_register_cancel(buffer) : (void)0)
#define __pthread_unregister_cancel(buffer)                                                                  \
  (__pthread_unregister_cancel ? __pthread_unregister_cancel(buffer) : (void)0)

/* Prevents the cancellation of the calling thread until gp_cancel_restore is called with the returned value.
 * Calls may be nested. */
static inline int gp_cancel_hold(void)
{
  int state;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* cannot fail with a valid state */
  return state;
}

static inline void gp_cancel_restore(int state)
{
  (void)pthread_setcancelstate(state, NULL); /* cannot fail with a state from gp_cancel_hold */
}

/* Keeps a function that uses GP_CANCEL_UNDO from being inlined. In an inlined copy, gcc would warn that
 * setjmp may change the other function's variables. */
#define GP_CANCEL_NOINLINE __attribute__((noinline))

/*
 * Evaluates result = call. If the thread ends inside the call (by cancellation or pthread_exit), undo(arg)
 * runs while the caller's stack frame still exists. The caller holds no lock. The macro calls setjmp, which
 * takes time, so it is only for calls that reach the driver.
 */
#define GP_CANCEL_UNDO(result, call, undo, arg)                                                              \
  do {                                                                                                       \
    pthread_cleanup_push(undo, arg);                                                                         \
    (result) = (call);                                                                                       \
    pthread_cleanup_pop(0);                                                                                  \
  } while (0)

#endif
