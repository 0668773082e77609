#include "pool/space/budget.h"

/* A share of the peak is at least this: a small program is no faster for giving back a little memory. */
#define SLACK_LEAST (64 * GP_MIB)

uint64_t gp_budget_bytes(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t slack = gp_amount_resolve(&engine->slack, device->highest_active);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (engine->slack.is_share && slack < SLACK_LEAST)
    slack = SLACK_LEAST;
  return slack > UINT64_MAX - device->highest_active ? UINT64_MAX : device->highest_active + slack;
}
