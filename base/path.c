#include "base/path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *gp_path_rank(void)
{
  static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK",
      "PMIX_RANK", "PALS_RANKID", "HOROVOD_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    const char *value = secure_getenv(variables[i]);
    if (value && value[0])
      return value;
  }
  return NULL;
}

/* The text of one placeholder; NULL if no placeholder has that letter. scratch holds at least 256 bytes. */
static const char *placeholder_text(char letter, unsigned sequence, const char *reason, char *scratch)
{
  switch (letter) {
  case '%': return "%";
  case 'e': return program_invocation_short_name;
  case 'p': snprintf(scratch, 256, "%d", (int)getpid()); return scratch;
  case 'h':
    if (gethostname(scratch, 256) != 0)
      return "localhost";
    scratch[255] = '\0';
    return scratch;
  case 'k': return gp_path_rank() ? gp_path_rank() : "0";
  case 't': snprintf(scratch, 256, "%lld", (long long)time(NULL)); return scratch;
  case 'n': snprintf(scratch, 256, "%u", sequence); return scratch;
  case 'r': return reason ? reason : "";
  default: return NULL;
  }
}

int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity)
{
  char scratch[256];
  size_t used = 0;

  if (capacity == 0)
    return -1;
  for (const char *p = pattern; *p; p++) {
    char single[2] = {*p, '\0'};
    const char *text = single;
    bool expanded = *p == '%';
    if (expanded)
      text = *++p ? placeholder_text(*p, sequence, reason, scratch) : NULL;
    if (!text)
      goto fail;
    for (; *text; text++) {
      if (used + 1 >= capacity)
        goto fail;
      buffer[used++] = expanded && *text == '/' ? '_' : *text;
    }
  }
  buffer[used] = '\0';
  return 0;

fail:
  buffer[0] = '\0';
  return -1;
}

const char *gp_path_check(const char *pattern)
{
  for (const char *p = pattern; *p; p++) {
    if (*p != '%')
      continue;
    if (p[1] == '\0' || !strchr("%ephktnr", p[1]))
      return p;
    p++;
  }
  return NULL;
}

bool gp_path_is_special(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}
