#include "tools/tune/pytorch_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/util/size.h"
#include "tools/replay/offline_driver.h"

/* The names and values of its source. */
#define MIN_BLOCK_SIZE  UINT64_C(512)
#define SMALL_SIZE      GP_MIB
#define SMALL_BUFFER    (2 * GP_MIB)
#define LARGE_BUFFER    (20 * GP_MIB)
#define MIN_LARGE_ALLOC (10 * GP_MIB)
#define ROUND_LARGE     (2 * GP_MIB)

/* A part of a segment; parts of one segment are a list in the order of their addresses. */
typedef struct part {
  uint64_t address;
  uint64_t size;
  struct part *previous;
  struct part *next;
  bool is_free;
  bool is_small; /* of the pool for small requests */
} part_t;

/* Free parts by size, then address. */
typedef struct pool {
  part_t **parts;
  size_t count;
  size_t room;
} pool_t;

typedef struct device {
  pool_t small;
  pool_t large;
  uint64_t held;
  uint64_t peak;
} device_t;

typedef struct policy {
  device_t devices[GP_SNAPSHOT_DEVICES];
  part_t **blocks;  /* by number */
  uint64_t *others; /* bytes of memory that no pool serves, by number */
  uint64_t next_address;
  gp_pytorch_figures_t *figures;
} policy_t;

static bool is_before(const part_t *part, uint64_t size, uint64_t address)
{
  return part->size < size || (part->size == size && part->address < address);
}

