/* The table of loaded programs and libraries with their addresses. Entries remain after an unload. The log is
 * append-only and without pointers, so that another process can read it. */
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

/* The table of modules; zeroed memory is an uninitialized table. Writers hold a lock of the caller. */
typedef struct gp_modules {
  gp_region_t *region;
  gp_module_log_t *log; /* a section of the region */
  size_t log_bytes;     /* capacity */
  gp_sort_key_t
      *loaded; /* start and module of each object of the last scan, by address; then room for the next scan */
  size_t loaded_count;
  uint32_t *offsets;      /* offset of record i in log->data */
  _Atomic uint64_t loads; /* as of the last scan */
  _Atomic uint64_t unloads;
  _Atomic uint32_t generation; /* from 1; incremented when an address may belong to different code */
} gp_modules_t;

/* Makes an empty table in region. Returns false if the host has no memory; nothing must be freed then. */
bool gp_modules_init(gp_modules_t *modules, gp_region_t *region);
void gp_modules_fini(gp_modules_t *modules); /* zeroed memory is legal */

/* Returns the loader's counts. Takes the loader's lock briefly. Any thread. */
gp_loader_counts_t gp_loader_counts(void);

/* Returns true if nothing was loaded or unloaded between the last scan and the reading of counts. Any thread;
 * the lock is not needed. */
static inline bool gp_modules_are_current(const gp_modules_t *modules, gp_loader_counts_t counts)
{
  return atomic_load_explicit(&modules->loads, memory_order_acquire) == counts.loads &&
         atomic_load_explicit(&modules->unloads, memory_order_relaxed) == counts.unloads;
}

/* Scans the loaded objects. If the table is full, new modules are left out. The caller holds its lock; the
 * function takes the loader's lock. */
void gp_modules_scan(gp_modules_t *modules);

/* Returns the index of the module that contained address at the last scan, or -1. The caller holds its
 * lock. */
int32_t gp_modules_find(const gp_modules_t *modules, uint64_t address);

/* The address range of a loaded program or library. All its segments are in [start, end), but other mappings
 * may be there too. */
typedef struct gp_bounds {
  uintptr_t start; /* UINTPTR_MAX, with end 0, if it has no segments */
  uintptr_t end;
} gp_bounds_t;

/* Returns the range of an object in a callback of dl_iterate_phdr. Any thread; safe in signal handlers. */
gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info);

#endif
