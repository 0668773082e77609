/*
 * The memory of the record: one mapping of fixed sections without pointers. It is a file in shared memory
 * (/dev/shm), which survives the end of the process, even by a kill, and which `gpupool recover` reads. If no
 * file can be created it is ordinary memory, and the record is lost with the process.
 *
 * The region reserves address space for the largest size of each section. gp_region_grow makes sure that
 * pages exist before a caller touches them, so that a full file system is a result and not a SIGBUS. There
 * is no file before the first section grows: a program that never asks for GPU memory leaves no trace.
 *
 * A forked child does not inherit the mapping of the file: it could only corrupt its parent's record.
 *
 * This folder includes format, base and base.
 */
#ifndef GP_TRACE_REGION_H
#define GP_TRACE_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/lock.h"
#include "format/record.h"
#include "trace/region/record_file.h"

#define GP_REGION_SHARE     8            /* at most 1/8 of the file system's free space */
#define GP_REGION_BYTES_MIN (512 * 1024) /* with less the record is not worthwhile */

/* The region to make. */
typedef struct gp_region_plan {
  const char *root;       /* the folder that has one for each user; "none": ordinary memory */
  uint64_t base_ns;       /* the moment when recording began, by the clock of events ... */
  uint64_t start_time_us; /* ... and in microseconds since 1970 */
  pid_t pid;
  size_t capacity[GP_SECTION_COUNT];                  /* bytes, at most */
  int (*statvfs)(int fd, struct statvfs *ret_status); /* for tests; NULL: fstatvfs */
} gp_region_plan_t;

typedef struct gp_region {
  gp_lock_t lock;        /* a leaf; growth, and the first start */
  gp_region_plan_t plan; /* root is borrowed */
  gp_record_header_t *header;
  size_t bytes;
  size_t offsets[GP_SECTION_COUNT];
  _Atomic size_t used[GP_SECTION_COUNT]; /* a copy of the header's, which others could change */
  size_t present;                        /* bytes of all sections */
  size_t budget;                         /* for a file; SIZE_MAX for ordinary memory */
  atomic_bool is_started;
  bool is_file;
  gp_record_file_t file; /* with is_file */
  char problem[160];     /* why there is no file; "" if there is one, or if none was wanted */
} gp_region_t;

/* Reserves address space. root must live as long as the region. False: there is none. */
bool gp_region_init(gp_region_t *region, const gp_region_plan_t *plan);

/* Unmaps the memory. A file stays: see gp_region_remove. */
void gp_region_fini(gp_region_t *region);

/* Creates the file, or falls back to ordinary memory, unless that was done before; the first gp_region_grow
 * also does it. Until then nothing may write to sections. Thread safe. */
void gp_region_start(gp_region_t *region);

static inline bool gp_region_is_started(const gp_region_t *region)
{
  return atomic_load_explicit(&region->is_started, memory_order_acquire);
}

/* The address of a section, fixed for the region's life, and its largest size. Zeroed; the caller
 * must grow it before use. */
void *gp_region_section(gp_region_t *region, gp_section_t section, size_t *ret_capacity);

/* Makes bytes [0, bytes) of a section usable. False: there is no memory for them, or they exceed its
 * capacity; then nothing changes. Cheap if they are usable already. Thread safe. */
bool gp_region_grow_slowly(gp_region_t *region, gp_section_t section, size_t bytes);

static inline bool gp_region_grow(gp_region_t *region, gp_section_t section, size_t bytes)
{
  return bytes <= atomic_load_explicit(&region->used[section], memory_order_acquire) ||
         gp_region_grow_slowly(region, section, bytes);
}

/* Returns the bytes of a section that are usable now. */
static inline size_t gp_region_used(const gp_region_t *region, gp_section_t section)
{
  return atomic_load_explicit(&region->used[section], memory_order_acquire);
}

/* Removes the file when the process ends and no longer needs the record; the memory stays. Thread safe. */
void gp_region_remove(gp_region_t *region);

#endif
