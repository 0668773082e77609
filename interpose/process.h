/* Tells whether this process is the one in which the library started. A child of fork() has a copy of the
 * library's records (a child of vfork() has not), but their GPU memory is the parent's. */
#ifndef GP_INTERPOSE_PROCESS_H
#define GP_INTERPOSE_PROCESS_H

#include <stdbool.h>

/*
 * From now on gp_process_is_ours is false in children, and those of fork() call child(). The library calls
 * this before it takes its first lock, which a child could inherit locked. Calls after the first do
 * nothing; simultaneous calls do no harm. Any thread, with no lock held.
 */
void gp_process_watch(void (*child)(void));

extern const unsigned char *gp_process_mark; /* private: points to 1, but in a child to 0 */

/*
 * False in a child, also in one made by clone() without the handlers of pthread_atfork().
 * Costs only two loads, because every hook calls this. Before Linux 4.14 it is false only in
 * children of fork(), after child().
 */
static inline bool gp_process_is_ours(void)
{
  return *(const volatile unsigned char *)__atomic_load_n(&gp_process_mark, __ATOMIC_ACQUIRE) != 0;
}

#endif
