#include "base/control_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_BYTES 46 /* "/." pid "-" start "-" space: 10, 20 and 10 digits */

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == GP_CONTROL_PATH_BYTES, "a path fits");

static char *format(char *buffer, size_t room, const char *root, const char *runtime_folder, uid_t user)
{
  int length = runtime_folder ? snprintf(buffer, room, "%s%s/gpupool", root, runtime_folder)
                              : snprintf(buffer, room, "%s/tmp/gpupool.%u", root, (unsigned)user);
  if (length < 0 || (size_t)length >= room)
    buffer[0] = '\0';
  return buffer;
}

char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer)
{
  const size_t room = GP_CONTROL_PATH_BYTES - NAME_BYTES;
  if (runtime_folder && runtime_folder[0] == '/' && format(buffer, room, root, runtime_folder, user)[0])
    return buffer;
  return format(buffer, room, root, NULL, user);
}

char *gp_control_path(
    const char *folder, const char *prefix, pid_t pid, uint64_t start, uint64_t space, char *buffer)
{
  int length = snprintf(buffer, GP_CONTROL_PATH_BYTES, "%s/%s%d-%llu-%llu", folder, prefix, (int)pid,
      (unsigned long long)start, (unsigned long long)space);
  if (length < 0 || length >= GP_CONTROL_PATH_BYTES)
    buffer[0] = '\0';
  return buffer;
}

uint64_t gp_process_start(pid_t pid)
{
  char text[1024];
  if (pid == 0)
    strcpy(text, "/proc/self/stat");
  else
    snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
  int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t length = read(fd, text, sizeof(text) - 1);
  (void)close(fd); /* opened for reading only */
  if (length <= 0)
    return 0;
  text[length] = '\0';
  /* The second field, the name in parentheses, may hold anything; the start is the 22nd. */
  const char *p = strrchr(text, ')');
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t gp_process_space(void)
{
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool gp_control_is_served(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return true; /* unknown: assume so */
  memcpy(address.sun_path, path, strlen(path) + 1);
  int error = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? errno : 0;
  (void)close(fd); /* nothing was written */
  errno = EADDRINUSE;
  return error != ECONNREFUSED && error != ENOENT;
}

bool gp_control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start)
{
  char *end;
  if (*name == '.')
    name++;
  unsigned long pid = strtoul(name, &end, 10);
  if (end == name || *end != '-' || pid > INT32_MAX)
    return false;
  name = end + 1;
  *ret_pid = (pid_t)pid;
  *ret_start = strtoull(name, &end, 10);
  if (end == name || *end != '-')
    return end != name && *end == '\0';
  name = end + 1;
  (void)strtoull(name, &end, 10);
  return end != name && *end == '\0';
}

unsigned gp_control_remove_stale(const char *folder)
{
  unsigned removed = 0;
  DIR *listing = opendir(folder);
  if (!listing)
    return 0;
  for (const struct dirent *entry; (entry = readdir(listing));) {
    char path[GP_CONTROL_PATH_BYTES];
    pid_t pid;
    uint64_t start;
    int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= sizeof(path) || !gp_control_name_parse(entry->d_name, &pid, &start) ||
        gp_process_start(pid) == start || gp_control_is_served(path))
      continue;
    removed += unlink(path) == 0;
  }
  (void)closedir(listing); /* opened for reading only */
  return removed;
}
