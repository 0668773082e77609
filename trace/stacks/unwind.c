#include "trace/stacks/unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/loader_walk.h"
#include "base/log.h"
#include "trace/stacks/modules.h"
#include "trace/stacks/stack_room.h"

/*
 * libunwind's pipe. To check whether memory is readable, libunwind writes a byte of the memory to a pipe that
 * it opened once. The program may close unknown descriptors, as daemons do, and then open its own files.
 * libunwind would then write these bytes to the program's files and read the program's data. So this library
 * checks the pipe before each use of libunwind.
 */

/* A pipe size that no pipe has by default; it identifies libunwind's pipe. The usual sizes are 16, 2 and 1
 * pages. */
#define MARK_PAGES 4

static int ends[2] = {-1, -1}; /* descriptors of the pipe; written once, before any thread reads them */
static int marked_bytes;

static bool is_one_pipe(const int *fds)
{
  struct stat first, second;
  return fstat(fds[0], &first) == 0 && fstat(fds[1], &second) == 0 && S_ISFIFO(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/*
 * Calls open(arg), which must make libunwind open its pipe, and remembers the pipe. Returns false if no new
 * pipe was found: it was already open, no descriptors are left, or another thread opened a file at the same
 * moment. The pipe's descriptors are then unknown, and the caller must not use libunwind. Must be called at
 * most once per process. Changes errno.
 */
static bool unwind_pipe_note(void (*open)(void *arg), void *arg)
{
  int fds[2]; /* the descriptors that the next pipe will get */

  if (pipe2(fds, O_CLOEXEC) != 0)
    return false;
  (void)close(fds[0]); /* cannot lose data: nothing was written */
  (void)close(fds[1]);
  open(arg);
  if (!is_one_pipe(fds))
    return false;
  marked_bytes = fcntl(fds[1], F_SETPIPE_SZ, (int)(MARK_PAGES * sysconf(_SC_PAGESIZE)));
  if (marked_bytes <= 0)
    return false;
  ends[0] = fds[0];
  ends[1] = fds[1];
  return true;
}

/* Returns true if both ends of the pipe are unchanged. Makes two short system calls. Changes errno.
 * Thread-safe. */
static bool unwind_pipe_is_whole(void)
{
  return fcntl(ends[0], F_GETPIPE_SZ) == marked_bytes && fcntl(ends[1], F_GETPIPE_SZ) == marked_bytes;
}

/* Stack space that the loader may need to open the unwinders. The value is generous, because not every system
 * was measured. */
#define PREPARE_ROOM_BYTES ((size_t)40 * 1024)

/*
 * Limits of the use of libunwind. Once libunwind has seen a stack, it is an order of magnitude faster than
 * glibc. But each thread's cache takes 256 KiB, and a thread's first capture takes 60 us. So libunwind is not
 * used by threads with only a few captures, nor by hundreds of threads.
 */
#define CAPTURES_BEFORE_CACHE 32
#define CACHES_MAX            64

typedef int (*backtrace_fn)(void **addresses, int capacity);

static _Atomic(backtrace_fn) libunwind_backtrace;
static _Atomic(backtrace_fn) glibc_backtrace;
static atomic_bool is_prepared;
static _Atomic uintptr_t own_start;
static _Atomic uintptr_t own_end;
static atomic_int caches; /* number of threads that use libunwind */

/* The state of a thread. It is small, because thread-local variables take space from the thread's stack. */
typedef struct thread_state {
  uint32_t cache_unloads; /* number of unloads when libunwind's cache began; no program unloads 2^32 times */
  uint8_t captures;       /* number of captures, up to CAPTURES_BEFORE_CACHE */
  bool is_capturing;
  bool has_cache;
} thread_state_t;

static __thread thread_state_t tls_state __attribute__((tls_model("initial-exec")));

/* The state of libunwind. Initializing libunwind opens a pipe, so it is initialized only when a thread first
 * uses it. */
typedef enum libunwind_state {
  LIBUNWIND_NOT_BEGUN,
  LIBUNWIND_BEGINS,
  LIBUNWIND_READY,
  LIBUNWIND_GIVEN_UP
} libunwind_state_t;

static _Atomic libunwind_state_t libunwind_state;

#if defined(__x86_64__)
typedef int (*policy_fn)(void *space, int policy);

static _Atomic(void *) local_space; /* several threads may set these two, all to the same values */
static _Atomic(policy_fn) set_caching_policy;

/* Opens libunwind and returns its capture function, or NULL if it cannot be used. If the global scope already
 * contains libunwind's names, the program has its own libunwind, of any version. libunwind.so.8 would then
 * call the functions of the program's libunwind, and the pipe may already be open with unknown
 * descriptors. */
static backtrace_fn find_libunwind(void)
{
  backtrace_fn function = NULL;
  policy_fn set_policy;

  if (dlsym(RTLD_DEFAULT, "_ULx86_64_step")) /* the exported name of unw_step */
    return NULL;
  void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  void *local = library ? dlsym(library, "_ULx86_64_local_addr_space") : NULL;
  if (!local)
    return NULL;
  *(void **)&set_policy = dlsym(library, "_ULx86_64_set_caching_policy");
  atomic_store(&set_caching_policy, set_policy);
  atomic_store(&local_space, *(void **)local);
  if (set_policy)
    *(void **)&function = dlsym(library, "unw_backtrace");
  return function;
}

/* Makes the first calls of libunwind. Sets a cache for each thread, because otherwise all threads share one
 * cache, behind a lock that blocks signals. libunwind opens its pipe in its first call (up to 1.6) or in its
 * first capture (1.8). */
static void begin_libunwind(void *arg)
{
  backtrace_fn best = atomic_load_explicit(&libunwind_backtrace, memory_order_relaxed);
  void *first[2];

  (void)arg;
  policy_fn set_policy = atomic_load(&set_caching_policy);
  (void)set_policy(atomic_load(&local_space), 2 /* UNW_CACHE_PER_THREAD */); /* may fail: slower at first */
  (void)best(first, 2);                                                      /* only to open the pipe */
}
#else
/* Does not use libunwind. On aarch64 libunwind 1.6 may read /proc/self/maps for a frame, and the cost was not
 * measured. */
static backtrace_fn find_libunwind(void)
{
  return NULL;
}

static void begin_libunwind(void *arg)
{
  (void)arg;
}
#endif

/* Returns the C library's backtrace, or NULL if it does not work. A lookup by name alone could find a
 * function of the program or of its libunwind. */
static backtrace_fn find_glibc(void)
{
  backtrace_fn function = NULL;
  void *first[1];

  void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library)
    *(void **)&function = dlsym(library, "backtrace");
  /* The first call loads libgcc_s. Without libgcc_s, backtrace returns no frames. */
  return function && function(first, 1) > 0 ? function : NULL;
}

static int find_own_range(struct dl_phdr_info *info, size_t size, void *arg)
{
  uintptr_t code = *(const uintptr_t *)arg;
  gp_bounds_t bounds = gp_bounds_of(info);

  (void)size;
  if (code < bounds.start || code >= bounds.end)
    return 0;
  gp_unwind_set_own_range(bounds.start, bounds.end);
  return 1;
}

void gp_unwind_set_own_range(uintptr_t start, uintptr_t end)
{
  atomic_store(&own_start, start);
  atomic_store(&own_end, end);
}

/* Does what gp_unwind_prepare does. The caller marks the thread as capturing, because the loader may call
 * back into this library. */
static void prepare(void)
{
  uintptr_t here = (uintptr_t)&gp_unwind_prepare;

  /* Takes no lock: a thread that waited here for another thread's dlopen could hold the loader's lock. If
   * several threads get here at once, they find the same values. */
  if (!atomic_load(&own_end))
    (void)gp_loader_walk(find_own_range, &here); /* always finds this code */
  backtrace_fn best = find_libunwind();
  backtrace_fn safe = find_glibc();
  atomic_store(&libunwind_backtrace, best);
  atomic_store(&glibc_backtrace, safe);
  (void)dlerror(); /* hides a missing symbol from the program's next dlerror */
  if (!atomic_exchange(&is_prepared, true))
    gp_log(GP_LOG_DEBUG, "stacks: %s",
        best && safe ? "libunwind and glibc"
        : best       ? "libunwind"
        : safe       ? "glibc"
                     : "none, because neither libunwind.so.8 nor libgcc_s.so.1 can be loaded");
}

void gp_unwind_prepare(void)
{
  int saved_errno = errno;

  if (atomic_load_explicit(&is_prepared, memory_order_acquire) || tls_state.is_capturing ||
      !gp_stack_has_room(PREPARE_ROOM_BYTES) || !gp_loader_walk_begin())
    return;
  int cancel_state = gp_cancel_hold(); /* dlopen may be a cancellation point */
  tls_state.is_capturing = true;
  prepare();
  tls_state.is_capturing = false;
  gp_cancel_restore(cancel_state);
  gp_loader_walk_end();
  errno = saved_errno;
}

/*
 * Returns true if the thread may use libunwind now. libunwind caches rules by code address, per thread and
 * permanently. If the code is unloaded and other code is loaded at its address, the cached rules are wrong,
 * and libunwind would read invalid memory. So a thread switches to glibc after any unload.
 */
static bool may_use_libunwind(thread_state_t *state, uint64_t unloads)
{
  if (state->has_cache)
    return state->cache_unloads == (uint32_t)unloads;
  if (state->captures < CAPTURES_BEFORE_CACHE) {
    state->captures++;
    return false;
  }
  if (atomic_load_explicit(&caches, memory_order_relaxed) >= CACHES_MAX)
    return false;
  (void)atomic_fetch_add_explicit(
      &caches, 1, memory_order_relaxed); /* may exceed CACHES_MAX by a few threads */
  state->has_cache = true;
  state->cache_unloads = (uint32_t)unloads;
  return true;
}

void gp_unwind_thread_ended(void)
{
  if (!tls_state.has_cache)
    return;
  tls_state.has_cache = false;
  tls_state.captures = 0;
  (void)atomic_fetch_sub_explicit(&caches, 1, memory_order_relaxed);
}

int gp_unwind_cached_threads(void)
{
  return atomic_load_explicit(&caches, memory_order_relaxed);
}

static void give_libunwind_up(const char *why)
{
  if (atomic_exchange(&libunwind_state, LIBUNWIND_GIVEN_UP) != LIBUNWIND_GIVEN_UP)
    gp_log(GP_LOG_DEBUG, "stacks: libunwind is no longer used: %s", why);
}

/* Returns true if libunwind and glibc report the same addresses. libunwind 1.3 reports the byte before each
 * return address. A thread uses both unwinders, so the same stack would be recorded in two forms. */
static __attribute__((noinline)) bool gives_return_addresses(backtrace_fn best, backtrace_fn safe)
{
  void *by_best[2], *by_safe[2]; /* return addresses of this function and of its caller */

  return !safe || (best(by_best, 2) == 2 && safe(by_safe, 2) == 2 && by_best[1] == by_safe[1]);
}

/* Returns libunwind's capture function. Returns NULL if libunwind is not usable, or if another thread is
 * initializing it. */
static backtrace_fn ready_libunwind(void)
{
  backtrace_fn best = atomic_load_explicit(&libunwind_backtrace, memory_order_relaxed);
  libunwind_state_t state = atomic_load_explicit(&libunwind_state, memory_order_acquire);

  if (!best || state == LIBUNWIND_BEGINS || state == LIBUNWIND_GIVEN_UP)
    return NULL;
  if (state == LIBUNWIND_READY) {
    if (unwind_pipe_is_whole())
      return best;
    give_libunwind_up("the program closed its pipe");
    return NULL;
  }
  if (!atomic_compare_exchange_strong(&libunwind_state, &state, LIBUNWIND_BEGINS))
    return NULL;
  if (!unwind_pipe_note(begin_libunwind, NULL)) {
    give_libunwind_up("its pipe was not found, or no descriptor is left for it");
    return NULL;
  }
  if (!gives_return_addresses(best, atomic_load_explicit(&glibc_backtrace, memory_order_relaxed))) {
    give_libunwind_up("its addresses are not those of glibc, as with libunwind 1.3");
    return NULL;
  }
  atomic_store_explicit(&libunwind_state, LIBUNWIND_READY, memory_order_release);
  return best;
}

static backtrace_fn choose(gp_unwinder_t unwinder, uint64_t unloads)
{
  backtrace_fn best = atomic_load_explicit(&libunwind_backtrace, memory_order_relaxed);
  backtrace_fn safe = atomic_load_explicit(&glibc_backtrace, memory_order_relaxed);
  if (unwinder == GP_UNWINDER_LIBUNWIND)
    return ready_libunwind();
  if (unwinder == GP_UNWINDER_GLIBC || !best || !may_use_libunwind(&tls_state, unloads))
    return safe;
  best = ready_libunwind();
  return best ? best : safe;
}

static inline bool is_own(uintptr_t address)
{
  return address >= atomic_load_explicit(&own_start, memory_order_relaxed) &&
         address < atomic_load_explicit(&own_end, memory_order_relaxed);
}

size_t gp_unwind_count_own(void *const *found, size_t count)
{
  size_t own = 0;
  while (own < count && is_own((uintptr_t)found[own] - 1))
    own++;
  return own;
}

/* Maximum distance to the next frame. Code without frame pointers has arbitrary values in that register, so
 * only short steps up the stack are followed. */
#define FRAME_BYTES_MAX ((uintptr_t)1 << 20)

static __attribute__((noinline)) size_t follow_frame_pointers(void **found, size_t capacity)
{
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
  size_t count = 0;

  while (count < capacity && gp_stack_holds_words(frame)) {
    const uintptr_t *words =
        (const uintptr_t *)frame; /* the caller's frame pointer, then the return address */
    uintptr_t next = words[0];
    uintptr_t address = words[1];
#if defined(__aarch64__)
    address = (uintptr_t)__builtin_extract_return_addr((void *)address);
    address &= (UINT64_C(1) << 48) - 1; /* the other bits are the pointer authentication code */
#endif
    if (address < 4096)
      break;
    found[count++] = (void *)address;
    if (next <= frame || next - frame > FRAME_BYTES_MAX || next % sizeof(uintptr_t))
      break;
    frame = next;
  }
  return count;
}

static __attribute__((noinline)) size_t capture(
    gp_unwinder_t unwinder, uint64_t unloads, void **found, size_t capacity)
{
  size_t count = 0;

  if (unwinder == GP_UNWINDER_FRAME_POINTERS) {
    count = follow_frame_pointers(found, capacity);
  } else {
    backtrace_fn backtrace = choose(unwinder, unloads);
    int result = backtrace ? backtrace(found, (int)capacity) : 0;
    count = result > 0 ? (size_t)result : 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (!found[i]) /* some unwinders report NULL as the caller of the outermost frame */
      return i;
  }
  return count;
}

size_t gp_unwind_all(gp_unwinder_t unwinder, uint64_t unloads, void **found, size_t capacity)
{
  int saved_errno = errno;
  size_t count = 0;

  if (tls_state.is_capturing) /* called by an unwinder that allocates, or in a signal handler */
    return 0;
  int cancel_state = gp_cancel_hold(); /* unwinders open files, and libunwind writes to its pipe */
  tls_state.is_capturing = true;
  atomic_signal_fence(memory_order_seq_cst); /* a signal handler sees is_capturing before anything below */
  bool is_ready = atomic_load_explicit(&is_prepared, memory_order_acquire);
  if (gp_stack_has_room(is_ready ? GP_UNWIND_ROOM_BYTES : PREPARE_ROOM_BYTES)) {
    if (!is_ready)
      prepare();
    count = capture(unwinder, unloads, found, capacity);
  }
  atomic_signal_fence(memory_order_seq_cst);
  tls_state.is_capturing = false;
  gp_cancel_restore(cancel_state);
  errno = saved_errno;
  return count;
}

size_t gp_unwind(gp_unwinder_t unwinder, uint64_t unloads, uintptr_t *addresses, size_t capacity)
{
  void *found[GP_UNWIND_FRAMES_MAX + GP_UNWIND_OWN_MAX];

  if (capacity > GP_UNWIND_FRAMES_MAX)
    capacity = GP_UNWIND_FRAMES_MAX;
  size_t count = gp_unwind_all(unwinder, unloads, found, capacity + GP_UNWIND_OWN_MAX);
  size_t own = gp_unwind_count_own(found, count);
  size_t kept = 0;
  for (; own + kept < count && kept < capacity; kept++)
    addresses[kept] = (uintptr_t)found[own + kept];
  return kept;
}
