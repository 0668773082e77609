/*
 * Memory on its way to the driver. The driver may give any part of it to a new owner before the releasing
 * thread, back from the driver's free, has recorded the release. The new owner's thread then waits for that
 * record, which keeps the history in order. The releasing thread has already left the driver, so this is no
 * wait for the device; await_pending.h has such a wait.
 *
 * The caller of every function but init holds the lock that guards the list; the
 * waits release it meanwhile.
 */
#ifndef GP_POOL_SPACE_RELEASES_H
#define GP_POOL_SPACE_RELEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"

typedef struct gp_release {
  gp_list_t link;
  uint64_t address; /* or the handle that the driver may give anew */
  uint64_t size;    /* bytes that it may give anew, perhaps with adjacent ones; 1 for a handle */
} gp_release_t;

typedef struct gp_releases {
  gp_lock_t *lock;
  gp_list_t in_flight;
  gp_condition_t finished;
  uint64_t finished_count;
  uint64_t given_up; /* finished_count at the last wait that was given up, plus 1; 0: none was */
} gp_releases_t;

/* lock: the caller's lock that guards the list. */
void gp_releases_init(gp_releases_t *releases, gp_lock_t *lock);

static inline bool gp_releases_are_none(const gp_releases_t *releases)
{
  gp_assert_internal(gp_lock_is_held(releases->lock));
  return gp_list_is_empty(&releases->in_flight);
}

/* announce: before the driver gets the address back; finish: after its free was recorded. *release
 * must not move in between. */
void gp_releases_announce(gp_releases_t *releases, gp_release_t *release);
void gp_releases_finish(gp_releases_t *releases, gp_release_t *release);

/* Waits until none of the `size` bytes at address, at least 1, is in flight. */
void gp_releases_await(gp_releases_t *releases, uint64_t address, uint64_t size);

#endif
