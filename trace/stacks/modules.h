/* The loaded programs and libraries with their addresses, kept after they are unloaded. Append-only and
 * without pointers, so that another process can read it. */
#ifndef GP_TRACE_MODULES_H
#define GP_TRACE_MODULES_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"
#include "trace/region/region.h"
#include "base/sort.h"

/* The loader's counts of loads and unloads so far. */
typedef struct gp_loader_counts {
  uint64_t loads;
  uint64_t unloads;
} gp_loader_counts_t;

/* Zeroed memory is a table that was not begun. The caller has a lock, which writers hold. */
typedef struct gp_modules {
  gp_region_t *region;
  gp_module_log_t *log; /* a section of the region */
  size_t log_bytes;     /* at most */
  gp_sort_key_t
      *loaded; /* the objects of the last scan: start and module, by address; then room for the next scan */
  size_t loaded_count;
  uint32_t *offsets;      /* of record i in log->data */
  _Atomic uint64_t loads; /* as of the last scan */
  _Atomic uint64_t unloads;
  _Atomic uint32_t generation; /* grows when an address may be in other code than before; from 1 */
} gp_modules_t;

/* Makes an empty table in region. Returns false if the host has no memory; then
 * there is nothing to free. */
bool gp_modules_init(gp_modules_t *modules, gp_region_t *region);
void gp_modules_fini(gp_modules_t *modules); /* zeroed memory is legal */

/* Takes the loader's lock for a moment. Any thread. */
gp_loader_counts_t gp_loader_counts(void);

/* True if nothing was loaded or unloaded between the last scan and counts. Any thread, without the lock. */
static inline bool gp_modules_are_current(const gp_modules_t *modules, gp_loader_counts_t counts)
{
  return atomic_load_explicit(&modules->loads, memory_order_acquire) == counts.loads &&
         atomic_load_explicit(&modules->unloads, memory_order_relaxed) == counts.unloads;
}

/* Scans the loaded objects. The caller holds its lock; this takes the loader's lock inside. Leaves out new
 * modules when the table is full. */
void gp_modules_scan(gp_modules_t *modules);

/* Returns the module that contains address, as of the last scan; -1: none. The caller holds its lock. */
int32_t gp_modules_find(const gp_modules_t *modules, uint64_t address);

/* The address range of a loaded program or library. */

/* All its segments are in [start, end), perhaps with something else in between. */
typedef struct gp_bounds {
  uintptr_t start; /* UINTPTR_MAX, with end 0, if it has no segments */
  uintptr_t end;
} gp_bounds_t;

/* info: from a callback of dl_iterate_phdr. Any thread, signal handlers too. */
gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info);

#endif
