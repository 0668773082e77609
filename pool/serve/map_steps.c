#include "pool/serve/map_steps.h"

#include "pool/space/driver_calls.h"
#include "pool/engine_record.h"

/* New memory of all steps comes first: if the driver refuses it, nothing has moved. */
static int create(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count)
{
  int code = 0;

  for (size_t i = 0; i < count && code == 0; i++) {
    if (steps[i].source)
      continue;
    code = gp_driver_create(engine, &context->driver, steps[i].size, &steps[i].handle);
    if (code == 0)
      steps[i].done = GP_MAP_FLOATING;
  }
  return code;
}

static int bring(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *step)
{
  int code = step->source ? gp_driver_unmap(engine, &context->driver, step->from, step->size) : 0;
  if (code != 0)
    return code;
  step->done = GP_MAP_FLOATING;
  code = gp_driver_map(engine, &context->driver, step->address, step->size, step->handle);
  if (code == 0)
    step->done = GP_MAP_MAPPED;
  return code;
}

/* The steps of the run that begins with the first one: *ret_address and *ret_size are
 * the range that they fill. */
static size_t run_of(const gp_map_step_t *steps, size_t count, uint64_t *ret_address, uint64_t *ret_size)
{
  size_t length = 0;

  *ret_address = UINT64_MAX;
  *ret_size = 0;
  for (; length < count && steps[length].run == steps[0].run; length++) {
    if (steps[length].address < *ret_address)
      *ret_address = steps[length].address;
    *ret_size += steps[length].size;
  }
  return length;
}

static int allow(
    gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t size, uint64_t devices)
{
  int code = 0;

  for (; devices && code == 0; devices &= devices - 1)
    code = gp_driver_allow(engine, &context->driver, address, size, __builtin_ctzll(devices));
  return code;
}

/* Moves the step's memory back to where it was, or gives it to the driver. */
static void undo(gp_engine_t *engine, gp_context_t *context, gp_map_step_t *step)
{
  const gp_driver_context_t *driver_context = &context->driver;
  bool is_free =
      step->done != GP_MAP_MAPPED || gp_driver_unmap(engine, driver_context, step->address, step->size) == 0;
  bool is_back = step->source && is_free &&
                 gp_driver_map(engine, driver_context, step->from, step->size, step->handle) == 0;

  if (is_back &&
      gp_driver_allow(engine, driver_context, step->from, step->size, context->device->ordinal) == 0) {
    step->done = GP_MAP_NOTHING;
    return;
  }
  if (is_back)
    (void)gp_driver_unmap(
        engine, driver_context, step->from, step->size); /* the memory, like its handle, is ... */
  (void)gp_driver_destroy(
      engine, driver_context, step->handle); /* ... given up, whatever the driver returns */
  step->done = step->source ? GP_MAP_LOST : GP_MAP_NOTHING;
}

int gp_map_take_steps(
    gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count, uint64_t peers)
{
  const uint64_t devices = UINT64_C(1) << context->device->ordinal | peers;

  gp_assert(!gp_holds_engine_lock());
  int code = create(engine, context, steps, count);
  for (size_t i = 0; i < count && code == 0; i++)
    code = bring(engine, context, &steps[i]);
  for (size_t i = 0; i < count && code == 0;) {
    uint64_t address, size;
    i += run_of(&steps[i], count - i, &address, &size);
    code = allow(engine, context, address, size, devices);
  }
  for (size_t i = count; i-- > 0 && code != 0;)
    if (steps[i].done != GP_MAP_NOTHING)
      undo(engine, context, &steps[i]);
  return code;
}

void gp_map_allow(
    gp_engine_t *engine, gp_context_t *context, const gp_map_step_t *steps, size_t count, uint64_t devices)
{
  gp_assert(!gp_holds_engine_lock());
  for (size_t i = 0; i < count;) {
    uint64_t address, size;
    i += run_of(&steps[i], count - i, &address, &size);
    (void)allow(engine, context, address, size, devices);
  }
}
