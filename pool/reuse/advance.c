#include "pool/reuse/advance.h"

#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/single_order.h"
#include "pool/reuse/single_stream.h"
#include "pool/reuse/stamps.h"
#include "pool/util/log.h"

void gp_streams_distrust(void)
{
  gp_mode_distrust();
}

void gp_streams_escape(gp_engine_t *engine, const char *why)
{
  gp_assert(!gp_holds_engine_lock());
  if (!gp_mode_follows_streams(engine)) {
    (void)gp_single_stream_settle(engine); /* another thread was first, and may be at that still */
    return;
  }
  gp_lock_take(&engine->contexts_lock);
  bool first = gp_mode_follows_streams(engine);
  (void)gp_single_order_end(engine, GP_DETAIL_NONE);
  if (first)
    gp_mode_change_reuse(engine, GP_MODE_CONTEXT);
  gp_lock_release(&engine->contexts_lock);
  (void)gp_single_stream_settle(engine);
  if (!first)
    return;
  gp_log(GP_LOG_INFO, "reuse mode is context from now on: %s", why);
  gp_mode_record(engine, GP_DETAIL_MODE_CONTEXT);
}

/* Libraries that were loaded since, and look-ups that went past the stubs. */
static void look_for_escapes(gp_engine_t *engine)
{
  if (gp_mode_uses_streams(engine) && engine->driver.ops->look_for_escapes)
    engine->driver.ops->look_for_escapes(engine->driver.self);
  if (gp_mode_is_distrusted())
    gp_streams_escape(engine, "a library looks for the driver's functions behind this one");
}

void gp_advance(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  look_for_escapes(engine);
  gp_lock_take(&engine->contexts_lock);
  if (gp_mode_uses_streams(engine))
    gp_epoch_settle(engine);
  (void)gp_covered_raise(engine);
  gp_lock_release(&engine->contexts_lock);
}
