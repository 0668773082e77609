#include <ctype.h>
#include <stdio.h>

#include "tools/arguments.h"
#include "tools/report/replay_report.h"
#include "tools/report/report.h"
#include "tools/request.h"

static void add_figures(cJSON *object, int device, const gp_figures_t *figures)
{
  GP_JSON_SHAPE(replay_device);
  GP_PUT_DEVICE(object, "device", device, "ordinal of the device");
  GP_PUT_UINT(
      object, "live_peak", figures->live_peak, "most bytes requested and not freed, of pooled memory");
  GP_PUT_UINT(object, "asked_peak", figures->asked_peak, "the same of all memory");
  GP_PUT_UINT(object, "reserved_peak", figures->reserved_peak, "most bytes that the pool had reserved");
  GP_PUT_UINT(object, "held_peak", figures->held_peak, "the same in whole pages, with forwarded memory");
  GP_PUT_UINT(object, "deferred_peak", figures->deferred_peak, "most bytes freed but perhaps still in use");
  GP_PUT_UINT(object, "inactive_split_peak", figures->split_peak,
      "most idle bytes in segments that were partly in use");
  GP_PUT_UINT(object, "cache_hits", figures->hits, "allocations served from the pool");
  GP_PUT_UINT(object, "cache_misses", figures->misses, "those that needed the driver");
  GP_PUT_UINT(object, "driver_allocs", figures->driver_allocs, "allocations from the driver");
  GP_PUT_UINT(object, "driver_frees", figures->driver_frees, "frees to the driver");
  GP_PUT_UINT(object, "fences", figures->fences, "events recorded to learn what is complete");
  GP_PUT_UINT(object, "host_waits", figures->host_waits, "waits for the device");
  GP_PUT_UINT(object, "refused", figures->refused, "requests that the program got and the replay did not");
  GP_PUT_UINT_OR_NULL(object, "first_refused", figures->refused > 0, figures->first_refused,
      "number of the first of these, from 0 on; null: none");
  GP_PUT_UINT_OR_NULL(object, "first_refused_size", figures->refused > 0, figures->refused_size, "its bytes");
  GP_PUT_UINT(object, "granted", figures->granted,
      "requests that the program did not get and the replay did, without waiting for the device");
  GP_PUT_UINT(object, "declined", figures->declined,
      "requests that the program did not get and the replay did not either, or only after waiting");
}

static void add_pass(
    cJSON *object, const gp_replay_t *replay, const gp_replay_result_t *result, gp_pass_t number)
{
  const gp_simulated_pass_t *pass = &result->simulation.passes[number];
  GP_JSON_SHAPE(replay_pass);
  cJSON *calls = GP_PUT_MAP(object, "calls", uint, "calls of the driver, by function");
  for (int call = 0; call < GP_OFFLINE_CALLS; call++)
    gp_json_add_uint(calls, gp_offline_call_name((gp_offline_call_t)call), pass->calls[call]);
  GP_PUT_UINT(object, "call_count", pass->call_count, "their sum");
  GP_PUT_UINT(object, "cost_ns", (uint64_t)pass->cost_ns, "what they take on an idle H100");
  GP_PUT_UINT(object, "busy_cost_ns", (uint64_t)pass->busy_cost_ns, "what they take while kernels run");
  cJSON *devices = GP_PUT_LIST(object, "devices", replay_device, "each device that was used");
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    gp_figures_t figures;
    if (!(replay->workload.present >> i & 1))
      continue;
    cJSON *device = gp_json_add_item(devices);
    gp_figures_of(&figures, &result->simulation, &replay->workload, number, i);
    add_figures(device, i, &figures);
  }
}

static void add_settings(cJSON *object, const gp_replay_result_t *result)
{
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    char name[GP_ARGUMENT_NAME_BYTES];
    if (!gp_settings_has((gp_option_id_t)id))
      continue;
    gp_argument_name((gp_option_id_t)id, name);
    for (char *at = name; *at; at++)
      *at = *at == '-' ? '_' : *at;
    cJSON_AddStringToObject(object, name, gp_option_text(&result->options, (gp_option_id_t)id));
  }
}

