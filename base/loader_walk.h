/*
 * Walks of the loaded objects (dl_iterate_phdr) that are safe with fork.
 *
 * For a walk glibc takes a lock of the loader, which it does not reset in a child of fork. A child that is
 * created while another thread walks would block forever at its first dlopen, or at an exception. Therefore
 * this module's fork handler waits for walks in progress, and no walk begins before the child is created. All
 * walks of this library, and of the unwinders that it calls, use these functions.
 *
 * The handler holds no lock, and all waits are bounded: a walk may wait for the loader, and the loader for
 * the thread that forks (a constructor).
 */
#ifndef GP_BASE_LOADER_WALK_H
#define GP_BASE_LOADER_WALK_H

#include <link.h>
#include <stdbool.h>

typedef int (*gp_loader_visit_t)(struct dl_phdr_info *info, size_t size, void *arg);

/* Does what dl_iterate_phdr does. While another thread forks, waits for five seconds at most, and then
 * walks regardless. errno is preserved. Any thread may call it. */
int gp_loader_walk(gp_loader_visit_t visit, void *arg);

/*
 * Called around code that walks: forks of other threads wait until gp_loader_walk_end. If begin returns
 * false, a fork is in progress, and the caller must not walk and must not call end. Never waits. Pairs may be
 * nested. Any thread may call it, signal handlers included.
 */
bool gp_loader_walk_begin(void);
void gp_loader_walk_end(void);

#endif
