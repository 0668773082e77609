/*
 * Captures the calls that led here: the return addresses of the calling thread.
 *
 * It uses libunwind where that is installed, opened by dlopen with RTLD_LOCAL: linked, libunwind would put
 * its _Unwind_* functions in front of libgcc's for the whole program. Otherwise, and where libunwind could
 * go wrong, it uses the C library's backtrace.
 *
 * No function here allocates from the program's heap, except the first one of a process, in the loader. A
 * thread that holds a ranked lock must not capture. In a signal handler the interrupted code may be in the
 * middle of the loader or of an unwinder: a handler on an alternate stack gets no frames, nor does one
 * that interrupts a capture of its own thread. Other handlers look like ordinary code (and a signal
 * handler must not call CUDA anyway).
 */
#ifndef GP_TRACE_UNWIND_H
#define GP_TRACE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_UNWIND_FRAMES_MAX 256

/* Frames of this library between the unwinder and the program, which the unwinder includes. */
#define GP_UNWIND_OWN_MAX 16

/* The stack that a capture needs, its callees included. Measured with gcc 12: libunwind 1.6 and glibc
 * 2.36 take less than 6 KiB. */
#define GP_UNWIND_ROOM_BYTES ((size_t)20 * 1024)

typedef enum gp_unwinder {
  GP_UNWINDER_BEST, /* libunwind, else glibc */
  GP_UNWINDER_LIBUNWIND,
  GP_UNWINDER_GLIBC,
  GP_UNWINDER_FRAME_POINTERS,
} gp_unwinder_t;

/*
 * Looks for the unwinders: opens libraries, so the caller holds no ranked lock. The first capture calls it
 * if no other function has. Does nothing on a thread with little stack left: another thread will do it. Any
 * thread, also several at once.
 */
void gp_unwind_prepare(void);

/*
 * Writes the return addresses of the callers, the innermost first, including this library's and without
 * NULLs, to found[0..capacity). Returns how many; 0 if the thread has too little stack left, is on an
 * alternate signal stack or in the middle of this function, or if there is no such unwinder. unloads: how
 * many objects the loader has unloaded so far (dlpi_subs), which shows whether libunwind's cache of the
 * thread is stale. errno is preserved. Any thread.
 */
size_t gp_unwind_all(gp_unwinder_t unwinder, uint64_t unloads, void **found, size_t capacity);

/* How many of found[0..count) are this library's, before the first other one. */
size_t gp_unwind_count_own(void *const *found, size_t count);

/* Both in one: the return addresses outside of this library, at most GP_UNWIND_FRAMES_MAX. */
size_t gp_unwind(gp_unwinder_t unwinder, uint64_t unloads, uintptr_t *addresses, size_t capacity);

/* To be called at the end of a thread, so that another thread may use a cache of libunwind instead. */
void gp_unwind_thread_ended(void);

/* For tests: how many threads use libunwind's cache. */
int gp_unwind_cached_threads(void);

/* For tests: addresses [start, end) are this library's. */
void gp_unwind_set_own_range(uintptr_t start, uintptr_t end);

#endif
