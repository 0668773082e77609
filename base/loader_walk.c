#include "base/loader_walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "base/assert.h"
#include "base/cancel.h"

#define NS_PER_SECOND UINT64_C(1000000000)

/* The longest time that a fork waits for walks, and a walk for forks. Each usually takes less than a
 * millisecond, but on an overloaded machine a thread may wait seconds for a processor. */
#define PATIENCE_NS (5 * NS_PER_SECOND)
#define PAUSE_NS    20000

/* A fork and a walk each announce themselves first and then check for the other. The order is sequentially
 * consistent, so at least one of them sees the other. */
static atomic_uint walkers; /* number of threads between their outermost gp_loader_walk_begin and its end */
static atomic_uint forks;   /* number of threads between the handlers that run before and after fork */

/* Nesting depth of this thread's walks and forks. Only the outermost walk changes the counts above. */
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

static uint64_t now_ns(void)
{
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time); /* cannot fail */
  return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static void pause_shortly(void)
{
  const struct timespec time = {0, PAUSE_NS};
  (void)nanosleep(&time, NULL); /* may return early because of a signal */
}

/* Runs in the thread that calls fork. That thread may itself be inside a walk, if a signal handler calls
 * fork. */
static void before_fork(void)
{
  unsigned own = depth > 0;
  int saved_errno = errno;

  depth++;
  (void)atomic_fetch_add(&forks, 1);
  if (atomic_load(&walkers) > own) {
    int cancel_state = gp_cancel_hold(); /* unlike fork, pausing is a cancellation point */
    uint64_t end_ns = now_ns() + PATIENCE_NS;
    while (atomic_load(&walkers) > own && now_ns() < end_ns)
      pause_shortly();
    gp_cancel_restore(cancel_state);
  }
  errno = saved_errno;
}

static void after_fork_in_parent(void)
{
  if (depth == 0)
    return; /* fork began before the handlers were registered */
  (void)atomic_fetch_sub(&forks, 1);
  depth--;
}

/* Resets the counts: the child has no other threads, so their walks never end. */
static void after_fork_in_child(void)
{
  depth -= depth > 0; /* 0 if fork began before the handlers were registered */
  atomic_store(&forks, 0);
  atomic_store(&walkers, depth > 0);
}

/* If several threads call this concurrently, the handlers are registered twice, which is harmless. */
static __attribute__((noinline)) void watch_forks(atomic_bool *is_watching)
{
  (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); /* may fail without memory */
  atomic_store_explicit(is_watching, true, memory_order_release);
}

bool gp_loader_walk_begin(void)
{
  static atomic_bool is_watching;

  if (depth++ > 0)
    return true;
  if (!atomic_load_explicit(&is_watching, memory_order_acquire))
    watch_forks(&is_watching);
  (void)atomic_fetch_add(&walkers, 1);
  if (atomic_load(&forks) == 0)
    return true;
  gp_loader_walk_end();
  return false;
}

void gp_loader_walk_end(void)
{
  gp_assert(depth > 0);
  if (depth == 1)
    (void)atomic_fetch_sub(&walkers, 1);
  depth--;
}

static __attribute__((noinline)) bool begin_patiently(void)
{
  int saved_errno = errno;
  int cancel_state = gp_cancel_hold(); /* sleeping is a cancellation point */
  uint64_t end_ns = now_ns() + PATIENCE_NS;
  bool has_begun = false;

  while (!has_begun && now_ns() < end_ns) {
    pause_shortly();
    has_begun = gp_loader_walk_begin();
  }
  gp_cancel_restore(cancel_state);
  errno = saved_errno;
  return has_begun;
}

int gp_loader_walk(gp_loader_visit_t visit, void *arg)
{
  bool has_begun = gp_loader_walk_begin() || begin_patiently();
  int result = dl_iterate_phdr(visit, arg);
  if (has_begun)
    gp_loader_walk_end();
  return result;
}
