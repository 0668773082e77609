/*
 * Whether this process is the one that the library has started in. A child of fork(), vfork's aside, has a
 * copy of our records, but the GPU memory in them is the parent's.
 */
#ifndef GP_INTERPOSE_PROCESS_H
#define GP_INTERPOSE_PROCESS_H

#include <stdbool.h>

/*
 * From now on children are told apart; child() is called in those of fork(). Before the library takes its
 * first lock, which a child could otherwise inherit held. Calls after the first do nothing; of several at
 * once each has an effect, which does no harm.
 */
void gp_process_watch(void (*child)(void));

extern const unsigned char *gp_process_mark; /* private: leads to 1, in a child to 0 */

/*
 * False in a child, also in one made by clone() without the handlers of pthread_atfork(). One load, because
 * every hook asks. A kernel before 4.14 cannot do that: there only fork() is noticed, by child().
 */
static inline bool gp_process_is_ours(void)
{
  return *(const volatile unsigned char *)__atomic_load_n(&gp_process_mark, __ATOMIC_ACQUIRE) != 0;
}

#endif
