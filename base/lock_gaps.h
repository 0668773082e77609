/* For tests of threads, in a debug build (debug_level >= 1): gaps between holds of locks, in which other
 * threads get their turn, as the scheduler seldom gives them. */
#ifndef GP_BASE_LOCK_GAPS_H
#define GP_BASE_LOCK_GAPS_H

#if GP_DEBUG_LEVEL >= 1
/* From now on each thread lets others run, or waits for up to some ten microseconds, before one of `one_in`
 * lock takes and after one of as many releases, at random; 0: never. Any thread. */
void gp_lock_leave_gaps(unsigned one_in);
#else
static inline void gp_lock_leave_gaps(unsigned one_in)
{
  (void)one_in;
}
#endif

#endif