/* The place of the first free part that is not before. */
static size_t find(const pool_t *pool, uint64_t size, uint64_t address)
{
  size_t low = 0, high = pool->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (is_before(pool->parts[middle], size, address))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static pool_t *pool_of(device_t *device, const part_t *part)
{
  return part->is_small ? &device->small : &device->large;
}

/* Takes the part. False: there was no memory, the part is gone, and all that is left to do with the policy is
 * to destroy it. */
static bool put(device_t *device, part_t *part)
{
  pool_t *pool = pool_of(device, part);
  if (pool->count == pool->room) {
    size_t room = pool->room ? 2 * pool->room : 256;
    part_t **parts = realloc(pool->parts, room * sizeof(*parts));
    if (!parts) {
      free(part);
      return false;
    }
    pool->parts = parts;
    pool->room = room;
  }
  size_t place = find(pool, part->size, part->address);
  memmove(&pool->parts[place + 1], &pool->parts[place], (pool->count - place) * sizeof(part_t *));
  pool->parts[place] = part;
  pool->count++;
  part->is_free = true;
  return true;
}

static void take(device_t *device, part_t *part)
{
  pool_t *pool = pool_of(device, part);
  size_t place = find(pool, part->size, part->address);
  pool->count--;
  memmove(&pool->parts[place], &pool->parts[place + 1], (pool->count - place) * sizeof(part_t *));
  part->is_free = false;
}

static void hold(device_t *device, uint64_t bytes)
{
  device->held += bytes;
  device->peak = device->held > device->peak ? device->held : device->peak;
}

static part_t *new_segment(policy_t *policy, device_t *device, uint64_t size, bool is_small)
{
  part_t *part = calloc(1, sizeof(*part));
  uint64_t bytes = (size + ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE;

  if (!part)
    return NULL;
  if (is_small)
    bytes = SMALL_BUFFER;
  else if (size < MIN_LARGE_ALLOC)
    bytes = LARGE_BUFFER;
  *part = (part_t){.address = policy->next_address, .size = bytes, .is_small = is_small};
  policy->next_address += bytes;
  hold(device, bytes);
  policy->figures->calls++;
  policy->figures->cost_ns += gp_offline_cost(GP_OFFLINE_ALLOC, bytes);
  return part;
}

/* What is left of the part becomes one of its own, if it is worth that. */
static bool split(device_t *device, part_t *part, uint64_t size)
{
  uint64_t rest = part->size - size;
  if (part->is_small ? rest < MIN_BLOCK_SIZE : rest <= SMALL_SIZE)
    return true;
  part_t *remaining = calloc(1, sizeof(*remaining));
  if (!remaining)
    return false;
  *remaining = (part_t){.address = part->address + size,
      .size = rest,
      .previous = part,
      .next = part->next,
      .is_small = part->is_small};
  if (part->next)
    part->next->previous = remaining;
  part->next = remaining;
  part->size = size;
  return put(device, remaining);
}

static bool allocate(policy_t *policy, device_t *device, const gp_step_t *step)
{
  uint64_t size = step->size < MIN_BLOCK_SIZE
                      ? MIN_BLOCK_SIZE
                      : (step->size + MIN_BLOCK_SIZE - 1) / MIN_BLOCK_SIZE * MIN_BLOCK_SIZE;
  bool is_small = size <= SMALL_SIZE;
  pool_t *pool = is_small ? &device->small : &device->large;
  size_t place = find(pool, size, 0);
  part_t *part = place < pool->count ? pool->parts[place] : NULL;

  if (part)
    take(device, part);
  else
    part = new_segment(policy, device, size, is_small);
  policy->blocks[step->block] = part;
  return part && split(device, part, size);
}

/* The part takes in the one behind it, which is in no pool any more. */
static void join(part_t *part)
{
  part_t *next = part->next;
  part->size += next->size;
  part->next = next->next;
  if (next->next)
    next->next->previous = part;
  free(next);
}

static bool give(policy_t *policy, device_t *device, const gp_step_t *step)
{
  part_t *part = policy->blocks[step->block];

  policy->blocks[step->block] = NULL;
  if (!part)
    return true;
  if (part->next && part->next->is_free) {
    take(device, part->next);
    join(part);
  }
  if (part->previous && part->previous->is_free) {
    part = part->previous;
    take(device, part);
    join(part);
  }
  return put(device, part);
}

/* All parts of all segments: those that are free are in a pool, the others have a block. */
static void destroy(policy_t *policy, size_t block_count)
{
  for (size_t i = 0; i < block_count; i++)
    free(policy->blocks[i]);
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    pool_t *const pools[] = {&policy->devices[i].small, &policy->devices[i].large};
    for (size_t p = 0; p < 2; p++) {
      for (size_t j = 0; j < pools[p]->count; j++)
        free(pools[p]->parts[j]);
      free(pools[p]->parts);
    }
  }
  free(policy->blocks);
  free(policy->others);
  free(policy);
}

int gp_pytorch_policy(gp_pytorch_figures_t *ret_figures, const gp_workload_t *workload)
{
  policy_t *policy = calloc(1, sizeof(*policy));
  bool good = policy != NULL;

  *ret_figures = (gp_pytorch_figures_t){.held = 0};
  if (!good)
    return ENOMEM;
  policy->figures = ret_figures;
  policy->next_address = ROUND_LARGE;
  policy->blocks = calloc(workload->block_count + 1, sizeof(part_t *));
  policy->others = calloc(workload->block_count + 1, sizeof(*policy->others));
  good = policy->blocks && policy->others;
  for (size_t i = 0; i < workload->step_count && good; i++) {
    const gp_step_t *step = &workload->steps[i];
    device_t *device = &policy->devices[step->device];
    if (step->kind == GP_STEP_ALLOC && step->size > 0)
      good = allocate(policy, device, step);
    else if (step->kind == GP_STEP_FREE)
      good = give(policy, device, step);
    else if (step->kind == GP_STEP_FORWARDED_ALLOC)
      hold(device, policy->others[step->block] = step->size);
    else if (step->kind == GP_STEP_FORWARDED_FREE)
      device->held -= policy->others[step->block];
  }
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++)
    ret_figures->held += policy->devices[i].peak;
  destroy(policy, policy->blocks ? workload->block_count : 0);
  return good ? 0 : ENOMEM;
}
