/* The table of loaded programs and libraries with their addresses. Entries remain after an unload. The log is
 * append-only and contains no pointers, so another process can read it. */
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

/* The table of modules; zeroed memory is an uninitialized table. Writers hold a lock that the caller
 * provides. */
typedef struct gp_modules {
  gp_region_t *region;
  gp_module_log_t *log; /* a section of the region */
  size_t log_bytes;     /* capacity in bytes */
  gp_sort_key_t
      *loaded; /* start and module of each object of the last scan, by address; then room for the next scan */
  size_t loaded_count;
  uint32_t *offsets;      /* offset of record i in log->data */
  _Atomic uint64_t loads; /* the loader's counts at the last scan */
  _Atomic uint64_t unloads;
  _Atomic uint32_t generation; /* from 1 on; incremented when an address may belong to different code */
} gp_modules_t;

/* Makes an empty table in `region`. Returns false if the host has no memory; gp_modules_fini is then not
 * necessary. */
bool gp_modules_init(gp_modules_t *modules, gp_region_t *region);
void gp_modules_fini(gp_modules_t *modules); /* zeroed memory is legal */

/* Returns the loader's counts. Takes the loader's lock briefly. Thread-safe. */
gp_loader_counts_t gp_loader_counts(void);

/* Returns true if nothing was loaded or unloaded between the last scan and the reading of `counts`.
 * Thread-safe; the lock is not necessary. */
static inline bool gp_modules_are_current(const gp_modules_t *modules, gp_loader_counts_t counts)
{
  return atomic_load_explicit(&modules->loads, memory_order_acquire) == counts.loads &&
         atomic_load_explicit(&modules->unloads, memory_order_relaxed) == counts.unloads;
}

/* Scans the loaded objects and adds new ones to the table. If the table is full, leaves them out. The caller
 * holds the lock for writers; the function takes the loader's lock. */
void gp_modules_scan(gp_modules_t *modules);

/* Returns the index of the module that contained `address` at the last scan, or -1 if there is none. The
 * caller holds the lock for writers. */
int32_t gp_modules_find(const gp_modules_t *modules, uint64_t address);

/* The address range of a loaded program or library. All its segments are in [start, end), but there may be
 * other mappings, too. */
typedef struct gp_bounds {
  uintptr_t start; /* UINTPTR_MAX, with `end` 0, if the object has no segments */
  uintptr_t end;
} gp_bounds_t;

/* Returns the range of an object, for callbacks of dl_iterate_phdr. Thread-safe and async-signal-safe. */
gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info);

#endif
