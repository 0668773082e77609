#include "tools/html/phases.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/array.h"
#include "tools/model/memory.h"
#include "tools/model/phases.h"

typedef struct build {
  const gp_choice_t *choice;
  gp_page_names_t *names;
  gp_phases_t phases;
  gp_payload_column_t *begin, *end, *depth, *name;
  uint32_t *begins; /* of the phases that are open, the outermost first: moments of the lifetimes */
  size_t open_count;
} build_t;

/* Ends the innermost open phase. */
static void end_phase(build_t *build, int32_t phase, uint32_t end)
{
  const gp_choice_t *choice = build->choice;
  uint32_t begin = build->begins[--build->open_count];

  if (!gp_choice_has(choice, begin, end))
    return;
  uint32_t from = gp_choice_moment(choice, begin), to = gp_choice_moment(choice, end);
  to = to > choice->end ? choice->end : to;
  if (from >= to)
    return;
  gp_payload_add(build->begin, from);
  gp_payload_add(build->end, to);
  gp_payload_add(build->depth, build->open_count < UINT8_MAX ? (int64_t)build->open_count : UINT8_MAX);
  gp_payload_add(build->name, (int64_t)gp_page_name(build->names, build->phases.phases[phase].name));
}

/* Follows the changes. A thread goes one range in or out at a time; the process from one to another. */
static int follow(build_t *build, const gp_phase_changes_t *changes)
{
  const gp_phase_t *phases = build->phases.phases;
  int32_t now = -1;

  for (size_t i = 0; i < changes->count; i++) {
    int32_t next = changes->items[i].phase;
    uint32_t moment = gp_memory_moment(build->choice->lifetimes, changes->items[i].time_ns);
    bool is_inner = next >= 0 && next != now && phases[next].parent == now;
    if (now >= 0 && !is_inner) {
      end_phase(build, now, moment);
      now = phases[now].parent;
    }
    if (next >= 0 && next != now) {
      uint32_t *begin = GP_ARRAY_ADD(build->begins, build->open_count);
      if (!begin)
        return ENOMEM;
      *begin = moment;
    }
    now = next;
  }
  for (; now >= 0; now = phases[now].parent)
    end_phase(build, now, GP_LIFETIMES_NEVER);
  return 0;
}

int gp_page_add_phases(gp_payload_t *payload, cJSON *list, gp_page_names_t *names, const gp_choice_t *choice)
{
  const gp_lifetimes_t *lifetimes = choice->lifetimes;
  build_t build = {.choice = choice, .names = names};

  int error = gp_phases_init(&build.phases, lifetimes->snapshot);
  if (!error && build.phases.count > 0) {
    build.begin = gp_payload_column(payload, list, "phase.begin", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA);
    build.end = gp_payload_column(payload, list, "phase.end", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA);
    build.depth = gp_payload_column(payload, list, "phase.depth", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE);
    build.name = gp_payload_column(payload, list, "phase.name", GP_PAYLOAD_U32, GP_PAYLOAD_VARINT);
    error = follow(&build, gp_phases_main(&build.phases, gp_memory_time(lifetimes, lifetimes->end)));
  }
  free(build.begins);
  gp_phases_fini(&build.phases);
  return error;
}
