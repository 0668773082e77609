#include "interpose/nvtx/nvtx_path.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/run_id.h"

#define PATH_VARIABLE "NVTX_INJECTION64_PATH" /* nvtx3/nvtxDetail/nvtxInit.h, NVTX_INJECTION_PATH */

static const char *variable(const char *name)
{
  const char *text = secure_getenv(name);
  return text && text[0] ? text : NULL;
}

static const char *own_path(void)
{
  Dl_info info;
  return dladdr(PATH_VARIABLE, &info) && info.dli_fname ? info.dli_fname : "libgpupool.so";
}

bool gp_nvtx_loads_us(void)
{
  struct stat own, named;
  const char *path = variable(PATH_VARIABLE);
  return path && stat(path, &named) == 0 && stat(own_path(), &own) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

const char *gp_nvtx_other_tool(void)
{
  return gp_nvtx_loads_us() ? variable(GP_NVTX_NEXT_VARIABLE) : variable(PATH_VARIABLE);
}

void gp_nvtx_say_what_is_missing(void)
{
  const char *other = variable(PATH_VARIABLE);
  if (gp_nvtx_loads_us())
    return;
  if (other)
    gp_log(GP_LOG_ERROR,
        "GPUPOOL_NVTX=1 records no ranges: NVTX loads %s. gpupool run --nvtx loads both; without it set " PATH_VARIABLE
        "=%s and " GP_NVTX_NEXT_VARIABLE "=%s",
        other, own_path(), other);
  else
    gp_log(GP_LOG_ERROR,
        "GPUPOOL_NVTX=1 records no ranges without " PATH_VARIABLE "=%s, which gpupool run --nvtx sets",
        own_path());
}
