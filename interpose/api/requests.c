/* The functions of gpupool.h that correspond to requests of `gpupool ctl`, and those that count references to
 * blocks. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "interpose/api/api.h"
#include "interpose/library.h"
#include "trace/record/recorder.h"
#include "trace/snapshot/snapshot.h"

GP_API gpupool_result_t gpupool_api_memory_info(int device, uint64_t *ret_free, uint64_t *ret_total)
{
  gp_engine_t *engine;
  uint64_t free_bytes;
  uint64_t total_bytes;

  gpupool_result_t result = gp_api_device(&engine, &device);
  if (result != GPUPOOL_OK)
    return result;
  if (!gp_engine_ask_info(engine, gp_engine_device_context(engine, device), &free_bytes, &total_bytes))
    return GPUPOOL_FAILED;
  if (ret_free)
    *ret_free = free_bytes;
  if (ret_total)
    *ret_total = total_bytes;
  return GPUPOOL_OK;
}

GP_API gpupool_result_t gpupool_api_empty_cache(uint64_t *ret_bytes)
{
  gp_engine_t *engine;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result != GPUPOOL_OK)
    return result;
  uint64_t given = gp_engine_empty_cache(engine);
  if (ret_bytes)
    *ret_bytes = given;
  return GPUPOOL_OK;
}

GP_API gpupool_result_t gpupool_api_set_limit(int device, uint64_t bytes)
{
  gp_engine_t *engine;
  if (bytes == 0)
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_device(&engine, &device);
  if (result == GPUPOOL_OK)
    (void)gp_engine_set_limit(
        engine, device, &(gp_amount_t){.number = bytes, .is_none = bytes == GPUPOOL_NO_LIMIT});
  return result;
}

GP_API gpupool_result_t gpupool_api_snapshot(const char *path, char *ret_path, size_t capacity)
{
  gp_engine_t *engine;
  struct stat status;
  gp_snapshot_name_t written = {.path = ""}; /* does not overwrite an existing file */

  if ((path && !path[0]) || (!ret_path && capacity))
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result != GPUPOOL_OK)
    return result;
  struct gp_snapshot_writer *snapshots = gp_library_snapshots();
  int error = !snapshots ? ENOMEM
              : path && stat(path, &status) == 0 && S_ISDIR(status.st_mode)
                  ? EISDIR
                  : gp_snapshot_write_named(snapshots, "request", path, &written);
  if (error) {
    errno = error;
    return GPUPOOL_FAILED;
  }
  if (capacity) {
    size_t length = strnlen(written.path, capacity - 1);
    memcpy(ret_path, written.path, length);
    ret_path[length] = '\0';
  }
  return GPUPOOL_OK;
}

GP_API gpupool_result_t gpupool_api_set_recording(gpupool_recording_t recording)
{
  static const int modes[] = {[GPUPOOL_RECORD_OFF] = GP_TRACE_OFF,
      [GPUPOOL_RECORD_STATE] = GP_TRACE_STATE,
      [GPUPOOL_RECORD_ALL] = GP_TRACE_ALL};
  gp_engine_t *engine;

  if ((unsigned)recording >= sizeof(modes) / sizeof(modes[0]))
    return GPUPOOL_INVALID;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result != GPUPOOL_OK)
    return result;
  if (!gp_library_recorder())
    return GPUPOOL_FAILED;
  gp_recorder_set_mode(gp_library_recorder(), modes[recording]);
  return GPUPOOL_OK;
}

GP_API gpupool_result_t gpupool_api_retain(const void *address)
{
  gp_engine_t *engine;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result == GPUPOOL_OK && !gp_engine_retain(engine, (uint64_t)(uintptr_t)address))
    result = GPUPOOL_UNKNOWN;
  return result;
}

GP_API gpupool_result_t gpupool_api_release(const void *address)
{
  gp_engine_t *engine;
  gpupool_result_t result = gp_api_engine(&engine);
  if (result == GPUPOOL_OK && !gp_engine_release(engine, (uint64_t)(uintptr_t)address))
    result = GPUPOOL_UNKNOWN;
  return result;
}
