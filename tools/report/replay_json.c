#include <ctype.h>
#include <stdio.h>

#include "tools/arguments.h"
#include "tools/report/replay_report.h"
#include "tools/report/report.h"
#include "tools/request.h"

static void add_figures(cJSON *object, const gp_figures_t *figures)
{
  gp_json_add_uint(object, "live_peak", figures->live_peak);
  gp_json_add_uint(object, "asked_peak", figures->asked_peak);
  gp_json_add_uint(object, "reserved_peak", figures->reserved_peak);
  gp_json_add_uint(object, "held_peak", figures->held_peak);
  gp_json_add_uint(object, "deferred_peak", figures->deferred_peak);
  gp_json_add_uint(object, "inactive_split_peak", figures->split_peak);
  gp_json_add_uint(object, "cache_hits", figures->hits);
  gp_json_add_uint(object, "cache_misses", figures->misses);
  gp_json_add_uint(object, "driver_allocs", figures->driver_allocs);
  gp_json_add_uint(object, "driver_frees", figures->driver_frees);
  gp_json_add_uint(object, "fences", figures->fences);
  gp_json_add_uint(object, "host_waits", figures->host_waits);
  gp_json_add_uint(object, "refused", figures->refused);
  gp_json_add_uint_or_null(object, "first_refused", figures->refused > 0, figures->first_refused);
  gp_json_add_uint_or_null(object, "first_refused_size", figures->refused > 0, figures->refused_size);
  gp_json_add_uint(object, "granted", figures->granted);
  gp_json_add_uint(object, "declined", figures->declined);
}

static void add_pass(
    cJSON *object, const gp_replay_t *replay, const gp_replay_result_t *result, gp_pass_t number)
{
  const gp_simulated_pass_t *pass = &result->simulation.passes[number];
  cJSON *calls = cJSON_AddObjectToObject(object, "calls");
  for (int call = 0; call < GP_OFFLINE_CALLS; call++)
    gp_json_add_uint(calls, gp_offline_call_name((gp_offline_call_t)call), pass->calls[call]);
  gp_json_add_uint(object, "call_count", pass->call_count);
  gp_json_add_uint(object, "cost_ns", (uint64_t)pass->cost_ns);
  gp_json_add_uint(object, "busy_cost_ns", (uint64_t)pass->busy_cost_ns);
  cJSON *devices = cJSON_AddArrayToObject(object, "devices");
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    gp_figures_t figures;
    if (!(replay->workload.present >> i & 1))
      continue;
    cJSON *device = gp_json_add_item(devices);
    gp_figures_of(&figures, &result->simulation, &replay->workload, number, i);
    gp_json_add_int(device, "device", i);
    add_figures(device, &figures);
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
  cJSON *list = cJSON_AddArrayToObject(object, "recorded");
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    const gp_stats_t *stats = &workload->devices[i].stats;
    if (!workload->devices[i].is_recorded || !(workload->present >> i & 1))
      continue;
    cJSON *device = gp_json_add_item(list);
    gp_json_add_int(device, "device", i);
    gp_json_add_uint(device, "reserved_peak", stats->reserved_bytes.peak);
    gp_json_add_uint(device, "deferred_peak", stats->deferred_bytes.peak);
    gp_json_add_uint(device, "cache_hits", stats->cache_hits);
    gp_json_add_uint(device, "cache_misses", stats->cache_misses);
    gp_json_add_uint(device, "driver_allocs", stats->driver_allocs);
    gp_json_add_uint(device, "driver_frees", stats->driver_frees);
  }
}

void gp_replay_add_json(const gp_replay_t *replay, cJSON *list)
{
  static const char *const kinds[] = {"recorded", "at_once", "sync", "lag"};
  const gp_workload_t *workload = &replay->workload;
  cJSON *object = gp_json_add_item(list);

  cJSON_AddStringToObject(object, "file", replay->file);
  cJSON_AddStringToObject(object, "pool", workload->pool);
  cJSON_AddStringToObject(object, "ready", kinds[workload->ready.kind]);
  gp_json_add_uint(object, "ready_number", workload->ready.number);
  gp_json_add_uint(object, "requests", workload->request_count);
  gp_json_add_uint(object, "left_out_frees", workload->ill_freed);
  cJSON_AddBoolToObject(object, "partial", workload->is_partial);
  gp_json_add_uint_or_null(object, "capacity", replay->capacity > 0, replay->capacity);
  add_recorded(object, workload);
  cJSON *results = cJSON_AddArrayToObject(object, "results");
  for (size_t i = 0; i < replay->result_count; i++) {
    cJSON *result = gp_json_add_item(results);
    cJSON_AddStringToObject(result, "type", replay->results[i].type);
    add_settings(cJSON_AddObjectToObject(result, "settings"), &replay->results[i]);
    add_pass(cJSON_AddObjectToObject(result, "cold"), replay, &replay->results[i], GP_PASS_COLD);
    add_pass(cJSON_AddObjectToObject(result, "warm"), replay, &replay->results[i], GP_PASS_WARM);
  }
}
