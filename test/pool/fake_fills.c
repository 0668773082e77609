/* Fills and copies of the fake driver: its streams for them, page-locked host memory, and the contents of
 * memory. */

#include <string.h>

#include "test/pool/fake_driver_parts.h"

static int fake_fill_stream(void *self, const gp_driver_context_t *context, uint64_t *ret_stream)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_FILL_STREAM))
    code = driver->fail_code;
  else
    *ret_stream = FAKE_FILL_STREAMS + (uint64_t)driver->fill_streams++;
  fake_leave(driver);
  return code;
}

/* All of these bytes are allocated. */
static bool is_there(fake_driver_t *driver, uint64_t address, uint64_t bytes)
{
  if (address - FAKE_RANGES < driver->reserved_address)
    return fake_is_usable(driver, address, bytes, 0);
  for (int i = 0; i < driver->allocation_count; i++)
    if (address - driver->allocations[i].address < driver->allocations[i].bytes)
      return address + bytes <= driver->allocations[i].address + driver->allocations[i].bytes;
  return false;
}

static int fake_fill(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
    uint64_t bytes, uint8_t value)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle && stream != 0 && bytes > 0);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_FILL)) {
    code = driver->fail_code;
  } else {
    driver->fills[driver->fill_count++ % FAKE_FILLS] = (fake_fill_t){address, bytes, stream, value, false};
    driver->filled_ns = __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED);
    driver->errors += !is_there(driver, address, bytes);
    if (stream >= FAKE_FILL_STREAMS)
      driver->errors += fake_work_is_pending(driver, address, bytes);
  }
  fake_leave(driver);
  return code;
}

static int fake_host_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, void **ret_host)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_HOST_ALLOC)) {
    code = driver->fail_code;
  } else {
    REQUIRE(driver->host_count < FAKE_HOSTS);
    *ret_host = fake_table_new(bytes);
    driver->hosts[driver->host_count++] = (fake_host_t){*ret_host, bytes, fake_context_index(context)};
  }
  fake_leave(driver);
  return code;
}

static uint64_t later(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* What the fills and writes that are known have left there; elsewhere 0. */
static void read_contents(const fake_driver_t *driver, uint64_t address, uint64_t bytes, uint8_t *to)
{
  const long first = driver->fill_count > FAKE_FILLS ? driver->fill_count - FAKE_FILLS : 0;

  memset(to, 0, bytes);
  for (long i = first; i < driver->fill_count; i++) {
    const fake_fill_t *fill = &driver->fills[i % FAKE_FILLS];
    uint64_t begin = later(address, fill->address);
    if (begin < address + bytes && begin < fill->address + fill->bytes) {
      uint64_t end =
          fill->address + fill->bytes < address + bytes ? fill->address + fill->bytes : address + bytes;
      memset(to + (begin - address), fill->value, end - begin);
    }
  }
}

/* Until the copy is complete, other bytes are at its destination. */
static int fake_copy_out(void *self, const gp_driver_context_t *context, uint64_t stream, void *host,
    uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle && stream >= FAKE_FILL_STREAMS && bytes > 0 && rows > 0 && pitch >= bytes);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_COPY_OUT)) {
    code = driver->fail_code;
  } else {
    REQUIRE(driver->copy_count < FAKE_COPIES);
    fake_copy_t copy = {
        host, fake_table_new(bytes * rows), bytes * rows, stream, fake_context_index(context)};
    for (uint64_t row = 0; row < rows; row++) {
      read_contents(driver, address + row * pitch, bytes, copy.bytes + row * bytes);
      driver->errors += !is_there(driver, address + row * pitch, bytes);
      driver->errors += fake_work_is_pending(driver, address + row * pitch, bytes);
    }
    memset(host, 0, bytes * rows);
    driver->copies[driver->copy_count++] = copy;
    driver->filled_ns = __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED);
  }
  fake_leave(driver);
  return code;
}

/* Ends the copies of a stream, or of a context if stream is 0: then nothing is written any more. */
static void end_copies(fake_driver_t *driver, uint64_t stream, int context)
{
  int kept = 0;

  for (int i = 0; i < driver->copy_count; i++) {
    fake_copy_t *copy = &driver->copies[i];
    if (stream ? copy->stream != stream : copy->context != context) {
      driver->copies[kept++] = *copy;
      continue;
    }
    if (stream)
      memcpy(copy->host, copy->bytes, copy->count);
    fake_table_delete(copy->bytes, copy->count);
  }
  driver->copy_count = kept;
}

void fake_end_hosts(fake_driver_t *driver, int context)
{
  int kept = 0;

  end_copies(driver, 0, context);
  for (int i = 0; i < driver->host_count; i++) {
    if (driver->hosts[i].context == context)
      fake_table_delete(driver->hosts[i].memory, driver->hosts[i].bytes);
    else
      driver->hosts[kept++] = driver->hosts[i];
  }
  driver->host_count = kept;
}

void fake_end_context(fake_driver_t *driver, int context)
{
  fake_enter(driver);
  driver->has_ended[context] = true;
  fake_end_hosts(driver, context);
  fake_leave(driver);
}

void fake_overwrite(fake_driver_t *driver, uint64_t address, uint64_t bytes)
{
  fake_enter(driver);
  driver->fills[driver->fill_count++ % FAKE_FILLS] = (fake_fill_t){address, bytes, 0, FAKE_OTHER_BYTE, true};
  fake_leave(driver);
}

/* Fills and copies are done in the order of their submission. */
static int fake_fill_query(void *self, const gp_driver_context_t *context, uint64_t stream)
{
  fake_driver_t *driver = self;
  int code;

  REQUIRE(stream >= FAKE_FILL_STREAMS);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_FILL_QUERY))
    code = driver->fail_code;
  else if (driver->has_ended[fake_context_index(context)])
    code = FAKE_GONE;
  else
    code = __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED) - driver->filled_ns >= driver->fill_takes
               ? 0
               : FAKE_NOT_READY;
  for (int i = 0; code == 0 && i < FAKE_FILLS && i < driver->fill_count; i++)
    driver->fills[i].is_done |= driver->fills[i].stream == stream;
  if (code == 0)
    end_copies(driver, stream, 0);
  fake_leave(driver);
  return code;
}

static const fake_fill_t *find_fill(const fake_driver_t *driver, uint64_t address)
{
  for (long i = driver->fill_count; i > 0 && i > driver->fill_count - FAKE_FILLS; i--)
    if (driver->fills[(i - 1) % FAKE_FILLS].address == address)
      return &driver->fills[(i - 1) % FAKE_FILLS];
  return NULL;
}

const fake_fill_t *fake_fill_at(fake_driver_t *driver, uint64_t address)
{
  fake_enter(driver);
  const fake_fill_t *found = find_fill(driver, address);
  fake_leave(driver);
  return found;
}

bool fake_is_being_filled(fake_driver_t *driver, uint64_t address)
{
  fake_enter(driver);
  const fake_fill_t *found = find_fill(driver, address);
  bool is_pending = found && !found->is_done;
  fake_leave(driver);
  return is_pending;
}

void fake_add_fills(gp_driver_ops_t *ops)
{
  ops->fill_stream = fake_fill_stream;
  ops->fill = fake_fill;
  ops->fill_query = fake_fill_query;
  ops->host_alloc = fake_host_alloc;
  ops->copy_out = fake_copy_out;
}
