/*
 * Walks of the loaded objects (dl_iterate_phdr) that are safe if another thread calls fork.
 *
 * During a walk, glibc holds a lock of the loader, and does not reset this lock in the child of a fork. If a
 * child is created while another thread walks, the child blocks forever at its first dlopen or C++ exception.
 * Therefore this module's fork handler waits for walks in progress, and no walk begins until the child
 * exists. All walks of this library, and of the unwinders that it calls, use these functions.
 *
 * The handler holds no lock, and all waits are bounded. Otherwise there could be a deadlock: a walk may wait
 * for the loader, and the loader for the thread that forks (in a constructor).
 */
#ifndef GP_BASE_LOADER_WALK_H
#define GP_BASE_LOADER_WALK_H

#include <link.h>
#include <stdbool.h>

typedef int (*gp_loader_visit_t)(struct dl_phdr_info *info, size_t size, void *arg);

/* Calls dl_iterate_phdr and returns its result. While another thread forks, waits for at most five seconds,
 * and then walks regardless. Preserves errno. Thread-safe. */
int gp_loader_walk(gp_loader_visit_t visit, void *arg);

/*
 * Mark the begin and the end of a walk by other code; forks of other threads wait until the end.
 * gp_loader_walk_begin returns false if a fork is in progress; the caller must then neither walk nor call
 * gp_loader_walk_end. Neither function waits. Calls may be nested. Both may be called by any thread, also
 * from a signal handler.
 */
bool gp_loader_walk_begin(void);
void gp_loader_walk_end(void);

#endif
