#include "trace/stacks/origin.h"

#include "base/loader_walk.h"
#include "base/log.h"
#include "trace/stacks/known_stacks.h"
#include "trace/stacks/stack_room.h"
#include "trace/stacks/unwind.h"

__thread gp_origin_thread_t gp_origin_tls __attribute__((tls_model("initial-exec"), visibility("hidden")));

void gp_origins_init(gp_origins_t *origins, const gp_options_t *options, gp_region_t *region)
{
  *origins = (gp_origins_t){.mode = (int)gp_option_number(options, GP_OPTION_stacks)};
  origins->depth = (size_t)gp_option_number(options, GP_OPTION_stack_depth);
  origins->small_max = gp_option_number(options, GP_OPTION_small_max);
  if (origins->mode == GP_STACKS_OFF)
    return;
  if (gp_stacks_init(&origins->stacks, region)) {
    origins->has_frees = gp_option_number(options, GP_OPTION_stacks_free);
    return;
  }
  origins->mode = GP_STACKS_OFF;
  gp_log(GP_LOG_ERROR, "out of host memory: no stacks will be recorded");
}

void gp_origins_fini(gp_origins_t *origins)
{
  gp_stacks_fini(&origins->stacks);
}

static bool is_wanted(const gp_origins_t *origins, gp_occasion_t occasion, uint64_t size)
{
  switch (occasion) {
  case GP_OCCASION_ALLOC: return origins->mode != GP_STACKS_AUTO || size > origins->small_max;
  case GP_OCCASION_FREE: return origins->has_frees;
  case GP_OCCASION_DRIVER: return true;
  }
  return false;
}

/* Captures the current native stack and returns its number. Not inlined, because the addresses take stack
 * space that most calls do not need. */
static __attribute__((noinline)) uint32_t capture(
    gp_origins_t *origins, const gp_known_site_t *site, gp_loader_counts_t counts)
{
  union {
    void *found[GP_UNWIND_FRAMES_MAX + GP_UNWIND_OWN_MAX]; /* as the unwinder writes them */
    uintptr_t addresses[GP_UNWIND_FRAMES_MAX + GP_UNWIND_OWN_MAX];
  } frames;
  size_t wanted = origins->depth + GP_UNWIND_OWN_MAX;
  gp_unwinder_t unwinder = origins->mode == GP_STACKS_FP ? GP_UNWINDER_FRAME_POINTERS : GP_UNWINDER_BEST;

  size_t found = gp_unwind_all(unwinder, counts.unloads, frames.found, wanted);
  size_t own = gp_unwind_count_own(frames.found, found);
  size_t count = found - own < origins->depth ? found - own : origins->depth;
  uint32_t number = gp_stacks_intern(&origins->stacks, &frames.addresses[own], count, counts);
  if (site)
    gp_known_stacks_learn(
        site, number, frames.found, own + count, count == origins->depth || found == wanted);
  return number;
}

/* Returns the number of the current native stack. Captures the stack only if it is not known. Not inlined,
 * because the entries of known stacks begin at this function's frame. */
static __attribute__((noinline)) uint32_t find_native(gp_origins_t *origins, gp_loader_counts_t counts)
{
  const gp_known_site_t site = {__builtin_frame_address(0), origins->stacks.id, counts.unloads};
  bool is_quick =
      origins->mode == GP_STACKS_FP; /* a capture by frame pointers takes no longer than a search */

  uint32_t known = is_quick ? 0 : gp_known_stacks_find(&site);
  if (known && GP_DEBUG_LEVEL < 3)
    return known;
  uint32_t number = capture(origins, known || is_quick ? NULL : &site, counts);
  gp_assert_full(known == 0 || known == number);
  return number;
}

static __attribute__((noinline)) uint32_t read_python(
    gp_origins_t *origins, const gp_python_t *python, uint32_t native)
{
  uint64_t words[GP_UNWIND_FRAMES_MAX];
  size_t count = gp_python_frames(&origins->stacks.codes, python, words, origins->depth);

  return count ? gp_stacks_intern_python(&origins->stacks, python, native, words, count, origins->depth)
               : native;
}

/* Returns the number of the stack that merges the native stack `native` with the call's Python frames.
 * Returns `native` if there are no Python frames. */
static __attribute__((noinline)) uint32_t add_python(
    gp_origins_t *origins, uint32_t native, gp_loader_counts_t counts)
{
  const gp_python_t *python = gp_python_find(counts);
  uint64_t digest = python ? gp_python_walk_digest(python, origins->depth) : 0;
  uint32_t known = gp_stacks_recall(&origins->stacks, native, digest);
  if (!python || (known && GP_DEBUG_LEVEL < 3))
    return python ? known : native;
  uint32_t number = read_python(origins, python, native);
  gp_assert_full(known == 0 || known == number);
  gp_stacks_remember(&origins->stacks, native, digest, number);
  return number;
}

static uint32_t find_or_capture(gp_origins_t *origins)
{
  gp_loader_counts_t counts = gp_loader_counts();
  int mode = origins->mode;
  bool has_python = mode == GP_STACKS_AUTO || mode == GP_STACKS_PYTHON || mode == GP_STACKS_ALL;

  uint32_t native = mode == GP_STACKS_PYTHON ? 0 : find_native(origins, counts);
  return has_python ? add_python(origins, native, counts) : native;
}

void gp_origin_find(gp_origins_t *origins, gp_occasion_t occasion, uint64_t size)
{
  if (gp_origin_tls.is_known || !is_wanted(origins, occasion, size))
    return;
  gp_origin_tls.is_known = true;
  /* Creates the region's file before the capture. Nested inside the capture, this would need more stack. */
  gp_region_start(origins->stacks.region);
  gp_origin_tls.origin = GP_ORIGIN_NONE;
  /*
   * Checks the stack space first, in particular before the loader's lock is taken: this may be a signal
   * handler's stack, or a nearly full one. While another thread forks, the call gets no stack, because a
   * capture needs the loader.
   */
  if (!gp_stack_has_room(GP_UNWIND_ROOM_BYTES) || !gp_loader_walk_begin())
    return;
  gp_origin_tls.origin = find_or_capture(origins);
  gp_loader_walk_end();
}
