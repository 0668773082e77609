#include "interpose/hooks/cuda_events.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stream_points.h"

/* Attribute numbers of CUlaunchAttribute, defined here because older headers lack them: CUDA 11.8 and 12.3
 * added them. */
#define ATTRIBUTE_PROGRAMMATIC       6
#define ATTRIBUTE_PROGRAMMATIC_EVENT 7
#define ATTRIBUTE_COMPLETION_EVENT   12

/*
 * Handles the attributes of two kinds of launches. Some launches record an event (cuda.h,
 * CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT and CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT): the event then no
 * longer has a stream point. Programmatic launches do not wait for the preceding kernel, but may use memory
 * that the pool has reused from that kernel. So that kernel must complete first, and from then on the library
 * relies on no stream's order (pool/reuse/stream_records.h).
 */
static void look_at_launch(gp_engine_t *engine, const void *launch, bool per_thread)
{
#if CUDA_VERSION >= 11080
  const CUlaunchConfig *config = launch;

  for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    bool is_programmatic =
        attribute->id == ATTRIBUTE_PROGRAMMATIC || attribute->id == ATTRIBUTE_PROGRAMMATIC_EVENT;
    if (gp_stream_points_trust_events(engine) &&
        (attribute->id == ATTRIBUTE_PROGRAMMATIC_EVENT || attribute->id == ATTRIBUTE_COMPLETION_EVENT))
      gp_event_distrust(*(const CUevent *)(const void *)&attribute->value); /* first in both structures */
    if (is_programmatic)
      gp_stream_record_prevent_overlap(engine, gp_stream_record_find(engine, config->hStream, per_thread),
          gp_engine_is_suspended(engine) && gp_stream_is_captured(config->hStream, per_thread));
  }
#else
  (void)launch; /* a program built with a toolkit whose headers lack the structure has no such launches */
  gp_stream_record_prevent_overlap(engine, NULL, false);
#endif
}

CUresult CUDAAPI hook_cuLaunchKernelEx(
    const void *config, CUfunction function, void **parameters, void **extra)
{
  gp_engine_t *engine = gp_library_engine();

  if (engine && config)
    look_at_launch(engine, config, false);
  return GP_REAL_CALL(cuLaunchKernelEx, config, function, parameters, extra);
}

CUresult CUDAAPI hook_cuLaunchKernelEx_ptsz(
    const void *config, CUfunction function, void **parameters, void **extra)
{
  gp_engine_t *engine = gp_library_engine();

  if (engine && config)
    look_at_launch(engine, config, true);
  return GP_REAL_CALL(cuLaunchKernelEx_ptsz, config, function, parameters, extra);
}
