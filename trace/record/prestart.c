#include "trace/record/prestart.h"

void gp_prestart_init(gp_prestart_t *prestart)
{
  gp_lock_init(&prestart->lock, GP_RANK_PRESTART);
}

void gp_prestart_fini(gp_prestart_t *prestart)
{
  gp_assert_internal(gp_lock_is_free(&prestart->lock));
}

bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event)
{
  gp_lock_take(&prestart->lock);
  bool kept = !prestart->is_over && prestart->count < GP_PRESTART_EVENTS;
  gp_assert_internal(gp_lock_is_held(&prestart->lock));
  if (kept)
    prestart->events[prestart->count++] = (gp_prestart_event_t){*event, gp_threads_describe_caller()};
  gp_lock_release(&prestart->lock);
  return kept;
}

bool gp_prestart_end(gp_prestart_t *prestart)
{
  gp_lock_take(&prestart->lock);
  bool is_first = !prestart->is_over;
  gp_assert_internal(gp_lock_is_held(&prestart->lock));
  gp_assert(prestart->count <= GP_PRESTART_EVENTS);
  prestart->is_over = true;
  gp_lock_release(&prestart->lock);
  return is_first;
}
