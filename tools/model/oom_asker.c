#include "tools/model/oom_asker.h"

#include "tools/symbols/frame_text.h"

static int stack_of(const gp_snapshot_t *snapshot, const gp_oom_event_t *event)
{
  return event->has_event ? (int)gp_snapshot_event(&snapshot->events, GP_COLUMN_STACK, event->moment - 1, -1)
                          : -1;
}

void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker)
{
  int stack = stack_of(snapshot, event);
  gp_owner_text_t text;

  *asker = (gp_oom_asker_t){.language = NULL};
  if (!gp_stack_owner_text(snapshot, stack, &text))
    return;
  asker->language = text.language;
  text.language = NULL;
  gp_owner_describe(&text, asker->by, sizeof(asker->by));
  size_t caller = gp_stack_next_user(snapshot, stack, gp_stack_owner_place(snapshot, stack));
  if (caller != SIZE_MAX)
    gp_frame_describe(snapshot, snapshot->stacks.frame_indexes[caller], asker->from, sizeof(asker->from));
}
