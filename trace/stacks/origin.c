#include "trace/stacks/origin.h"

#include "trace/internal.h"
#include "trace/stacks/stack_room.h"
#include "trace/stacks/unwind.h"

__thread gp_origin_thread_t gp_origin_tls __attribute__((tls_model("initial-exec"), visibility("hidden")));

static bool is_wanted(const gp_recorder_t *recorder, gp_occasion_t occasion, uint64_t size)
{
  switch (occasion) {
  case GP_OCCASION_ALLOC: return recorder->stacks_mode != GP_STACKS_AUTO || size > recorder->small_max;
  case GP_OCCASION_FREE: return recorder->stacks_free;
  case GP_OCCASION_DRIVER: return true;
  }
  return false;
}

/* Not inlined: the addresses take room on the stack, which most calls do without. */
static __attribute__((noinline)) uint32_t capture(gp_recorder_t *recorder)
{
  uintptr_t addresses[GP_UNWIND_FRAMES_MAX];
  gp_unwinder_t unwinder =
      recorder->stacks_mode == GP_STACKS_FP ? GP_UNWINDER_FRAME_POINTERS : GP_UNWINDER_BEST;
  gp_loader_counts_t counts = gp_loader_counts();
  size_t count = gp_unwind(unwinder, counts.unloads, addresses, recorder->stack_depth);
  return gp_stacks_intern(&recorder->stacks, addresses, count, counts);
}

void gp_origin_find(void *self, gp_occasion_t occasion, uint64_t size)
{
  gp_recorder_t *recorder = self;

  if (gp_origin_tls.is_known || atomic_load_explicit(&recorder->mode, memory_order_relaxed) == GP_TRACE_OFF ||
      !is_wanted(recorder, occasion, size))
    return;
  gp_origin_tls.is_known = true;
  gp_region_start(
      &recorder->region); /* its files, and the capture: one after the other they need less stack */
  /* Before anything else, the loader's lock in particular: this may be a signal handler's stack, or a full
   * one. */
  gp_origin_tls.origin = gp_stack_has_room(GP_UNWIND_ROOM_BYTES) ? capture(recorder) : GP_ORIGIN_NONE;
}

uint32_t gp_origin_tell(void *self)
{
  (void)self;
  return gp_origin_tls.origin;
}
