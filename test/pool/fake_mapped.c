/* Mapped memory of the fake driver: ranges of addresses, physical memory, and which device may use it. */

#include "test/pool/fake_driver_parts.h"

#define FAKE_STEP UINT64_C(0x200000)

static fake_physical_t *physical_of(fake_driver_t *driver, uint64_t handle)
{
  for (int i = 0; i < driver->physical_count; i++)
    if (driver->physicals[i].has_handle && driver->physicals[i].handle == handle)
      return &driver->physicals[i];
  return NULL;
}

static fake_physical_t *mapped_at(fake_driver_t *driver, uint64_t address)
{
  for (int i = 0; i < driver->physical_count; i++)
    if (driver->physicals[i].address != 0 &&
        address - driver->physicals[i].address < driver->physicals[i].bytes)
      return &driver->physicals[i];
  return NULL;
}

static void end_if_unused(fake_driver_t *driver, fake_physical_t *physical)
{
  if (physical->has_handle || physical->address != 0)
    return;
  driver->used -= physical->bytes;
  *physical = driver->physicals[--driver->physical_count];
}

/* All bytes are mapped, and the device may use them. */
bool fake_is_usable(fake_driver_t *driver, uint64_t address, uint64_t bytes, int device)
{
  for (uint64_t at = address; at < address + bytes;) {
    const fake_physical_t *physical = mapped_at(driver, at);
    if (!physical || !(physical->devices >> device & 1))
      return false;
    at = physical->address + physical->bytes;
  }
  return true;
}

static int fake_reserve(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_RESERVE)) {
    code = driver->fail_code;
  } else {
    REQUIRE(bytes % FAKE_STEP == 0);
    driver->reserved_address += FAKE_RANGES + (driver->reserved_address == 0 ? FAKE_RANGES : 0);
    REQUIRE(bytes <= FAKE_RANGES && driver->reserved_address < FAKE_PLAIN);
    driver->reserved_bytes += bytes;
    *ret_address = driver->reserved_address;
  }
  fake_leave(driver);
  return code;
}

static int fake_unreserve(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_UNRESERVE)) {
    code = driver->fail_code;
  } else {
    for (int i = 0; i < driver->physical_count; i++)
      driver->errors += driver->physicals[i].address - address < bytes;
    driver->reserved_bytes -= bytes;
  }
  fake_leave(driver);
  return code;
}

static int fake_create(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_CREATE))
    code = driver->fail_code;
  else if (bytes > driver->capacity || driver->used > driver->capacity - bytes)
    code = FAKE_OUT_OF_MEMORY;
  if (code == 0) {
    REQUIRE(bytes > 0 && bytes % FAKE_STEP == 0 && driver->physical_count < FAKE_PHYSICALS);
    driver->physicals[driver->physical_count++] =
        (fake_physical_t){.handle = ++driver->last_handle, .bytes = bytes, .has_handle = true};
    driver->used += bytes;
    if (driver->used > driver->peak)
      driver->peak = driver->used;
    *ret_handle = driver->last_handle;
  }
  fake_leave(driver);
  return code;
}

static int fake_destroy(void *self, const gp_driver_context_t *context, uint64_t handle)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  fake_physical_t *physical = physical_of(driver, handle);
  if (fake_must_fail(driver, FAKE_DESTROY)) {
    code = driver->fail_code;
  } else if (!physical) {
    driver->errors++;
    code = FAKE_INVALID_VALUE;
  } else {
    physical->has_handle = false;
    end_if_unused(driver, physical);
  }
  fake_leave(driver);
  return code;
}

static int fake_map(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, uint64_t handle)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  fake_physical_t *physical = physical_of(driver, handle);
  if (fake_must_fail(driver, FAKE_MAP)) {
    code = driver->fail_code;
  } else {
    for (int i = 0; i < driver->physical_count; i++)
      driver->errors += driver->physicals[i].address != 0 &&
                        address < driver->physicals[i].address + driver->physicals[i].bytes &&
                        driver->physicals[i].address < address + bytes;
    REQUIRE(physical && physical->address == 0 && physical->bytes == bytes && address % FAKE_STEP == 0);
    physical->address = address;
    physical->devices = 0;
  }
  fake_leave(driver);
  return code;
}

static int fake_unmap(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  fake_physical_t *physical = mapped_at(driver, address);
  if (fake_must_fail(driver, FAKE_UNMAP)) {
    code = driver->fail_code;
  } else {
    REQUIRE(physical && physical->address == address && physical->bytes == bytes);
    driver->errors += fake_work_is_pending(driver, address, bytes);
    physical->address = 0;
    end_if_unused(driver, physical);
  }
  fake_leave(driver);
  return code;
}

static int fake_allow(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_ALLOW))
    code = driver->fail_code;
  for (uint64_t at = address; code == 0 && at < address + bytes;) {
    fake_physical_t *physical = mapped_at(driver, at);
    REQUIRE(physical);
    physical->devices |= UINT64_C(1) << device;
    at = physical->address + physical->bytes;
  }
  fake_leave(driver);
  return code;
}

bool fake_may_use(fake_driver_t *driver, uint64_t address, uint64_t bytes, int device)
{
  fake_enter(driver);
  bool may = fake_is_usable(driver, address, bytes, device);
  fake_leave(driver);
  return may;
}

void fake_add_mapped(gp_driver_ops_t *ops)
{
  ops->reserve = fake_reserve;
  ops->unreserve = fake_unreserve;
  ops->create = fake_create;
  ops->destroy = fake_destroy;
  ops->map = fake_map;
  ops->unmap = fake_unmap;
  ops->allow = fake_allow;
}
