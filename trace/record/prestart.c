#include "trace/record/prestart.h"

bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event)
{
  (void)pthread_mutex_lock(&prestart->mutex); /* a plain mutex cannot fail */
  bool kept = !prestart->is_over && prestart->count < GP_PRESTART_EVENTS;
  if (kept)
    prestart->events[prestart->count++] = (gp_prestart_event_t){*event, gp_threads_describe_caller()};
  (void)pthread_mutex_unlock(&prestart->mutex); /* held */
  return kept;
}

bool gp_prestart_end(gp_prestart_t *prestart)
{
  (void)pthread_mutex_lock(&prestart->mutex); /* a plain mutex cannot fail */
  bool is_first = !prestart->is_over;
  prestart->is_over = true;
  (void)pthread_mutex_unlock(&prestart->mutex); /* held */
  return is_first;
}
