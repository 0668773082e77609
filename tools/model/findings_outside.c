/*
 * Reports causes outside the process that limit its memory: NVIDIA's MPS, MIG, and other processes, if the
 * snapshot shows them.
 */
#include "tools/model/finding_judges.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/saturated.h"
#include "tools/output.h"

#define MPS_LIMIT   "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
#define USED_SHARE  2 /* others that use over 1 / USED_SHARE are reported even if memory did not run out */
#define POOLS_SHARE 20

/* Returns the value of an environment variable of the process (process.environment), or "" if unknown. */
static const char *variable_of(const gp_snapshot_t *snapshot, const char *name)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  return gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(process, "environment"), name);
}

/* Parses an amount such as "1G" or "512M" at `text`, up to a comma or the end. */
static bool parse_amount(const char *text, uint64_t *ret_bytes)
{
  char *end;
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9)
    return false;
  uint64_t number = strtoull(text, &end, 10);
  char unit = *end;
  if ((unit != 'G' && unit != 'M') || (end[1] != '\0' && end[1] != ','))
    return false;
  *ret_bytes = number * (unit == 'G' ? GP_GIB : GP_MIB);
  return true;
}

/*
 * Gets the limit in bytes for `device` from a list such as CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1G,1=512M".
 * Returns false if the list is malformed or has no limit for the device. A list may use a UUID as its only
 * key. Such a key is assumed to mean `device` if it is the only device in use (`is_only`).
 */
static bool mps_limit_of(const char *list, int device, bool is_only, uint64_t *ret_bytes)
{
  bool is_found = false, has_more = strchr(list, ',') != NULL;

  for (const char *item = list; *item; item += strcspn(item, ","), item += *item == ',') {
    size_t key = strcspn(item, "=,");
    if (key == 0 || item[key] != '=')
      return false;
    bool is_number = key > 0 && strspn(item, "0123456789") == key;
    bool is_meant = is_number ? strtol(item, NULL, 10) == device : is_only && !has_more;
    if (is_meant && !parse_amount(item + key + 1, ret_bytes))
      return false;
    is_found |= is_meant;
  }
  return is_found;
}

/* Returns the name of the variable that restricts the process to a part of a GPU (MIG), or NULL (static). */
static const char *mig_variable(const gp_snapshot_t *snapshot)
{
  static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strstr(variable_of(snapshot, names[i]), "MIG-"))
      return names[i];
  }
  return NULL;
}

/* Returns the bytes on the device that this process had. */
static uint64_t held_by(const gp_oom_t *oom)
{
  return oom->live + oom->deferred + oom->cached + oom->passthrough; /* each below 2^53 */
}

/* Gets the MPS limit for the device on which memory ran out. Returns false if the limit is unknown. */
static bool find_mps_limit(const gp_snapshot_t *snapshot, const gp_oom_t *oom, uint64_t *ret_limit)
{
  return mps_limit_of(variable_of(snapshot, MPS_LIMIT), oom->device, snapshot->device_count <= 1, ret_limit);
}

static bool is_beyond(const gp_oom_t *oom, uint64_t limit)
{
  return !oom->by_limit && held_by(oom) + oom->requested > limit;
}

bool gp_outside_explains(const gp_snapshot_t *snapshot, const char *key)
{
  gp_oom_t oom = {.requested = 0};
  uint64_t limit;
  return gp_oom_report_read(snapshot, key, &oom) && find_mps_limit(snapshot, &oom, &limit) &&
         is_beyond(&oom, limit);
}

