/* Memory for the recorder and the snapshot writer. It comes directly from the kernel, so that neither
 * depends on the state of the program's heap, or on a replaced malloc. */
#ifndef GP_BASE_PAGES_H
#define GP_BASE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if GP_DEBUG_LEVEL >= 1
/* Bytes mapped, for tests: an object must have unmapped its own bytes when it ends. */
extern _Atomic size_t gp_pages_held_bytes;
#define GP_PAGES_COUNT(bytes)                                                                                \
  (void)atomic_fetch_add_explicit(&gp_pages_held_bytes, bytes, memory_order_relaxed)
#else
#define GP_PAGES_COUNT(bytes) (void)(bytes)
#endif

/* Maps zeroed private memory. Only touched pages use memory, unless populate requests all of them now.
 * Returns NULL if there is no memory. */
static inline void *gp_pages_map(size_t bytes, bool populate)
{
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : MAP_NORESERVE);
  void *pages = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (pages == MAP_FAILED)
    return NULL;
  GP_PAGES_COUNT(bytes);
  return pages;
}

/* NULL is legal. */
static inline void gp_pages_unmap(void *pages, size_t bytes)
{
  if (!pages)
    return;
  GP_PAGES_COUNT(-bytes);
  (void)munmap(pages, bytes ? bytes : 1); /* cannot fail for memory from gp_pages_map */
}

/* Returns the pages that lie entirely within the bytes to the kernel. The caller no longer needs the
 * bytes, but may still read them: from now on each byte either has its old value or is zero. The memory
 * may come from malloc. This only saves memory, so it may fail. */
static inline void gp_pages_drop(void *bytes, size_t size)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t first = ((uintptr_t)bytes + page - 1) & ~(page - 1),
            end = ((uintptr_t)bytes + size) & ~(page - 1);
  if (first < end)
    (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Memory reserved for the snapshot writer, for the moment when the host has none, which is when a snapshot
 * matters most. */

/* Reserves the memory, once in a process, with all its pages touched. Returns false if the host has no
 * memory. */
bool gp_emergency_pages_prepare(void);

/*
 * Do what gp_pages_map and gp_pages_unmap do, but when the kernel refuses, map uses the reserved memory, as
 * long as it lasts. One thread at a time may call them: the one that writes the snapshot. Reserved memory can
 * be used again once all of it was returned.
 */
void *gp_emergency_pages_map(size_t bytes, bool populate);
void gp_emergency_pages_unmap(void *pages, size_t bytes);

/* Returns the number of results of gp_emergency_pages_map that were not returned; for asserts. To be
 * called by the same thread. */
unsigned gp_emergency_pages_held(void);

#endif
