#include "tools/array.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"

#define ROOM_FIRST 16

bool gp_array_resize(void *items, size_t room, size_t item_size)
{
  void *old;
  memcpy(&old, items, sizeof(old));
  void *larger = room <= SIZE_MAX / item_size ? realloc(old, room * item_size) : NULL;
  if (!larger)
    return false;
  memcpy(items, &larger, sizeof(larger));
  return true;
}

bool gp_array_grow(void *items, size_t count, size_t item_size)
{
  gp_assert((count & (count - 1)) == 0);
  if (count > 0 && count < ROOM_FIRST)
    return true;
  return count <= SIZE_MAX / 2 && gp_array_resize(items, count ? 2 * count : ROOM_FIRST, item_size);
}
