/*
 * Walks of what the loader has loaded (dl_iterate_phdr), beside fork.
 *
 * glibc takes a lock of the loader's for a walk, and does not reset it in a child of fork: a child that is
 * born while another thread walks waits for ever at its first dlopen, or at an exception. So the handler of
 * fork here waits for the walks that are under way, and none begins before the child is born. All walks of
 * this library, and what walks on its account (unwinders), go through these functions.
 *
 * The handler holds no lock, and what waits does so for a bounded time: a walk may wait for the loader, and
 * the loader for the thread that forks (a constructor).
 */
#ifndef GP_POOL_UTIL_LOADER_WALK_H
#define GP_POOL_UTIL_LOADER_WALK_H

#include <link.h>
#include <stdbool.h>

typedef int (*gp_loader_visit_t)(struct dl_phdr_info *info, size_t size, void *arg);

/*
 * As dl_iterate_phdr. While another thread forks the caller waits, five seconds at most, and then
 * walks all the same. errno is preserved. Any thread.
 */
int gp_loader_walk(gp_loader_visit_t visit, void *arg);

/*
 * Around code that walks, in which fork in other threads waits for the end. False: a fork is under way; the
 * caller goes without, and calls no end. Never waits. Pairs may be nested. Any thread, signal handlers too.
 */
bool gp_loader_walk_begin(void);
void gp_loader_walk_end(void);

#endif
