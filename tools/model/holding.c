#include "tools/model/holding.h"

#include <stdio.h>

#include "base/size.h"
#include "tools/output.h"

#define ALIKE 100 /* sizes that differ by at most 1 / ALIKE are printed as one */

void gp_holding_add(gp_holding_t *holding, uint64_t requested)
{
  gp_holding_join(holding, &(gp_holding_t){.blocks = 1, .least = requested, .most = requested});
}

void gp_holding_join(gp_holding_t *holding, const gp_holding_t *other)
{
  holding->freed += other->freed;
  holding->is_passing |= other->is_passing;
  if (!other->blocks)
    return;
  holding->least = !holding->blocks || other->least < holding->least ? other->least : holding->least;
  holding->most = other->most > holding->most ? other->most : holding->most;
  holding->blocks += other->blocks;
}

bool gp_holding_knows_frees(const gp_snapshot_t *snapshot)
{
  return !snapshot->lacks_history && !gp_snapshot_is_partial(snapshot);
}

char *gp_holding_text(
    const gp_holding_t *holding, const gp_snapshot_t *snapshot, char buffer[static GP_HOLDING_BYTES])
{
  char least[GP_SIZE_TEXT_BYTES], most[GP_SIZE_TEXT_BYTES], sizes[64] = "", freed[64] = "";

  gp_size_format(holding->least, least);
  gp_size_format(holding->most, most);
  if (holding->blocks > 1 && holding->most - holding->least <= holding->most / ALIKE)
    snprintf(sizes, sizeof(sizes), " of %s%s", holding->least < holding->most ? "about " : "", most);
  else if (holding->blocks > 1)
    snprintf(sizes, sizeof(sizes), " of %s to %s", least, most);
  if (holding->freed)
    snprintf(freed, sizeof(freed), ", %s freed", GP_AS_COUNT(holding->freed));
  else if (holding->blocks > 1 && !holding->is_passing && gp_holding_knows_frees(snapshot))
    snprintf(freed, sizeof(freed), ", none freed");
  snprintf(buffer, GP_HOLDING_BYTES, "in %s%s%s", GP_AS_PLURAL(holding->blocks, "block"), sizes, freed);
  return buffer;
}
