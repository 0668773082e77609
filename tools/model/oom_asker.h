/* Who asked for memory when it ran out. */
#ifndef GP_TOOLS_MODEL_OOM_ASKER_H
#define GP_TOOLS_MODEL_OOM_ASKER_H

#include "tools/model/oom_events.h"
#include "tools/symbols/stack_owners.h"

#define GP_OOM_ASKER_BYTES (3 * GP_OWNER_NAME_BYTES)

/* Each as gp_owner_describe, without the language, and gp_frame_describe write it. */
typedef struct gp_oom_asker {
  char by[GP_OOM_ASKER_BYTES];   /* the owner of the request's stack; "": no stack was recorded */
  char from[GP_OOM_ASKER_BYTES]; /* the next function of the user's that called it; "": none is known */
  const char *language;          /* of a script whose frames are not recorded; else NULL. Static */
} gp_oom_asker_t;

void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker);

#endif
