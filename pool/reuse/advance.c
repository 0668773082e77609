#include "pool/reuse/advance.h"

#include "pool/mode.h"
#include "pool/reuse/single.h"
#include "pool/reuse/stamps.h"

void gp_advance(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  if (gp_mode_is_distrusted())
    (void)gp_single_end(engine, "a library looks for the driver's functions behind this one");
  gp_lock_take(&engine->contexts_lock);
  (void)gp_covered_raise(engine);
  gp_lock_release(&engine->contexts_lock);
}
