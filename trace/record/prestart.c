#include "trace/record/prestart.h"

bool gp_early_keep(gp_early_t *early, const gp_event_t *event)
{
  (void)pthread_mutex_lock(&early->mutex); /* a plain mutex cannot fail */
  bool kept = !early->is_over && early->count < GP_EARLY_EVENTS;
  if (kept)
    early->events[early->count++] = (gp_early_event_t){*event, gp_threads_describe_caller()};
  (void)pthread_mutex_unlock(&early->mutex); /* held */
  return kept;
}

bool gp_early_end(gp_early_t *early)
{
  (void)pthread_mutex_lock(&early->mutex); /* a plain mutex cannot fail */
  bool is_first = !early->is_over;
  early->is_over = true;
  (void)pthread_mutex_unlock(&early->mutex); /* held */
  return is_first;
}
