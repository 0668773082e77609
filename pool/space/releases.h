/*
 * Memory on its way to the driver. The driver may give part of it anew, from whatever address on, while the
 * thread that released it, back from the driver's free, has not got to recording that. The new owner's thread
 * waits for it, which keeps the history in the order in which things happened. That thread is on its way, so
 * this is no wait for the device; await_release.h has that.
 *
 * The caller of every function but init holds the lock that guards the list; the waits release it meanwhile.
 */
#ifndef GP_POOL_SPACE_RELEASES_H
#define GP_POOL_SPACE_RELEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/util/list.h"
#include "pool/util/lock.h"

typedef struct gp_release {
  gp_list_t link;
  uint64_t address; /* or the handle that the driver may give anew */
  uint64_t size;    /* bytes that it may give again, with others beside them; 1 of a handle */
} gp_release_t;

typedef struct gp_releases {
  gp_lock_t *lock;
  gp_list_t in_flight;
  gp_condition_t finished;
  uint64_t finished_count;
  uint64_t given_up; /* finished_count when a wait for one was given up last, plus 1; 0: never */
} gp_releases_t;

/* lock: the caller's, that guards the list. */
void gp_releases_init(gp_releases_t *releases, gp_lock_t *lock);

static inline bool gp_releases_are_none(const gp_releases_t *releases)
{
  gp_assert_internal(gp_lock_is_held(releases->lock));
  return gp_list_is_empty(&releases->in_flight);
}

/* Before the driver has the address, and after the free of it was recorded. release stays where it is in
 * between. */
void gp_releases_announce(gp_releases_t *releases, gp_release_t *release);
void gp_releases_finish(gp_releases_t *releases, gp_release_t *release);

/* Waits until none of the `size` bytes at address, at least 1, is in flight. */
void gp_releases_await(gp_releases_t *releases, uint64_t address, uint64_t size);

#endif
