/*
 * Memory that is being released to the driver. The driver may allocate any part of it to a new owner before
 * the releasing thread, back from the driver's free, has recorded the release. The new owner's thread then
 * waits until the release is recorded, so that events are recorded in their order. This does not wait for the
 * device, because the releasing thread has already left the driver; await_pending.h waits for the device.
 *
 * The caller of every function except init holds the lock that guards the list. A wait releases the lock
 * meanwhile.
 */
#ifndef GP_POOL_SPACE_RELEASES_H
#define GP_POOL_SPACE_RELEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"

typedef struct gp_release {
  gp_list_t link;
  uint64_t address; /* address, or handle that the driver may return again */
  uint64_t size;    /* bytes that the driver may allocate again, perhaps with adjacent ones; 1 for a handle */
} gp_release_t;

typedef struct gp_releases {
  gp_lock_t *lock;
  gp_list_t in_flight;
  gp_condition_t finished;
  uint64_t finished_count;
  uint64_t given_up; /* finished_count plus 1 when the last wait timed out; 0: none has timed out */
} gp_releases_t;

/* Initializes the list. `lock` is the caller's lock that guards the list. */
void gp_releases_init(gp_releases_t *releases, gp_lock_t *lock);

static inline bool gp_releases_are_none(const gp_releases_t *releases)
{
  gp_assert_internal(gp_lock_is_held(releases->lock));
  return gp_list_is_empty(&releases->in_flight);
}

/* The caller calls gp_releases_announce before the driver frees the address, and gp_releases_finish after the
 * free was recorded. *release must not be moved in between. */
void gp_releases_announce(gp_releases_t *releases, gp_release_t *release);
void gp_releases_finish(gp_releases_t *releases, gp_release_t *release);

/* Waits until none of the `size` (> 0) bytes at the address is being released to the driver. */
void gp_releases_await(gp_releases_t *releases, uint64_t address, uint64_t size);

#endif
