#include "pool/reuse/advance.h"

#include "pool/reuse/stamps.h"

void gp_advance(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  (void)gp_covered_raise(engine);
  gp_lock_release(&engine->contexts_lock);
}
