#include "interpose/routes/unknown.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/cancel.h"
#include "base/log.h"
#include "interpose/hooks/capture_records.h"
#include "interpose/hooks/export.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/after_unknown.h"
#include "interpose/routes/classes.h"
#include "interpose/routes/real.h"
#include "interpose/routes/unknown_slots.h"
#include "pool/engine.h"
#include "pool/forwarded/forwarded.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/mode.h"

/*
 * Handles calls of functions that free memory and that the tables lack. The driver's free must not get an
 * address that the pool owns: the address may be that of a whole segment, or of memory that the program has
 * already freed. If the first argument is such an address, this module replaces the driver's function.
 */

/* Replacements for a driver function with any parameters. */
static CUresult CUDAAPI answer_success(void)
{
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI answer_invalid_value(void)
{
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI answer_not_supported(void)
{
  return CUDA_ERROR_NOT_SUPPORTED;
}

static void tell_refused(const char *name)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&has_reported))
    gp_log(GP_LOG_ERROR,
        "%s, which this version of gpupool does not know, cannot free memory cut from a larger allocation; set GPUPOOL_TYPE=round, or use a newer gpupool",
        name);
}

/* Returns true if cuMemFree accepts the address, so that the hook of cuMemFree can serve the program's
 * call. */
static bool is_known(gp_engine_t *engine, uint64_t address)
{
  gp_forwarded_t memory;
  return gp_engine_owner(engine, address) != GP_OWNER_UNKNOWN ||
         gp_engine_forwarded_find(engine, GP_SPACE_POINTER, address, &memory);
}

/* Notes that the block leaves the pool without a driver call. The program's driver call follows. Even if the
 * driver refuses that call, the driver handles later calls with the address. */
static int leave(void *arg, bool is_cut)
{
  *(bool *)arg = true;
  gp_assert(!is_cut);
  return CUDA_SUCCESS;
}

/*
 * Returns the function to which a trampoline must jump instead of the driver's function, with the caller's
 * arguments. Returns NULL for the driver's function, because the pool does not own the memory, or no longer
 * owns it. `name` is the function's name. Any thread.
 */
static void *unknown_free_answer(gp_engine_t *engine, gp_frees_t frees, uint64_t address, const char *name)
{
  gp_part_t part;
  bool has_left = false;
  int code = CUDA_SUCCESS;

  if (frees == GP_FREES_NOTHING)
    return NULL;
  if (frees == GP_FREES_POINTER)
    return is_known(engine, address) ? (void *)hook_cuMemFree_v2 : NULL;
  switch (gp_engine_owner(engine, address)) {
  case GP_OWNER_UNKNOWN: return NULL;
  case GP_OWNER_POOL: return (void *)answer_invalid_value;
  case GP_OWNER_PROGRAM: break;
  }
  if (gp_engine_part(engine, address, &part)) {
    tell_refused(name);
    return (void *)answer_not_supported;
  }
  if (gp_engine_free_with(engine, address, leave, &has_left, &code) == GP_FREE_UNKNOWN || has_left)
    return NULL;
  return code == CUDA_SUCCESS ? (void *)answer_success
                              : (void *)answer_invalid_value; /* another reference to the block exists */
}

#define SLOT_BYTES 16
#if defined(__x86_64__)
#define REGISTER_ARGUMENTS 6
#else
#define REGISTER_ARGUMENTS 8
#endif

#define NAME_BYTES 80 /* the driver's longest name has 41 bytes; messages truncate longer names */

/* The trampolines read these arrays. A thread takes a slot permanently by storing its function in
 * gp_unknown_functions. Once a slot is settled, later calls have no further effect, so the trampoline jumps
 * at once. */
void *gp_unknown_functions[GP_UNKNOWN_SLOTS];
unsigned char gp_unknown_settled[GP_UNKNOWN_SLOTS];
extern const char gp_unknown_slots[] __attribute__((visibility("hidden")));

static struct {
  _Atomic unsigned char effect; /* stored before the look-up returns the trampoline */
  _Atomic unsigned char frees;  /* stored before the look-up returns the trampoline */
  _Atomic bool ends_capture; /* for effect CAPTURE; false: the function begins a capture, or may begin one */
  _Atomic bool is_named;     /* `name` is complete */
  atomic_flag is_told;
  char name[NAME_BYTES];
} slots[GP_UNKNOWN_SLOTS];

/*
 * Look-ups
 */

/*
 * Returns a prefix that describes the function in messages. Programs pass cuGetProcAddress the name that all
 * variants share. The loader knows which variant the driver returned (dladdr), but a query takes the loader's
 * lock, and a thread that has that lock, in a library's constructor, may wait for this thread.
 */
static const char *variant_text(const char *name)
{
  return gp_class_is_known(name) ? "a newer variant of " : "";
}

