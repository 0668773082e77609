/*
 * Locks with ranks. A thread may take a lock only if all locks that it holds have lower ranks. A debug build
 * (debug_level >= 1) checks this, and also that no thread calls the driver while it holds a lock.
 *
 * A lock is usually held for tens of nanoseconds, but waking a sleeping thread costs microseconds. So a
 * thread that finds a lock taken retries at growing intervals for some microseconds before it sleeps. No
 * function here is a cancellation point or changes errno.
 *
 * Invariant: while a thread sleeps, the state is GP_LOCK_AWAITED, or another thread was woken and will set
 * the state to GP_LOCK_AWAITED.
 */
#ifndef GP_BASE_LOCK_H
#define GP_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"

/* The ranks in nesting order: the outermost lock has the lowest rank. */
typedef enum gp_lock_rank {
  GP_RANK_NONE,      /* zeroed memory that is not a lock yet */
  GP_RANK_CONTROL,   /* user requests, which may call the driver: not part of gp_locks_held */
  GP_RANK_START,     /* the start-up of the preload library */
  GP_RANK_SNAPSHOT,  /* the snapshot writer, which reads the engine */
  GP_RANK_OWNERS,    /* the list of engines with per-thread heaps */
  GP_RANK_CONTEXTS,  /* the engine's list of contexts */
  GP_RANK_DEVICE,    /* one device's blocks, bins and statistics */
  GP_RANK_HEAP,      /* blocks kept by one thread's heap */
  GP_RANK_FORWARDED, /* forwarded allocations */
  GP_RANK_HOOKS,     /* records of the hooks: captures, events, green contexts, memory pools, mappings */
  GP_RANK_MAP,       /* an address map, for its writers */
  GP_RANK_SLAB,      /* free block records */
  GP_RANK_PRESTART,  /* events from before the record began */
  GP_RANK_STACKS,    /* the logs of stacks and modules, for their writers */
  GP_RANK_LIVE,      /* free slots in the table of live memory */
  GP_RANK_THREADS,   /* the table of threads */
  GP_RANK_HANDLES,   /* the table of stream handles */
  GP_RANK_MARKS,     /* the program's marks */
  GP_RANK_CHUNKS,    /* chunks of events */
  GP_RANK_REGION,    /* growth of the record */
} gp_lock_rank_t;

typedef enum gp_lock_state {
  GP_LOCK_FREE,
  GP_LOCK_TAKEN,
  GP_LOCK_AWAITED, /* taken; the release must wake a sleeping thread */
} gp_lock_state_t;

typedef struct gp_lock {
  _Atomic uint32_t state; /* gp_lock_state_t */
  gp_lock_rank_t rank;
} gp_lock_t;

#if GP_DEBUG_LEVEL >= 1
void gp_lock_note_taken(gp_lock_rank_t rank);
void gp_lock_note_released(gp_lock_rank_t rank);
void gp_lock_note_taken_within(gp_lock_rank_t rank); /* accepts any rank: a bounded wait is no deadlock */
unsigned gp_locks_held(void);                        /* bit mask of the ranks that this thread holds */
bool gp_lock_is_held(const gp_lock_t *lock);         /* for asserts; compares only the rank */
#else
static inline void gp_lock_note_taken(gp_lock_rank_t rank)
{
  (void)rank;
}
static inline void gp_lock_note_released(gp_lock_rank_t rank)
{
  (void)rank;
}
static inline void gp_lock_note_taken_within(gp_lock_rank_t rank)
{
  (void)rank;
}
static inline unsigned gp_locks_held(void)
{
  return 0;
}
static inline bool gp_lock_is_held(const gp_lock_t *lock)
{
  (void)lock;
  return false;
}
#endif

/* Initializer for a lock with static storage. */
#define GP_LOCK_INIT(rank)                                                                                   \
  {                                                                                                          \
    GP_LOCK_FREE, rank                                                                                       \
  }

static inline void gp_lock_init(gp_lock_t *lock, gp_lock_rank_t rank)
{
  atomic_init(&lock->state, GP_LOCK_FREE);
  lock->rank = rank;
}

/* Returns true if no thread holds the lock. For asserts when the object that contains the lock is destroyed;
 * the lock itself needs no destruction. */
