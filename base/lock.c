#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word equals `value`, until the thread is woken or the time of day `until` is reached. NULL
 * means no time limit. Returns false if the time limit was reached. */
static bool sleep_on(_Atomic uint32_t *word, uint32_t value, const struct timespec *until)
{
  const int operation = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
  int saved_errno = errno;
  bool is_late = syscall(SYS_futex, word, operation, value, until, NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
                 errno == ETIMEDOUT;
  errno = saved_errno;
  return !is_late;
}

static void wake(_Atomic uint32_t *word, int threads)
{
  int saved_errno = errno;
  (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, threads); /* all may have woken already */
  errno = saved_errno;
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* used because `yield` returns at once */
#endif
}

/* Numbers of pauses of about 25 to 45 ns each. The first check of the lock comes after one microsecond, the
 * last after ten or twenty. Sleeping and waking up would take about as long. */
#define FIRST_PAUSES 32
#define MOST_PAUSES  256

/*
 * Checks a taken lock at growing intervals. Returns true if the caller now holds the lock, with `state` as
 * its state. The first check is late on purpose: the holder will probably need the lock again soon, and still
 * has the guarded data in its cache. If another thread took the lock after each use, that thread would have
 * to fetch all the data first.
 */
static bool spin(gp_lock_t *lock, gp_lock_state_t state)
{
  for (int pauses = FIRST_PAUSES; pauses <= MOST_PAUSES; pauses *= 2) {
    for (int i = 0; i < pauses; i++)
      pause_briefly();
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) == GP_LOCK_FREE && gp_lock_try(lock, state))
      return true;
  }
  return false;
}

/*
 * Waits for a lock that another thread holds, and takes it. Returns false if the time `until` was reached
 * first. A thread that was woken sets the state to AWAITED, because other threads may still sleep. While the
 * woken thread retries, a release may find no thread to wake. This is harmless, because the woken thread
 * checks the lock again.
 */
static bool contend(gp_lock_t *lock, const struct timespec *until)
{
  gp_lock_state_t state = GP_LOCK_TAKEN;

  while (!spin(lock, state)) {
    uint32_t before = atomic_exchange_explicit(&lock->state, GP_LOCK_AWAITED, memory_order_acquire);
    if (before == GP_LOCK_FREE)
      return true;
    if (!sleep_on(&lock->state, GP_LOCK_AWAITED, until))
      return false;
    state = GP_LOCK_AWAITED;
  }
  return true;
}

void gp_lock_contend(gp_lock_t *lock)
{
  (void)contend(lock, NULL); /* cannot fail without a time limit */
}

void gp_lock_wake(gp_lock_t *lock)
{
  wake(&lock->state, 1);
}

bool gp_lock_take_within(gp_lock_t *lock, unsigned seconds)
{
  struct timespec until;

  if (!gp_lock_try(lock, GP_LOCK_TAKEN)) {
    clock_gettime(CLOCK_REALTIME, &until); /* cannot fail */
    until.tv_sec += seconds;
    if (!contend(lock, &until))
      return false;
  }
  gp_lock_note_taken_within(lock->rank);
  return true;
}

#define POLL_NS 50000

/* Sleeps for a short time, so that a lock holder of lower priority can run. */
static void sleep_briefly(gp_lock_t *lock)
{
  struct timespec until;

  clock_gettime(CLOCK_REALTIME, &until); /* cannot fail */
  until.tv_nsec += POLL_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  (void)sleep_on(&lock->state, GP_LOCK_TAKEN, &until);
}

void gp_lock_poll(gp_lock_t *lock)
{
  while (!spin(lock, GP_LOCK_TAKEN))
    sleep_briefly(lock);
}

bool gp_lock_take_polled_within(gp_lock_t *lock, unsigned seconds)
{
  uint64_t polls = seconds * UINT64_C(1000000000) / (2 * POLL_NS); /* polls also spin, and timers are late */

  while (!gp_lock_try(lock, GP_LOCK_TAKEN) && !spin(lock, GP_LOCK_TAKEN)) {
    if (polls-- == 0)
      return false;
    sleep_briefly(lock);
  }
  gp_lock_note_taken_within(lock->rank);
  return true;
}

void gp_lock_wait(gp_lock_t *lock, gp_condition_t *condition)
{
  gp_assert_internal(gp_lock_is_held(lock));
  uint32_t turn = atomic_load_explicit(&condition->turn, memory_order_relaxed);
  condition->waiting++;
  gp_lock_release(lock);
  (void)sched_yield(); /* the event that the thread waits for usually happens at once */
  (void)sleep_on(&condition->turn, turn, NULL);
  gp_lock_take(lock);
  gp_assert_internal(condition->waiting > 0);
  condition->waiting--;
}

void gp_condition_tell(gp_condition_t *condition)
{
  if (condition->waiting == 0)
    return;
  atomic_fetch_add_explicit(&condition->turn, 1, memory_order_relaxed);
  wake(&condition->turn, INT_MAX);
}

#if GP_DEBUG_LEVEL >= 1

static _Thread_local unsigned held __attribute__((tls_model("initial-exec"))); /* held ranks, as a bit mask */

static _Atomic unsigned gaps_one_in;
static _Atomic uint32_t gap_seeds;
static _Thread_local uint32_t gap_random __attribute__((tls_model("initial-exec"))); /* 0: not seeded */

void gp_lock_leave_gaps(unsigned one_in)
{
  atomic_store(&gaps_one_in, one_in);
}

static void leave_gap(void)
{
  unsigned one_in = atomic_load_explicit(&gaps_one_in, memory_order_relaxed);

  if (one_in == 0)
    return;
  if (gap_random == 0)
    gap_random = atomic_fetch_add(&gap_seeds, UINT32_C(0x9e3779b9)) | 1;
  gap_random = gap_random * 1664525u + 1013904223u;
  uint32_t random = gap_random >> 8;
  if (random % one_in != 0)
    return;
  random /= one_in;
  if (random % 2 == 0)
    (void)sched_yield();
  else
    for (uint32_t i = random / 2 % MOST_PAUSES; i > 0; i--)
      pause_briefly();
}

void gp_lock_note_taken(gp_lock_rank_t rank)
{
  gp_assert(rank != GP_RANK_NONE);
  gp_assert(held >> rank == 0); /* this thread may hold only locks of lower ranks */
  leave_gap();
  held |= 1u << rank;
}

void gp_lock_note_released(gp_lock_rank_t rank)
{
  gp_assert(held & (1u << rank));
  held &= ~(1u << rank);
  leave_gap();
}

void gp_lock_note_taken_within(gp_lock_rank_t rank)
{
  held |= 1u << rank;
}

bool gp_lock_is_held(const gp_lock_t *lock)
{
  return (held >> lock->rank & 1u) != 0;
}

unsigned gp_locks_held(void)
{
  return held & ~(1u << GP_RANK_CONTROL);
}

#endif
