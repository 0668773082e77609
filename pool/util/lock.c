#include "pool/util/lock.h"

#include <time.h>

bool gp_lock_take_within(gp_lock_t *lock, unsigned seconds)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until); /* cannot fail */
  until.tv_sec += seconds;
  if (pthread_mutex_timedlock(&lock->mutex, &until) != 0)
    return false;
  gp_lock_note_taken_within(lock->rank);
  return true;
}

#if GP_DEBUG_LEVEL >= 1

static _Thread_local unsigned held; /* bit per rank */

void gp_lock_note_taken(gp_lock_rank_t rank)
{
  gp_assert(held >> rank == 0); /* only ranks below this one */
  held |= 1u << rank;
}

void gp_lock_note_released(gp_lock_rank_t rank)
{
  gp_assert(held & (1u << rank));
  held &= ~(1u << rank);
}

void gp_lock_note_taken_within(gp_lock_rank_t rank)
{
  held |= 1u << rank;
}

unsigned gp_locks_held(void)
{
  return held & ~(1u << GP_RANK_CONTROL);
}

#endif