static int take_slot(void *function, const char *name)
{
  for (int i = 0; i < GP_UNKNOWN_SLOTS; i++) {
    void *taken = __atomic_load_n(&gp_unknown_functions[i], __ATOMIC_ACQUIRE);
    if (!taken && __atomic_compare_exchange_n(&gp_unknown_functions[i], &taken, function, false,
                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      (void)snprintf(slots[i].name, sizeof(slots[i].name), "%s%s", variant_text(name), name);
      atomic_store(&slots[i].is_named, true);
      taken = function;
    }
    if (taken == function)
      return i;
  }
  return -1;
}

/* Returns true if the name of a capture function shows that it only ends a capture. For other functions "End"
 * proves nothing: CUDA has endpoints. */
static bool ends_capture(const char *name)
{
  return strstr(name, "End") && !strstr(name, "Begin");
}

void *gp_unknown_wrap(void *function, const char *name, gp_effect_t effect)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;

  gp_assert(function && !gp_real_is_own(function));
  if (effect == GP_EFFECT_NONE)
    return function;
  int slot = take_slot(function, name);
  if (slot >= 0) {
    atomic_store(&slots[slot].ends_capture, ends_capture(name));
    atomic_store(&slots[slot].frees, (unsigned char)gp_class_frees(name));
    atomic_store(&slots[slot].effect, (unsigned char)effect);
    return (void *)(uintptr_t)(gp_unknown_slots + (size_t)SLOT_BYTES * (size_t)slot);
  }
  gp_mode_distrust();
  if (gp_effect_ends_pooling_unseen(effect) && !atomic_flag_test_and_set(&has_reported)) {
    gp_log(GP_LOG_ERROR,
        "the program looks up too many driver functions that this version of gpupool does not know (%d, then %s); nothing is pooled",
        GP_UNKNOWN_SLOTS, name);
    gp_library_stop_pooling();
  }
  return function;
}

void gp_unknown_missed(const char *name, gp_effect_t effect)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;

  gp_mode_distrust();
  if (!gp_effect_ends_pooling_unseen(effect) || atomic_flag_test_and_set(&has_reported))
    return;
  gp_library_stop_pooling();
  gp_log(GP_LOG_ERROR,
      "a library bypasses gpupool to look up %s, which this version of gpupool does not know and cannot intercept; nothing is pooled",
      name);
}

/*
 * Calls
 */

static const char *name_of(unsigned slot)
{
  return atomic_load(&slots[slot].is_named) ? slots[slot].name : "a function of the driver";
}

static bool has_limit(gp_engine_t *engine)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    if (gp_engine_limit(engine, device) != 0)
      return true;
  return false;
}

static void tell_uncounted(gp_engine_t *engine, unsigned slot)
{
  if (!atomic_flag_test_and_set(&slots[slot].is_told))
    gp_log(has_limit(engine) ? GP_LOG_ERROR : GP_LOG_INFO,
        "the program calls %s, which this version of gpupool does not know: memory that it allocates or frees is not counted or limited",
        name_of(slot));
}

static void end_pooling(unsigned slot)
{
  bool first = !atomic_flag_test_and_set(&slots[slot].is_told);
  if (first)
    gp_log(GP_LOG_ERROR,
        "the program calls %s, which this version of gpupool does not know and which may access memory unseen; nothing is pooled from now on",
        name_of(slot));
  gp_library_stop_pooling(); /* every caller stops pooling, because the first one may not have finished */
}

/*
 * Counts the capture before the driver's call, so that the library makes no driver call in between. When this
 * thread next enters the library, it queries the driver whether the capture began, and whether another one
 * ended.
 */
static void follow_capture(gp_engine_t *engine, unsigned slot, CUstream stream)
{
  if (!atomic_load(&slots[slot].ends_capture)) {
    gp_capture_t *capture = gp_capture_begin(engine, stream, GP_REACH_EVERYTHING);
    if (!capture)
      return;
    gp_capture_put(engine, capture);
  }
  gp_after_unknown_capture(stream);
}

static void taint_arguments(gp_engine_t *engine, const uint64_t *arguments)
{
  for (int i = 0; i < REGISTER_ARGUMENTS; i++)
    if (arguments[i] >= UINT64_C(1) << 16) /* allocations have higher addresses than flags and sizes */
      gp_taint_pointer(engine, (CUdeviceptr)arguments[i]);
}

/* Applies the function's effect. Returns true if each call has the effect, not only the first one. */
static bool take_effect(gp_engine_t *engine, unsigned slot, const uint64_t *arguments)
{
  bool frees = atomic_load(&slots[slot].frees) == GP_FREES_POINTER;

  switch ((gp_effect_t)atomic_load(&slots[slot].effect)) {
  case GP_EFFECT_NONE:
  case GP_EFFECT_WORK: break;
  case GP_EFFECT_UNCOUNTED: tell_uncounted(engine, slot); break;
  case GP_EFFECT_ENDS:
    if (frees) /* the memory is not the pool's */
      tell_uncounted(engine, slot);
    else
      end_pooling(slot);
    break;
  case GP_EFFECT_CAPTURE: follow_capture(engine, slot, (CUstream)(uintptr_t)arguments[0]); return true;
  case GP_EFFECT_ANYTHING:
    taint_arguments(engine, arguments);
    gp_after_unknown_context();
    return true;
  case GP_EFFECT_CONTEXT: gp_after_unknown_context(); return true;
  }
  return false;
}

/* Called only by the trampolines, which jump to the returned function. */
void *gp_unknown_called(unsigned slot, const uint64_t *arguments);

void *gp_unknown_called(unsigned slot, const uint64_t *arguments)
{
  void *function = __atomic_load_n(&gp_unknown_functions[slot], __ATOMIC_RELAXED);
  gp_engine_t *engine = gp_library_engine();

  gp_assert(slot < GP_UNKNOWN_SLOTS && function); /* a look-up has returned the trampoline */

  if (!engine)
    return function;
  int cancel_state = gp_cancel_hold(); /* the effects call the driver */
  gp_known_streams_miss(engine);
  gp_frees_t frees = (gp_frees_t)atomic_load(&slots[slot].frees);
  void *answer = unknown_free_answer(engine, frees, arguments[0], name_of(slot));
  bool again = !answer && take_effect(engine, slot, arguments);
  if (!again && frees == GP_FREES_NOTHING)
    __atomic_store_n(&gp_unknown_settled[slot], 1, __ATOMIC_RELEASE);
  gp_cancel_restore(cancel_state);
  return answer ? answer : function;
}
