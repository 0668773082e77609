#include "pool/reuse/await_release.h"

#include "pool/space/driver_calls.h"
#include "pool/engine_record.h"
#include "pool/limits/oom_turn.h"

#define PAUSE_NS UINT64_C(100000)

/* The number of releases that have finished; *ret_waits: a wait for another one is worthwhile. */
static uint64_t count_finished(gp_device_t *device, bool *ret_waits)
{
  gp_lock_take(&device->lock);
  const gp_releases_t *releases = &gp_locked(device)->releases;
  uint64_t count = releases->finished_count;
  *ret_waits = !gp_releases_are_none(releases) && releases->given_up != count + 1;
  gp_lock_release(&device->lock);
  return count;
}

static void give_up(gp_device_t *device, uint64_t count)
{
  gp_lock_take(&device->lock);
  gp_releases_t *releases = &gp_locked(device)->releases;
  if (releases->finished_count == count)
    releases->given_up = count + 1;
  gp_lock_release(&device->lock);
}

bool gp_await_release(
    gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts, uint64_t limit_ns)
{
  bool waits;

  gp_assert(!gp_holds_engine_lock());
  uint64_t before = count_finished(device, &waits);
  while (waits) {
    if (attempts->later_ns >= limit_ns) {
      attempts->was_in_vain = true;
      if (limit_ns >= engine->patience_ns)
        give_up(device, before);
      return false;
    }
    uint64_t begin_ns = gp_now(engine);
    gp_oom_turn_pause(engine, device, PAUSE_NS);
    uint64_t end_ns = gp_now(engine);
    attempts->later_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
    if (count_finished(device, &waits) != before)
      return true;
  }
  return false;
}
