#include "tools/doctor/checks.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/cuda_versions.h"
#include "tools/output.h"

#define DEVICES_MOST          16
#define SECONDS_MOST          30
#define ATTRIBUTE_INTEGRATED  18  /* CU_DEVICE_ATTRIBUTE_INTEGRATED */
#define ERROR_STUB_LIBRARY    34  /* CUDA_ERROR_STUB_LIBRARY */
#define ERROR_NO_DEVICE       100 /* CUDA_ERROR_NO_DEVICE */
#define ERROR_DRIVER_MISMATCH 803 /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */

typedef struct device {
  char name[96];
  uint64_t bytes;
  int is_integrated;
} device_t;

/* What the child process found. It sends this struct through a pipe; the parent uses only complete ones. */
typedef struct answer {
  char problem[512]; /* the loader's error; "" if libcuda.so.1 was loaded */
  int init;          /* return value of cuInit */
  int version;
  int device_count;
  device_t devices[DEVICES_MOST];
} answer_t;

static void *function(void *driver, const char *name)
{
  return dlsym(driver, name);
}

static void ask_devices(void *driver, answer_t *answer)
{
  int (*get)(int *, int) = function(driver, "cuDeviceGet");
  int (*get_name)(char *, int, int) = function(driver, "cuDeviceGetName");
  int (*get_bytes)(size_t *, int) = function(driver, "cuDeviceTotalMem_v2");
  int (*get_attribute)(int *, int, int) = function(driver, "cuDeviceGetAttribute");

  for (int i = 0; i < answer->device_count && i < DEVICES_MOST; i++) {
    device_t *device = &answer->devices[i];
    size_t bytes = 0;
    int handle;
    if (!get || get(&handle, i))
      continue;
    if (get_name && get_name(device->name, (int)sizeof(device->name), handle))
      device->name[0] = '\0';
    if (get_bytes && get_bytes(&bytes, handle) == 0)
      device->bytes = bytes;
    if (get_attribute && get_attribute(&device->is_integrated, ATTRIBUTE_INTEGRATED, handle))
      device->is_integrated = 0;
  }
}

static void ask_driver(answer_t *answer)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    const char *problem = dlerror();
    snprintf(answer->problem, sizeof(answer->problem), "%s", problem ? problem : "it cannot be loaded");
    return;
  }
  int (*get_version)(int *) = function(driver, "cuDriverGetVersion");
  int (*init)(unsigned) = function(driver, "cuInit");
  int (*get_count)(int *) = function(driver, "cuDeviceGetCount");
  if (!get_version || !init || !get_count) {
    snprintf(answer->problem, sizeof(answer->problem), "libcuda.so.1 lacks the driver's functions");
    return;
  }
  if (get_version(&answer->version))
    answer->version = 0;
  answer->init = init(0);
  if (answer->init == 0 && get_count(&answer->device_count))
    answer->device_count = 0;
  ask_devices(driver, answer);
}

