#include "base/retired.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
  const char *name;
  const char *value; /* the retired value; NULL: every value */
  const char *used;  /* the value used instead; NULL: the setting has no effect */
  const char *instead;
} retired[] = {
    {"ROUND_DIVISIONS", NULL, NULL, "type round has eight size classes in each power of two"},
    {"SMALL", NULL, NULL, "GPUPOOL_TYPE=vmm serves small requests from larger allocations of the driver"},
    {"REUSE", "single", "context", "context is used, which reuses memory about as fast"},
};

bool gp_retired_report(const char *name, const char *value,
    void (*problem)(void *arg, bool malformed, const char *message), void *problem_arg, const char **ret_used)
{
  char message[256];

  if (strncmp(name, "GPUPOOL_", 8) == 0)
    name += 8;
  for (size_t i = 0; i < sizeof(retired) / sizeof(retired[0]); i++) {
    if (strcmp(name, retired[i].name) != 0 || (retired[i].value && strcasecmp(value, retired[i].value) != 0))
      continue;
    (void)snprintf(message, sizeof(message), "GPUPOOL_%s%s%s was removed; %s", name,
        retired[i].value ? "=" : "", retired[i].value ? retired[i].value : "", retired[i].instead);
    if (problem)
      problem(problem_arg, false, message);
    *ret_used = retired[i].used;
    return true;
  }
  return false;
}
