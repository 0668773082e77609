#include "base/run_id.h"

#include <stdio.h>
#include <string.h>

bool gp_run_id_is_valid(const char *text)
{
  if (!text || strnlen(text, GP_RUN_BYTES) == GP_RUN_BYTES)
    return false;
  for (;; text += GP_RUN_DIGITS + 1) {
    if (strspn(text, "0123456789abcdef") != GP_RUN_DIGITS)
      return false;
    if (text[GP_RUN_DIGITS] != '-')
      return text[GP_RUN_DIGITS] == '\0';
  }
}

bool gp_run_id_holds(const char *runs, const char *id)
{
  return strstr(runs, id) != NULL; /* exact, because no id contains '-' and all have the same length */
}

void gp_run_id_append(
    const char *outer, unsigned long long number, char ret_id[GP_RUN_DIGITS + 1], char ret_runs[GP_RUN_BYTES])
{
  (void)snprintf(ret_id, GP_RUN_DIGITS + 1, "%016llx", number);
  if (!outer[0] || (size_t)snprintf(ret_runs, GP_RUN_BYTES, "%s-%s", outer, ret_id) >= GP_RUN_BYTES)
    memcpy(ret_runs, ret_id, GP_RUN_DIGITS + 1);
}
