#include "tools/doctor/checks.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/path.h"
#include "base/size.h"
#include "format/event_record.h"
#include "trace/region/region.h"
#include "tools/output.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define UNLIMITED   (UINT64_C(1) << 62) /* cgroup version 1 writes "no limit" as a number above this */

/* Checks the folder where the library keeps its record while the program runs. */
static void check_folder(gp_checks_t *checks, const char *folder, uint64_t events)
{
  static const char *const other = "or set GPUPOOL_RECORD to another folder in memory, or to none";
  struct statvfs room;
  struct stat status;
  char is_free[GP_SIZE_TEXT_BYTES], size[GP_SIZE_TEXT_BYTES];

  int error = stat(folder, &status) || statvfs(folder, &room) ? errno : 0;
  if (!error && (!S_ISDIR(status.st_mode) || access(folder, W_OK | X_OK)))
    error = S_ISDIR(status.st_mode) ? errno : ENOTDIR;
  if (error) {
    gp_checks_add(checks, "record", GP_CHECK_BAD, "%s: %s; the record would be lost when the program ends",
        folder, strerror(error));
    gp_checks_remedy(checks, "chmod 1777 %s, %s", folder, other);
    return;
  }
  uint64_t available = (uint64_t)room.f_bavail * room.f_frsize;
  uint64_t share = available / GP_REGION_SHARE;
  uint64_t fit = share / 8 * 7 / sizeof(gp_event_record_t); /* the other eighth is for stacks and names */
  gp_size_format(available, is_free);
  gp_size_format((uint64_t)room.f_blocks * room.f_frsize, size);
  if (share < GP_REGION_BYTES_MIN || fit < events) {
    bool is_short = share < GP_REGION_BYTES_MIN;
    gp_checks_add(checks, "record", is_short ? GP_CHECK_BAD : GP_CHECK_NOTE,
        "%s has %s of %s free, of which the record takes an eighth: %s", folder, is_free, size,
        is_short ? "too little to record there" : "room for fewer events than GPUPOOL_TRACE_EVENTS");
    gp_checks_remedy(checks, "make it larger (docker run --shm-size=1g; mount -o remount,size=1g %s), %s",
        folder, is_short ? other : "or accept that only the newest events are kept");
  } else if ((status.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH) {
    gp_checks_add(checks, "record", GP_CHECK_NOTE, "in %s any user can remove another user's files", folder);
    gp_checks_remedy(checks, "chmod 1777 %s", folder);
  } else {
    gp_checks_add(checks, "record", GP_CHECK_GOOD, "%s has %s of %s free", folder, is_free, size);
  }
}

/* Returns the number in the file at `path`, or UINT64_MAX if it contains none ("max") or does not exist. */
static uint64_t number_in(const char *path)
{
  char text[64];
  uint64_t number = UINT64_MAX;
  FILE *file = fopen(path, "re");
  if (file && fgets(text, sizeof(text), file) && text[0] >= '0' && text[0] <= '9')
    number = strtoull(text, NULL, 10);
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
  return number > UNLIMITED ? UINT64_MAX : number;
}

/* Returns the smallest memory limit of this process's cgroup and that group's ancestors (cgroup version 2),
 * or the limit of cgroup version 1. */
static uint64_t cgroup_limit(void)
{
  char line[GP_PATH_BYTES], path[2 * GP_PATH_BYTES];
  uint64_t least = number_in(CGROUP_ROOT "/memory/memory.limit_in_bytes");
  FILE *file = fopen("/proc/self/cgroup", "re");

  while (file && fgets(line, sizeof(line), file)) {
    if (strncmp(line, "0::/", 4) != 0)
      continue;
    line[strcspn(line, "\n")] = '\0';
    for (;;) {
      snprintf(path, sizeof(path), CGROUP_ROOT "%s/memory.max", line + 3);
      uint64_t limit = number_in(path);
      least = limit < least ? limit : least;
      char *slash = strrchr(line + 3, '/');
      if (!slash)
        break;
      *slash = '\0';
    }
  }
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
  return least;
}

static const char *variable(const char *name)
{
  const char *text = getenv(name);
  return text ? text : "";
}

static void check_visible(gp_checks_t *checks)
{
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  const char *given = variable("NVIDIA_VISIBLE_DEVICES");

  if (visible && (visible[0] == '\0' || visible[0] == '-')) {
    gp_checks_add(checks, "devices", GP_CHECK_BAD, "CUDA_VISIBLE_DEVICES=%s hides every device", visible);
    gp_checks_remedy(checks, "unset CUDA_VISIBLE_DEVICES");
  } else if (visible) {
    gp_checks_add(checks, "devices", GP_CHECK_GOOD,
        "CUDA_VISIBLE_DEVICES=%s: GPUPOOL_LIMIT=0=... means the first of these", visible);
  }
  if (strcmp(given, "none") == 0 || strcmp(given, "void") == 0) {
    gp_checks_add(checks, "devices", GP_CHECK_NOTE,
        "NVIDIA_VISIBLE_DEVICES=%s: with this setting the container gets no GPU", given);
    gp_checks_remedy(checks,
        "if the check of the driver finds no device: docker run --gpus all, or NVIDIA_VISIBLE_DEVICES=all");
  }
  if (strstr(variable("CUDA_VISIBLE_DEVICES"), "MIG-") || strstr(given, "MIG-"))
    gp_checks_add(checks, "devices", GP_CHECK_GOOD,
        "a MIG instance: a share such as GPUPOOL_LIMIT=50%% is a share of the instance");
}

static void check_mps(gp_checks_t *checks)
{
  const char *limit = variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  const char *folder = variable("CUDA_MPS_PIPE_DIRECTORY");

  folder = folder[0] ? folder : "/tmp/nvidia-mps";
  if (limit[0])
    gp_checks_add(checks, "MPS", GP_CHECK_GOOD,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s applies as well as GPUPOOL_LIMIT: the smaller is reached first",
        limit);
  else if (access(folder, F_OK) == 0)
    gp_checks_add(checks, "MPS", GP_CHECK_GOOD, "programs share the GPU through %s", folder);
}

void gp_check_place(gp_checks_t *checks, const gp_options_t *options)
{
  const char *folder = gp_option_text(options, GP_OPTION_record);

  if (strcmp(folder, "none") == 0 || gp_option_number(options, GP_OPTION_trace) == GP_TRACE_OFF)
    gp_checks_add(
        checks, "record", GP_CHECK_GOOD, "none in shared memory, as set: gpupool recover finds nothing");
  else
    check_folder(checks, folder, gp_option_number(options, GP_OPTION_trace_events));
  uint64_t limit = cgroup_limit();
  if (limit == UINT64_MAX)
    gp_checks_add(checks, "cgroup", GP_CHECK_GOOD, "no limit on host memory was found");
  else
    gp_checks_add(checks, "cgroup", GP_CHECK_GOOD,
        "limits this process to %s of host memory, including the record and page-locked memory",
        GP_AS_SIZE(limit));
  check_visible(checks);
  check_mps(checks);
}
