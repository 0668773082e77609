#include "pool/space/budget.h"

#include "pool/engine_record.h"

uint64_t gp_budget_bytes(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t slack = gp_amount_resolve(&engine->slack, device->highest_whole);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (engine->slack.is_share && slack < GP_SLACK_LEAST)
    slack = GP_SLACK_LEAST;
  return slack > UINT64_MAX - device->highest_whole ? UINT64_MAX : device->highest_whole + slack;
}
