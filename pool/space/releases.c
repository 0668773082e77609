#include "pool/space/releases.h"

void gp_releases_init(gp_releases_t *releases, gp_lock_t *lock)
{
  releases->lock = lock;
  gp_list_init(&releases->in_flight);
  releases->finished = (gp_condition_t){0};
}

void gp_releases_announce(gp_releases_t *releases, gp_release_t *release)
{
  gp_assert_internal(gp_lock_is_held(releases->lock));
  gp_list_push_back(&releases->in_flight, &release->link);
}

void gp_releases_finish(gp_releases_t *releases, gp_release_t *release)
{
  gp_assert_internal(gp_lock_is_held(releases->lock) && !gp_list_is_empty(&release->link));
  gp_list_remove(&release->link);
  releases->finished_count++;
  gp_condition_tell(&releases->finished);
}

static bool is_in_flight(const gp_releases_t *releases, uint64_t address, uint64_t size)
{
  gp_assert_internal(gp_lock_is_held(releases->lock));
  GP_LIST_EACH(&releases->in_flight, const gp_release_t, link, release)
    if (release->address < address + size && address < release->address + release->size)
      return true;
  return false;
}

void gp_releases_await(gp_releases_t *releases, uint64_t address, uint64_t size)
{
  while (is_in_flight(releases, address, size))
    gp_lock_wait(releases->lock, &releases->finished);
}
