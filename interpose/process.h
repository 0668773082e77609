/*
 * Whether this process is the one that the library has started in. A child of fork(), vfork's aside, has a copy of our
 * records, but the GPU memory in them is the parent's.
 */
#ifndef GP_INTERPOSE_PROCESS_H
#define GP_INTERPOSE_PROCESS_H

#include <stdbool.h>

/*
 * From now on children are told apart. prepare, parent and child become the handlers of pthread_atfork(); they are
 * called again, to no effect, if several threads came here at once. Before the library takes its first lock, so that
 * no child can inherit one that nobody will release. Calls after the first do nothing.
 */
void gp_process_watch(void (*prepare)(void), void (*parent)(void), void (*child)(void));

extern const unsigned char *gp_process_mark; /* private: leads to 1, in a child to 0 */

/*
 * False in a child, also in one made by clone() without the handlers of pthread_atfork(). One load, because every hook
 * asks. A kernel before 4.14 cannot do that: there only fork() is noticed, by its handlers.
 */
static inline bool gp_process_is_ours(void)
{
  return *(const volatile unsigned char *)__atomic_load_n(&gp_process_mark, __ATOMIC_RELAXED) != 0;
}

#endif
