#include "interpose/hooks/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "base/cancel.h"

/* Constants of nvml.h. */
#define SUCCESS           0
#define LIBRARY_NOT_FOUND 12
#define UUID_TEXT_BYTES   96

#define UUID_BYTES 16

typedef gp_nvml_result_t (*get_uuid_t)(void *device, char *text, unsigned capacity);

enum {
#define NVML(symbol, type) FN_##symbol,
#include "interpose/hooks/nvml.def"
  HOOKED_COUNT,
  FN_nvmlDeviceGetUUID = HOOKED_COUNT,
  FUNCTION_COUNT
};

static const char *const names[FUNCTION_COUNT] = {
#define NVML(symbol, type) [FN_##symbol] = #symbol,
#include "interpose/hooks/nvml.def"
    [FN_nvmlDeviceGetUUID] = "nvmlDeviceGetUUID",
};

static void *const hooks[HOOKED_COUNT] = {
#define NVML(symbol, type) [FN_##symbol] = (void *)hook_##symbol,
#include "interpose/hooks/nvml.def"
};

static _Atomic(void *) real[FUNCTION_COUNT]; /* from the first NVML found; NULL: it lacks the function */
static atomic_bool is_bound;

static int find(const char *name)
{
  for (int i = 0; i < HOOKED_COUNT; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

bool gp_nvml_is_name(const char *name)
{
  return name && strncmp(name, "nvml", strlen("nvml")) == 0 && find(name) >= 0;
}

/* Finds and pins the library `file` if it is loaded, and binds its functions. Returns false if it is not
 * loaded. With `by_scope`, prefers the functions that the loader would have given the program, which may be
 * those of another preloaded library. All threads that get here store the same values. */
static bool bind_loaded(const char *file, bool by_scope)
{
  int cancel_state = gp_cancel_hold(); /* dlopen may be a cancellation point */
  void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  gp_cancel_restore(cancel_state);
  for (int i = 0; handle && i < FUNCTION_COUNT; i++) {
    void *function = by_scope ? gp_real_dlsym(RTLD_NEXT, names[i]) : NULL;
    if (!function)
      function = gp_real_dlsym(handle, names[i]);
    if (function && !gp_real_is_own(function))
      atomic_store(&real[i], function);
  }
  if (handle)
    atomic_store(&is_bound, true);
  (void)dlerror(); /* the program must not see errors about names that this NVML lacks */
  return handle != NULL;
}

static bool is_nvml_file(const char *path)
{
  const char *slash = strrchr(path, '/');
  return strncmp(slash ? slash + 1 : path, "libnvidia-ml.so", strlen("libnvidia-ml.so")) == 0;
}

void *gp_nvml_hook(const char *name, void *function)
{
  Dl_info info;
  int index = find(name);

  gp_assert(index >= 0 && !gp_real_is_own(function));
  if (dladdr(function, &info) == 0 || !is_nvml_file(info.dli_fname) ||
      (!atomic_load(&is_bound) && !bind_loaded(info.dli_fname, false)))
    return NULL;
  return atomic_load(&real[index]) == function ? hooks[index] : NULL;
}

bool gp_nvml_bind(void)
{
  return atomic_load(&is_bound) || bind_loaded("libnvidia-ml.so.1", true);
}

/* Reads the bytes of "GPU-01234567-89ab-..." or, for a part of a GPU, "MIG-...". Returns false if the text
 * has another form. */
static bool read_uuid(const char *text, uint8_t *bytes)
{
  int digits = 0;

  text = strchr(text, '-');
  for (; text && *text && digits < 2 * UUID_BYTES; text++) {
    if (*text == '-')
      continue;
    if (!isxdigit((unsigned char)*text))
      return false;
    char digit[] = {*text, '\0'};
    uint8_t value = (uint8_t)strtoul(digit, NULL, 16);
    bytes[digits / 2] = (uint8_t)(digits % 2 ? bytes[digits / 2] | value : value << 4);
    digits++;
  }
  return digits == 2 * UUID_BYTES && *text == '\0';
}

static bool ask_cuda(int ordinal, CUuuid *ret_uuid)
{
  CUresult result = GP_REAL(cuDeviceGetUuid_v2) ? GP_REAL(cuDeviceGetUuid_v2)(ret_uuid, ordinal)
                                                : GP_REAL_CALL(cuDeviceGetUuid, ret_uuid, ordinal);
  return result == CUDA_SUCCESS;
}

/* Returns the device's CUDA ordinal, which CUDA_VISIBLE_DEVICES changes. Returns -1 if this process does not
 * use the device through CUDA. */
static int find_ordinal(gp_engine_t *engine, void *device)
{
  get_uuid_t get_uuid = (get_uuid_t)atomic_load(&real[FN_nvmlDeviceGetUUID]);
  uint8_t wanted[UUID_BYTES];
  char text[UUID_TEXT_BYTES];
  CUuuid uuid;

  if (!get_uuid || get_uuid(device, text, sizeof(text)) != SUCCESS || !read_uuid(text, wanted))
    return -1;
  for (uint64_t left = gp_engine_devices(engine); left; left &= left - 1) {
    int ordinal = __builtin_ctzll(left);
    if (ask_cuda(ordinal, &uuid) && memcmp(uuid.bytes, wanted, UUID_BYTES) == 0)
      return ordinal;
  }
  return -1;
}

/* Gets the values that cudaMemGetInfo reports for the device. Returns false if the program should get NVML's
 * own values. */
static bool answer(void *device, uint64_t *ret_free, uint64_t *ret_total)
{
  gp_engine_t *engine = gp_library_nvml_engine();
  int ordinal = engine ? find_ordinal(engine, device) : -1;

  return ordinal >= 0 && gp_engine_limit(engine, ordinal) > 0 &&
         gp_engine_ask_info(engine, gp_engine_device_context(engine, ordinal), ret_free, ret_total);
}

static void *bound(int index)
{
  return gp_nvml_bind() ? atomic_load(&real[index]) : NULL;
}

gp_nvml_result_t hook_nvmlDeviceGetMemoryInfo(void *device, gp_nvml_memory_t *memory)
{
  gp_nvml_result_t (*ask)(void *, gp_nvml_memory_t *) = bound(FN_nvmlDeviceGetMemoryInfo);
  gp_nvml_result_t result = ask ? ask(device, memory) : LIBRARY_NOT_FOUND;
  uint64_t free_bytes, total_bytes;

  if (result == SUCCESS && answer(device, &free_bytes, &total_bytes))
    *memory = (gp_nvml_memory_t){.total = total_bytes, .free = free_bytes, .used = total_bytes - free_bytes};
  return result;
}

gp_nvml_result_t hook_nvmlDeviceGetMemoryInfo_v2(void *device, gp_nvml_memory_v2_t *memory)
{
  gp_nvml_result_t (*ask)(void *, gp_nvml_memory_v2_t *) = bound(FN_nvmlDeviceGetMemoryInfo_v2);
  gp_nvml_result_t result = ask ? ask(device, memory) : LIBRARY_NOT_FOUND;
  uint64_t free_bytes, total_bytes;

  if (result == SUCCESS && answer(device, &free_bytes, &total_bytes)) {
    memory->total = total_bytes;
    memory->reserved = 0; /* the total of cudaMemGetInfo does not include reserved memory */
    memory->free = free_bytes;
    memory->used = total_bytes - free_bytes;
  }
  return result;
}
