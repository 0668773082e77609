#include "tools/replay/offline_driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/array.h"

/* Returns the index of the first range that does not sort before `range`. */
static size_t place_of(const gp_addresses_t *addresses, gp_address_range_t range)
{
  size_t low = 0, high = addresses->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const gp_address_range_t *one = &addresses->sizes[middle];
    if (one->size < range.size || (one->size == range.size && one->begin < range.begin))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void remove_at(gp_addresses_t *addresses, size_t place)
{
  gp_address_range_t *range = &addresses->sizes[place];
  bool is_known = gp_block_map_take(&addresses->by_begin, range->begin, NULL);
  is_known &= gp_block_map_take(&addresses->by_end, range->begin + range->size, NULL);
  gp_assert(is_known);
  addresses->count--;
  memmove(range, range + 1, (addresses->count - place) * sizeof(*range));
}

static void add(gp_addresses_t *addresses, gp_address_range_t range)
{
  const gp_block_entry_t by_begin = {.key = range.begin, .size = range.size};
  const gp_block_entry_t by_end = {.key = range.begin + range.size, .size = range.size};

  if (!gp_block_map_put(&addresses->by_begin, &by_begin))
    return;
  if (!gp_block_map_put(&addresses->by_end, &by_end) || !GP_ARRAY_ADD(addresses->sizes, addresses->count)) {
    (void)gp_block_map_take(&addresses->by_begin, by_begin.key, NULL);
    (void)gp_block_map_take(&addresses->by_end, by_end.key, NULL);
    return;
  }
  addresses->count--; /* GP_ARRAY_ADD counted the new element, which is not filled yet */
  gp_address_range_t *place = &addresses->sizes[place_of(addresses, range)];
  memmove(place + 1, place, (size_t)(&addresses->sizes[addresses->count] - place) * sizeof(*place));
  *place = range;
  addresses->count++;
}

uint64_t gp_addresses_take(gp_addresses_t *addresses, uint64_t bytes)
{
  size_t place = place_of(addresses, (gp_address_range_t){.size = bytes});
  if (place == addresses->count) {
    addresses->next += bytes;
    return addresses->next - bytes;
  }
  gp_address_range_t range = addresses->sizes[place];
  remove_at(addresses, place);
  if (range.size > bytes)
    add(addresses, (gp_address_range_t){range.size - bytes, range.begin + bytes});
  return range.begin;
}

void gp_addresses_give(gp_addresses_t *addresses, uint64_t begin, uint64_t bytes)
{
  gp_address_range_t range = {bytes, begin};

  gp_assert(bytes > 0 && begin + bytes <= addresses->next);
  const gp_block_entry_t *after = gp_block_map_find(&addresses->by_begin, begin + bytes);
  if (after) {
    range.size += after->size;
    remove_at(addresses, place_of(addresses, (gp_address_range_t){after->size, after->key}));
  }
  const gp_block_entry_t *before = gp_block_map_find(&addresses->by_end, begin);
  if (before) {
    range = (gp_address_range_t){range.size + before->size, begin - before->size};
    remove_at(addresses, place_of(addresses, (gp_address_range_t){before->size, range.begin}));
  }
  if (range.begin + range.size == addresses->next)
    addresses->next = range.begin;
  else
    add(addresses, range);
}

void gp_addresses_fini(gp_addresses_t *addresses)
{
  free(addresses->sizes);
  gp_block_map_fini(&addresses->by_begin);
  gp_block_map_fini(&addresses->by_end);
}

/* Sizes as measured on hardware (doc/gpu-results.md, G8 and G17). An allocation above 1 MiB uses whole pages
 * of 2 MiB. Smaller allocations share pages, in units of 512 bytes. The last free releases a shared page. */
#define PAGE       (2 * GP_MIB)
#define SHARED_MAX GP_MIB
#define UNIT       UINT64_C(512)

/* Addresses begin above any amount of device memory, and handles begin above any address. */
#define FIRST_ADDRESS (UINT64_C(1) << 44)
#define FIRST_HANDLE  (UINT64_C(1) << 62)

/* After a wait this long, all work on the device counts as complete. A free polls for less time before it
 * waits in the driver (pool/reuse/wait_in_free.c). For an allocation that finds no other memory, it is
 * short. */
#define WORK_NS UINT64_C(200000000)

/* Cost of recording and querying a fence (doc/gpu-results.md, G14). */
#define FENCE_RECORD_NS 350
#define FENCE_QUERY_NS  300

/* Medians on an H100 with driver 580 (doc/gpu-results/). The time per call and per MiB is that on an idle
 * device (G14 to G16). The busy time is that per call while a kernel runs (G13: two runs, with kernels in the
 * same context and in another context). The pool calls cuMemFree only while the device is idle. */
static const struct {
  const char *name;
  double ns;
  double ns_each_mib;
  double busy_ns;
} costs[GP_OFFLINE_CALLS] = {
    [GP_OFFLINE_ALLOC] = {"cuMemAlloc", 45500, 165, 220000},
    [GP_OFFLINE_FREE] = {"cuMemFree", 37800, 720, 37800},
    [GP_OFFLINE_CREATE] = {"cuMemCreate", 13000, 42, 65600},
    [GP_OFFLINE_MAP] = {"cuMemMap", 890, 1.4, 9900},
    [GP_OFFLINE_ALLOW] = {"cuMemSetAccess", 26400, 57, 120000},
    [GP_OFFLINE_UNMAP] = {"cuMemUnmap", 18100, 18, 74600},
    [GP_OFFLINE_RELEASE] = {"cuMemRelease", 13400, 620, 69900},
    [GP_OFFLINE_RESERVE] = {"cuMemAddressReserve", 1000, 0, 1000},
    [GP_OFFLINE_UNRESERVE] = {"cuMemAddressFree", 1000, 0, 1000},
};

const char *gp_offline_call_name(gp_offline_call_t call)
{
  return costs[call].name;
}

static void note_call(gp_offline_driver_t *driver, gp_offline_call_t call, uint64_t bytes)
{
  driver->calls[call]++;
  const double moved_ns = costs[call].ns_each_mib * (double)bytes / (double)GP_MIB;
  driver->cost_ns += costs[call].ns + moved_ns;
  driver->busy_cost_ns += costs[call].busy_ns + moved_ns;
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
  return bytes > UINT64_MAX - step ? UINT64_MAX / step * step : (bytes + step - 1) / step * step;
}

static bool hold(gp_offline_device_t *device, uint64_t bytes)
{
  if (bytes > device->capacity - device->held_bytes)
    return false;
  device->held_bytes += bytes;
  device->peak_bytes = device->held_bytes > device->peak_bytes ? device->held_bytes : device->peak_bytes;
  return true;
}

bool gp_offline_take(gp_offline_driver_t *driver, int device, uint64_t bytes)
{
  return hold(&driver->devices[device], round_up(bytes, bytes > SHARED_MAX ? PAGE : UNIT));
}

void gp_offline_give(gp_offline_driver_t *driver, int device, uint64_t bytes)
{
  driver->devices[device].held_bytes -= round_up(bytes, bytes > SHARED_MAX ? PAGE : UNIT);
}

static uint64_t new_address(gp_offline_driver_t *driver, uint64_t bytes)
{
  return gp_addresses_take(&driver->addresses, round_up(bytes, PAGE));
}

static void give_address(gp_offline_driver_t *driver, uint64_t address, uint64_t bytes)
{
  gp_addresses_give(&driver->addresses, address, round_up(bytes, PAGE));
}

/* Allocates a piece of a shared page. Returns its address, or 0 if device or host memory runs out. */
static uint64_t take_shared(gp_offline_driver_t *driver, int ordinal, uint64_t bytes)
{
  gp_offline_device_t *device = &driver->devices[ordinal];
  if (bytes > device->shared_free) {
    if (!hold(device, PAGE))
      return 0;
    device->shared_page = new_address(driver, PAGE);
    device->shared_free = PAGE;
    const gp_block_entry_t page = {.key = device->shared_page, .device = ordinal};
    if (!gp_block_map_put(&driver->shared, &page)) {
      give_address(driver, device->shared_page, PAGE);
      device->held_bytes -= PAGE;
      device->shared_free = 0;
      return 0;
    }
  }
  uint64_t address = device->shared_page + PAGE - device->shared_free;
  device->shared_free -= bytes;
  gp_block_map_find(&driver->shared, device->shared_page)->rounded++;
  return address;
}

static void give_shared(gp_offline_driver_t *driver, int ordinal, uint64_t address)
{
  gp_offline_device_t *device = &driver->devices[ordinal];
  uint64_t page = address / PAGE * PAGE;
  gp_block_entry_t *entry = gp_block_map_find(&driver->shared, page);

  if (--entry->rounded > 0)
    return;
  if (page == device->shared_page) {
    device->shared_free = PAGE; /* the page is empty, and stays open */
    return;
  }
  (void)gp_block_map_take(&driver->shared, page, NULL);
  give_address(driver, page, PAGE);
  device->held_bytes -= PAGE;
}

static int offline_alloc(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_offline_driver_t *driver = self;
  gp_offline_device_t *device = &driver->devices[context->device];
  bool is_shared = bytes <= SHARED_MAX;
  uint64_t taken = round_up(bytes, is_shared ? UNIT : PAGE);
  gp_block_entry_t entry = {.size = taken, .device = context->device, .is_marked = is_shared};

  if (bytes == 0)
    return GP_OFFLINE_CODE_INVALID_VALUE;
  if (is_shared)
    entry.key = take_shared(driver, context->device, taken);
  else if (hold(device, taken))
    entry.key = new_address(driver, taken);
  note_call(driver, GP_OFFLINE_ALLOC, entry.key ? bytes : 0);
  if (entry.key == 0 || !gp_block_map_put(&driver->memory, &entry))
    return GP_OFFLINE_CODE_OUT_OF_MEMORY;
  *ret_address = entry.key;
  return 0;
}

static int offline_free(void *self, const gp_driver_context_t *context, uint64_t address)
{
  gp_offline_driver_t *driver = self;
  gp_block_entry_t entry;
  (void)context;

  if (!gp_block_map_take(&driver->memory, address, &entry))
    return GP_OFFLINE_CODE_INVALID_VALUE;
  note_call(driver, GP_OFFLINE_FREE, entry.size);
  if (entry.is_marked) {
    give_shared(driver, entry.device, address);
  } else {
    driver->devices[entry.device].held_bytes -= entry.size;
    give_address(driver, address, entry.size);
  }
  return 0;
}

static int offline_enter_stream(void *self, const gp_driver_context_t *context, uint64_t stream, void **event)
{
  (void)context;
  (void)stream;
  *event = self;
  return 0;
}

/* Simulates a wait until the device has completed all work submitted so far. */
static int offline_wait(void *self, const gp_driver_context_t *context)
{
  gp_offline_driver_t *driver = self;
  (void)context;
  driver->complete = driver->work;
  driver->waits++;
  return 0;
}

static int offline_fence_record(void *self, const gp_driver_context_t *context, void **fence)
{
  gp_offline_driver_t *driver = self;
  gp_offline_fence_t *recorded = *fence;
  (void)context;

  if (!recorded) {
    gp_offline_fence_t **slot = GP_ARRAY_ADD(driver->fences, driver->fence_count);
    recorded = slot ? malloc(sizeof(*recorded)) : NULL;
    if (slot)
      *slot = recorded;
    if (!recorded)
      return GP_OFFLINE_CODE_OUT_OF_MEMORY;
    *fence = recorded;
  }
  *recorded = (gp_offline_fence_t){driver->request, driver->work, driver->waits, driver->paused_ns};
  driver->now_ns += FENCE_RECORD_NS;
  return 0;
}

/* Returns 0 if the fence is complete. If the lag is unknown, a fence is complete when all work before it is
 * known to be complete. This is usually because the program has just synchronized. */
static int offline_fence_query(void *self, const gp_driver_context_t *context, void *fence)
{
  gp_offline_driver_t *driver = self;
  const gp_offline_fence_t *recorded = fence;
  (void)context;

  driver->now_ns += FENCE_QUERY_NS;
  bool has_passed = driver->lag == UINT64_MAX ? recorded->work <= driver->complete
                                              : driver->request - recorded->request >= driver->lag;
  bool was_waited_for = driver->paused_ns - recorded->paused_ns >= WORK_NS;
  return has_passed || was_waited_for || driver->waits > recorded->waits ? 0 : GP_OFFLINE_CODE_NOT_READY;
}

static int offline_reserve(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  gp_offline_driver_t *driver = self;
  (void)context;
  note_call(driver, GP_OFFLINE_RESERVE, 0);
  *ret_address = new_address(driver, bytes);
  return 0;
}

static int offline_unreserve(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  gp_offline_driver_t *driver = self;
  (void)context;
  note_call(driver, GP_OFFLINE_UNRESERVE, 0);
  give_address(driver, address, bytes);
  return 0;
}

/* Allocates physical memory. The map `memory` contains it under its handle. In the entry, `rounded` is 1
 * while the memory is mapped, and is_marked is true after the handle was released. The memory is freed when
 * it is not mapped and its handle was released. */
static int offline_create(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle)
{
  gp_offline_driver_t *driver = self;
  const gp_block_entry_t entry = {.key = driver->next_handle++, .size = bytes, .device = context->device};

  bool is_there = hold(&driver->devices[context->device], bytes);
  note_call(driver, GP_OFFLINE_CREATE, is_there ? bytes : 0);
  if (!is_there)
    return GP_OFFLINE_CODE_OUT_OF_MEMORY;
  if (!gp_block_map_put(&driver->memory, &entry)) {
    driver->devices[context->device].held_bytes -= bytes;
    return GP_OFFLINE_CODE_OUT_OF_MEMORY;
  }
  *ret_handle = entry.key;
  return 0;
}

static void let_go(gp_offline_driver_t *driver, const gp_block_entry_t *entry)
{
  if (entry->rounded > 0 || !entry->is_marked)
    return;
  driver->devices[entry->device].held_bytes -= entry->size;
  (void)gp_block_map_take(&driver->memory, entry->key, NULL);
}

static int offline_destroy(void *self, const gp_driver_context_t *context, uint64_t handle)
{
  gp_offline_driver_t *driver = self;
  gp_block_entry_t *entry = gp_block_map_find(&driver->memory, handle);
  (void)context;

  if (!entry)
    return GP_OFFLINE_CODE_INVALID_VALUE;
  note_call(driver, GP_OFFLINE_RELEASE, entry->size);
  entry->is_marked = true;
  let_go(driver, entry);
  return 0;
}

static int offline_map(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, uint64_t handle)
{
  gp_offline_driver_t *driver = self;
  gp_block_entry_t *entry = gp_block_map_find(&driver->memory, handle);
  const gp_block_entry_t place = {.key = address, .address = handle};
  (void)context;

  if (!entry)
    return GP_OFFLINE_CODE_INVALID_VALUE;
  if (!gp_block_map_put(&driver->mapped, &place))
    return GP_OFFLINE_CODE_OUT_OF_MEMORY;
  note_call(driver, GP_OFFLINE_MAP, bytes);
  entry->rounded = 1;
  return 0;
}

static int offline_unmap(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  gp_offline_driver_t *driver = self;
  gp_block_entry_t place;
  (void)context;

  if (!gp_block_map_take(&driver->mapped, address, &place))
    return GP_OFFLINE_CODE_INVALID_VALUE;
  note_call(driver, GP_OFFLINE_UNMAP, bytes);
  gp_block_entry_t *entry = gp_block_map_find(&driver->memory, place.address);
  entry->rounded = 0;
  let_go(driver, entry);
  return 0;
}

static int offline_allow(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device)
{
  (void)context;
  (void)address;
  (void)device;
  note_call(self, GP_OFFLINE_ALLOW, bytes);
  return 0;
}

static int offline_memory_info(
    void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  const gp_offline_device_t *device = &((gp_offline_driver_t *)self)->devices[context->device];
  *ret_free = device->capacity - device->held_bytes;
  *ret_total = device->capacity;
  return 0;
}

static uint64_t offline_now(void *self)
{
  return ((const gp_offline_driver_t *)self)->now_ns;
}

static void offline_pause(void *self, uint64_t ns)
{
  gp_offline_driver_t *driver = self;
  driver->now_ns += ns;
  driver->paused_ns += ns;
}

void gp_offline_driver_init(gp_offline_driver_t *driver, gp_offline_device_t *devices)
{
  *driver = (gp_offline_driver_t){
      .ops =
          {
              .alloc = offline_alloc,
              .alloc_in = offline_alloc,
              .free = offline_free,
              .wait = offline_wait,
              .wait_as_free = offline_wait,
              .fence_record = offline_fence_record,
              .fence_query = offline_fence_query,
              .reserve = offline_reserve,
              .unreserve = offline_unreserve,
              .create = offline_create,
              .destroy = offline_destroy,
              .map = offline_map,
              .unmap = offline_unmap,
              .allow = offline_allow,
              .enter_stream = offline_enter_stream,
              .memory_info = offline_memory_info,
              .now_ns = offline_now,
              .pause = offline_pause,
              .code_out_of_memory = GP_OFFLINE_CODE_OUT_OF_MEMORY,
              .code_invalid_value = GP_OFFLINE_CODE_INVALID_VALUE,
              .code_not_ready = GP_OFFLINE_CODE_NOT_READY,
          },
      .devices = devices,
      .addresses = {.next = FIRST_ADDRESS},
      .next_handle = FIRST_HANDLE,
      .lag = UINT64_MAX,
  };
}

void gp_offline_driver_fini(gp_offline_driver_t *driver)
{
  for (size_t i = 0; i < driver->fence_count; i++)
    free(driver->fences[i]);
  free(driver->fences);
  gp_block_map_fini(&driver->memory);
  gp_block_map_fini(&driver->mapped);
  gp_block_map_fini(&driver->shared);
  gp_addresses_fini(&driver->addresses);
}

gp_driver_t gp_offline_driver_ops(gp_offline_driver_t *driver)
{
  return (gp_driver_t){&driver->ops, driver};
}
