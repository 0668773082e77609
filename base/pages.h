/* Memory for the recorder and the snapshot writer. It comes directly from the kernel, so neither depends on
 * the state of the program's heap or on a replaced malloc. */
#ifndef GP_BASE_PAGES_H
#define GP_BASE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if GP_DEBUG_LEVEL >= 1
/* Number of bytes mapped at present. Tests check that an object unmaps all its bytes when it is destroyed. */
extern _Atomic size_t gp_pages_held_bytes;
#define GP_PAGES_COUNT(bytes)                                                                                \
  (void)atomic_fetch_add_explicit(&gp_pages_held_bytes, bytes, memory_order_relaxed)
#else
#define GP_PAGES_COUNT(bytes) (void)(bytes)
#endif

/* Maps zeroed private memory. Returns NULL if there is no memory. With `populate`, all pages become resident
 * at once; otherwise each page becomes resident at its first access. */
static inline void *gp_pages_map(size_t bytes, bool populate)
{
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : MAP_NORESERVE);
  void *pages = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (pages == MAP_FAILED)
    return NULL;
  GP_PAGES_COUNT(bytes);
  return pages;
}

/* Unmaps memory from gp_pages_map. `pages` may be NULL. */
static inline void gp_pages_unmap(void *pages, size_t bytes)
{
  if (!pages)
    return;
  GP_PAGES_COUNT(-bytes);
  (void)munmap(pages, bytes ? bytes : 1); /* cannot fail for memory from gp_pages_map */
}

/* Releases to the kernel the whole pages within bytes[0..size), which the caller no longer needs. The caller
 * may still read them: each byte has its old value or is zero. The memory may come from malloc. The call only
 * saves memory, so failures are ignored. */
static inline void gp_pages_drop(void *bytes, size_t size)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t first = ((uintptr_t)bytes + page - 1) & ~(page - 1),
            end = ((uintptr_t)bytes + size) & ~(page - 1);
  if (first < end)
    (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Reserved memory for the snapshot writer. It is used when the host has no memory left, which is when a
 * snapshot matters most. */

/* Reserves the memory once per process and makes all its pages resident. Returns false if the host has no
 * memory. */
bool gp_emergency_pages_prepare(void);

/*
 * Do what gp_pages_map and gp_pages_unmap do. If the kernel refuses, gp_emergency_pages_map uses the reserved
 * memory as long as it lasts. Only the thread that writes the snapshot may call them, so one thread at a
 * time. Reserved memory can be used again only after all of it was unmapped.
 */
void *gp_emergency_pages_map(size_t bytes, bool populate);
void gp_emergency_pages_unmap(void *pages, size_t bytes);

/* Returns the number of ranges from gp_emergency_pages_map that are still mapped; for asserts. Must be called
 * by the thread that writes the snapshot. */
unsigned gp_emergency_pages_held(void);

#endif
