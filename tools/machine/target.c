#include "tools/machine/target.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES (1 << 20)

char *gp_target_read(pid_t pid, const char *name)
{
  char path[64];
  char *text = malloc(FILE_BYTES + 1);
  size_t used = 0;
  snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
  int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) {
    free(text);
    return NULL;
  }
  for (ssize_t got; used < FILE_BYTES && (got = read(fd, text + used, FILE_BYTES - used)) > 0;)
    used += (size_t)got;
  close(fd);
  text[used] = '\0';
  if (used == 0) { /* what the kernel gives if it refuses access */
    free(text);
    return NULL;
  }
  return text;
}

const char *gp_target_variable(const char *environment, const char *name)
{
  size_t length = strlen(name);
  for (const char *p = environment; p && *p; p += strlen(p) + 1) {
    if (strncmp(p, name, length) == 0 && p[length] == '=')
      return p + length + 1;
  }
  return NULL;
}

/* The last number of a line of /proc/PID/status, or its second number if
 * `second`; fallback: no such line. */
static unsigned long number_in_status(
    const char *status, const char *name, bool second, unsigned long fallback)
{
  const char *line = status ? strstr(status, name) : NULL;
  if (!line)
    return fallback;
  line += strlen(name);
  if (second) {
    char *end;
    (void)strtoul(line, &end, 10);
    return strtoul(end, NULL, 10);
  }
  const char *last = line + strcspn(line, "\n");
  while (last > line && isdigit((unsigned char)last[-1]))
    last--;
  return strtoul(last, NULL, 10);
}

void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target)
{
  char *status = gp_target_read(pid, "status");
  intruder[0] = '\0';
  *ret_target = (gp_target_t){.pid = pid,
      .inside = (pid_t)number_in_status(status, "\nNSpid:", false, (unsigned long)pid),
      .user = (uid_t)number_in_status(status, "\nUid:", true, owner),
      .owner = owner,
      .intruder = intruder};
  free(status);
}

bool gp_target_has_user(const gp_target_t *target, uid_t user)
{
  return user == target->user || user == target->owner;
}