static void add_recorded(cJSON *object, const gp_workload_t *workload)
{
  GP_JSON_SHAPE(replay_recording);
  cJSON *list =
      GP_PUT_LIST(object, "recorded", replay_recorded, "what the recording itself has of each device");
  GP_JSON_SHAPE(replay_recorded);
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    const gp_stats_t *stats = &workload->devices[i].stats;
    if (!workload->devices[i].is_recorded || !(workload->present >> i & 1))
      continue;
    cJSON *device = gp_json_add_item(list);
    GP_PUT_DEVICE(device, "device", i, "ordinal of the device");
    GP_PUT_UINT(device, "reserved_peak", stats->reserved_bytes.peak, "most bytes reserved from the driver");
    GP_PUT_UINT(
        device, "deferred_peak", stats->deferred_bytes.peak, "most bytes freed but perhaps still in use");
    GP_PUT_UINT(device, "cache_hits", stats->cache_hits, "allocations served from the pool");
    GP_PUT_UINT(device, "cache_misses", stats->cache_misses, "those that needed the driver");
    GP_PUT_UINT(device, "driver_allocs", stats->driver_allocs, "allocations from the driver");
    GP_PUT_UINT(device, "driver_frees", stats->driver_frees, "frees to the driver");
  }
}

void gp_replay_add_json(const gp_replay_t *replay, cJSON *list)
{
  static const char *const kinds[] = {"recorded", "at_once", "sync", "lag"};
  const gp_workload_t *workload = &replay->workload;
  cJSON *object = gp_json_add_item(list);

  GP_JSON_SHAPE(replay_recording);
  GP_PUT_TEXT(object, "file", replay->file, "the file as given");
  GP_PUT_TEXT(object, "pool", workload->pool,
      "whose statistics `recorded` has, such as `gpupool, type round` or `PyTorch`; empty: a table of requests");
  GP_PUT_CHOICE(object, "ready", "recorded|at_once|sync|lag", kinds[workload->ready.kind],
      "when freed memory is complete: as recorded, or by `--ready`");
  GP_PUT_UINT(object, "ready_number", workload->ready.number, "N of `--ready sync=N` and `lag=N`; else 0");
  GP_PUT_UINT(object, "requests", workload->request_count,
      "allocations and frees, with the allocations that the program did not get");
  GP_PUT_UINT(
      object, "left_out_frees", workload->ill_freed, "frees of memory that was never allocated in the file");
  GP_PUT_BOOL(object, "partial", workload->is_partial,
      "requests are missing; of these only what was allocated later is known");
  GP_PUT_UINT_OR_NULL(
      object, "capacity", replay->capacity > 0, replay->capacity, "`--capacity`; null: no bound");
  add_recorded(object, workload);
  GP_JSON_SHAPE(replay_recording);
  cJSON *results = GP_PUT_LIST(object, "results", replay_result, "each type of pool that was tried");
  for (size_t i = 0; i < replay->result_count; i++) {
    cJSON *result = gp_json_add_item(results);
    GP_JSON_SHAPE(replay_result);
    GP_PUT_TEXT(result, "type", replay->results[i].type, "`GPUPOOL_TYPE`");
    add_settings(GP_PUT_MAP(result, "settings", text, "the settings of the replay, by lower-case name"),
        &replay->results[i]);
    add_pass(GP_PUT_OBJECT(result, "cold", replay_pass, "the first pass, with an empty pool"), replay,
        &replay->results[i], GP_PASS_COLD);
    add_pass(GP_PUT_OBJECT(result, "warm", replay_pass,
                 "the second pass: it begins with what the first one left in the pool"),
        replay, &replay->results[i], GP_PASS_WARM);
  }
}