static void judge_mps(gp_findings_t *findings, const gp_oom_t *oom)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const char *list = variable_of(snapshot, MPS_LIMIT);
  uint64_t limit;

  if (!list[0])
    return;
  if (!find_mps_limit(snapshot, oom, &limit)) {
    gp_findings_say(findings, GP_FINDING(mps_limit_unknown), oom->device, list, oom->device);
    return;
  }
  if (!oom->requested) {
    gp_findings_say(findings, GP_FINDING(mps_limit), oom->device, GP_AS_SIZE(limit), oom->device, list);
    return;
  }
  bool beyond = is_beyond(oom, limit);
  gp_findings_say_as(findings, beyond ? GP_SEVERITY_ERROR : GP_SEVERITY_NOTE, GP_FINDING(mps_limit_and_oom),
      oom->device, GP_AS_SIZE(limit), oom->device, list, GP_AS_SIZE(held_by(oom)), GP_AS_SIZE(oom->requested),
      beyond          ? ", which together exceed the limit"
      : oom->by_limit ? ", and GPUPOOL_LIMIT was reached first"
                      : ", which together are below the limit");
}

static void judge_mig(gp_findings_t *findings, const gp_oom_t *oom)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const char *variable = mig_variable(snapshot);

  if (!variable)
    return;
  if (oom->device_total)
    gp_findings_say(findings, GP_FINDING(mig_total), oom->device, oom->device, variable,
        variable_of(snapshot, variable), GP_AS_SIZE(oom->device_total));
  else
    gp_findings_say(
        findings, GP_FINDING(mig), oom->device, oom->device, variable, variable_of(snapshot, variable));
}

static void judge_others(gp_findings_t *findings, const gp_oom_t *oom)
{
  char others[GP_SIZE_TEXT_BYTES];
  uint64_t limit;

  if (!gp_oom_is_of_others(oom, gp_subtract_saturated(oom->requested, oom->device_free)))
    return;
  if (find_mps_limit(findings->summary->snapshot, oom, &limit))
    return; /* under MPS, device_free is what remains of the MPS limit */
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(others), oom->device,
      gp_size_format(oom->unaccounted, others), GP_AS_SIZE(oom->device_total), oom->device);
  gp_findings_advise(findings, finding, GP_ADVICE(others));
}

/* Reports other users of the device at the time when the snapshot was written. */
static void judge_use(gp_findings_t *findings, const gp_snapshot_device_t *device)
{
  char bytes[GP_SIZE_TEXT_BYTES];

  if (!device->total)
    return;
  bool is_known = !gp_findings_find(findings, GP_FINDING_others, device->device) &&
                  !variable_of(findings->summary->snapshot,
                      MPS_LIMIT)[0]; /* under MPS, the limit may explain the difference */
  if (is_known && device->unaccounted > device->total / USED_SHARE)
    gp_findings_say(findings, GP_FINDING(others_at_end), device->device,
        gp_size_format(device->unaccounted, bytes), GP_AS_SIZE(device->total), device->device);
  if (device->in_pools > device->total / POOLS_SHARE) {
    gp_finding_t *finding = gp_findings_say(
        findings, GP_FINDING(driver_pools), device->device, GP_AS_SIZE(device->in_pools), device->device);
    gp_findings_advise(findings, finding, GP_ADVICE(driver_pools));
  }
}

/* Judges a device on which memory ran out, for a moment without a report in the snapshot. */
static void judge_device(gp_findings_t *findings, const gp_snapshot_device_t *device)
{
  const gp_oom_t oom = {.device = device->device, .device_total = device->total};
  if (!device->stats.num_ooms)
    return;
  judge_mps(findings, &oom);
  judge_mig(findings, &oom);
}

static void judge_oom(gp_findings_t *findings)
{
  const cJSON *object = cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "oom");
  gp_oom_t oom = {.requested = 0};

  if (!object) { /* the snapshot has no report: use the recorded events */
    for (size_t i = 0; i < findings->summary->device_count; i++)
      judge_device(findings, findings->summary->devices[i].device);
    return;
  }
  if (!gp_findings_have(findings, GP_FINDING_oom) ||
      !gp_oom_report_read(findings->summary->snapshot, "oom", &oom))
    return;
  judge_mps(findings, &oom);
  judge_mig(findings, &oom);
  judge_others(findings, &oom);
}

void gp_findings_judge_outside(gp_findings_t *findings)
{
  judge_oom(findings);
  for (size_t i = 0; i < findings->summary->device_count; i++)
    judge_use(findings, findings->summary->devices[i].device);
}
