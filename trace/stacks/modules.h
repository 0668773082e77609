/*
 * What code was loaded where: programs and libraries, kept after they were unloaded. Append-only and without
 * pointers, so that another process can read it.
 */
#ifndef GP_TRACE_MODULES_H
#define GP_TRACE_MODULES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format/stack_log.h"
#include "trace/region/region.h"
#include "trace/util/sort.h"

/* How often the loader has loaded and unloaded something so far. */
typedef struct gp_loader_counts {
  uint64_t loads;
  uint64_t unloads;
} gp_loader_counts_t;

/* Zeroed memory is a table that was not begun. Writers hold a lock of the caller's. */
typedef struct gp_modules {
  gp_region_t *region;
  gp_module_log_t *log; /* a section of the region */
  size_t log_bytes;     /* at most */
  gp_sort_key_t
      *loaded; /* what was loaded at the last scan: start and module, by address; then room for the next */
  size_t loaded_count;
  uint32_t *offsets;      /* of record i in log->data */
  _Atomic uint64_t loads; /* as of the last scan */
  _Atomic uint64_t unloads;
  _Atomic uint32_t generation; /* grows when an address may mean other code than before; from 1 */
} gp_modules_t;

/* Makes an empty table in region. Returns false if the host has no memory; then
 * nothing is to be given back. */
bool gp_modules_init(gp_modules_t *modules, gp_region_t *region);
void gp_modules_fini(gp_modules_t *modules); /* of zeroed memory is legal */

/* Takes the loader's lock for a moment. Any thread. */
gp_loader_counts_t gp_loader_counts(void);

/* True if nothing was loaded or unloaded between the last scan and counts. Any thread, without the lock. */
static inline bool gp_modules_are_current(const gp_modules_t *modules, gp_loader_counts_t counts)
{
  return atomic_load_explicit(&modules->loads, memory_order_acquire) == counts.loads &&
         atomic_load_explicit(&modules->unloads, memory_order_relaxed) == counts.unloads;
}

/* Looks at what is loaded. With the lock; takes the loader's lock inside. When the table is full, new
 * modules are left out. */
void gp_modules_scan(gp_modules_t *modules);

/* The module in which address is, as of the last scan; -1: none. With the lock. */
int32_t gp_modules_find(const gp_modules_t *modules, uint64_t address);

#endif