static inline bool gp_lock_is_free(const gp_lock_t *lock)
{
  return atomic_load_explicit(&lock->state, memory_order_relaxed) == GP_LOCK_FREE;
}

/* The slow paths of take and release. gp_lock_contend waits for the holder; gp_lock_wake wakes a waiting
 * thread. */
void gp_lock_contend(gp_lock_t *lock);
void gp_lock_wake(gp_lock_t *lock);

static inline bool gp_lock_try(gp_lock_t *lock, gp_lock_state_t state)
{
  uint32_t expected = GP_LOCK_FREE;
  return atomic_compare_exchange_strong_explicit(
      &lock->state, &expected, state, memory_order_acquire, memory_order_relaxed);
}

static inline void gp_lock_take(gp_lock_t *lock)
{
  gp_lock_note_taken(lock->rank);
  if (!__builtin_expect(gp_lock_try(lock, GP_LOCK_TAKEN), 1))
    gp_lock_contend(lock);
}

/*
 * Issues a sequentially consistent fence, for a thread that holds a lock. The fence separates the thread's
 * actions before it took the lock from its actions after this call. On x86-64 taking a lock is already such a
 * fence: it ends with a locked instruction, which neither earlier stores nor later loads can pass (Intel SDM,
 * vol. 3, "Loads and Stores Are Not Reordered with Locked Instructions"). This also holds for gp_lock_contend
 * and gp_lock_wait.
 */
static inline void gp_lock_fence(void)
{
#if defined(__x86_64__)
  atomic_signal_fence(memory_order_seq_cst);
#else
  atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Takes the lock, but gives up after `seconds` and returns false. For use at the end of the process: the
 * calling thread itself may hold the lock, if a signal interrupted it and the handler ends the program. */
bool gp_lock_take_within(gp_lock_t *lock, unsigned seconds);

static inline void gp_lock_release(gp_lock_t *lock)
{
  uint32_t before = atomic_exchange_explicit(&lock->state, GP_LOCK_FREE, memory_order_release);
  if (__builtin_expect(before == GP_LOCK_AWAITED, 0))
    gp_lock_wake(lock);
  gp_lock_note_released(lock->rank);
}

/*
 * Takes a lock that nearly always the same thread takes. Such a lock is released by a plain store, which
 * takes a third of the time but wakes no thread. So a thread that finds the lock taken polls it. All users of
 * such a lock must use the polled functions.
 */
void gp_lock_poll(gp_lock_t *lock);

static inline void gp_lock_take_polled(gp_lock_t *lock)
{
  gp_lock_note_taken(lock->rank);
  if (!__builtin_expect(gp_lock_try(lock, GP_LOCK_TAKEN), 1))
    gp_lock_poll(lock);
}

static inline void gp_lock_release_polled(gp_lock_t *lock)
{
  atomic_store_explicit(&lock->state, GP_LOCK_FREE, memory_order_release);
  gp_lock_note_released(lock->rank);
}

/* Does for a polled lock what gp_lock_take_within does. */
bool gp_lock_take_polled_within(gp_lock_t *lock, unsigned seconds);

/* A condition on which threads wait, under a lock. If all members are 0, no thread waits. */
typedef struct gp_condition {
  _Atomic uint32_t turn; /* number of calls of gp_condition_tell while a thread waited */
  uint32_t waiting;      /* number of waiting threads; guarded by the lock */
} gp_condition_t;

/* Waits until another thread calls gp_condition_tell, but may also return spuriously. The caller holds the
 * lock and must check its condition again. The function releases the lock while it waits. */
void gp_lock_wait(gp_lock_t *lock, gp_condition_t *condition);

/* Wakes all threads that wait for the condition. The caller holds the lock. */
void gp_condition_tell(gp_condition_t *condition);

/* For tests with threads, in a debug build (debug_level >= 1): threads pause before they take and after they
 * release a lock, so that other threads run at points where the scheduler seldom lets them run. */

#if GP_DEBUG_LEVEL >= 1
/* Makes each thread pause at random: before one of `one_in` lock takes, and after one of `one_in` releases.
 * In a pause the thread yields, or waits for up to some tens of microseconds. 0 turns the pauses off.
 * Thread-safe. */
void gp_lock_leave_gaps(unsigned one_in);
#else
static inline void gp_lock_leave_gaps(unsigned one_in)
{
  (void)one_in;
}
#endif

#endif
