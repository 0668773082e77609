#include "trace/util/emergency_pages.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "trace/util/pages.h"

#define ALIGNMENT 64

static char *_Atomic spare; /* NULL: nothing is set aside */
static size_t used;
static unsigned parts; /* taken and not given back */

bool gp_spare_prepare(void)
{
  char *expected = NULL;
  if (atomic_load(&spare))
    return true;
  char *pages = gp_pages_map(GP_SPARE_BYTES, true);
  if (pages && !atomic_compare_exchange_strong(&spare, &expected, pages))
    gp_pages_unmap(pages, GP_SPARE_BYTES); /* another thread was first */
  return atomic_load(&spare) != NULL;
}

void *gp_spare_map(size_t bytes, bool populate)
{
  void *pages = gp_pages_map(bytes, populate);
  char *begin = atomic_load(&spare);
  if (pages || !begin)
    return pages;
  if (bytes > GP_SPARE_BYTES - used)
    return NULL;
  char *part = begin + used;
  used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (used > GP_SPARE_BYTES)
    used = GP_SPARE_BYTES;
  parts++;
  memset(part, 0, bytes);
  return part;
}

void gp_spare_unmap(void *pages, size_t bytes)
{
  uintptr_t begin = (uintptr_t)atomic_load(&spare);
  if (!begin || (uintptr_t)pages < begin || (uintptr_t)pages >= begin + GP_SPARE_BYTES) {
    gp_pages_unmap(pages, bytes);
    return;
  }
  if (--parts == 0)
    used = 0;
}
