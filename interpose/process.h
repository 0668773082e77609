/* Finds out whether this process is the one in which the library started. A child of fork() has a copy of the
 * library's records, but their GPU memory belongs to the parent; a child of vfork() has no copy. */
#ifndef GP_INTERPOSE_PROCESS_H
#define GP_INTERPOSE_PROCESS_H

#include <stdbool.h>

/*
 * Makes gp_process_is_ours return false in children from now on, and children of fork() call child(). The
 * library calls this before it takes its first lock, which a child could inherit locked. Calls after the
 * first do nothing; simultaneous calls are harmless. Any thread, with no lock held.
 */
void gp_process_watch(void (*child)(void));

extern const unsigned char *gp_process_mark; /* private: points to 1; in a child, to 0 */

/*
 * Returns false in a child, even if clone() made the child without running the handlers of pthread_atfork().
 * Costs only two loads, because every hook calls this function. Before Linux 4.14 it returns false only in
 * children of fork(), after child().
 */
static inline bool gp_process_is_ours(void)
{
  return *(const volatile unsigned char *)__atomic_load_n(&gp_process_mark, __ATOMIC_ACQUIRE) != 0;
}

#endif
