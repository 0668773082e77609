/*
 * Mutexes with ranks. A thread may take a lock only if it holds none of the same or a higher rank; a debug
 * build (debug_level >= 1) checks that, and that no thread calls the driver with a lock.
 */
#ifndef GP_POOL_UTIL_LOCK_H
#define GP_POOL_UTIL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "pool/util/assert.h"
#include "pool/util/cancel.h"

/* In the order in which locks may be nested: an outer lock has the lower rank. */
typedef enum gp_lock_rank {
  GP_RANK_CONTROL,   /* requests of users, which may call the driver: gp_locks_held leaves it out */
  GP_RANK_START,     /* the start of the preload library */
  GP_RANK_SNAPSHOT,  /* the writer of snapshots, which reads the engine */
  GP_RANK_CONTEXTS,  /* the engine's list of contexts */
  GP_RANK_DEVICE,    /* blocks, bins and statistics of one device */
  GP_RANK_FORWARDED, /* allocations that are not pooled */
  GP_RANK_HOOKS,     /* what the hooks keep: captures, events, green contexts, memory pools, mappings */
  GP_RANK_MAP,       /* writers of an address map */
  GP_RANK_SLAB,      /* free block records */
  GP_RANK_PRESTART,  /* events from before the record */
  GP_RANK_STACKS,    /* writers of stacks and modules */
  GP_RANK_LIVE,      /* free slots of live memory */
  GP_RANK_THREADS,   /* the table of threads */
  GP_RANK_HANDLES,   /* the table of stream handles */
  GP_RANK_CHUNKS,    /* chunks of events */
  GP_RANK_REGION,    /* growth of the record */
} gp_lock_rank_t;

typedef struct gp_lock {
  pthread_mutex_t mutex;
  gp_lock_rank_t rank;
} gp_lock_t;

#if GP_DEBUG_LEVEL >= 1
void gp_lock_note_taken(gp_lock_rank_t rank);
void gp_lock_note_released(gp_lock_rank_t rank);
void gp_lock_note_taken_within(gp_lock_rank_t rank); /* of any rank: a wait that ends is no deadlock */
unsigned gp_locks_held(void);                        /* bit mask of ranks held by this thread */
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
#endif

/* For a lock with static storage. */
#define GP_LOCK_INIT(rank)                                                                                   \
  {                                                                                                          \
    PTHREAD_MUTEX_INITIALIZER, rank                                                                          \
  }

static inline void gp_lock_init(gp_lock_t *lock, gp_lock_rank_t rank)
{
  pthread_mutex_init(&lock->mutex, NULL); /* cannot fail with default attributes on Linux */
  lock->rank = rank;
}

static inline void gp_lock_fini(gp_lock_t *lock)
{
  pthread_mutex_destroy(&lock->mutex);
}

static inline void gp_lock_take(gp_lock_t *lock)
{
  gp_lock_note_taken(lock->rank);
  pthread_mutex_lock(&lock->mutex);
}

/*
 * For the end of the process: gives up after so many seconds, because the thread that holds the lock may be
 * this very one, interrupted by a signal whose handler ends the program. False: the lock was not to be had.
 */
bool gp_lock_take_within(gp_lock_t *lock, unsigned seconds);

/* Waits for a condition; the lock is released meanwhile. A thread cancelled in the wait would keep it. */
static inline void gp_lock_wait(gp_lock_t *lock, pthread_cond_t *condition)
{
  gp_lock_note_released(lock->rank);
  int cancel_state = gp_cancel_hold();
  pthread_cond_wait(condition, &lock->mutex);
  gp_cancel_restore(cancel_state);
  gp_lock_note_taken(lock->rank);
}

/* For asserts, in a debug build: whether this thread holds a lock of that rank. */
static inline bool gp_lock_is_held(const gp_lock_t *lock)
{
  return (gp_locks_held() >> lock->rank & 1u) != 0;
}

static inline void gp_lock_release(gp_lock_t *lock)
{
  pthread_mutex_unlock(&lock->mutex);
  gp_lock_note_released(lock->rank);
}

#endif
