/*
 * Captures the return addresses of the calling thread's stack.
 *
 * It uses libunwind if that is installed. libunwind is opened by dlopen with RTLD_LOCAL, because linking to
 * it would put its _Unwind_* functions before libgcc's for the whole program. Without libunwind, and where
 * libunwind could fail, it uses the C library's backtrace.
 *
 * No function here allocates from the program's heap, except that the loader may at the first capture of a
 * process. A thread that holds a ranked lock must not capture. A signal handler may have interrupted the
 * loader or an unwinder, so a handler on an alternate stack gets no frames, nor does one that interrupts a
 * capture of its own thread. Other handlers cannot be distinguished from ordinary code (and a signal handler
 * must not call CUDA anyway).
 */
#ifndef GP_TRACE_UNWIND_H
#define GP_TRACE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_UNWIND_FRAMES_MAX 256

/* Most frames of this library that an unwinder reports before the program's frames. */
#define GP_UNWIND_OWN_MAX 16

/* The stack space that a capture needs, callees included. With gcc 12, libunwind 1.6 and glibc 2.36 were
 * measured to need less than 6 KiB. */
#define GP_UNWIND_ROOM_BYTES ((size_t)20 * 1024)

typedef enum gp_unwinder {
  GP_UNWINDER_BEST, /* libunwind, else glibc */
  GP_UNWINDER_LIBUNWIND,
  GP_UNWINDER_GLIBC,
  GP_UNWINDER_FRAME_POINTERS,
} gp_unwinder_t;

/*
 * Finds the unwinders. It opens libraries, so the caller must hold no ranked lock. The first capture calls it
 * if that has not been done. Does nothing on a thread with little stack left; another thread will do it. Any
 * thread, also several at once.
 */
void gp_unwind_prepare(void);

/*
 * Writes the callers' return addresses, innermost first, to found[0..capacity). They include this library's
 * and no NULL. Returns their number. Returns 0 if the thread has too little stack left, is on an alternate
 * signal stack or already in this function, or if there is no such unwinder. unloads is the number of objects
 * that the loader has unloaded so far (dlpi_subs); it shows whether libunwind's cache of the thread is stale.
 * errno is preserved. Any thread.
 */
size_t gp_unwind_all(gp_unwinder_t unwinder, uint64_t unloads, void **found, size_t capacity);

/* Returns how many addresses at the beginning of found[0..count) belong to this library. */
size_t gp_unwind_count_own(void *const *found, size_t count);

/* Captures as gp_unwind_all, but leaves out this library's own frames. Writes at most
 * GP_UNWIND_FRAMES_MAX. */
size_t gp_unwind(gp_unwinder_t unwinder, uint64_t unloads, uintptr_t *addresses, size_t capacity);

/* Gives up the thread's place among the CACHES_MAX users of libunwind. To be called at the end of a
 * thread. */
void gp_unwind_thread_ended(void);

/* For tests: returns how many threads use libunwind's cache. */
int gp_unwind_cached_threads(void);

/* Sets the address range of this library; public for tests. */
void gp_unwind_set_own_range(uintptr_t start, uintptr_t end);

#endif
