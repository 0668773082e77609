/*
 * For tests of threads, in a debug build (debug_level >= 1): gaps between holds of locks, so that other
 * threads come in between, which the scheduler seldom lets them.
 */
#ifndef GP_POOL_UTIL_LOCK_GAPS_H
#define GP_POOL_UTIL_LOCK_GAPS_H

#if GP_DEBUG_LEVEL >= 1
/*
 * From now on each thread lets others run, or waits for up to some ten microseconds, before one in so many
 * takes of locks and after one in so many releases, at random; 0: at none. Any thread.
 */
void gp_lock_leave_gaps(unsigned one_in);
#else
static inline void gp_lock_leave_gaps(unsigned one_in)
{
  (void)one_in;
}
#endif

#endif
