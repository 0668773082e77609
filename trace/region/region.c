#include "trace/region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/options.h"
#include "base/size.h"
#include "format/layout.h"
#include "base/pages.h"

#define PAGE_BYTES 4096u /* unit of layout and growth; a multiple of the system page size also works */

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static size_t round_up(size_t bytes, size_t unit)
{
  return (bytes + unit - 1) / unit * unit;
}

/* Returns the unit of growth: the machine's page size, which may be larger than PAGE_BYTES. */
static size_t page_bytes(void)
{
  long bytes = sysconf(_SC_PAGESIZE);
  return bytes > (long)PAGE_BYTES ? (size_t)bytes : PAGE_BYTES;
}

bool gp_region_init(gp_region_t *region, const gp_region_plan_t *plan)
{
  memset(region, 0, sizeof(*region));
  region->plan = *plan;
  size_t bytes = round_up(GP_RECORD_HEADER_BYTES, page_bytes());
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    region->offsets[i] = bytes;
    region->plan.capacity[i] = round_up(plan->capacity[i], page_bytes());
    bytes += region->plan.capacity[i];
  }
  region->bytes = bytes;
  region->header = gp_pages_map(bytes, false);
  if (!region->header)
    return false;
  gp_lock_init(&region->lock, GP_RANK_REGION);
  return true;
}

void gp_region_fini(gp_region_t *region)
{
  gp_pages_unmap(region->header, region->bytes);
  region->header = NULL;
  gp_assert_internal(gp_lock_is_free(&region->lock));
}

void *gp_region_section(gp_region_t *region, gp_section_t section, size_t *ret_capacity)
{
  gp_assert((unsigned)section < GP_SECTION_COUNT);
  if (ret_capacity)
    *ret_capacity = region->plan.capacity[section];
  return (char *)region->header + region->offsets[section];
}

/*
 * Makes sure that pages of the file exist. Returns 0 or an errno. The region keeps no descriptor, because the
 * program could close it or reuse its number. Since Linux 5.14 madvise works without a descriptor; on older
 * kernels the function opens the file again.
 */
static int make_present(gp_region_t *region, size_t offset, size_t bytes)
{
  if (madvise((char *)region->header + offset, bytes, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno != EINVAL)
    return errno == EFAULT ? ENOSPC : errno;
  int fd = gp_record_file_reopen(&region->file);
  if (fd < 0)
    return errno;
  int error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
  (void)close(fd); /* nothing was written through this descriptor */
  return error;
}

static void fill_header(gp_region_t *region)
{
  gp_record_header_t *header = region->header;
  header->layout_hash = gp_layout_hash();
  header->byte_order = GP_RECORD_BYTE_ORDER;
  header->bytes = region->bytes;
  header->base_ns = region->plan.base_ns;
  header->start_time_us = region->plan.start_time_us;
  header->pid = region->plan.pid;
  header->section_count = GP_SECTION_COUNT;
  (void)snprintf(header->library_version, sizeof(header->library_version), "%s", GP_VERSION);
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    header->sections[i].offset = region->offsets[i];
    header->sections[i].capacity = region->plan.capacity[i];
  }
  /* The magic is stored last: a reader that sees it also sees the rest. A signal fence suffices, because a
   * kill stops the process between two instructions. */
  atomic_signal_fence(memory_order_release);
  memcpy(header->magic, GP_RECORD_MAGIC, sizeof(header->magic));
}

static void say_problem(gp_region_t *region, const char *what, int error)
{
  char text[96] = "";
  (void)snprintf(region->problem, sizeof(region->problem), "%s%s%s", what, error ? ": " : "",
      error ? strerror_r(error, text, sizeof(text)) : "");
}

/* Sets the file's size, without allocating its pages. Returns 0 or an errno. Checks the process's limit
 * (ulimit -f) first, because exceeding the limit would raise a signal. */
static int set_length(int fd, size_t bytes)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    return EFBIG;
  return ftruncate(fd, (off_t)bytes) ? errno : 0;
}

/* Maps the file over the reserved addresses. If that fails, returns false, sets region->problem to the
 * reason, and leaves the reservation unchanged. */
