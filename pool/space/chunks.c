#include "pool/space/chunks.h"

#include "pool/device_record.h"

#include <stdlib.h>
#include <string.h>

/* The first chunk that begins at address or above; `count`: none does. */
static size_t first_from(const gp_range_t *range, uint64_t address)
{
  size_t low = 0, high = range->count;

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (range->chunks[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static uint64_t end_of(const gp_chunk_t *chunk)
{
  return chunk->address + chunk->size;
}

bool gp_chunks_promise(gp_range_t *range, size_t count)
{
  size_t needed = range->count + range->promised + count;

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  if (needed > range->capacity) {
    size_t capacity = needed + needed / 2 + 16;
    gp_chunk_t *chunks = malloc(capacity * sizeof(*chunks));
    if (!chunks)
      return false;
    if (range->count > 0)
      memcpy(chunks, range->chunks, range->count * sizeof(*chunks));
    free(range->chunks);
    range->chunks = chunks;
    range->capacity = capacity;
  }
  range->promised += count;
  return true;
}

void gp_chunks_unpromise(gp_range_t *range, size_t count)
{
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock) && range->promised >= count);
  range->promised -= count;
}

void gp_chunks_add(gp_range_t *range, const gp_chunk_t *chunk)
{
  size_t at = first_from(range, chunk->address);

  gp_chunks_unpromise(range, 1);
  gp_assert_internal(range->count < range->capacity);
  gp_assert_internal(at == range->count || chunk->address + chunk->size <= range->chunks[at].address);
  gp_assert_internal(at == 0 || end_of(&range->chunks[at - 1]) <= chunk->address);
  memmove(&range->chunks[at + 1], &range->chunks[at], (range->count - at) * sizeof(*chunk));
  range->chunks[at] = *chunk;
  range->count++;
  range->mapped += chunk->size;
}

void gp_chunks_remove(gp_range_t *range, gp_chunk_t *chunk)
{
  size_t at = (size_t)(chunk - range->chunks);

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock) && at < range->count);
  range->count--;
  range->mapped -= chunk->size;
  memmove(chunk, chunk + 1, (range->count - at) * sizeof(*chunk));
}

gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address)
{
  size_t at = first_from(range, address + 1);
  gp_chunk_t *chunk = at > 0 ? &range->chunks[at - 1] : NULL;
  return chunk && address < end_of(chunk) ? chunk : NULL;
}

gp_chunk_t *gp_chunks_within(const gp_range_t *range, uint64_t address, uint64_t size, size_t *ret_count)
{
  *ret_count = 0;
  if (size < GP_CHUNK_STEP)
    return NULL;
  size_t first = first_from(range, address);
  size_t after = first_from(range, address + size);
  if (after > first && end_of(&range->chunks[after - 1]) > address + size)
    after--;
  *ret_count = after - first;
  return after > first ? &range->chunks[first] : NULL;
}

uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size)
{
  size_t count;
  const gp_chunk_t *chunks = gp_chunks_within(range, address, size, &count);

  return count > 0 ? end_of(&chunks[count - 1]) - chunks->address : 0;
}

bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size)
{
  const gp_chunk_t *chunk = gp_chunks_find(range, address);

  if (!chunk)
    return false;
  const gp_chunk_t *first = chunk, *last = chunk;
  while (first > range->chunks && end_of(first - 1) == first->address)
    first--;
  while (last + 1 < range->chunks + range->count && end_of(last) == last[1].address)
    last++;
  *ret_address = first->address;
  *ret_size = end_of(last) - first->address;
  return true;
}
