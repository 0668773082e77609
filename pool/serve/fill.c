/*
 * Each fill that a thread waits for has a non-blocking stream of its own, so that the fill and the program's
 * operations do not wait for each other. A context has as many of these streams as threads that fill its
 * memory concurrently. The thread queries the stream until it has no pending work. During that time it holds
 * no lock, and between two queries it is outside gp_engine_enter, so that captures can begin and contexts can
 * end.
 */
#include "pool/serve/fill.h"

#include <stdlib.h>

#include "pool/space/driver_calls.h"
#include "pool/reuse/mode.h"
#include "base/log.h"

/*
 * A stream of the library's own. Invariants, under the device's lock: in context->fills, the stream has no
 * work, and address is 0. In context->late_fills, the block at address is LIVE, or RETAINED by other owners,
 * and the program does not know the block.
 */
struct gp_fill {
  gp_fill_t *next;
  uint64_t stream; /* the driver's handle; the stream ends with the context */
  uint64_t address;
};

/* Why the program gets memory that was not filled. The library reports each reason once. */
typedef enum reason {
  REASON_CAPTURE,
  REASON_FORWARDED,
  REASON_LATE,
  REASON_DRIVER,
  REASON_HOST,
  REASONS
} reason_t;

static const char *const reasons[] = {
    [REASON_CAPTURE] = "the library makes no driver calls of its own during a stream capture",
    [REASON_FORWARDED] = "it is forwarded, not pooled",
    [REASON_LATE] = "the fill was not complete after 10 s, because other work occupies the device",
    [REASON_DRIVER] = "the driver refused to fill it",
    [REASON_HOST] = "out of host memory",
};

_Static_assert(sizeof(reasons) / sizeof(*reasons) == REASONS, "every reason has a text");

void gp_fill_init(gp_engine_t *engine, const gp_options_t *options)
{
  uint64_t fill = gp_option_number(options, GP_OPTION_fill);

  engine->fills = fill != GP_FILL_OFF && engine->driver.ops->fill != NULL;
  engine->fill_byte = fill == GP_FILL_POISON ? GP_FILL_POISON_BYTE : 0;
}

static gp_fill_result_t omit(gp_engine_t *engine, const gp_filling_t *filling, reason_t reason)
{
  char size[GP_SIZE_TEXT_BYTES];
  unsigned bit = 1u << (filling->offset ? REASONS + reason : reason);

  if (atomic_fetch_or(&engine->fills_omitted, bit) & bit)
    return GP_FILL_OMITTED;
  if (filling->offset)
    gp_log(GP_LOG_ERROR, "GPUPOOL_CHECK: an allocation of %s has no red zone: %s",
        gp_size_format(filling->offset, size), reasons[reason]);
  else
    gp_log(GP_LOG_ERROR, "GPUPOOL_FILL: an allocation of %s was not filled: %s",
        gp_size_format(filling->bytes, size), reasons[reason]);
  return GP_FILL_OMITTED;
}

/* Returns why the library may make no driver call of its own now, or why the result of a call would prove
 * nothing. */
static reason_t reason_of_suspension(const gp_engine_t *engine)
{
  return gp_engine_is_suspended(engine) ? REASON_CAPTURE : REASON_DRIVER;
}

/* Remove the first entry of a list of fills, or add one. The caller holds the device's lock. */

static gp_fill_t *take_first(const gp_context_t *context, gp_fill_t **list)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_fill_t *fill = *list;
  if (fill)
    *list = fill->next;
  return fill;
}

static void put_first(const gp_context_t *context, gp_fill_t **list, gp_fill_t *fill)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  fill->next = *list;
  *list = fill;
}

/* Removes and returns the first fill of one of the context's lists, or NULL if the list is empty. */
static gp_fill_t *take(gp_context_t *context, gp_fill_t **list)
{
  gp_lock_take(&context->device->lock);
  gp_fill_t *fill = take_first(context, list);
  gp_lock_release(&context->device->lock);
  return fill;
}

static void put(gp_context_t *context, gp_fill_t **list, gp_fill_t *fill)
{
  gp_lock_take(&context->device->lock);
  put_first(context, list, fill);
  gp_lock_release(&context->device->lock);
}

/* Returns an idle fill stream, or NULL; *ret_reason then says why. The caller is inside gp_engine_enter. */
static gp_fill_t *obtain(gp_engine_t *engine, gp_context_t *context, reason_t *ret_reason)
{
  gp_fill_t *fill = take(context, &context->fills);

  if (fill)
    return fill;
  *ret_reason = REASON_HOST;
  fill = calloc(1, sizeof(*fill));
  if (!fill)
    return NULL;
  int code = gp_driver_fill_stream(engine, &context->driver, &fill->stream);
  if (code == 0)
    return fill;
  gp_driver_note(engine, context, code);
  *ret_reason = REASON_DRIVER;
  free(fill);
  return NULL;
}

/* State of a submitted fill. */
typedef enum progress {
  PROGRESS_DONE,
  PROGRESS_NONE,
  PROGRESS_UNKNOWN, /* the engine may not query the driver now, or the context has ended */
} progress_t;

bool gp_fill_has_ended(const gp_context_t *context)
{
  return gp_context_is_lost(context) || atomic_load(&context->gone);
}

