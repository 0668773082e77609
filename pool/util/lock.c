#include "pool/util/lock.h"

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

unsigned gp_locks_held(void)
{
  return held;
}

#else
typedef int gp_lock_unused_t; /* ISO C wants a declaration in every file */
#endif
