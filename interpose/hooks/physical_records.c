#include "interpose/hooks/physical_records.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "pool/space/address_map.h"
#include "base/assert.h"
#include "base/lock.h"

/* Invariants, under the lock: refs > 0 exactly if the map of handles contains this record. If refs == 0 and
 * mappings > 0, the record is in the list without_handle. If both are 0, the record belongs to the thread
 * that ended the memory. */
struct gp_physical {
  uint64_t handle;
  uint64_t key;
  unsigned refs;
  unsigned mappings; /* number of mappings, plus releases in progress in the driver */
  bool is_exported;
  gp_physical_t *next; /* in the list without_handle */
};

struct gp_mapping {
  uint64_t address;
  uint64_t bytes;
  gp_physical_t *physical;
  gp_mapping_t *next; /* in a list of mappings being unmapped */
};

static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_HOOKS);
static gp_address_map_t handles = GP_ADDRESS_MAP_INIT;
static gp_address_map_t mappings = GP_ADDRESS_MAP_INIT; /* by start address */
static gp_physical_t *without_handle;

static void enter(void)
{
  gp_lock_take(&lock);
}

static void leave(void)
{
  gp_lock_release(&lock);
}

/* Returns the map's key for a handle: handles may be any number, and the map cannot store small numbers as
 * keys. */
static uint64_t handle_key(uint64_t handle)
{
  return handle ^ UINT64_C(1) << 63;
}

static gp_physical_t *find_handle(uint64_t handle)
{
  return gp_address_map_find(&handles, handle_key(handle));
}

uint64_t gp_physical_new_key(void)
{
  static _Atomic uint64_t last;
  return UINT64_C(1) << 63 | (atomic_fetch_add(&last, 1) + 1); /* bit 63 is set: no user address */
}

uint64_t gp_physical_key(const gp_physical_t *physical)
{
  return physical->key;
}

bool gp_physical_created(uint64_t handle, uint64_t key)
{
  gp_physical_t *physical = calloc(1, sizeof(*physical));
  if (!physical)
    return false;
  physical->handle = handle;
  physical->key = key;
  physical->refs = 1;
  enter();
  bool kept = gp_address_map_insert(&handles, handle_key(handle), physical);
  leave();
  if (!kept)
    free(physical);
  return kept;
}

static void leave_without_handle(gp_physical_t *physical)
{
  gp_physical_t **link = &without_handle;

  gp_assert_internal(gp_lock_is_held(&lock));
  while (*link != physical) {
    gp_assert(*link); /* a record without a handle must be in the list */
    link = &(*link)->next;
  }
  *link = physical->next;
}

void gp_physical_retained(uint64_t handle)
{
  enter();
  gp_physical_t *physical = find_handle(handle);
  if (!physical) {
    /* "guaranteed to be the same handle value used to map the memory" (cuMemRetainAllocationHandle) */
    for (physical = without_handle; physical && physical->handle != handle; physical = physical->next) {
    }
    if (physical && gp_address_map_insert(&handles, handle_key(handle), physical))
      leave_without_handle(physical);
    else
      physical = NULL;
  }
  if (physical)
    physical->refs++;
  leave();
}

void gp_physical_exported(uint64_t handle)
{
  enter();
  gp_physical_t *physical = find_handle(handle);
  if (physical)
    physical->is_exported = true;
  leave();
}

bool gp_physical_is_exported(const gp_physical_t *physical)
{
  return physical->is_exported;
}

/* Removes a mapping. Returns the memory if neither handle nor mapping is left, else NULL. */
static gp_physical_t *drop_mapping(gp_physical_t *physical)
{
  gp_assert(physical->mappings > 0);
  if (--physical->mappings > 0 || physical->refs > 0)
    return NULL;
  leave_without_handle(physical);
  return physical;
}

gp_physical_t *gp_physical_release(uint64_t handle)
{
  enter();
  gp_physical_t *physical = find_handle(handle);
  if (physical) {
    gp_assert(physical->refs > 0); /* the map of handles contained it */
    physical->mappings++;
    if (--physical->refs == 0) {
      (void)gp_address_map_remove(&handles, handle_key(handle));
      physical->next = without_handle;
      without_handle = physical;
    }
  }
  leave();
  return physical;
}

gp_physical_t *gp_physical_released(gp_physical_t *physical, bool done)
{
  enter();
  if (!done && physical->refs++ == 0) {
    leave_without_handle(physical);
    /* If there is no host memory for the map's entry, a later release does not find the record, and the
     * memory stays counted. */
    (void)gp_address_map_insert(&handles, handle_key(physical->handle), physical);
  }
  gp_physical_t *over = drop_mapping(physical);
  leave();
  return over;
}

void gp_physical_end(gp_physical_t *physical)
{
  gp_assert(physical->refs == 0 && physical->mappings == 0);
  free(physical);
}

gp_mapping_t *gp_physical_map(uint64_t handle, uint64_t address, uint64_t bytes)
{
  gp_mapping_t *mapping = malloc(sizeof(*mapping));
  if (!mapping)
    return NULL;
  enter();
  gp_physical_t *physical = address > 1 ? find_handle(handle) : NULL;
  /* The driver refuses an address that is already mapped. */
  if (physical && !gp_address_map_find(&mappings, address) &&
      gp_address_map_insert(&mappings, address, mapping)) {
    *mapping = (gp_mapping_t){.address = address, .bytes = bytes, .physical = physical};
    physical->mappings++;
  } else {
    physical = NULL;
  }
  leave();
  if (!physical) {
    free(mapping);
    return NULL;
  }
  return mapping;
}

gp_physical_t *gp_physical_map_undo(gp_mapping_t *mapping)
{
  enter();
  (void)gp_address_map_remove(&mappings, mapping->address);
  gp_physical_t *over = drop_mapping(mapping->physical);
  leave();
  free(mapping);
  return over;
}

gp_mapping_t *gp_physical_unmap(uint64_t address, uint64_t bytes)
{
  gp_mapping_t *list = NULL;

  enter();
  for (uint64_t at = address; at > 1 && at - address < bytes;) {
    gp_mapping_t *mapping = gp_address_map_remove(&mappings, at);
    if (!mapping)
      break; /* the rest of the range is unknown or not mapped */
    mapping->next = list;
    list = mapping;
    at += mapping->bytes;
  }
  leave();
  return list;
}

gp_mapping_t *gp_physical_unmapped(gp_mapping_t *list, gp_physical_t **ret_over)
{
  gp_mapping_t *next = list->next;

  enter();
  *ret_over = drop_mapping(list->physical);
  leave();
  free(list);
  return next;
}

void gp_physical_unmap_undo(gp_mapping_t *list)
{
  enter();
  while (list) {
    gp_mapping_t *next = list->next;
    (void)gp_address_map_insert(&mappings, list->address, list); /* the map had room for this entry before */
    list = next;
  }
  leave();
}
