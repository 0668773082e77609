#include "interpose/sight/work.h"

#include <stdatomic.h>

#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/sight/cuda_events.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "interpose/sight/stubs.h"
#include "pool/reuse/identities.h"
#include "pool/reuse/single.h"
#include "pool/reuse/stream_points.h"

/* CU_STREAM_PER_THREAD of cuda.h, as a number; the legacy stream is 0 or 1 */
#define STREAM_PER_THREAD UINT64_C(2)

/* By CUDA's rule threads' own streams, and created ones unless made otherwise, run behind the legacy
 * default stream. True in case of doubt. */
static bool is_non_blocking(CUstream stream)
{
  unsigned flags;
  return GP_REAL_CALL(cuStreamGetFlags, stream, &flags) != CUDA_SUCCESS || flags & CU_STREAM_NON_BLOCKING;
}

/* Ignores errors: the program's own call will return them. */
void gp_work_note_single(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  uint64_t handle = (uint64_t)(uintptr_t)stream;

  if (gp_mode_is_distrusted())
    (void)gp_single_end(engine, "a library looks for the driver's functions behind this one");
  else if (handle > STREAM_PER_THREAD)
    (void)gp_single_end_for_stream(
        engine, is_non_blocking(stream) ? handle : 0, "there is work in a second stream");
  else if (handle == STREAM_PER_THREAD || (handle == 0 && per_thread))
    (void)gp_single_end_for_stream(engine, 0, "a thread uses its own default stream");
}

/* Members of CUlaunchConfig and CUlaunchAttribute, with numbers and names of this library's: CUDA 11.8
 * and 12.3 brought theirs. */
#define ATTRIBUTE_PROGRAMMATIC       6
#define ATTRIBUTE_PROGRAMMATIC_EVENT 7
#define ATTRIBUTE_COMPLETION_EVENT   12

gp_identity_t *gp_work_identity(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  uint64_t handle = (uint64_t)(uintptr_t)stream;
  if (handle > STREAM_PER_THREAD)
    return gp_identity_of(engine, handle);
  gp_context_t *context = gp_current_context(engine);
  if (!context || gp_green_contexts_exist() || !gp_engine_keeps_ordered(engine))
    return NULL;
  return gp_identity_of_default(engine, context,
      handle       ? handle
      : per_thread ? GP_STREAM_PER_THREAD
                   : GP_STREAM_LEGACY);
}

/*
 * Looks for two kinds of launches. Some record an event (cuda.h, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT and
 * CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT), which then stands for something else. Programmatic ones do
 * not wait for the kernel in front of them, whose memory they may have got: that kernel must be over first,
 * and from then on the library relies on no stream's order (pool/reuse/identities.h).
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
      gp_event_distrust(*(const CUevent *)(const void *)&attribute->value); /* first in either structure */
    if (is_programmatic)
      gp_identity_launches_early(engine, gp_work_identity(engine, config->hStream, per_thread),
          gp_engine_is_suspended(engine) && gp_stream_is_captured(config->hStream, per_thread));
    if (is_programmatic)
      (void)gp_single_end(engine, "launches overlap the ones in front of them");
  }
  gp_work_note(engine, config->hStream, per_thread);
#else
  (void)launch; /* a toolkit whose headers lack the structure has no such launches */
  gp_identity_launches_early(engine, NULL, false);
  (void)gp_single_end(engine, "the stream of a launch is in a structure that the headers of the build lack");
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

#if GP_HAS_WORK_STUBS

typedef enum where {
  WHERE_ARGUMENT_1,
  WHERE_ARGUMENT_2,
  WHERE_ARGUMENT_3,
  WHERE_ARGUMENT_4,
  WHERE_ARGUMENT_5,
  WHERE_ARGUMENT_6,
  WHERE_ARGUMENT_8,
  WHERE_ARGUMENT_9,
  WHERE_DEFAULT,
  WHERE_MANY,
} where_t;

static const struct {
  unsigned char per_thread;
  unsigned char where;
} functions[] = {
#define WORK(symbol, base, since, per_thread, where)                                                         \
  [GP_FN_##symbol - GP_HOOK_COUNT] = {per_thread, WHERE_##where},
#include "interpose/sight/work.def"
#include "base/assert.h"
};

static CUresult CUDAAPI not_found(void)
{
  return CUDA_ERROR_NOT_FOUND;
}

/* The stubs take the slow way: mode `single` may hold, or there may be unordered work. */
extern atomic_uchar gp_work_is_watched;
atomic_uchar gp_work_is_watched = 1;

/* Only the stubs call this, and jump to the returned function. */
void *gp_work_slow(uint64_t stream, unsigned function);

void *gp_work_slow(uint64_t stream, unsigned function)
{
  gp_engine_t *engine = gp_library_engine(); /* binds */
  gp_assert(function >= GP_HOOK_COUNT && function < GP_REPLACED_COUNT);
  void *real = gp_real_get((gp_function_t)function);
  const where_t where = functions[function - GP_HOOK_COUNT].where;

  if (!real)
    return (void *)not_found; /* see GP_REAL_CALL */
  if (engine && where == WHERE_MANY)
    (void)gp_single_end(engine, "one call submits work to several streams");
  else
    gp_work_note(engine, (CUstream)(uintptr_t)stream, functions[function - GP_HOOK_COUNT].per_thread);
  if (engine && gp_single_is_over(engine))
    atomic_store(&gp_work_is_watched, 0); /* for good */
  return real;
}

#endif
