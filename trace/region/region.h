/*
 * The memory of the record: one mapping with fixed sections and without pointers. The mapping is a file in
 * shared memory (/dev/shm), which survives the end of the process, even a kill. So `gpupool recover` can read
 * it. If no file can be created, the mapping is ordinary memory, and the record is lost with the process.
 *
 * The region reserves address space for the largest size of each section. gp_region_grow makes sure that
 * pages exist before a caller accesses them. So a full file system causes an error result and not a SIGBUS.
 * There is no file before the first section grows: a program that never allocates GPU memory leaves no file.
 *
 * A forked child does not inherit the mapping of the file, because the child could only corrupt its parent's
 * record.
 *
 * This folder includes format and base.
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

#define GP_REGION_SHARE     8            /* the record uses at most 1/8 of the file system's free space */
#define GP_REGION_BYTES_MIN (512 * 1024) /* a smaller record is not useful */

/* The parameters of a region. */
typedef struct gp_region_plan {
  const char *root;       /* parent of the folders gpupool.UID; "none": use ordinary memory */
  uint64_t base_ns;       /* start of recording on the engine's clock */
  uint64_t start_time_us; /* start of recording in microseconds since 1970 */
  pid_t pid;
  size_t capacity[GP_SECTION_COUNT];                  /* maximum size of each section in bytes */
  int (*statvfs)(int fd, struct statvfs *ret_status); /* for tests; NULL: fstatvfs */
} gp_region_plan_t;

typedef struct gp_region {
  gp_lock_t lock;        /* a leaf: no other lock is taken while this lock is held */
  gp_region_plan_t plan; /* plan.root is borrowed */
  gp_record_header_t *header;
  size_t bytes;
  size_t offsets[GP_SECTION_COUNT];
  _Atomic size_t used[GP_SECTION_COUNT]; /* a private copy, because other processes could change the header */
  size_t present;                        /* bytes in use in all sections */
  size_t budget;                         /* maximum bytes of the file; SIZE_MAX for ordinary memory */
  atomic_bool is_started;
  bool is_file;
  gp_record_file_t file; /* valid if is_file is set */
  char problem[160];     /* why there is no file; "" if there is one or none was requested */
} gp_region_t;

/* Reserves address space. Returns false if there is not enough. plan->root must live as long as the
 * region. */
bool gp_region_init(gp_region_t *region, const gp_region_plan_t *plan);

/* Unmaps the memory but leaves the file. gp_region_remove removes the file. */
void gp_region_fini(gp_region_t *region);

/* Creates the file, or falls back to ordinary memory. Does nothing if the region is started already. The
 * first gp_region_grow also starts the region. No thread may write to a section before that. Thread-safe. */
void gp_region_start(gp_region_t *region);

static inline bool gp_region_is_started(const gp_region_t *region)
{
  return atomic_load_explicit(&region->is_started, memory_order_acquire);
}

/* Returns the address of a section, which never changes, and its maximum size. The section's memory is
 * zeroed; the caller must grow the section before accessing it. */
void *gp_region_section(gp_region_t *region, gp_section_t section, size_t *ret_capacity);

/* Makes bytes [0, bytes) of a section usable, for gp_region_grow. Returns false and changes nothing if there
 * is no memory or if the section's capacity is exceeded. Thread-safe. */
bool gp_region_grow_slowly(gp_region_t *region, gp_section_t section, size_t bytes);

static inline bool gp_region_grow(gp_region_t *region, gp_section_t section, size_t bytes)
{
  return bytes <= atomic_load_explicit(&region->used[section], memory_order_acquire) ||
         gp_region_grow_slowly(region, section, bytes);
}

/* Returns the number of bytes of a section that are usable now. */
static inline size_t gp_region_used(const gp_region_t *region, gp_section_t section)
{
  return atomic_load_explicit(&region->used[section], memory_order_acquire);
}

/* Removes the file, because the process ends and the record is not needed. The mapping remains.
 * Thread-safe. */
void gp_region_remove(gp_region_t *region);

#endif
