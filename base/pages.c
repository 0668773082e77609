#include "base/pages.h"

#include <string.h>

#define GP_EMERGENCY_BYTES ((size_t)2 << 20) /* enough for some ten thousand live blocks and events */

#define ALIGNMENT 64

static char *_Atomic reserve; /* NULL: no memory is reserved */
static size_t used;
static unsigned parts;      /* number of ranges in use within the reserve */
static unsigned held_count; /* number of all ranges in use, within the reserve or not */

bool gp_emergency_pages_prepare(void)
{
  char *expected = NULL;
  if (atomic_load(&reserve))
    return true;
  char *pages = gp_pages_map(GP_EMERGENCY_BYTES, true);
  if (pages && !atomic_compare_exchange_strong(&reserve, &expected, pages))
    gp_pages_unmap(pages, GP_EMERGENCY_BYTES); /* another thread has set `reserve` first */
  return atomic_load(&reserve) != NULL;
}

static void *take_from_reserve(size_t bytes)
{
  char *begin = atomic_load(&reserve);
  if (!begin || bytes > GP_EMERGENCY_BYTES - used)
    return NULL;
  char *part = begin + used;
  used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (used > GP_EMERGENCY_BYTES)
    used = GP_EMERGENCY_BYTES;
  parts++;
  memset(part, 0, bytes);
  return part;
}

void *gp_emergency_pages_map(size_t bytes, bool populate)
{
  void *pages = gp_pages_map(bytes, populate);
  if (!pages)
    pages = take_from_reserve(bytes);
  held_count += pages != NULL;
  return pages;
}

void gp_emergency_pages_unmap(void *pages, size_t bytes)
{
  uintptr_t begin = (uintptr_t)atomic_load(&reserve);
  held_count -= pages != NULL;
  if (!begin || (uintptr_t)pages < begin || (uintptr_t)pages >= begin + GP_EMERGENCY_BYTES) {
    gp_pages_unmap(pages, bytes);
    return;
  }
  if (--parts == 0)
    used = 0;
}

unsigned gp_emergency_pages_held(void)
{
  return held_count;
}

#if GP_DEBUG_LEVEL >= 1
_Atomic size_t gp_pages_held_bytes;
#endif