/* Queries the driver in a child process. Returns true if the child sent the whole answer. */
static bool ask_in_child(answer_t *ret_answer, int *ret_status)
{
  int ends[2];
  size_t got = 0;
  ssize_t more;

  *ret_status = 0;
  if (pipe(ends))
    return false;
  (void)fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    answer_t answer = {0};
    (void)alarm(SECONDS_MOST); /* SIGALRM ends the child if the driver hangs */
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    ask_driver(&answer);
    _exit(write(ends[1], &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
  }
  (void)close(ends[1]);
  while (pid > 0 && got < sizeof(*ret_answer) &&
         (more = read(ends[0], (char *)ret_answer + got, sizeof(*ret_answer) - got)) > 0)
    got += (size_t)more;
  (void)close(ends[0]);
  if (pid > 0)
    (void)waitpid(pid, ret_status, 0); /* cannot fail: our own child */
  return pid > 0 && got == sizeof(*ret_answer);
}

static void check_init(gp_checks_t *checks, int result)
{
  gp_checks_add(checks, "driver", GP_CHECK_BAD, "cuInit returned error %d", result);
  switch (result) {
  case ERROR_STUB_LIBRARY:
    gp_checks_remedy(
        checks, "libcuda.so.1 is the toolkit's stub for linking: take its folder out of LD_LIBRARY_PATH");
    break;
  case ERROR_NO_DEVICE:
    gp_checks_remedy(checks,
        "no GPU is visible here: see CUDA_VISIBLE_DEVICES, and in a container docker run --gpus all, or nvidia.com/gpu in the pod's limits");
    break;
  case ERROR_DRIVER_MISMATCH:
    gp_checks_remedy(checks,
        "libcuda.so.1 and the kernel's driver are of different versions: reboot, or load the new module");
    break;
  default: gp_checks_remedy(checks, "run nvidia-smi: programs fail the same way without gpupool"); break;
  }
}

static void check_version(gp_checks_t *checks, int version)
{
  int major = version / 1000, minor = version % 1000 / 10;
  if (version < GP_OLDEST_CUDA_VERSION) {
    gp_checks_add(checks, "driver", GP_CHECK_BAD,
        "CUDA %d.%d is older than 11.2, the oldest that gpupool supports", major, minor);
    gp_checks_remedy(checks, "install a newer driver");
  } else if (version > GP_NEWEST_CUDA_VERSION) {
    gp_checks_add(checks, "driver", GP_CHECK_NOTE,
        "CUDA %d.%d is newer than this gpupool knows (%d.%d): newer functions are forwarded", major, minor,
        GP_NEWEST_CUDA_VERSION / 1000, GP_NEWEST_CUDA_VERSION % 1000 / 10);
    gp_checks_remedy(checks, "look for a newer gpupool");
  } else if (version < GP_FENCE_CUDA_VERSION) {
    gp_checks_add(checks, "driver", GP_CHECK_NOTE,
        "CUDA %d.%d has no fences over a context (12.5 has): only the program's own synchronizations make freed memory reusable",
        major, minor);
    gp_checks_remedy(checks, "a newer driver reuses memory sooner");
  } else {
    gp_checks_add(checks, "driver", GP_CHECK_GOOD, "libcuda.so.1, CUDA %d.%d", major, minor);
  }
}

static void check_devices(gp_checks_t *checks, const answer_t *answer)
{
  for (int i = 0; i < answer->device_count && i < DEVICES_MOST; i++) {
    const device_t *device = &answer->devices[i];
    gp_checks_add(checks, "device", device->is_integrated ? GP_CHECK_NOTE : GP_CHECK_GOOD, "%d: %s, %s%s", i,
        device->name, GP_AS_SIZE(device->bytes),
        device->is_integrated ? ", integrated: it uses the host's memory, where page cache counts as used"
                              : "");
    if (device->is_integrated)
      gp_checks_remedy(checks,
          "set GPUPOOL_INTEGRATED=available to count page cache as free, and GPUPOOL_LIMIT to what the host can spare: the pool's idle memory is the host's, too");
  }
}

void gp_check_driver(gp_checks_t *checks)
{
  static answer_t answer;
  int status;

  if (!ask_in_child(&answer, &status)) {
    if (WIFSIGNALED(status))
      gp_checks_add(checks, "driver", GP_CHECK_BAD, "%s in the driver while it was queried",
          WTERMSIG(status) == SIGALRM ? "no answer in 30 seconds" : strsignal(WTERMSIG(status)));
    else
      gp_checks_add(
          checks, "driver", GP_CHECK_BAD, "the process that queries it could not be started, or has failed");
    gp_checks_remedy(checks, "run nvidia-smi: programs fail the same way without gpupool");
  } else if (answer.problem[0]) {
    gp_checks_add(checks, "driver", GP_CHECK_BAD, "libcuda.so.1 was not found: %s", answer.problem);
    gp_checks_remedy(checks,
        "install NVIDIA's driver; in a container docker run --gpus all, with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  } else if (answer.init) {
    check_init(checks, answer.init);
  } else {
    check_version(checks, answer.version);
    check_devices(checks, &answer);
  }
}
