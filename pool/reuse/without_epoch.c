/*
 * reuse/epoch_facts.h in a build without the folder reuse/epoch/: nothing is known of the work of single
 * streams. Mode `single` needs no more than which streams there are.
 */
#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/streams.h"

bool gp_epoch_is_built(void)
{
  return false;
}

gp_stream_fact_t gp_stream_fact_begin(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_work_submitted();
  return (gp_stream_fact_t){.stream = NULL};
}

void gp_stream_fact_settle(gp_engine_t *engine, const gp_stream_fact_t *fact)
{
}

/* Flags of streams are never cleared, so that ended streams go when their context has completed their end. */
void gp_epoch_settle(gp_engine_t *engine)
{
  uint64_t epoch = gp_epoch_begin(engine);

  if (!gp_mode_uses_streams(engine))
    return;
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    gp_streams_drop_ended(engine, context, epoch, atomic_load(&context->completed));
}

void gp_epoch_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
}

void gp_epoch_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
}

uint64_t gp_epoch_default_completed(const gp_context_t *context)
{
  return 0;
}

bool gp_epoch_poll(gp_engine_t *engine)
{
  return false;
}

bool gp_epoch_can_be_asked(gp_engine_t *engine)
{
  return false;
}