static progress_t ask(gp_engine_t *engine, gp_context_t *context, uint64_t stream)
{
  progress_t progress = PROGRESS_UNKNOWN;

  if (!gp_engine_enter_question(engine))
    return PROGRESS_UNKNOWN;
  if (!gp_fill_has_ended(context)) { /* nor can the context end during this call, which was announced */
    int code = gp_driver_fill_query(engine, &context->driver, stream);
    if (code != 0 && code != engine->driver.ops->code_not_ready)
      gp_driver_note(engine, context, code);
    progress = code == 0 ? PROGRESS_DONE : PROGRESS_NONE;
  }
  gp_engine_leave(engine);
  return progress;
}

bool gp_fill_is_done(gp_engine_t *engine, gp_context_t *context, uint64_t stream)
{
  return ask(engine, context, stream) == PROGRESS_DONE;
}

bool gp_fill_await(gp_engine_t *engine, gp_context_t *context, uint64_t stream)
{
  uint64_t begin_ns = gp_now(engine);
  uint64_t pause_ns = GP_FIRST_PAUSE_NS;

  for (;;) {
    progress_t progress = ask(engine, context, stream);
    if (progress != PROGRESS_NONE || gp_now(engine) - begin_ns >= GP_FILL_PATIENCE_NS)
      return progress == PROGRESS_DONE;
    gp_driver_pause(engine, pause_ns);
    pause_ns = gp_next_pause(pause_ns);
  }
}

/* Frees the blocks of late fills that are complete. A block that would be released to the driver stays in
 * the list until its context ends, because the driver's free may wait for the device. Returns false if
 * some fill is not complete. */
static bool end_late(gp_engine_t *engine, gp_context_t *context)
{
  gp_fill_t *pending = NULL;
  bool are_over = true;
  gp_fill_t *fill;

  while ((fill = take(context, &context->late_fills))) {
    bool is_over = gp_fill_is_done(engine, context, fill->stream);
    are_over = are_over && is_over;
    if (is_over && gp_engine_put_back(engine, fill->address)) {
      fill->address = 0;
      put(context, &context->fills, fill);
    } else {
      fill->next = pending;
      pending = fill;
    }
  }
  while ((fill = pending)) {
    pending = fill->next;
    put(context, &context->late_fills, fill);
  }
  return are_over;
}

/* Submits the fill. Returns NULL if nothing was submitted; *ret_reason then says why. */
static gp_fill_t *submit(
    gp_engine_t *engine, gp_context_t *context, const gp_filling_t *filling, reason_t *ret_reason)
{
  if (!gp_engine_enter(engine)) {
    *ret_reason = reason_of_suspension(engine);
    return NULL;
  }
  gp_fill_t *fill = obtain(engine, context, ret_reason);
  int code = 0;
  if (fill)
    code = gp_driver_fill(engine, &context->driver, fill->stream, filling->address + filling->offset,
        filling->bytes, filling->value);
  gp_engine_leave(engine);
  if (code == 0)
    return fill;
  gp_driver_note(engine, context, code);
  put(context, &context->fills, fill);
  *ret_reason = REASON_DRIVER;
  return NULL;
}

gp_fill_result_t gp_fill_now(gp_engine_t *engine, gp_context_t *context, const gp_filling_t *filling)
{
  reason_t reason;

  gp_assert(!gp_holds_engine_lock());
  if (gp_engine_owner(engine, filling->address) !=
      GP_OWNER_PROGRAM) /* a late fill could not keep the memory */
    return omit(engine, filling, gp_engine_is_suspended(engine) ? REASON_CAPTURE : REASON_FORWARDED);
  if (!end_late(engine, context))
    return omit(engine, filling, gp_engine_is_suspended(engine) ? REASON_CAPTURE : REASON_LATE);
  gp_fill_t *fill = submit(engine, context, filling, &reason);
  if (!fill)
    return omit(engine, filling, reason);
  if (gp_fill_await(engine, context, fill->stream)) {
    put(context, &context->fills, fill);
    return GP_FILL_DONE;
  }
  fill->address = filling->address;
  put(context, &context->late_fills, fill);
  return GP_FILL_LATE;
}

/* The fill is work of that stream. Unlike the driver's allocation there (alloc.c), the fill is an
 * operation that the legacy default stream certainly waits for. */
bool gp_fill_in_order(gp_engine_t *engine, const gp_stream_order_t *order, const gp_filling_t *filling)
{
  gp_assert(!gp_holds_engine_lock());
  if (!gp_engine_enter(engine)) {
    (void)omit(engine, filling, reason_of_suspension(engine));
    return false;
  }
  int code = gp_driver_fill(engine, &order->context->driver, order->stream,
      filling->address + filling->offset, filling->bytes, filling->value);
  if (code != 0) {
    gp_driver_note(engine, order->context, code);
    (void)omit(engine, filling, REASON_DRIVER);
  }
  gp_engine_leave(engine);
  return code == 0;
}

bool gp_fill_check(gp_engine_t *engine, const gp_context_t *context)
{
  bool good = true;

  for (const gp_fill_t *fill = context->fills; fill; fill = fill->next)
    good &= gp_expect(fill->address == 0, "a fill that is over has a block", fill->address, 0);
  for (const gp_fill_t *fill = context->late_fills; fill; fill = fill->next) {
    const gp_block_t *block = gp_address_map_find(&engine->blocks, fill->address);
    good &= gp_expect(block && block->refs > 0 && block->context == context,
        "a fill that is late has no block", fill->address, 0);
  }
  return good;
}

void gp_fill_fini(gp_context_t *context)
{
  gp_fill_t **const lists[] = {&context->fills, &context->late_fills};

  for (unsigned i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
    while (*lists[i]) {
      gp_fill_t *fill = *lists[i];
      *lists[i] = fill->next;
      free(fill);
    }
  }
}
