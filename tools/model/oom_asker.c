#include "tools/model/oom_asker.h"

#include <string.h>

#include "tools/symbols/frame_parts.h"
#include "tools/symbols/frame_text.h"

static int stack_of(const gp_snapshot_t *snapshot, const gp_oom_event_t *event)
{
  return event->has_event ? (int)gp_snapshot_event(&snapshot->events, GP_COLUMN_STACK, event->moment - 1, -1)
                          : -1;
}

/* The first frame outside the owner's that is the user's; -1: none. */
static int find_caller(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  for (size_t k = gp_stack_owner_place(snapshot, stack) + 1; k < stacks->first[stack + 1]; k++) {
    int frame = stacks->frame_indexes[k];
    if (!snapshot->frame_kinds || snapshot->frame_kinds[frame].part == GP_FRAME_OWNER)
      return frame;
  }
  return -1;
}

void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker)
{
  int stack = stack_of(snapshot, event);
  gp_owner_text_t text;

  asker->by[0] = asker->from[0] = '\0';
  if (!gp_stack_owner_text(snapshot, stack, &text))
    return;
  gp_owner_describe(&text, asker->by, sizeof(asker->by));
  int caller = find_caller(snapshot, stack);
  if (caller >= 0)
    gp_frame_describe(snapshot, caller, asker->from, sizeof(asker->from));
}
