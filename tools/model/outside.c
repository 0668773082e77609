#include "tools/model/outside.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

const char *gp_outside_variable(const gp_snapshot_t *snapshot, const char *name)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  return gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(process, "environment"), name);
}

/* Parses "1G" or "512M" at text, up to a comma or the end. */
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

bool gp_outside_mps_limit(const char *list, int device, bool is_only, uint64_t *ret_bytes)
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

const char *gp_outside_mig(const gp_snapshot_t *snapshot)
{
  static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strstr(gp_outside_variable(snapshot, names[i]), "MIG-"))
      return names[i];
  }
  return NULL;
}