static bool map_file(gp_region_t *region, int fd)
{
  struct statvfs status;
  int (*ask)(int, struct statvfs *) = region->plan.statvfs ? region->plan.statvfs : fstatvfs;
  if (ask(fd, &status)) {
    say_problem(region, "cannot query its file system", errno);
    return false;
  }
  uint64_t available = (uint64_t)status.f_bavail * status.f_frsize;
  region->budget = available / GP_REGION_SHARE > SIZE_MAX ? SIZE_MAX : (size_t)(available / GP_REGION_SHARE);
  if (region->budget < GP_REGION_BYTES_MIN) {
    char is_free[GP_SIZE_TEXT_BYTES], size[GP_SIZE_TEXT_BYTES];
    (void)snprintf(region->problem, sizeof(region->problem),
        "only %s of %s is free, and the record may use an eighth of the free space",
        gp_size_format(available, is_free),
        gp_size_format((uint64_t)status.f_blocks * status.f_frsize, size));
    return false;
  }
  int error = set_length(fd, region->bytes);
  if (error) {
    say_problem(region, "cannot reserve the size that the file may need", error);
    return false;
  }
  if (mmap(region->header, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    error = errno;
  } else if (madvise(region->header, region->bytes, MADV_DONTFORK)) {
    error = errno;
  } else {
    error = make_present(region, 0, region->offsets[0]);
  }
  if (!error)
    return true;
  say_problem(region, "cannot map the file", error);
  /* Maps ordinary memory at these addresses again. This should not fail, because the range was mapped a
   * moment ago. If it did, the next access would end the process. */
  (void)mmap(region->header, region->bytes, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return false;
}

/* Returns the root to use. If another user has taken the folder's name, logs one line and returns the second
 * root, so that the record is still kept in a file. */
static const char *choose_root(const gp_region_t *region)
{
  const char *root = region->plan.root, *problem;
  const char *second = gp_record_folder_is_taken(root) ? gp_record_second_root() : NULL;
  int folder = second ? gp_record_folder_open(second, true, &problem) : -1;
  if (folder < 0)
    return root;
  (void)close(folder); /* cannot lose data: it was opened for inspection */
  gp_log(GP_LOG_ERROR,
      "GPUPOOL_RECORD=%s: other users have access to the folder gpupool.%u in it; the record is kept in %s",
      root, (unsigned)geteuid(), second);
  return second;
}

static void start_file(gp_region_t *region, const char *root)
{
  const gp_region_plan_t *plan = &region->plan;
  int fd = gp_record_file_create(&region->file, root, plan->pid, plan->start_time_us);
  if (fd < 0) {
    say_problem(region, region->file.problem, errno);
    return;
  }
  region->is_file = map_file(region, fd);
  if (!region->is_file)
    gp_record_file_remove(&region->file);
  (void)close(fd); /* the mapping keeps the file */
}

/* Returns the log level for the message that there is no file. The level is error if another user has taken
 * the folder, or if the folder that the user has chosen does not exist. */
static gp_log_level_t problem_level(const char *root)
{
  bool is_chosen = strcmp(root, gp_option_table[GP_OPTION_record].default_text) != 0;
  return gp_record_folder_is_taken(root) || (is_chosen && !gp_record_root_is_there(root)) ? GP_LOG_ERROR
                                                                                          : GP_LOG_INFO;
}

/* Does what gp_region_start does. The caller holds the lock. */
static void start_locked(gp_region_t *region)
{
  const char *root = region->plan.root;
  gp_assert(gp_lock_is_held(&region->lock));
  if (strcmp(root, "none") != 0) {
    root = choose_root(region);
    start_file(region, root);
    unsigned left = gp_record_files_prune(root);
    if (left)
      gp_log(GP_LOG_INFO, "%u record%s of programs that did not exit normally %s left; next: gpupool recover",
          left, left == 1 ? "" : "s", left == 1 ? "is" : "are");
  }
  if (!region->is_file) {
    region->budget = SIZE_MAX;
    /* A forked child does not need the parent's record. Without it, the parent has no copy-on-write faults.
     * Older kernels lack the flag, which only costs memory. */
    (void)madvise(region->header, region->bytes, MADV_WIPEONFORK);
    if (region->problem[0])
      gp_log(problem_level(root),
          "the record is kept in ordinary memory and would not survive a kill: GPUPOOL_RECORD=%s: %s", root,
          region->problem);
  }
  fill_header(region);
  atomic_store_explicit(&region->is_started, true, memory_order_release);
}

/* Returns the budget of a section in bytes. In a file, one eighth of the budget is reserved for the sections
 * other than the events. */
static size_t budget_of(const gp_region_t *region, gp_section_t section)
{
  return section == GP_SECTION_EVENTS && region->is_file ? region->budget / 8 * 7 : region->budget;
}

static bool grow_locked(gp_region_t *region, gp_section_t section, size_t bytes)
{
  size_t used = atomic_load_explicit(&region->used[section], memory_order_relaxed);
  gp_assert(gp_lock_is_held(&region->lock) && gp_region_is_started(region));
  bytes = round_up(bytes, page_bytes());
  if (bytes <= used)
    return true;
  if (bytes > region->plan.capacity[section] || region->present + (bytes - used) > budget_of(region, section))
    return false;
  if (region->is_file && make_present(region, region->offsets[section] + used, bytes - used))
    return false;
  region->present += bytes - used;
  gp_assert(bytes % page_bytes() == 0 && bytes <= region->plan.capacity[section]);
  gp_assert(region->present <= region->budget);
  atomic_store_explicit(&region->header->sections[section].used, bytes, memory_order_release);
  atomic_store_explicit(&region->used[section], bytes, memory_order_release);
  return true;
}

/* Does what gp_region_grow does, for a section that is too small. Disables cancellation, because opening and
 * closing files are cancellation points. Preserves errno. */
bool gp_region_grow_slowly(gp_region_t *region, gp_section_t section, size_t bytes)
{
  int saved_errno = errno;
  int cancel_state = gp_cancel_hold();
  gp_lock_take(&region->lock);
  if (!gp_region_is_started(region))
    start_locked(region);
  bool grown = grow_locked(region, section, bytes);
  gp_lock_release(&region->lock);
  gp_cancel_restore(cancel_state);
  errno = saved_errno;
  return grown;
}

void gp_region_start(gp_region_t *region)
{
  if (!gp_region_is_started(region))
    (void)gp_region_grow_slowly(region, GP_SECTION_DESCRIPTION, 0); /* only starts the region */
}

/* Does what gp_region_remove does. The caller holds the lock. */
static void remove_locked(gp_region_t *region)
{
  gp_assert(gp_lock_is_held(&region->lock));
  if (region->is_file)
    gp_record_file_remove(&region->file);
}

void gp_region_remove(gp_region_t *region)
{
  gp_lock_take(&region->lock);
  remove_locked(region);
  gp_lock_release(&region->lock);
}
