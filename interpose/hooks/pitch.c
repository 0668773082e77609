/*
 * Pitched memory. Only the driver knows the pitch of its rows, and cuda.h specifies no rule, so the library
 * learns the pitch from the driver's results. A request that earlier results do not cover is forwarded and
 * counted. All others are pooled as pitch * height bytes of plain memory; doc/interception.md explains why
 * that is correct.
 */
#include "interpose/hooks/current_context.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "base/assert.h"
#include "base/lock.h"

/* Pitches are multiples of 512 on current devices (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT divides
 * 512). */
#define PITCH_STEP 512

/*
 * The driver's results in a context for one width and element size. Invariants: the driver returned `pitch`
 * for `least` rows and for `most` rows; 0 < least <= most; width <= pitch; pitch * most does not overflow;
 * unless `varies` is set, the driver returned no other pitch for any number of rows. The entry is free if
 * context is NULL or lost.
 */
typedef struct gp_pitch {
  const gp_context_t *context;
  size_t width;
  size_t pitch;
  size_t least, most;
  unsigned element;
  bool varies; /* other numbers of rows had another pitch: this width is not pooled */
} gp_pitch_t;

/*
 * A set-associative cache, large enough for programs of a few hundred shapes; a width belongs to one set. In
 * a full set the oldest entry is replaced, and learnt again when needed. An entry with `varies` remains until
 * its context ends, because without it the library might trust a pitch again.
 */
#define SETS 64
#define WAYS 16

static gp_lock_t pitch_lock = GP_LOCK_INIT(GP_RANK_HOOKS);
static struct {
  gp_pitch_t entries[WAYS];
  unsigned next; /* index of the entry to replace */
} sets[SETS];

static size_t set_of(size_t width)
{
  return (size_t)((uint64_t)width * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SETS;
}

static bool is_free(const gp_pitch_t *entry)
{
  return !entry->context || gp_context_is_lost(entry->context);
}

static gp_pitch_t *find(const gp_context_t *context, size_t width, unsigned element)
{
  size_t set = set_of(width);

  gp_assert_internal(gp_lock_is_held(&pitch_lock));
  for (unsigned way = 0; way < WAYS; way++) {
    gp_pitch_t *entry = &sets[set].entries[way];
    if (entry->context == context && entry->width == width && entry->element == element && !is_free(entry))
      return entry;
  }
  return NULL;
}

/* Returns a free entry, else the oldest one that may be replaced; NULL if there is none. */
static gp_pitch_t *make_room(size_t set)
{
  for (unsigned way = 0; way < WAYS; way++) {
    if (is_free(&sets[set].entries[way]))
      return &sets[set].entries[way];
  }
  for (unsigned way = 0; way < WAYS; way++) {
    gp_pitch_t *entry = &sets[set].entries[sets[set].next++ % WAYS];
    if (!entry->varies)
      return entry;
  }
  return NULL;
}

/*
 * Returns the driver's pitch for these arguments, or 0 if the pitch is not known. If two numbers of rows have
 * the same pitch, the numbers in between have that pitch, too: a driver may widen rows if there are many of
 * them, but does not widen and then narrow them again.
 */
static size_t known_pitch(const gp_context_t *context, size_t width, size_t height, unsigned element)
{
  gp_lock_take(&pitch_lock);
  const gp_pitch_t *entry = find(context, width, element);
  bool is_known = entry && !entry->varies && height >= entry->least && height <= entry->most;
  size_t pitch = is_known ? entry->pitch : 0;
  gp_lock_release(&pitch_lock);
  return pitch;
}

static void learn(const gp_context_t *context, size_t width, size_t height, unsigned element, size_t pitch)
{
  size_t bytes;

  if (height == 0 || pitch < width || __builtin_mul_overflow(pitch, height, &bytes))
    return; /* no rows, or an implausible pitch: nothing to learn */
  gp_lock_take(&pitch_lock);
  gp_pitch_t *entry = find(context, width, element);
  if (!entry) {
    entry = make_room(set_of(width));
    if (entry)
      *entry = (gp_pitch_t){context, width, pitch, height, height, element, false};
  } else if (entry->pitch != pitch) {
    entry->varies = true;
  } else if (height < entry->least) {
    entry->least = height;
  } else if (height > entry->most) {
    entry->most = height;
  }
  gp_lock_release(&pitch_lock);
}

static CUresult alloc_forwarded(
    CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
  size_t most;
  /* The driver returns the pitch only together with the memory: until then rows are counted with the pitch
   * rounded up to 512. */
  size_t row =
      width > SIZE_MAX - (PITCH_STEP - 1) ? width : (width + PITCH_STEP - 1) / PITCH_STEP * PITCH_STEP;
  bool legal = pointer && pitch && !__builtin_mul_overflow(row, height, &most);
  gp_forward_call_t call = {.bytes = legal ? most : 0,
      .kind = GP_FORWARDED_PITCH,
      .device = GP_CURRENT_DEVICE,
      .pitch = pitch,
      .height = height};
  CUresult result;

  GP_FORWARD_ALLOC(
      result, &call, pointer, GP_REAL_CALL(cuMemAllocPitch_v2, pointer, pitch, width, height, element));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocPitch_v2(
    CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && pointer && pitch ? gp_current_context(engine) : NULL;
  uint64_t address;

  size_t row = context && gp_engine_pools(engine) ? known_pitch(context, width, height, element) : 0;
  if (row > 0) {
    int code = gp_engine_alloc(engine, context, (uint64_t)row * height, &address);
    if (code == CUDA_SUCCESS) {
      *pointer = (CUdeviceptr)address;
      *pitch = row;
    }
    return (CUresult)code;
  }
  CUresult result = alloc_forwarded(pointer, pitch, width, height, element);
  if (context && result == CUDA_SUCCESS)
    learn(context, width, height, element, *pitch);
  return result;
}
