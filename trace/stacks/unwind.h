/*
 * Captures the return addresses of the calling thread's stack.
 *
 * Uses libunwind if it is installed. libunwind is opened by dlopen with RTLD_LOCAL, because linking to it
 * would put its _Unwind_* functions before libgcc's for the whole program. If libunwind is missing or could
 * fail, the C library's backtrace is used.
 *
 * No function here allocates from the program's heap, except that the loader may allocate at the first
 * capture of a process. A thread that holds a ranked lock must not capture. A signal handler may have
 * interrupted the loader or an unwinder. So a handler on an alternate stack gets no frames, and neither does
 * a handler that interrupts a capture of its own thread. Other handlers cannot be distinguished from ordinary
 * code (and a signal handler must not call CUDA anyway).
 */
#ifndef GP_TRACE_UNWIND_H
#define GP_TRACE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_UNWIND_FRAMES_MAX 256

/* Maximum number of this library's frames that an unwinder reports before the program's frames. */
#define GP_UNWIND_OWN_MAX 16

/* The stack space that a capture needs, including the functions that it calls. With gcc 12, libunwind 1.6 and
 * glibc 2.36, measurements showed less than 6 KiB. */
#define GP_UNWIND_ROOM_BYTES ((size_t)20 * 1024)

typedef enum gp_unwinder {
  GP_UNWINDER_BEST, /* libunwind, or glibc if libunwind cannot be used */
  GP_UNWINDER_LIBUNWIND,
  GP_UNWINDER_GLIBC,
  GP_UNWINDER_FRAME_POINTERS,
} gp_unwinder_t;

/*
 * Finds the unwinders. Opens libraries, so the caller must hold no ranked lock. The first capture calls this
 * function if no other code has called it. Does nothing on a thread with little stack left; another thread
 * will find them. Several threads may call it at once.
 */
void gp_unwind_prepare(void);

/*
 * Writes the callers' return addresses, innermost first, to found[0..capacity), and returns their number. The
 * addresses include those of this library and contain no NULL. Returns 0 if the thread has too little stack
 * left, is on an alternate signal stack or is already in this function, or if the unwinder is not available.
 * `unloads` is the number of objects that the loader has unloaded so far (dlpi_subs). It shows whether
 * libunwind's cache of this thread is stale. Preserves errno. Thread-safe.
 */
size_t gp_unwind_all(gp_unwinder_t unwinder, uint64_t unloads, void **found, size_t capacity);

/* Returns the number of leading addresses in found[0..count) that belong to this library. */
size_t gp_unwind_count_own(void *const *found, size_t count);

/* Does what gp_unwind_all does, but leaves out this library's own frames. Writes at most GP_UNWIND_FRAMES_MAX
 * addresses. */
size_t gp_unwind(gp_unwinder_t unwinder, uint64_t unloads, uintptr_t *addresses, size_t capacity);

/* Frees the thread's place among the CACHES_MAX users of libunwind. Must be called at the end of a thread. */
void gp_unwind_thread_ended(void);

/* Returns the number of threads that use libunwind's cache. For tests. */
int gp_unwind_cached_threads(void);

/* Sets the address range of this library. Public for tests. */
void gp_unwind_set_own_range(uintptr_t start, uintptr_t end);

#endif
