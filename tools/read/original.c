#include "tools/read/original.h"

#include <stdlib.h>
#include <string.h>

#include "pool/util/assert.h"

#define SLOTS_FIRST 256

gp_original_t *gp_original_create(void)
{
  return calloc(1, sizeof(gp_original_t));
}

void gp_original_destroy(gp_original_t *original)
{
  if (!original)
    return;
  gp_column_destroy(original->events);
  gp_column_destroy(original->times_us);
  free(original->segments);
  free(original->bytes);
  free(original->ends);
  free(original->slots);
  free(original);
}

const unsigned char *gp_original_get(const gp_original_t *original, uint32_t part, size_t *ret_length)
{
  gp_assert_internal(part && part <= original->part_count);
  size_t first = part > 1 ? original->ends[part - 2] : 0;
  *ret_length = original->ends[part - 1] - first;
  return original->bytes + first;
}

/* FNV-1a */
static size_t hash_of(const unsigned char *bytes, size_t length)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return (size_t)(hash ^ hash >> 32);
}

/* Room for `needed` items; false: no memory. */
static bool reserve(void **items, size_t *room, size_t needed, size_t item_size, size_t *grown)
{
  if (needed <= *room)
    return true;
  size_t larger_room = 2 * *room > needed ? 2 * *room : needed + 64;
  void *larger = realloc(*items, larger_room * item_size);
  if (!larger)
    return false;
  *grown += (larger_room - *room) * item_size;
  *items = larger;
  *room = larger_room;
  return true;
}

static bool grow_slots(gp_original_t *original, size_t *grown)
{
  size_t room = original->slot_room ? 2 * original->slot_room : SLOTS_FIRST, length;
  uint32_t *slots = calloc(room, sizeof(*slots));
  if (!slots)
    return false;
  for (uint32_t part = 1; part <= original->part_count; part++) {
    const unsigned char *bytes = gp_original_get(original, part, &length);
    size_t at = hash_of(bytes, length) & (room - 1);
    while (slots[at])
      at = (at + 1) & (room - 1);
    slots[at] = part;
  }
  *grown += (room - original->slot_room) * sizeof(*slots);
  free(original->slots);
  original->slots = slots;
  original->slot_room = room;
  return true;
}

uint32_t gp_original_put(
    gp_original_t *original, const unsigned char *bytes, size_t length, size_t *ret_grown)
{
  size_t other_length;
  *ret_grown = 0;
  if (original->part_count == UINT32_MAX - 1 ||
      (2 * ((size_t)original->part_count + 1) > original->slot_room && !grow_slots(original, ret_grown)))
    return GP_ORIGINAL_NONE;
  size_t at = hash_of(bytes, length) & (original->slot_room - 1);
  for (; original->slots[at]; at = (at + 1) & (original->slot_room - 1)) {
    const unsigned char *other = gp_original_get(original, original->slots[at], &other_length);
    if (other_length == length && memcmp(other, bytes, length) == 0)
      return original->slots[at];
  }
  if (!reserve(
          (void **)&original->bytes, &original->byte_room, original->byte_count + length, 1, ret_grown) ||
      !reserve((void **)&original->ends, &original->end_room, (size_t)original->part_count + 1,
          sizeof(*original->ends), ret_grown))
    return GP_ORIGINAL_NONE;
  memcpy(original->bytes + original->byte_count, bytes, length);
  original->byte_count += length;
  original->ends[original->part_count++] = original->byte_count;
  original->slots[at] = original->part_count;
  return original->part_count;
}

/* Small numbers of either sign take few bytes: seven bits in each, the lowest first. */
size_t gp_original_write(const gp_original_element_t *element, unsigned char *to)
{
  size_t length = 0;
  to[length++] = (unsigned char)element->kind;
  if (element->kind == GP_ORIGINAL_FLOAT) {
    memcpy(to + length, &element->number, sizeof(element->number));
    return length + sizeof(element->number);
  }
  if (element->kind < GP_ORIGINAL_INTEGER)
    return length;
  uint64_t rest = (uint64_t)element->integer << 1 ^ (element->integer < 0 ? UINT64_MAX : 0);
  for (; rest >= 0x80; rest >>= 7)
    to[length++] = (unsigned char)(rest | 0x80);
  to[length++] = (unsigned char)rest;
  return length;
}

bool gp_original_read(const unsigned char **at, const unsigned char *end, gp_original_element_t *ret_element)
{
  if (*at >= end)
    return false;
  *ret_element = (gp_original_element_t){.kind = (gp_original_kind_t) * (*at)++};
  if (ret_element->kind == GP_ORIGINAL_FLOAT) {
    memcpy(&ret_element->number, *at, sizeof(ret_element->number));
    *at += sizeof(ret_element->number);
  }
  if (ret_element->kind < GP_ORIGINAL_INTEGER || ret_element->kind == GP_ORIGINAL_FLOAT)
    return true;
  uint64_t rest = 0;
  for (unsigned shift = 0;; shift += 7) {
    unsigned char byte = *(*at)++;
    rest |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80)
      break;
  }
  ret_element->integer = (int64_t)(rest >> 1 ^ (rest & 1 ? UINT64_MAX : 0));
  return true;
}
