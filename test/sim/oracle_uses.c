/*
 * The ordering oracle: lists of uses, one for each stream that used something.
 */
#include "oracle_clock.h"

#include <stdlib.h>

void sim_uses_prune(sim_uses_t *uses)
{
  for (unsigned i = 0; i < uses->count;) {
    if (sim_use_is_before(&uses->list[i], &sim_known))
      uses->list[i] = uses->list[--uses->count];
    else
      i++;
  }
}

void sim_uses_note(sim_uses_t *uses, const sim_use_t *use)
{
  for (unsigned i = 0; i < uses->count; i++) {
    if (uses->list[i].slot == use->slot) {
      uses->list[i] = *use;
      return;
    }
  }
  sim_uses_prune(uses);
  if (uses->count == uses->room) {
    uses->room = uses->room ? 2 * uses->room : 4;
    uses->list = realloc(uses->list, uses->room * sizeof *uses->list);
    if (!uses->list)
      abort();
  }
  uses->list[uses->count++] = *use;
}

void sim_uses_clear(sim_uses_t *uses)
{
  free(uses->list);
  *uses = (sim_uses_t){0};
}

const char *sim_use_name(const sim_use_t *use)
{
  static const char *const names[] = {
      [SIM_OP_COPY] = "copy",
      [SIM_OP_FILL] = "fill",
      [SIM_OP_EXPECT] = "read",
      [SIM_OP_HOST] = "host function",
      [SIM_OP_CALLBACK] = "callback",
      [SIM_OP_FREE] = "free",
      [SIM_OP_WRITE_VALUE] = "written value",
      [SIM_OP_WAIT_VALUE] = "awaited value",
  };
  return (size_t)use->kind < sizeof names / sizeof *names && names[use->kind] ? names[use->kind]
                                                                              : "operation";
}
